//! The seam for losses on whole next-token distributions.

use serde_json::Value;

use crate::fact::{Need, TEACHER_HEAD};

/// What is known about the teacher's distribution at one position.
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
/// A trainer evaluates it where it has the logits, some rows at a time, and never keeps them. The logits of both sides
/// are already divided by the temperature at which the token was sampled.
pub trait HeadLoss: Send + Sync {
    /// The loss of one position: `student_logits` has one entry per token of the vocabulary.
    ///
    /// # Panics
    /// If the teacher's vocabulary has another size, or one of its ids is outside of the vocabulary.
    fn evaluate_row(&self, student_logits: &[f64], teacher: Teacher<'_>) -> HeadEvaluation;

    /// If the loss is `Σ p·log(p/Q)` over the tokens of a sparse teacher: the `p`, one for each of the teacher's
    /// log-probs. A trainer then computes it at hardly any cost, while [`HeadLoss::evaluate_row`] takes a pass over the
    /// vocabulary in f64.
    fn soft_labels(&self, _logprobs: &[f64]) -> Option<Vec<f64>> {
        None
    }
}

/// Which part of the teacher's distributions a [`HeadLoss`] compares the student with, at every scored position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadTarget {
    /// This many likeliest tokens and their log-probs: enough for the forward KL divergence, and something that an
    /// endpoint can return. A smaller vocabulary gives all its tokens.
    Top(usize),
    /// The whole distribution: the teacher's last hidden states, which its own head turns into logits when the
    /// student's are computed.
    Whole,
}

impl HeadTarget {
    /// The need of an objective with this target.
    pub fn need(self) -> Need {
        let top = match self {
            HeadTarget::Top(top) => top.into(),
            HeadTarget::Whole => Value::Null,
        };
        Need { fact: &TEACHER_HEAD, settings: top }
    }

    /// The target of such a need.
    pub fn of(need: &Need) -> Self {
        need.settings.as_u64().map_or(HeadTarget::Whole, |top| HeadTarget::Top(top as usize))
    }
}
