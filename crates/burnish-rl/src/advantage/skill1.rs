//! Skill1: one outcome, from which the parts of an episode with a library of skills get credit of their own.
//!
//! **What it does.** An episode asks the library (a query), puts what it was given in an order, acts with the first skill, and
//! writes down a new one. All of it is the same policy, and each part is credited with what that part is good for.
//!
//! **Formula.** For turn `t` of rollout `i`, by its segment `s_it`, with `R_i` the rollout's reward and `r_it` the reward of its
//! segment:
//!
//! ```text
//! A_it = (R_i - mean_g(R)) / (std_g(R) + ε)                  asking and acting
//! A_it = λ_1·r_it                                            ordering: r is the NDCG of the order by the skills' utilities
//! A_it = λ_2·(r_it - mean_g(r)) / (std_g(r) + ε)             writing down: r = R_i - max utility of what was given
//! ```
//!
//! Standard deviations divide by n - 1. The mean of the last line is over the rollouts of the group that wrote a skill down, each
//! once.
//!
//! **Conventions.** A rollout without a reward counts in no mean, and gets no advantage. A segment without a reward (not finite)
//! has advantage 0: an order is worth the same as every other where all utilities are equal. A rollout without segments is one
//! that acts.
//!
//! **Reduces to.** GRPO with the same `ε`, the same number for each turn, where there are no other turns than of asking and acting.
//!
//! **Differs from the paper.** The paper says how each part is rewarded and normalised, but not what an order earns where all
//! utilities are equal: here, nothing. Its penalty for malformed answers is left out.
//!
//! **References.** Skill1, arXiv:2605.06130.

use serde::{Deserialize, Serialize};

use super::common::Normaliser;
use super::{Advantage, Estimator, Normalisation, Rollout, Rollouts};
use crate::fact::{Need, SEGMENT_REWARDS, SEGMENTS};
use crate::settings::require;
use crate::{Card, Check, Family, Part, SettingError};

/// The segment of a turn that asks the library, as a number of [`SEGMENTS`].
pub const ASKING: f64 = 0.0;
/// Of one that puts in order what it was given.
pub const ORDERING: f64 = 1.0;
/// Of one that acts.
pub const ACTING: f64 = 2.0;
/// Of one that writes a skill down.
pub const WRITING: f64 = 3.0;

/// Credit by segments. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Skill1 {
    /// Weight of ordering (`λ_1`). Default: 0.3.
    pub ordering_weight: f64,
    /// Weight of writing down (`λ_2`). Default: 0.3.
    pub writing_weight: f64,
    /// What is added to standard deviations. Default: 1e-6.
    pub epsilon: f64,
}

impl Default for Skill1 {
    fn default() -> Self {
        Skill1 { ordering_weight: 0.3, writing_weight: 0.3, epsilon: 1e-6 }
    }
}

impl Part for Skill1 {
    const CARD: Card = Card {
        id: "skill1",
        title: "Skill1: credit by what a turn does with a library of skills",
        family: Family::Advantage,
        paper: "Skill1, arXiv:2605.06130",
        equation: "GRPO for asking and acting, λ_1·NDCG for ordering, λ_2·norm_g(R - max U) for writing down",
        scope: "group",
        check: Check::Oracle("plain Python, from the formulas"),
        reconstructed: None,
        reduces_to: &["GRPO, where there are no other turns than of asking and acting"],
        file: "crates/burnish-rl/src/advantage/skill1.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        for (key, value) in [
            ("ordering_weight", self.ordering_weight),
            ("writing_weight", self.writing_weight),
            ("epsilon", self.epsilon),
        ] {
            require(key, value, |value| value >= 0.0, "must be 0 or more")?;
        }
        Ok(())
    }
}

impl Estimator for Skill1 {
    fn needs(&self) -> Vec<Need> {
        Need::all(&[&SEGMENTS, &SEGMENT_REWARDS])
    }

    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        rollouts.by_group(|group| {
            let whole = Normalisation::MeanStd.by(group.scored(), self.epsilon);
            let scored = group.all.iter().filter(|rollout| rollout.score().is_some());
            let mut written: Vec<f64> = scored.filter_map(written).collect();
            written.sort_by(f64::total_cmp);
            let written = Normalisation::MeanStd.by(written, self.epsilon);
            let credit = |rollout: &Rollout| Some(self.credit(rollout, whole.of(rollout.score()?), &written));
            group.all.iter().map(credit).collect()
        })
    }
}

impl Skill1 {
    fn credit(&self, rollout: &Rollout, whole: f64, written: &Normaliser) -> Advantage {
        let segments = rollout.facts.of(&SEGMENTS);
        if segments.is_empty() {
            return Advantage::Whole(whole);
        }
        let turn = |(segment, reward): (&f64, &f64)| match *segment {
            ORDERING if reward.is_finite() => self.ordering_weight * reward,
            WRITING if reward.is_finite() => self.writing_weight * written.of(*reward),
            ORDERING | WRITING => 0.0,
            _ => whole,
        };
        Advantage::Steps(segments.iter().zip(rollout.facts.of(&SEGMENT_REWARDS)).map(turn).collect())
    }
}

/// The reward of the first turn that writes a skill down, if there is one.
fn written(rollout: &Rollout) -> Option<f64> {
    let turns = rollout.facts.of(&SEGMENTS).iter().zip(rollout.facts.of(&SEGMENT_REWARDS));
    turns
        .filter(|(segment, reward)| **segment == WRITING && reward.is_finite())
        .map(|(_, reward)| *reward)
        .next()
}
