//! Both directions of a task, and a cycle check: an answer is coherent if it is right and leads back to the question.
//!
//! **What it does.** Of each task, `rollout.group_size` rollouts are sampled, and as many of the task turned round with
//! its right answer stated. The final answer of every success is then put into the other direction, which the same policy
//! answers greedily: where that gives back what was known, the cycle closes. One group has the rollouts of both
//! directions, and their reward is coherence, in place of the environment's own.
//!
//! **Formula.** With `rev(x, a)` the task `x` turned round with the answer `a` stated, `a*` its right answer and `u` what
//! turning it round masks:
//!
//! ```text
//! y_1..y_K ~ π(·|x)        y_{K+1}..y_{2K} ~ π(·|rev(x, a*))
//! coherent(y) = [y is right] · [greedy π(·|rev(x, answer of y)) gives u]
//! reward(y) = coherent(y)           (+ the environment's own, with keep_rewards)
//! ```
//!
//! Only successes are followed up: whatever else is not coherent. Equal follow-ups of a group are one. They are neither
//! trained on nor in the journal; their tokens count as sampled.
//!
//! **Reduces to.** No plan, for `reverse = false` and `cycle = false`: the same samples to the bit. With `reverse` the
//! forward rollouts are those without a plan, to the bit.
//!
//! **Differs from the paper.** There the pairs are made before training; here they are the policy's own, step by step.
//!
//! **Reconstructed.** The data construction, from RevThink and FOBAR: who samples the candidates, what is coherent and how
//! the cycle is checked.
//!
//! **References.** DGPO: Directional-Groupwise Preference Optimization 2026, arXiv:2605.10863. RevThink: arXiv:2411.19865.
//! FOBAR: arXiv:2308.07758.

use serde::{Deserialize, Serialize};

use super::{Cycle, RolloutPlan};
use crate::{Card, Check, Family, Part, SettingError};

/// Both directions of a task. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dgpo {
    /// Is the task turned round played too? Default: true.
    pub reverse: bool,
    /// Must the cycle close? Else every success is coherent. Default: true.
    pub cycle: bool,
    /// Does the environment's own reward count beside coherence? Default: false.
    pub keep_rewards: bool,
}

impl Default for Dgpo {
    fn default() -> Self {
        Dgpo { reverse: true, cycle: true, keep_rewards: false }
    }
}

impl Part for Dgpo {
    const CARD: Card = Card {
        id: "dgpo",
        title: "DGPO: both directions of a task, and a cycle check",
        family: Family::Plan,
        paper: "DGPO 2026, arXiv:2605.10863",
        equation: "coherent(y) = [y is right]·[greedy π(·|rev(x, answer of y)) gives what rev masks]",
        scope: "group",
        check: Check::Oracle("none: what is sampled is checked by policies whose answers are known"),
        reconstructed: Some("the data construction and the cycle check"),
        reduces_to: &["no plan, for reverse = false and cycle = false, to the bit"],
        file: "crates/burnish-rl/src/plan/dgpo.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        Ok(())
    }
}

impl RolloutPlan for Dgpo {
    fn cycle(&self) -> Option<Cycle> {
        let cycle = Cycle { reverse: self.reverse, closes: self.cycle, keeps_rewards: self.keep_rewards };
        (self.reverse || self.cycle).then_some(cycle)
    }
}
