//! How a run begins, and how it is resumed.

use std::path::Path;

use burnish_train::checkpoint::{self, Checkpoint, Checkpoints, Extent, Newest};

use super::{Parts, Run};
use crate::RunError;
use crate::model_path;
use crate::stages;
use crate::start;
use crate::stored;
use crate::watch::{Event, Unwatched, Watch};
use burnish_recipe::{Recipe, StageUse};
use burnish_rundir::journal::Journal;
use burnish_rundir::metrics;
use burnish_rundir::run_dir::{RunDir, Taken};

impl Run {
    /// Starts a new run. Creates its directory only after everything that it needs was loaded. What other recipes
    /// make must exist: call [`stages::make`] first.
    ///
    /// # Errors
    /// If the policy, the data or the environment can't be used, or the directory is taken.
    pub fn start(recipe: Recipe, watch: &mut dyn Watch) -> Result<Self, RunError> {
        Run::start_in(recipe, Taken::Refused, watch)
    }

    /// As [`Run::start`]; `taken` says what happens to a run that is already in the directory.
    ///
    /// # Errors
    /// As [`Run::start`], and if the recipe uses what is to be removed.
    pub fn start_in(mut recipe: Recipe, taken: Taken, watch: &mut dyn Watch) -> Result<Self, RunError> {
        RunDir::refuse_taken(&recipe.run.dir, taken)?;
        stored::refuse_inside(&recipe)?;
        stages::configure(&mut recipe)?;
        model_path::pin(&mut recipe, watch)?;
        start::check_policy(&recipe)?;
        burnish_tensor::set_threads(recipe.run.threads);
        let (parts, dir) = if !StageUse::kept(&recipe).is_empty() {
            if taken == Taken::Removed && recipe.run.dir.exists() {
                // Nothing is removed for a run that can't begin.
                Parts::make(&recipe, None, &mut Unwatched)?;
            }
            // The run loads its starting policy from its own copy, because an adapter remembers the path of its base.
            let dir = RunDir::create(&recipe.run.dir, taken)?;
            stages::keep(&mut recipe, &dir)?;
            (Parts::make(&recipe, None, watch)?, dir)
        } else {
            let parts = Parts::make(&recipe, None, watch)?;
            (parts, RunDir::create(&recipe.run.dir, taken)?)
        };
        parts.settle_steps(&mut recipe);
        let text = stages::as_written(&recipe).to_toml()?;
        stored::begin(&recipe, &text, &dir)?;
        // Once the recipe is written, this is a run: from here on it can be resumed, wherever it is killed.
        burnish_rundir::files::write_atomic(&dir.recipe(), text.as_bytes())?;
        let journal = Journal::create(&dir.journal())?;
        recipe.warnings().into_iter().for_each(|warning| watch.event(Event::Note(warning)));
        Run::assemble(recipe, parts, dir, journal)
    }

    /// Continues the run in `path` from its last checkpoint, to the same weights and metrics as if it had never
    /// stopped. Without a checkpoint it begins again. `changes` (`key.sub=value`) are overrides of keys that may
    /// change in a run that has begun: more steps, how often it saves, where files are.
    ///
    /// # Errors
    /// If there is no run, another process works on it, its files can't be used, or what decides it was changed.
    pub fn resume(path: &Path, changes: &[String], watch: &mut dyn Watch) -> Result<Self, RunError> {
        let dir = RunDir::open(path)?;
        // Opening repairs a save that was killed half-way.
        Checkpoints::open(dir.checkpoints(), 0)?;
        let newest = checkpoint::latest(&dir.checkpoints(), Extent::Whole)?;
        let mut note = |note: String| watch.event(Event::Note(note));
        newest.iter().flat_map(Newest::notes).for_each(&mut note);
        let checkpoint = newest.map(|newest| newest.checkpoint);
        let resumed = stored::resume(&dir, changes, checkpoint.as_ref().map(Checkpoint::step))?;
        resumed.found.notes.iter().cloned().for_each(&mut note);
        let mut recipe = resumed.found.recipe.clone();
        stages::place(&mut recipe, &dir);
        burnish_tensor::set_threads(recipe.run.threads);
        let step = checkpoint.as_ref().map_or(0, Checkpoint::step);
        watch.event(Event::Note(format!("resuming {} after step {step}", path.display())));
        let parts = Parts::make(&recipe, checkpoint, watch)?;
        // The directory is changed only now that everything could be loaded.
        let has_lost_metrics = parts.step > 0 && metrics::read(&dir.metrics())?.is_empty();
        let (mut journal, set_aside) = Journal::recover(&dir.journal())?;
        let is_empty = set_aside.is_none() && parts.step > 0 && journal.is_empty()?;
        let emptied = is_empty.then(|| lost(&dir.journal()));
        set_aside.into_iter().chain(emptied).for_each(|told| watch.event(Event::Note(told)));
        if has_lost_metrics {
            watch.event(Event::Note(lost(&dir.metrics())));
        }
        resumed.keep(&dir)?;
        dir.reopen(step < recipe.train.max_steps)?;
        if parts.step > 0 {
            journal.truncate_after(step)?;
            metrics::truncate_after(&dir, step)?;
        } else {
            // Without a checkpoint, the evaluation before training is repeated too.
            journal.clear()?;
            metrics::clear(&dir)?;
        }
        Run::assemble(recipe, parts, dir, journal)
    }
}

/// What to tell a person if a file has lost the records of earlier steps.
fn lost(file: &Path) -> String {
    format!(
        "`{}` is gone or empty: what it held of the steps before is lost, and a new one begins here",
        file.display()
    )
}
