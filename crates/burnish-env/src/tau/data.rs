//! Reads a folder of the benchmark: the database of a domain, its policy and its tasks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_data::{DataError, read_whole};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::airline::Airline;
use super::case::Case;
use super::config::{Domain, Set, SetChoice, TauConfig};
use super::retail::Retail;
use super::table::Table;
use super::tasks::{read_first, read_second, read_split};
use super::world::World;
use crate::EnvError;
use crate::settings::config_error;

/// What a folder holds of a domain.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) domain: Domain,
    pub(super) set: Set,
    /// The database as every task finds it.
    pub(super) world: World,
    /// What the policy has to go by, in the benchmark's words.
    pub(super) policy: String,
    /// The tasks, in the order of the file.
    pub(super) cases: Vec<Case>,
    /// The files that were read.
    pub(super) files: Vec<PathBuf>,
}

/// A folder with the files read from it.
struct Folder {
    path: PathBuf,
    read: Vec<PathBuf>,
}

/// The records of a table by id, as they are in the file.
type Records = (PathBuf, BTreeMap<String, Value>);

/// The file or, if there is none, the one packed by gzip.
pub(super) fn located(file: &Path) -> Option<PathBuf> {
    let packed = PathBuf::from(format!("{}.gz", file.display()));
    [file.to_owned(), packed].into_iter().find(|file| file.is_file())
}

/// The value in a JSON file.
pub(super) fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T, EnvError> {
    let wrong = |error: serde_json::Error| DataError::file(file, format!("is not as expected: {error}"));
    Ok(serde_json::from_slice(&read_whole(file)?).map_err(wrong)?)
}

impl Folder {
    /// The file called `name`, packed or not, below the folder.
    fn find(&mut self, name: &str) -> Option<PathBuf> {
        let file = located(&self.path.join(name))?;
        self.read.push(file.clone());
        Some(file)
    }

    fn need(&mut self, name: &str, what: &str) -> Result<PathBuf, EnvError> {
        let missing = format!("`{}` has no {name} (or {name}.gz), which holds {what}", self.path.display());
        self.find(name).ok_or_else(|| config_error("path", &missing))
    }
}

/// The records of one table, each read strictly.
fn table<T: DeserializeOwned + Clone + PartialEq + serde::Serialize>(
    file: &Path,
    name: &str,
    records: BTreeMap<String, Value>,
    id: fn(&T) -> Option<&str>,
) -> Result<Table<T>, EnvError> {
    let mut table = BTreeMap::new();
    for (key, value) in records {
        let wrong = |problem: String| DataError::file(file, format!("{name}.{key}: {problem}"));
        let record = T::deserialize(&value).map_err(|error| wrong(error.to_string()))?;
        if let Some(id) = id(&record).filter(|id| *id != key) {
            return Err(wrong(format!("its own id is `{id}`; both must be the same")).into());
        }
        table.insert(key, record);
    }
    Ok(Table::new(table))
}

/// The tables of a domain with their files: all in `db.json`, or each in a file of its own.
fn tables(folder: &mut Folder, domain: Domain, names: [&str; 3]) -> Result<[Records; 3], EnvError> {
    let name = domain.name();
    if let Some(file) = folder.find(&format!("{name}/db.json")) {
        let mut all: BTreeMap<String, BTreeMap<String, Value>> = read_json(&file)?;
        let mut take = |table: &str| {
            let missing = || DataError::file(&file, format!("has no table `{table}`"));
            Ok::<_, EnvError>((file.clone(), all.remove(table).ok_or_else(missing)?))
        };
        return Ok([take(names[0])?, take(names[1])?, take(names[2])?]);
    }
    // tau2-bench's airline has the first version's database, which a folder may hold instead.
    let here = folder.path.clone();
    let beside = here.parent().map(|parent| parent.join("tau_bench"));
    let home = [Some(here.clone()), beside].into_iter().flatten().find(|home| {
        names.iter().all(|table| located(&home.join(name).join(format!("{table}.json"))).is_some())
    });
    let Some(home) = home else {
        let problem = format!(
            "`{}` has no database of the domain {name}: neither {name}/db.json nor {}, nor has a folder tau_bench beside it",
            here.display(),
            names.map(|table| format!("{name}/{table}.json")).join(", ")
        );
        return Err(config_error("path", &problem));
    };
    let mut take = |table: &str| {
        let file = home.join(name).join(format!("{table}.json"));
        let file = located(&file).ok_or_else(|| DataError::file(&file, "is missing"))?;
        folder.read.push(file.clone());
        let records = read_json(&file)?;
        Ok::<_, EnvError>((file, records))
    };
    Ok([take(names[0])?, take(names[1])?, take(names[2])?])
}

fn world(folder: &mut Folder, domain: Domain, set: Set) -> Result<World, EnvError> {
    let stray = |file: &Path, name: &str, id: &str, user: &str| {
        DataError::file(file, format!("{name}.{id}: there is no user `{user}`"))
    };
    match domain {
        Domain::Airline => {
            let [flights, users, reservations] =
                tables(folder, domain, ["flights", "users", "reservations"])?;
            let airline = Airline {
                set,
                flights: table(&flights.0, "flights", flights.1, |it: &super::airline::Flight| {
                    Some(&it.flight_number)
                })?,
                users: table(&users.0, "users", users.1, |it: &super::airline::User| it.user_id.as_deref())?,
                reservations: table(
                    &reservations.0,
                    "reservations",
                    reservations.1,
                    |it: &super::airline::Reservation| Some(&it.reservation_id),
                )?,
            };
            let mut all = airline.reservations.iter();
            if let Some((id, it)) = all.find(|(_, it)| airline.users.get(&it.user_id).is_none()) {
                return Err(stray(&reservations.0, "reservations", id, &it.user_id).into());
            }
            drop(all);
            Ok(World::Airline(Box::new(airline)))
        }
        Domain::Retail => {
            let [products, users, orders] = tables(folder, domain, ["products", "users", "orders"])?;
            let retail = Retail {
                products: table(&products.0, "products", products.1, |it: &super::retail::Product| {
                    Some(&it.product_id)
                })?,
                users: table(&users.0, "users", users.1, |it: &super::retail::User| it.user_id.as_deref())?,
                orders: table(&orders.0, "orders", orders.1, |it: &super::retail::Order| Some(&it.order_id))?,
            };
            let mut all = retail.orders.iter();
            if let Some((id, it)) = all.find(|(_, it)| retail.users.get(&it.user_id).is_none()) {
                return Err(stray(&orders.0, "orders", id, &it.user_id).into());
            }
            drop(all);
            Ok(World::Retail(Box::new(retail)))
        }
    }
}

/// Reads what a folder holds of a domain.
///
/// # Errors
/// If a file is missing or not as expected: its name, and what is wrong where.
pub(super) fn read(config: &TauConfig, domain: Domain) -> Result<Data, EnvError> {
    let mut folder = Folder { path: PathBuf::from(&config.path), read: Vec::new() };
    if !folder.path.is_dir() {
        return Err(config_error("path", &format!("`{}` is not a folder", config.path)));
    }
    let name = domain.name();
    let tasks = format!("{name}/tasks.json");
    let played = format!("gpt-4o-{name}.json");
    let is_second = located(&folder.path.join(&tasks)).is_some();
    let set = match config.set {
        SetChoice::Tau => Set::Tau,
        SetChoice::Tau2 => Set::Tau2,
        SetChoice::Auto if is_second => Set::Tau2,
        SetChoice::Auto if located(&folder.path.join(&played)).is_some() => Set::Tau,
        SetChoice::Auto => {
            let problem = format!(
                "`{}` has no tasks of the domain {name}: neither {tasks} (tau2-bench) nor {played} (tau-bench)",
                config.path
            );
            return Err(config_error("path", &problem));
        }
    };
    let world = world(&mut folder, domain, set)?;
    let (text, cases) = match set {
        Set::Tau2 => {
            let policy = folder.need(&format!("{name}/policy.md"), "the policy")?;
            (policy, read_second(&folder.need(&tasks, "the tasks")?, domain)?)
        }
        Set::Tau => {
            let policy = folder.need(&format!("{name}/wiki.md"), "the policy")?;
            (policy, read_first(&folder.need(&played, "played episodes with their tasks")?, domain)?)
        }
    };
    let bytes = read_whole(&text)?;
    let policy = String::from_utf8(bytes).map_err(|_| DataError::file(&text, "is not UTF-8"))?;
    let cases = match config.split.as_str() {
        "" => cases,
        split => read_split(&folder.need(&format!("{name}/split_tasks.json"), "the splits")?, split, cases)?,
    };
    if cases.is_empty() {
        return Err(config_error("path", &format!("`{}` has no task of the domain {name}", config.path)));
    }
    Ok(Data { domain, set, world, policy, cases, files: folder.read })
}
