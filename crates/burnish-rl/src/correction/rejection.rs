//! Rejection: tokens, or whole sequences, that are too far from the policy that sampled them.
//!
//! **Formula.** With `x[t]` the log-ratio of the correction, of the training policy to the behavior, clamped to ±20,
//!
//! ```text
//! k1 = -x        k2 = x² / 2        k3 = exp(x) - 1 - x
//! ```
//!
//! A statistic is a number per token (`token_*`), or one number for all tokens of a sequence: their sum, mean or
//! maximum (`seq_sum_*`, `seq_mean_*`, `seq_max_*`). A token is kept where its statistic is within the bounds:
//!
//! ```text
//! log min ≤ k1 ≤ log max        k2, k3 ≤ max
//! ```
//!
//! So the bounds of `k1` are ratios of the *behavior* to the training policy (for `seq_mean_k1`, of the geometric mean
//! over the tokens). The bounds themselves are allowed.
//!
//! **Differs from the frameworks.** Not from verl 0.9.1, whose names these are. In both, a lower bound that is left out
//! is `1 / max`. SkyRL's `sequence_mask_metric = "geometric"` is `seq_mean_k1`, `"product"` is `seq_sum_k1`, with
//! bounds of the inverse ratio. For more settings of other frameworks, see the table of [`crate::correction`].

use serde::{Deserialize, Serialize};

use crate::SettingError;
use crate::settings::require;

/// One criterion. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rejection {
    /// What is measured.
    pub statistic: Statistic,
    /// The lower bound of a `k1`, a ratio; 0 (default) is one over `max`. The others have none.
    #[serde(default)]
    pub min: f64,
    /// The upper bound: of a `k1` a ratio, of the others in nats.
    pub max: f64,
}

/// What is measured of a token or of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it: see the head of this file")]
pub enum Statistic {
    TokenK1,
    TokenK2,
    TokenK3,
    SeqSumK1,
    SeqSumK2,
    SeqSumK3,
    SeqMeanK1,
    SeqMeanK2,
    SeqMeanK3,
    SeqMaxK2,
    SeqMaxK3,
}

/// What a statistic describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Each token.
    Token,
    /// A sequence: the sum over its tokens.
    Sum,
    /// A sequence: the mean over its tokens.
    Mean,
    /// A sequence: the maximum over its tokens.
    Max,
}

#[derive(Clone, Copy, PartialEq)]
enum Estimator {
    K1,
    K2,
    K3,
}

/// What a log-ratio is clamped to.
const LOG_RATIO_MAX: f64 = 20.0;

impl Statistic {
    /// What it describes.
    pub fn scope(self) -> Scope {
        match self {
            Statistic::TokenK1 | Statistic::TokenK2 | Statistic::TokenK3 => Scope::Token,
            Statistic::SeqSumK1 | Statistic::SeqSumK2 | Statistic::SeqSumK3 => Scope::Sum,
            Statistic::SeqMeanK1 | Statistic::SeqMeanK2 | Statistic::SeqMeanK3 => Scope::Mean,
            Statistic::SeqMaxK2 | Statistic::SeqMaxK3 => Scope::Max,
        }
    }

    fn estimator(self) -> Estimator {
        match self {
            Statistic::TokenK1 | Statistic::SeqSumK1 | Statistic::SeqMeanK1 => Estimator::K1,
            Statistic::TokenK2 | Statistic::SeqSumK2 | Statistic::SeqMeanK2 | Statistic::SeqMaxK2 => {
                Estimator::K2
            }
            Statistic::TokenK3 | Statistic::SeqSumK3 | Statistic::SeqMeanK3 | Statistic::SeqMaxK3 => {
                Estimator::K3
            }
        }
    }

    /// The name in a recipe.
    pub fn name(self) -> &'static str {
        match self {
            Statistic::TokenK1 => "token_k1",
            Statistic::TokenK2 => "token_k2",
            Statistic::TokenK3 => "token_k3",
            Statistic::SeqSumK1 => "seq_sum_k1",
            Statistic::SeqSumK2 => "seq_sum_k2",
            Statistic::SeqSumK3 => "seq_sum_k3",
            Statistic::SeqMeanK1 => "seq_mean_k1",
            Statistic::SeqMeanK2 => "seq_mean_k2",
            Statistic::SeqMeanK3 => "seq_mean_k3",
            Statistic::SeqMaxK2 => "seq_max_k2",
            Statistic::SeqMaxK3 => "seq_max_k3",
        }
    }

    /// The statistic of each token of a sequence with these log-ratios.
    pub fn values(self, log_ratios: &[f64]) -> Vec<f64> {
        let token = |log_ratio: &f64| {
            let x = log_ratio.clamp(-LOG_RATIO_MAX, LOG_RATIO_MAX);
            match self.estimator() {
                Estimator::K1 => -x,
                Estimator::K2 => 0.5 * x * x,
                Estimator::K3 => x.exp_m1() - x,
            }
        };
        let tokens: Vec<f64> = log_ratios.iter().map(token).collect();
        let whole = match self.scope() {
            Scope::Token => return tokens,
            Scope::Sum => tokens.iter().sum(),
            Scope::Mean => tokens.iter().sum::<f64>() / tokens.len().max(1) as f64,
            Scope::Max => tokens.iter().copied().fold(0.0, f64::max),
        };
        vec![whole; tokens.len()]
    }
}

impl Rejection {
    /// # Errors
    /// If a bound is out of range, or given where there is none.
    pub fn check(&self) -> Result<(), SettingError> {
        let name = self.statistic.name();
        let rule = format!("must have a `max` above 0 for `{name}`");
        require("correction.reject", self.max, |max| max > 0.0, &rule)?;
        let (least, rule) = match self.statistic.estimator() {
            Estimator::K1 => {
                (self.max, format!("must have a `min` of 0 (one over `max`) to `max` for `{name}`"))
            }
            Estimator::K2 | Estimator::K3 => {
                (0.0, format!("must have no `min` for `{name}`, which is never negative"))
            }
        };
        require("correction.reject", self.min, |min| (0.0..=least).contains(&min), &rule)?;
        if self.min_ratio() <= self.max {
            return Ok(());
        }
        let problem = format!("must have a `min` for `{name}` where `max` is below 1");
        Err(SettingError::new("correction.reject", problem))
    }

    fn min_ratio(&self) -> f64 {
        if self.min > 0.0 || self.statistic.estimator() != Estimator::K1 { self.min } else { 1.0 / self.max }
    }

    /// Clears `kept` for the tokens that are out of bounds, in a sequence with these log-ratios.
    pub fn reject(&self, log_ratios: &[f64], kept: &mut [bool]) {
        let bounds = match self.statistic.estimator() {
            Estimator::K1 => self.min_ratio().ln()..=self.max.ln(),
            Estimator::K2 | Estimator::K3 => f64::NEG_INFINITY..=self.max,
        };
        for (kept, value) in kept.iter_mut().zip(self.statistic.values(log_ratios)) {
            *kept &= bounds.contains(&value);
        }
    }
}
