//! Environments, task generators and verifiers: where a policy acts and is scored.
//!
//! A [`Generator`] makes [`Task`]s from a typed configuration that can be read, written, bounded and
//! redesigned between stages. An [`Environment`] plays one task and verifies what happened. Both see the
//! policy only through [`burnish_core::Policy`], so this crate compiles without tensors.
//!
//! [`CATALOGUE`] lists the environments that are built in; [`rollout`] plays episodes.

mod abilities;
pub mod accounts;
mod catalogue;
pub mod chains;
pub mod countdown;
mod digest;
mod error;
pub mod household;
pub mod lang;
pub mod mapf;
mod one_turn;
pub mod orders;
pub mod rollout;
pub mod rows;
mod settings;
mod shares;
pub mod timed_facts;
pub mod timeqa;
pub mod tools;

use burnish_core::{FunctionCall, Message, Repeating, Task, ToolSpec, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

pub use abilities::{Demonstrations, FileRows, Hints, Reversible, Skills};
pub use catalogue::{CATALOGUE, Kind, build, kind};
pub use digest::digest;
pub use error::EnvError;

/// One bound of a generator's configuration, for people and for an engineer that redesigns it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Path of the key, with dots; `*` stands for any key of a map.
    pub key: String,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// What the key does.
    pub help: String,
}

impl Bound {
    /// Bounds from rows of key, least, greatest, help.
    pub(crate) fn of(rows: &[(&str, f64, f64, &str)]) -> Vec<Bound> {
        let bound = |&(key, min, max, help): &(&str, f64, f64, &str)| Bound {
            key: key.to_owned(),
            min,
            max,
            help: help.to_owned(),
        };
        rows.iter().map(bound).collect()
    }
}

/// Tasks that were made together, and what making them took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSet {
    /// The tasks, in the order in which they are to be used.
    pub tasks: Vec<Task>,
    /// One row for each cell of the configuration.
    pub cells: Vec<CellReport>,
}

/// How hard it was to make the tasks of one cell of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    /// The cell (`size=4 wait=yes`).
    pub cell: String,
    /// Instances made.
    pub made: usize,
    /// Candidates drawn for them.
    pub drawn: usize,
    /// Candidates dropped, by reason (unsolvable, node budget ...).
    pub dropped: BTreeMap<String, usize>,
}

/// Makes tasks from a configuration.
///
/// What every environment has is here. What only some have is a trait of its own, and a method here gives it where this one
/// has it: [`Demonstrations`], [`Hints`], [`Skills`], [`Reversible`], [`FileRows`].
pub trait Generator: Send + Sync {
    /// Id of the environment in the [`CATALOGUE`].
    fn id(&self) -> &'static str;

    /// The configuration, complete with defaults: what [`Kind::build`] takes.
    fn config(&self) -> serde_json::Value;

    /// Which numbers of the configuration may be changed, and how far.
    fn bounds(&self) -> Vec<Bound>;

    /// The components that rewards of this configuration can have, which a recipe may weigh. None where only what judges
    /// knows them.
    fn components(&self) -> Option<Vec<String>> {
        None
    }

    /// Makes `count` tasks. The same (configuration, seed, count) gives the same bytes. Shares that the
    /// configuration asks for are met exactly up to rounding (largest remainder).
    ///
    /// # Errors
    /// If a cell of the configuration yields no instance in a fixed number of draws: names the key and the
    /// nearest value that can be met.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError>;

    /// A fresh environment that plays these tasks.
    fn environment(&self) -> Box<dyn Environment>;

    /// Why nothing may be trained on these tasks, where they are a test set.
    fn evaluation_only(&self) -> Option<&'static str> {
        None
    }

    /// The task drawn for a person, with the answer's effect where one is given.
    fn draw(&self, task: &Task, answer: Option<&str>) -> String;

    /// Correct answers, where it knows any.
    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        None
    }

    /// Reasoning to show the beginning of, where it has any.
    fn hints(&self) -> Option<&dyn Hints> {
        None
    }

    /// Advice for a teacher, where it has any.
    fn skills(&self) -> Option<&dyn Skills> {
        None
    }

    /// The other direction of its tasks, where they have one.
    fn reversible(&self) -> Option<&dyn Reversible> {
        None
    }

    /// The rows that its tasks are, where they are read from files.
    fn rows(&self) -> Option<&dyn FileRows> {
        None
    }
}

/// What came of one action.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The episode goes on; these messages are appended to the conversation.
    Continue(Vec<Message>),
    /// Somebody else is asked, and [`Environment::hear`] is told the answer.
    Ask(Question),
    /// The episode is over; verify it.
    Done,
}

/// What an environment asks somebody who is not the policy that plays: a simulated user, another player.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Who: a name that the run's cast has (`user`).
    pub who: String,
    /// The conversation as it stands from there, the newest message last.
    pub messages: Vec<Message>,
}

/// Plays one task. Single-threaded; one instance plays one episode at a time.
///
/// All that it does follows from what it is told, so that it can be brought back to any point by being told the same again.
pub trait Environment: Send {
    /// Starts an episode: returns the messages that open it. `seed` decides whatever is random inside.
    ///
    /// # Errors
    /// If the task's truth can't be read.
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Vec<Message>, EnvError>;

    /// Tools that may be called in this episode.
    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    /// What repeating a call of a tool means; `None` for a tool that is not run here: an answer that calls it goes to
    /// [`Environment::step`].
    fn repeating(&self, tool: &str) -> Option<Repeating> {
        let _ = tool;
        None
    }

    /// How long a call takes by the clock, beside the time that computing it takes: simulated tools are slow by it.
    fn latency(&self, call: &FunctionCall) -> Duration {
        let _ = call;
        Duration::ZERO
    }

    /// Runs a tool on arguments that fit its schema, and says its result as the policy reads it. `key` names the call: it is
    /// the same where the call is repeated, and another for every other call.
    ///
    /// # Errors
    /// If the environment itself fails; what the tool refuses is its result.
    fn call(&mut self, call: &FunctionCall, key: &str) -> Result<String, EnvError> {
        let _ = key;
        Err(EnvError::Failed(format!("the tool `{}` is not run here", call.name)))
    }

    /// Takes the policy's message.
    ///
    /// # Errors
    /// If the environment itself fails; a wrong action is not an error but part of the verdict.
    fn step(&mut self, action: &Message) -> Result<Step, EnvError>;

    /// Takes the answer to what was asked with [`Step::Ask`].
    ///
    /// # Errors
    /// If the environment itself fails.
    fn hear(&mut self, said: &Message) -> Result<Step, EnvError> {
        let _ = said;
        Err(EnvError::Failed("nobody was asked".to_owned()))
    }

    /// Do calls and verdicts take long, so that they are made beside everything else, each on a thread of its own?
    fn is_slow(&self) -> bool {
        false
    }

    /// Judges the episode so far.
    ///
    /// # Errors
    /// If the environment itself fails. A verifier that cannot judge returns an unscored verdict instead.
    fn verify(&mut self) -> Result<Verdict, EnvError>;
}
