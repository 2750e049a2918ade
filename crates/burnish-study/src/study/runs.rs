//! The runs of a study, where they are stored, and the state of each.

use std::path::{Path, PathBuf};

use super::{Arm, Study};
use burnish_recipe::{Recipe, Source, differences, timeless};
use burnish_run::{RunError, stages};
use burnish_rundir::run_dir;

/// What a run is for. Each phase is finished before the next begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// To measure the gauges of the disease, with settings as they are written.
    Disease,
    /// To choose a point of the grid: this one is tried.
    Tuning(usize),
    /// For the results: with this point of the grid, if there is one.
    Reported(Option<usize>),
}

impl Phase {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Disease => "disease",
            Phase::Tuning(_) => "tuning",
            Phase::Reported(_) => "results",
        }
    }

    /// The folder of an arm's runs within that of the study.
    fn folder(self, arm: &str) -> PathBuf {
        match self {
            Phase::Disease => Path::new("disease").join(arm),
            Phase::Tuning(point) => Path::new("tuning").join(arm).join(format!("point-{}", point + 1)),
            Phase::Reported(_) => arm.into(),
        }
    }
}

/// One run of a study.
#[derive(Debug, Clone)]
pub struct ArmRun {
    /// What it is for.
    pub phase: Phase,
    /// Index of its arm.
    pub arm: usize,
    /// Name of its arm.
    pub name: String,
    /// Its seed.
    pub seed: u64,
    /// Its recipe; `run.dir` is where it is stored.
    pub recipe: Recipe,
    /// Its state.
    pub state: State,
}

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has not begun.
    New,
    /// It was started but not finished, or another process is working on it.
    Begun,
    /// All its steps are done, and its last report is written.
    Finished,
}

impl ArmRun {
    fn of(study: &Study, phase: Phase, at: usize, seed: u64) -> Result<Self, RunError> {
        let arm = &study.arms[at];
        let mut recipe = match phase {
            Phase::Tuning(point) | Phase::Reported(Some(point)) => arm.tuned[point].clone(),
            Phase::Disease | Phase::Reported(None) => arm.recipe.clone(),
        };
        stages::replicate(&mut recipe, seed)?;
        stages::resolve(&mut recipe)?;
        recipe.run.dir = study.dir_of(phase, arm, seed);
        let state = state_of(&recipe.run.dir);
        Ok(ArmRun { phase, arm: at, name: arm.name.clone(), seed, recipe, state })
    }

    /// The run directory.
    pub fn dir(&self) -> &Path {
        &self.recipe.run.dir
    }

    /// Whether all its steps are done.
    pub fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// Why the run stored there is not this one; `None` if it is.
    fn mismatch(&self) -> Result<Option<String>, RunError> {
        if self.state == State::New {
            return Ok(None);
        }
        let there = Recipe::resolve(&Source::read_of_run(&self.dir().join(run_dir::RECIPE), &[])?)?;
        let differences = differences(&timeless(&there), &timeless(&self.recipe));
        if differences.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!(
            "`{}` was made with another recipe than the study has now ({}): move it away to run it anew, or give the \
             study another `dir`",
            self.dir().display(),
            differences.join(", ")
        )))
    }
}

fn state_of(dir: &Path) -> State {
    if !dir.join(run_dir::RECIPE).is_file() {
        return State::New;
    }
    if run_dir::is_finished(dir) { State::Finished } else { State::Begun }
}

impl Study {
    /// Where a run is stored.
    pub fn dir_of(&self, phase: Phase, arm: &Arm, seed: u64) -> PathBuf {
        self.dir.join(phase.folder(&arm.name)).join(format!("seed-{seed}"))
    }

    /// The state of a run that is stored there.
    pub fn state_of(&self, phase: Phase, arm: &Arm, seed: u64) -> State {
        state_of(&self.dir_of(phase, arm, seed))
    }

    /// The runs that measure the disease: for each seed, every arm that a gauge names.
    ///
    /// # Errors
    /// If a stage can't be resolved, or run directories hold runs of other recipes: names all of them.
    pub(super) fn disease_runs(&self) -> Result<Vec<ArmRun>, RunError> {
        let Some(test) = &self.test else { return Ok(Vec::new()) };
        let is_measured = |arm: &&(usize, &Arm)| {
            test.disease.gauges.iter().flat_map(|gauge| gauge.arms()).any(|name| name == arm.1.name)
        };
        let arms: Vec<usize> =
            self.arms.iter().enumerate().filter(|arm| is_measured(&arm)).map(|(at, _)| at).collect();
        let of_seed =
            |seed: &u64| -> Vec<_> { arms.iter().map(|arm| (Phase::Disease, *arm, *seed)).collect() };
        self.all(test.disease.seeds.iter().flat_map(of_seed))
    }

    /// The runs of the grid: for each seed, every point of every arm.
    ///
    /// # Errors
    /// As [`Self::disease_runs`].
    pub(super) fn tuning_runs(&self) -> Result<Vec<ArmRun>, RunError> {
        let Some(test) = &self.test else { return Ok(Vec::new()) };
        let points = test.tuning.points().len();
        let of_seed = |seed: &u64| -> Vec<_> {
            let of_arm = |arm: usize| (0..points).map(move |point| (Phase::Tuning(point), arm));
            (0..self.arms.len()).flat_map(of_arm).map(|(phase, arm)| (phase, arm, *seed)).collect()
        };
        self.all(test.tuning.seeds().iter().flat_map(of_seed))
    }

    /// The reported runs: for each seed, every arm, so that an interrupted study has whole seeds to compare. `points`
    /// has each arm's point of the grid; it is empty without a grid.
    ///
    /// # Errors
    /// As [`Self::disease_runs`].
    pub(super) fn reported_runs(&self, points: &[usize]) -> Result<Vec<ArmRun>, RunError> {
        self.all((0..self.seeds.len()).flat_map(|at| {
            let arms = self.arms.iter().enumerate();
            arms.filter_map(move |(index, arm)| {
                Some((Phase::Reported(points.get(index).copied()), index, *arm.seeds.get(at)?))
            })
        }))
    }

    fn all(&self, planned: impl Iterator<Item = (Phase, usize, u64)>) -> Result<Vec<ArmRun>, RunError> {
        let runs = planned
            .map(|(phase, arm, seed)| ArmRun::of(self, phase, arm, seed))
            .collect::<Result<Vec<_>, _>>()?;
        let mut problems = Vec::new();
        for run in &runs {
            problems.extend(run.mismatch()?);
        }
        if problems.is_empty() { Ok(runs) } else { Err(RunError::Refused(problems.join("\n"))) }
    }
}
