//! The seam of losses on whole next-token distributions, and what a trainer keeps of the teacher for them.

use crate::SettingError;

/// What is known of the teacher's distribution at one position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Teacher<'a> {
    /// Its logits, one entry a token of the vocabulary.
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
    /// ∂value/∂logit of the student, one entry a token of the vocabulary.
    pub d_logits: Vec<f64>,
}

/// A distance of the student's next-token distribution from the teacher's. The loss of a batch is the mean over its
/// tokens in the loss.
pub trait HeadLoss: Send + Sync {
    /// Of one position: `student_logits` has one entry a token of the vocabulary.
    ///
    /// # Panics
    /// If the teacher's vocabulary is another, or it has an id that is not below its size
    /// ([`HeadTarget::check`] says so in time).
    fn evaluate(&self, student_logits: &[f64], teacher: Teacher<'_>) -> HeadEvaluation;
}

/// What a trainer is given of a teacher, for a number of scored positions one behind the other: the other side of a
/// [`HeadLoss`]. It declares what the head of the student is compared with; logits of either model are made
/// chunk by chunk where the loss is evaluated, and are never stored.
#[derive(Debug, Clone, PartialEq)]
pub enum HeadTarget {
    /// The `top` likeliest tokens of each position: enough for the forward KL divergence, and what an endpoint
    /// can answer with.
    Sparse {
        /// Tokens a position.
        top: usize,
        /// `[positions, top]`: distinct ids in a position.
        ids: Vec<u32>,
        /// `[positions, top]`: their log-probs in nats, over the whole vocabulary; -∞ where there are fewer.
        logprobs: Vec<f64>,
    },
    /// The teacher's last hidden states, which its own head turns into logits: for losses that need all of them
    /// (reverse KL, JSD).
    Dense {
        /// Width of the teacher's model.
        width: usize,
        /// `[positions, width]`.
        hidden: Vec<f32>,
    },
}

impl HeadTarget {
    /// # Errors
    /// If it does not describe `positions` positions of a vocabulary of `vocabulary` tokens.
    pub fn check(&self, positions: usize, vocabulary: usize) -> Result<(), SettingError> {
        let length = |key: &str, found: usize, row: usize| {
            let message = format!("must have {positions} positions of {row} numbers, not {found} numbers");
            (found == positions * row).then_some(()).ok_or_else(|| SettingError::new(key, message))
        };
        match self {
            HeadTarget::Dense { width, hidden } => length("hidden", hidden.len(), *width),
            HeadTarget::Sparse { top, ids, logprobs } => {
                length("ids", ids.len(), *top)?;
                length("logprobs", logprobs.len(), *top)?;
                match ids.iter().find(|id| **id as usize >= vocabulary) {
                    None => Ok(()),
                    Some(id) => {
                        Err(SettingError::new("ids", format!("must be below {vocabulary}, not {id}")))
                    }
                }
            }
        }
    }

    /// The teacher at position `at`, if it is known without the teacher's head.
    pub fn row(&self, at: usize) -> Option<Teacher<'_>> {
        match self {
            HeadTarget::Dense { .. } => None,
            HeadTarget::Sparse { top, ids, logprobs } => {
                let row = at * top..(at + 1) * top;
                Some(Teacher::Sparse { ids: ids.get(row.clone())?, logprobs: logprobs.get(row)? })
            }
        }
    }
}
