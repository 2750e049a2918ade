//! One update of the weights.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use burnish_core::rng::{Address, Purpose};
use burnish_model::Model;
use burnish_rl::gate::Proposal;
use burnish_rl::{Objective, Totals};
use burnish_tensor::{Flat, GradientsMut};

use crate::adamw::{Adamw, AdamwConfig, clip_coefficient, grad_norm};
use crate::gradient::{Drift, Pass, PassConfig, accumulate_with_share};
use crate::{Sample, TrainError};

/// Name under which an objective reports the share of tokens beyond its bounds.
const CLIP_FRACTION: &str = "clip_ratio/region_mean";

/// How the trainer updates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainerConfig {
    /// The optimiser's hyperparameters.
    pub adamw: AdamwConfig,
    /// A longer gradient is scaled down to this 2-norm; `None` leaves it as it is.
    pub grad_norm_max: Option<f64>,
    /// How samples go through the model. The dropout seed is that of the run; every update derives its own from it.
    pub pass: PassConfig,
}

/// What an update did.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Was it made? If not, a gate dropped it: weights, moments and the count of updates are unchanged.
    pub is_made: bool,
    /// Frobenius norm of the gradient of the log-prob head's matrix, before clipping ([`Proposal::head_grad_norm`]);
    /// `None` if no gate asked for it.
    pub head_grad_norm: Option<f64>,
    /// The objective's value before the update.
    pub loss: f64,
    /// 2-norm of the gradient over all parameters, before it was clipped; `None` if a server keeps it to itself.
    pub grad_norm: Option<f64>,
    /// The objective's named numbers.
    pub metrics: BTreeMap<String, f64>,
    /// Rows that went through the model, after sharing prefixes.
    pub tokens: usize,
    /// Tokens that were scored.
    pub tokens_scored: usize,
    /// Number of micro-batches.
    pub micro_batches: usize,
    /// How far the policy's log-probs were from those of sampling, before the update.
    pub drift: Drift,
}

/// Turns samples and an objective into better weights. It holds the optimiser's state and the gradient of the trained
/// parameters; the weights (f32 masters, whatever the type of the file) belong to the model. All of that is on
/// the device of the model's parameters, so the model must be on its device before a trainer is made for it.
#[derive(Debug)]
pub struct Trainer {
    config: TrainerConfig,
    adamw: Adamw,
    /// Number of trained parameters.
    trained: usize,
    /// The gradient's memory. On a GPU it is given back after each update, because sampling needs it for its cache.
    grads: Option<Flat>,
}

impl Trainer {
    /// A trainer for `model` that has made no update yet.
    pub fn new(model: &Model, config: TrainerConfig) -> Self {
        let adamw = Adamw::new(config.adamw, &model.params);
        Trainer { config, adamw, trained: model.params.trained_len(), grads: None }
    }

    /// How it updates.
    pub fn config(&self) -> &TrainerConfig {
        &self.config
    }

    /// Number of updates made.
    pub fn updates(&self) -> u64 {
        self.adamw.updates()
    }

    /// The optimiser's state.
    pub fn adamw(&self) -> &Adamw {
        &self.adamw
    }

    pub(crate) fn adamw_mut(&mut self) -> &mut Adamw {
        &mut self.adamw
    }

    /// Makes one update of `model` on one minibatch at learning rate `lr`.
    ///
    /// A minibatch without a scored token has a gradient of zero, and the optimiser steps as with any other gradient.
    ///
    /// # Errors
    /// If a sample does not fit the model or the objective, or a number is not finite. Nothing is updated then.
    pub fn update(
        &mut self,
        model: &mut Model,
        minibatch: &[impl Borrow<Sample>],
        objective: &dyn Objective,
        totals: &Totals,
        lr: f64,
    ) -> Result<Update, TrainError> {
        self.propose(model, minibatch, objective, totals, lr, None)
    }

    /// As [`Trainer::update`], but only if `gate` allows it: the gate sees the gradient's numbers, even non-finite
    /// ones, before the optimiser does. If it refuses, the gradient is dropped and nothing has changed.
    ///
    /// # Errors
    /// As [`Trainer::update`], and if the model is a value model, which has no log-prob head.
    pub fn update_gated(
        &mut self,
        model: &mut Model,
        minibatch: &[impl Borrow<Sample>],
        objective: &dyn Objective,
        totals: &Totals,
        lr: f64,
        gate: &mut dyn FnMut(&Proposal) -> bool,
    ) -> Result<Update, TrainError> {
        if model.is_value_model() {
            return Err(TrainError::NoHead { why: "a model of values has none" });
        }
        self.propose(model, minibatch, objective, totals, lr, Some(gate))
    }

    fn propose(
        &mut self,
        model: &mut Model,
        minibatch: &[impl Borrow<Sample>],
        objective: &dyn Objective,
        totals: &Totals,
        lr: f64,
        gate: Option<&mut dyn FnMut(&Proposal) -> bool>,
    ) -> Result<Update, TrainError> {
        let trained = model.params.trained_len();
        if trained != self.trained {
            return Err(TrainError::OtherModel { trainer: self.trained, model: trained });
        }
        let mut grads = self.grads.take().map_or_else(
            || Flat::zeros(&model.params),
            |mut kept| {
                kept.clear();
                kept
            },
        );
        let dropout = self.config.pass.dropout.map(|run| {
            let place = Address { step: self.updates(), turn: 1, ..Address::new(run, Purpose::Perturb) };
            place.seed()
        });
        let config = PassConfig { dropout, ..self.config.pass };
        let mut share = gate.is_some().then(|| Flat::zeros_beside(&model.params, model.head().base.len()));
        let into = share.as_mut().map(GradientsMut::from);
        let pass = accumulate_with_share(model, minibatch, objective, totals, config, &mut grads, into)?;
        let grad_norm = grad_norm(&grads)?;
        let head_grad_norm = share.map(|share| share.squared_norm()).transpose()?.map(f64::sqrt);
        let is_made = gate.is_none_or(|gate| {
            gate(&Proposal {
                head_grad_norm: head_grad_norm.unwrap_or_default(),
                grad_norm,
                kl: pass.kl,
                clip_fraction: pass.metrics.get(CLIP_FRACTION).copied().unwrap_or_default(),
                entropy: pass.entropy,
            })
        });
        if is_made {
            self.check_finite("loss", pass.loss)?;
            self.check_finite("gradient norm", grad_norm)?;
            let coefficient = self.config.grad_norm_max.map_or(1.0, |max| clip_coefficient(grad_norm, max));
            if coefficient < 1.0 {
                grads.scale(coefficient as f32);
            }
            self.adamw.step(&mut model.params, &grads, lr);
        }
        self.grads = model.params.device().is_cpu().then_some(grads);
        let Pass { loss, metrics, tokens, tokens_scored, micro_batches, drift, .. } = pass;
        Ok(Update {
            is_made,
            head_grad_norm,
            loss,
            grad_norm: Some(grad_norm),
            metrics,
            tokens,
            tokens_scored,
            micro_batches,
            drift,
        })
    }

    fn check_finite(&self, what: &'static str, value: f64) -> Result<(), TrainError> {
        if value.is_finite() {
            Ok(())
        } else {
            Err(TrainError::NotFinite { update: self.updates(), what, value })
        }
    }
}
