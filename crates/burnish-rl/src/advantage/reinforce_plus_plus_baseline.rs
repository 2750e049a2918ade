//! REINFORCE++ with a baseline: the distance from the group's mean, standardised over the step.
//!
//! **What it does.** Compares each rollout with the mean of its group, as GRPO does, but divides by one standard
//! deviation for all groups, so that an easy task does not count more than others.
//!
//! **Formula.**
//!
//! ```text
//! a_i = R_i - mean_g
//! A_i = (a_i - mean) / sqrt(variance + 1e-8)
//! ```
//!
//! Mean and variance (n - 1) are those of all sampled tokens of the step, each with its rollout's `a`.
//!
//! **Conventions.** A rollout without a reward counts in no mean, and gets no advantage. The members of a group whose
//! rewards are all equal have `a = 0`, and count in the second mean.
//!
//! **Reduces to.** With `whiten = none`, GRPO without scaling. REINFORCE++ with `γ = 1`, where all groups have the
//! same mean.
//!
//! **Differs from the paper.** It does not. verl leaves the raw reward of a group of one as its `a`; here it is 0.
//! verl's second mean divides by the token count plus 1e-8.
//!
//! **References.** Hu 2025 (REINFORCE++), arXiv:2501.03262, the variant "w/ baseline".

use serde::{Deserialize, Serialize};

use super::{Advantage, Estimator, Grpo, Rollouts, Whiten};
use crate::{Card, Check, Family, Part};

/// The standardised distance from the mean. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReinforcePlusPlusBaseline {
    /// How the distances of a step are standardised together. Default: `tokens`.
    pub whiten: Whiten,
}

impl Part for ReinforcePlusPlusBaseline {
    const CARD: Card = Card {
        id: "reinforce_plus_plus_baseline",
        title: "REINFORCE++ with the group's mean as baseline",
        family: Family::Advantage,
        paper: "Hu 2025, REINFORCE++, arXiv:2501.03262",
        equation: "(a_i - mean) / sqrt(variance + 1e-8), a_i = R_i - mean_g, over all tokens of the step",
        scope: "batch",
        check: Check::Golden("verl 0.9 compute_reinforce_plus_plus_baseline_outcome_advantage"),
        reconstructed: None,
        reduces_to: &["GRPO without scaling, without whitening"],
        file: "crates/burnish-rl/src/advantage/reinforce_plus_plus_baseline.rs",
    };
}

impl Estimator for ReinforcePlusPlusBaseline {
    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        self.whiten.apply(Grpo::unscaled().advantages(rollouts), rollouts)
    }
}
