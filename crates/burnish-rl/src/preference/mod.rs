//! Published preference losses, one file each; [`crate::catalogue::PREFERENCES`] lists them.
//!
//! A pair is a group of two sequences ([`crate::Streams::groups`]): the chosen answer first, the rejected one
//! second. A labelled answer ([`Kto`], [`GroupDpo`], [`Dgpo`]) is a sequence whose advantage is above 0 if it is
//! desirable, below 0 if it is undesirable, and 0 if nothing is known about it. The loss mask says which tokens are the
//! answer.

mod common;
mod dgpo;
mod dpo;
mod group_dpo;
mod ipo;
mod kto;
mod orpo;
mod simpo;

pub use dgpo::{Dgpo, Score};
pub use dpo::{Dpo, DpoLoss};
pub use group_dpo::GroupDpo;
pub use ipo::Ipo;
pub use kto::{Baseline, Kto};
pub use orpo::Orpo;
pub use simpo::Simpo;
