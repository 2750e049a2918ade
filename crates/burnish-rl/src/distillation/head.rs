//! The seam of losses on whole next-token distributions.

use serde_json::Value;

use crate::fact::{Need, TEACHER_HEAD};

/// What is known of the teacher's distribution at one position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Teacher<'a> {
    /// Its logits, one entry per token of the vocabulary.
    Dense(&'a [f64]),
    /// Its likeliest tokens.
    Sparse {
        /// Distinct ids.
        ids: &'a [u32],
        /// Their log-probs in nats, normalised over the whole vocabulary, at the temperature of the loss; -∞ is no
        /// entry.
        logprobs: &'a [f64],
    },
}

/// A loss of one position, with its derivative.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeadEvaluation {
    /// In nats.
    pub value: f64,
    /// ∂value/∂logit of the student, one entry per token of the vocabulary.
    pub d_logits: Vec<f64>,
}

/// A distance of the student's next-token distribution from the teacher's: what an [`Objective`](crate::Objective) adds
/// at positions of its choice ([`Evaluation::head_weights`](crate::Evaluation::head_weights)).
///
/// A trainer evaluates it where it has the logits, some rows at a time, and never keeps them. Both sides' logits come over
/// the temperature at which the token was sampled.
pub trait HeadLoss: Send + Sync {
    /// Of one position: `student_logits` has one entry per token of the vocabulary.
    ///
    /// # Panics
    /// If the teacher's vocabulary is another, or it has an id that is not below its size.
    fn evaluate_row(&self, student_logits: &[f64], teacher: Teacher<'_>) -> HeadEvaluation;

    /// The `p`, one for each log-prob of a sparse teacher, with which the loss is `Σ p·log(p/Q)` over its tokens, if there
    /// are such: a trainer then computes it at hardly a cost, where [`HeadLoss::evaluate_row`] takes a pass over the
    /// vocabulary in f64.
    fn soft_labels(&self, _logprobs: &[f64]) -> Option<Vec<f64>> {
        None
    }
}

/// What of the teacher's distributions a [`HeadLoss`] is compared with, at every scored position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadTarget {
    /// So many likeliest tokens and their log-probs: enough for the forward KL divergence, and what an endpoint can answer
    /// with. A vocabulary with fewer gives all.
    Top(usize),
    /// All of it: the teacher's last hidden states, which its own head turns into logits beside the student's.
    Whole,
}

impl HeadTarget {
    /// The need of an objective that is compared with it.
    pub fn need(self) -> Need {
        let top = match self {
            HeadTarget::Top(top) => top.into(),
            HeadTarget::Whole => Value::Null,
        };
        Need { fact: &TEACHER_HEAD, settings: top }
    }

    /// What such a need is for.
    pub fn of(need: &Need) -> Self {
        need.settings.as_u64().map_or(HeadTarget::Whole, |top| HeadTarget::Top(top as usize))
    }
}
