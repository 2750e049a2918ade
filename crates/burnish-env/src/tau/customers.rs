//! The shop's customers, for environments that need what may be wanted of a shop and not the benchmark's conversations:
//! those whom no task serves, and those of the tasks, at each gold call that changes something.

use std::collections::BTreeSet;
use std::path::PathBuf;

use burnish_core::FunctionCall;
use serde_json::Value;

use super::config::{Domain, TauConfig};
use super::data;
use super::retail::Retail;
pub(crate) use super::retail::{Customer, Open, Payment, REASONS, Thing};
use super::world::{World, writes};
use crate::EnvError;

/// Why nothing may be trained on the calls of the tasks.
pub(crate) use super::TEST_ONLY;

/// The customers of the shop in a folder of the benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Customers {
    /// Those whom no task serves, for whom something can be done.
    pub(crate) untasked: Vec<Customer>,
    /// The gold calls that change something.
    pub(crate) gold: Vec<GoldCall>,
    /// The files that were read.
    pub(crate) files: Vec<PathBuf>,
}

/// A call that a task wants, with its customer as the calls before it leave the shop.
#[derive(Debug, Clone)]
pub(crate) struct GoldCall {
    /// The task, and which of its calls this is: `12.3`.
    pub(crate) id: String,
    pub(crate) customer: Customer,
    pub(crate) call: FunctionCall,
}

impl Customers {
    /// Reads the shop in a folder, which is laid out as for tau.
    ///
    /// # Errors
    /// If a file is missing or not as expected: which, and what is wrong where.
    pub(crate) fn read(path: &str) -> Result<Self, EnvError> {
        let config = TauConfig { path: path.to_owned(), ..TauConfig::default() };
        config.check()?;
        let data = data::read(&config, Domain::Retail)?;
        let World::Retail(shop) = &data.world else {
            return Err(EnvError::Failed("the database of the shop is not one of a shop".to_owned()));
        };
        let (mut served, mut gold) = (BTreeSet::new(), Vec::new());
        for case in &data.cases {
            let mut now = data.world.clone();
            for (at, action) in case.actions.iter().enumerate() {
                let call = action.call();
                let World::Retail(before) = now.clone() else { continue };
                let said = now.call(&call);
                let Some(user) = served_by(&before, &call, said.as_deref().ok()) else { continue };
                if writes(Domain::Retail, &call.name)
                    && said.is_ok()
                    && let Some(customer) = before.customer(&user)
                {
                    gold.push(GoldCall { id: format!("{}.{at}", case.id), customer, call });
                }
                served.insert(user);
            }
        }
        let untasked = shop.users.iter().filter(|(id, _)| !served.contains(*id));
        let untasked = untasked.filter_map(|(id, _)| shop.customer(id)).collect();
        Ok(Customers { untasked, gold, files: data.files })
    }
}

/// The customer that a call is about: whom it names or finds, or whose order it names.
fn served_by(shop: &Retail, call: &FunctionCall, said: Option<&str>) -> Option<String> {
    let given = |key: &str| call.arguments.get(key).and_then(Value::as_str);
    if let Some(order) = given("order_id") {
        return shop.orders.get(order).map(|order| order.user_id.clone());
    }
    let user = given("user_id").or_else(|| said.filter(|_| call.name.starts_with("find_user_id")))?;
    shop.users.get(user).map(|_| user.to_owned())
}

/// Whether the shop's tools take a call in the database as it is at first.
#[cfg(test)]
pub(crate) fn takes(path: &str) -> impl Fn(&FunctionCall) -> bool + use<> {
    let config = TauConfig { path: path.to_owned(), ..TauConfig::default() };
    let world = data::read(&config, Domain::Retail).unwrap().world;
    move |call| world.clone().call(call).is_ok()
}
