//! How far a policy has moved from its reference: estimators of the KL divergence from one sampled token, and a
//! controller of its coefficient that holds it at a target.
//!
//! **What it does.** Estimates `KL(π ‖ π_ref)` from tokens that `π` sampled, to be added to a loss or subtracted from a
//! reward.
//!
//! **Formula.** With `lp` and `ref` the log-probabilities of the token, in nats, and `x = lp - ref`:
//!
//! | estimator | value | derivative by `lp` |
//! | --- | --- | --- |
//! | `k1` | `x` | `1` |
//! | `k2` | `x² / 2` | `x` |
//! | `k3` | `exp(-x) + x - 1` | `1 - exp(-x)` |
//! | `abs` | `\|x\|` | `sign(x)`, 0 at 0 |
//! | `k1+`, `k3+`, `abs+` | that of the name | `x`: that of `k2` |
//!
//! With `kl_clamp` = `c`, a value beyond `±c` becomes `±c` with a derivative of 0; the derivative of a `+` stays `x`.
//! Multiplied by the ratio `r = exp(lp - old)` (`use_bias_correction_kl`), value and derivative are `r·k` and
//! `r·(k + k')`; for an objective whose ratio is that of a sequence, see [`crate::PolicyLoss`].
//!
//! **Which to use.** A good estimate of the value need not have a good gradient. In expectation over tokens that the
//! policy sampled, the gradient that an estimator *in the loss* gives is
//!
//! | estimator | as it is | times the ratio |
//! | --- | --- | --- |
//! | `k1` | **zero** | that of the KL |
//! | `k2` | that of the KL, on policy | that of the mean of `x²/2` |
//! | `k3` | that of the *forward* KL, `KL(π_ref ‖ π)`, on policy | that of the KL |
//! | `abs` | that of `Σ π·\|x\|` where `π` is held fixed as the weight | that of the mean of `\|x\|` |
//!
//! So `k1` in the loss without the ratio only adds noise, and is refused. As a *reward*, only `k1` gives the gradient
//! of the KL: the others penalise a token that is too probable about as much as one that is too improbable, so the
//! penalty does not draw it to the reference. They are refused there. A `+` is for those who want to read the KL in the
//! loss and also have the gradient of the KL, on policy; multiplied by the ratio it would have another gradient, so
//! that is refused.
//!
//! **Adaptive coefficient.** With `kl` the mean over sequences of the mean over tokens, and `n` sequences:
//!
//! ```text
//! e  = clip((kl - target) / target, -0.2, 0.2)
//! β' = β · (1 + e·n / horizon)
//! ```
//!
//! **Differs from others.** verl clamps `k3` (`low_var_kl`) and nothing else to ±10: `kl_clamp = 10`. By default, as in
//! TRL 1.16, nothing is clamped. (verl also clamps the log-ratio of `k3` to ±20, but there `k3` is beyond 10 anyway.)
//! NeMo-RL clamps every estimator to ±10, and its log-ratio to ±20. verl accepts any estimator in the reward.
//!
//! **Example.**
//! ```
//! use burnish_rl::kl::{AdaptiveKl, KlEstimator};
//! assert_eq!(KlEstimator::K2.evaluate(-1.0, -3.0), (2.0, 2.0));
//! let adaptive = AdaptiveKl { target_kl: 0.1, horizon: 1000.0 };
//! assert_eq!(adaptive.next(0.5, 7.0, 100), 0.51); // far above the target: the error is clipped to 0.2
//! ```
//!
//! **References.** Schulman 2020, "Approximating KL divergence", <http://joschu.net/blog/kl-approx.html>. Gradients:
//! Tang and Munos 2025, arXiv:2506.09477. The controller: Ziegler et al. 2019, arXiv:1909.08593, section 2.2;
//! `n / horizon` in place of its constant is from the authors' code, and from verl's.

use crate::SettingError;
use crate::settings::require;
use serde::{Deserialize, Serialize};

/// An estimator of the KL divergence from one token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlEstimator {
    /// The log-ratio: unbiased, may be negative.
    K1,
    /// Half its square: biased, never negative.
    K2,
    /// Unbiased and never negative.
    #[default]
    K3,
    /// The magnitude of the log-ratio.
    Abs,
    /// The value of `k1`, the derivative of `k2`.
    #[serde(rename = "k1+")]
    K1Plus,
    /// The value of `k3`, the derivative of `k2`.
    #[serde(rename = "k3+")]
    K3Plus,
    /// The value of `abs`, the derivative of `k2`.
    #[serde(rename = "abs+")]
    AbsPlus,
}

impl KlEstimator {
    /// Value and derivative with respect to `policy`, for a token with log-probabilities `policy` and `reference`, in
    /// nats. Both are exactly 0 where the two agree, except for the derivative of `k1`, which is 1 everywhere.
    pub fn evaluate(self, policy: f64, reference: f64) -> (f64, f64) {
        let x = policy - reference;
        match self {
            KlEstimator::K1 => (x, 1.0),
            KlEstimator::K2 => (0.5 * x * x, x),
            KlEstimator::K3 => {
                let log_ratio = reference - policy;
                let ratio_minus_1 = log_ratio.exp_m1();
                (ratio_minus_1 - log_ratio, -ratio_minus_1)
            }
            KlEstimator::Abs if x == 0.0 => (0.0, 0.0),
            KlEstimator::Abs => (x.abs(), x.signum()),
            KlEstimator::K1Plus | KlEstimator::K3Plus | KlEstimator::AbsPlus => {
                (self.plain().evaluate(policy, reference).0, x)
            }
        }
    }

    /// The estimator of the value.
    fn plain(self) -> Self {
        match self {
            KlEstimator::K1Plus => KlEstimator::K1,
            KlEstimator::K3Plus => KlEstimator::K3,
            KlEstimator::AbsPlus => KlEstimator::Abs,
            KlEstimator::K1 | KlEstimator::K2 | KlEstimator::K3 | KlEstimator::Abs => self,
        }
    }

    /// Does its derivative belong to another estimator than its value?
    pub fn is_plus(self) -> bool {
        self.plain() != self
    }

    /// As [`KlEstimator::evaluate`], with the magnitude of the value bounded by `clamp`; 0 is no bound.
    pub fn evaluate_clamped(self, policy: f64, reference: f64, clamp: f64) -> (f64, f64) {
        let (value, derivative) = self.evaluate(policy, reference);
        match clamp > 0.0 && value.abs() > clamp {
            true if self.is_plus() => (value.clamp(-clamp, clamp), derivative),
            true => (value.clamp(-clamp, clamp), 0.0),
            false => (value, derivative),
        }
    }

    /// The name in a recipe.
    pub fn name(self) -> &'static str {
        match self {
            KlEstimator::K1 => "k1",
            KlEstimator::K2 => "k2",
            KlEstimator::K3 => "k3",
            KlEstimator::Abs => "abs",
            KlEstimator::K1Plus => "k1+",
            KlEstimator::K3Plus => "k3+",
            KlEstimator::AbsPlus => "abs+",
        }
    }
}

/// A value and its derivative with respect to the policy's log-probability, times the ratio `exp(log_ratio)`, which
/// depends on that log-probability too.
pub fn times_ratio((value, derivative): (f64, f64), log_ratio: f64) -> (f64, f64) {
    let ratio = log_ratio.exp();
    (ratio * value, ratio * (value + derivative))
}

/// How the coefficient of the KL divergence follows a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdaptiveKl {
    /// The KL divergence to hold, in nats per token; 0 (default) leaves the coefficient as it is.
    pub target_kl: f64,
    /// Sequences over which an error of 0.2, the largest that counts, changes the coefficient by a fifth. Default:
    /// 10000, as in verl.
    pub horizon: f64,
}

impl Default for AdaptiveKl {
    fn default() -> Self {
        AdaptiveKl { target_kl: 0.0, horizon: 10_000.0 }
    }
}

/// The proportional error is clipped to this, either way.
const ERROR_MAX: f64 = 0.2;

impl AdaptiveKl {
    /// Does the coefficient change at all?
    pub fn is_on(&self) -> bool {
        self.target_kl > 0.0
    }

    /// The coefficient after a batch of `sequences` whose KL divergence was `kl` under the coefficient `coef`. It stays
    /// `coef` if this is off or nothing was measured.
    pub fn next(&self, coef: f64, kl: f64, sequences: usize) -> f64 {
        if !self.is_on() || sequences == 0 {
            return coef;
        }
        let error = (kl / self.target_kl - 1.0).clamp(-ERROR_MAX, ERROR_MAX);
        coef * (1.0 + error * sequences as f64 / self.horizon)
    }

    /// # Errors
    /// If a value is out of range.
    pub fn check(&self) -> Result<(), SettingError> {
        require("adaptive_kl.target_kl", self.target_kl, |target| target >= 0.0, "must be 0 (off) or more")?;
        require("adaptive_kl.horizon", self.horizon, |horizon| horizon > 0.0, "must be above 0")
    }

    /// Refuses a horizon so short that a batch of `sequences` could make the coefficient 0 or negative.
    ///
    /// # Errors
    /// If it is; the error says which horizon is long enough.
    pub fn check_batch(&self, sequences: usize) -> Result<(), SettingError> {
        let least = ERROR_MAX * sequences as f64;
        if !self.is_on() || self.horizon > least {
            return Ok(());
        }
        Err(SettingError {
            key: "adaptive_kl.horizon".to_owned(),
            problem: format!(
                "must be above {least}, a fifth of the {sequences} sequences of a step, or the coefficient could fall \
                 to 0, not {}",
                self.horizon
            ),
        })
    }
}
