//! The generator: tasks are seeds.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::{Message, Task};
use serde_json::Value;

use super::ID;
use super::config::{BOUNDS, Config};
use super::play::{Playing, REWARD, seed_of};
use super::pool::Pool;
use crate::settings::to_value;
use crate::tasks::{self, task};
use crate::{Bound, CellReport, EnvError, Environment, Generator, TaskSet};

/// A server whose environments are played.
#[derive(Debug)]
pub struct OpenEnv {
    pool: Arc<Pool>,
}

impl OpenEnv {
    /// A generator with this configuration. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// If a key is missing or out of bounds.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        Ok(OpenEnv { pool: Arc::new(Pool::new(config)?) })
    }
}

impl Generator for OpenEnv {
    fn id(&self) -> &'static str {
        ID
    }

    fn config(&self) -> Value {
        to_value(&self.pool.config).unwrap_or_default()
    }

    fn bounds(&self) -> Vec<Bound> {
        Bound::of(BOUNDS)
    }

    fn components(&self) -> Option<Vec<String>> {
        Some(vec![REWARD.to_owned()])
    }

    fn ready(&self) -> Result<(), EnvError> {
        self.pool.shape().map(drop).map_err(EnvError::Failed)
    }

    fn at_once(&self) -> Option<usize> {
        Some(self.pool.room())
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let made = |index| {
            let seed = (tasks::seed_of(seed, index) >> 32) as u32;
            // What is there to see is known when the episode begins.
            let prompt = vec![Message::user(format!("The environment begins with the seed {seed}."))];
            task(ID, seed, prompt, seed.into(), BTreeMap::new())
        };
        let cell = CellReport::all("tasks", count);
        Ok(TaskSet { tasks: (0..count).map(made).collect(), cells: vec![cell] })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(Playing::new(Arc::clone(&self.pool)))
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let said = |message: &Message| {
            format!("{}: {}", format!("{:?}", message.role).to_lowercase(), message.content)
        };
        let mut environment = self.environment();
        let mut lines = match seed_of(task).and_then(|_| environment.reset(task, 0)) {
            Ok(opening) => opening.iter().map(said).collect::<Vec<_>>(),
            Err(error) => return format!("it can't be begun: {error}"),
        };
        if let Some(answer) = answer {
            lines.push(format!("answer: {answer}"));
            let answer = Message::assistant(answer);
            lines.push(match environment.step(&answer).and_then(|_| environment.verify()) {
                Err(error) => format!("not judged: {error}"),
                Ok(verdict) => format!("judged: {:?}", verdict.rewards),
            });
        }
        lines.join("\n")
    }
}
