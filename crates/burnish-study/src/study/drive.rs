//! Making the runs of a study.

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

/// What came of making runs.
#[derive(Debug, Default)]
pub struct Ran {
    /// Runs that are finished now, of those that were to be made.
    pub finished: usize,
    /// Was it asked to stop before all were?
    pub is_stopped: bool,
    /// Runs that could not go on, in the order in which that happened. The others went on.
    pub failed: Vec<Failed>,
    /// Why no further run was begun: the first that was finished lacks numbers that the study names.
    pub refused: Option<RunError>,
}

/// A run that could not go on.
#[derive(Debug)]
pub struct Failed {
    /// Name of its arm.
    pub arm: String,
    /// Its seed.
    pub seed: u64,
    /// Why.
    pub error: RunError,
}

/// Makes the policies that `runs` start from and that are not there yet, each once, with all cores. Is all made? If not, it
/// was asked to stop.
///
/// # Errors
/// If one can't be made.
pub fn make_stages(runs: &[ArmRun], watch: &mut dyn Watch, stop: &Stop) -> Result<bool, RunError> {
    let mut seen = BTreeSet::new();
    for run in runs.iter().filter(|run| run.state == State::New) {
        let hashes = StageUse::ALL.into_iter().filter_map(|of| of.made_by(&run.recipe)?.hash.as_ref());
        let known = seen.len();
        seen.extend(hashes);
        if seen.len() > known && stages::make(&mut run.recipe.clone(), watch, stop)? != Made::Ready {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes those of `runs` that are not finished, in their order, `jobs` at once, each with an equal share of the
/// cores. `watch_of` is asked for a watcher when a run begins; one run's failure does not end the others. The first run that
/// is finished must have the further numbers that `metrics` names, or none goes on.
///
/// When `stop` is asked for, every run that is under way finishes its step and saves, and no other begins.
pub fn run(
    runs: &[ArmRun],
    jobs: usize,
    metrics: &[String],
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

/// Is it finished now?
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
