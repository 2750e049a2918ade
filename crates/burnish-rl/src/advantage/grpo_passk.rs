//! Pass@k training: only the best of a group is credited, with what it adds to the group's maximum.
//!
//! **What it does.** Trains for the best of `k` answers instead of the mean: the credit of a rollout is what the
//! group's maximum would lose without it.
//!
//! **Formula.** With `R_(1) ≥ R_(2)` the two highest rewards of the group:
//!
//! ```text
//! A_i = (R_(1) - R_(2)) / (std_g + ε)   for the best
//! A_i = 0                               for the others
//! ```
//!
//! `std_g` is the standard deviation of the group (n - 1); without `scale_by_std` there is no division.
//!
//! **Conventions.** A rollout without a reward counts as absent, and gets no advantage. If two share the best reward,
//! or there is only one member, nobody adds anything: 0.
//!
//! **Reduces to.** With groups of two and no scaling, the positive part of RLOO: `max(R_i - R_j, 0)`.
//!
//! **Differs from the paper.** Tang et al. do not divide; verl does unless `norm_adv_by_std_in_grpo = false`, and it
//! refuses groups of one.
//!
//! **References.** Tang et al. 2025, Optimizing Language Models for Inference Time Objectives using Reinforcement
//! Learning, arXiv:2503.19595.

use serde::{Deserialize, Serialize};

use super::common::{centred, std};
use super::{Advantage, Estimator, Rollouts};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// What the best adds. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpoPassk {
    /// Is the credit divided by the standard deviation of the group? Default: true, as in verl.
    pub scale_by_std: bool,
    /// What is added to the standard deviation. Default: 1e-6, as in verl.
    pub epsilon: f64,
}

impl Default for GrpoPassk {
    fn default() -> Self {
        GrpoPassk { scale_by_std: true, epsilon: 1e-6 }
    }
}

impl Part for GrpoPassk {
    const CARD: Card = Card {
        id: "grpo_passk",
        title: "Pass@k: credit for the best of the group",
        family: Family::Advantage,
        paper: "Tang et al. 2025, Optimizing Language Models for Inference Time Objectives, arXiv:2503.19595",
        equation: "(R_(1) - R_(2)) / (std_g + ε) for the best of the group, 0 for the others",
        scope: "group",
        check: Check::Golden("verl 0.9 compute_grpo_passk_outcome_advantage"),
        reconstructed: None,
        reduces_to: &["the positive part of RLOO, with groups of two and no scaling"],
        file: "crates/burnish-rl/src/advantage/grpo_passk.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("epsilon", self.epsilon, |epsilon| epsilon >= 0.0, "must be 0 or more")
    }
}

impl Estimator for GrpoPassk {
    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        rollouts.by_group(|group| {
            let members = group.scored();
            let (best, gain) = match members[..] {
                [.., second, best] => (best, best - second),
                _ => (0.0, 0.0),
            };
            let divisor =
                if self.scale_by_std { std(&members, 1).unwrap_or(0.0) + self.epsilon } else { 1.0 };
            centred(group, |reward| if reward == best { gain / divisor } else { 0.0 })
        })
    }
}
