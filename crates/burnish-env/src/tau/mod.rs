//! The tau-bench world: a service agent with tools, a policy in prose, and a user who wants something
//! (tau-bench, arXiv:2406.12045; tau2-bench, arXiv:2506.07982).
//!
//! Database and tasks are the benchmark's, read from a folder; tools, user and judge are written here. The episode ends when the
//! user has nothing more to say, and is right if the database is then as the gold calls leave it, and the user was told what
//! should be told.
//!
//! ```text
//! folder ─> Data (world, policy, cases) ─> Task
//! Task ─> opening ─> policy ─> calls ─> World::call ─> results ─> policy ─> message ─> user ... ###STOP### ─> verdict
//! ```

mod airline;
mod calculate;
mod case;
mod config;
pub(crate) mod customers;
mod data;
mod gold;
mod judge;
mod play;
mod retail;
mod table;
mod tasks;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
#[path = "tests/real.rs"]
pub(crate) mod tests_real;
mod user;
mod wire;
mod world;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Message, Task, TaskId};
use serde_json::Value;

use crate::settings::{self, to_value};
use crate::{Bound, CellReport, Demonstrations, EnvError, Environment, Generator, TaskSet};
use case::{Basis, Case};
use data::Data;

pub use config::{Domain, Set, SetChoice, TauConfig, User};

const ID: &str = "tau";

/// Why nothing may be trained on these tasks.
pub(crate) const TEST_ONLY: &str = "the tasks of tau-bench and tau2-bench are test sets: they are for `burnish eval` and never for training; \
    train on `worlds` or `accounts`";

/// The environment's entry in the catalogue.
pub const KIND: crate::Kind = crate::Kind {
    id: ID,
    title: "tau-bench",
    summary: "Serve customers of an airline or a shop with tools, as tau-bench and tau2-bench do (evaluation only, needs the files).",
    axes: None,
    defaults: || to_value(&TauConfig::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Tau::new(settings::read(config)?)?)),
};

/// The generator of the benchmark's tasks.
#[derive(Debug, Clone)]
pub struct Tau {
    config: TauConfig,
    /// One for each domain.
    data: Vec<Arc<Data>>,
}

impl Tau {
    /// Reads the folder that `config` names.
    ///
    /// # Errors
    /// If a key is out of bounds, or a file is missing or not as expected: which, and what is wrong where.
    pub fn new(config: TauConfig) -> Result<Self, EnvError> {
        config.check()?;
        let read = |domain: &Domain| Ok(Arc::new(data::read(&config, *domain)?));
        let data = config.domain.iter().map(read).collect::<Result<_, EnvError>>()?;
        Ok(Tau { config, data })
    }

    /// The version of the benchmark that the folder holds.
    pub fn set(&self) -> Set {
        self.data.first().map_or(Set::Tau2, |data| data.set)
    }

    /// Every case with what its domain holds, domain after domain, in the order of the files.
    fn cases(&self) -> impl Iterator<Item = (&Data, &Case)> {
        self.data.iter().flat_map(|data| data.cases.iter().map(move |case| (&**data, case)))
    }

    /// Every task once, in the order of the file.
    ///
    /// # Errors
    /// If a task can't be written as JSON, which no task is.
    pub fn in_order(&self) -> Result<Vec<Task>, EnvError> {
        self.cases().map(|(data, case)| self.task(data, case)).collect()
    }

    /// How many of these tasks a policy solves that does nothing and says nothing: those whose gold calls leave the database
    /// as it is, and that ask for nothing to be told.
    pub fn floor(&self) -> usize {
        let solves = |(data, case): &(&Data, &Case)| {
            let changes = !judge::gold_world(case, &data.world).differences(&data.world).is_empty();
            let tells = case.counts_what_is_said() && !case.communicate.is_empty();
            let calls = case.counts(Basis::Action) && !case.actions.is_empty();
            !(changes && case.counts(Basis::Db) || tells || calls)
        };
        self.cases().filter(solves).count()
    }

    fn task(&self, data: &Data, case: &Case) -> Result<Task, EnvError> {
        let yes_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
        let changes = case.actions.iter().any(|gold| world::writes(case.domain, &gold.name));
        let assertions = case.counts(Basis::Assertion) && case.assertions > 0;
        Ok(Task {
            id: TaskId(format!("{ID}/{}/{}/{}", case.set.name(), case.domain.name(), case.id)),
            environment: ID.to_owned(),
            prompt: vec![
                Message::system(data.policy.trim()),
                Message::user(play::opening(case, self.config.user)),
            ],
            truth: to_value(case)?,
            labels: BTreeMap::from([
                ("set".to_owned(), case.set.name().to_owned()),
                ("domain".to_owned(), case.domain.name().to_owned()),
                ("changes".to_owned(), yes_no(changes)),
                ("tells".to_owned(), yes_no(case.counts_what_is_said() && !case.communicate.is_empty())),
                ("unjudged_assertions".to_owned(), yes_no(assertions)),
            ]),
        })
    }
}

impl Generator for Tau {
    fn id(&self) -> &'static str {
        ID
    }

    fn config(&self) -> Value {
        to_value(&self.config).unwrap_or_default()
    }

    fn bounds(&self) -> Vec<Bound> {
        config::bounds()
    }

    fn components(&self) -> Option<Vec<String>> {
        Some(["action", "communicate", "db", "score"].map(str::to_owned).into())
    }

    /// Tasks in shuffled order, none twice until all have come; if `count` is their number, all in the order of the file.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let cases: Vec<(&Data, &Case)> = self.cases().collect();
        let tasks = if count == cases.len() {
            self.in_order()?
        } else {
            let seed = Address::new(seed, Purpose::Shuffle).seed();
            let order = (0u64..).flat_map(|epoch| burnish_data::order(cases.len(), seed, epoch));
            order.take(count).map(|at| self.task(cases[at].0, cases[at].1)).collect::<Result<_, _>>()?
        };
        let domains: Vec<&str> = self.config.domain.iter().map(|domain| domain.name()).collect();
        let cell = format!("{}/{}", self.set().name(), domains.join("+"));
        Ok(TaskSet {
            tasks,
            cells: vec![CellReport { cell, made: count, drawn: count, ..CellReport::default() }],
        })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(play::TauEnvironment::new(self.data.clone(), &self.config))
    }

    fn files(&self) -> Vec<PathBuf> {
        self.data.iter().flat_map(|data| data.files.clone()).collect()
    }

    fn evaluation_only(&self) -> Option<&'static str> {
        Some(TEST_ONLY)
    }

    /// Shows what the user is told, the gold calls, and what should be told. An answer alone has no effect.
    fn draw(&self, task: &Task, _answer: Option<&str>) -> String {
        let case = match Case::of(task) {
            Ok(case) => case,
            Err(error) => return error.to_string(),
        };
        let brief = &case.brief;
        let parts = [
            ("persona", &brief.persona),
            ("why", &brief.reason),
            ("knows", &brief.known),
            ("does not know", &brief.unknown),
        ];
        let parts =
            parts.into_iter().filter_map(|(name, text)| Some(format!("{name}: {}", text.as_ref()?.trim())));
        let mut lines: Vec<String> = parts.collect();
        lines.push(format!("told: {}", brief.instructions.trim()));
        lines.extend(
            case.actions
                .iter()
                .map(|gold| format!("  {} {}", gold.name, Value::Object(gold.arguments.clone()))),
        );
        lines.extend(case.communicate.iter().map(|info| format!("tell: {info}")));
        if let Some(data) = self.data.iter().find(|data| data.domain == case.domain) {
            lines.push(format!("right end: {}", judge::gold_world(&case, &data.world).digest()));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

impl Demonstrations for Tau {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        self.demonstrate_episode(task)?.into_iter().nth(task.prompt.len())
    }

    /// The gold calls, one per answer, and what the user should be told. The rule plays the user, whoever does in the run.
    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let case = Case::of(task).ok()?;
        let config = TauConfig { user: User::Rule, turns: usize::MAX, ..self.config.clone() };
        let environment = play::TauEnvironment::new(self.data.clone(), &config);
        gold::episode(&case, task, Box::new(environment))
    }
}
