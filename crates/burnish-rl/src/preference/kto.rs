//! Kahneman-Tversky optimisation: single answers with a thumb up or down, no pairs.
//!
//! **What it does.** Raises the log-ratio of desirable answers above a baseline and lowers that of undesirable ones
//! below it; both saturate, so an answer that is already far on its side stops counting.
//!
//! **Formula.** For a sequence, with `h = Σ_t (log π_θ - log π_ref)` over its tokens in the loss and `z0` the
//! baseline:
//!
//! ```text
//! ℓ = λ_D·(1 - σ(β·(h - z0)))   desirable: its advantage is above 0
//! ℓ = λ_U·(1 - σ(β·(z0 - h)))   undesirable: below 0
//! z0 = max(0, mean of h over mismatched answers)       (`baseline = "mismatched"`)
//! z0 = max(0, mean of h over the optimiser batch)      (`baseline = "batch"`)
//! ```
//!
//! The loss is the sum over sequences divided by the sequences of the optimiser batch. Mismatched answers are made of
//! the same rows: each prompt with the answer of the row before it in the optimiser batch, the first one with that of
//! the last. `z0` is a constant of the derivative. It estimates how far the policy is from the reference:
//!
//! - `batch`, the default, takes the batch's own answers ([`Objective::batch_constants`]). If the policy sampled them,
//!   this is an unbiased estimate of the divergence; if they come from elsewhere, it moves with the labels as these are
//!   learned.
//! - `mismatched`, as in the paper and in TRL, takes one more forward pass of both models
//!   ([`Totals::mismatched_log_ratio`]), which is made for rows only, not for rollouts. The paper calls it biased,
//!   because such answers are not the policy's.
//! - `given` takes a number found in another way.
//!
//! The label is the sign of the advantage of the first token in the loss; a sequence with an advantage of 0, or without
//! a token in the loss, adds nothing but still counts in the denominator (one with a label of 0 and with tokens also
//! counts in the `z0` of `batch`).
//!
//! **Derivative.** With `s = σ(β·(h - z0))`: `-λ_D·β·s·(1 - s)` of each token of a desirable answer,
//! `λ_U·β·s·(1 - s)` of an undesirable one.
//!
//! **Reduces to.** With `baseline = "given"` and `z0 = 0`, TRL's `apo_zero_unpaired`; on pairs, half of the
//! `apo_zero` of [`super::Dpo`].
//!
//! **Differs from the paper and from TRL 1.16.** Their baseline is `mismatched`. In TRL, each micro-batch has a `z0` of
//! its own, of answers mismatched within it.
//!
//! **Metrics**, named as in TRL: `kl` (`z0`), `rewards/chosen` (`β·h`) and `logps/chosen` of desirable answers,
//! `rewards/rejected` and `logps/rejected` of undesirable ones, `entropy`. (`rewards/margins` is the difference of two
//! means over different answers, which can't be added up over parts of a batch: compute it from the two.)
//!
//! **References.** Ethayarajh et al. 2024 (KTO), arXiv:2402.01306, eq. 7 and 8.

use serde::{Deserialize, Serialize};

use super::common::{Answer, add_metric, entropy, sigmoid};
use crate::settings::require;
use crate::{
    BatchConstant, Card, Check, Evaluation, Family, Needs, Objective, Part, SettingError, Streams, Totals,
};

/// Where the baseline comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The mean log-ratio of the optimiser batch's own answers, but at least 0.
    #[default]
    Batch,
    /// The mean log-ratio of answers to other prompts of the optimiser batch, but at least 0.
    Mismatched,
    /// `z0`.
    Given,
}

/// Kahneman-Tversky optimisation. See the head of this file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Kto {
    /// How strongly the reference holds the policy back. Default: 0.1.
    pub beta: f64,
    /// Weight of desirable answers. With `n_D` and `n_U` answers of the two kinds, the paper wants
    /// `desirable_weight·n_D / (undesirable_weight·n_U)` between 1 and 4/3. Default: 1.
    pub desirable_weight: f64,
    /// Weight of undesirable answers. Default: 1.
    pub undesirable_weight: f64,
    /// Where the baseline comes from. Default: `batch`.
    pub baseline: Baseline,
    /// The baseline in nats, with `baseline = "given"`. Default: 0.
    pub z0: f64,
}

impl Default for Kto {
    fn default() -> Self {
        Kto {
            beta: 0.1,
            desirable_weight: 1.0,
            undesirable_weight: 1.0,
            baseline: Baseline::default(),
            z0: 0.0,
        }
    }
}

impl Part for Kto {
    const CARD: Card = Card {
        id: "kto",
        title: "Kahneman-Tversky optimisation",
        family: Family::Preference,
        paper: "Ethayarajh et al. 2024, KTO, arXiv:2402.01306",
        equation: "λ_D·(1 - σ(β·(h - z0))) if desirable, λ_U·(1 - σ(β·(z0 - h))) if not",
        scope: "batch",
        check: Check::Golden("TRL 1.16 KTOTrainer.compute_loss, with its own z0 and with that of the batch"),
        reconstructed: None,
        reduces_to: &["half of dpo's apo_zero on pairs, for z0 = 0"],
        file: "crates/burnish-rl/src/preference/kto.rs",
    };

    fn check(&self) -> Result<(), SettingError> {
        require("beta", self.beta, |beta| beta > 0.0, "must be above 0")?;
        let (desirable, undesirable) = (self.desirable_weight, self.undesirable_weight);
        require("desirable_weight", desirable, |weight| weight >= 0.0, "must be 0 or more")?;
        require("undesirable_weight", undesirable, |weight| weight >= 0.0, "must be 0 or more")?;
        match self.baseline {
            Baseline::Mismatched | Baseline::Batch => {
                require("z0", self.z0, |z0| z0 == 0.0, "must be left out unless `baseline = \"given\"`")
            }
            Baseline::Given => require("z0", self.z0, |z0| z0 >= 0.0, "must be 0 or more"),
        }
    }
}

impl Kto {
    /// # Panics
    /// If the baseline is one of the batch, and it was not supplied.
    fn z0(&self, streams: &Streams<'_>, totals: &Totals) -> f64 {
        match self.baseline {
            Baseline::Given => self.z0,
            Baseline::Mismatched => {
                assert!(
                    totals.mismatched_log_ratio.is_some(),
                    "kto needs the log-ratio of mismatched answers"
                );
                totals.mismatched_log_ratio.map_or(0.0, |ratio| ratio.max(0.0))
            }
            Baseline::Batch => {
                let constants = streams.batch_constants;
                assert_eq!(constants.len(), streams.policy.len(), "kto needs the constants of its batch");
                constants.first().map_or(0.0, |constant| constant.value)
            }
        }
    }
}

impl Objective for Kto {
    fn needs(&self) -> Needs {
        Needs {
            reference: true,
            batch_constants: self.baseline == Baseline::Batch,
            mismatched: self.baseline == Baseline::Mismatched,
            ..Needs::default()
        }
    }

    /// The baseline as the value of every position.
    fn batch_constants(&self, whole: &Streams<'_>, _totals: &Totals) -> Vec<BatchConstant> {
        let answers = whole.sequences.iter().map(|sequence| Answer::of(whole, sequence, true));
        let ratios: Vec<f64> =
            answers.filter(|answer| !answer.is_empty()).map(|answer| answer.log_ratio()).collect();
        let mean = ratios.iter().sum::<f64>() / ratios.len().max(1) as f64;
        vec![BatchConstant { value: mean.max(0.0), ..BatchConstant::default() }; whole.policy.len()]
    }

    /// # Panics
    /// If the streams or `totals` lack what [`Objective::needs`] asks for.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let mut evaluation = Evaluation::zero(streams.policy.len());
        let (z0, count) = (self.z0(streams, totals), totals.sequences as f64);
        for sequence in streams.sequences {
            let answer = Answer::of(streams, sequence, true);
            add_metric(&mut evaluation.metrics, "kl", z0, 1.0);
            let label = answer.label(streams);
            if label == 0.0 {
                continue;
            }
            let desirable = label > 0.0;
            let (sign, weight, names) = if desirable {
                (1.0, self.desirable_weight, ["rewards/chosen", "logps/chosen"])
            } else {
                (-1.0, self.undesirable_weight, ["rewards/rejected", "logps/rejected"])
            };
            let x = sign * self.beta * (answer.log_ratio() - z0);
            // 1 - σ(x) = σ(-x), without cancellation.
            evaluation.loss += weight * sigmoid(-x) / count;
            let derivative = -sign * weight * self.beta * sigmoid(x) * sigmoid(-x) / count;
            answer.add_derivative(derivative, &mut evaluation);
            let metrics = &mut evaluation.metrics;
            add_metric(metrics, names[0], self.beta * answer.log_ratio(), 1.0);
            add_metric(metrics, names[1], answer.policy, 1.0);
        }
        evaluation.metrics.push(entropy(streams));
        evaluation
    }
}
