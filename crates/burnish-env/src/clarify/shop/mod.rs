//! The shop of tau2-bench: its customers, as far as matters for what they may want, and the tools that change that.
//!
//! They are those whom no task serves, and those of the tasks, at each gold call that changes something. The benchmark's
//! conversations are played by the bridge `from_tau2` (`docs/benchmarks.md`).

mod customer;
mod order;
mod records;
#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use burnish_core::FunctionCall;
use burnish_data::{DataError, read_whole};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::EnvError;
use crate::settings::config_error;
pub(super) use customer::{Customer, Open, Payment, Thing};
pub(super) use order::REASONS;
use records::{Order, Product, User};

/// Why nothing may be trained on the calls of the tasks.
pub(super) const TEST_ONLY: &str =
    "tau2-bench's tasks are a test set, for `burnish eval` and never for training";

/// The shop's database.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shop {
    users: BTreeMap<String, User>,
    orders: BTreeMap<String, Order>,
    products: BTreeMap<String, Product>,
}

/// A task, of which only the gold calls are read.
#[derive(Deserialize)]
struct Case {
    id: String,
    evaluation_criteria: Criteria,
}

#[derive(Deserialize)]
struct Criteria {
    actions: Option<Vec<FunctionCall>>,
}

/// The customers of the shop in a folder of the benchmark.
#[derive(Debug, Clone)]
pub(super) struct Customers {
    /// Those whom no task serves, for whom something can be done.
    pub(super) untasked: Vec<Customer>,
    /// The gold calls that change something.
    pub(super) gold: Vec<GoldCall>,
    /// The files that were read.
    pub(super) files: Vec<PathBuf>,
}

/// A call that a task wants, with its customer as the calls before it leave the shop.
#[derive(Debug, Clone)]
pub(super) struct GoldCall {
    /// The task, and which of its calls this is: `12.3`.
    pub(super) id: String,
    pub(super) customer: Customer,
    pub(super) call: FunctionCall,
}

impl Customers {
    /// Reads the shop in a folder: `retail/db.json` and `retail/tasks.json`, each perhaps packed (`.gz`).
    ///
    /// # Errors
    /// If a file is missing or not as expected: which, and what is wrong where.
    pub(super) fn read(path: &str) -> Result<Self, EnvError> {
        let (shop, database) = database(path)?;
        let (cases, tasks) = read::<Vec<Case>>(path, "tasks.json", "the tasks")?;
        let (mut served, mut gold) = (BTreeSet::new(), Vec::new());
        for Case { id, evaluation_criteria: Criteria { actions } } in cases {
            let mut now = shop.clone();
            for (at, call) in actions.unwrap_or_default().into_iter().enumerate() {
                let Some(user) = now.served_by(&call) else { continue };
                let customer = now.customer(&user);
                served.insert(user);
                if now.call(&call).is_ok()
                    && let Some(customer) = customer
                {
                    gold.push(GoldCall { id: format!("{id}.{at}"), customer, call });
                }
            }
        }
        let untasked = shop.users.keys().filter(|id| !served.contains(*id));
        let untasked = untasked.filter_map(|id| shop.customer(id)).collect();
        Ok(Customers { untasked, gold, files: vec![database, tasks] })
    }
}

/// What a JSON file of the folder's `retail` holds, and which file it is.
fn read<T: DeserializeOwned>(path: &str, name: &str, what: &str) -> Result<(T, PathBuf), EnvError> {
    let file = Path::new(path).join("retail").join(name);
    let packed = PathBuf::from(format!("{}.gz", file.display()));
    let missing = || {
        let problem = format!(
            "`{path}` has no retail/{name} (or retail/{name}.gz), which holds {what}; name data/tau2/domains of \
             https://github.com/sierra-research/tau2-bench"
        );
        config_error("shop.path", &problem)
    };
    let file = [file, packed].into_iter().find(|file| file.is_file()).ok_or_else(missing)?;
    let wrong = |error: serde_json::Error| DataError::file(&file, format!("is not as expected: {error}"));
    let found = serde_json::from_slice(&read_whole(&file)?).map_err(wrong)?;
    Ok((found, file))
}

fn database(path: &str) -> Result<(Shop, PathBuf), EnvError> {
    let (shop, file): (Shop, _) = read(path, "db.json", "the database")?;
    match shop.orders.iter().find(|(_, order)| !shop.users.contains_key(&order.user_id)) {
        None => Ok((shop, file)),
        Some((id, order)) => {
            let problem = format!("orders.{id}: there is no user `{}`", order.user_id);
            Err(DataError::file(&file, problem).into())
        }
    }
}

impl Shop {
    /// Makes a call that changes what is open to a customer.
    ///
    /// # Errors
    /// Why it is refused, or that it is no such call; nothing has changed then.
    fn call(&mut self, FunctionCall { name, arguments }: &FunctionCall) -> Result<(), String> {
        match name.as_str() {
            "cancel_pending_order" => self.cancel(&given(arguments)?),
            "modify_pending_order_payment" => self.pay_otherwise(&given(arguments)?),
            "modify_pending_order_items" => self.modify_items(&given(arguments)?),
            "exchange_delivered_order_items" => self.exchange(&given(arguments)?),
            "return_delivered_order_items" => self.give_back(&given(arguments)?),
            other => Err(format!("`{other}` changes nothing of an order")),
        }
    }

    /// The customer that a call is about: whom it names or finds, or whose order it names.
    fn served_by(&self, call: &FunctionCall) -> Option<String> {
        let text = |key: &str| call.arguments.get(key).and_then(Value::as_str);
        if let Some(order) = text("order_id") {
            return self.orders.get(order).map(|order| order.user_id.clone());
        }
        let is_alike =
            |key: &str, own: &str| text(key).is_some_and(|given| given.to_lowercase() == own.to_lowercase());
        let is_found = |user: &User| match call.name.as_str() {
            "find_user_id_by_email" => is_alike("email", &user.email),
            "find_user_id_by_name_zip" => {
                is_alike("first_name", &user.name.first_name)
                    && is_alike("last_name", &user.name.last_name)
                    && text("zip") == Some(&user.address.zip)
            }
            _ => false,
        };
        match text("user_id") {
            Some(user) => self.users.contains_key(user).then(|| user.to_owned()),
            None => self.users.iter().find(|(_, user)| is_found(user)).map(|(id, _)| id.clone()),
        }
    }

    fn user(&self, id: &str) -> Result<&User, String> {
        self.users.get(id).ok_or_else(|| "User not found".to_owned())
    }

    fn order(&self, id: &str) -> Result<&Order, String> {
        self.orders.get(id).ok_or_else(|| "Order not found".to_owned())
    }

    fn product(&self, id: &str) -> Result<&Product, String> {
        self.products.get(id).ok_or_else(|| "Product not found".to_owned())
    }
}

fn given<T: DeserializeOwned>(arguments: &Value) -> Result<T, String> {
    T::deserialize(arguments).map_err(|error| format!("Invalid arguments: {error}"))
}
