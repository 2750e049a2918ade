//! Chains: multi-step arithmetic on numbers that the prompt states, or on memorised facts.
//!
//! A task runs forward (its result is asked for) or in reverse (its result is stated, and one masked operand is asked
//! for). The inverse is exact and unique, because only operations that can be undone are drawn. Tasks may be written in
//! synthetic languages, each a bijective change of signs, and the verdict may have several rewards at once. It is one
//! environment, so that methods with different needs can be compared on the same arithmetic: SKPO, RDPO, AOPD, SDAR,
//! LANG, DeReason and DGPO all use it.
//!
//! ```text
//! config ─> draw (forward) ─> Problem ─> plan ─> Task (prompt, truth) ─> policy ─> answer::read ─> judge ─> Verdict
//!                                └──── Generator::reverse, there and back
//! ```
//!
//! Numbers are natural: operations with a negative or fractional result are undefined.

mod answer;
mod config;
mod draw;
mod facts;
mod generate;
mod judge;
pub mod language;
mod problem;

use burnish_core::Task;
use serde::{Deserialize, Serialize};

use crate::tasks;
use crate::{EnvError, Kind, settings};

pub use crate::lang::Resource;

pub use answer::{Answer, FINAL, read};
pub use config::{Component, Config, Kinds, Language, Range};
pub use facts::{Facts, FactsConfig};
pub use generate::Chains;
pub use judge::{Finding, judge};
pub use problem::{Direction, Move, NUMBER_MAX, Operand, Operator, Part, Problem, Step, TaskKind, carry_out};

/// Id of the environment.
const ID: &str = "chains";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "chains of operations",
    summary: "Work out a chain of operations, forward or in reverse, over stated numbers or memorised facts.",
    axes: None,
    defaults: || settings::to_value(&Config::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Chains::new(settings::read(config)?)?)),
};

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// The problem that is asked.
    pub problem: Problem,
    /// The only right answer. `None` if a stated result, or a filled-in operand, leaves none.
    pub answer: Option<u64>,
    /// The answer that closes the cycle with the task that was reversed into this one: in reverse the operand that was
    /// masked there, forward the result that was stated there. For drawn tasks, and for those reversed with a right
    /// answer, it equals [`Truth::answer`].
    pub recovers: u64,
}

impl Truth {
    /// The truth of a task of this environment.
    ///
    /// # Errors
    /// If the task is not one of this environment: names it.
    pub fn of(task: &Task) -> Result<Self, EnvError> {
        tasks::read(ID, task)
    }
}

/// An answer in plain signs: the work, then the final answer.
fn answer_text(steps: &[Step], answer: u64) -> String {
    format!("{}{FINAL}{answer}", answer::work(steps))
}
