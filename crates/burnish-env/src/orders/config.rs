//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use super::menu::{EXTRAS, ITEMS, SIZES};
use super::talk::PHRASINGS;
use crate::family::configuration;

pub use crate::settings::PromptStyle;

configuration! {
    /// The configuration of orders.
    pub struct OrdersConfig {
        items: usize = 6, in 2..=ITEMS.len(), "dishes on the menu";
        sizes: usize = 3, in 2..=SIZES.len(), "sizes";
        extras: usize = 6, in 1..=EXTRAS.len(), "extras on the menu";
        extras_max: usize = 2, in 0..=4, "most extras of one wish";
        told: f64 = 0.5, in 0.0..=1.0, "share of the tasks in which the user names the dish at once";
        /// In demonstrations, and to a user in training.
        phrasings: usize = 3, in 1..=PHRASINGS, "in how many ways a question is put";
        questions_max: usize = 6, in 3..=40, "questions after which the user leaves";
        role: OrderRole = OrderRole::Clerk, "side that the policy plays";
        user: User = User::Policy, "player of the user if the policy takes the order";
        odd: f64 = 0.1, in 0.0..=1.0, "share of a trained user's questions that it can't answer";
        prompt: PromptStyle = PromptStyle::Short, "style of the prompt";
        /// Such a demonstration leaves a question out. The task's id decides which do.
        demonstration_errors: f64 = 0.0, in 0.0..=1.0, "share of the demonstrations that guess and end wrong";
    }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn problem(given: Value) -> String {
        crate::build("orders", &given).map(drop).unwrap_err().to_string()
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
