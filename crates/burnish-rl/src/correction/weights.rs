//! Importance weights: how much more probable a token is under the training policy than under the policy that sampled
//! it.
//!
//! **Formula.** With `x[t]` the log-ratio of the correction over the `n` loss tokens of a sequence,
//!
//! ```text
//! u[t] = exp(x[t])            token
//! u[t] = exp(Σ_t x[t])        sequence
//! u[t] = exp(Σ_t x[t] / n)    geometric
//! w = clip(u, min, max)                     truncate
//! w = u where min ≤ u ≤ max, else 0         mask
//! ```
//!
//! With `batch_normalize`, `w` is divided by its mean over the optimiser batch if that is above 1e-8: for `token` the
//! mean over tokens, otherwise the mean over sequences that have a loss token. Weights of rejected tokens count in this
//! mean.
//!
//! **Which to use.** `sequence` is unbiased, but its variance grows with the length of answers; `token` ignores how the
//! state was reached, and varies little; `geometric` does not depend on the length, but estimates no probability.
//!
//! **Differs from the frameworks.** verl clamps every log-ratio, and the sum over a sequence, to ±20, which would only
//! show with a `max` above 4.8e8; it has no `geometric`, and its lower bound is always a mask. TRL's `max` is 3.

use serde::{Deserialize, Serialize};

use crate::SettingError;
use crate::settings::require;

/// Importance weights. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightConfig {
    /// What the ratio is taken over. Default: `none`.
    pub level: WeightLevel,
    /// What is done about a ratio out of bounds. Default: `truncate`.
    pub action: WeightAction,
    /// The least weight; 0 (default) is no bound.
    pub min: f64,
    /// The greatest weight. Default: 2, as in verl.
    pub max: f64,
    /// Are weights divided by their mean over the optimiser batch? Default: false.
    pub batch_normalize: bool,
}

/// What a ratio is taken over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightLevel {
    /// Every weight is 1.
    #[default]
    None,
    /// Each token.
    Token,
    /// The whole sequence.
    Sequence,
    /// The whole sequence, to the power of one over its length.
    Geometric,
}

/// What is done about a ratio that is out of bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WeightAction {
    /// It is set to the bound (TIS).
    #[default]
    Truncate,
    /// Its weight is 0 (IcePop).
    Mask,
}

impl Default for WeightConfig {
    fn default() -> Self {
        WeightConfig {
            level: WeightLevel::None,
            action: WeightAction::Truncate,
            min: 0.0,
            max: 2.0,
            batch_normalize: false,
        }
    }
}

/// A mean below this does not normalise anything.
const MEAN_MIN: f64 = 1e-8;

impl WeightConfig {
    /// Is anything weighted?
    pub fn is_on(&self) -> bool {
        self.level != WeightLevel::None
    }

    /// # Errors
    /// If a value is out of range.
    pub fn check(&self) -> Result<(), SettingError> {
        require("correction.weight.max", self.max, |max| max > 0.0, "must be above 0")?;
        let rule = format!("must be 0 (no bound) to {} (correction.weight.max)", self.max);
        require("correction.weight.min", self.min, |min| (0.0..=self.max).contains(&min), &rule)
    }

    /// The ratio of each token, before bounds; may be infinite.
    pub fn ratios(&self, log_ratios: &[f64]) -> Vec<f64> {
        let sum = || log_ratios.iter().sum::<f64>();
        let whole = |log_ratio: f64| vec![log_ratio.exp(); log_ratios.len()];
        match self.level {
            WeightLevel::None => vec![1.0; log_ratios.len()],
            WeightLevel::Token => log_ratios.iter().map(|log_ratio| log_ratio.exp()).collect(),
            WeightLevel::Sequence => whole(sum()),
            WeightLevel::Geometric => whole(sum() / log_ratios.len().max(1) as f64),
        }
    }

    /// The weight of each token of a sequence with these log-ratios, before it is normalised.
    pub fn weights(&self, log_ratios: &[f64]) -> Vec<f64> {
        let mut weights = self.ratios(log_ratios);
        if self.is_on() {
            weights.iter_mut().for_each(|ratio| *ratio = self.bounded(*ratio));
        }
        weights
    }

    fn bounded(&self, ratio: f64) -> f64 {
        match self.action {
            WeightAction::Truncate => ratio.clamp(self.min, self.max),
            WeightAction::Mask if self.is_out_of_bounds(ratio) => 0.0,
            WeightAction::Mask => ratio,
        }
    }

    /// Does `action` change a weight of this ratio?
    pub fn is_out_of_bounds(&self, ratio: f64) -> bool {
        !(self.min..=self.max).contains(&ratio)
    }

    /// The factor that normalises weights, from the weights of every sequence of an optimiser batch.
    pub fn normaliser<'a>(&self, sequences: impl Iterator<Item = &'a [f64]>) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for weights in sequences.filter(|weights| !weights.is_empty()) {
            // Except for `token`, all weights of a sequence are equal.
            let counted = if self.level == WeightLevel::Token { weights } else { &weights[..1] };
            sum += counted.iter().sum::<f64>();
            count += counted.len() as f64;
        }
        let mean = sum / count;
        if self.batch_normalize && mean > MEAN_MIN { 1.0 / mean } else { 1.0 }
    }
}
