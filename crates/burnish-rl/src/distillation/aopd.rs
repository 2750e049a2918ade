//! AOPD: on-policy distillation that shows the way where it would only push away.
//!
//! **What it does.** On-policy distillation lowers the probability of a sampled token that the teacher likes less than
//! the student does, and its mass goes to whatever the student likes anyway. AOPD treats tokens that the teacher likes
//! more in the same way as on-policy distillation; at all others it pulls the student's distribution towards the
//! teacher's likeliest tokens instead.
//!
//! **Formula.** For each token, with `b` the log-probability under the policy that sampled it
//! (`loss.correction.behavior` says which, [`crate::correction`]), `t` the teacher's log-probability in the streams,
//! `P` the teacher's and `Q` the student's distribution at its position, and `P̃` the teacher's over its `K` likeliest
//! tokens, normalised:
//!
//! ```text
//! ℓ = Σ_{v of K} P̃(v)·log(P̃(v)/Q(v))     where exp(t) - exp(b) ≤ τ: the gate
//! ℓ = that of `opd`, with A = t - b        elsewhere
//! ```
//!
//! and the loss is `Σ ℓ / D`, with `D` that of [`crate::aggregation`], by default the mean over the tokens of a
//! sequence, then over sequences.
//!
//! **Derivative.** Where the gate is on, with respect to the student's logits over the temperature: `Q - P̃` (with `P̃`
//! 0 outside of the `K`), which is 0 only where the distributions agree, whatever token was sampled. Elsewhere that of
//! [`super::Opd`]. The gate is a constant.
//!
//! **Reduces to.** `opd` for `τ = -1` (except for a token that has probability 0 under the teacher and 1 under the
//! student). Truncated on-policy forward KL for `τ = 1`, which is [`super::Gkd`] with `beta = 0`; exactly so if `K` is
//! the whole vocabulary. A student that equals its teacher has no gradient with the whole vocabulary; with fewer
//! tokens, the normalised `P̃` still pulls towards them.
//!
//! **Reconstructed.** Our sources do not give `K`: here it is 32. Nor do they say whether the student is normalised
//! over the `K` tokens: here it is not.
//!
//! **Differs from the paper.** `b` stands for the student also in the gate, which on policy is the same: at `τ = 0` the
//! gate is then on exactly where `A ≤ 0`. The value of a token where the gate is off is the surrogate of `opd`,
//! `-exp(lp - b)·A`, which on policy has the gradient of the paper's `-A·lp`.
//!
//! **Metrics.** Those of [`super::Opd`], `gate_mean` (the share of tokens at which the gate is on), and `head_loss`:
//! the mean of the divergence there.
//!
//! **References.** AOPD, arXiv:2605.06387. Forward KL on the student's own answers: Agarwal et al. 2023 (GKD),
//! arXiv:2306.13649.

use serde::{Deserialize, Serialize};

use super::head::{HeadEvaluation, HeadLoss, HeadTarget, Teacher};
use super::{Gkd, Opd, Rest, Surrogate};
use crate::aggregation::Aggregation;
use crate::settings::require;
use crate::{Card, Check, Evaluation, Family, Metric, Needs, Objective, Part, SettingError, Streams, Totals};

/// Asymmetric on-policy distillation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Aopd {
    /// τ: how far the teacher's probability of the token may exceed the student's for the gate to be on. Default: 0.
    pub tau: f64,
    /// K, how many of the teacher's likeliest tokens the student is pulled towards. Default: 32.
    pub top: usize,
    /// How an advantage becomes a loss where the gate is off. Default: `importance`.
    pub surrogate: Surrogate,
    /// With `clip`, how far the ratio may fall below 1. Default: 0.2.
    pub epsilon_low: f64,
    /// With `clip`, how far the ratio may rise above 1. Default: 0.2.
    pub epsilon_high: f64,
    /// What the sum over tokens is divided by. Default: `grpo`.
    pub aggregation: Aggregation,
}

impl Default for Aopd {
    fn default() -> Self {
        let Opd { surrogate, epsilon_low, epsilon_high, .. } = Opd::default();
        Aopd { tau: 0.0, top: 32, surrogate, epsilon_low, epsilon_high, aggregation: Aggregation::Grpo }
    }
}

impl Part for Aopd {
    const CARD: Card = Card {
        id: "aopd",
        title: "AOPD: asymmetric on-policy distillation",
        family: Family::Distillation,
        paper: "AOPD, 2026, arXiv:2605.06387",
        equation: "Σ_K P̃·log(P̃/Q) where exp(t) - exp(b) ≤ τ; else -exp(lp - b)·(t - b)",
        scope: "token",
        check: Check::Oracle("finite differences, and the expectation over every token of a vocabulary"),
        reconstructed: Some("K = 32; the student is not normalised over the K tokens"),
        reduces_to: &[
            "opd, for tau = -1",
            "gkd with beta = 0 on sampled tokens, for tau = 1 and every token",
            "no gradient for a student that is its teacher, with every token",
        ],
        file: "crates/burnish-rl/src/distillation/aopd.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("tau", self.tau, |tau| (-1.0..=1.0).contains(&tau), "must be -1 to 1")?;
        require("top", self.top as f64, |top| top >= 1.0, "must be 1 or more")?;
        self.opd().check()
    }
}

impl Aopd {
    fn opd(&self) -> Opd {
        let Aopd { surrogate, epsilon_low, epsilon_high, aggregation, .. } = *self;
        Opd { surrogate, epsilon_low, epsilon_high, aggregation, kl_coef: 1.0, reward_weight: 0.0 }
    }
}

impl Objective for Aopd {
    fn needs(&self) -> Needs {
        Needs { teacher: true, head: Some(HeadTarget::Top(self.top)), ..Needs::default() }
    }

    fn head(&self) -> Option<&dyn HeadLoss> {
        Some(self)
    }

    /// # Panics
    /// If the streams have no teacher.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let teacher = streams.teacher.unwrap_or_default();
        let is_gated = |at: usize| teacher[at].exp() - streams.behavior[at].exp() <= self.tau;
        let mut evaluation = self.opd().evaluate_but(streams, totals, &is_gated);
        let gated = evaluation.head_weights.iter().filter(|weight| **weight != 0.0).count();
        let tokens = streams.loss_positions(0..streams.policy.len()).count();
        evaluation.metrics.push(Metric { name: "gate_mean", sum: gated as f64, weight: tokens as f64 });
        evaluation
    }
}

impl HeadLoss for Aopd {
    /// # Panics
    /// As [`Gkd`].
    fn evaluate_row(&self, student_logits: &[f64], teacher: Teacher<'_>) -> HeadEvaluation {
        let forward = Gkd { beta: 0.0, rest: Rest::Ignore, ..Gkd::default() };
        match teacher {
            Teacher::Dense(_) => forward.evaluate_row(student_logits, teacher),
            Teacher::Sparse { ids, logprobs } => {
                let known = normalised(logprobs);
                forward.evaluate_row(student_logits, Teacher::Sparse { ids, logprobs: &known })
            }
        }
    }

    fn soft_labels(&self, logprobs: &[f64]) -> Option<Vec<f64>> {
        Some(normalised(logprobs).into_iter().map(f64::exp).collect())
    }
}

/// The log-probs, normalised so that the probabilities add up to 1; -∞ stays.
fn normalised(logprobs: &[f64]) -> Vec<f64> {
    let max = logprobs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logprobs.iter().map(|log| (log - max).exp()).sum();
    logprobs.iter().map(|log| log - max - total.ln()).collect()
}
