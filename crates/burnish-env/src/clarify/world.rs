//! What a clarifier reads of a customer, and what that customer may want: of a made-up shop, or of tau-bench's.

use serde::{Deserialize, Serialize};

use super::goal::{Goal, Slot};
use super::shop::Customer;
use super::{made, tau};

/// The records of a customer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Records {
    Made(made::Records),
    Tau(Customer),
}

impl Records {
    /// Every goal that they allow, each with its weight.
    pub(super) fn goals(&self, recency: f64) -> Vec<(Goal, f64)> {
        match self {
            Records::Made(records) => records.goals(recency),
            Records::Tau(customer) => tau::goals(customer),
        }
    }

    /// The slots that goals have.
    pub(super) fn slots(&self) -> &'static [Slot] {
        match self {
            Records::Made(_) => &Slot::ALL[..5],
            Records::Tau(_) => &Slot::ALL,
        }
    }

    /// As the clarifier reads them. It asks and names no options, so of tau-bench's many it reads how many there are.
    pub(super) fn text(&self) -> String {
        match self {
            Records::Made(records) => records.text(),
            Records::Tau(customer) => tau::text(customer, false),
        }
    }

    /// As somebody reads them who is to say the goal.
    pub(super) fn whole_text(&self) -> String {
        match self {
            Records::Made(records) => records.text(),
            Records::Tau(customer) => tau::text(customer, true),
        }
    }

    /// What a policy is told that was not trained on this environment.
    pub(super) fn rules(&self) -> &'static str {
        match self {
            Records::Made(_) => made::RULES,
            Records::Tau(_) => tau::RULES,
        }
    }

    /// Values in words.
    pub(super) fn say(&self, values: &[&str]) -> String {
        match self {
            Records::Made(_) => values.join(" "),
            Records::Tau(_) => values.join(tau::SEPARATOR),
        }
    }
}
