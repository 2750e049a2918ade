//! Orders: a policy takes an order from a user who knows what they want but says only what they are asked for.
//!
//! The user is another policy, or a rule of the environment. The episode ends when the policy orders, and is right if
//! the order is what the user wants. With `role = "user"` the policy is the user instead, so that a user can be
//! trained.
//!
//! ```text
//! config ─> wish ─> Task ─> "hello" ─> policy ─> question ─> user ─> answer ─> policy ... "order: large soup" ─> verdict
//! ```

mod config;
mod generate;
mod menu;
mod play;
mod talk;
#[cfg(test)]
mod tests;

use burnish_core::{Message, Task};
use serde::{Deserialize, Serialize};

use crate::digest::digest;
use crate::tasks::{self, foreign, task};
use crate::{Demonstrations, EnvError, Environment, Generator, TaskSet, settings};
use menu::Wish;
use play::{Clerk, Guest, clerk_reads};
use talk::{reply, user_reads};

pub use config::{OrderRole, OrdersConfig, PromptStyle, User};

const ID: &str = "orders";

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = crate::Kind {
    id: ID,
    title: "taking orders",
    summary: "Take an order from a user, who says only what they are asked for (simulated user, multi-turn).",
    axes: None,
    defaults: || settings::to_value(&OrdersConfig::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Orders::new(settings::read(config)?)?)),
};

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
enum Truth {
    /// The policy takes the order.
    Clerk {
        /// What the user wants, written as an order.
        wish: String,
        /// Whether the user names the dish at the start.
        is_told: bool,
    },
    /// The policy is the user.
    User {
        /// What it wants, written as an order.
        wish: String,
        /// The questions that it is asked, at least one.
        questions: Vec<String>,
    },
}

impl Truth {
    fn of(task: &Task) -> Result<Truth, EnvError> {
        tasks::read(ID, task)
    }

    fn clerk(self, task: &Task) -> Result<(Wish, bool), EnvError> {
        match self {
            Truth::Clerk { wish, is_told } => Ok((read(task, &wish)?, is_told)),
            Truth::User { .. } => Err(foreign(ID, task, "it is a user's, but `role` is \"clerk\"")),
        }
    }

    fn guest(self, task: &Task) -> Result<(Wish, Vec<String>), EnvError> {
        match self {
            Truth::User { wish, questions } if !questions.is_empty() => Ok((read(task, &wish)?, questions)),
            Truth::User { .. } => Err(foreign(ID, task, "it asks nothing")),
            Truth::Clerk { .. } => Err(foreign(ID, task, "it is a clerk's, but `role` is \"user\"")),
        }
    }
}

fn read(task: &Task, wish: &str) -> Result<Wish, EnvError> {
    Wish::parse(wish).ok_or_else(|| foreign(ID, task, format!("`{wish}` is no order")))
}

/// The generator of orders.
#[derive(Debug, Clone)]
pub struct Orders {
    config: OrdersConfig,
}

impl Orders {
    /// A generator of tasks with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: OrdersConfig) -> Result<Self, EnvError> {
        config.check()?;
        Ok(Orders { config })
    }

    fn task(&self, truth: &Truth) -> Result<Task, EnvError> {
        let content = settings::to_value(truth)?;
        let name = digest(content.to_string().as_bytes());
        let mut task = task(ID, name, Vec::new(), content, generate::labels(truth));
        task.prompt = match truth.clone() {
            Truth::Clerk { wish, is_told } => clerk_reads(&self.config, &read(&task, &wish)?, is_told),
            Truth::User { wish, questions } => user_reads(
                &self.config,
                &read(&task, &wish)?,
                &[],
                questions.first().map_or("", String::as_str),
            ),
        };
        Ok(task)
    }

    /// The whole conversation that is demonstrated, from the policy's first answer on.
    fn demonstrated(&self, task: &Task) -> Result<Vec<Message>, EnvError> {
        let truth = Truth::of(task)?;
        if self.config.role == OrderRole::User {
            let (wish, questions) = truth.guest(task)?;
            let said = questions
                .iter()
                .flat_map(|question| [Message::user(question), Message::assistant(reply(&wish, question))]);
            return Ok(said.skip(1).collect());
        }
        let (wish, is_told) = truth.clerk(task)?;
        Ok(generate::taking(&self.config, task, &wish, is_told))
    }
}

impl Generator for Orders {
    crate::configured!(ID, config::BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(vec!["success".to_owned()])
    }

    /// In a small space the same task may occur twice.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let (truths, cells) = generate::truths(&self.config, seed, count);
        let tasks = truths.iter().map(|truth| self.task(truth)).collect::<Result<_, EnvError>>()?;
        Ok(TaskSet { tasks, cells })
    }

    fn environment(&self) -> Box<dyn Environment> {
        match self.config.role {
            OrderRole::Clerk => Box::new(Clerk::new(self.config.clone())),
            OrderRole::User => Box::new(Guest::new(self.config.clone())),
        }
    }

    /// Shows the wish, and the user's reply to each line of the answer.
    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let wish = Truth::of(task).and_then(|truth| match truth {
            Truth::Clerk { wish, .. } | Truth::User { wish, .. } => read(task, &wish),
        });
        let wish = match wish {
            Ok(wish) => wish,
            Err(error) => return error.to_string(),
        };
        let mut lines = vec![format!("the user wants: {}", wish.text())];
        let is_clerk = self.config.role == OrderRole::Clerk;
        lines.extend(answer.filter(|_| is_clerk).unwrap_or_default().lines().map(|line| {
            match line.to_lowercase().split_once(play::ORDER) {
                Some((_, order)) if Wish::parse(order).as_ref() == Some(&wish) => format!("{line} > right"),
                Some(_) => format!("{line} > wrong"),
                None => format!("{line} > {}", reply(&wish, line)),
            }
        }));
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

impl Demonstrations for Orders {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        self.demonstrated(task).ok()?.into_iter().next()
    }

    /// For the side that takes orders, wrong for the share `demonstration_errors` of the tasks.
    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let played = self.demonstrated(task).ok()?;
        Some(task.prompt.iter().cloned().chain(played).collect())
    }
}
