//! Chains: multi-step arithmetic over numbers that the prompt states or over memorised facts.
//!
//! A task runs forward (its result is asked for) or in reverse (its result is stated, and one masked operand is asked
//! for). The inverse is exact and unique: only operations that can be undone are drawn. Tasks may be put in synthetic
//! languages, each a bijective change of signs, and the verdict may have several rewards at once. One environment, so
//! that methods with different needs can be compared on the same arithmetic: SKPO, RDPO, AOPD, SDAR, LANG, DeReason and
//! DGPO all use it.
//!
//! ```text
//! config ─> draw (forward) ─> Problem ─> plan ─> Task (prompt, truth) ─> policy ─> answer::read ─> judge ─> Verdict
//!                                └──── Generator::reverse, there and back
//! ```
//!
//! Numbers are natural: what would be negative or a fraction does not exist.

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
use serde_json::Value;

use crate::{EnvError, Generator, Kind, settings};

pub use crate::lang::Resource;

pub use answer::{Answer, FINAL, read};
pub use config::{Component, Config, Kinds, Language, Range};
pub use facts::{Facts, FactsConfig};
pub use generate::Chains;
pub use judge::{Finding, judge};
pub use problem::{Direction, Move, NUMBER_MAX, Operand, Operator, Part, Problem, Step, TaskKind, carry_out};

/// Id of the environment.
const ID: &str = "chains";

/// The environment in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    summary: "Work out a chain of operations, forward or in reverse, over stated numbers or memorised facts.",
    defaults: || settings::to_value(&Config::default()).unwrap_or_default(),
    build,
};

fn build(config: &Value) -> Result<Box<dyn Generator>, EnvError> {
    Ok(Box::new(Chains::new(settings::read(config)?)?))
}

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// What is asked.
    pub problem: Problem,
    /// The only right answer. None where a stated result, or an operand that was filled in, leaves none.
    pub answer: Option<u64>,
    /// What an answer gives that closes the cycle with the task that this one was turned round from: in reverse the
    /// operand that was masked there, forward the result that was stated there. For tasks that are drawn, and for those
    /// turned round with a right answer, it is [`Truth::answer`].
    pub recovers: u64,
}

impl Truth {
    /// The truth of a task of this environment.
    ///
    /// # Errors
    /// If the task is not one: names it.
    pub fn of(task: &Task) -> Result<Self, EnvError> {
        Truth::deserialize(&task.truth)
            .map_err(|error| EnvError::Foreign(format!("task {} is not one of {ID}: {error}", task.id)))
    }
}

/// An answer in plain signs: the work, then the final answer.
fn answer_text(steps: &[Step], answer: u64) -> String {
    format!("{}{FINAL}{answer}", answer::work(steps))
}
