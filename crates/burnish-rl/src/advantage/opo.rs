//! OPO: the group's length-weighted mean as baseline, which has the least variance under a simple assumption.
//!
//! **What it does.** Compares each reward with the mean of its group, in which a rollout counts once per token. If the
//! gradients of tokens are independent and of equal size, the squared norm of a rollout's gradient grows with its
//! length, and this is the baseline with the least variance of the policy gradient.
//!
//! **Formula.** With `L` the sampled tokens of a rollout:
//!
//! ```text
//! A_i = R_i - Σ_j L_j·R_j / Σ_j L_j
//! ```
//!
//! **Conventions.** A rollout without a reward counts in no mean, and gets no advantage. A group whose scored rewards
//! are all equal (such as a group of one) has advantages of exactly 0. A group without any token takes the plain mean.
//!
//! **Reduces to.** The mean of the group as baseline (GRPO without scaling) where all lengths are equal.
//!
//! **Differs from the paper.** It does not. verl gives a group of one its raw reward.
//!
//! **References.** Hao et al. 2025 (OPO), arXiv:2505.23585.

use serde::{Deserialize, Serialize};

use super::common::{centred, mean, sum};
use super::{Advantage, Estimator, Rollouts};
use crate::{Card, Check, Family, Part};

/// The distance from the length-weighted mean. See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Opo {}

impl Part for Opo {
    const CARD: Card = Card {
        id: "opo",
        title: "OPO: length-weighted baseline",
        family: Family::Advantage,
        paper: "Hao et al. 2025, On-Policy RL with Optimal Reward Baseline, arXiv:2505.23585",
        equation: "R_i - Σ_j L_j·R_j / Σ_j L_j",
        scope: "group",
        check: Check::Golden("verl 0.9 compute_opo_outcome_advantage"),
        reconstructed: None,
        reduces_to: &["GRPO without scaling, where all lengths are equal"],
        file: "crates/burnish-rl/src/advantage/opo.rs",
    };
}

impl Estimator for Opo {
    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        rollouts.by_group(|group| {
            let members = || group.all.iter().filter_map(|own| Some((own.score()?, own.tokens as f64)));
            let tokens = sum(members().map(|(_, tokens)| tokens));
            let weighted = sum(members().map(|(reward, tokens)| tokens * reward));
            let mean = || mean(&group.scored()).unwrap_or(0.0);
            let baseline = if tokens > 0.0 { weighted / tokens } else { mean() };
            centred(group, |reward| reward - baseline)
        })
    }
}
