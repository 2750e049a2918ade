//! Tasks from files, judged by a built-in verifier or by an external command: a reward without writing Rust.
//!
//! Files are jsonl or csv (compressed with gzip or not), tsv, or parquet, with the columns of TRL, verl, OpenRLHF,
//! slime and verifiers, or columns given by name; see [`burnish_data`]. Rows stay in their files, so memory use does
//! not grow with them. The policy reads a row's tools along with its prompt.
//!
//! A command is started with the first request and kept running. All environments of a generator share its processes,
//! and each process works on one line at a time. Episodes are judged as they end, while others are still being played.
//! For each episode a process reads one line of JSON from stdin
//!
//! ```json
//! {"id": 0, "task": {the row}, "prompt": [messages], "completion": "the answer's text", "messages": [all],
//!  "answer": "the ground truth, or null", "protocol": 1}
//! ```
//!
//! and writes one line to stdout:
//!
//! ```json
//! {"id": 0, "reward": 0.5}
//! {"id": 0, "rewards": {"right": 1.0, "short": 0.2}, "success": true, "flags": {}, "feedback": "..."}
//! {"id": 0, "error": "why this could not be judged"}
//! ```
//!
//! With `batch`, a line holds a list of such requests, and the answer is a list of such answers, in any order.
//!
//! Without `success` none is reported, and results are measured by the reward; code that needs a yes or no uses whether
//! `reward` (or the sum of `rewards`) is above 0. Anything else (a crash, no answer in time, a line that is not an
//! answer, another id, a reward that is not a finite number) makes the verdict *unscored*, with the reason and the end
//! of stderr. A process that crashed, hung or wrote a bad line is killed, and the next request starts another. Neither
//! the order of requests nor their distribution over processes is guaranteed, so a verdict should depend on its request
//! alone. The processes end with this one, however it ends.
//!
//! Programs are run in a sandbox, and judged by tests or by what they write (`code`).
//!
//! A built-in verifier compares with the row's answer instead. A check of the answer's language may be added; rows then
//! have the labels, rewards and hints that LANG needs (`docs/environments/rows.md`). A column may name the verifier of
//! each row.
//!
//! Rows that all carry an answer to imitate need no command; episodes are then unscored.
//!
//! A verifier in Python:
//!
//! ```python
//! import json, sys
//! for line in sys.stdin:
//!     request = json.loads(line)
//!     right = request["answer"] in request["completion"]
//!     print(json.dumps({"id": request["id"], "reward": float(right)}), flush=True)
//! ```

mod built_in;
mod choice;
mod code;
mod config;
mod data;
mod lanes;
mod play;
mod pool;
mod queue;
mod verifier;

use burnish_core::{Message, Role, Task, ToolSpec, Validity, Verdict};
use burnish_verify::Reading;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::servers::{Hands, Servers};
use crate::{
    CellReport, Demonstrations, EnvError, Environment, FileRows, Generator, Hints, Kind, TaskSet, settings,
};
use play::{Judged, State};
use verifier::{Judge, judge_of};

pub use built_in::reference;
pub use choice::{ByColumn, Coded, CommandConfig, VerifierConfig};
pub use code::{CodeConfig, Trust};
pub use config::{Component, Config};
pub(crate) use verifier::read_verdict;

/// Id of the environment.
const ID: &str = "rows";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "rows of files",
    summary: "Tasks from jsonl, csv or parquet files, judged by a built-in verifier or your own command.",
    axes: None,
    defaults: || settings::to_value(&Config::default()).unwrap_or_default(),
    build: |config| Ok(Box::new(Rows::new(settings::read(config)?)?)),
};

/// Provides the rows of files as tasks.
#[derive(Debug)]
pub struct Rows {
    config: Config,
    rows: data::Rows,
    verifier: Arc<dyn Judge>,
    servers: Arc<Servers>,
}

impl Rows {
    /// Reads through the files once. The verifier is not started yet, nor are servers.
    ///
    /// # Errors
    /// If a key is missing or out of bounds, a file does not fit the configuration (names file, line and column), or
    /// there is no such command.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let verifier = judge_of(&config)?;
        let servers = Arc::new(Servers::new(&config.servers, config.folder())?);
        let rows = data::Rows::open(&config)?;
        Ok(Rows { config, rows, verifier, servers })
    }

    /// Every row once, in the order of the files, as tasks.
    ///
    /// # Errors
    /// If a file has changed since it was opened.
    pub fn in_order(&self) -> Result<Vec<Task>, EnvError> {
        (0..self.rows.len()).map(|index| self.rows.task(index)).collect()
    }
}

/// Rows that a command is tried on before anything is sampled: it may have no verdict on one.
const TRIED: usize = 2;

impl Rows {
    /// Lets a command judge answers to the first rows: their own, if they have any.
    ///
    /// # Errors
    /// If it judges none of them: why not the first.
    fn try_verifier(&self) -> Result<(), EnvError> {
        let mut problem = None;
        for index in 0..self.rows.len().min(TRIED) {
            let task = self.rows.task(index)?;
            // A judge that works in the folders of servers needs an episode.
            if !self.verifier.is_slow(&task.truth) || !self.servers.is_empty() {
                return Ok(());
            }
            let answer = self.demonstrate(&task).unwrap_or_else(|| Message::assistant(""));
            let state = State::of(&task, &self.config.columns).answered(answer);
            match state.request(&BTreeMap::new(), |request| self.verifier.judge(request)).validity {
                Validity::Scored => return Ok(()),
                Validity::Unscored { reason } => problem.get_or_insert((self.rows.file(index), reason)),
            };
        }
        let Some((file, reason)) = problem else { return Ok(()) };
        let rows = match self.rows.len() {
            1 => "the row".to_owned(),
            len => format!("the first {} rows", len.min(TRIED)),
        };
        Err(EnvError::Failed(format!(
            "env.config.verifier: tried on {rows} of {file}, it judged none: {reason}"
        )))
    }
}

impl Generator for Rows {
    crate::configured!(ID, config::BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        let names = |component: Component| component.name().to_owned();
        match self.config.verifier {
            VerifierConfig::BuiltIn(_) => Some(self.config.components().into_iter().map(names).collect()),
            VerifierConfig::Code(_) => Some(crate::code::COMPONENTS.map(str::to_owned).into()),
            VerifierConfig::Elsewhere(_) => Some(Vec::new()),
            VerifierConfig::Command(_) | VerifierConfig::Column(_) => None,
        }
    }

    fn ready(&self) -> Result<(), EnvError> {
        self.verifier.ready().map_err(EnvError::Failed)?;
        self.servers.ready()?;
        self.try_verifier()
    }

    fn needs_extractor(&self) -> bool {
        self.config.reading == Reading::Judge
    }

    fn at_once(&self) -> Option<usize> {
        self.servers.at_once()
    }

    /// Those of the rows, and those that decide what servers do.
    fn files(&self) -> Vec<PathBuf> {
        self.config.files().into_iter().chain(self.servers.files()).collect()
    }

    /// The rows in shuffled order; if `count` exceeds their number, they are repeated, reshuffled in every pass.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut made: BTreeMap<String, usize> = BTreeMap::new();
        let mut tasks = Vec::with_capacity(count);
        for index in burnish_data::passes(self.rows.len(), seed).take(count) {
            *made.entry(self.rows.file(index)).or_default() += 1;
            tasks.push(self.rows.task(index)?);
        }
        let cell = |(cell, made)| CellReport::all(cell, made);
        Ok(TaskSet { tasks, cells: made.into_iter().map(cell).collect() })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let verifier = Arc::clone(&self.verifier);
        let hands = Hands::new(Arc::clone(&self.servers));
        Box::new(Judged::new(verifier, self.config.columns.clone(), hands))
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let mut lines: Vec<String> =
            task.prompt.iter().map(|message| said(message.role, &message.content)).collect();
        let state = State::of(task, &self.config.columns);
        let described = |tool: &ToolSpec| format!("tool: {} ({})", tool.name, tool.description);
        lines.extend(state.tools.iter().map(described));
        match self.servers.tools() {
            Ok(tools) => lines.extend(tools.iter().map(described)),
            Err(problem) => lines.push(format!("no tools of servers: {problem}")),
        }
        if let Some(answer) = answer {
            let state = state.answered(Message::assistant(answer));
            lines.push(said(Role::Assistant, answer));
            lines.push(format!(
                "judged: {}",
                summary(&state.request(&BTreeMap::new(), |request| self.verifier.judge(request)))
            ));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }

    /// Only if a column with reasoning is given.
    fn hints(&self) -> Option<&dyn Hints> {
        self.config.reasoning_key.is_some().then_some(self as &dyn Hints)
    }

    fn rows(&self) -> Option<&dyn FileRows> {
        Some(self)
    }
}

impl Demonstrations for Rows {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        data::demonstration(&self.rows.of_task(task)?.1)
    }
}

impl Hints for Rows {
    /// The text of the column `reasoning_key`, up to where a final answer is marked.
    fn reasoning(&self, task: &Task) -> Option<String> {
        data::reasoning(&self.config, task.truth.as_object()?).ok()?
    }
}

impl FileRows for Rows {
    fn files(&self) -> Vec<std::path::PathBuf> {
        self.config.files()
    }

    fn count(&self) -> usize {
        self.rows.len()
    }

    fn row(&self, task: &Task) -> Option<(String, burnish_data::Row)> {
        self.rows.of_task(task)
    }
}

fn said(role: Role, content: &str) -> String {
    format!("{}: {content}", format!("{role:?}").to_lowercase())
}

fn summary(verdict: &Verdict) -> String {
    if let Validity::Unscored { reason } = &verdict.validity {
        return format!("unscored ({reason})");
    }
    let rewards: Vec<String> =
        verdict.rewards.iter().map(|(name, reward)| format!("{name} {reward}")).collect();
    let feedback = verdict.feedback.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
    format!("{}{feedback}", rewards.join(", "))
}
