//! A domain: its database in some state, and its tools.

use burnish_core::{FunctionCall, Repeating, ToolSpec, json};
use serde::Serialize;
use serde_json::{Map, Value};

use super::airline::{self, Airline};
use super::config::{Domain, Set};
use super::retail::{self, Retail};
use super::table::Table;
use super::wire::{Effect, Said, Tool};
use crate::digest::digest;

/// The state of a database, with its tools. Cloning costs as much as what has been changed.
#[derive(Debug, Clone)]
pub(super) enum World {
    Airline(Box<Airline>),
    Retail(Box<Retail>),
}

/// The tools of a domain in a version of the benchmark.
pub(super) fn tools(domain: Domain, set: Set) -> impl Iterator<Item = &'static Tool> {
    let all = match domain {
        Domain::Airline => airline::TOOLS,
        Domain::Retail => retail::TOOLS,
    };
    all.iter().filter(move |tool| set.has(tool.name))
}

/// What the policy reads of the tools.
pub(super) fn specs(domain: Domain, set: Set) -> Vec<ToolSpec> {
    tools(domain, set).map(Tool::spec).collect()
}

/// What it means to repeat a call of a tool.
pub(super) fn repeating(domain: Domain, set: Set, name: &str) -> Option<Repeating> {
    tools(domain, set).find(|tool| tool.name == name).map(Tool::repeating)
}

/// Whether a tool of the domain may change its database.
pub(super) fn writes(domain: Domain, name: &str) -> bool {
    let mut all = tools(domain, Set::Tau2).chain(tools(domain, Set::Tau));
    all.any(|tool| tool.name == name && tool.effect == Effect::Writes)
}

impl World {
    /// Runs a tool.
    ///
    /// # Errors
    /// Why it refuses; nothing has changed then.
    pub(super) fn call(&mut self, call: &FunctionCall) -> Said {
        let arguments = match &call.arguments {
            Value::String(text) => {
                json::parse(text).map_err(|error| format!("Invalid arguments: {error}"))?
            }
            value => value.clone(),
        };
        let arguments = json::rounded(arguments);
        match self {
            World::Airline(airline) => airline.call(&call.name, &arguments),
            World::Retail(retail) => retail.call(&call.name, &arguments),
        }
    }

    /// The records that two states of the same database have differently, as `orders #W0000000`.
    pub(super) fn differences(&self, other: &World) -> Vec<String> {
        fn named<T: Clone + PartialEq + Serialize>(
            name: &str,
            one: &Table<T>,
            other: &Table<T>,
        ) -> Vec<String> {
            one.differences(other).into_iter().map(|id| format!("{name} {id}")).collect()
        }
        match (self, other) {
            (World::Airline(one), World::Airline(other)) => [
                named("flights", &one.flights, &other.flights),
                named("reservations", &one.reservations, &other.reservations),
                named("users", &one.users, &other.users),
            ]
            .concat(),
            (World::Retail(one), World::Retail(other)) => [
                named("orders", &one.orders, &other.orders),
                named("products", &one.products, &other.products),
                named("users", &one.users, &other.users),
            ]
            .concat(),
            _ => vec!["the domain".to_owned()],
        }
    }

    /// A digest of all that has changed: the same for the same state, whatever led there.
    pub(super) fn digest(&self) -> String {
        fn changed<T: Clone + PartialEq + Serialize>(table: &Table<T>) -> Value {
            let records = table
                .differing()
                .map(|(id, record)| (id.to_owned(), serde_json::to_value(record).unwrap_or_default()));
            Value::Object(records.collect::<Map<String, Value>>())
        }
        let changed = match self {
            World::Airline(it) => [changed(&it.flights), changed(&it.reservations), changed(&it.users)],
            World::Retail(it) => [changed(&it.orders), changed(&it.products), changed(&it.users)],
        };
        digest(Value::from(changed.to_vec()).to_string().as_bytes())
    }

    /// The whole database as JSON, one entry per table.
    #[cfg(test)]
    pub(super) fn whole(&self) -> Value {
        fn all<T: Clone + PartialEq + Serialize>(table: &Table<T>) -> Value {
            table.iter().map(|(id, record)| (id.to_owned(), serde_json::to_value(record).unwrap())).collect()
        }
        match self {
            World::Airline(it) => {
                serde_json::json!({"flights": all(&it.flights), "reservations": all(&it.reservations), "users": all(&it.users)})
            }
            World::Retail(it) => {
                serde_json::json!({"orders": all(&it.orders), "products": all(&it.products), "users": all(&it.users)})
            }
        }
    }
}
