//! The seam between the mathematics and the trainer.

use std::ops::Range;

use crate::RatioBounds;
use crate::correction::BehaviorSource;
use crate::distillation::{HeadLoss, HeadTarget};
use crate::fact::{Fact, MISMATCHED, Need, REFERENCE, TEACHER, span_id};
use crate::terms::PARTS_MAX;

/// Per-token streams of some whole sequences. All slices have one entry per *scored position*, a token whose
/// log-probability was computed. A sequence is never split.
#[derive(Debug, Clone, Copy)]
pub struct Streams<'a> {
    /// log π_θ of the token under the weights being trained, in nats, at the sampling temperature.
    pub policy: &'a [f64],
    /// Log-probability at the start of the update (π_old): the denominator of the ratio.
    pub proximal: &'a [f64],
    /// Log-probability under the policy that sampled the token. [`Needs::behavior`] says which of the two known ones.
    pub behavior: &'a [f64],
    /// Log-probability under the reference, if the objective needs it.
    pub reference: Option<&'a [f64]>,
    /// Log-probability under the teacher, at the sampling temperature, if the objective needs it.
    pub teacher: Option<&'a [f64]>,
    /// Entropy of the next-token distribution, in nats.
    pub entropy: &'a [f64],
    /// Advantage of the token.
    pub advantage: &'a [f64],
    /// Does the token count in the loss?
    pub loss_mask: &'a [bool],
    /// The positions of each sequence; in order, without gaps.
    pub sequences: &'a [Range<usize>],
    /// Which sequences belong together: a group of one task, or a pair; in order, without gaps. Only an objective that
    /// asks for groups ([`Needs::groups`]) is sure to see whole ones; for others this may be empty.
    pub groups: &'a [Range<usize>],
    /// The direction of each sequence: 0 for the task as it is drawn, 1 for the task turned round (each direction
    /// states what the other asks for). One entry per sequence; empty if all are 0.
    pub directions: &'a [u8],
    /// The parts of the batch that each token belongs to, for losses on parts ([`crate::terms`]): bit `k` is part `k`. Empty if
    /// every token belongs to all.
    pub parts: &'a [u8],
    /// The facts of single tokens that the objective asked for: [`Objective::facts`], [`Objective::spans`].
    pub facts: &'a [TokenFact],
    /// What [`Objective::batch_constants`] returned for each position; empty if the objective has no batch_constants.
    pub batch_constants: &'a [BatchConstant],
}

/// Something known about single tokens: a number for each position.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenFact {
    /// The id of the fact, or of the span ([`span_id`]).
    pub id: String,
    /// The numbers.
    pub numbers: Vec<f64>,
}

impl TokenFact {
    /// The numbers of the fact with this id, if it is among `facts`.
    pub(crate) fn find<'a>(facts: &'a [TokenFact], id: &str) -> Option<&'a [f64]> {
        facts.iter().find(|fact| fact.id == id).map(|fact| fact.numbers.as_slice())
    }
}

/// What an objective fixes about a token after it has seen the whole optimiser batch. A constant of the derivative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchConstant {
    /// What the token's loss is multiplied by.
    pub weight: f64,
    /// What its distance from the reference is multiplied by.
    pub kl: f64,
    /// What its entropy bonus is multiplied by.
    pub entropy: f64,
    /// A number whose meaning is the objective's own.
    pub value: f64,
}

impl Default for BatchConstant {
    /// Changes nothing.
    fn default() -> Self {
        BatchConstant { weight: 1.0, kl: 1.0, entropy: 1.0, value: 0.0 }
    }
}

impl<'a> Streams<'a> {
    /// The numbers of a fact that the objective asked for ([`Objective::facts`]), one per position; `None` for others.
    pub fn fact(&self, fact: &Fact) -> Option<&'a [f64]> {
        TokenFact::find(self.facts, fact.id)
    }

    /// For each position, 1 inside of a span that the objective asked for ([`Objective::spans`]) and 0 outside; `None` for
    /// other spans.
    pub fn span(&self, name: &str) -> Option<&'a [f64]> {
        TokenFact::find(self.facts, &span_id(name))
    }

    /// The direction of sequence number `sequence`.
    pub fn direction(&self, sequence: usize) -> u8 {
        self.directions.get(sequence).copied().unwrap_or_default()
    }

    /// The positions in `range` that count in the loss.
    pub fn loss_positions(&self, range: Range<usize>) -> impl Iterator<Item = usize> {
        range.filter(|&at| self.loss_mask[at])
    }
}

/// What an objective may know about the whole optimiser batch while it sees only a part of it. Counted before the first
/// part is evaluated, so that the size of micro-batches changes a gradient only by the rounding of sums.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Sequences in the optimiser batch (one minibatch).
    pub sequences: usize,
    /// Groups of sequences in the optimiser batch ([`Streams::groups`]).
    pub groups: usize,
    /// Tokens with `loss_mask` in the optimiser batch.
    pub tokens: usize,
    /// Tokens with `loss_mask` and an advantage above 0 in the optimiser batch.
    pub tokens_positive: usize,
    /// Tokens with `loss_mask` in everything that was sampled together: all minibatches of one generation.
    pub tokens_generation: usize,
    /// Number of minibatches into which the generation is split.
    pub minibatches: usize,
    /// The most tokens that a completion may have.
    pub completion_tokens_max: usize,
    /// Seed of the objective's random choices in this optimiser batch.
    pub seed: u64,
    /// The counts of tokens in each part ([`Streams::parts`]).
    pub parts: [PartTotals; PARTS_MAX],
    /// Mean of `Σ_t (log π_θ - log π_ref)` over answers that belong to other prompts of the optimiser batch, if the
    /// objective needs it ([`Needs::mismatched`]).
    pub mismatched_log_ratio: Option<f64>,
}

/// The counts of tokens in a part of the batch, as in [`Totals`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartTotals {
    /// As [`Totals::tokens`].
    pub tokens: usize,
    /// As [`Totals::tokens_positive`].
    pub tokens_positive: usize,
    /// As [`Totals::tokens_generation`].
    pub tokens_generation: usize,
}

impl Totals {
    /// The totals as if only the tokens of part number `part` counted.
    pub(crate) fn of_part(&self, part: usize) -> Totals {
        let PartTotals { tokens, tokens_positive, tokens_generation } = self.parts[part];
        Totals { tokens, tokens_positive, tokens_generation, ..*self }
    }
}

/// What an objective needs beyond the policy's own log-probs. The trainer computes what is asked for; a recipe that
/// cannot supply it is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Log-probs of the reference policy.
    pub reference: bool,
    /// Log-probs of a teacher.
    pub teacher: bool,
    /// Which log-probs of sampling [`Streams::behavior`] holds.
    pub behavior: BehaviorSource,
    /// What [`Objective::head`] compares the student with: the likeliest tokens of a teacher's distributions, or the
    /// whole of them.
    pub head: Option<HeadTarget>,
    /// Entropies of the policy's distributions, on which the derivative depends. Without this need they only appear in
    /// metrics, and whoever does not know them may leave them at 0.
    pub entropies: bool,
    /// One look at the policy's log-probs and entropies of the whole optimiser batch before the first derivative:
    /// [`Objective::batch_constants`]. If the batch does not fit into one forward pass, this costs a second one.
    pub batch_constants: bool,
    /// Sequences that belong together ([`Streams::groups`]) must be evaluated together.
    pub groups: bool,
    /// Groups are pairs: a chosen answer, then a rejected one, each with tokens in the loss.
    pub pairs: bool,
    /// How far the policy is from the reference on answers to other prompts: [`Totals::mismatched_log_ratio`]. It takes
    /// a further forward pass of both.
    pub mismatched: bool,
}

impl Needs {
    /// The facts among these needs, which a provider has to supply.
    pub fn facts(&self) -> Vec<Need> {
        let streams =
            [(self.reference, &REFERENCE), (self.mismatched, &MISMATCHED), (self.teacher, &TEACHER)];
        let streams = streams.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, fact)| Need::of(fact));
        streams.chain(self.head.map(HeadTarget::need)).collect()
    }
}

/// A named number of a part of the batch, in a form in which parts can be put together.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Name, as it appears in the run's metrics.
    pub name: &'static str,
    /// Weighted sum over the part.
    pub sum: f64,
    /// Weight of the part; the value of the whole is Σ sum / Σ weight.
    pub weight: f64,
}

/// Adds a metric of a further part.
pub(crate) fn add(metrics: &mut Vec<Metric>, metric: Metric) {
    match metrics.iter_mut().find(|own| own.name == metric.name) {
        Some(own) => {
            own.sum += metric.sum;
            own.weight += metric.weight;
        }
        None => metrics.push(metric),
    }
}

/// Value, derivative and metrics of an objective on some sequences.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluation {
    /// This part's contribution to the loss of the optimiser batch; the contributions of all parts add up to it.
    pub loss: f64,
    /// ∂loss/∂policy, one entry per position; 0 where the loss mask is off.
    pub d_policy: Vec<f64>,
    /// ∂loss/∂entropy, one entry per position.
    pub d_entropy: Vec<f64>,
    /// What the head loss of each position is multiplied by, with the division by the aggregation's denominator done;
    /// one entry per position. Empty, or 0, where the objective has no head loss. [`Evaluation::loss`] does not include
    /// the head loss: the trainer adds it where it has the logits.
    pub head_weights: Vec<f64>,
    /// Named numbers.
    pub metrics: Vec<Metric>,
}

impl Evaluation {
    /// No loss, a derivative of 0 at each of `positions`, no metrics: what an objective starts from.
    pub fn zero(positions: usize) -> Self {
        Evaluation {
            d_policy: vec![0.0; positions],
            d_entropy: vec![0.0; positions],
            ..Evaluation::default()
        }
    }
}

/// A loss over per-token streams, with its derivative.
pub trait Objective: Send + Sync {
    /// What it needs beyond the policy's own log-probs.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// The facts about single tokens ([`Per::Token`](crate::fact::Per)) that it needs, which it finds by
    /// [`Streams::fact`].
    fn facts(&self) -> Vec<&'static Fact> {
        Vec::new()
    }

    /// The names of the spans of answers that it needs, which it finds by [`Streams::span`].
    fn spans(&self) -> Vec<String> {
        Vec::new()
    }

    /// The ids of the facts and spans that it needs: [`TokenFact::id`].
    fn token_facts(&self) -> Vec<String> {
        let spans = self.spans().into_iter().map(|span| span_id(&span));
        self.facts().into_iter().map(|fact| fact.id.to_owned()).chain(spans).collect()
    }

    /// What it fixes after a look at the whole optimiser batch: one entry per position. Called once, before the first
    /// [`Objective::evaluate`], if [`Needs::batch_constants`] asks for it.
    fn batch_constants(&self, _whole: &Streams<'_>, _totals: &Totals) -> Vec<BatchConstant> {
        Vec::new()
    }

    /// The bounds of the ratio, if it is PPO's clipped surrogate with a weight for each token that does not depend on the
    /// policy. Its derivative is then known from that at a ratio of 1, which is `-w·A`: times the ratio, it is that at
    /// any other, and 0 for a token that has crossed its bound.
    fn surrogate(&self) -> Option<RatioBounds> {
        None
    }

    /// Its loss on whole distributions, if it has one; [`Needs::head`] says what that needs from the teacher. A trainer
    /// reports the mean over the positions with a weight as `head_loss`.
    fn head(&self) -> Option<&dyn HeadLoss> {
        None
    }

    /// Evaluates some sequences of an optimiser batch whose totals are known.
    fn evaluate(&self, streams: &Streams<'_>, totals: &Totals) -> Evaluation;
}
