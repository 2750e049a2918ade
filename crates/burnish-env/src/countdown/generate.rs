//! The generator of countdown tasks.

use burnish_core::rng::{Address, Purpose, Stream, fold_bytes};
use burnish_core::{Message, Task};

use super::Truth;
use super::config::{Cell, Config, knobs};
use super::draw::{Miss, draw};
use crate::family::{Drawn, Family, FamilyGenerator, tried};
use crate::one_turn::{OneTurn, text_of};
use crate::redesign::Knob;
use crate::settings::{config_error, to_value};
use crate::{CellReport, EnvError, Environment, Redesign, TaskSet};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 10_000;

/// Makes countdown tasks.
pub type Countdown = FamilyGenerator<Config>;

impl Config {
    /// Draws one instance of a cell and counts the candidates.
    fn instance(
        &self,
        cell: Cell,
        stream: &mut Stream,
        report: &mut CellReport,
    ) -> Result<Drawn<Truth>, EnvError> {
        let mut misses = Vec::new();
        let drawn = report.draw(DRAWS_MAX, || {
            draw(self, cell, stream).map_err(|miss| {
                let name = miss.name();
                misses.push(miss);
                name
            })
        });
        let (puzzle, solution) = drawn.ok_or_else(|| self.empty(cell, &misses))?;
        let prompt = puzzle.prompt(self.prompt);
        // The name is that of the puzzle: the same puzzle found from another solution is the same task.
        let content = to_value(&puzzle)?.to_string();
        let truth = Truth { puzzle, solution: Some(solution.to_string()) };
        Ok(Drawn::new(prompt, truth)
            .identified_by(content)
            .label("numbers", cell.numbers)
            .label("operations", cell.operations))
    }

    /// The error for a cell without instances: names the value nearest to the one asked for, if any target was found.
    fn empty(&self, cell: Cell, misses: &[Miss]) -> EnvError {
        let range = self.target;
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

impl Family for Config {
    const ID: &str = "countdown";
    const TITLE: &str = "Countdown";
    const SUMMARY: &str = "Reach a target from given numbers with + - * /.";
    const COMPONENTS: &[&str] = &["answer"];
    type Config = Self;
    type Truth = Truth;

    fn new(config: Self) -> Result<Self, EnvError> {
        config.check()?;
        Ok(config)
    }

    /// Cells take turns in an order that the seed decides, so that each prefix of the set is balanced too. In a small
    /// space the same puzzle may occur twice, as the same task with the solution and labels of its first occurrence.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut cells = self.cells();
        Stream::new(Address::new(seed, Purpose::Shuffle).seed()).shuffle(&mut cells);
        let order = cells.iter().copied().cycle().take(count);
        let set = tried::<Self, _>(seed, order, |cell, stream, report| self.instance(*cell, stream, report))?;
        Ok(set.unified().reporting(self.cells()))
    }

    fn environment(&self) -> Box<dyn Environment> {
        let Config { reward, thoughts, .. } = *self;
        Box::new(OneTurn::new(Self::ID, Self::truth, move |truth: &Truth, answer| {
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

    fn show(&self, _: &Task, truth: Truth, answer: Option<&str>) -> String {
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

    fn demonstrate(&self, task: &Task, truth: Truth) -> Option<Vec<Message>> {
        let solution = truth.solve()?;
        let answer = match self.thoughts.tries() {
            None => truth.puzzle.demonstration(&solution),
            Some(tries) => {
                let mut stream = Stream::new(fold_bytes(0, task.id.0.as_bytes()));
                truth.puzzle.tried(&solution, tries, &mut stream)
            }
        };
        Some(vec![answer.ok()?])
    }

    fn redesign(&self) -> Option<&dyn Redesign> {
        Some(self)
    }
}

impl Redesign for Config {
    fn knobs(&self) -> Result<Vec<Knob>, EnvError> {
        Ok(knobs(self))
    }

    fn guideline(&self) -> &'static str {
        "A policy learns from puzzles that it solves sometimes. A solution needs one number more than it has operations. \
         Every further operation multiplies what has to be tried; greater values and targets make results harder to compute."
    }
}
