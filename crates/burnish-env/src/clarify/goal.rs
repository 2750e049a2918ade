//! What a customer wants of a shop, slot by slot, and what is known of it.

use serde::{Deserialize, Serialize};

/// What a customer may leave unsaid, and what may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// What is to be done.
    Intent,
    /// With which order.
    Order,
    /// With which item.
    Item,
    /// What the item is exchanged for.
    Option,
    /// How money is paid, or comes back.
    Payment,
    /// Why an order is cancelled.
    Reason,
}

impl Slot {
    /// Every slot.
    pub const ALL: [Slot; 6] =
        [Slot::Intent, Slot::Order, Slot::Item, Slot::Option, Slot::Payment, Slot::Reason];

    /// Its name in questions.
    pub fn name(self) -> &'static str {
        match self {
            Slot::Intent => "intent",
            Slot::Order => "order",
            Slot::Item => "item",
            Slot::Option => "option",
            Slot::Payment => "payment",
            Slot::Reason => "reason",
        }
    }
}

/// What a customer wants: a value for each slot that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// `cancel`, `return`, `exchange` or `modify`.
    pub intent: String,
    /// Number of the order.
    pub order: String,
    /// The item; the made-up shop cancels items, tau-bench's whole orders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// For an exchange or a modification: for which option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// How the money comes back, or a difference is paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<String>,
    /// Why an order is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Goal {
    /// The value of a slot; `None` for a slot that this goal does not have.
    pub fn value(&self, slot: Slot) -> Option<&str> {
        match slot {
            Slot::Intent => Some(&self.intent),
            Slot::Order => Some(&self.order),
            Slot::Item => self.item.as_deref(),
            Slot::Option => self.option.as_deref(),
            Slot::Payment => self.payment.as_deref(),
            Slot::Reason => self.reason.as_deref(),
        }
    }

    /// The values of its slots, in their order.
    pub fn values(&self) -> Vec<&str> {
        Slot::ALL.into_iter().filter_map(|slot| self.value(slot)).collect()
    }
}

/// Something that is known of a goal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Known {
    /// The value of a slot.
    Value(Slot, String),
    /// That it does not have a slot.
    Absent(Slot),
    /// Nothing: the customer was asked for this slot and does not know.
    Unknown(Slot),
}

impl Known {
    /// What the customer says when asked for a slot of a goal.
    pub fn answer(goal: &Goal, slot: Slot, unknown: &[Slot]) -> Known {
        match goal.value(slot) {
            _ if unknown.contains(&slot) => Known::Unknown(slot),
            Some(value) => Known::Value(slot, value.to_owned()),
            None => Known::Absent(slot),
        }
    }

    /// The slot that it is about.
    pub fn slot(&self) -> Slot {
        match self {
            Known::Value(slot, _) | Known::Absent(slot) | Known::Unknown(slot) => *slot,
        }
    }

    /// Whether a goal agrees with it.
    pub fn allows(&self, goal: &Goal) -> bool {
        match self {
            Known::Value(slot, value) => goal.value(*slot) == Some(value),
            Known::Absent(slot) => goal.value(*slot).is_none(),
            Known::Unknown(_) => true,
        }
    }

    /// The customer's words.
    pub fn words(&self) -> &str {
        match self {
            Known::Value(_, value) => value,
            Known::Absent(_) => "none",
            Known::Unknown(_) => "I don't know",
        }
    }
}
