//! Published losses that pull the policy towards a teacher, one file each.
//!
//! [`crate::catalogue::DISTILLATIONS`] lists them: each is an [`crate::Objective`]. One that compares whole
//! distributions has a [`HeadLoss`] on rows of logits, and says with a [`HeadTarget`] how much of the teacher's
//! distributions that needs.

mod aopd;
mod gkd;
mod head;
mod opd;

pub use aopd::Aopd;
pub use gkd::{Gkd, Rest};
pub use head::{HeadEvaluation, HeadLoss, HeadTarget, Teacher};
pub use opd::{Opd, Surrogate};
