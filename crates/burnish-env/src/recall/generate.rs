//! The generator of recall.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_core::{Message, Task};

use super::ID;
use super::config::{BOUNDS, Config};
use super::draw::{Cell, draw};
use super::haystack;
use super::judge::{Later, Truth};
use super::play::Episode;
use super::wording::answer;
use crate::digest::digest;
use crate::many_turns::ManyTurns;
use crate::settings::{config_error, to_value};
use crate::tasks::{seed_of, task, unify};
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, TaskSet};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 1_000;

/// Makes tasks of recall.
#[derive(Debug, Clone)]
pub struct Recall {
    config: Config,
    /// Sentences of the configured file; empty without one.
    text: Arc<Vec<String>>,
}

impl Recall {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another, or the file of `path` can't be used.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let text = if config.path.is_empty() { Vec::new() } else { haystack::read(Path::new(&config.path))? };
        Ok(Recall { config, text: Arc::new(text) })
    }

    /// Every cell once.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &task in &self.config.tasks {
            let depths: Vec<Option<f64>> = match task.has_depth(&self.config) {
                true => self.config.depths.iter().copied().map(Some).collect(),
                false => vec![None],
            };
            for &length in &self.config.lengths {
                cells.extend(depths.iter().map(|&depth| Cell { task, length, depth }));
            }
        }
        cells
    }

    fn instance(&self, cell: Cell, seed: u64, report: &mut CellReport) -> Result<(String, Truth), EnvError> {
        let mut stream = Stream::new(seed);
        let candidate = || draw(&self.config, cell, &self.text, &mut stream).map_err(|miss| miss.name());
        report.draw(DRAWS_MAX, candidate).ok_or_else(|| {
            let problem = format!(
                "no instance of the cell `{cell}` in {DRAWS_MAX} draws: its keys or values also occur in the text or in \
                 the wording; take longer ones (`numbers.digits`, `uuids.digits`, `words.adjectives`, \
                 `variables.letters`), or leave the task out"
            );
            config_error("tasks", &problem)
        })
    }

    fn task(&self, cell: Cell, prompt: String, truth: &Truth) -> Result<Task, EnvError> {
        let labels = BTreeMap::from([
            ("task".to_owned(), cell.task.name().to_owned()),
            ("length".to_owned(), cell.length.to_string()),
            ("depth".to_owned(), cell.depth_label()),
        ]);
        Ok(task(ID, digest(prompt.as_bytes()), vec![Message::user(prompt)], to_value(truth)?, labels))
    }
}

impl Generator for Recall {
    crate::configured!(ID, BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(vec!["recall".to_owned()])
    }

    fn files(&self) -> Vec<PathBuf> {
        let path = &self.config.path;
        if path.is_empty() { Vec::new() } else { vec![PathBuf::from(path)] }
    }

    /// Tasks of RULER take turns, and so do lengths and depths, in orders that the seed decides. Of two equal prompts
    /// the second is the first task once more.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let cells = in_turns(self.cells(), &mut Stream::new(Address::new(seed, Purpose::Shuffle).seed()));
        let mut reports: BTreeMap<String, CellReport> = BTreeMap::new();
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let cell = cells[index % cells.len()];
            let named = || CellReport::new(cell.to_string());
            let report = reports.entry(cell.to_string()).or_insert_with(named);
            let (prompt, truth) = self.instance(cell, seed_of(seed, index), report)?;
            tasks.push(self.task(cell, prompt, &truth)?);
        }
        unify(&mut tasks);
        Ok(TaskSet { tasks, cells: reports.into_values().collect() })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(ManyTurns::<Episode>::new(()))
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let prompt = task.prompt.first().map(|message| message.content.as_str()).unwrap_or_default();
        let mut lines = vec![prompt.to_owned(), format!("hidden: {}", truth.needles.join(" | "))];
        if !truth.later.is_empty() {
            let later = |later: &Later| format!("{}  {}", later.question, later.references.join(" "));
            lines.push(format!(
                "asked later: {}",
                truth.later.iter().map(later).collect::<Vec<_>>().join(" | ")
            ));
        }
        if let Some(answer) = answer {
            let verdict = truth.verdict(&[answer]);
            let feedback = verdict.feedback.unwrap_or_else(|| "all references are in the answer.".to_owned());
            lines.push(format!("recall {:.2}: {feedback}", verdict.rewards["recall"]));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

impl Demonstrations for Recall {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        let truth = Truth::of(task).ok()?;
        Some(Message::assistant(answer(self.config.prompt, &truth.references)))
    }

    fn demonstrate_episode(&self, task: &Task) -> Option<Vec<Message>> {
        let truth = Truth::of(task).ok()?;
        let says = |references: &[String]| Message::assistant(answer(self.config.prompt, references));
        let mut episode = task.prompt.clone();
        episode.push(says(&truth.references));
        for later in &truth.later {
            episode.extend([Message::user(&later.question), says(&later.references)]);
        }
        Some(episode)
    }
}

/// Cells in an order in which tasks alternate although they have different numbers of cells; cells of a task that has
/// fewer come again.
fn in_turns(cells: Vec<Cell>, stream: &mut Stream) -> Vec<Cell> {
    let mut of_tasks: BTreeMap<_, Vec<Cell>> = BTreeMap::new();
    for cell in cells {
        of_tasks.entry(cell.task).or_default().push(cell);
    }
    let mut of_tasks: Vec<Vec<Cell>> = of_tasks.into_values().collect();
    of_tasks.iter_mut().for_each(|cells| stream.shuffle(cells));
    stream.shuffle(&mut of_tasks);
    let rounds = of_tasks.iter().map(Vec::len).max().unwrap_or(0);
    (0..rounds).flat_map(|round| of_tasks.iter().map(move |cells| cells[round % cells.len()])).collect()
}
