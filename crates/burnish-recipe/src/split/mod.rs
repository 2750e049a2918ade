//! `split` of `[env]` and `[[data.demonstrations]]`: which part of a set of tasks is used, by a score (DeReason, arXiv
//! 2603.11193).

mod keep;

use std::path::PathBuf;

use burnish_core::rng::{Address, Purpose};
use burnish_remote::endpoint::EndpointConfig;
use serde::{Deserialize, Serialize};

use crate::asked;

pub use keep::Keep;

/// The placeholder for the task in a judge's prompt.
pub const TASK: &str = "{task}";

/// `split` of `[env]` and `[[data.demonstrations]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Where the scores come from.
    pub scorer: Scorer,
    /// Which scores are kept: `">= 4"`, `"< 4"`, `"> 3"`, `"<= 3"`, `"== 2"`.
    pub keep: Keep,
    /// Which task gets which score.
    #[serde(default)]
    pub mode: Mode,
    /// `mode = "domain"`: the label within whose values scores are shuffled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Decides, instead of `run.seed`, which tasks are split and how scores are shuffled.
    #[serde(default)]
    pub seed: u64,
}

/// Where a task's score comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scorer {
    /// A number in a label of the task, or in a column of the row that the task was taken from.
    Rule(String),
    /// A policy that reads the task and answers with a number from 1 to 5.
    Judge(Box<ScoringJudge>),
}

/// Which task gets which score: its own, or a control that splits into parts of the same sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every task has its own score.
    #[default]
    Score,
    /// Scores are shuffled at random: the parts have identical sizes but carry no information.
    Random,
    /// Tasks that `keep` would keep are dropped, and the others stay.
    Reversed,
    /// Scores are shuffled among tasks with the same `label`: the parts have the same sizes in every domain.
    Domain,
}

impl Split {
    /// Checks what the types don't guarantee.
    ///
    /// # Errors
    /// The wrong key, relative to the split, and what it must be.
    pub fn check(&self) -> Result<(), (String, String)> {
        let wrong = |key: &str, rule: &str| Err((key.to_owned(), rule.to_owned()));
        match (self.mode, &self.label) {
            (Mode::Domain, None) => wrong("label", "must name the label of domains for `mode = \"domain\"`"),
            (Mode::Score | Mode::Random | Mode::Reversed, Some(_)) => {
                wrong("label", "has no use: only `mode = \"domain\"` looks at it")
            }
            _ => match &self.scorer {
                Scorer::Rule(name) if name.is_empty() => {
                    wrong("scorer.rule", "must name a label or a column")
                }
                Scorer::Rule(_) => Ok(()),
                Scorer::Judge(judge) => {
                    judge.check().map_err(|(key, rule)| (format!("scorer.judge.{key}"), rule))
                }
            },
        }
    }

    /// The seed of the tasks to split: the same in every recipe and run.
    pub fn seed_of_tasks(&self) -> u64 {
        Address::new(self.seed, Purpose::Task).seed()
    }
}

/// A policy that scores tasks: one of `path` and `endpoint`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoringJudge {
    /// A model directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A server that speaks OpenAI's wire format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// The question, with `{task}` in place of the task's prompt.
    #[serde(default = "prompt")]
    pub prompt: String,
    /// Most tokens of an answer.
    #[serde(default = "tokens_max")]
    pub tokens_max: usize,
}

fn prompt() -> String {
    format!(
        "How much reasoning does the following task ask for? 1: recall of a single fact. 2: recall and one simple step. \
         3: several simple steps. 4: a chain of steps that build on each other. 5: long or inventive reasoning. Do not \
         solve it. Answer with one digit from 1 to 5 and nothing else.\n\nTask:\n{TASK}"
    )
}

fn tokens_max() -> usize {
    16
}

impl ScoringJudge {
    /// Checks what the types don't guarantee.
    ///
    /// # Errors
    /// The key that is wrong, and what it must be.
    fn check(&self) -> Result<(), (String, String)> {
        let wrong = |key: &str, rule: &str| Err((key.to_owned(), rule.to_owned()));
        if !self.prompt.contains(TASK) {
            return wrong("prompt", "must have `{task}` where the task goes");
        }
        asked::check(self.path.as_deref(), self.endpoint.as_ref(), self.tokens_max)
    }
}
