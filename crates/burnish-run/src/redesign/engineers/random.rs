//! Chance: each key gets a value of its menu, all equally likely.

use burnish_core::rng::{Address, Purpose, Stream};

use super::proposal;
use crate::RunError;
use crate::redesign::{Brief, Engineer};
use crate::seeds::Draws;

/// Menus may have combinations for which there are no tasks.
const ATTEMPTS_MAX: usize = 50;

pub(super) struct Random;

impl Engineer for Random {
    fn attempts(&self) -> usize {
        ATTEMPTS_MAX
    }

    fn propose(&mut self, brief: &Brief<'_>, attempt: usize) -> Result<String, RunError> {
        let address = Address {
            stage: Draws::Design.stage(),
            step: brief.context.round as u64,
            turn: attempt as u64,
            ..Address::new(brief.seed, Purpose::Perturb)
        };
        let mut stream = Stream::new(address.seed());
        let mut values = Vec::new();
        for knob in &brief.context.knobs {
            values.push((knob, knob.menu[stream.index(knob.menu.len())]));
        }
        Ok(proposal("Every value was drawn.", values))
    }
}
