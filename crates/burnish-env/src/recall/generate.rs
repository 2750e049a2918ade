//! The generator of recall.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose, Stream};
use burnish_core::{Message, Task};

use super::ID;
use super::config::Config;
use super::draw::{Cell, draw};
use super::haystack;
use super::judge::{Later, Truth};
use super::wording::answer;
use crate::family::{Drawn, Family, FamilyGenerator, tried};
use crate::many_turns::{Asked, ManyTurns};
use crate::settings::config_error;
use crate::{CellReport, EnvError, Environment, TaskSet};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 1_000;

/// Makes tasks of recall.
pub type Recall = FamilyGenerator<Haystacks>;

/// Tasks of recall, and the text that they are hidden in.
#[derive(Debug, Clone)]
pub struct Haystacks {
    config: Config,
    /// Sentences of the configured file; empty without one.
    text: Arc<Vec<String>>,
}

impl Haystacks {
    /// Every cell once.
    fn cells_once(&self) -> Vec<Cell> {
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

    fn instance(
        &self,
        cell: Cell,
        stream: &mut Stream,
        report: &mut CellReport,
    ) -> Result<Drawn<Truth>, EnvError> {
        let candidate = || draw(&self.config, cell, &self.text, stream).map_err(|miss| miss.name());
        let drawn = report.draw(DRAWS_MAX, candidate);
        let (prompt, truth) = drawn.ok_or_else(|| {
            let problem = format!(
                "no instance of the cell `{cell}` in {DRAWS_MAX} draws: its keys or values also occur in the text or in \
                 the wording; take longer ones (`numbers.digits`, `uuids.digits`, `words.adjectives`, \
                 `variables.letters`), or leave the task out"
            );
            config_error("tasks", &problem)
        })?;
        Ok(Drawn::new(&prompt, truth)
            .identified_by(prompt)
            .label("task", cell.task.name())
            .label("length", cell.length)
            .label("depth", cell.depth_label()))
    }
}

impl Family for Haystacks {
    const ID: &str = ID;
    const TITLE: &str = "recall";
    const SUMMARY: &str =
        "Find needles in a haystack and track variables, by length and depth (RULER's tasks; single turn).";
    const AXES: Option<[&'static str; 2]> = Some(["length", "depth"]);
    const COMPONENTS: &[&str] = &["recall"];
    type Config = Config;
    type Truth = Truth;

    /// Also reads the file of `path`.
    fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        let text = if config.path.is_empty() { Vec::new() } else { haystack::read(Path::new(&config.path))? };
        Ok(Haystacks { config, text: Arc::new(text) })
    }

    fn files(&self) -> Vec<PathBuf> {
        let path = &self.config.path;
        if path.is_empty() { Vec::new() } else { vec![PathBuf::from(path)] }
    }

    /// Tasks of RULER take turns, and so do lengths and depths, in orders that the seed decides. Of two equal prompts
    /// the second is the first task once more.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let cells =
            in_turns(self.cells_once(), &mut Stream::new(Address::new(seed, Purpose::Shuffle).seed()));
        // Reports are in the order of names.
        let named: BTreeMap<String, Cell> = cells.iter().map(|cell| (cell.to_string(), *cell)).collect();
        let order = cells.iter().map(Cell::to_string).cycle().take(count);
        let set =
            tried::<Self, _>(seed, order, |name, stream, report| self.instance(named[name], stream, report));
        Ok(set?.unified())
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(ManyTurns::<Asked<Self>>::new(()))
    }

    fn truth(task: &Task) -> Result<Truth, EnvError> {
        Truth::of(task)
    }

    fn show(&self, task: &Task, truth: Truth, answer: Option<&str>) -> String {
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

    fn demonstrate(&self, _: &Task, truth: Truth) -> Option<Vec<Message>> {
        let says = |references: &[String]| Message::assistant(answer(self.config.prompt, references));
        let mut turns = vec![says(&truth.references)];
        for later in &truth.later {
            turns.extend([Message::user(&later.question), says(&later.references)]);
        }
        Some(turns)
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
