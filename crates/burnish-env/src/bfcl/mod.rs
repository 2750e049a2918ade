//! The Berkeley Function-Calling Leaderboard, version 4 (Patil et al. 2025, <https://gorilla.cs.berkeley.edu>), for
//! evaluation only.
//!
//! A row of a *single turn* is a request with functions; the answer's calls are compared with the calls that the row allows
//! (`ast`), or there must be none, or some. A row of *several turns* is played: the policy calls methods of simulated APIs
//! (`apis`) until it answers without a call, and then the next request comes; after each request the state of every API
//! must be that which the gold calls lead to, and the policy must have seen every result that they give (`multi`).
//!
//! ```text
//! data (rows, possible answers, documents of functions) ─> Task
//! Task ─> request, tools ─> policy ─> calls ─> ast::check                                      ─> verdict
//!                                     calls ─> apis ─> results ─> policy ... no call ─> multi::check ─> next request, verdict
//! ```
//!
//! Each turn brings its own tools (some rows hold functions back until a later request), so the environment poses every
//! turn itself ([`Environment::asks`]).

mod apis;
mod ast;
mod calls;
mod config;
mod data;
mod gold;
mod multi;
mod play;
mod python;
mod random;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Message, Task, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::settings::{self, to_value};
use crate::{Bound, CellReport, Demonstrations, EnvError, Environment, Generator, Kind, TaskSet};
use data::{Gold, Row};

pub use config::{Category, Config};

const ID: &str = "bfcl";

/// Why nothing may be trained on these rows.
const TEST_ONLY: &str =
    "BFCL is a test set: it is for `burnish eval` and never for training; train on `worlds`";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "BFCL",
    summary: "Berkeley Function-Calling Leaderboard v4: calls of one turn, and simulated APIs over several (evaluation only, \
         needs the files).",
    axes: None,
    defaults: || to_value(&Config::default()).unwrap_or_default(),
    build: |value| Ok(Box::new(Bfcl::new(settings::read(value)?)?)),
};

/// Provides the rows of the leaderboard.
#[derive(Debug)]
pub struct Bfcl {
    config: Config,
    rows: Arc<Vec<Row>>,
    files: Vec<PathBuf>,
}

impl Bfcl {
    /// Reads the rows of the categories.
    ///
    /// # Errors
    /// If a category is unknown or can't be played, a file is missing, or a row is not in the leaderboard's format: names
    /// the key, or file, line and field.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        let categories = config.categories()?;
        let data::Read { rows, files } = data::read(config.path.as_ref(), &categories)?;
        Ok(Bfcl { config, rows: Arc::new(rows), files })
    }

    /// Every row once, in the order of categories and files.
    pub fn in_order(&self) -> Vec<Task> {
        self.rows.iter().map(task).collect()
    }
}

/// The part of a task that the policy is not told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    /// Id of the row, which has the rest.
    row: String,
}

fn task(row: &Row) -> Task {
    Task {
        id: TaskId(format!("{ID}/{}", row.id)),
        environment: ID.to_owned(),
        prompt: row.turns.first().cloned().unwrap_or_default(),
        truth: json!(Truth { row: row.id.clone() }),
        labels: BTreeMap::from([("category".to_owned(), row.category.name().to_owned())]),
    }
}

/// The row of a task.
///
/// # Errors
/// If the task is not one of these rows.
fn row_of<'a>(rows: &'a [Row], task: &Task) -> Result<&'a Row, EnvError> {
    let foreign =
        |problem: String| EnvError::Foreign(format!("task {} is not one of {ID}: {problem}", task.id));
    let Truth { row } = Truth::deserialize(&task.truth).map_err(|error| foreign(error.to_string()))?;
    let missing = || foreign(format!("there is no row `{row}` in the categories that `category` names"));
    rows.iter().find(|known| known.id == row).ok_or_else(missing)
}

impl Generator for Bfcl {
    fn id(&self) -> &'static str {
        ID
    }

    fn config(&self) -> Value {
        to_value(&self.config).unwrap_or_default()
    }

    fn bounds(&self) -> Vec<Bound> {
        Vec::new()
    }

    fn components(&self) -> Option<Vec<String>> {
        Some(vec!["score".to_owned()])
    }

    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    /// Rows in shuffled order; if `count` exceeds their number, they are repeated.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let seed = Address::new(seed, Purpose::Shuffle).seed();
        let order = (0u64..).flat_map(|epoch| burnish_data::order(self.rows.len(), seed, epoch));
        let tasks = order.take(count).map(|index| task(&self.rows[index])).collect();
        let report = CellReport { cell: ID.to_owned(), made: count, drawn: count, ..CellReport::default() };
        Ok(TaskSet { tasks, cells: vec![report] })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(play::BfclEnvironment::new(Arc::clone(&self.rows)))
    }

    fn evaluation_only(&self) -> Option<&'static str> {
        Some(TEST_ONLY)
    }

    /// Shows requests, functions and gold. An answer in words has no effect.
    fn draw(&self, task: &Task, _answer: Option<&str>) -> String {
        let row = match row_of(&self.rows, task) {
            Ok(row) => row,
            Err(error) => return error.to_string(),
        };
        let names: Vec<&str> = row.functions.iter().map(|function| function.name.as_str()).collect();
        let mut lines = vec![format!("functions: {}", names.join(", "))];
        for (at, turn) in row.turns.iter().enumerate() {
            lines.extend(turn.iter().map(|message| message.content.clone()));
            if let Gold::Turns { calls, .. } = &row.gold {
                let calls = calls.get(at).into_iter().flatten();
                lines.extend(calls.map(|call| format!("  {} {}", call.name, json!(call.arguments))));
            }
        }
        lines.push(match &row.gold {
            Gold::Turns { .. } => String::new(),
            Gold::NoCall => "right: no call".to_owned(),
            Gold::SomeCall => "right: any call".to_owned(),
            Gold::Calls(allowed) => {
                let shown = allowed.iter().map(|call| format!("\n  {} {}", call.name, json!(call.arguments)));
                format!("allowed:{}", shown.collect::<String>())
            }
        });
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

/// Rows of relevance have no gold, so nothing is demonstrated for them.
impl Demonstrations for Bfcl {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        gold::episode(row_of(&self.rows, task).ok()?)?.into_iter().next()
    }

    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let played = gold::episode(row_of(&self.rows, task).ok()?)?;
        Some(task.prompt.iter().cloned().chain(played).collect())
    }
}
