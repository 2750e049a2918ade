//! Splits of a set of tasks by a score, such as how much reasoning each asks for (DeReason, arXiv 2603.11193).
//!
//! Two recipes with the same tasks and the same split, of which one keeps what the other does not (`>= 4` and `< 4`), share
//! the tasks out between reinforcement learning and imitation: every task goes to one of them. Scores are frozen: a rule
//! gives the same score each time, and what a judge said is kept in a file (`judge`). No scorer sees a task's truth,
//! except through a rule that is told to read it.

mod judge;
mod keep;
mod modes;

use std::collections::BTreeSet;
use std::path::Path;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Task, TaskId};
use burnish_env::Generator;
use serde::{Deserialize, Serialize};

use crate::RunError;

pub use judge::JudgeConfig;
pub use keep::Keep;

/// `split` of `[env]` and `[[data.demonstrations]]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// What gives the scores.
    pub scorer: Scorer,
    /// Which scores stay: `">= 4"`, `"< 4"`, `"> 3"`, `"<= 3"`, `"== 2"`.
    pub keep: Keep,
    /// Who has which score.
    #[serde(default)]
    pub mode: Mode,
    /// `mode = "domain"`: the label within which scores are dealt out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Decides which tasks there are to be split, instead of `run.seed`, and how scores are dealt out.
    #[serde(default)]
    pub seed: u64,
}

/// What gives a task its score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scorer {
    /// A label of the task, or a column of the row that it was taken from: a number.
    Rule(String),
    /// A policy that reads the task and answers with a number from 1 to 5.
    Judge(Box<JudgeConfig>),
}

/// Who has which score: the scores themselves, or a control that splits into parts of the same sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every task has its own.
    #[default]
    Score,
    /// Scores are dealt out at random: parts of identical sizes that say nothing.
    Random,
    /// What `keep` asks for goes, and the rest stays.
    Reversed,
    /// Scores are dealt out at random among tasks with the same `label`: parts that have the same sizes in every domain.
    Domain,
}

impl Split {
    /// Checks what the types do not.
    ///
    /// # Errors
    /// The key that is wrong, below that of the split, and what it must be.
    pub(crate) fn check(&self) -> Result<(), (String, String)> {
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

    /// The seed of the tasks that are split: the same in every recipe and run.
    pub(crate) fn seed_of_tasks(&self) -> u64 {
        Address::new(self.seed, Purpose::Task).seed()
    }

    /// The part of `tasks` that this split keeps, each task once. `cache`: folder of the scores of judges; `table`: where the
    /// split stands in the recipe.
    ///
    /// # Errors
    /// If a task has no score, or none is kept.
    pub(crate) fn part(
        &self,
        generator: &dyn Generator,
        mut tasks: Vec<Task>,
        cache: &Path,
        table: &str,
    ) -> Result<Vec<Task>, RunError> {
        // The order in which tasks are made may depend on what else is made.
        let mut known = BTreeSet::new();
        tasks.retain(|task| known.insert(task.id.clone()));
        let within = |problem: String| RunError::Refused(format!("{table}.split.{problem}"));
        let scores = match &self.scorer {
            Scorer::Rule(name) => tasks
                .iter()
                .map(|task| by_rule(generator, task, name))
                .collect::<Result<Vec<f64>, String>>()
                .map_err(|problem| within(format!("scorer.rule: {problem}")))?,
            Scorer::Judge(judge) => judge.scores(&tasks, cache)?,
        };
        let stays = self.stays(&tasks, &scores).map_err(within)?;
        let all = tasks.len();
        let mut stays = stays.into_iter();
        tasks.retain(|_| stays.next().unwrap_or(false));
        if tasks.is_empty() {
            return Err(within(format!(
                "keep: none of {all} tasks has a score {}: there is nothing to train on; leave this stage out, or take \
                 another bound",
                self.keep
            )));
        }
        Ok(tasks)
    }
}

/// What a person should know about a part, with a name that changes with any of its tasks.
pub(crate) fn told(part: &[Task]) -> String {
    let mut ids: Vec<&TaskId> = part.iter().map(|task| &task.id).collect();
    ids.sort();
    let text: Vec<&str> = ids.iter().map(|id| id.0.as_str()).collect();
    format!("{} tasks, partition {}", part.len(), burnish_env::digest(text.join("\n").as_bytes()))
}

fn by_rule(generator: &dyn Generator, task: &Task, name: &str) -> Result<f64, String> {
    let is_row = generator.rows().is_some();
    let column = || task.truth.get(name).filter(|_| is_row);
    let text = match (task.labels.get(name), column()) {
        (Some(label), _) => label.clone(),
        (None, Some(value)) => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        (None, None) => {
            let labels: Vec<&str> = task.labels.keys().map(String::as_str).collect();
            return Err(format!(
                "task {} has no label{} `{name}`; its labels: {}",
                task.id,
                if is_row { " and no column" } else { "" },
                labels.join(", ")
            ));
        }
    };
    let number = text.trim().parse().ok().filter(|score: &f64| score.is_finite());
    number.ok_or_else(|| format!("`{name}` of task {} is {text:?}, which is no number", task.id))
}

#[cfg(test)]
mod tests;
