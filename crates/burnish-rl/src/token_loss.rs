//! The seam for published objectives: the loss of the tokens of one sequence.

use std::ops::Range;

use crate::aggregation::Aggregation;
use crate::fact::{Fact, span_id};
use crate::{Metric, Needs, TokenFact};

/// The tokens that count in the loss, and no others: parallel slices of one length. For [`TokenLoss::losses`] they are
/// one sequence; for [`TokenLoss::batch_constants`] a whole optimiser batch.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a> {
    /// log π_θ, in nats: what derivatives are taken with respect to.
    pub policy: &'a [f64],
    /// The same numbers as constants of the derivative: what papers write sg(log π_θ). They differ from `policy` only
    /// in a check of derivatives.
    pub detached: &'a [f64],
    /// Log-probability at the start of the update: the denominator of the ratio.
    pub proximal: &'a [f64],
    /// Log-probability under the policy that sampled the token ([`crate::correction`]).
    pub behavior: &'a [f64],
    /// Log-probability under the teacher; empty if the objective needs none.
    pub teacher: &'a [f64],
    /// Entropy of the next-token distribution, in nats.
    pub entropy: &'a [f64],
    /// Advantage of the token.
    pub advantage: &'a [f64],
    /// The facts of single tokens that the objective asked for: [`TokenLoss::facts`], [`TokenLoss::spans`].
    pub facts: &'a [TokenFact],
    /// What [`TokenLoss::batch_constants`] returned for each token; empty if the objective has no batch_constants.
    pub batch_constants: &'a [f64],
    /// The range of tokens of each sequence.
    pub sequences: &'a [Range<usize>],
}

impl<'a> Tokens<'a> {
    /// As [`crate::Streams::fact`].
    pub fn fact(&self, fact: &Fact) -> Option<&'a [f64]> {
        TokenFact::find(self.facts, fact.id)
    }

    /// As [`crate::Streams::span`].
    pub fn span(&self, name: &str) -> Option<&'a [f64]> {
        TokenFact::find(self.facts, &span_id(name))
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.policy.len()
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.policy.is_empty()
    }

    /// `log(π_θ / π_proximal)` of a token.
    pub fn log_ratio(&self, at: usize) -> f64 {
        self.policy[at] - self.proximal[at]
    }

    /// `log(π_θ / π_proximal)` of a token, as a constant of the derivative.
    pub fn detached_log_ratio(&self, at: usize) -> f64 {
        self.detached[at] - self.proximal[at]
    }

    /// `lp - sg(lp)` of a token: exactly 0, with derivative 1.
    pub fn score(&self, at: usize) -> f64 {
        self.policy[at] - self.detached[at]
    }

    /// The mean log-ratio: the logarithm of the length-normalised ratio of the sequence. 0 without tokens.
    pub fn mean_log_ratio(&self) -> f64 {
        let sum: f64 = (0..self.len()).map(|at| self.log_ratio(at)).sum();
        sum / self.len().max(1) as f64
    }
}

/// The ratio of an objective to the policy at the start of the update, and its derivative. The same ratio corrects the
/// KL ([`crate::LossConfig::use_bias_correction_kl`]). A ratio of a whole sequence is clipped once per sequence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ratio {
    /// Each token's own: `exp(lp - old)`.
    #[default]
    Token,
    /// One for all tokens of a sequence, whose derivative each of them has: `s = exp(1/n · Σ_t (lp_t - old_t))`.
    Sequence,
    /// The same value, but with a derivative like that of the token's own ratio: `sg(s)·exp(lp - sg(lp))`.
    SequenceAtToken,
}

/// The bounds of PPO's clipped surrogate `-min(r·A, clip(r, low, high)·A)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioBounds {
    /// Below it, a token with a negative advantage does not count.
    pub low: f64,
    /// Above it, a token with a positive advantage does not count.
    pub high: f64,
}

/// The bound of a trust region that a token has crossed, so that it no longer counts, or counts only as much as the
/// bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The ratio is too small.
    Low,
    /// The ratio is too large.
    High,
}

/// Losses of the tokens of a sequence: one entry per token, all zero at first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Losses {
    /// Loss of each token, before it is weighted and divided.
    pub value: Vec<f64>,
    /// Derivative of the *sum* of `value` with respect to each token's policy log-probability.
    pub d_policy: Vec<f64>,
    /// Which bound the token has crossed, for `clip_ratio/*`; the third bound of dual-clip PPO does not count.
    pub clipped: Vec<Option<Bound>>,
    /// Further named numbers.
    pub metrics: Vec<Metric>,
}

impl Losses {
    /// All zero, for `tokens` tokens.
    pub fn zero(tokens: usize) -> Self {
        Losses {
            value: vec![0.0; tokens],
            d_policy: vec![0.0; tokens],
            clipped: vec![None; tokens],
            metrics: Vec::new(),
        }
    }
}

/// A published objective: what each token of a sequence adds to the loss, before off-policy weights, the distance from
/// the reference and the mean over tokens, which [`crate::PolicyLoss`] adds.
///
/// An advantage of exactly 0 gives a loss and a derivative of exactly 0, however extreme the ratio, unless the formula
/// has a term without the advantage.
pub trait TokenLoss: Send + Sync {
    /// What it needs beyond log-probs, advantages and entropies.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// As [`crate::Objective::facts`]; [`Tokens::fact`] has them.
    fn facts(&self) -> Vec<&'static Fact> {
        Vec::new()
    }

    /// As [`crate::Objective::spans`]; [`Tokens::span`] has them.
    fn spans(&self) -> Vec<String> {
        Vec::new()
    }

    /// The aggregation that the formula needs to be the published objective, if there is only one: a loss of whole
    /// sequences, given to each of their tokens, needs the mean over sequences. [`crate::rules`] refuses others.
    fn aggregation(&self) -> Option<Aggregation> {
        None
    }

    /// The ratio that the formula uses.
    fn ratio(&self) -> Ratio {
        Ratio::Token
    }

    /// The bounds of the ratio, if the formula is PPO's clipped surrogate and nothing else.
    fn surrogate(&self) -> Option<RatioBounds> {
        None
    }

    /// What the KL of each token is multiplied by in a sequence of `tokens` tokens, so that it keeps its weight
    /// relative to the loss. Not 1 if the formula has a factor that undoes the mean.
    fn kl_weight(&self, _tokens: usize) -> f64 {
        1.0
    }

    /// One detached number per token of a whole optimiser batch, for a formula that depends on all of them (a quantile,
    /// a random choice). Called once, before anything else, if [`Needs::batch_constants`] asks for it. `seed` is the
    /// batch's own, for random choices.
    fn batch_constants(&self, _batch: &Tokens<'_>, _seed: u64) -> Vec<f64> {
        Vec::new()
    }

    /// Adds the losses of the tokens of one sequence, which has at least one.
    fn losses(&self, tokens: &Tokens<'_>, losses: &mut Losses);
}
