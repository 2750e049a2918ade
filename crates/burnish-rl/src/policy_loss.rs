//! What all objectives on rollouts share: a token loss, the distance from the reference, and the mean.
//!
//! **What it does.** Takes the tokens that count out of the streams, asks a [`TokenLoss`] for their losses, adds the
//! KL penalty and divides.
//!
//! **Formula.** For each token with a loss mask, in nats, with `ℓ` the token loss of `objective`, `lp` the policy's
//! log-probability, `old` the proximal, `ref` the reference's:
//!
//! ```text
//! loss = Σ (w·ℓ + β·kl) / D
//! kl   = r·k      (or k alone, without `use_bias_correction_kl`),   r = exp(lp - old)
//! ```
//!
//! with `k` an estimator of [`crate::kl`], by default `k3 = exp(ref - lp) - (ref - lp) - 1`, and `D` that of
//! [`crate::aggregation`]; `w` is 1 unless the whole batch says otherwise ([`crate::Mark::weight`]).
//!
//! **Derivative.** `w·∂ℓ/∂lp`, plus `β` times `∂kl/∂lp`, that is `r·(k + ∂k/∂lp)` (for k3: `-r·(ref - lp)`), or
//! `∂k/∂lp` alone.
//!
//! **Differs from the papers.** The defaults are TRL's: `β = 0`, `dapo` aggregation. GRPO's paper averages over each
//! sequence and does not correct the KL: `aggregation = "grpo"`, `beta = 0.04`, `use_bias_correction_kl = false`.
//!
//! **Metrics**, named and defined as in TRL 1.16, each the mean over loss tokens: `clip_ratio/low_mean`,
//! `clip_ratio/high_mean`, `clip_ratio/region_mean`, `entropy`, and `kl` (of the formula) where `β > 0`. With
//! no entropy bonus, TRL's `policy_loss` is the loss.
//!
//! **Example.**
//! ```
//! use burnish_rl::{LossConfig, Objective, PolicyLoss, Streams, Totals, aggregation::Aggregation};
//! let config = LossConfig { aggregation: Aggregation::Grpo, ..LossConfig::default() };
//! let grpo = PolicyLoss::new(&config)?;
//! let (policy, entropy) = ([-0.5, -1.5], [0.0; 2]);
//! let streams = Streams {
//!     policy: &policy, proximal: &policy, behavior: &policy, reference: None, entropy: &entropy,
//!     advantage: &[2.0, 2.0], loss_mask: &[true, true], sequences: &[0..2], groups: &[], marks: &[],
//! };
//! let totals = Totals { sequences: 1, tokens: 2, tokens_generation: 2, minibatches: 1, ..Totals::default() };
//! let evaluation = grpo.evaluate(&streams, &totals);
//! assert_eq!((evaluation.loss, evaluation.d_policy), (-2.0, vec![-1.0, -1.0]));
//! # Ok::<(), burnish_rl::SettingError>(())
//! ```
//!
//! **References.** The correction of the KL: DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv:2512.02556. Objectives: see their
//! files.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::aggregation::Aggregation;
use crate::catalogue::{self, OBJECTIVES};
use crate::kl::{AdaptiveKl, KlEstimator};
use crate::settings::require;
use crate::{
    Bound, Evaluation, Losses, Mark, Metric, Needs, Objective, SettingError, Streams, TokenLoss, Tokens,
    Totals,
};

/// Settings of [`PolicyLoss`], and of what a run does around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LossConfig {
    /// Id of the token loss. Default: `ppo_clip`.
    pub objective: String,
    /// Its own settings.
    pub config: Value,
    /// Weight of the KL divergence to the reference; 0 (default) needs no reference.
    pub beta: f64,
    /// What stands for the KL divergence of a token. Default: `k3`.
    pub kl_estimator: KlEstimator,
    /// Is the KL multiplied by the ratio? With k1 and k3 its expected gradient is then that of the KL divergence,
    /// under whatever policy the tokens were sampled; see [`crate::kl`]. Default: true, as in TRL 1.16 (earlier
    /// versions and the paper: false).
    pub use_bias_correction_kl: bool,
    /// Is the KL of a sequence taken off its reward before groups are compared, instead of standing in the loss?
    /// [`PolicyLoss`] then knows no reference. Default: false.
    pub use_kl_in_reward: bool,
    /// How a run changes `beta` from step to step. Default: not at all.
    pub adaptive_kl: AdaptiveKl,
    /// Does a run leave answers that were cut off out of the loss and out of token counts? They still count as
    /// sequences, and their rewards in their groups, as in TRL. Default: false.
    pub mask_truncated_completions: bool,
    /// How token losses become one number. Default: `dapo`.
    pub aggregation: Aggregation,
}

impl Default for LossConfig {
    fn default() -> Self {
        LossConfig {
            objective: "ppo_clip".to_owned(),
            config: Value::Object(serde_json::Map::new()),
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

impl LossConfig {
    /// The same, with every setting of the objective written out.
    ///
    /// # Errors
    /// If there is no such objective, or a value is unknown, of the wrong type or out of range. Combinations are
    /// [`crate::rules`]'s.
    pub fn complete(mut self) -> Result<Self, SettingError> {
        let entry = catalogue::find(OBJECTIVES, "objective", &self.objective)?;
        self.config = (entry.complete)(&self.config).map_err(catalogue::in_config)?;
        require("beta", self.beta, |beta| beta >= 0.0, "must be 0 or more")?;
        self.adaptive_kl.check()?;
        Ok(self)
    }

    /// The weight of the KL in the loss, 0 where it stands in the reward.
    pub fn beta_in_loss(&self) -> f64 {
        if self.use_kl_in_reward { 0.0 } else { self.beta }
    }
}

/// The objective. See the head of this file.
pub struct PolicyLoss {
    token_loss: Box<dyn TokenLoss>,
    beta: f64,
    kl_estimator: KlEstimator,
    use_bias_correction_kl: bool,
    aggregation: Aggregation,
}

impl PolicyLoss {
    /// The objective of a configuration.
    ///
    /// # Errors
    /// As [`LossConfig::complete`].
    pub fn new(config: &LossConfig) -> Result<Self, SettingError> {
        let config = config.clone().complete()?;
        let entry = catalogue::find(OBJECTIVES, "objective", &config.objective)?;
        Ok(PolicyLoss {
            token_loss: (entry.build)(&config.config).map_err(catalogue::in_config)?,
            beta: config.beta_in_loss(),
            kl_estimator: config.kl_estimator,
            use_bias_correction_kl: config.use_bias_correction_kl,
            aggregation: config.aggregation,
        })
    }

    fn kl(&self, policy: f64, proximal: f64, reference: f64) -> (f64, f64) {
        if self.use_bias_correction_kl {
            self.kl_estimator.evaluate_corrected(policy, reference, policy - proximal)
        } else {
            self.kl_estimator.evaluate(policy, reference)
        }
    }
}

impl Objective for PolicyLoss {
    fn needs(&self) -> Needs {
        Needs { reference: self.beta != 0.0, ..self.token_loss.needs() }
    }

    fn marks(&self, whole: &Streams<'_>, totals: &Totals) -> Vec<Mark> {
        let columns = Columns::of_all(whole);
        let values = self.token_loss.marks(&columns.tokens(), totals.seed);
        let mut marks = vec![Mark { weight: 1.0, value: 0.0 }; whole.policy.len()];
        for (value, at) in values.into_iter().zip(whole.loss_positions(0..whole.policy.len())) {
            marks[at].value = value;
        }
        marks
    }

    /// # Panics
    /// If `beta` is not 0 and the streams have no reference, which [`Objective::needs`] asks for.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation {
        let beta = self.beta;
        assert!(beta == 0.0 || streams.reference.is_some(), "beta is {beta}: the streams need a reference");
        let reference = streams.reference.filter(|_| beta != 0.0);

        let mut evaluation = Evaluation::zero(streams.policy.len());
        let mut means = Means::default();
        for sequence in streams.sequences {
            let columns = Columns::of_sequence(streams, sequence.clone());
            if columns.positions.is_empty() {
                continue;
            }
            let tokens = columns.tokens();
            let mut losses = Losses::zero(tokens.len());
            self.token_loss.losses(&tokens, &mut losses);
            let denominator = self.aggregation.denominator(tokens.len(), totals);
            for (own, &at) in columns.positions.iter().enumerate() {
                let weight = streams.marks.get(at).map_or(1.0, |mark| mark.weight);
                let mut value = weight * losses.value[own];
                let mut derivative = weight * losses.d_policy[own];
                if let Some(reference) = reference {
                    let (kl, d_kl) = self.kl(streams.policy[at], streams.proximal[at], reference[at]);
                    value += beta * kl;
                    derivative += beta * d_kl;
                    means.kl += kl;
                }
                evaluation.loss += value / denominator;
                evaluation.d_policy[at] = derivative / denominator;
                means.entropy += streams.entropy[at];
                means.clipped_low += f64::from(losses.clipped[own] == Some(Bound::Low));
                means.clipped_high += f64::from(losses.clipped[own] == Some(Bound::High));
                means.tokens += 1.0;
            }
            losses.metrics.into_iter().for_each(|metric| add(&mut evaluation.metrics, metric));
        }
        evaluation.metrics.extend(means.metrics(reference.is_some()));
        evaluation
    }
}

/// The loss tokens of some positions, close together.
#[derive(Default)]
struct Columns {
    positions: Vec<usize>,
    policy: Vec<f64>,
    proximal: Vec<f64>,
    behavior: Vec<f64>,
    entropy: Vec<f64>,
    advantage: Vec<f64>,
    marks: Vec<f64>,
    sequences: Vec<Range<usize>>,
}

impl Columns {
    fn of_sequence(streams: &Streams<'_>, sequence: Range<usize>) -> Self {
        let mut columns = Columns::default();
        columns.push(streams, sequence);
        columns
    }

    fn of_all(streams: &Streams<'_>) -> Self {
        let mut columns = Columns::default();
        streams.sequences.iter().for_each(|sequence| columns.push(streams, sequence.clone()));
        columns
    }

    fn push(&mut self, streams: &Streams<'_>, sequence: Range<usize>) {
        let start = self.positions.len();
        self.positions.extend(streams.loss_positions(sequence));
        let positions = &self.positions[start..];
        for (column, stream) in [
            (&mut self.policy, streams.policy),
            (&mut self.proximal, streams.proximal),
            (&mut self.behavior, streams.behavior),
            (&mut self.entropy, streams.entropy),
            (&mut self.advantage, streams.advantage),
        ] {
            column.extend(positions.iter().map(|at| stream[*at]));
        }
        if !streams.marks.is_empty() {
            self.marks.extend(positions.iter().map(|at| streams.marks[*at].value));
        }
        self.sequences.push(start..self.positions.len());
    }

    fn tokens(&self) -> Tokens<'_> {
        Tokens {
            policy: &self.policy,
            detached: &self.policy,
            proximal: &self.proximal,
            behavior: &self.behavior,
            entropy: &self.entropy,
            advantage: &self.advantage,
            marks: &self.marks,
            sequences: &self.sequences,
        }
    }
}

/// Adds a metric of a further sequence.
fn add(metrics: &mut Vec<Metric>, metric: Metric) {
    match metrics.iter_mut().find(|own| own.name == metric.name) {
        Some(own) => {
            own.sum += metric.sum;
            own.weight += metric.weight;
        }
        None => metrics.push(metric),
    }
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
