//! TimeQA's human-written test questions (Chen et al. 2021, arXiv:2108.06314), for evaluation only.
//!
//! A question about a Wikipedia page is presented with one of three inputs ([`Input`]): the whole page, the sentences
//! about the time in question, or quadruples (head, relation, tail, time). The last two come from the rules in
//! `rules.rs`, which look at page and question, never at the answer. Answers are judged as in [`crate::timed_facts`].
//!
//! It has no demonstrations, and [`Generator::evaluation_only`] says why: it is a test set.

mod data;
mod rules;

use std::collections::BTreeMap;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Message, Task, TaskId, Verdict};
use burnish_verify::abstention::NO_ANSWER;
use burnish_verify::qa::joined;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::one_turn::OneTurn;
use crate::settings::{self, check_bounds, config_error, to_value};
use crate::tasks::read;
use crate::timed_facts::{Reward, judge, verdict};
use crate::{BoundRow, CellReport, EnvError, Environment, Generator, Kind, TaskSet};

pub use rules::{Quadruple, Span, quadruples};

const ID: &str = "timeqa";

/// The text after page and question.
pub const INSTRUCTION: &str = "\n\nAnswer from the context alone, with the name only; several answers are separated by \
    commas. If the context does not say, the answer is No Answer. Write exactly:\n<think>\nyour thoughts\n</think>\n\n\
    <answer>\nthe answer\n</answer>";

/// Why nothing may be trained on these questions.
const TEST_ONLY: &str = "TimeQA's human-written questions are a test set: they are for `burnish eval` and never for training; \
    train on `timed_facts`";

/// The environment's entry in the catalogue.
pub const KIND: Kind = Kind {
    id: ID,
    title: "TimeQA",
    summary: "TimeQA's human-written test questions about Wikipedia pages (evaluation only, needs the file).",
    axes: None,
    defaults: || to_value(&Config::default()).unwrap_or_default(),
    build: |value| Ok(Box::new(TimeQa::new(settings::read(value)?)?)),
};

/// What the policy reads along with the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// The whole page.
    Context,
    /// The page's title, and its sentences whose time overlaps with that of the question.
    Filtered,
    /// The best quadruples that the rules find in the page.
    Quadruples,
}

/// The configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file `human_annotated_test.json`, compressed with gzip or not.
    pub path: String,
    /// What the policy reads along with the question.
    pub input: Input,
    /// Most quadruples in a prompt.
    pub quadruples: usize,
    /// The rewards of a response.
    pub reward: Reward,
}

impl Default for Config {
    fn default() -> Self {
        Config { path: String::new(), input: Input::Context, quadruples: 20, reward: Reward::default() }
    }
}

const BOUNDS: &[BoundRow] = &[
    ("quadruples", 1.0, 1_000.0, "most quadruples of a prompt"),
    ("reward.format", -10.0, 10.0, "reward of the form"),
    ("reward.abstention", -10.0, 10.0, "reward of a right abstention"),
];

/// Provides TimeQA's questions.
#[derive(Debug)]
pub struct TimeQa {
    config: Config,
    questions: Vec<data::Question>,
}

impl TimeQa {
    /// Reads the file.
    ///
    /// # Errors
    /// If a key is out of bounds, or the file can't be read or is not in TimeQA's format.
    pub fn new(config: Config) -> Result<Self, EnvError> {
        check_bounds(&config, BOUNDS)?;
        if config.path.is_empty() {
            let problem =
                "name TimeQA's human_annotated_test.json (https://github.com/wenhuchen/Time-Sensitive-QA)";
            return Err(config_error("path", problem));
        }
        let questions = data::read(config.path.as_ref())?;
        Ok(TimeQa { config, questions })
    }

    /// Every question once, in the order of the file.
    pub fn in_order(&self) -> Vec<Task> {
        (0..self.questions.len()).map(|index| self.task(index)).collect()
    }

    /// What the answer to a task is compared with: the gold answers joined, or `No Answer`.
    pub fn reference(task: &Task) -> String {
        match Truth::of(task) {
            Ok(truth) if !truth.golds.is_empty() => joined(&truth.golds),
            _ => NO_ANSWER.to_owned(),
        }
    }

    fn task(&self, index: usize) -> Task {
        let question = &self.questions[index];
        let context = match self.config.input {
            Input::Context => question.page.paragraphs.join("\n"),
            Input::Filtered => rules::filtered(&question.page.paragraphs, &question.text),
            Input::Quadruples => {
                let found = quadruples(&question.page.paragraphs, &question.text);
                let lines: Vec<String> =
                    found.iter().take(self.config.quadruples).map(ToString::to_string).collect();
                lines.join("\n")
            }
        };
        let is_answerable = if question.golds.is_empty() { "no" } else { "yes" };
        Task {
            id: TaskId(format!("{ID}/{}/{index}", json!(self.config.input).as_str().unwrap_or_default())),
            environment: ID.to_owned(),
            prompt: vec![Message::user(format!(
                "Context:\n{context}\n\nQuestion: {}{INSTRUCTION}",
                question.text
            ))],
            truth: json!({ "golds": question.golds }),
            labels: BTreeMap::from([
                ("answerable".to_owned(), is_answerable.to_owned()),
                ("relation".to_owned(), question.page.relation.clone()),
            ]),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    golds: Vec<String>,
}

impl Truth {
    fn of(task: &Task) -> Result<Self, EnvError> {
        read(ID, task)
    }

    fn judge(&self, answer: Option<&Message>, reward: &Reward) -> Verdict {
        let golds: Vec<&str> = self.golds.iter().map(String::as_str).collect();
        verdict(&judge(&golds, answer), reward, &golds)
    }
}

impl Generator for TimeQa {
    crate::configured!(ID, BOUNDS);

    fn components(&self) -> Option<Vec<String>> {
        Some(["answer", "format"].map(str::to_owned).into())
    }

    /// Questions in shuffled order; if `count` exceeds their number, they are repeated.
    fn tasks(&self, seed: u64, count: usize) -> Result<TaskSet, EnvError> {
        let seed = Address::new(seed, Purpose::Shuffle).seed();
        let order = burnish_data::passes(self.questions.len(), seed).take(count);
        let tasks = order.map(|index| self.task(index)).collect();
        let report = CellReport::all(ID, count);
        Ok(TaskSet { tasks, cells: vec![report] })
    }

    fn environment(&self) -> Box<dyn Environment> {
        let reward = self.config.reward;
        Box::new(OneTurn::new(ID, Truth::of, move |truth, answer| Ok(truth.judge(answer, &reward))))
    }

    fn evaluation_only(&self) -> Option<&'static str> {
        Some(TEST_ONLY)
    }

    fn draw(&self, task: &Task, answer: Option<&str>) -> String {
        let prompt = task.prompt.first().map(|message| message.content.as_str()).unwrap_or_default();
        let mut text = format!("{prompt}\ngold: {}", TimeQa::reference(task));
        if let (Some(answer), Ok(truth)) = (answer, Truth::of(task)) {
            text += &format!(
                "\njudged: {:?}",
                truth.judge(Some(&Message::assistant(answer)), &self.config.reward).rewards
            );
        }
        text
    }
}
