//! A loss on whole distributions, on its way into the backward pass of the head.

use burnish_rl::distillation::{HeadLoss, Teacher};
use burnish_rl::{Evaluation, Metric, Objective};
use burnish_tensor::{GradientsMut, HeadTerm, RowLoss, Tape, TokenScores};

use crate::columns::widen;
use crate::target::{Target, TeacherHead};
use crate::{MicroBatch, Sample, TrainError};

/// The head loss of a micro-batch's scored tokens.
pub(crate) struct HeadRows<'a> {
    loss: &'a dyn HeadLoss,
    weights: Vec<f32>,
    teacher: Rows<'a>,
}

/// The teacher's side: the rows of all scored tokens, concatenated in their order.
enum Rows<'a> {
    /// `Σ p·log(p/q)` over some tokens of each row.
    SoftLabels { top: usize, ids: Vec<u32>, probabilities: Vec<f32> },
    /// The likeliest tokens of each row.
    Top { top: usize, ids: Vec<u32>, logprobs: Vec<f64> },
    /// Hidden states, and the head that reads them.
    Hidden { head: &'a TeacherHead, hidden: Vec<f32> },
}

impl<'a> HeadRows<'a> {
    /// `None` if no token has a weight. The samples must have been checked for what the objective needs.
    pub(crate) fn of(
        objective: &'a dyn Objective,
        evaluation: &Evaluation,
        batch: &MicroBatch,
        samples: &[&'a Sample],
    ) -> Result<Option<Self>, TrainError> {
        let (given, tokens) = (evaluation.head_weights.len(), batch.rows.len());
        if given != 0 && given != tokens {
            return Err(TrainError::Derivatives { given, tokens });
        }
        if evaluation.head_weights.iter().all(|weight| *weight == 0.0) {
            return Ok(None);
        }
        let weights = evaluation.head_weights.iter().map(|weight| *weight as f32).collect();
        let targets = batch.samples.iter().filter_map(|index| samples[*index].target.as_ref());
        let loss = objective.head().filter(|_| objective.needs().head.is_some());
        let (Some(loss), Some(teacher)) = (loss, Rows::of(loss, targets)) else {
            let problem =
                "the objective gave weights, but has no such loss, or did not say what it needs for it";
            return Err(TrainError::HeadLoss { problem });
        };
        Ok(Some(HeadRows { loss, weights, teacher }))
    }

    /// For [`Tape::backward_with`]: the loss of each row that has a weight.
    pub(crate) fn backward(
        &self,
        tape: Tape<'_>,
        scores: &TokenScores,
        d_logprob: &[f32],
        d_entropy: &[f32],
        share: Option<GradientsMut<'_>>,
        grads: GradientsMut<'_>,
    ) -> Vec<f64> {
        let sparse = |at: usize, own: &[f64], _: &[f64]| match &self.teacher {
            Rows::Top { top, ids, logprobs } => {
                let row = at * top..(at + 1) * top;
                let teacher = Teacher::Sparse { ids: &ids[row.clone()], logprobs: &logprobs[row] };
                let found = self.loss.evaluate_row(own, teacher);
                (found.value, found.d_logits)
            }
            _ => (0.0, vec![0.0; own.len()]),
        };
        let dense = |_: usize, own: &[f64], theirs: &[f64]| {
            let found = self.loss.evaluate_row(own, Teacher::Dense(theirs));
            (found.value, found.d_logits)
        };
        let loss = match &self.teacher {
            Rows::SoftLabels { top, ids, probabilities } => {
                RowLoss::SoftLabels { top: *top, ids, probabilities }
            }
            Rows::Top { .. } => RowLoss::Whole { evaluate: &sparse, teacher: None },
            Rows::Hidden { head, hidden } => {
                RowLoss::Whole { evaluate: &dense, teacher: Some(head.rows(hidden)) }
            }
        };
        let head = HeadTerm { weights: &self.weights, loss };
        tape.backward_with(scores, d_logprob, d_entropy, Some(head), share, grads)
    }
}

impl<'a> Rows<'a> {
    /// `None` without targets or without a loss.
    fn of(loss: Option<&dyn HeadLoss>, targets: impl Iterator<Item = &'a Target>) -> Option<Self> {
        let (mut all_ids, mut all_logprobs, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut kind = None;
        for target in targets {
            kind = Some(target);
            match target {
                Target::Top { ids, logprobs, .. } => {
                    all_ids.extend_from_slice(ids);
                    all_logprobs.extend(widen(logprobs));
                }
                Target::Hidden { hidden, .. } => rows.extend_from_slice(hidden),
            }
        }
        match kind? {
            Target::Hidden { head, .. } => Some(Rows::Hidden { head, hidden: rows }),
            Target::Top { top, .. } => {
                let labels = all_logprobs.chunks(*top).map(|row| loss?.soft_labels(row));
                Some(match labels.collect::<Option<Vec<_>>>() {
                    Some(labels) => {
                        let probabilities = labels.concat().into_iter().map(|p| p as f32).collect();
                        Rows::SoftLabels { top: *top, ids: all_ids, probabilities }
                    }
                    None => Rows::Top { top: *top, ids: all_ids, logprobs: all_logprobs },
                })
            }
        }
    }
}

/// Sums of the head losses of a micro-batch.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Divergence {
    /// What they add to the loss.
    pub(crate) weighted: f64,
    sum: f64,
    rows: f64,
}

impl Divergence {
    pub(crate) fn of(weights: &[f64], values: &[f64]) -> Self {
        let mut found = Divergence::default();
        for (weight, value) in weights.iter().zip(values).filter(|(weight, _)| **weight != 0.0) {
            found.weighted += weight * value;
            found.sum += value;
            found.rows += 1.0;
        }
        found
    }

    pub(crate) fn metrics(self) -> Vec<Metric> {
        let mean = Metric { name: "head_loss", sum: self.sum, weight: self.rows };
        if self.rows == 0.0 { Vec::new() } else { vec![mean] }
    }
}
