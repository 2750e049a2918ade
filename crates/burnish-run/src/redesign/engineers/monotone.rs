//! A curriculum: in every round each key moves towards what is harder, whatever the policy does. Its control: what an
//! engineer that reads failures gains beyond harder tasks.

use burnish_env::redesign::{Harder, Knob, KnobKind};
use burnish_recipe::RuleSection;

use super::proposal;
use crate::RunError;
use crate::redesign::{Brief, Engineer};

pub(super) struct Monotone {
    pub(super) rule: RuleSection,
}

impl Engineer for Monotone {
    /// Of each share, `rule.shift` goes to the next harder one; other keys move `rule.places` in their menus.
    fn propose(&mut self, brief: &Brief<'_>, _: usize) -> Result<String, RunError> {
        let present = brief.context.present();
        let mut values: Vec<(&Knob, f64)> = Vec::new();
        for (at, (knob, value)) in present.iter().enumerate() {
            if knob.kind != KnobKind::Share {
                values.extend(knob.moved(*value, self.rule.places as i64).map(|moved| (*knob, moved)));
                continue;
            }
            if knob.harder == Harder::Unknown {
                continue;
            }
            let is_own = |other: &&(&Knob, f64)| other.0.kind == KnobKind::Share && other.0.of == knob.of;
            let easier = present[..at].iter().rev().find(is_own).map_or(0.0, |(_, share)| *share);
            let is_hardest = !present[at + 1..].iter().any(|other| is_own(&other));
            let stays = if is_hardest { *value } else { value * (1.0 - self.rule.shift) };
            values.push((knob, stays + easier * self.rule.shift));
        }
        Ok(proposal("Everything becomes harder.", values))
    }
}
