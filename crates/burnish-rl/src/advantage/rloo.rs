//! REINFORCE with a leave-one-out baseline: each rollout is compared with the mean of its siblings.
//!
//! **What it does.** Subtracts from each reward the mean reward of the *other* members of the group: a baseline that
//! does not depend on the rollout itself, so the gradient stays unbiased.
//!
//! **Formula.** For rollout `i` of group `g` with `n` scored members:
//!
//! ```text
//! A_i = R_i - Σ_{j≠i} R_j / (n - 1) = (R_i - mean_g)·n/(n - 1)
//! ```
//!
//! **Conventions.** A rollout without a reward counts in no baseline, and gets no advantage. A group of one has no
//! baseline: 0, and it counts in no standardisation.
//!
//! **Reduces to.** GRPO without scaling times `n/(n - 1)`.
//!
//! **Differs from the paper.** It does not, with `whiten = none`, the default. TRL's `normalize_advantages` is
//! `whiten = rollouts`. verl's `rloo` gives a group of one its raw reward; its `rloo_vectorized` and TRL give 0, as
//! here.
//!
//! **References.** Ahmadian et al. 2024 (Back to Basics), arXiv:2402.14740. Kool et al. 2019, Buy 4 REINFORCE
//! Samples, Get a Baseline for Free.

use serde::{Deserialize, Serialize};

use super::{Advantage, Estimator, Grpo, Rollout, Rollouts, Whiten};
use crate::{Card, Check, Family, Part};

/// The leave-one-out advantage. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rloo {
    /// How the advantages of a step are standardised together. Default: `none`.
    pub whiten: Whiten,
}

impl Default for Rloo {
    fn default() -> Self {
        Rloo { whiten: Whiten::None }
    }
}

impl Part for Rloo {
    const CARD: Card = Card {
        id: "rloo",
        title: "Leave-one-out baseline",
        family: Family::Advantage,
        paper: "Ahmadian et al. 2024, Back to Basics, arXiv:2402.14740",
        equation: "R_i - Σ_{j≠i} R_j / (n - 1)",
        scope: "group",
        check: Check::Golden("TRL 1.16 RLOOTrainer; verl 0.9 compute_rloo_outcome_advantage"),
        reconstructed: None,
        reduces_to: &["GRPO without scaling times n/(n - 1)"],
        file: "crates/burnish-rl/src/advantage/rloo.rs",
    };
}

impl Estimator for Rloo {
    fn advantages(&self, rollouts: &Rollouts<'_>) -> Vec<Option<Advantage>> {
        let factor = |group: Rollouts<'_>| {
            let count = group.scored().len() as f64;
            vec![(count > 1.0).then(|| count / (count - 1.0)); group.all.len()]
        };
        let factors = rollouts.each_group().flat_map(factor);
        let centred = Grpo::unscaled().advantages(rollouts).into_iter();
        let left_out = centred.zip(factors).map(|(own, factor)| {
            let factor = factor?;
            own.map(|own| own.map(|value| value * factor))
        });
        let credit = self.whiten.apply(left_out.collect(), rollouts).into_iter().zip(rollouts.all);
        let or_nothing = |(own, rollout): (Option<Advantage>, &Rollout)| {
            rollout.score().map(|_| own.unwrap_or(Advantage::Whole(0.0)))
        };
        credit.map(or_nothing).collect()
    }
}
