//! A gate that closes at random: the control for gates that watch something.
//!
//! **What it does.** A gate may help only because it makes fewer updates. This one makes about as many, and knows
//! nothing: at the second use of a batch and at each later one, it closes with a fixed chance.
//!
//! **Formula.** With `u` uniform in [0, 1):
//!
//! ```text
//! closed if u < chance, at the second use of a batch or later
//! ```
//!
//! So of at most `K` uses, `(1 - (1 - chance)^K) / chance` are made on average.
//!
//! **Conventions.** `u` is a hash of the bits of the whole gradient's norm and of the number of proposals before, so
//! that it differs between seeds of a run and is the same after a resume.
//!
//! **Reduces to.** `chance = 0`: every use is applied. `chance = 1`: only the first is. Both to the bit.
//!
//! **Differs from the paper.** There is none.
//!
//! **References.** None: it is ours.

use burnish_core::rng::{bits, uniform};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Gate, Proposal, Ruling};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// The gate that closes at random. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RandomStop {
    /// The chance that it closes at a use after the first. Default: 0.5.
    pub chance: f64,
    /// How many proposals it has ruled on.
    #[serde(skip)]
    proposals: u64,
}

impl Default for RandomStop {
    fn default() -> Self {
        RandomStop { chance: 0.5, proposals: 0 }
    }
}

impl Part for RandomStop {
    const CARD: Card = Card {
        id: "random_stop",
        title: "Gate that closes at random",
        family: Family::Gate,
        paper: "None: a control",
        equation: "closed if u < chance, u uniform, at the second use of a batch or later",
        scope: "batch",
        check: Check::Oracle("the mean number of uses, from the geometric distribution"),
        reconstructed: None,
        reduces_to: &["every use of a batch, for chance = 0", "the first use only, for chance = 1"],
        file: "crates/burnish-rl/src/gate/random_stop.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("chance", self.chance, |chance| (0.0..=1.0).contains(&chance), "must be from 0 to 1")
    }
}

impl Gate for RandomStop {
    fn rule(&mut self, reuse: usize, proposal: &Proposal) -> Ruling {
        let drawn = uniform(bits(proposal.grad_norm.to_bits(), self.proposals), 0);
        self.proposals += 1;
        Ruling { is_open: reuse < 2 || drawn >= self.chance, metrics: Vec::new() }
    }

    fn state(&self) -> Value {
        self.proposals.into()
    }

    fn restore(&mut self, state: &Value) -> Result<(), SettingError> {
        let wrong = || SettingError::new("gate", "the saved state is not one of `random_stop`".to_owned());
        self.proposals = state.as_u64().ok_or_else(wrong)?;
        Ok(())
    }
}
