//! What the losses of preferences share: log-probs of answers, and how pairs become an [`Evaluation`].

use std::ops::Range;

use crate::{Evaluation, Metric, Streams, Totals};

/// An answer, as a preference loss sees it: the loss depends on the tokens only through the sum of their log-probs.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// Its tokens in the loss.
    positions: Vec<usize>,
    /// Σ log π_θ over them, in nats.
    pub(super) policy: f64,
    /// Σ log π_ref over them; 0 without a reference.
    pub(super) reference: f64,
    /// How many there are, but at least 1: what a mean divides by.
    pub(super) tokens: f64,
}

impl Answer {
    /// # Panics
    /// If a reference is wanted and the streams have none.
    pub(super) fn of(streams: &Streams<'_>, sequence: &Range<usize>, with_reference: bool) -> Self {
        assert!(!with_reference || streams.reference.is_some(), "the streams need a reference");
        let positions: Vec<usize> = streams.loss_positions(sequence.clone()).collect();
        let sum = |stream: &[f64]| positions.iter().map(|at| stream[*at]).sum();
        Answer {
            policy: sum(streams.policy),
            reference: streams.reference.filter(|_| with_reference).map_or(0.0, sum),
            tokens: positions.len().max(1) as f64,
            positions,
        }
    }

    /// log (π_θ / π_ref) of the answer.
    pub(super) fn log_ratio(&self) -> f64 {
        self.policy - self.reference
    }

    /// Is there no token in the loss?
    pub(super) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The advantage of the first token in the loss: the label of a labelled answer, 0 if it has none.
    pub(super) fn label(&self, streams: &Streams<'_>) -> f64 {
        self.positions.first().map_or(0.0, |at| streams.advantage[*at])
    }

    /// Adds `derivative`, that of the loss with respect to [`Answer::policy`], to each token.
    pub(super) fn add_derivative(&self, derivative: f64, evaluation: &mut Evaluation) {
        for &at in &self.positions {
            evaluation.d_policy[at] += derivative;
        }
    }
}

/// The loss of a pair. Arrays hold the chosen answer's number, then the rejected one's.
#[derive(Debug, Clone, Default)]
pub(super) struct PairLoss {
    pub(super) value: f64,
    /// Derivatives with respect to the two sums of log-probs.
    pub(super) d: [f64; 2],
    /// Implicit rewards, for the metrics.
    pub(super) rewards: [f64; 2],
    /// log-probs, for the metrics: sums or means, as the loss has them.
    pub(super) logps: [f64; 2],
    /// Further named numbers.
    pub(super) metrics: Vec<(&'static str, f64)>,
}

/// Collects pairs.
pub(super) struct Pairs<'a> {
    streams: &'a Streams<'a>,
    evaluation: Evaluation,
    /// Pairs in the optimiser batch.
    count: f64,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(streams: &'a Streams<'a>, totals: &Totals) -> Self {
        let evaluation = Evaluation::zero(streams.policy.len());
        Pairs { streams, evaluation, count: totals.sequences as f64 / 2.0 }
    }

    /// Adds a pair that counts as `share` pairs.
    pub(super) fn add(&mut self, chosen: &Answer, rejected: &Answer, loss: PairLoss, share: f64) {
        let weight = share / self.count;
        self.evaluation.loss += weight * loss.value;
        chosen.add_derivative(weight * loss.d[0], &mut self.evaluation);
        rejected.add_derivative(weight * loss.d[1], &mut self.evaluation);
        let [reward_chosen, reward_rejected] = loss.rewards;
        let common = [
            ("rewards/chosen", reward_chosen),
            ("rewards/rejected", reward_rejected),
            ("rewards/accuracies", f64::from(reward_chosen > reward_rejected)),
            ("rewards/margins", reward_chosen - reward_rejected),
            ("logps/chosen", loss.logps[0]),
            ("logps/rejected", loss.logps[1]),
        ];
        for (name, value) in common.into_iter().chain(loss.metrics) {
            add_metric(&mut self.evaluation.metrics, name, share * value, share);
        }
    }

    pub(super) fn finish(mut self) -> Evaluation {
        self.evaluation.metrics.push(entropy(self.streams));
        self.evaluation
    }
}

/// The mean of `loss` over pairs.
///
/// # Panics
/// If a group is not a pair, or a reference is wanted and the streams have none.
pub(super) fn mean_over_pairs(
    streams: &Streams<'_>,
    totals: &Totals,
    with_reference: bool,
    loss: impl Fn(&Answer, &Answer) -> PairLoss,
) -> Evaluation {
    let mut pairs = Pairs::new(streams, totals);
    for group in streams.groups {
        assert_eq!(group.len(), 2, "a pair is a group of two sequences: chosen, rejected");
        let answer = |at: usize| Answer::of(streams, &streams.sequences[at], with_reference);
        let (chosen, rejected) = (answer(group.start), answer(group.start + 1));
        let found = loss(&chosen, &rejected);
        pairs.add(&chosen, &rejected, found, 1.0);
    }
    pairs.finish()
}

/// Adds to the metric with that name.
pub(super) fn add_metric(metrics: &mut Vec<Metric>, name: &'static str, sum: f64, weight: f64) {
    match metrics.iter_mut().find(|metric| metric.name == name) {
        Some(metric) => {
            metric.sum += sum;
            metric.weight += weight;
        }
        None => metrics.push(Metric { name, sum, weight }),
    }
}

/// The mean entropy of loss tokens.
pub(super) fn entropy(streams: &Streams<'_>) -> Metric {
    let (mut sum, mut weight) = (0.0, 0.0);
    for at in streams.loss_positions(0..streams.policy.len()) {
        sum += streams.entropy[at];
        weight += 1.0;
    }
    Metric { name: "entropy", sum, weight }
}

/// 1 / (1 + exp(-x)); no intermediate overflows, and small values keep all their digits.
pub(super) fn sigmoid(x: f64) -> f64 {
    let small = (-x.abs()).exp();
    if x >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}

/// log σ(x), for every finite x.
pub(super) fn log_sigmoid(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}
