//! What a finished run came to, and what it used.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use burnish_core::{Episode, Task, TaskId};
use burnish_eval::{Summary, TaskScores};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PlannedRun;
use super::reach::Reached;
use crate::RunError;
use crate::evaluate::bootstrap_seed;
use crate::journal::{EpisodeKind, Journal};
use crate::metrics::Row;
use crate::report_of_run::eval_episodes;
use crate::run_dir;

/// What training used; evaluations are left out, which are the same for all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Tokens that the policy sampled.
    pub generated: f64,
    /// Rows that went through the model forward and backward, over all updates, after sharing prefixes.
    pub forward_backward: f64,
    /// Answers that the policy gave to the environment.
    pub environment_steps: f64,
    /// Episodes.
    pub episodes: f64,
    /// Updates of the optimiser.
    pub updates: f64,
    /// Wall time of the training steps, in seconds.
    pub seconds: f64,
}

impl Budget {
    /// The mean of several; 0 of none.
    pub fn mean<'a>(budgets: impl IntoIterator<Item = &'a Budget>) -> Self {
        let budgets: Vec<&Budget> = budgets.into_iter().collect();
        let mean = |of: fn(&Budget) -> f64| {
            budgets.iter().map(|budget| of(budget)).sum::<f64>() / budgets.len().max(1) as f64
        };
        Budget {
            generated: mean(|budget| budget.generated),
            forward_backward: mean(|budget| budget.forward_backward),
            environment_steps: mean(|budget| budget.environment_steps),
            episodes: mean(|budget| budget.episodes),
            updates: mean(|budget| budget.updates),
            seconds: mean(|budget| budget.seconds),
        }
    }
}

/// What a finished run came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Its seed.
    pub seed: u64,
    /// The last evaluation, task by task.
    #[serde(skip)]
    pub scores: TaskScores,
    /// Held-out success after so many steps.
    pub curve: Vec<(u64, f64)>,
    /// What training used.
    pub budget: Budget,
    /// What it generated until the score that the study names, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// Those of the numbers of the last evaluation that the study names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

impl Measured {
    /// Reads a finished run, with the names of further `metrics` and a success rate to `reach`.
    ///
    /// # Errors
    /// If its files can't be read.
    pub(super) fn read(run: &PlannedRun, metrics: &[String], reach: Option<f64>) -> Result<Self, RunError> {
        let dir: &Path = run.dir();
        let journal = Journal::open(&run_dir::journal_in(dir))?;
        let rows = crate::metrics::read(&run_dir::metrics_in(dir))?;
        let last =
            journal.steps()?.iter().filter(|entry| entry.kind == EpisodeKind::Eval).map(|e| e.step).max();
        let episodes = last.map_or_else(|| Ok(Vec::new()), |step| eval_episodes(&journal, step))?;
        let tally = journal.tally()?;
        let sum = |name: &str| -> f64 { of_event(&rows, "train", name).map(|(_, value)| value).sum() };
        // Where a step has a number twice, the later one counts.
        let curve: Vec<(u64, f64)> =
            of_event(&rows, "eval", "eval/success").collect::<BTreeMap<_, _>>().into_iter().collect();
        Ok(Measured {
            seed: run.seed,
            reached: reach.map(|score| Reached::of(score, &curve, &rows)),
            metrics: if metrics.is_empty() {
                BTreeMap::new()
            } else {
                let tasks = tasks_of(&journal, &episodes)?;
                let summary =
                    Summary::of(&tasks, &episodes, &run.recipe.reward.weights, bootstrap_seed(&run.recipe));
                named(&summary, metrics)
            },
            scores: TaskScores::of(&episodes, &run.recipe.reward.weights),
            curve,
            budget: Budget {
                generated: sum("tokens/sampled"),
                forward_backward: sum("tokens/forward"),
                environment_steps: tally.turns as f64,
                episodes: tally.episodes as f64,
                updates: tally.updates as f64,
                seconds: sum("step_time"),
            },
        })
    }
}

fn tasks_of(journal: &Journal, episodes: &[Episode]) -> Result<Vec<Task>, RunError> {
    let ids: BTreeSet<&TaskId> = episodes.iter().map(|episode| &episode.task).collect();
    let tasks = ids.into_iter().map(|id| journal.task(id)).collect::<Result<Vec<_>, _>>()?;
    Ok(tasks.into_iter().flatten().collect())
}

/// Those of the numbers called `names` that an evaluation has: `flags_by_label.size.4.parse_error`.
fn named(summary: &Summary, names: &[String]) -> BTreeMap<String, f64> {
    let table = serde_json::to_value(summary).unwrap_or_default();
    names.iter().filter_map(|name| Some((name.clone(), at(&table, name)?))).collect()
}

/// The number that a path of keys leads to; of an interval its mean. Keys may hold dots.
fn at(value: &Value, path: &str) -> Option<f64> {
    let table = value.as_object()?;
    if let Some(value) = table.get(path) {
        return value.as_f64().or_else(|| value.get("mean")?.as_f64());
    }
    table.iter().find_map(|(key, value)| at(value, path.strip_prefix(&**key)?.strip_prefix('.')?))
}

/// The finite numbers called `name` of one kind of event, by step.
pub(super) fn of_event<'a>(
    rows: &'a [Row],
    event: &'a str,
    name: &'a str,
) -> impl Iterator<Item = (u64, f64)> + 'a {
    let of_kind = rows.iter().filter(move |row| row.event == event);
    of_kind
        .filter_map(move |row| Some((row.step, *row.values.get(name)?)))
        .filter(|(_, value)| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_named_by_its_path() {
        let table = serde_json::json!({
            "success": {"mean": 0.5, "low": 0.4, "high": 0.6},
            "flags_by_label": {"share": {"0.5": {"abstained": 0.25}}, "share.0": {"5": {"x": 1.0}}},
            "unscored": 3,
        });
        assert_eq!(at(&table, "success"), Some(0.5));
        assert_eq!(at(&table, "success.low"), Some(0.4));
        assert_eq!(at(&table, "unscored"), Some(3.0));
        assert_eq!(at(&table, "flags_by_label.share.0.5.abstained"), Some(0.25));
        assert_eq!(at(&table, "flags_by_label.share.0.5.x"), Some(1.0));
        for missing in ["flags_by_label", "flags_by_label.share.0.6.abstained", "succes", "", "success."] {
            assert_eq!(at(&table, missing), None, "{missing}");
        }
    }
}
