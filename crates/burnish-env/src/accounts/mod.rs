//! Accounts: a small ledger, tools that read and change it, and a task that needs several calls.
//!
//! How much to move depends on a tool's result, so the policy has to call, read and call again. The episode ends with
//! the first answer that makes no call. It is right if every account then has what it should have.
//!
//! ```text
//! config ─> generate (ledger, instructions that can be carried out) ─> Task
//! Task ─> instructions ─> policy ─> calls ─> Ledger::call ─> results ─> policy ... "done" ─> verdict on the ledger
//! ```

mod config;
mod episode;
mod generate;
mod instruction;
mod ledger;
mod play;
#[cfg(test)]
mod tests;

use std::time::Duration;

use burnish_core::{Message, Task};

use crate::digest::digest;
use crate::tasks::task;
use crate::{Demonstrations, EnvError, Environment, Generator, TaskSet, settings};
use episode::Truth;

pub use config::{AccountsConfig, Amounts, Kinds, PromptStyle, Steps};

const ID: &str = "accounts";

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = crate::Kind {
    id: ID,
    title: "accounts with tools",
    summary: "Move money between accounts with tools that tell and change balances (tools, multi-turn).",
    axes: None,
    defaults: || settings::to_value(&AccountsConfig::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Accounts::new(settings::read(config)?)?)),
};

const RULES: &str = "You look after accounts. Do what is asked, one line after the other, with the tools. Look at a balance before \
    you rely on it. When everything is moved, answer with the word done and no call.";

/// The generator of tasks on accounts.
#[derive(Debug, Clone)]
pub struct Accounts {
    config: AccountsConfig,
}

impl Accounts {
    /// A generator of the tasks that `config` describes.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: AccountsConfig) -> Result<Self, EnvError> {
        config.check()?;
        Ok(Accounts { config })
    }

    fn task(&self, truth: &Truth) -> Result<Task, EnvError> {
        let content = settings::to_value(truth)?;
        let mut prompt = vec![Message::user(truth.text(self.config.prompt))];
        if self.config.prompt == PromptStyle::Full {
            prompt.insert(0, Message::system(RULES));
        }
        Ok(task(ID, digest(content.to_string().as_bytes()), prompt, content, generate::labels(truth)))
    }
}

impl Generator for Accounts {
    crate::configured!(ID, config::BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(vec!["success".to_owned()])
    }

    /// In a small space the same task may occur twice.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let (instances, cells) = generate::instances(&self.config, seed, count)?;
        let tasks = instances.iter().map(|truth| self.task(truth)).collect::<Result<_, EnvError>>()?;
        Ok(TaskSet { tasks, cells })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(play::AccountsEnvironment::new(Duration::from_millis(self.config.latency_ms)))
    }

    /// Shows the ledger before and after, and the instructions. An answer alone has no effect on it.
    fn draw(&self, task: &Task, _answer: Option<&str>) -> String {
        let (truth, end) = match Truth::of(task) {
            Ok(known) => known,
            Err(error) => return error.to_string(),
        };
        let line = |ledger: &ledger::Ledger| {
            let accounts = ledger.accounts.iter().map(|it| format!("{} {}", it.name, it.balance));
            accounts.collect::<Vec<_>>().join(", ")
        };
        format!("before: {}\n{}\nafter: {}", line(&truth.accounts), truth.text(PromptStyle::Full), line(&end))
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

impl Demonstrations for Accounts {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        let (truth, end) = Truth::of(task).ok()?;
        episode::demonstrated(&self.config, task, &truth, &end).into_iter().next()
    }

    /// Wrong for the share `demonstration_errors` of the tasks that require a look at an account.
    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let (truth, end) = Truth::of(task).ok()?;
        let played = episode::demonstrated(&self.config, task, &truth, &end);
        Some(task.prompt.iter().cloned().chain(played).collect())
    }
}
