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

use crate::{Kind, settings};

pub use config::{Config, Range};
pub use generate::Programs;
pub use steps::{End, Step};

/// Id of the environment.
const ID: &str = "programs";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "writing small programs",
    summary: "A Python function on a list, described in words and judged by running it.",
    axes: Some(["steps", "returns"]),
    defaults: || settings::to_value(&Config::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Programs::new(settings::read(config)?)?)),
};

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    /// A right program.
    program: String,
    /// Calls with what they must return.
    tests: Vec<String>,
}
