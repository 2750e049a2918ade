//! On-policy distillation: the teacher grades every token that the student sampled.
//!
//! **What it does.** The student answers, and the teacher's log-prob of each of its tokens is subtracted from the
//! student's own. That difference, an estimate of the reverse KL divergence at that position, is a negative reward for
//! that token alone. One number per token from the teacher is enough.
//!
//! **Formula.** For each token, with `lp` the policy's log-probability, `old` the proximal, `b` that of the policy that
//! sampled it (`loss.correction.behavior` says which, [`crate::correction`]), `t` the teacher's of the streams, `A_env`
//! the advantage of the streams:
//!
//! ```text
//! A = w·A_env - c·(b - t)                               c = `kl_coef`, w = `reward_weight`
//! ℓ = -exp(lp - b)·A                                    `surrogate = "importance"`
//! ℓ = -min(r·A, clip(r, 1 - ε_low, 1 + ε_high)·A)       `surrogate = "clip"`, r = exp(lp - old)
//! ```
//!
//! and the loss is `Σ ℓ / D`, with `D` that of [`crate::aggregation`]. `A` is a constant of the derivative: each token
//! answers only for its own position, not for where it leads (a discount of 0).
//!
//! **Derivative.** `-r·A` where the token is not clipped, with `r = exp(lp - b)` or `exp(lp - old)`, 0 where it is. On
//! a bound a token is not clipped.
//!
//! **Reduces to.** REINFORCE with a per-token advantage where the policy has not moved; in expectation over the token,
//! its gradient is then that of the reverse KL divergence at that position, which is [`super::Gkd`] with `beta = 1`.
//! With `c = 0`, `w = 1` and `clip` it is `ppo_clip`; with `c > 0` its gradient is, on policy, the sum of both. If the
//! teacher is the policy itself, given privileged context, this is OPSD, or with `w > 0` GRPO beside OPSD.
//!
//! **Differs from the source.** `importance` with `c = 1`, `w = 0` is Thinking Machines' (tinker-cookbook adds it to an
//! advantage from the environment, which is 0 there; it sums over tokens, which is `dr_grpo` up to a constant).
//! `clip` is its `loss_fn = "ppo"`, but with the ratio to the proximal policy; there it is to the sampler. Its
//! `kl_discount_factor`, which adds the differences of later tokens, is not here; it is 0 by default.
//!
//! **Metrics.** Means over loss tokens: `teacher_kl` (`b - t`, the cookbook's name), `entropy`, and with `clip`
//! `clip_ratio/low_mean`, `clip_ratio/high_mean`, `clip_ratio/region_mean`.
//!
//! **References.** Lu et al. 2025, On-Policy Distillation, Thinking Machines Lab (thinkingmachines.ai/blog). Gu et al.
//! 2023 (MiniLLM), arXiv:2306.08543. Agarwal et al. 2023 (GKD), arXiv:2306.13649.

use serde::{Deserialize, Serialize};

use crate::aggregation::Aggregation;
use crate::objective::clipped_surrogate;
use crate::settings::require;
use crate::{
    Bound, Card, Check, Evaluation, Family, Metric, Needs, Objective, Part, SettingError, Streams, Totals,
};

/// How a token's advantage becomes a loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Surrogate {
    /// The ratio to the policy that sampled, without a bound.
    #[default]
    Importance,
    /// PPO's, with the ratio to the proximal policy.
    Clip,
}

/// On-policy distillation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Opd {
    /// How an advantage becomes a loss. Default: `importance`.
    pub surrogate: Surrogate,
    /// Weight of the teacher. Default: 1.
    pub kl_coef: f64,
    /// Weight of the advantage from rewards. Default: 0, the teacher alone.
    pub reward_weight: f64,
    /// With `clip`, how far the ratio may fall below 1. Default: 0.2.
    pub epsilon_low: f64,
    /// With `clip`, how far the ratio may rise above 1. Default: 0.2.
    pub epsilon_high: f64,
    /// What the sum over tokens is divided by. Default: `dapo`.
    pub aggregation: Aggregation,
}

impl Default for Opd {
    fn default() -> Self {
        Opd {
            surrogate: Surrogate::Importance,
            kl_coef: 1.0,
            reward_weight: 0.0,
            epsilon_low: 0.2,
            epsilon_high: 0.2,
            aggregation: Aggregation::default(),
        }
    }
}

impl Part for Opd {
    const CARD: Card = Card {
        id: "opd",
        title: "On-policy distillation",
        family: Family::Distillation,
        paper: "Lu et al. 2025, On-Policy Distillation, Thinking Machines Lab",
        equation: "-exp(lp - b)·A, A = w·A_env - c·(b - t)",
        scope: "token",
        check: Check::Oracle("torch autograd on the published formula"),
        reconstructed: None,
        reduces_to: &[
            "the reverse KL of gkd, in expectation, on policy",
            "ppo_clip, for kl_coef = 0, reward_weight = 1 and surrogate = clip",
        ],
        file: "crates/burnish-rl/src/distillation/opd.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("kl_coef", self.kl_coef, |it| it >= 0.0, "must be 0 or more")?;
        require("reward_weight", self.reward_weight, |it| it >= 0.0, "must be 0 or more")?;
        require("epsilon_low", self.epsilon_low, |low| (0.0..=1.0).contains(&low), "must be 0 to 1")?;
        require("epsilon_high", self.epsilon_high, |high| high >= 0.0, "must be 0 or more")
    }
}

impl Opd {
    /// With a weight of 0, rewards need not exist.
    fn reward(&self, streams: &Streams<'_>, at: usize) -> f64 {
        if self.reward_weight == 0.0 { 0.0 } else { self.reward_weight * streams.advantage[at] }
    }

    /// Value, derivative, bound crossed.
    fn token(&self, streams: &Streams<'_>, at: usize, advantage: f64) -> (f64, f64, Option<Bound>) {
        // "No bound" is a bound that no ratio crosses.
        let (fixed, low, high) = match self.surrogate {
            Surrogate::Importance => (streams.behavior[at], 0.0, f64::INFINITY),
            Surrogate::Clip => (streams.proximal[at], 1.0 - self.epsilon_low, 1.0 + self.epsilon_high),
        };
        let ratio = (streams.policy[at] - fixed).exp();
        let (value, clipped) = clipped_surrogate(ratio, advantage, low, high);
        (value, if clipped.is_some() { 0.0 } else { value }, clipped)
    }
}

impl Opd {
    /// Evaluates the tokens that are not `left` to a head loss. Those that are left get the weight of their loss in
    /// [`Evaluation::head_weights`].
    ///
    /// # Panics
    /// If the streams have no teacher.
    pub(super) fn evaluate_but(
        &self,
        streams: &Streams<'_>,
        totals: &Totals,
        left: &dyn Fn(usize) -> bool,
    ) -> Evaluation {
        assert!(streams.teacher.is_some(), "on-policy distillation needs the teacher's log-probs");
        let teacher = streams.teacher.unwrap_or_default();
        let mut evaluation = Evaluation::zero(streams.policy.len());
        evaluation.head_weights = vec![0.0; streams.policy.len()];
        let (mut tokens, mut kl, mut entropy, mut low, mut high) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for sequence in streams.sequences {
            let count = streams.loss_positions(sequence.clone()).count();
            let denominator = self.aggregation.denominator(count, totals);
            for at in streams.loss_positions(sequence.clone()) {
                let excess = streams.behavior[at] - teacher[at];
                tokens += 1.0;
                kl += excess;
                entropy += streams.entropy[at];
                if left(at) {
                    evaluation.head_weights[at] = 1.0 / denominator;
                    continue;
                }
                let advantage = self.reward(streams, at) - self.kl_coef * excess;
                let (value, derivative, clipped) = self.token(streams, at, advantage);
                evaluation.loss += value / denominator;
                evaluation.d_policy[at] = derivative / denominator;
                low += f64::from(clipped == Some(Bound::Low));
                high += f64::from(clipped == Some(Bound::High));
            }
        }
        let mut sums = vec![("teacher_kl", kl), ("entropy", entropy)];
        if self.surrogate == Surrogate::Clip {
            sums.extend([
                ("clip_ratio/low_mean", low),
                ("clip_ratio/high_mean", high),
                ("clip_ratio/region_mean", low + high),
            ]);
        }
        evaluation.metrics =
            sums.into_iter().map(|(name, sum)| Metric { name, sum, weight: tokens }).collect();
        evaluation
    }
}

impl Objective for Opd {
    fn needs(&self) -> Needs {
        Needs { teacher: true, ..Needs::default() }
    }

    /// # Panics
    /// If the streams have no teacher.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        Evaluation { head_weights: Vec::new(), ..self.evaluate_but(streams, totals, &|_| false) }
    }
}
