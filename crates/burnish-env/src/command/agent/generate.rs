//! The generator: tasks that a program makes, and plays by itself.

use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::{Message, Task};

use super::ID;
use super::config::{BOUNDS, Config};
use super::doors::Doors;
use super::play::Asking;
use crate::command::Commanded;
use crate::{Demonstrations, EnvError, Environment, Generator, Redesign, TaskSet};

/// A program that makes tasks and plays them, and asks the policy meanwhile.
#[derive(Debug)]
pub struct Agents {
    config: Config,
    tasks: Commanded,
    doors: Arc<Doors>,
}

impl Agents {
    /// A generator with this configuration. No process is started yet, and nothing listens.
    ///
    /// # Errors
    /// If a key is missing or out of bounds, or there is no such program.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let tasks = Commanded::called(ID, config.processes())?;
        Ok(Agents { doors: Arc::new(Doors::new(&config)), tasks, config })
    }
}

impl Generator for Agents {
    crate::configured!(ID, BOUNDS);

    fn ready(&self) -> Result<(), EnvError> {
        self.tasks.ready()
    }

    fn at_once(&self) -> Option<usize> {
        self.tasks.at_once()
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        self.tasks.tasks(seed, count)
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(Asking::new(Arc::clone(&self.tasks.pool), Arc::clone(&self.doors)))
    }

    fn files(&self) -> Vec<PathBuf> {
        self.tasks.files()
    }

    fn evaluation_only(&self) -> Option<&'static str> {
        self.tasks.evaluation_only()
    }

    /// What the policy is asked is the program's affair, so the answer alone can't be judged.
    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let said = |message: &Message| {
            format!("{}: {}", format!("{:?}", message.role).to_lowercase(), message.content)
        };
        let mut lines: Vec<String> = task.prompt.iter().map(said).collect();
        if answer.is_some() {
            lines.push("not judged: the program asks and judges by itself, in an episode".to_owned());
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        self.tasks.demonstrations()
    }

    fn redesign(&self) -> Option<&dyn Redesign> {
        self.tasks.redesign()
    }
}
