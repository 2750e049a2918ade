//! Expected difficulty: the tasks whose expected success rate is nearest to one half.
//!
//! **What it does.** Keeps a Beta distribution over the success rate of each task ([`crate::belief`]), and takes the
//! tasks whose next rollout is the least certain. Only the mean of the belief counts, not how well the rate is known.
//!
//! **Formula.** With `φ̄ = α / (α + β)`, the highest
//!
//! ```text
//! φ̄ (1 - φ̄)
//! ```
//!
//! **Conventions.** A task that was never played is at the prior's mean, which with the default prior is the best there
//! is.
//!
//! **Reduces to.** With `pool_factor = 1` the tasks of `uniform`, in another order.
//!
//! **Differs from the paper.** Nothing: it is the first factor of InSight's proposition 5.1, `φ̄(1 - φ̄) / (n + 1)²`,
//! and a baseline there.
//!
//! **References.** InSight, arXiv:2603.01907, section 5.

use serde::{Deserialize, Serialize};

use super::common::{self, POOL_FACTOR, Scored};
use crate::belief::Beliefs;
use crate::{Card, Check, Family, Part, SettingError};

/// The variance of the next rollout. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Difficulty {
    /// Candidates per task that is played. Default: 16.
    pub pool_factor: usize,
    /// The beliefs about the tasks.
    pub beliefs: Beliefs,
}

impl Default for Difficulty {
    fn default() -> Self {
        Difficulty { pool_factor: POOL_FACTOR, beliefs: Beliefs::default() }
    }
}

impl Part for Difficulty {
    const CARD: Card = Card {
        id: "difficulty",
        title: "Expected difficulty",
        family: Family::Selector,
        paper: "InSight, arXiv:2603.01907: a baseline",
        equation: "the highest φ̄(1 - φ̄), with φ̄ = α/(α + β)",
        scope: "task",
        check: Check::Oracle("enumeration"),
        reconstructed: None,
        reduces_to: &["the tasks of `uniform`, with `pool_factor` 1"],
        file: "crates/burnish-rl/src/selector/difficulty.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        common::check(self)
    }
}

impl Scored for Difficulty {
    common::settings!();

    fn scores(&self, pool: &[&str], _rollouts: usize, _seed: u64) -> Vec<f64> {
        pool.iter().map(|task| self.beliefs.of(task).difficulty()).collect()
    }
}
