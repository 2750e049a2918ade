//! The results of a finished run, and its budget.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use burnish_core::{Episode, Task, TaskId};
use burnish_eval::{Measure, Summary, TaskScores};
use serde::{Deserialize, Serialize};

use super::ArmRun;
use super::columns::Numbers;
use super::reach::Reached;
use burnish_run::RunError;
use burnish_run::evaluate::bootstrap_seed;
use burnish_run::report_of_run::episodes_of;
use burnish_rundir::journal::{EpisodeKind, Journal};
use burnish_rundir::metrics::Row;
use burnish_rundir::run_dir;

/// What training used. Evaluations are left out, because they are the same for all runs.
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
    /// The mean of several budgets; 0 of none.
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

/// The results of a finished run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Its seed.
    pub seed: u64,
    /// The measure that its environment reports.
    #[serde(skip)]
    pub headline: Measure,
    /// Episodes of the last evaluation whose prompt did not fit the context window.
    #[serde(skip)]
    pub prompt_too_long: usize,
    /// Episodes of the last evaluation that were started but could not be judged.
    #[serde(skip)]
    pub unscored: usize,
    /// The last evaluation, task by task.
    #[serde(skip)]
    pub scores: TaskScores,
    /// Held-out success by steps done; reward if that is the headline.
    pub curve: Vec<(u64, f64)>,
    /// What training used.
    pub budget: Budget,
    /// What it generated until it reached the score that the study names, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// The additional numbers that the study names, as far as the run has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// For names that no run can have: why there is no such number.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

/// Refuses names of additional numbers that a finished run lacks and that no other run can have.
///
/// # Errors
/// Names the key, and suggests similar names. Or if the run's files can't be read.
pub(super) fn refuse_unknown(run: &ArmRun, metrics: &[String]) -> Result<(), RunError> {
    if metrics.is_empty() {
        return Ok(());
    }
    let unknown = Measured::read(run, metrics, None)?.unknown;
    if unknown.is_empty() { Ok(()) } else { Err(unknown_in(run.dir(), &unknown)) }
}

/// The error about names of additional numbers that the run in `dir` lacks.
pub(super) fn unknown_in(dir: &Path, unknown: &[String]) -> RunError {
    let said: Vec<String> = unknown.iter().map(|why| format!("`study.metrics` {why}")).collect();
    RunError::Refused(format!("{} (looked up in the finished run {})", said.join("\n"), dir.display()))
}

impl Measured {
    /// Whether any task of the last evaluation could be judged.
    pub(super) fn is_judged(&self) -> bool {
        !(self.scores.success.is_empty() && self.scores.reward.is_empty())
    }

    /// Reads a finished run, with the additional numbers `metrics` and the success rate `reach`.
    ///
    /// # Errors
    /// If its files can't be read.
    pub(super) fn read(run: &ArmRun, metrics: &[String], reach: Option<f64>) -> Result<Self, RunError> {
        let dir: &Path = run.dir();
        let journal = Journal::open(&run_dir::journal_in(dir))?;
        let rows = burnish_rundir::metrics::read(&run_dir::metrics_in(dir))?;
        let last =
            journal.steps()?.iter().filter(|entry| entry.kind == EpisodeKind::Eval).map(|e| e.step).max();
        let episodes =
            last.map_or_else(|| Ok(Vec::new()), |step| episodes_of(&journal, step, EpisodeKind::Eval))?;
        let tally = journal.tally()?;
        let numbers = if metrics.is_empty() {
            None
        } else {
            let (tasks, weights) = (tasks_of(&journal, &episodes)?, &run.recipe.reward.weights);
            let summary = Summary::of(&tasks, &episodes, weights, bootstrap_seed(&run.recipe));
            Some(Numbers::of(Some(&summary), &rows))
        };
        let sum = |name: &str| -> f64 { of_event(&rows, "train", name).map(|(_, value)| value).sum() };
        // If a step has a number twice, the later one counts.
        let headline = Measure::of(&episodes);
        let level = format!("eval/{}", headline.name());
        let curve: Vec<(u64, f64)> =
            of_event(&rows, "eval", &level).collect::<BTreeMap<_, _>>().into_iter().collect();
        let reach = reach.filter(|_| headline == Measure::Success);
        let prompt_too_long = episodes.iter().filter(|episode| episode.is_prompt_too_long()).count();
        let unscored =
            episodes.iter().filter(|episode| !episode.verdict.is_scored()).count() - prompt_too_long;
        Ok(Measured {
            seed: run.seed,
            reached: reach.map(|score| Reached::of(score, &curve, &rows)),
            metrics: metrics
                .iter()
                .filter_map(|name| Some((name.clone(), numbers.as_ref()?.get(name)?)))
                .collect(),
            unknown: metrics.iter().filter_map(|name| numbers.as_ref()?.why_unknown(name)).collect(),
            headline,
            prompt_too_long,
            unscored,
            scores: TaskScores::of(&episodes, &run.recipe.reward.weights),
            curve,
            budget: Budget {
                generated: sum("tokens/sampled"),
                forward_backward: sum("tokens/forward"),
                // Continuations from inside an answer are played but not stored.
                environment_steps: tally.turns as f64 + sum("continuations/answers"),
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
