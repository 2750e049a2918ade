//! REINFORCE++: the return of each token, standardised over everything sampled in the step.
//!
//! **What it does.** There is no baseline per task: the whole batch is the baseline, so groups may have one member.
//!
//! **Formula.** With `T` the sampled tokens of a rollout, the reward `R` at the last of them:
//!
//! ```text
//! G_t = γ^(T - 1 - t)·R         t = 0, …, T - 1
//! A_t = (G_t - mean) / sqrt(variance + 1e-8)
//! ```
//!
//! Mean and variance (n - 1) are those of all tokens of the step.
//!
//! **Conventions.** With `γ = 1` a rollout has one advantage for all of its tokens. A rollout without a reward counts
//! in no mean, and gets no advantage. A step in which all returns are equal has advantages of exactly 0.
//!
//! **Reduces to.** With `γ = 1`, the standardised reward, the same for all tokens of a rollout. With `whiten = none`
//! as well, REINFORCE: `A_t = R`.
//!
//! **Differs from the paper.** There, and in verl, the KL penalty of each token is part of that token's reward; here
//! `loss.use_kl_in_reward` subtracts the sum over the sequence from `R`. verl's mean divides by the token count plus
//! 1e-8.
//!
//! **References.** Hu 2025 (REINFORCE++), arXiv:2501.03262.

use serde::{Deserialize, Serialize};

use super::{Advantage, Estimator, Rollout, Rollouts, Whiten};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// The standardised return. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReinforcePlusPlus {
    /// What a reward is worth one token earlier. Default: 1.
    pub gamma: f64,
    /// How the returns of a step are standardised together. Default: `tokens`.
    pub whiten: Whiten,
}

impl Default for ReinforcePlusPlus {
    fn default() -> Self {
        ReinforcePlusPlus { gamma: 1.0, whiten: Whiten::Tokens }
    }
}

impl Part for ReinforcePlusPlus {
    const CARD: Card = Card {
        id: "reinforce_plus_plus",
        title: "REINFORCE++",
        family: Family::Advantage,
        paper: "Hu 2025, REINFORCE++, arXiv:2501.03262",
        equation: "(γ^(T-1-t)·R - mean) / sqrt(variance + 1e-8), over all tokens of the step",
        scope: "batch",
        check: Check::Golden("verl 0.9 compute_reinforce_plus_plus_outcome_advantage"),
        reconstructed: None,
        reduces_to: &["the standardised reward, with γ = 1", "REINFORCE, with γ = 1 and no whitening"],
        file: "crates/burnish-rl/src/advantage/reinforce_plus_plus.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("gamma", self.gamma, |gamma| (0.0..=1.0).contains(&gamma), "must be 0 to 1")
    }
}

impl ReinforcePlusPlus {
    fn returns(&self, rollout: &Rollout) -> Option<Advantage> {
        let mut following = rollout.score()?;
        if self.gamma == 1.0 {
            return Some(Advantage::Whole(following));
        }
        let mut returns = vec![0.0; rollout.tokens];
        for earlier in returns.iter_mut().rev() {
            *earlier = following;
            following *= self.gamma;
        }
        Some(Advantage::Tokens(returns))
    }
}

impl Estimator for ReinforcePlusPlus {
    fn compares_within_groups(&self) -> bool {
        false
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let returns = rollouts.all.iter().map(|rollout| self.returns(rollout)).collect();
        self.whiten.apply(returns, rollouts)
    }
}
