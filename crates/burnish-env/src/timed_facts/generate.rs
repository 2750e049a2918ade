//! The generator of timed facts.

use std::collections::BTreeMap;

use burnish_core::rng::Stream;
use burnish_core::{Message, Task};
use burnish_verify::abstention;

use super::ID;
use super::config::{BOUNDS, Config};
use super::draw::{Cell, draw};
use super::play::{Truth, judge, verdict};
use crate::digest::digest;
use crate::one_turn::OneTurn;
use crate::settings::{config_error, to_value};
use crate::tasks::{seed_of, task};
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, Hints, TaskSet};

/// Candidates drawn for one task before its cell is considered empty.
const DRAWS_MAX: usize = 1_000;

/// Makes tasks of timed facts.
#[derive(Debug, Clone)]
pub struct TimedFacts {
    config: Config,
}

impl TimedFacts {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        Ok(TimedFacts { config })
    }

    fn instance(&self, cell: Cell, seed: u64, report: &mut CellReport) -> Result<Truth, EnvError> {
        let mut stream = Stream::new(seed);
        let drawn = report.draw(DRAWS_MAX, || draw(&self.config, cell, &mut stream).ok_or("no_gap"));
        drawn.map(|(facts, question)| Truth { facts, question }).ok_or_else(|| {
            let problem = format!(
                "no instance of the cell `{cell}` in {DRAWS_MAX} draws: no gap was wide enough; nearest: {}",
                self.config.years.last + 1
            );
            config_error("years.last", &problem)
        })
    }

    fn task(&self, cell: Cell, truth: &Truth) -> Result<Task, EnvError> {
        let yes_no = if cell.is_answerable { "yes" } else { "no" };
        let prompt = truth.prompt(self.config.prompt);
        let truth_value = to_value(truth)?;
        let labels = BTreeMap::from([
            ("answerable".to_owned(), yes_no.to_owned()),
            ("difficulty".to_owned(), cell.difficulty().to_owned()),
            ("question".to_owned(), truth.question.when.name().to_owned()),
        ]);
        Ok(task(
            ID,
            digest(truth_value.to_string().as_bytes()),
            vec![Message::user(prompt)],
            truth_value,
            labels,
        ))
    }

    /// The cells of `count` tasks in order. In each prefix, the shares are met up to rounding.
    fn cells(&self, count: usize) -> Vec<Cell> {
        let Config { unanswerable, unknown, hard, .. } = self.config;
        let mut unanswerable = Share::new(unanswerable);
        let [mut hard_answerable, mut hard_known, mut hard_unknown] = [hard; 3].map(Share::new);
        let mut unknown = Share::new(unknown);
        (0..count)
            .map(|_| {
                if !unanswerable.next() {
                    return Cell { is_answerable: true, is_hard: hard_answerable.next(), is_unknown: false };
                }
                let is_unknown = unknown.next();
                let is_hard = if is_unknown { hard_unknown.next() } else { hard_known.next() };
                Cell { is_answerable: false, is_hard, is_unknown }
            })
            .collect()
    }
}

/// Says yes so often that, for every `n`, it has done so `round(share * n)` times after `n` questions.
struct Share {
    share: f64,
    asked: f64,
}

impl Share {
    fn new(share: f64) -> Self {
        Share { share, asked: 0.0 }
    }

    fn next(&mut self) -> bool {
        let before = (self.share * self.asked).round();
        self.asked += 1.0;
        (self.share * self.asked).round() > before
    }
}

impl Generator for TimedFacts {
    crate::configured!(ID, BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(["answer", "format"].map(str::to_owned).into())
    }

    /// The shares of unanswerable, unknown and hard questions are met exactly up to rounding, also in each prefix of
    /// the set.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut reports: BTreeMap<Cell, CellReport> = BTreeMap::new();
        let mut tasks = Vec::with_capacity(count);
        for (index, cell) in self.cells(count).into_iter().enumerate() {
            let named = || CellReport::new(cell.to_string());
            let report = reports.entry(cell).or_insert_with(named);
            let truth = self.instance(cell, seed_of(seed, index), report)?;
            tasks.push(self.task(cell, &truth)?);
        }
        Ok(TaskSet { tasks, cells: reports.into_values().collect() })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let reward = self.config.reward;
        Box::new(OneTurn::new(ID, Truth::of, move |truth: &Truth, answer| {
            let golds = truth.golds();
            Ok(verdict(&judge(&golds, answer), &reward, &golds))
        }))
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let golds = truth.golds();
        let mut facts: Vec<_> = truth.facts.iter().collect();
        facts.sort_by_key(|fact| (&fact.entity, &fact.role, fact.from));
        let mut lines: Vec<String> = facts.into_iter().map(ToString::to_string).collect();
        lines.push(truth.question.to_string());
        lines.push(format!("gold: {}", golds.first().copied().unwrap_or(abstention::NO_ANSWER)));
        if let Some(answer) = answer {
            let verdict = verdict(&abstention::judge(&golds, answer), &self.config.reward, &golds);
            let earned: Vec<String> =
                verdict.rewards.iter().map(|(name, reward)| format!("{name} {reward}")).collect();
            let feedback = verdict.feedback.map(|text| format!("; {text}")).unwrap_or_default();
            lines.push(format!("judged: {}{feedback}", earned.join(", ")));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }

    fn hints(&self) -> Option<&dyn Hints> {
        Some(self)
    }
}

impl Demonstrations for TimedFacts {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        Some(Message::assistant(Truth::of(task).ok()?.demonstration()))
    }
}

impl Hints for TimedFacts {
    fn reasoning(&self, task: &Task) -> Option<String> {
        Some(Truth::of(task).ok()?.reasoning())
    }
}
