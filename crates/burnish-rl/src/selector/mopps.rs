//! MoPPS: the tasks whose success rate, drawn from the belief about it, is nearest to a target.
//!
//! **What it does.** Keeps a Beta distribution over the success rate of each task ([`crate::belief`]), draws a rate
//! from each (Thompson sampling), and takes the tasks nearest to the target. Draws for a task about which little is
//! known vary widely, so it is tried now and then.
//!
//! **Formula.** With `γ` the target rate:
//!
//! ```text
//! γ_τ ~ Beta(α_τ, β_τ)          the M tasks of least |γ_τ - γ|
//! α ← λα + (1 - λ)α₀ + successes        β ← λβ + (1 - λ)β₀ + failures
//! ```
//!
//! **Conventions.** A draw depends on the seed and on the task's id, not on the pool around it.
//!
//! **Reduces to.** With `pool_factor = 1` the tasks of `uniform`, in another order. With the target ½, and much
//! evidence everywhere, the tasks of `difficulty`.
//!
//! **Differs from the paper.** Its authors set the pool and λ for each experiment. Here the pool is InSight's, so that
//! the two can be compared, and nothing fades by default.
//!
//! **Reconstructed.** How evidence fades with `decay` below 1.
//!
//! **References.** Qu et al. 2025 (MoPPS), arXiv:2507.04632.

use burnish_core::rng::{Stream, bits, fold_bytes};
use serde::{Deserialize, Serialize};

use super::common::{self, POOL_FACTOR, Scored};
use crate::belief::Beliefs;
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// Thompson sampling towards a success rate. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mopps {
    /// `γ`: the target success rate. Default: 0.5.
    pub target: f64,
    /// Candidates per task that is played. Default: 16.
    pub pool_factor: usize,
    /// The beliefs about the tasks.
    pub beliefs: Beliefs,
}

impl Default for Mopps {
    fn default() -> Self {
        Mopps { target: 0.5, pool_factor: POOL_FACTOR, beliefs: Beliefs::fading_to_prior() }
    }
}

impl Part for Mopps {
    const CARD: Card = Card {
        id: "mopps",
        title: "MoPPS",
        family: Family::Selector,
        paper: "Qu et al. 2025, MoPPS, arXiv:2507.04632",
        equation: "the least |γ_τ - γ|, with γ_τ drawn from Beta(α, β)\n\
                   α ← λα + (1 - λ)α₀ + successes, β ← λβ + (1 - λ)β₀ + failures",
        scope: "task",
        check: Check::Oracle("the distribution of draws against mpmath's incomplete beta function"),
        reconstructed: Some("how evidence fades with `beliefs.decay` below 1; off by default"),
        reduces_to: &["`difficulty`, with much evidence everywhere"],
        file: "crates/burnish-rl/src/selector/mopps.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("target", self.target, |target| (0.0..=1.0).contains(&target), "must be 0 to 1")?;
        common::check(self)
    }
}

impl Scored for Mopps {
    common::settings!();

    fn scores(&self, pool: &[&str], _rollouts: usize, seed: u64) -> Vec<f64> {
        let score = |task: &&str| {
            let of_task = bits(seed, fold_bytes(task.len() as u64, task.as_bytes()));
            -(self.beliefs.of(task).draw(&mut Stream::new(of_task)) - self.target).abs()
        };
        pool.iter().map(score).collect()
    }
}
