//! A shop's records, what a customer may want done with them, and what is known of it.

use std::fmt;

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use super::config::{ClarifyConfig, Span};

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
    /// How the money comes back.
    Payment,
}

impl Slot {
    /// Every slot.
    pub const ALL: [Slot; 5] = [Slot::Intent, Slot::Order, Slot::Item, Slot::Option, Slot::Payment];

    /// Its name in questions.
    pub fn name(self) -> &'static str {
        match self {
            Slot::Intent => "intent",
            Slot::Order => "order",
            Slot::Item => "item",
            Slot::Option => "option",
            Slot::Payment => "payment",
        }
    }

    /// The slot with this name.
    pub fn named(name: &str) -> Option<Slot> {
        Slot::ALL.into_iter().find(|slot| slot.name() == name)
    }
}

/// An order of the customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Its number.
    pub id: u32,
    /// Whether it has arrived: then its items can be returned or exchanged, and before that only cancelled.
    pub delivered: bool,
    /// Its items, each once.
    pub items: Vec<String>,
}

/// What the shop knows of a customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    /// The orders, the newest first.
    pub orders: Vec<Order>,
    /// The items that are sold in several options, with these.
    pub options: Vec<(String, Vec<String>)>,
    /// Ways of paying money back.
    pub payments: Vec<String>,
}

/// What a customer wants: a value for each slot that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// `cancel`, `return` or `exchange`.
    pub intent: String,
    /// Number of the order.
    pub order: u32,
    /// The item.
    pub item: String,
    /// For an exchange: for which option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// For a return: how the money comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment: Option<String>,
}

impl Goal {
    /// The value of a slot; `None` for a slot that this goal does not have.
    pub fn value(&self, slot: Slot) -> Option<String> {
        match slot {
            Slot::Intent => Some(self.intent.clone()),
            Slot::Order => Some(self.order.to_string()),
            Slot::Item => Some(self.item.clone()),
            Slot::Option => self.option.clone(),
            Slot::Payment => self.payment.clone(),
        }
    }
}

impl fmt::Display for Goal {
    /// The values of its slots, in their order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = Slot::ALL.into_iter().filter_map(|slot| self.value(slot)).collect();
        f.write_str(&values.join(" "))
    }
}

/// Something that is known of a goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
            Some(value) => Known::Value(slot, value),
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
            Known::Value(slot, value) => goal.value(*slot).as_ref() == Some(value),
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

const ITEMS: [&str; 8] = ["lamp", "mug", "shirt", "desk", "watch", "bag", "boots", "kettle"];
const OPTIONS: [&str; 6] = ["red", "blue", "green", "black", "white", "grey"];
const PAYMENTS: [&str; 3] = ["card", "paypal", "gift"];

impl Records {
    /// Draws the records of a customer.
    pub(super) fn draw(config: &ClarifyConfig, stream: &mut Stream) -> Records {
        let within = |span: Span, stream: &mut Stream| span.min + stream.index(span.max - span.min + 1);
        let some = |all: &[&str], count: usize, stream: &mut Stream| -> Vec<String> {
            let mut names: Vec<&str> = all.to_vec();
            stream.shuffle(&mut names);
            names.into_iter().take(count).map(str::to_owned).collect()
        };
        let mut ids: Vec<u32> = (10..100).collect();
        stream.shuffle(&mut ids);
        let count = within(config.orders, stream);
        let orders: Vec<Order> = ids
            .into_iter()
            .take(count)
            .map(|id| {
                let items = within(config.items, stream);
                Order { id, delivered: stream.below(2) == 1, items: some(&ITEMS, items, stream) }
            })
            .collect();
        let mut options = Vec::new();
        for item in ITEMS {
            let is_there = |order: &Order| order.delivered && order.items.iter().any(|name| name == item);
            if orders.iter().any(is_there) {
                let count = 2 + stream.index(2);
                options.push((item.to_owned(), some(&OPTIONS, count, stream)));
            }
        }
        let count = 1 + stream.index(PAYMENTS.len());
        Records { orders, options, payments: some(&PAYMENTS, count, stream) }
    }

    /// Every goal that the records allow, each with its weight: `recency` times as likely in each order as in the one
    /// before it.
    pub fn goals(&self, recency: f64) -> Vec<(Goal, f64)> {
        let mut goals = Vec::new();
        for (age, order) in self.orders.iter().enumerate() {
            let weight = recency.powi(-(i32::try_from(age).unwrap_or(i32::MAX)));
            for item in &order.items {
                let goal = |intent: &str, option: Option<&String>, payment: Option<&String>| {
                    let (intent, order, item) = (intent.to_owned(), order.id, item.clone());
                    (Goal { intent, order, item, option: option.cloned(), payment: payment.cloned() }, weight)
                };
                if !order.delivered {
                    goals.push(goal("cancel", None, None));
                    continue;
                }
                goals.extend(self.payments.iter().map(|payment| goal("return", None, Some(payment))));
                let options = self.options.iter().find(|(name, _)| name == item).map(|(_, all)| all);
                goals.extend(options.into_iter().flatten().map(|one| goal("exchange", Some(one), None)));
            }
        }
        goals
    }

    /// The records as the clarifier reads them, a line each.
    pub fn text(&self) -> String {
        let mut lines: Vec<String> = self
            .orders
            .iter()
            .map(|order| {
                let status = if order.delivered { "delivered" } else { "pending" };
                format!("{} {status} {}", order.id, order.items.join(" "))
            })
            .collect();
        lines.extend(self.options.iter().map(|(item, all)| format!("{item} {}", all.join(" "))));
        lines.push(format!("pay {}", self.payments.join(" ")));
        lines.join("\n")
    }
}
