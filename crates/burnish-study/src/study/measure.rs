//! The results of a finished run, and its budget.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use burnish_core::{Episode, Task, TaskId};
use burnish_eval::Measure;
use serde::{Deserialize, Serialize};

use super::metric::{Number, Numbers};
use super::{ArmRun, Budget};
use burnish_run::RunError;
use burnish_run::evaluate::summarise;
use burnish_run::report_of_run::episodes_of;
use burnish_rundir::journal::{EpisodeKind, Journal};
use burnish_rundir::metrics::Row;
use burnish_rundir::run_dir;

/// The loss of success that no evaluation of a few hundred tasks shows by chance.
const COLLAPSE_LEAST: f64 = 0.05;

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
    /// Whether any task of the last evaluation could be judged.
    #[serde(skip)]
    pub is_judged: bool,
    /// Tasks of the last evaluation that count.
    #[serde(skip)]
    pub tasks: usize,
    /// Held-out success by steps done; reward if that is the headline.
    pub curve: Vec<(u64, f64)>,
    /// What training used.
    pub budget: Budget,
    /// The numbers that the study names, as far as the run has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<String, f64>,
    /// Those that are only lower bounds: what they wait for never happened.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub bounds: BTreeSet<String>,
    /// For names that no run can have: why there is no such number.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

/// Refuses names of additional numbers that a finished run lacks and that no other run can have.
///
/// # Errors
/// Names the key, and suggests similar names. Or if the run's files can't be read.
pub(super) fn refuse_unknown(run: &ArmRun, metrics: &[&str]) -> Result<(), RunError> {
    if metrics.is_empty() {
        return Ok(());
    }
    let unknown = Measured::read(run, metrics)?.unknown;
    if unknown.is_empty() { Ok(()) } else { Err(unknown_in(run.dir(), &unknown)) }
}

/// The error about names of additional numbers that the run in `dir` lacks.
pub(super) fn unknown_in(dir: &Path, unknown: &[String]) -> RunError {
    let said: Vec<String> = unknown.iter().map(|why| format!("the study {why}")).collect();
    RunError::Refused(format!("{} (looked up in the finished run {})", said.join("\n"), dir.display()))
}

impl Measured {
    /// Reads a finished run, with the numbers that `metrics` names and those of every study ([`always`]).
    ///
    /// # Errors
    /// If its files can't be read.
    pub(super) fn read(run: &ArmRun, metrics: &[&str]) -> Result<Self, RunError> {
        let dir: &Path = run.dir();
        let journal = Journal::open(&run_dir::journal_in(dir))?;
        let rows = burnish_rundir::metrics::read(&run_dir::metrics_in(dir))?;
        let last =
            journal.steps()?.iter().filter(|entry| entry.kind == EpisodeKind::Eval).map(|e| e.step).max();
        let episodes =
            last.map_or_else(|| Ok(Vec::new()), |step| episodes_of(&journal, step, EpisodeKind::Eval))?;
        let tally = journal.tally()?;
        let tasks = tasks_of(&journal, &episodes)?;
        let summary = summarise(&run.recipe, &tasks, &episodes);
        let found = Numbers::of(Some(&summary), &rows);
        let sum = |name: &str| -> f64 { of_event(&rows, "train", name).map(|(_, value)| value).sum() };
        let headline = summary.headline;
        // If a step has a number twice, the later one counts.
        let level = format!("eval/{}", headline.name());
        let curve = of_event(&rows, "eval", &level).collect::<BTreeMap<_, _>>().into_iter().collect();
        let common = always(headline);
        let named = || metrics.iter().copied().chain(common.iter().map(|name| &**name));
        let numbers: BTreeMap<&str, Number> =
            named().filter_map(|name| Some((name, found.get(name)?))).collect();
        let bounds = numbers.iter().filter(|(_, number)| number.is_bound);
        Ok(Measured {
            seed: run.seed,
            bounds: bounds.map(|(name, _)| (*name).to_owned()).collect(),
            unknown: metrics.iter().filter_map(|name| found.why_unknown(name)).collect(),
            headline,
            prompt_too_long: summary.prompt_too_long,
            unscored: summary.unscored,
            is_judged: summary.leading().is_some(),
            tasks: summary.tasks,
            numbers: numbers.into_iter().map(|(name, number)| (name.to_owned(), number.value)).collect(),
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

    /// Whether it lost over half of the success that it once had, and more than chance would take.
    pub(super) fn has_collapsed(&self) -> bool {
        let best = self.curve.iter().map(|(_, level)| *level).fold(0.0, f64::max);
        let Some((_, last)) = self.curve.last() else { return false };
        self.headline == Measure::Success && *last < best / 2.0 && best - last > COLLAPSE_LEAST
    }
}

/// The numbers that every study has an interval of: the headline, the area under its curve, and the reward.
pub(super) fn always(headline: Measure) -> Vec<String> {
    let name = headline.name();
    let mut names = vec![name.to_owned(), format!("area(eval/{name})")];
    if headline == Measure::Success {
        names.push("reward".to_owned());
    }
    names
}

fn tasks_of(journal: &Journal, episodes: &[Episode]) -> Result<Vec<Task>, RunError> {
    let ids: BTreeSet<&TaskId> = episodes.iter().map(|episode| &episode.task).collect();
    let tasks = ids.into_iter().map(|id| journal.task(id)).collect::<Result<Vec<_>, _>>()?;
    Ok(tasks.into_iter().flatten().collect())
}

/// The finite numbers called `name` of one kind of event, by step.
fn of_event<'a>(rows: &'a [Row], event: &'a str, name: &'a str) -> impl Iterator<Item = (u64, f64)> + 'a {
    let of_kind = rows.iter().filter(move |row| row.event == event);
    of_kind
        .filter_map(move |row| Some((row.step, *row.values.get(name)?)))
        .filter(|(_, value)| value.is_finite())
}
