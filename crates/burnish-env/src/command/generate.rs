//! The generator: tasks that a program makes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::{Message, Task, TaskId, Validity};
use serde_json::Value;

use super::ID;
use super::config::{BOUNDS, Config};
use super::play::{Playing, posed};
use super::pool::Pool;
use super::wire::{self, Made, Request, Which};
use crate::digest::digest;
use crate::redesign::Knob;
use crate::servers::{Hands, Servers};
use crate::settings::to_value;
use crate::tasks::seed_of;
use crate::{Bound, CellReport, Demonstrations, EnvError, Environment, Generator, Redesign, TaskSet};

/// Why nothing may be trained on the tasks of some programs.
const TEST_ONLY: &str = "its program says that its tasks are a test set (`evaluation_only`): they are for `burnish eval` and never \
    for training";

/// A program that makes tasks, plays them and judges them.
#[derive(Debug)]
pub struct Commanded {
    /// Of the environment.
    id: &'static str,
    pub(super) pool: Arc<Pool>,
    servers: Arc<Servers>,
}

impl Commanded {
    /// A generator with this configuration. No process is started yet.
    ///
    /// # Errors
    /// If a key is missing or out of bounds, or there is no such program.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        Commanded::called(ID, config)
    }

    /// As [`Commanded::new`], for the environment `id`.
    pub(super) fn called(id: &'static str, config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let servers = Arc::new(Servers::new(&config.servers, config.folder())?);
        Ok(Commanded { id, pool: Arc::new(Pool::new(config)?), servers })
    }

    fn make(&self, which: Which) -> Result<Task, EnvError> {
        let made = self.pool.ask(&Request::Task(which), wire::task).map_err(EnvError::Failed)?;
        let Made { name, prompt, data, labels } = made;
        let name = match name {
            Some(name) => name,
            None => digest(serde_json::to_string(&(&prompt, &data)).unwrap_or_default().as_bytes()),
        };
        Ok(Task {
            id: TaskId(format!("{}/{name}", self.id)),
            environment: self.id.to_owned(),
            prompt,
            truth: data,
            labels,
        })
    }

    /// Which tasks are made: all of a finite number in turn, in a new order in every pass, or one per seed.
    fn which(&self, seed: u64, count: usize) -> Result<Vec<Which>, EnvError> {
        let seeds = |index| Which::Seed((seed_of(seed, index) >> 32) as u32);
        Ok(match self.pool.hello().map_err(EnvError::Failed)?.tasks {
            None => (0..count).map(seeds).collect(),
            Some(tasks) => burnish_data::passes(tasks, seed).take(count).map(Which::Index).collect(),
        })
    }
}

impl Generator for Commanded {
    fn id(&self) -> &'static str {
        self.id
    }

    fn config(&self) -> Value {
        to_value(&self.pool.config).unwrap_or_default()
    }

    fn bounds(&self) -> Vec<Bound> {
        Bound::of(&BOUNDS)
    }

    fn ready(&self) -> Result<(), EnvError> {
        let own = self.pool.hello().map_err(EnvError::Failed)?.tools;
        let of_servers = self.servers.tools()?;
        match own.iter().find(|tool| of_servers.iter().any(|other| other.name == tool.spec.name)) {
            None => Ok(()),
            Some(tool) => {
                let problem = format!("the program has a tool `{}`, and so has a server", tool.spec.name);
                Err(EnvError::Failed(problem))
            }
        }
    }

    fn at_once(&self) -> Option<usize> {
        Some(self.servers.at_once().unwrap_or(usize::MAX).min(self.pool.config.workers))
    }

    /// The program makes them one by one.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut known: BTreeMap<TaskId, usize> = BTreeMap::new();
        let mut tasks: Vec<Task> = Vec::with_capacity(count);
        for (index, which) in self.which(seed, count)?.into_iter().enumerate() {
            let task = self.make(which)?;
            let first = *known.entry(task.id.clone()).or_insert(index);
            if let Some(first) = tasks.get(first).filter(|first| **first != task) {
                return Err(EnvError::Failed(format!(
                    "two different tasks have the name `{}`: the program must give each its own `name`, or none",
                    first.id
                )));
            }
            tasks.push(task);
        }
        let cell = CellReport::all("tasks", count);
        Ok(TaskSet { tasks, cells: vec![cell] })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(Playing::new(Arc::clone(&self.pool), Hands::new(Arc::clone(&self.servers))))
    }

    fn files(&self) -> Vec<PathBuf> {
        self.pool.config.files().into_iter().chain(self.servers.files()).collect()
    }

    fn evaluation_only(&self) -> Option<&'static str> {
        self.pool.hello().ok()?.evaluation_only.then_some(TEST_ONLY)
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let said = |message: &Message| {
            format!("{}: {}", format!("{:?}", message.role).to_lowercase(), message.content)
        };
        let mut lines: Vec<String> = task.prompt.iter().map(said).collect();
        if let Some(answer) = answer {
            let answer = Message::assistant(answer);
            lines.push(said(&answer));
            let mut environment = self.environment();
            let judged = environment
                .reset(task, 0)
                .and_then(|_| environment.step(&answer))
                .and_then(|_| environment.verify());
            lines.push(match judged {
                Err(error) => format!("not judged: {error}"),
                Ok(verdict) => match verdict.validity {
                    Validity::Unscored { reason } => format!("unscored ({reason})"),
                    Validity::Scored => format!("judged: {:?}", verdict.rewards),
                },
            });
        }
        lines.join("\n")
    }

    /// Asked of the program where it is needed; many know none.
    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }

    fn redesign(&self) -> Option<&dyn Redesign> {
        Some(self)
    }
}

impl Redesign for Commanded {
    /// The program names them as it knows them; here they are below `settings`.
    fn knobs(&self) -> Result<Vec<Knob>, EnvError> {
        let declared = self.pool.hello().map_err(EnvError::Failed)?.redesign;
        Ok(declared.into_iter().map(|knob| Knob { key: format!("settings.{}", knob.key), ..knob }).collect())
    }

    fn asks_a_program(&self) -> bool {
        true
    }
}

impl Demonstrations for Commanded {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        self.demonstrate_episode(task)?.into_iter().nth(task.prompt.len())
    }

    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        if !self.pool.hello().ok()?.demonstrates {
            return None;
        }
        let request = Request::Demonstrate { task: posed(task) };
        let played = self.pool.ask(&request, wire::demonstration).ok()??;
        Some(task.prompt.iter().cloned().chain(played).collect())
    }
}
