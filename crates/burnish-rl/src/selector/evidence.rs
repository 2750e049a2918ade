//! Inverse evidence: the tasks about which least is known.
//!
//! **What it does.** Takes the tasks that were played least, whatever the outcome: a control that has InSight's
//! exploration without its preference for difficulty.
//!
//! **Formula.** With the belief Beta(α, β) ([`crate::belief`]), the highest
//!
//! ```text
//! 1 / n          n = α + β
//! ```
//!
//! **Reduces to.** With `decay = 1`, the fewest rollouts first: passes over the pool, as `uniform`. With
//! `pool_factor = 1` the tasks of `uniform`, in another order.
//!
//! **Differs from the paper.** The second factor of InSight's proposition 5.1 is `1/(n + 1)²`, which has the same
//! order.
//!
//! **References.** InSight, arXiv:2603.01907, section 5: a baseline.

use serde::{Deserialize, Serialize};

use super::common::{self, POOL_FACTOR, Scored};
use crate::belief::Beliefs;
use crate::{Card, Check, Family, Part, SettingError};

/// Least evidence first. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Evidence {
    /// Candidates per task that is played. Default: 16.
    pub pool_factor: usize,
    /// The beliefs about the tasks.
    pub beliefs: Beliefs,
}

impl Default for Evidence {
    fn default() -> Self {
        Evidence { pool_factor: POOL_FACTOR, beliefs: Beliefs::default() }
    }
}

impl Part for Evidence {
    const CARD: Card = Card {
        id: "evidence",
        title: "Inverse evidence",
        family: Family::Selector,
        paper: "InSight, arXiv:2603.01907: a baseline",
        equation: "the highest 1/n, with n = α + β",
        scope: "task",
        check: Check::Oracle("enumeration"),
        reconstructed: None,
        reduces_to: &["the fewest rollouts first, with `beliefs.decay` 1"],
        file: "crates/burnish-rl/src/selector/evidence.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        common::check(self)
    }
}

impl Scored for Evidence {
    common::settings!();

    fn scores(&self, pool: &[&str], _rollouts: usize, _seed: u64) -> Vec<f64> {
        pool.iter().map(|task| self.beliefs.of(task).evidence().recip()).collect()
    }
}
