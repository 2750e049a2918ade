//! Environments, task generators and verifiers: where a policy acts and is scored.
//!
//! A [`Generator`] makes [`Task`]s from a typed configuration that can be read, written, bounded and redesigned between
//! stages. An [`Environment`] plays one task and verifies what happened. Both see the policy only through
//! [`burnish_core::Policy`], so this crate compiles without tensors.
//!
//! [`CATALOGUE`] lists the built-in environments; [`rollout`] plays episodes.

/// The methods of every [`Generator`] with a field `config`: its id, its configuration, and the bounds of its keys.
macro_rules! configured {
    ($id:expr, $bounds:path) => {
        fn id(&self) -> &'static str {
            $id
        }

        fn config(&self) -> serde_json::Value {
            $crate::settings::to_value(&self.config).unwrap_or_default()
        }

        fn bounds(&self) -> Vec<$crate::Bound> {
            $crate::Bound::of($bounds)
        }
    };
}
pub(crate) use configured;

mod abilities;
pub mod accounts;
mod around;
pub mod associative;
mod catalogue;
pub mod chains;
pub mod clarify;
mod code;
pub mod command;
pub mod countdown;
mod digest;
mod error;
pub mod family;
mod guest;
pub mod household;
pub mod lang;
mod many_turns;
pub mod mapf;
pub mod mapped;
pub mod mapping;
pub mod offered;
mod one_turn;
pub mod openenv;
pub mod orders;
pub mod programs;
pub mod recall;
pub mod redesign;
pub mod rollout;
pub mod rows;
pub mod scenes;
#[cfg(test)]
mod scripted;
pub mod servers;
mod session;
mod settings;
mod shares;
pub mod skilled;
pub mod specs;
pub mod tables;
mod tasks;
pub mod timed_facts;
pub mod timeqa;
pub mod tools;
pub mod worlds;

use burnish_core::{FunctionCall, Message, Repeating, Task, ToolSpec, TurnOutput, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

pub use abilities::{
    CellStep, Cells, Demonstrations, FileRows, Goals, Hints, Redesign, Reversible, SkillLibrary, Skills,
    Wanted,
};
pub use catalogue::{CATALOGUE, Kind, build, kind};
pub use command::agent;
pub use digest::digest;
pub use error::EnvError;

/// The bounds of one key of a generator's configuration, for people and for an engineer that redesigns it.
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

/// A [`Bound`] as it is written down: key, lower bound, upper bound, help.
pub(crate) type BoundRow = (&'static str, f64, f64, &'static str);

impl Bound {
    pub(crate) fn of(rows: &[BoundRow]) -> Vec<Bound> {
        let bound = |&(key, min, max, help): &BoundRow| Bound {
            key: key.to_owned(),
            min,
            max,
            help: help.to_owned(),
        };
        rows.iter().map(bound).collect()
    }

    /// The bounds of a table below `key`.
    pub(crate) fn below(key: &str, bounds: Vec<Bound>) -> Vec<Bound> {
        let below = |bound: Bound| Bound { key: format!("{key}.{}", bound.key), ..bound };
        bounds.into_iter().map(below).collect()
    }
}

/// Tasks that were made together, and how hard it was to make them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSet {
    /// The tasks, in the order in which they are to be used.
    pub tasks: Vec<Task>,
    /// One report per cell of the configuration.
    pub cells: Vec<CellReport>,
}

impl TaskSet {
    /// The same where each task is the first one of its id, because an id stands for one content.
    #[must_use]
    pub fn unified(mut self) -> Self {
        tasks::unify(&mut self.tasks);
        self
    }

    /// The same with a report on each of these cells in their order, also on those of which there is no task.
    #[must_use]
    pub fn reporting(mut self, cells: impl IntoIterator<Item = impl Display>) -> Self {
        let report = |cell: String| {
            let made = self.cells.iter().find(|report| report.cell == cell);
            made.cloned().unwrap_or_else(|| CellReport::new(cell))
        };
        self.cells = cells.into_iter().map(|cell| report(cell.to_string())).collect();
        self
    }
}

/// How hard it was to make the tasks of one cell of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CellReport {
    /// The cell (`size=4 wait=yes`).
    pub cell: String,
    /// Number of instances made.
    pub made: usize,
    /// Number of candidates drawn for them.
    pub drawn: usize,
    /// Number of candidates dropped, by reason (unsolvable, node budget ...).
    pub dropped: BTreeMap<String, usize>,
}

impl CellReport {
    /// Of a cell of which nothing is made yet.
    pub(crate) fn new(cell: impl Into<String>) -> Self {
        CellReport { cell: cell.into(), ..CellReport::default() }
    }

    /// Of a cell every candidate of which was made.
    pub(crate) fn all(cell: impl Into<String>, made: usize) -> Self {
        CellReport { made, drawn: made, ..CellReport::new(cell) }
    }

    /// The first of at most `most` candidates that is not dropped. `candidate` draws one, or says why it is dropped.
    pub(crate) fn draw<T>(
        &mut self,
        most: usize,
        mut candidate: impl FnMut() -> Result<T, &'static str>,
    ) -> Option<T> {
        for _ in 0..most {
            self.drawn += 1;
            match candidate() {
                Ok(made) => {
                    self.made += 1;
                    return Some(made);
                }
                Err(reason) => *self.dropped.entry(reason.to_owned()).or_default() += 1,
            }
        }
        None
    }
}

/// Makes tasks from a configuration.
///
/// This trait has what every environment has. Each ability that only some have is a trait of its own, and a method here
/// returns it if this environment has it: [`Demonstrations`], [`Hints`], [`Skills`], [`Reversible`], [`FileRows`],
/// [`Redesign`].
pub trait Generator: Send + Sync {
    /// Id of the environment in the [`CATALOGUE`].
    fn id(&self) -> &'static str;

    /// The configuration, complete with defaults, in the form that [`Kind::build`] takes.
    fn config(&self) -> serde_json::Value;

    /// The numeric keys of the configuration that may be changed, with their bounds.
    fn bounds(&self) -> Vec<Bound>;

    /// The reward components that this configuration can have, which a recipe may weight. `None` if only the verifier
    /// knows them.
    fn components(&self) -> Option<Vec<String>> {
        None
    }

    /// Makes `count` tasks. The same (configuration, seed, count) gives the same bytes. Shares in the configuration are
    /// met exactly up to rounding (largest remainder).
    ///
    /// # Errors
    /// If a cell of the configuration yields no instance in a fixed number of draws: names the key and the nearest
    /// value for which there are instances.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError>;

    /// A fresh environment that plays these tasks.
    fn environment(&self) -> Box<dyn Environment>;

    /// Makes sure that its verdicts can be had on this machine. Called before anything is played, not to check a recipe.
    ///
    /// # Errors
    /// If they can't: why.
    fn ready(&self) -> Result<(), EnvError> {
        Ok(())
    }

    /// Do its episodes ask a partner `extractor` to copy final answers out of responses?
    fn needs_extractor(&self) -> bool {
        false
    }

    /// Most episodes that it can play at the same time; `None` without a limit.
    fn at_once(&self) -> Option<usize> {
        None
    }

    /// The files that its tasks are made from, as paths relative to the current directory.
    fn files(&self) -> Vec<PathBuf> {
        self.rows().map(FileRows::files).unwrap_or_default()
    }

    /// If these tasks are a test set: why nothing may be trained on them.
    fn evaluation_only(&self) -> Option<&'static str> {
        None
    }

    /// Shows the task to a person, with the effect of the answer if one is given.
    fn draw(&self, task: &Task, answer: Option<&str>) -> String;

    /// Correct answers, if it knows any.
    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        None
    }

    /// Reasoning for hints, if it has any.
    fn hints(&self) -> Option<&dyn Hints> {
        None
    }

    /// Goals that episodes find out, if they do.
    fn goals(&self) -> Option<&dyn Goals> {
        None
    }

    /// Advice for a teacher, if it has any.
    fn skills(&self) -> Option<&dyn Skills> {
        None
    }

    /// The library of skills that its episodes read, if there is one.
    fn skill_library(&self) -> Option<&dyn SkillLibrary> {
        None
    }

    /// The reverse direction of its tasks, if they have one.
    fn reversible(&self) -> Option<&dyn Reversible> {
        None
    }

    /// The cells that its answers name, if they do.
    fn cells(&self) -> Option<&dyn Cells> {
        None
    }

    /// The keys that may be redesigned, if it says which.
    fn redesign(&self) -> Option<&dyn Redesign> {
        None
    }

    /// The rows of its tasks, if they are read from files.
    fn rows(&self) -> Option<&dyn FileRows> {
        None
    }
}

/// The result of one action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The episode continues; these messages are appended to the conversation.
    Continue(Vec<Message>),
    /// Somebody else is asked; [`Environment::hear`] receives the answer.
    Ask(Question),
    /// A program asks the policy, with a conversation of its own; [`Environment::answer`] receives the answer.
    Turn(Posed),
    /// The episode is over; verify it.
    Done,
}

/// What a program asks the policy: everything that the policy reads, whatever was said before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Posed {
    /// The whole conversation, the newest message last.
    pub messages: Vec<Message>,
    /// Tools that may be called.
    pub tools: Vec<ToolSpec>,
    /// Most tokens of the answer, if they are to be fewer than those of the sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<usize>,
    /// Further texts that end the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

/// A question of an environment to somebody other than the playing policy: a simulated user, another player.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Who is asked: a name in the run's cast (`user`).
    pub who: String,
    /// The conversation from that side, the newest message last.
    pub messages: Vec<Message>,
    /// The answer only helps to judge: if there is none, the episode is unscored. Else the run ends, because without the
    /// partner no episode can be played.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_for_verdict: bool,
}

/// Plays one task. Single-threaded; one instance plays one episode at a time.
///
/// Its behaviour must follow from its inputs alone, so that it can be brought back to any point by repeating them.
pub trait Environment: Send {
    /// Starts an episode: returns the messages that open it. `seed` decides everything random inside.
    ///
    /// # Errors
    /// If the task's truth can't be read.
    fn reset(&mut self, task: &Task, seed: u64) -> Result<Vec<Message>, EnvError>;

    /// Tools that may be called in this episode.
    fn tools(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    /// What it means to repeat a call of a tool. `None` for a tool that is not run here: an answer that calls it goes
    /// to [`Environment::step`].
    fn repeating(&self, tool: &str) -> Option<Repeating> {
        let _ = tool;
        None
    }

    /// What it means to repeat the opening, a step, or what is heard, if these are computed elsewhere: each is then on the
    /// episode's record, as calls of tools are. `None` if they are computed here, so that a replay computes them again.
    fn stepping(&self) -> Option<Repeating> {
        None
    }

    /// Whether a program asks the policy by itself. Then [`Environment::begin`] follows the opening, and its turns are
    /// [`Step::Turn`].
    fn asks(&self) -> bool {
        false
    }

    /// Starts the program that asks; returns what it asks first.
    ///
    /// # Errors
    /// If the program fails, or ends without having asked.
    fn begin(&mut self) -> Result<Step, EnvError> {
        Err(EnvError::Failed("no program asks here".to_owned()))
    }

    /// Gives the program its answer.
    ///
    /// # Errors
    /// If the program fails.
    fn answer(&mut self, said: &TurnOutput) -> Result<Step, EnvError> {
        self.step(&said.message)
    }

    /// Simulated duration of a call, in addition to the time that computing it takes.
    fn latency(&self, call: &FunctionCall) -> Duration {
        let _ = call;
        Duration::ZERO
    }

    /// Runs a tool on arguments that fit its schema, and returns the result as the policy reads it. `key` identifies
    /// the call: it is the same when the call is repeated, and differs for every other call.
    ///
    /// # Errors
    /// If the environment itself fails; a refusal of the tool is its result.
    fn call(&mut self, call: &FunctionCall, key: &str) -> Result<String, EnvError> {
        let _ = key;
        Err(EnvError::Failed(format!("the tool `{}` is not run here", call.name)))
    }

    /// Takes the policy's message.
    ///
    /// # Errors
    /// If the environment itself fails; a wrong action is not an error but part of the verdict.
    fn step(&mut self, action: &Message) -> Result<Step, EnvError>;

    /// Sees an answer whose calls were run, and what was said to it in place of a step: they are part of the conversation
    /// too. Also on a record, where calls are not run again.
    fn called(&mut self, answer: &Message, said: &[Message]) {
        let _ = (answer, said);
    }

    /// Sees what came of a step that is on the episode's record ([`Environment::stepping`]). Also on a record, where a step that
    /// is [`Repeating::Repeatable`] is not taken again.
    fn stepped(&mut self, action: &Message, step: &Step) {
        let _ = (action, step);
    }

    /// Receives the answer to a [`Step::Ask`].
    ///
    /// # Errors
    /// If the environment itself fails.
    fn hear(&mut self, said: &Message) -> Result<Step, EnvError> {
        let _ = said;
        Err(EnvError::Failed("nobody was asked".to_owned()))
    }

    /// Whether calls, verdicts, and steps that are computed elsewhere, take long, so that each runs on a thread of its
    /// own beside everything else.
    fn is_slow(&self) -> bool {
        false
    }

    /// Judges the episode so far.
    ///
    /// # Errors
    /// If the environment itself fails. A verifier that can't judge returns an unscored verdict instead.
    fn verify(&mut self) -> Result<Verdict, EnvError>;
}
