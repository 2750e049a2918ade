//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use super::menu::{EXTRAS, ITEMS, SIZES};
use super::talk::PHRASINGS;
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

pub use crate::settings::PromptStyle;

/// The configuration of orders.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrdersConfig {
    /// Number of dishes on the menu.
    pub items: usize,
    /// Number of sizes.
    pub sizes: usize,
    /// Number of extras on the menu.
    pub extras: usize,
    /// Most extras in one wish.
    pub extras_max: usize,
    /// Share of the tasks in which the user names the dish at the start.
    pub told: f64,
    /// Number of ways in which a question is phrased, in demonstrations and to a user in training.
    pub phrasings: usize,
    /// Number of questions after which the user leaves.
    pub questions_max: usize,
    /// The side that the policy plays.
    pub role: OrderRole,
    /// Who plays the user if the policy takes the order.
    pub user: User,
    /// For a user in training: share of the questions that it can't answer.
    pub odd: f64,
    /// The style of the prompt.
    pub prompt: PromptStyle,
    /// Share of the demonstrations that leave a question out, guess, and so end wrong; the task's id decides which.
    pub demonstration_errors: f64,
}

/// The side that the policy plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderRole {
    /// It takes the order.
    Clerk,
    /// It is the user, who has a wish and is asked.
    User,
}

/// Who plays the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum User {
    /// Another policy, named `user` in the run.
    Policy,
    /// The environment itself, by a rule.
    Script,
}

impl Default for OrdersConfig {
    fn default() -> Self {
        OrdersConfig {
            items: 6,
            sizes: 3,
            extras: 6,
            extras_max: 2,
            told: 0.5,
            phrasings: 3,
            questions_max: 6,
            role: OrderRole::Clerk,
            user: User::Policy,
            odd: 0.1,
            prompt: PromptStyle::Short,
            demonstration_errors: 0.0,
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("items", 2.0, ITEMS.len() as f64, "dishes on the menu"),
    ("sizes", 2.0, SIZES.len() as f64, "sizes"),
    ("extras", 1.0, EXTRAS.len() as f64, "extras on the menu"),
    ("extras_max", 0.0, 4.0, "most extras of one wish"),
    ("told", 0.0, 1.0, "share of the tasks in which the user names the dish at once"),
    ("phrasings", 1.0, PHRASINGS as f64, "in how many ways a question is put"),
    ("questions_max", 3.0, 40.0, "questions after which the user leaves"),
    ("odd", 0.0, 1.0, "share of a trained user's questions that it can't answer"),
    ("demonstration_errors", 0.0, 1.0, "share of the demonstrations that guess and end wrong"),
];

impl OrdersConfig {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        let OrdersConfig { extras, extras_max, .. } = self;
        if extras_max > extras {
            let problem = format!("{extras_max} is above extras, which is {extras}; nearest: {extras}");
            return Err(config_error("extras_max", &problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read;
    use serde_json::{Value, json};

    fn problem(given: Value) -> String {
        read::<OrdersConfig>(&given).and_then(|config| config.check()).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_configuration_is_an_error_that_names_the_key() {
        for (given, wanted) in [
            (json!({"items": 13}), "items: 13 is out of range: 2 to 12 are allowed; nearest: 12"),
            (json!({"sizes": 1}), "sizes: 1 is out of range"),
            (json!({"extras": 0}), "extras: 0 is out of range"),
            (json!({"extras_max": 5}), "extras_max: 5 is out of range"),
            (json!({"extras": 1}), "extras_max: 2 is above extras, which is 1; nearest: 1"),
            (json!({"told": -0.5}), "told: -0.5 is out of range"),
            (json!({"phrasings": 4}), "phrasings: 4 is out of range"),
            (json!({"questions_max": 2}), "questions_max: 2 is out of range"),
            (json!({"odd": 1.1}), "odd: 1.1 is out of range"),
            (json!({"demonstration_errors": 2}), "demonstration_errors: 2 is out of range"),
            (json!({"role": "cook"}), "role: unknown variant `cook`"),
            (json!({"user": "person"}), "user: unknown variant `person`"),
            (json!({"item": 3}), "item: unknown field"),
        ] {
            let problem = problem(given);
            assert!(problem.starts_with(wanted), "{problem}");
        }
    }
}
