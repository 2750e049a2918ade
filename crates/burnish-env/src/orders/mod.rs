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

use crate::family::{Drawn, Family, FamilyGenerator};
use crate::settings::at_most;
use crate::tasks::{self, foreign};
use crate::{EnvError, Environment, TaskSet};
use menu::Wish;
use play::{Clerk, Guest, clerk_reads};
use talk::{reply, user_reads};

pub use config::{OrderRole, OrdersConfig, PromptStyle, User};

const ID: &str = "orders";

/// The generator of orders.
pub type Orders = FamilyGenerator<OrdersConfig>;

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = Orders::KIND;

/// The truth of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
pub enum Truth {
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

impl OrdersConfig {
    fn task(&self, truth: &Truth) -> Result<Task, EnvError> {
        let (name, value) = generate::label(truth);
        let mut task = Drawn::of(Vec::new(), truth).label(name, value).task(ID)?;
        task.prompt = match truth {
            Truth::Clerk { wish, is_told } => clerk_reads(self, &read(&task, wish)?, *is_told),
            Truth::User { wish, questions } => {
                user_reads(self, &read(&task, wish)?, &[], questions.first().map_or("", String::as_str))
            }
        };
        Ok(task)
    }
}

impl Family for OrdersConfig {
    const ID: &str = ID;
    const TITLE: &str = "taking orders";
    const SUMMARY: &str =
        "Take an order from a user, who says only what they are asked for (simulated user, multi-turn).";
    const COMPONENTS: &[&str] = &["success"];
    type Config = Self;
    type Truth = Truth;

    fn new(config: Self) -> Result<Self, EnvError> {
        at_most("extras_max", config.extras_max, config.extras, "extras")?;
        Ok(config)
    }

    /// In a small space the same task may occur twice.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let (truths, cells) = generate::truths(self, seed, count);
        let tasks = truths.iter().map(|truth| self.task(truth)).collect::<Result<_, EnvError>>()?;
        Ok(TaskSet { tasks, cells })
    }

    fn environment(&self) -> Box<dyn Environment> {
        match self.role {
            OrderRole::Clerk => Box::new(Clerk::new(self.clone())),
            OrderRole::User => Box::new(Guest::new(self.clone())),
        }
    }

    /// Shows the wish, and the user's reply to each line of the answer.
    fn show(&self, task: &Task, truth: Truth, answer: Option<&str>) -> String {
        let (Truth::Clerk { wish, .. } | Truth::User { wish, .. }) = truth;
        let wish = match read(task, &wish) {
            Ok(wish) => wish,
            Err(error) => return error.to_string(),
        };
        let mut lines = vec![format!("the user wants: {}", wish.text())];
        let is_clerk = self.role == OrderRole::Clerk;
        lines.extend(answer.filter(|_| is_clerk).unwrap_or_default().lines().map(|line| {
            match line.to_lowercase().split_once(play::ORDER) {
                Some((_, order)) if Wish::parse(order).as_ref() == Some(&wish) => format!("{line} > right"),
                Some(_) => format!("{line} > wrong"),
                None => format!("{line} > {}", reply(&wish, line)),
            }
        }));
        lines.join("\n")
    }

    /// For the side that takes orders, wrong for the share `demonstration_errors` of the tasks.
    fn demonstrate(&self, task: &Task, truth: Truth) -> Option<Vec<Message>> {
        if self.role == OrderRole::User {
            let (wish, questions) = truth.guest(task).ok()?;
            let turns = questions
                .iter()
                .flat_map(|question| [Message::user(question), Message::assistant(reply(&wish, question))]);
            return Some(turns.skip(1).collect());
        }
        let (wish, is_told) = truth.clerk(task).ok()?;
        Some(generate::taking(self, task, &wish, is_told))
    }
}
