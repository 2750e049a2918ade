//! The generator of scenes.

use std::collections::BTreeMap;

use burnish_core::rng::Stream;
use burnish_core::{Message, Task};

use super::ID;
use super::config::{BOUNDS, Config, Questions};
use super::draw::{Cell, draw};
use super::scene::{Question, Truth};
use crate::digest::digest;
use crate::one_turn::{OneTurn, text_of};
use crate::settings::to_value;
use crate::shares::spread;
use crate::tasks::{seed_of, task};
use crate::{CellReport, Demonstrations, EnvError, Environment, Generator, TaskSet};

/// Makes tasks about scenes.
#[derive(Debug, Clone)]
pub struct Scenes {
    config: Config,
}

impl Scenes {
    /// A generator with this configuration.
    ///
    /// # Errors
    /// If a key is out of bounds or contradicts another.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        config.check()?;
        Ok(Scenes { config })
    }

    /// The cells of `count` tasks in order.
    fn cells(&self, count: usize) -> Vec<Cell> {
        let Questions { present, colour, caption } = self.config.questions;
        let usual = self.config.usual;
        // Eight kinds: yes or no, the usual colour or not, of each question that has them.
        let kinds: Vec<(Cell, f64)> = [(0, present), (1, colour), (2, caption)]
            .into_iter()
            .flat_map(|(question, weight)| {
                let answers = if question == 0 { vec![true, false] } else { vec![true] };
                let each = weight / answers.len() as f64;
                answers.into_iter().flat_map(move |is_yes| {
                    let cell = |is_usual| Cell { question, is_usual, is_yes };
                    [(cell(true), each * usual), (cell(false), each * (1.0 - usual))]
                })
            })
            .collect();
        let weights: Vec<f64> = kinds.iter().map(|(_, weight)| *weight).collect();
        spread(&weights, count).into_iter().map(|kind| kinds[kind].0).collect()
    }

    fn task(&self, cell: Cell, truth: &Truth) -> Result<Task, EnvError> {
        let value = to_value(truth)?;
        let prior = if cell.is_usual { "with" } else { "against" };
        let mut labels = BTreeMap::from([
            ("question".to_owned(), truth.question.name().to_owned()),
            ("prior".to_owned(), prior.to_owned()),
        ]);
        if let Question::Present(_) = truth.question {
            labels.insert("answer".to_owned(), truth.answer());
        }
        Ok(task(ID, digest(value.to_string().as_bytes()), vec![Message::user(truth.prompt())], value, labels))
    }
}

impl Generator for Scenes {
    crate::configured!(ID, BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(vec!["answer".to_owned()])
    }

    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let mut made: BTreeMap<Cell, usize> = BTreeMap::new();
        let mut tasks = Vec::with_capacity(count);
        for (index, cell) in self.cells(count).into_iter().enumerate() {
            tasks.push(self.task(cell, &draw(&self.config, cell, &mut Stream::new(seed_of(seed, index))))?);
            *made.entry(cell).or_default() += 1;
        }
        let cells = made.into_iter().map(|(cell, made)| {
            let question = ["present", "colour", "caption"][cell.question];
            let prior = if cell.is_usual { "with" } else { "against" };
            let answer = match (cell.question, cell.is_yes) {
                (0, true) => " answer=yes",
                (0, false) => " answer=no",
                _ => "",
            };
            let cell = format!("question={question} prior={prior}{answer}");
            CellReport::all(cell, made)
        });
        Ok(TaskSet { tasks, cells: cells.collect() })
    }

    fn environment(&self) -> Box<dyn Environment> {
        Box::new(OneTurn::new(ID, Truth::of, |truth: &Truth, answer| Ok(truth.verdict(text_of(answer)))))
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let truth = match Truth::of(task) {
            Ok(truth) => truth,
            Err(error) => return error.to_string(),
        };
        let mut lines = vec![truth.prompt(), format!("right: {}", truth.answer())];
        if let Some(answer) = answer {
            let verdict = truth.verdict(answer);
            let judged = if verdict.success { "right" } else { "wrong" };
            lines.push(format!("said: {} ({judged})", answer.trim()));
        }
        lines.join("\n")
    }

    fn demonstrations(&self) -> Option<&dyn Demonstrations> {
        Some(self)
    }
}

impl Demonstrations for Scenes {
    fn demonstrate(&self, task: &Task) -> Option<Message> {
        Some(Message::assistant(Truth::of(task).ok()?.answer()))
    }
}
