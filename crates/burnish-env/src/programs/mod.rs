//! Small programming tasks: a function on a list of whole numbers, described in words, judged by running it.
//!
//! A task is a chain of steps ([`Step`]) and what to return ([`End`]). The tests are calls with random lists and what
//! the chain gives for them, computed here. A chain is dropped if leaving out one of its steps passes the same tests,
//! so an answer that forgets one is wrong. The answer is run in a sandbox (`docs/sandbox.md`).

mod config;
mod generate;
mod play;
mod steps;

use serde::{Deserialize, Serialize};

use crate::Kind;
use crate::family::FamilyGenerator;

pub use config::{Config, Range};
pub use generate::Programs;
pub use steps::{End, Step};

/// The environment's entry in the catalogue.
pub const KIND: Kind = FamilyGenerator::<Programs>::KIND;

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// A right program.
    program: String,
    /// Calls with what they must return.
    tests: Vec<String>,
}
