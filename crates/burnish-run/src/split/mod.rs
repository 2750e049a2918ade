//! Splits of a set of tasks by a score, such as how much reasoning each asks for (DeReason, arXiv 2603.11193).
//!
//! Take two recipes with the same tasks and the same split, one of which keeps what the other does not (`>= 4` and `<
//! 4`). They divide the tasks between reinforcement learning and imitation: every task goes to exactly one of them.
//! Scores are frozen: a rule always gives the same score, and a judge's scores are stored in a file (`judge`). No
//! scorer sees a task's truth, except through a rule that is told to read it.

mod judge;
mod modes;

use std::collections::BTreeSet;
use std::path::Path;

use burnish_core::{Task, TaskId};
use burnish_env::Generator;
use burnish_recipe::split::{Scorer, Split};

use crate::RunError;

/// The part of `tasks` that `split` keeps, each task once. `cache` is the folder of the judges' scores; `table` is
/// the split's place in the recipe.
///
/// # Errors
/// If a task has no score, or none is kept.
pub(crate) fn part(
    split: &Split,
    generator: &dyn Generator,
    mut tasks: Vec<Task>,
    cache: &Path,
    table: &str,
) -> Result<Vec<Task>, RunError> {
    // The order in which tasks are generated may depend on what else is generated.
    let mut known = BTreeSet::new();
    tasks.retain(|task| known.insert(task.id.clone()));
    let within = |problem: String| RunError::Refused(format!("{table}.split.{problem}"));
    let scores = match &split.scorer {
        Scorer::Rule(name) => tasks
            .iter()
            .map(|task| by_rule(generator, task, name))
            .collect::<Result<Vec<f64>, String>>()
            .map_err(|problem| within(format!("scorer.rule: {problem}")))?,
        Scorer::Judge(judge) => judge::scores(judge, &tasks, cache)?,
    };
    let stays = modes::stays(split, &tasks, &scores).map_err(within)?;
    let all = tasks.len();
    let mut stays = stays.into_iter();
    tasks.retain(|_| stays.next().unwrap_or(false));
    if tasks.is_empty() {
        return Err(within(format!(
            "keep: none of {all} tasks has a score {}: there is nothing to train on; leave this stage out, or take \
             another bound",
            split.keep
        )));
    }
    Ok(tasks)
}

/// What to tell a person about a part, with a digest that changes with any of its tasks.
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
