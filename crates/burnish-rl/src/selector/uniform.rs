//! Every task as often as every other: passes over the set, each in its own order.
//!
//! **What it does.** Takes the candidates as they come. A run draws only as many as it plays, so this is what a run
//! without a selector does.
//!
//! **Formula.** Task `i` of a pass is the `i`-th of a random permutation that depends on the run's seed and the number
//! of the pass.
//!
//! **Reduces to.** Nothing simpler.
//!
//! **Differs from the frameworks.** None: they also shuffle the whole set once per epoch.
//!
//! **References.** Common practice.

use serde::{Deserialize, Serialize};

use super::Selector;
use crate::{Card, Check, Family, Part, SettingError};

/// Passes over the set. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Uniform {}

impl Part for Uniform {
    const CARD: Card = Card {
        id: "uniform",
        title: "Uniform",
        family: Family::Selector,
        paper: "common practice",
        equation: "passes over the set, each in its own order",
        scope: "task",
        check: Check::Oracle("none needed: the candidates as they come"),
        reconstructed: None,
        reduces_to: &[],
        file: "crates/burnish-rl/src/selector/uniform.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        Ok(())
    }
}

impl Selector for Uniform {
    fn choose(&self, pool: &[&str], count: usize, _rollouts: usize, _seed: u64) -> Vec<usize> {
        (0..count.min(pool.len())).collect()
    }
}
