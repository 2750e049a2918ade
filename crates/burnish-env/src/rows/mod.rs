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
mod pool;
mod queue;
mod verifier;

use burnish_core::{Message, Role, Task, ToolSpec, Verdict};
use burnish_data::{Columns, Row};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    Bound, CellReport, Demonstrations, EnvError, Environment, FileRows, Generator, Hints, Kind, Step,
    TaskSet, settings,
};
use verifier::{Judge, Request, judge_of};

pub use built_in::reference;
pub use choice::{ByColumn, Coded, CommandConfig, VerifierConfig};
pub use code::CodeConfig;
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
    build,
};

fn build(config: &Value) -> Result<Box<dyn Generator>, EnvError> {
    Ok(Box::new(Rows::new(settings::read(config)?)?))
}

/// Provides the rows of files as tasks.
#[derive(Debug)]
pub struct Rows {
    config: Config,
    rows: data::Rows,
    verifier: Arc<dyn Judge>,
}

impl Rows {
    /// Reads through the files once. The verifier is not started yet.
    ///
    /// # Errors
    /// If a key is missing or out of bounds, a file does not fit the configuration (names file, line and column), or
    /// there is no such command.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let verifier = judge_of(&config)?;
        let rows = data::Rows::open(&config)?;
        Ok(Rows { config, rows, verifier })
    }

    /// Every row once, in the order of the files, as tasks.
    ///
    /// # Errors
    /// If a file has changed since it was opened.
    pub fn in_order(&self) -> Result<Vec<Task>, EnvError> {
        (0..self.rows.len()).map(|index| self.rows.task(index)).collect()
    }
}

impl Generator for Rows {
    fn id(&self) -> &'static str {
        ID
    }

    fn config(&self) -> Value {
        settings::to_value(&self.config).unwrap_or_default()
    }

    fn components(&self) -> Option<Vec<String>> {
        let names = |component: Component| component.name().to_owned();
        match self.config.verifier {
            VerifierConfig::BuiltIn(_) => Some(self.config.components().into_iter().map(names).collect()),
            VerifierConfig::Code(_) => Some(crate::code::COMPONENTS.map(str::to_owned).into()),
            VerifierConfig::Elsewhere(_) => Some(Vec::new()),
            VerifierConfig::Command(_) | VerifierConfig::Column(_) => None,
        }
    }

    fn bounds(&self) -> Vec<Bound> {
        config::bounds()
    }

    fn ready(&self) -> Result<(), EnvError> {
        self.verifier.ready().map_err(EnvError::Failed)
    }

    /// The rows in shuffled order; if `count` exceeds their number, they are repeated, reshuffled in every pass.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut made: BTreeMap<String, usize> = BTreeMap::new();
        let mut tasks = Vec::with_capacity(count);
        for index in (0u64..).flat_map(|epoch| burnish_data::order(self.rows.len(), seed, epoch)).take(count)
        {
            *made.entry(self.rows.file(index)).or_default() += 1;
            tasks.push(self.rows.task(index)?);
        }
        let cell = |(cell, made)| CellReport { cell, made, drawn: made, ..CellReport::default() };
        Ok(TaskSet { tasks, cells: made.into_iter().map(cell).collect() })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let verifier = Arc::clone(&self.verifier);
        let columns = self.config.columns.clone();
        Box::new(Judged { verifier, columns, state: State::default() })
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let mut lines: Vec<String> =
            task.prompt.iter().map(|message| said(message.role, &message.content)).collect();
        let state = State::of(task, &self.config.columns);
        lines.extend(state.tools.iter().map(|tool| format!("tool: {} ({})", tool.name, tool.description)));
        if let Some(answer) = answer {
            let state = state.answered(Message::assistant(answer));
            lines.push(said(Role::Assistant, answer));
            lines
                .push(format!("judged: {}", summary(&state.request(|request| self.verifier.judge(request)))));
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

    fn row(&self, task: &Task) -> Option<(String, burnish_data::Row)> {
        self.rows.of_task(task)
    }
}

fn said(role: Role, content: &str) -> String {
    format!("{}: {content}", format!("{role:?}").to_lowercase())
}

fn summary(verdict: &Verdict) -> String {
    if let burnish_core::Validity::Unscored { reason } = &verdict.validity {
        return format!("unscored ({reason})");
    }
    let rewards: Vec<String> =
        verdict.rewards.iter().map(|(name, reward)| format!("{name} {reward}")).collect();
    let feedback = verdict.feedback.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
    format!("{}{feedback}", rewards.join(", "))
}

/// Plays one row: one turn, one answer.
struct Judged {
    verifier: Arc<dyn Judge>,
    columns: Columns,
    state: State,
}

/// The state of an episode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    row: Value,
    prompt: Vec<Message>,
    /// The ground truth of the row.
    truth: Option<String>,
    /// The tools of the row, which the policy reads along with the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolSpec>,
    /// The policy's answer.
    answer: Option<Message>,
}

impl State {
    fn of(task: &Task, columns: &Columns) -> Self {
        let read = |row| Row::read(row, &columns.of(row).ok()?).ok();
        let read = task.truth.as_object().and_then(read);
        let (truth, tools) = read.map(|row| (row.answer, row.tools)).unwrap_or_default();
        State { row: task.truth.clone(), prompt: task.prompt.clone(), truth, tools, answer: None }
    }

    fn answered(self, answer: Message) -> Self {
        State { answer: Some(answer), ..self }
    }

    /// Makes the verifier's request.
    fn request<T>(&self, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        let messages: Vec<Message> = self.prompt.iter().chain(&self.answer).cloned().collect();
        let completion = self.answer.as_ref().map_or("", |answer| &answer.content);
        ask(&Request {
            task: &self.row,
            prompt: &self.prompt,
            completion,
            messages: &messages,
            answer: self.truth.as_deref(),
        })
    }
}

impl Environment for Judged {
    fn reset(&mut self, task: &Task, _seed: u64) -> Result<Vec<Message>, EnvError> {
        self.state = State::of(task, &self.columns);
        Ok(task.prompt.clone())
    }

    fn tools(&self) -> Vec<ToolSpec> {
        self.state.tools.clone()
    }

    fn step(&mut self, action: &Message) -> Result<Step, EnvError> {
        self.state.answer = Some(action.clone());
        Ok(Step::Done)
    }

    /// Only if a command judges, or programs are run.
    fn is_slow(&self) -> bool {
        self.verifier.is_slow(&self.state.row)
    }

    fn verify(&mut self) -> Result<Verdict, EnvError> {
        Ok(self.state.request(|request| self.verifier.judge(request)))
    }
}
