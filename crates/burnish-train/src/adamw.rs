//! AdamW (Loshchilov and Hutter 2019) and gradient clipping, with the arithmetic of torch.
//!
//! ```text
//! m ← β₁ m + (1 − β₁) g        v ← β₂ v + (1 − β₂) g²
//! w ← w − lr·λ·w − lr / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
//! ```
//!
//! `t` counts updates from 1. Weight decay λ applies only to parameters that decay; norms and biases do not. Moments are
//! kept in f32, or in 8 bits with the quantisation of bitsandbytes ([`burnish_tensor::eight_bit`]).

use std::ops::Range;

use burnish_tensor::optim::AdamW;
use burnish_tensor::{DeviceError, Flat, Flat8, Params};
use serde::{Deserialize, Serialize};

/// How moments are kept between updates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MomentType {
    /// 32 bits: 8 bytes per parameter for both.
    #[default]
    #[serde(rename = "f32")]
    F32,
    /// 8 bits, with a scale for each 256 numbers of a tensor: 2 bytes and 1/32 per parameter for both.
    #[serde(rename = "8bit")]
    EightBit,
}

impl MomentType {
    /// Is it what recipes and checkpoints had before there was a choice? It is left out there.
    #[must_use]
    pub fn is_f32(&self) -> bool {
        *self == MomentType::F32
    }
}

/// Hyperparameters of AdamW, with torch's defaults except for the decay, which is off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamwConfig {
    /// β₁, decay of the first moment.
    pub beta1: f64,
    /// β₂, decay of the second moment.
    pub beta2: f64,
    /// ε, added to the root of the second moment.
    pub epsilon: f64,
    /// λ, decoupled weight decay.
    pub weight_decay: f64,
    /// How the moments are kept.
    #[serde(skip_serializing_if = "MomentType::is_f32")]
    pub moments: MomentType,
}

impl Default for AdamwConfig {
    fn default() -> Self {
        AdamwConfig { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0, moments: MomentType::F32 }
    }
}

/// A hyperparameter is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be {range}")]
pub struct AdamwError {
    /// Which hyperparameter.
    pub field: &'static str,
    /// What it may be.
    pub range: &'static str,
}

impl AdamwConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first hyperparameter that is out of range, and the range.
    pub fn check(&self) -> Result<(), AdamwError> {
        let out_of_range = |field, range| Err(AdamwError { field, range });
        for (field, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            if !(0.0..1.0).contains(&beta) {
                return out_of_range(field, "0 or more, and below 1");
            }
        }
        for (field, value) in [("epsilon", self.epsilon), ("weight_decay", self.weight_decay)] {
            if !(value.is_finite() && value >= 0.0) {
                return out_of_range(field, "0 or more");
            }
        }
        Ok(())
    }
}

/// The optimiser with its state: two moments for every parameter, laid out like the parameters and on the same device.
#[derive(Debug, Clone, PartialEq)]
pub struct Adamw {
    config: AdamwConfig,
    updates: u64,
    /// Ranges of the flat buffer; `true` for parameters that decay.
    runs: Vec<(Range<usize>, bool)>,
    moments: Moments,
}

/// The first and the second moment.
#[derive(Debug, Clone, PartialEq)]
pub enum Moments {
    /// In f32.
    F32([Flat; 2]),
    /// In 8 bits.
    EightBit([Flat8; 2]),
}

impl Moments {
    fn zeros(kind: MomentType, params: &Params) -> Self {
        match kind {
            MomentType::F32 => Moments::F32([(); 2].map(|()| Flat::zeros(params))),
            MomentType::EightBit => Moments::EightBit([(); 2].map(|()| Flat8::zeros(params))),
        }
    }
}

impl Adamw {
    /// An optimiser for `params` that has made no update yet.
    pub fn new(config: AdamwConfig, params: &Params) -> Self {
        Adamw { config, updates: 0, runs: runs(params), moments: Moments::zeros(config.moments, params) }
    }

    /// Makes one update at learning rate `lr` with the gradient `grads`, which is laid out like `params`.
    ///
    /// # Panics
    /// If the optimiser was not made for `params`.
    pub fn step(&mut self, params: &mut Params, grads: &Flat, lr: f64) {
        self.updates += 1;
        let AdamwConfig { beta1, beta2, epsilon: eps, weight_decay, .. } = self.config;
        let step = AdamW { lr, beta1, beta2, eps, weight_decay, step: self.updates };
        match &mut self.moments {
            Moments::F32(moments) => {
                for (run, decays) in &self.runs {
                    params.adamw_step(run.clone(), grads, moments.each_mut(), &step, *decays);
                }
            }
            Moments::EightBit(moments) => params.adamw_step_8bit(grads, moments.each_mut(), &step),
        }
    }

    /// Number of updates made.
    pub fn updates(&self) -> u64 {
        self.updates
    }

    /// Both moments.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Restores the state that it had after `updates` updates.
    pub(crate) fn restore(&mut self, updates: u64, moments: Moments) {
        (self.updates, self.moments) = (updates, moments);
    }
}

/// The flat buffer in as few ranges as possible, each with parameters that either all decay or all do not.
fn runs(params: &Params) -> Vec<(Range<usize>, bool)> {
    let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
    for entry in params.trained_entries() {
        match runs.last_mut() {
            Some((run, decays)) if *decays == entry.decays => run.end = entry.param.range().end,
            _ => runs.push((entry.param.range(), entry.decays)),
        }
    }
    runs
}

/// Factor that brings a gradient of 2-norm `norm` down to at most `max`, as `torch.nn.utils.clip_grad_norm_` computes
/// it: `max / (norm + 1e-6)` if that is below 1, otherwise 1.
pub fn clip_coefficient(norm: f64, max: f64) -> f64 {
    (max / (norm + 1e-6)).min(1.0)
}

/// 2-norm of a gradient, summed in f64; the same with any number of threads.
///
/// # Errors
/// If something on a GPU has failed so far.
pub fn grad_norm(grads: &Flat) -> Result<f64, DeviceError> {
    Ok(grads.squared_norm()?.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_follow_each_other_and_decay_alike_are_one_run() {
        let mut params = Params::new();
        for (shape, decays) in [([2, 3], true), ([1, 4], true), ([1, 2], false), ([5, 1], true)] {
            params.add("any", &shape, decays);
        }
        assert_eq!(runs(&params), [(0..10, true), (10..12, false), (12..17, true)]);
        assert_eq!(runs(&Params::new()), []);
    }

    #[test]
    fn a_short_gradient_is_not_scaled_and_a_long_one_ends_at_the_bound() {
        assert_eq!(clip_coefficient(0.5, 1.0), 1.0);
        assert!((clip_coefficient(4.0, 1.0) * 4.0 - 1.0).abs() < 1e-6);
        assert_eq!(clip_coefficient(0.0, 1.0), 1.0);
    }

    #[test]
    fn hyperparameters_out_of_range_are_named() {
        assert_eq!(AdamwConfig::default().check(), Ok(()));
        let field = |config: AdamwConfig| config.check().unwrap_err().field;
        assert_eq!(field(AdamwConfig { beta2: 1.0, ..AdamwConfig::default() }), "beta2");
        assert_eq!(field(AdamwConfig { epsilon: f64::NAN, ..AdamwConfig::default() }), "epsilon");
    }
}
