//! Pairwise difference: the share of siblings that a judge finds worse, minus the group's mean share.
//!
//! **What it does.** A judge that only says which of two answers is better needs no scale. Each rollout is compared
//! with each of its siblings, and credited with the share of them that it beats.
//!
//! **Formula.** With `w_ij` 1 where the judge finds `i` better than `j`, 0 where worse, ½ for a tie (or the share of
//! several judgements):
//!
//! ```text
//! s_i = mean over siblings j ≠ i of w_ij
//! A_i = s_i - mean_g(s)
//! ```
//!
//! **Conventions.** A rollout without a reward counts as absent, and gets no advantage. A judgement that is missing or
//! not finite counts in no share. A rollout without any judgement counts in no mean and has an advantage of exactly 0;
//! so has every member if all shares are equal, and a group of one.
//!
//! **Reduces to.** For a judge of all pairs without contradictions (`w_ij + w_ji = 1`), the mean share is ½, and `A_i`
//! is half the mean *difference* `w_ij - w_ji`: ±½ or 0 in groups of two.
//!
//! **Reconstructed.** That the share is centred and not scaled is our choice. The idea of a win rate within the group
//! in place of a reward is Pref-GRPO's, which then divides by the standard deviation (`scale_by_std = true`).
//!
//! **Differs from the paper.** See above; by default there is no division.
//!
//! **References.** Wang et al. 2025 (Pref-GRPO), arXiv:2508.20751.

use serde::{Deserialize, Serialize};

use super::common::{mean, scored, std, varies};
use super::{Advantage, Estimator, Rollouts};
use crate::fact::{Need, WINS};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// The share of siblings beaten. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PairwiseDifference {
    /// Is the distance divided by the standard deviation (n - 1) of the group's shares? Default: false.
    pub scale_by_std: bool,
    /// What is added to the standard deviation. Default: 1e-4.
    pub epsilon: f64,
}

impl Default for PairwiseDifference {
    fn default() -> Self {
        PairwiseDifference { scale_by_std: false, epsilon: 1e-4 }
    }
}

impl Part for PairwiseDifference {
    const CARD: Card = Card {
        id: "pairwise_difference",
        title: "Share of siblings beaten",
        family: Family::Advantage,
        paper: "after Wang et al. 2025, Pref-GRPO, arXiv:2508.20751",
        equation: "s_i - mean_g(s), s_i = mean over siblings j of w_ij",
        scope: "group",
        check: Check::Oracle("NumPy, from the formula"),
        reconstructed: Some("that shares are centred and, by default, not scaled"),
        reduces_to: &["half the mean difference w_ij - w_ji, for a judge without contradictions"],
        file: "crates/burnish-rl/src/advantage/pairwise_difference.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("epsilon", self.epsilon, |epsilon| epsilon >= 0.0, "must be 0 or more")
    }
}

impl Estimator for PairwiseDifference {
    fn needs(&self) -> Vec<Need> {
        Need::all(&[&WINS])
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        rollouts.by_group(|group| {
            let shares: Vec<Option<f64>> = (0..group.all.len()).map(|at| share(group, at)).collect();
            let sorted = scored(shares.iter().copied());
            let mean = mean(&sorted).unwrap_or(0.0);
            let divisor = if self.scale_by_std { std(&sorted, 1).unwrap_or(0.0) + self.epsilon } else { 1.0 };
            let varies = varies(&sorted);
            let credit = |share: f64| if varies { (share - mean) / divisor } else { 0.0 };
            let members = group.all.iter().zip(shares);
            members
                .map(|(rollout, share)| rollout.score().map(|_| Advantage::Whole(share.map_or(0.0, credit))))
                .collect()
        })
    }
}

/// The share of its scored siblings that a member beats, among those it was compared with.
fn share(group: Rollouts<'_>, own: usize) -> Option<f64> {
    let rollout = group.all.get(own).filter(|rollout| rollout.score().is_some())?;
    let siblings = group.all.iter().enumerate().filter(|(at, other)| *at != own && other.score().is_some());
    mean(&scored(siblings.map(|(at, _)| rollout.facts.of(&WINS).get(at).copied())))
}
