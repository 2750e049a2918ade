//! Published losses that pull the policy to a teacher, one file each.
//!
//! [`crate::catalogue::DISTILLATIONS`] lists those that need nothing but the teacher's log-probs of the sampled
//! tokens: they are an [`crate::Objective`]. [`crate::catalogue::HEAD_LOSSES`] lists those that compare whole
//! distributions: a [`HeadLoss`] on rows of logits, whose teacher side is a [`HeadTarget`].

mod gkd;
mod head;
mod opd;

pub use gkd::{Gkd, Rest};
pub use head::{HeadEvaluation, HeadLoss, HeadTarget, Teacher};
pub use opd::{Opd, Surrogate};
