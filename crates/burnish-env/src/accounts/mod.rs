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

use crate::family::{Drawn, Family, FamilyGenerator};
use crate::{EnvError, Environment, TaskSet};
use episode::Truth;
use ledger::Ledger;

pub use config::{AccountsConfig, Amounts, Kinds, PromptStyle, Steps};

const ID: &str = "accounts";

/// The generator of tasks on accounts.
pub type Accounts = FamilyGenerator<AccountsConfig>;

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = Accounts::KIND;

const RULES: &str = "You look after accounts. Do what is asked, one line after the other, with the tools. Look at a balance before \
    you rely on it. When everything is moved, answer with the word done and no call.";

impl AccountsConfig {
    fn task(&self, truth: &Truth) -> Result<Task, EnvError> {
        let kind = match &truth.instructions[..] {
            [one] => one.kind().name(),
            _ => "several",
        };
        let mut prompt = vec![Message::user(truth.text(self.prompt))];
        if self.prompt == PromptStyle::Full {
            prompt.insert(0, Message::system(RULES));
        }
        Drawn::of(prompt, truth).label("kind", kind).label("steps", truth.instructions.len()).task(ID)
    }
}

impl Family for AccountsConfig {
    const ID: &str = ID;
    const TITLE: &str = "accounts with tools";
    const SUMMARY: &str =
        "Move money between accounts with tools that tell and change balances (tools, multi-turn).";
    const COMPONENTS: &[&str] = &["success"];
    type Config = Self;
    /// With the ledger that is right at the end.
    type Truth = (Truth, Ledger);

    fn new(config: Self) -> Result<Self, EnvError> {
        config.check()?;
        Ok(config)
    }

    /// In a small space the same task may occur twice.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let (instances, cells) = generate::instances(self, seed, count)?;
        let tasks = instances.iter().map(|truth| self.task(truth)).collect::<Result<_, EnvError>>()?;
        Ok(TaskSet { tasks, cells })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(play::AccountsEnvironment::new(Duration::from_millis(self.latency_ms)))
    }

    fn truth(task: &Task) -> Result<(Truth, Ledger), EnvError> {
        Truth::of(task)
    }

    /// Shows the ledger before and after, and the instructions. An answer alone has no effect on it.
    fn show(&self, _: &Task, (truth, end): (Truth, Ledger), _: Option<&str>) -> String {
        let line = |ledger: &Ledger| {
            let accounts = ledger.accounts.iter().map(|it| format!("{} {}", it.name, it.balance));
            accounts.collect::<Vec<_>>().join(", ")
        };
        format!("before: {}\n{}\nafter: {}", line(&truth.accounts), truth.text(PromptStyle::Full), line(&end))
    }

    /// Wrong for the share `demonstration_errors` of the tasks that require a look at an account.
    fn demonstrate(&self, task: &Task, (truth, end): (Truth, Ledger)) -> Option<Vec<Message>> {
        Some(episode::demonstrated(self, task, &truth, &end))
    }
}
