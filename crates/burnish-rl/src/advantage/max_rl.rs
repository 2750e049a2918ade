//! MaxRL: the distance from the group's mean in units of that mean, so that rare successes count more.
//!
//! **What it does.** Dividing by the mean instead of the standard deviation makes the gradient that of a truncated
//! series of `log p`, the likelihood of success, in place of `p`: a task that is solved in a share `p` of all tries
//! weighs about `1/p`.
//!
//! **Formula.**
//!
//! ```text
//! A_i = (R_i - mean_g) / mean_g     where mean_g > 0
//! A_i = 0                           where mean_g ≤ 0
//! ```
//!
//! **Conventions.** A rollout without a reward counts in no mean, and gets no advantage. A group whose scored rewards
//! are all equal (such as a group of one) has advantages of exactly 0.
//!
//! **Reduces to.** GRPO without scaling, divided by the mean. For rewards of 0 and 1 and a share `p` of successes:
//! `1/p - 1` for a success, `-1` for a failure.
//!
//! **Differs from the paper.** The paper means rewards of 0 and 1; other rewards of 0 or more keep the formula, as in
//! prime-rl. With negative rewards, the mean is no measure of success and may be close to 0.
//!
//! **References.** Tajwar et al. 2026 (MaxRL), arXiv:2602.02710.

use serde::{Deserialize, Serialize};

use super::common::{centred, mean};
use super::{Advantage, Estimator, Rollouts};
use crate::{Card, Check, Family, Part};

/// The distance from the mean in units of the mean. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MaxRl {}

impl Part for MaxRl {
    const CARD: Card = Card {
        id: "max_rl",
        title: "MaxRL: mean-normalised advantage",
        family: Family::Advantage,
        paper: "Tajwar et al. 2026, Maximum Likelihood Reinforcement Learning, arXiv:2602.02710",
        equation: "(R_i - mean_g) / mean_g; 0 where mean_g ≤ 0",
        scope: "group",
        check: Check::Oracle("NumPy, from prime-rl's max_rl"),
        reconstructed: None,
        reduces_to: &["GRPO without scaling, divided by the mean"],
        file: "crates/burnish-rl/src/advantage/max_rl.rs",
    };
}

impl Estimator for MaxRl {
    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        rollouts.by_group(|group| {
            let mean = mean(&group.scored()).unwrap_or(0.0);
            centred(group, |reward| if mean > 0.0 { (reward - mean) / mean } else { 0.0 })
        })
    }
}
