//! A made-up shop, small enough for a tiny policy: its records, and what a customer may want done with them.

use burnish_core::rng::Stream;
use serde::{Deserialize, Serialize};

use super::config::{ClarifyConfig, Span};
use super::goal::Goal;

/// An order of the customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Its number.
    pub(super) id: String,
    /// Whether it has arrived: then its items can be returned or exchanged, and before that only cancelled.
    pub(super) delivered: bool,
    /// Its items, each once.
    pub(super) items: Vec<String>,
}

/// What the shop knows of a customer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Records {
    /// The orders, the newest first.
    pub(super) orders: Vec<Order>,
    /// The items that are sold in several options, with these.
    pub(super) options: Vec<(String, Vec<String>)>,
    /// Ways of paying money back.
    pub(super) payments: Vec<String>,
}

/// What a policy is told that was not trained on this environment.
pub(super) const RULES: &str = "A customer of a shop wants something done with an order, and may have left things unsaid. You see the \
customer's orders (the newest first; items of pending orders can be cancelled, items of delivered ones returned or exchanged), the \
options of items for exchanges, and how money can be paid back. Before the shop acts, you may ask for one thing at a time: answer \
`ask intent`, `ask order`, `ask item`, `ask option` or `ask payment`. Ask for what tells most about what the customer wants, and \
answer `act` as soon as nothing is left to ask.";

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
                Order {
                    id: id.to_string(),
                    delivered: stream.below(2) == 1,
                    items: some(&ITEMS, items, stream),
                }
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
    pub(super) fn goals(&self, recency: f64) -> Vec<(Goal, f64)> {
        let mut goals = Vec::new();
        for (age, order) in self.orders.iter().enumerate() {
            let weight = recency.powi(-(i32::try_from(age).unwrap_or(i32::MAX)));
            for item in &order.items {
                let goal = |intent: &str, option: Option<&String>, payment: Option<&String>| {
                    let goal = Goal {
                        intent: intent.to_owned(),
                        order: order.id.clone(),
                        item: Some(item.clone()),
                        option: option.cloned(),
                        payment: payment.cloned(),
                        reason: None,
                    };
                    (goal, weight)
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
    pub(super) fn text(&self) -> String {
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
