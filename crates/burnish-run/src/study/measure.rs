//! What a finished run came to, and what it used.

use std::collections::BTreeMap;
use std::path::Path;

use burnish_eval::TaskScores;
use serde::Serialize;

use super::PlannedRun;
use crate::RunError;
use crate::journal::{EpisodeKind, Journal};
use crate::metrics::{self, Row};
use crate::report_of_run::eval_episodes;
use crate::run_dir;

/// What training used; evaluations are left out, which are the same for all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
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
#[derive(Debug, Clone, Serialize)]
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
}

impl Measured {
    /// Reads a finished run.
    ///
    /// # Errors
    /// If its files can't be read.
    pub(super) fn read(run: &PlannedRun) -> Result<Self, RunError> {
        let dir: &Path = run.dir();
        let journal = Journal::open(&run_dir::journal_in(dir))?;
        let rows = metrics::read(&run_dir::metrics_in(dir))?;
        let last =
            journal.steps()?.iter().filter(|entry| entry.kind == EpisodeKind::Eval).map(|e| e.step).max();
        let episodes = last.map_or_else(|| Ok(Vec::new()), |step| eval_episodes(&journal, step))?;
        let tally = journal.tally()?;
        let sum = |name: &str| -> f64 { of_event(&rows, "train", name).map(|(_, value)| value).sum() };
        Ok(Measured {
            seed: run.seed,
            scores: TaskScores::of(&episodes, &run.recipe.reward.weights),
            // Where a step has a number twice, the later one counts.
            curve: of_event(&rows, "eval", "eval/success").collect::<BTreeMap<_, _>>().into_iter().collect(),
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

/// The finite numbers called `name` of one kind of event, by step.
fn of_event<'a>(rows: &'a [Row], event: &'a str, name: &'a str) -> impl Iterator<Item = (u64, f64)> + 'a {
    let of_kind = rows.iter().filter(move |row| row.event == event);
    of_kind
        .filter_map(move |row| Some((row.step, *row.values.get(name)?)))
        .filter(|(_, value)| value.is_finite())
}
