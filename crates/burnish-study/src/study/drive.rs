//! Makes the runs of a study.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::measure::refuse_unknown;
use super::{ArmRun, State};
use burnish_recipe::StageUse;
use burnish_run::RunError;
use burnish_run::stages::{self, Made};
use burnish_run::train::{Finish, Run};
use burnish_run::watch::{Stop, Watch};

/// What happened to the runs that were to be made.
#[derive(Debug, Default)]
pub struct Ran {
    /// Number of the requested runs that are finished now.
    pub finished: usize,
    /// Whether it was stopped on request before all of them were.
    pub is_stopped: bool,
    /// Runs that failed, in the order in which that happened. The others continued.
    pub failed: Vec<Failed>,
    /// Why no more runs were started: the first finished run lacks numbers that the study names.
    pub refused: Option<RunError>,
}

/// A run that failed.
#[derive(Debug)]
pub struct Failed {
    /// Name of its arm.
    pub arm: String,
    /// Its seed.
    pub seed: u64,
    /// Why it failed.
    pub error: RunError,
}

/// First makes the policies that `runs` start from, unless they exist already: each once, with all cores. Returns
/// false if it was stopped on request before all were made.
///
/// # Errors
/// If one can't be made.
pub fn make_stages(runs: &[ArmRun], watch: &mut dyn Watch, stop: &Stop) -> Result<bool, RunError> {
    let mut seen = BTreeSet::new();
    for run in runs.iter().filter(|run| run.state == State::New) {
        let hashes =
            StageUse::of(&run.recipe).into_iter().filter_map(|of| of.made_by(&run.recipe)?.hash.as_ref());
        let known = seen.len();
        seen.extend(hashes);
        if seen.len() > known && stages::make(&mut run.recipe.clone(), watch, stop)? != Made::Ready {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes those of `runs` that are not finished, in order, `jobs` at once, each with an equal share of the cores.
/// `watch_of` gives a watcher when a run begins. A failed run does not end the others. The first finished run must
/// have the additional numbers that `metrics` names; otherwise no more runs are made.
///
/// On a stop request, every run in progress finishes its step and saves, and no other begins.
pub fn run(
    runs: &[ArmRun],
    jobs: usize,
    metrics: &[&str],
    stop: &Stop,
    watch_of: &(dyn Fn(&ArmRun) -> Box<dyn Watch + Send> + Sync),
) -> Ran {
    let open: Vec<&ArmRun> = runs.iter().filter(|run| run.state != State::Finished).collect();
    let next = AtomicUsize::new(0);
    let finished = runs.iter().find(|run| run.state == State::Finished);
    if let Some(Err(error)) = finished.map(|run| refuse_unknown(run, metrics)) {
        return Ran { refused: Some(error), ..Ran::default() };
    }
    let ran = Mutex::new(Ran::default());
    let work = || {
        while !stop.is_asked() {
            let Some(run) = open.get(next.fetch_add(1, Ordering::SeqCst)) else { return };
            let made = make(run, jobs, stop, watch_of(run));
            let mut ran = ran.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match made {
                Ok(is_finished) => {
                    if is_finished && ran.finished == 0 && finished.is_none() {
                        ran.refused = refuse_unknown(run, metrics).err();
                    }
                    ran.finished += usize::from(is_finished);
                    if ran.refused.is_some() {
                        stop.ask();
                    }
                }
                Err(error) => ran.failed.push(Failed { arm: run.name.clone(), seed: run.seed, error }),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    let mut ran = ran.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    ran.is_stopped = stop.is_asked() && ran.finished + ran.failed.len() < open.len();
    ran
}

/// Makes one run. Returns whether it is finished now.
fn make(
    planned: &ArmRun,
    jobs: usize,
    stop: &Stop,
    mut watch: Box<dyn Watch + Send>,
) -> Result<bool, RunError> {
    let cores = match planned.recipe.run.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    burnish_tensor::with_threads((cores / jobs.max(1)).max(1), || {
        let watch = &mut *watch;
        let mut run = match planned.state {
            State::New => {
                let mut recipe = planned.recipe.clone();
                match stages::make(&mut recipe, watch, stop)? {
                    Made::Ready => Run::start(recipe, watch)?,
                    Made::Stopped { .. } => return Ok(false),
                }
            }
            State::Begun | State::Finished => Run::resume(planned.dir(), &[], watch)?,
        };
        Ok(matches!(run.drive(watch, stop)?, Finish::Done(_)))
    })
    .map_err(|error| RunError::Refused(format!("no threads: {error}")))?
}
