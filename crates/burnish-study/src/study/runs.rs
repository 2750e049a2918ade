//! The runs of a study, where they are stored, and the state of each.

use std::path::Path;

use super::{Arm, Study};
use burnish_recipe::{Recipe, Source, differences, timeless};
use burnish_run::RunError;
use burnish_rundir::run_dir;

/// One run of a study.
#[derive(Debug, Clone)]
pub struct ArmRun {
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
    fn of(study: &Study, at: usize, arm: &Arm, seed: u64) -> Self {
        let mut recipe = arm.recipe.clone();
        recipe.run.seed = seed;
        recipe.run.dir = study.dir.join(&arm.name).join(format!("seed-{seed}"));
        let state = state_of(&recipe.run.dir);
        ArmRun { arm: at, name: arm.name.clone(), seed, recipe, state }
    }

    /// The run directory.
    pub fn dir(&self) -> &Path {
        &self.recipe.run.dir
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
    /// All runs in the order in which they are made: for each seed, every arm, so that an interrupted study has whole
    /// seeds to compare.
    ///
    /// # Errors
    /// If run directories hold runs of other recipes: names all of them.
    pub fn runs(&self) -> Result<Vec<ArmRun>, RunError> {
        let seeds_max = self.arms.iter().map(|arm| arm.seeds.len()).max().unwrap_or(0);
        let runs: Vec<ArmRun> = (0..seeds_max)
            .flat_map(|at| self.arms.iter().enumerate().map(move |arm| (at, arm)))
            .filter_map(|(at, (index, arm))| Some(ArmRun::of(self, index, arm, *arm.seeds.get(at)?)))
            .collect();
        let mut problems = Vec::new();
        for run in &runs {
            problems.extend(run.mismatch()?);
        }
        if problems.is_empty() { Ok(runs) } else { Err(RunError::Refused(problems.join("\n"))) }
    }
}
