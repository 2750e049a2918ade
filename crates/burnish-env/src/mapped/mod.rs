//! Text games of another environment that are explored and mapped before they are played (MAP, arXiv:2605.13037).
//!
//! ```text
//! inner episode ─> explore (a program, or the policy) ─> map: layout, affordances, rules ─> a fresh episode, with the map
//! ```
//!
//! [`mapping`](crate::mapping) has games of its own, whose truth it knows; here the map is made from what any environment
//! says. With `explore_max = 0` an episode is one of the inner environment.

mod config;
mod notes;
mod play;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use burnish_core::{Message, Role, Task};

use crate::around::{generates_around, inner, outer};
use crate::settings::{self, config_error};
use crate::skilled::Inner;
use crate::{Demonstrations, EnvError, Environment, Generator, Step};

pub use config::MappedConfig;

const ID: &str = "mapped";

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = crate::Kind {
    id: ID,
    title: "text games that are mapped first",
    summary: "Explore a text game of another environment, such as TextWorld, map it, then play it afresh (multi-turn).",
    axes: None,
    defaults: || settings::to_value(&MappedConfig::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(MappedTasks::new(settings::read(config)?)?)),
};

/// Tasks of another environment that are mapped first.
pub struct MappedTasks {
    config: MappedConfig,
    inner: Arc<dyn Generator>,
}

impl MappedTasks {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds, or the inner environment can't be made or explored.
    pub fn new(config: MappedConfig) -> Result<Self, EnvError> {
        config.check()?;
        let inner = Arc::from(crate::build(&config.of.id, &config.of.config)?);
        MappedTasks::around(config, inner)
    }

    /// As [`MappedTasks::new`], around a generator that is made.
    fn around(config: MappedConfig, inner: Arc<dyn Generator>) -> Result<Self, EnvError> {
        if inner.environment().asks() {
            let problem =
                format!("the program of `{}` asks the policy by itself, and can't be explored", config.of.id);
            return Err(config_error("of.id", &problem));
        }
        let config = MappedConfig { of: Inner { config: inner.config(), ..config.of.clone() }, ..config };
        Ok(MappedTasks { config, inner })
    }

    fn task(&self, task: Task) -> Result<Task, EnvError> {
        let prompt = task.prompt.clone();
        // What a program finds is in the opening, because tasks are made before anything is played.
        let prompt = if self.config.policy_explores() { play::explored_first(prompt) } else { prompt };
        outer(ID, prompt, task)
    }

    fn played(&self) -> play::Mapped {
        play::Mapped::new(self.config.clone(), Arc::clone(&self.inner))
    }
}

impl Generator for MappedTasks {
    crate::configured!(ID, config::BOUNDS);
    generates_around!(ID);

    fn ready(&self) -> Result<(), EnvError> {
        self.inner.ready()?;
        match self.config.explore_max {
            0 => Ok(()),
            _ => play::check(&*self.inner.environment(), &self.config.of.id),
        }
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(self.played())
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        self.inner.demonstrations().is_some().then_some(self)
    }
}

impl Demonstrations for MappedTasks {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        let after = self.demonstrate_episode(task)?.into_iter().skip(task.prompt.len());
        after.into_iter().find(|message| message.role == Role::Assistant)
    }

    /// Explores as a program does, where commands are listed, and then acts as the inner environment demonstrates. None where
    /// the inner environment has no such episode, or its episode does not begin with the task's prompt.
    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let inner = inner(ID, task).ok()?;
        let shown = self.inner.demonstrations()?.demonstrate_episode(&inner)?;
        let own = shown.strip_prefix(&inner.prompt[..])?;
        let mut environment = self.played();
        let mut played = environment.reset(task, 0).ok()?;
        while let Some(action) = environment.proposed() {
            let action = Message::assistant(action);
            let Ok(Step::Continue(messages)) = environment.step(&action) else { return None };
            played.push(action);
            played.extend(messages);
        }
        played.extend(own.iter().cloned());
        Some(played)
    }
}
