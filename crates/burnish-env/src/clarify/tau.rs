//! What customers of tau-bench's shop may want: single calls of its tools, for one item.
//!
//! Of each order that is open, each thing that can be done with it is equally likely, and then each way of doing it.

use std::path::PathBuf;

use burnish_core::FunctionCall;
use serde_json::json;

use super::config::Shop;
use super::goal::Goal;
use super::shop::{self, Customer, GoldCall, Open, Payment, REASONS, Thing};
use crate::EnvError;
use crate::settings::config_error;

/// Between items, options and ways to pay, whose names have spaces and commas.
pub(super) const SEPARATOR: &str = "; ";

/// What a policy is told that was not trained on this environment.
pub(super) const RULES: &str = "A customer of a shop wants one thing done, and may have left things unsaid. You see the customer's \
open orders (pending ones can be cancelled, or one item modified to another option; of delivered ones an item can be returned or \
exchanged for another option; with how they were paid), how many options there are of each product, and the customer's ways to \
pay. Before the shop acts, you may ask for one thing at a time: answer `ask intent`, `ask order`, `ask item`, `ask option`, \
`ask payment`, or `ask reason` (why an order is cancelled). Ask for what tells most about what the customer wants, and answer \
`act` as soon as nothing is left to ask.";

/// The shop's customers, and what is wanted of it.
#[derive(Debug)]
pub(super) struct Customers {
    /// Those whom no task of the benchmark serves.
    pub(super) untasked: Vec<Customer>,
    /// What the tasks want, one call at a time.
    pub(super) wanted: Vec<Wish>,
    /// The files that were read.
    pub(super) files: Vec<PathBuf>,
}

/// A call that a task wants: which it is, its customer at that moment, and the goal.
pub(super) type Wish = (String, Customer, Goal);

impl Customers {
    /// Reads the shop's folder.
    ///
    /// # Errors
    /// If a file is missing or not as expected, or there is nobody to ask.
    pub(super) fn read(shop: &Shop) -> Result<Self, EnvError> {
        let shop::Customers { untasked, gold, files } = shop::Customers::read(&shop.path)?;
        let wish = |GoldCall { id, customer, call }| {
            let goal = reached(&customer, &call)?;
            Some((id, customer, goal))
        };
        let wanted: Vec<Wish> = gold.into_iter().filter_map(wish).collect();
        let missing = match shop.tasks {
            true if wanted.is_empty() => "task that wants a call for one item",
            false if untasked.is_empty() => "customer whom no task serves",
            _ => return Ok(Customers { untasked, wanted, files }),
        };
        Err(config_error("shop.path", &format!("`{}` has no {missing}", shop.path)))
    }
}

/// What can be done with an order, with the goals that do it and the calls that reach them.
type Ways = Vec<(Goal, FunctionCall)>;

/// Every goal that the shop's tools can reach with one call for one item, with its weight and the call.
fn all(customer: &Customer) -> impl Iterator<Item = (Goal, f64, FunctionCall)> {
    let each = customer.orders.iter().flat_map(|order| match order.delivered {
        false => [cancelled(order), changed(customer, order, "modify")],
        true => [returned(customer, order), changed(customer, order, "exchange")],
    });
    each.flat_map(|ways| {
        let weight = 1.0 / ways.len() as f64;
        ways.into_iter().map(move |(goal, call)| (goal, weight, call))
    })
}

/// Every goal that the shop's tools can reach with one call for one item, with its weight.
pub(super) fn goals(customer: &Customer) -> Vec<(Goal, f64)> {
    all(customer).map(|(goal, weight, _)| (goal, weight)).collect()
}

/// The goal that a call reaches; `None` for a call that is for several items, or for something else.
pub(super) fn reached(customer: &Customer, call: &FunctionCall) -> Option<Goal> {
    all(customer).find(|(_, _, other)| other == call).map(|(goal, _, _)| goal)
}

fn goal(intent: &str, order: &Open, item: Option<&Thing>) -> Goal {
    Goal {
        intent: intent.to_owned(),
        order: order.id.clone(),
        item: item.map(|item| name(order, item)),
        option: None,
        payment: None,
        reason: None,
    }
}

/// The name of an item; where the order has several of that name, with its options, and where these are the same, its number.
fn name(order: &Open, item: &Thing) -> String {
    let alike = |same: fn(&Thing, &Thing) -> bool| {
        order.items.iter().filter(|(_, other)| same(item, other)).count() > 1
    };
    if !alike(|one, other| one.name == other.name) {
        return item.name.clone();
    }
    let is_same = alike(|one, other| one.name == other.name && one.options == other.options);
    format!("{} ({})", item.name, if is_same { &item.id } else { &item.options })
}

fn cancelled(order: &Open) -> Ways {
    let because = |reason: &str| {
        let arguments = json!({"order_id": order.id, "reason": reason});
        let goal = Goal { reason: Some(reason.to_owned()), ..goal("cancel", order, None) };
        (goal, FunctionCall { name: "cancel_pending_order".to_owned(), arguments })
    };
    REASONS.map(because).into()
}

fn returned(customer: &Customer, order: &Open) -> Ways {
    let can_take = |payment: &&Payment| payment.balance.is_some() || order.paid.as_ref() == Some(&payment.id);
    let mut ways = Ways::new();
    for (_, item) in &order.items {
        for payment in customer.payments.iter().filter(can_take) {
            let arguments =
                json!({"order_id": order.id, "item_ids": [item.id], "payment_method_id": payment.id});
            let goal = Goal { payment: Some(payment.id.clone()), ..goal("return", order, Some(item)) };
            ways.push((goal, FunctionCall { name: "return_delivered_order_items".to_owned(), arguments }));
        }
    }
    ways
}

/// An item becomes another variant of its product. One that is delivered can be exchanged for its like.
fn changed(customer: &Customer, order: &Open, intent: &str) -> Ways {
    let tool = if order.delivered { "exchange_delivered_order_items" } else { "modify_pending_order_items" };
    let mut ways = Ways::new();
    for (product, item) in &order.items {
        let variants = customer.products.get(product).map(Vec::as_slice).unwrap_or_default();
        for new in variants.iter().filter(|new| order.delivered || new.id != item.id) {
            let difference = (new.price - item.price) * 100.0;
            let can_pay = |payment: &&Payment| {
                payment.balance.is_none_or(|balance| (balance * 100.0).round() >= difference.round())
            };
            for payment in customer.payments.iter().filter(can_pay) {
                let arguments = json!({"order_id": order.id, "item_ids": [item.id], "new_item_ids": [new.id],
                    "payment_method_id": payment.id});
                let goal = Goal {
                    option: Some(new.options.clone()),
                    payment: Some(payment.id.clone()),
                    ..goal(intent, order, Some(item))
                };
                ways.push((goal, FunctionCall { name: tool.to_owned(), arguments }));
            }
        }
    }
    ways
}

/// The records, a line each: open orders, products with the variants that there are, or only how many, and ways to pay.
pub(super) fn text(customer: &Customer, with_options: bool) -> String {
    let mut lines = Vec::new();
    for order in &customer.orders {
        let status = if order.delivered { "delivered" } else { "pending" };
        let names: Vec<String> = order.items.iter().map(|(_, item)| name(order, item)).collect();
        let paid = order.paid.as_ref().map(|paid| format!(" by {paid}")).unwrap_or_default();
        lines.push(format!("{} {status}{paid}: {}", order.id, names.join(SEPARATOR)));
    }
    for things in customer.products.values() {
        let Some(first) = things.first() else { continue };
        let options: Vec<&str> = things.iter().map(|thing| thing.options.as_str()).collect();
        lines.push(match with_options {
            true => format!("{}: {}", first.name, options.join(SEPARATOR)),
            false => format!("{}: {} options", first.name, options.len()),
        });
    }
    let payments: Vec<&str> = customer.payments.iter().map(|payment| payment.id.as_str()).collect();
    lines.push(format!("pay {}", payments.join(SEPARATOR)));
    lines.join("\n")
}
