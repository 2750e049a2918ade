//! GRPO: the clipped surrogate of PPO with an advantage per sequence, and a penalty for leaving the
//! reference.
//!
//! **What it does.** Raises the probability of tokens with a positive advantage and lowers that of others,
//! until the policy has moved by a set ratio from where the update began.
//!
//! **Formula.** For each token with a loss mask, in nats, with `lp` the policy's log-probability, `old` the
//! proximal, `ref` the reference's, `A` the advantage:
//!
//! ```text
//! r  = exp(lp - old)
//! ℓ  = -min(r·A, clip(r, 1 - ε_low, 1 + ε_high)·A) + β·kl
//! kl = r·k      (or k alone, without `use_bias_correction_kl`)
//! ```
//!
//! with `k` an estimator of [`crate::kl`], by default `k3 = exp(ref - lp) - (ref - lp) - 1`; the token losses are
//! divided as [`crate::aggregation`] says and added.
//!
//! **Derivative.** `∂ℓ/∂lp = -r·A` where the token is not clipped, 0 where it is, plus `β` times `∂kl/∂lp`, that is
//! `r·(k + ∂k/∂lp)` (for k3: `-r·(ref - lp)`), or `∂k/∂lp` alone. A token is clipped if `r > 1 + ε_high` and
//! `A > 0`, or `r < 1 - ε_low` and `A < 0`. `A = 0` gives exactly 0, however extreme `r` is. Nothing else is
//! clamped: for `A < 0` the loss grows with `r` without bound.
//!
//! At the kink, `r` exactly on a bound, a token is *not* clipped: the derivative is that of the side within
//! the region. torch 2.15 gives half of that on a bound (`min` halves the gradient between its equal
//! arguments, and `clamp` passes none at its bounds), even on the bound where nothing is clipped and both
//! sides agree. So the two differ only where a bound is hit to the last bit; not on the first inner step,
//! where every `r` is exactly 1, unless `ε = 0`.
//!
//! **Reduces to.** REINFORCE with the group's baseline on the first inner step (`lp = old`): `r` is exactly
//! 1, the derivative exactly `-A` over the denominator. PPO's policy loss for `ε_low = ε_high` and `β = 0`.
//!
//! **Differs from the paper.** `ε_high` is DAPO's. The defaults are TRL's: `β = 0`, `dapo` aggregation. The
//! paper averages over each sequence and does not correct the KL: `aggregation = "grpo"`, `beta = 0.04`,
//! `use_bias_correction_kl = false`.
//!
//! **Metrics**, named and defined as in TRL 1.16, each the mean over loss tokens: `clip_ratio/low_mean`,
//! `clip_ratio/high_mean`, `clip_ratio/region_mean`, `entropy`, and `kl` (of the formula) where `β > 0`. With
//! no entropy bonus, TRL's `policy_loss` is the loss.
//!
//! **Example.**
//! ```
//! use burnish_rl::{Objective, Streams, Totals, aggregation::Aggregation, grpo::{Grpo, GrpoConfig}};
//! let grpo = Grpo::new(GrpoConfig { aggregation: Aggregation::Grpo, ..GrpoConfig::default() });
//! let (policy, entropy) = ([-0.5, -1.5], [0.0; 2]);
//! let streams = Streams {
//!     policy: &policy, proximal: &policy, behavior: &policy, reference: None, entropy: &entropy,
//!     advantage: &[2.0, 2.0], loss_mask: &[true, true], sequences: &[0..2],
//! };
//! let totals = Totals {
//!     sequences: 1, tokens: 2, tokens_generation: 2, minibatches: 1, completion_tokens_max: 2,
//! };
//! let evaluation = grpo.evaluate(&streams, &totals);
//! assert_eq!((evaluation.loss, evaluation.d_policy), (-2.0, vec![-1.0, -1.0]));
//! ```
//!
//! **References.** Shao et al. 2024 (GRPO), arXiv:2402.03300, eq. 3 and 4. Schulman et al. 2017 (PPO),
//! arXiv:1707.06347, eq. 7. Yu et al. 2025 (DAPO), arXiv:2503.14476, eq. 10. The correction of the KL: DeepSeek-AI
//! 2025 (DeepSeek-V3.2), arXiv:2512.02556.

use crate::aggregation::Aggregation;
use crate::config::{ConfigError, require};
use crate::kl::{AdaptiveKl, KlEstimator};
use crate::{Evaluation, Metric, Needs, Objective, Streams, Totals};
use serde::{Deserialize, Serialize};

/// Settings of [`Grpo`], and of what a run does around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpoConfig {
    /// How far the ratio may fall below 1 before a token with a negative advantage stops to count; 1 is no
    /// limit. Default: 0.2.
    pub epsilon_low: f64,
    /// How far the ratio may rise above 1 before a token with a positive advantage stops to count. Default:
    /// 0.2, whatever `epsilon_low` is.
    pub epsilon_high: f64,
    /// Weight of the KL divergence to the reference; 0 (default) needs no reference.
    pub beta: f64,
    /// What stands for the KL divergence of a token. Default: `k3`.
    pub kl_estimator: KlEstimator,
    /// Is the KL multiplied by the ratio? With k1 and k3 its expected gradient is then that of the KL divergence,
    /// under whatever policy the tokens were sampled; see [`crate::kl`]. Default: true, as in TRL 1.16 (earlier
    /// versions and the paper: false).
    pub use_bias_correction_kl: bool,
    /// Is the KL of a sequence taken off its reward before groups are compared, instead of standing in the loss?
    /// [`Grpo`] then knows no reference. Default: false.
    pub use_kl_in_reward: bool,
    /// How a run changes `beta` from step to step. Default: not at all.
    pub adaptive_kl: AdaptiveKl,
    /// Does a run leave answers that were cut off out of the loss and out of token counts? They still count as
    /// sequences, and their rewards in their groups, as in TRL. Default: false.
    pub mask_truncated_completions: bool,
    /// How token losses become one number. Default: `dapo`.
    pub aggregation: Aggregation,
}

impl Default for GrpoConfig {
    fn default() -> Self {
        GrpoConfig {
            epsilon_low: 0.2,
            epsilon_high: 0.2,
            beta: 0.0,
            kl_estimator: KlEstimator::K3,
            use_bias_correction_kl: true,
            use_kl_in_reward: false,
            adaptive_kl: AdaptiveKl::default(),
            mask_truncated_completions: false,
            aggregation: Aggregation::default(),
        }
    }
}

impl GrpoConfig {
    /// # Errors
    /// If a value is out of range.
    pub fn check(&self) -> Result<(), ConfigError> {
        require("epsilon_low", self.epsilon_low, |low| (0.0..=1.0).contains(&low), "must be 0 to 1")?;
        require("epsilon_high", self.epsilon_high, |high| high >= 0.0, "must be 0 or more")?;
        require("beta", self.beta, |beta| beta >= 0.0, "must be 0 or more")?;
        self.adaptive_kl.check()?;
        self.check_kl()
    }

    /// Refuses what would have no effect, or another than it says.
    fn check_kl(&self) -> Result<(), ConfigError> {
        let refused = |key, problem: String| Err(ConfigError { key, problem });
        if self.beta == 0.0 {
            let key = if self.use_kl_in_reward {
                "use_kl_in_reward"
            } else if self.adaptive_kl.is_on() {
                "adaptive_kl.target_kl"
            } else {
                return Ok(());
            };
            return refused(key, "needs `beta` above 0: there is no KL penalty otherwise".into());
        }
        let estimator = self.kl_estimator;
        if self.use_kl_in_reward && estimator != KlEstimator::K1 {
            let problem = format!(
                "must be \"k1\" with `use_kl_in_reward`: as a reward, \"{}\" costs about the same on either side of \
                 the reference, so its gradient does not lead there",
                estimator.name()
            );
            return refused("kl_estimator", problem);
        }
        if !self.use_kl_in_reward && estimator == KlEstimator::K1 && !self.use_bias_correction_kl {
            let problem = "must not be \"k1\" without `use_bias_correction_kl`: the expectation of its gradient is \
                           zero, so it would only add noise; \"k2\" has the gradient of the KL";
            return refused("kl_estimator", problem.into());
        }
        Ok(())
    }

    /// The weight of the KL in the loss, 0 where it stands in the reward.
    pub fn beta_in_loss(&self) -> f64 {
        if self.use_kl_in_reward { 0.0 } else { self.beta }
    }
}

/// The objective. See the head of this module.
#[derive(Debug, Clone, PartialEq)]
pub struct Grpo {
    config: GrpoConfig,
}

impl Grpo {
    /// The objective of a configuration that [`GrpoConfig::check`] accepts.
    pub fn new(config: GrpoConfig) -> Self {
        Grpo { config }
    }
}

impl Objective for Grpo {
    fn needs(&self) -> Needs {
        Needs { reference: self.config.beta_in_loss() != 0.0 }
    }

    /// # Panics
    /// If `beta` is not 0 and the streams have no reference, which [`Objective::needs`] asks for.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let GrpoConfig { epsilon_low, epsilon_high, kl_estimator, aggregation, .. } = self.config;
        let beta = self.config.beta_in_loss();
        assert!(beta == 0.0 || streams.reference.is_some(), "beta is {beta}: the streams need a reference");
        let reference = streams.reference.filter(|_| beta != 0.0);

        let mut evaluation = Evaluation::zero(streams.policy.len());
        let mut means = Means::default();
        for sequence in streams.sequences {
            let sequence_tokens = streams.loss_positions(sequence.clone()).count();
            let denominator = aggregation.denominator(sequence_tokens, totals);
            for at in streams.loss_positions(sequence.clone()) {
                let log_ratio = streams.policy[at] - streams.proximal[at];
                let surrogate =
                    clipped_surrogate(log_ratio, streams.advantage[at], epsilon_low, epsilon_high);
                let (mut value, mut derivative) = (surrogate.value, surrogate.derivative);
                if let Some(reference) = reference {
                    let (policy, reference) = (streams.policy[at], reference[at]);
                    let (kl, d_kl) = if self.config.use_bias_correction_kl {
                        kl_estimator.evaluate_corrected(policy, reference, log_ratio)
                    } else {
                        kl_estimator.evaluate(policy, reference)
                    };
                    value += beta * kl;
                    derivative += beta * d_kl;
                    means.kl += kl;
                }
                evaluation.loss += value / denominator;
                evaluation.d_policy[at] = derivative / denominator;
                means.entropy += streams.entropy[at];
                means.clipped_low += f64::from(surrogate.clipped == Some(Bound::Low));
                means.clipped_high += f64::from(surrogate.clipped == Some(Bound::High));
                means.tokens += 1.0;
            }
        }
        evaluation.metrics = means.metrics(reference.is_some());
        evaluation
    }
}

/// Which bound of the region a token has crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Low,
    High,
}

struct Surrogate {
    value: f64,
    /// With respect to the policy's log-probability.
    derivative: f64,
    clipped: Option<Bound>,
}

/// `-min(r·A, clip(r)·A)` for one token.
fn clipped_surrogate(log_ratio: f64, advantage: f64, epsilon_low: f64, epsilon_high: f64) -> Surrogate {
    // An infinite ratio times 0 would be NaN.
    if advantage == 0.0 {
        return Surrogate { value: 0.0, derivative: 0.0, clipped: None };
    }
    let ratio = log_ratio.exp();
    let (low, high) = (1.0 - epsilon_low, 1.0 + epsilon_high);
    if advantage > 0.0 && ratio > high {
        return Surrogate { value: -high * advantage, derivative: 0.0, clipped: Some(Bound::High) };
    }
    if advantage < 0.0 && ratio < low {
        return Surrogate { value: -low * advantage, derivative: 0.0, clipped: Some(Bound::Low) };
    }
    // r = exp(lp - old) is its own derivative.
    let value = -ratio * advantage;
    Surrogate { value, derivative: value, clipped: None }
}

/// Sums over loss tokens.
#[derive(Default)]
struct Means {
    tokens: f64,
    entropy: f64,
    kl: f64,
    clipped_low: f64,
    clipped_high: f64,
}

impl Means {
    fn metrics(&self, with_kl: bool) -> Vec<Metric> {
        let mut sums = vec![
            ("entropy", self.entropy),
            ("clip_ratio/low_mean", self.clipped_low),
            ("clip_ratio/high_mean", self.clipped_high),
            ("clip_ratio/region_mean", self.clipped_low + self.clipped_high),
        ];
        if with_kl {
            sums.push(("kl", self.kl));
        }
        sums.into_iter().map(|(name, sum)| Metric { name, sum, weight: self.tokens }).collect()
    }
}
