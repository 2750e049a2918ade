//! Tool worlds: what a user asks for is done by chains of calls on typed states (EnvFactory, arXiv:2605.18703).
//!
//! Worlds are files that anybody can write (`burnish-worlds`). A task is a drawn state, what the user says turn by turn,
//! and the calls that do it; the verdict compares calls and states.

mod config;
mod play;
#[cfg(test)]
mod tests;
mod truth;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_core::{Message, Task};
use burnish_worlds::graph::Graph;
use burnish_worlds::{Options, Problem, World, problems};
use serde_json::Value;

use crate::digest::digest;
use crate::settings::{self, config_error};
use crate::tasks::task;
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, TaskSet};
use truth::{Asked, Before, Truth};

pub use config::{Calls, Component, PromptStyle, WorldsConfig};

const ID: &str = "worlds";

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = crate::Kind {
    id: ID,
    title: "tool worlds",
    summary: "Do what a user asks with tools that read and change typed states (tools, multi-turn, worlds as files).",
    axes: None,
    defaults: || settings::to_value(&WorldsConfig::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Worlds::new(settings::read(config)?)?)),
};

/// The generator of tasks on tool worlds.
#[derive(Debug, Clone)]
pub struct Worlds {
    config: WorldsConfig,
    worlds: Arc<Vec<World>>,
}

impl Worlds {
    /// A generator of the tasks that `config` describes.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another, or a world can't be read or is not accepted.
    pub fn new(config: WorldsConfig) -> Result<Self, EnvError> {
        let worlds = config.read()?;
        Ok(Worlds { config, worlds })
    }

    fn task(&self, problem: &Problem, seed: u64) -> Result<Task, EnvError> {
        let worlds = problem.worlds.iter().zip(problem.start.iter().zip(&problem.end));
        let before = worlds.map(|(&at, (start, end))| {
            let world = &self.worlds[at];
            Before { name: world.name.clone(), start: start.to_json(world), end: end.to_json(world) }
        });
        let asked =
            problem.turns.iter().map(|turn| Asked { words: turn.words.clone(), calls: turn.calls.clone() });
        let truth =
            Truth { worlds: before.collect(), turns: asked.collect(), tools: self.offered(problem, seed) };
        let content = settings::to_value(&truth)?;
        let mut prompt = vec![Message::user(truth.turns.first().map_or("", |turn| &turn.words))];
        if self.config.prompt == PromptStyle::Full {
            prompt.insert(0, Message::system(config::RULES));
        }
        let calls: usize = truth.turns.iter().map(|turn| turn.calls.len()).sum();
        let labels = BTreeMap::from([
            ("calls".to_owned(), calls.to_string()),
            ("turns".to_owned(), truth.turns.len().to_string()),
            ("worlds".to_owned(), truth.worlds.len().to_string()),
        ]);
        Ok(task(ID, digest(content.to_string().as_bytes()), prompt, content, labels))
    }

    /// Names of the tools that are offered: those that are needed, and others of the same worlds, in the worlds' order.
    fn offered(&self, problem: &Problem, seed: u64) -> Vec<String> {
        let needed =
            |name: &str| problem.turns.iter().flat_map(|turn| &turn.calls).any(|call| call.name == name);
        let names =
            || problem.worlds.iter().flat_map(|&at| &self.worlds[at].tools).map(|tool| tool.name.as_str());
        let mut others: Vec<&str> = names().filter(|name| !needed(name)).collect();
        Stream::new(seed).shuffle(&mut others);
        others.truncate(self.config.distractors);
        names().filter(|name| needed(name) || others.contains(name)).map(str::to_owned).collect()
    }
}

impl Generator for Worlds {
    crate::configured!(ID, config::BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(self.config.rewards.iter().map(|component| component.name().to_owned()).collect())
    }

    fn files(&self) -> Vec<PathBuf> {
        self.config.path.iter().map(PathBuf::from).collect()
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let WorldsConfig { calls, turn, sampler, refinement, likeness, .. } = self.config;
        let graph = Graph::new(&self.worlds, likeness);
        let options = Options { sampler, calls: [calls.min, calls.max], turn, refinement };
        let made = problems(&self.worlds, &graph, &options, seed, count).map_err(|problem| {
            config_error("calls", &format!("{problem}; fewer calls, or more worlds, help"))
        })?;
        let place = |task: usize| Address { task: task as u64, ..Address::new(seed, Purpose::Environment) };
        let tasks =
            made.problems.iter().enumerate().map(|(at, problem)| self.task(problem, place(at).seed()));
        let tasks = tasks.collect::<Result<_, _>>()?;
        let cell = format!("calls={}-{}", calls.min, calls.max);
        let dropped = made.dropped.iter().map(|(reason, count)| ((*reason).to_owned(), *count)).collect();
        Ok(TaskSet { tasks, cells: vec![CellReport { cell, made: count, drawn: made.drawn, dropped }] })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let rewards = self.config.rewards.clone();
        Box::new(play::WorldsEnvironment::new(Arc::clone(&self.worlds), self.config.tau, rewards))
    }

    /// Shows the states that change, what the user says, and the calls that do it. An answer alone has no effect.
    fn draw(&self, task: &Task, _answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let mut lines = Vec::new();
        for before in &truth.worlds {
            lines.push(format!("{} before: {}", before.name, before.start));
        }
        for turn in &truth.turns {
            lines.push(turn.words.clone());
            let call = |call: &burnish_worlds::reward::GoldCall| {
                format!("  {} {}", call.name, Value::Object(call.arguments.clone()))
            };
            lines.extend(turn.calls.iter().map(call));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

impl Demonstrations for Worlds {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        Truth::of(task).ok()?.conversation(&self.worlds)?.into_iter().next()
    }

    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let played = Truth::of(task).ok()?.conversation(&self.worlds)?;
        Some(task.prompt.iter().cloned().chain(played).collect())
    }
}
