//! The generator of countdown tasks.

use burnish_core::rng::{Address, Purpose, Stream, fold_bytes};
use burnish_core::{Message, Task};
use std::collections::BTreeMap;

use super::config::{BOUNDS, Cell, Config, knobs};
use super::draw::{Drawn, Miss, draw};
use super::{ID, Truth};
use crate::digest::digest;
use crate::one_turn::{OneTurn, text_of};
use crate::redesign::Knob;
use crate::settings::{config_error, to_value};
use crate::tasks::{seed_of, task, unify};
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, Redesign, TaskSet};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 10_000;

/// Makes countdown tasks.
#[derive(Debug, Clone)]
pub struct Countdown {
    config: Config,
}

impl Countdown {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        Ok(Countdown { config })
    }

    fn task(&self, cell: Cell, drawn: &Drawn) -> Result<Task, EnvError> {
        let puzzle = &drawn.puzzle;
        // The name is that of the puzzle: the same puzzle found from another solution is the same task.
        let content = to_value(puzzle)?.to_string();
        let truth = Truth { puzzle: puzzle.clone(), solution: Some(drawn.solution.to_string()) };
        let labels = BTreeMap::from([
            ("numbers".to_owned(), cell.numbers.to_string()),
            ("operations".to_owned(), cell.operations.to_string()),
        ]);
        Ok(task(
            ID,
            digest(content.as_bytes()),
            vec![Message::user(puzzle.prompt(self.config.prompt))],
            to_value(&truth)?,
            labels,
        ))
    }

    /// Draws one instance of a cell and counts the candidates.
    fn instance(&self, cell: Cell, seed: u64, report: &mut CellReport) -> Result<Drawn, EnvError> {
        let mut stream = Stream::new(seed);
        let mut misses = Vec::new();
        let drawn = report.draw(DRAWS_MAX, || {
            draw(&self.config, cell, &mut stream).map_err(|miss| {
                let name = miss.name();
                misses.push(miss);
                name
            })
        });
        drawn.ok_or_else(|| self.empty(cell, &misses))
    }

    /// The error for a cell without instances: names the value nearest to the one asked for, if any target was found.
    fn empty(&self, cell: Cell, misses: &[Miss]) -> EnvError {
        let range = self.config.target;
        let (low, high) = (i128::from(range.min), i128::from(range.max));
        let nearest = misses
            .iter()
            .filter_map(|miss| match miss {
                Miss::OutOfRange(value) => Some(*value),
                _ => None,
            })
            .min_by_key(|value| (value - value.clamp(&low, &high)).abs());
        let none = format!("no instance of the cell `{cell}` in {DRAWS_MAX} draws");
        match nearest {
            Some(value) if value < low => {
                config_error("target.min", &format!("{none}: targets stay below {low}; nearest: {value}"))
            }
            Some(value) => {
                config_error("target.max", &format!("{none}: targets stay above {high}; nearest: {value}"))
            }
            None => config_error(
                "operations.max",
                &format!(
                    "{none}: the operators and values allow no such solution; allow more operators, a wider \
                     range of values, or fewer operations (nearest: {})",
                    cell.operations.saturating_sub(1).max(1)
                ),
            ),
        }
    }
}

impl Generator for Countdown {
    crate::configured!(ID, BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(vec!["answer".to_owned()])
    }

    /// Cells take turns in an order that the seed decides, so that each prefix of the set is balanced too. In a small
    /// space the same puzzle may occur twice, as the same task: with the solution and labels of its first occurrence,
    /// because an id stands for one content.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut cells = self.config.cells();
        Stream::new(Address::new(seed, Purpose::Shuffle).seed()).shuffle(&mut cells);
        let mut reports: Vec<CellReport> =
            cells.iter().map(|cell| CellReport::new(cell.to_string())).collect();
        let mut tasks = Vec::with_capacity(count);
        for index in 0..count {
            let at = index % cells.len();
            let drawn = self.instance(cells[at], seed_of(seed, index), &mut reports[at])?;
            tasks.push(self.task(cells[at], &drawn)?);
        }
        unify(&mut tasks);
        reports.sort_by(|a, b| a.cell.cmp(&b.cell));
        Ok(TaskSet { tasks, cells: reports })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let Config { reward, thoughts, .. } = self.config;
        Box::new(OneTurn::new(ID, Truth::of, move |truth: &Truth, answer| {
            let text = text_of(answer);
            let mut verdict = truth.puzzle.judge(text).verdict(&reward);
            if thoughts.tries().is_some() {
                let thought = answer.and_then(|answer| answer.reasoning_content.as_deref());
                let flags = truth.puzzle.reflection(thought.unwrap_or(text)).flags();
                verdict.flags.extend(flags.map(|(name, is_set)| (name.to_owned(), is_set)));
            }
            Ok(verdict)
        }))
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let puzzle = &truth.puzzle;
        let numbers: Vec<String> = puzzle.numbers.iter().map(u32::to_string).collect();
        let mut lines = vec![format!("{} -> {}", numbers.join(" "), puzzle.target)];
        if let Some(solution) = truth.solve() {
            lines.push(format!("hidden solution: {solution}"));
        }
        if let Some(answer) = answer {
            let finding = puzzle.judge(answer);
            lines.push(match finding.value {
                Some(value) => format!("answer: {value}"),
                None => "answer: no value".to_owned(),
            });
            lines.push(finding.feedback.unwrap_or_else(|| "solved".to_owned()));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }

    fn redesign(&self) -> Option<&dyn Redesign> {
        Some(self)
    }
}

impl Redesign for Countdown {
    fn knobs(&self) -> Result<Vec<Knob>, EnvError> {
        Ok(knobs(&self.config))
    }

    fn guideline(&self) -> &'static str {
        "A policy learns from puzzles that it solves sometimes. A solution needs one number more than it has operations. \
         Every further operation multiplies what has to be tried; greater values and targets make results harder to compute."
    }
}

impl Demonstrations for Countdown {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        let truth = Truth::of(task).ok()?;
        let solution = truth.solve()?;
        match self.config.thoughts.tries() {
            None => truth.puzzle.demonstration(&solution).ok(),
            Some(tries) => {
                let mut stream = Stream::new(fold_bytes(0, task.id.0.as_bytes()));
                truth.puzzle.tried(&solution, tries, &mut stream).ok()
            }
        }
    }
}
