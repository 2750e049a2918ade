//! Stages: the policy that a run starts from, made by another recipe, once, and kept by the hash of all that decides it.
//!
//! ```text
//! policy.from -> resolve: the stage's recipe, that of the stage before it ..., and their hashes (hash.rs)
//!             -> make:    each of them is an ordinary run in `run.cache`, used, gone on with, waited for or begun
//!             -> keep:    the run that starts from it keeps a copy of the weights (keep.rs), so that the cache may go
//! ```

mod hash;
mod held_out;
mod keep;

use std::path::{Path, PathBuf};
use std::time::Duration;

use burnish_train::checkpoint;

use crate::RunError;
use crate::recipe::{Recipe, Source, StageRecipe};
use crate::run_dir::{self, RunDirError};
use crate::train::{Finish, Run};
use crate::watch::{Event, Stop, Watch};

pub(crate) use keep::{as_written, keep};

/// Between looks at a stage that another process makes.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The run that makes a policy, with those before it.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The recipe file.
    file: PathBuf,
    /// Its recipe; `run.dir` is its place in the cache, `policy.from.hash` is known.
    recipe: Recipe,
    hash: String,
    /// The stage that it starts from.
    before: Option<Box<Stage>>,
}

/// What came of making the policy that a run starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// `policy.path` is where it lies, or it was made by no recipe.
    Ready,
    /// It was asked to stop; what was done is saved in `dir`.
    Stopped {
        /// The run directory of the stage.
        dir: PathBuf,
    },
}

/// Finds the stage of `policy.from`, where there is one, and writes its hash into `recipe`. Nothing is made.
///
/// # Errors
/// If a recipe is wrong, a file that it reads is not there, recipes start from each other in a circle, or
/// `policy.from.hash` names another policy.
pub fn resolve(recipe: &mut Recipe) -> Result<Option<Stage>, RunError> {
    let stage = of(recipe, &mut Vec::new())?;
    if let (Some(stage), Some(from)) = (&stage, &mut recipe.policy.from) {
        from.hash = Some(stage.hash.clone());
    }
    Ok(stage.map(|stage| *stage))
}

/// Makes the policy of `policy.from`, where there is one, with all the stages before it, and sets `policy.path` to it. What
/// is there is used, what was interrupted is gone on with, and what another process makes is waited for.
///
/// # Errors
/// As [`resolve`]; if a stage fails, or what lies in its place can't be used; if a stage is trained on tasks that `recipe`
/// holds out.
pub fn make(recipe: &mut Recipe, watch: &mut dyn Watch, stop: &Stop) -> Result<Made, RunError> {
    let Some(stage) = resolve(recipe)? else { return Ok(Made::Ready) };
    stage.make_for(recipe, watch, stop)
}

/// Where the policy of `policy.from` lies; `None` where no recipe makes it.
///
/// # Errors
/// As [`resolve`], and if it is not made yet.
pub fn made(recipe: &mut Recipe) -> Result<Option<PathBuf>, RunError> {
    let Some(stage) = resolve(recipe)? else { return Ok(None) };
    let missing = || {
        let (file, dir) = (stage.file.display(), stage.dir().display());
        RunError::Refused(format!(
            "policy.from: what {file} makes is not there yet (`{dir}`); `burnish train` makes it"
        ))
    };
    stage.checkpoint()?.ok_or_else(missing).map(Some)
}

/// The stage that `recipe` starts from. `above`: those that are being looked at, as they are written.
fn of(recipe: &Recipe, above: &mut Vec<StageRecipe>) -> Result<Option<Box<Stage>>, RunError> {
    let Some(from) = &recipe.policy.from else { return Ok(None) };
    let written = StageRecipe { hash: None, ..from.clone() };
    if let Some(first) = above.iter().position(|stage| *stage == written) {
        let files = above[first..].iter().chain([&written]).map(|stage| stage.recipe.display().to_string());
        return Err(RunError::Refused(format!(
            "policy.from: recipes start from each other in a circle: {}",
            files.collect::<Vec<_>>().join(" <- ")
        )));
    }
    above.push(written);
    let stage = within(&from.recipe, read(recipe, from, above))?;
    above.pop();
    match &from.hash {
        Some(hash) if *hash != stage.hash => Err(RunError::Refused(format!(
            "policy.from: {} makes the policy {} now, and not {hash}, as `policy.from.hash` says: the recipe or what it \
             reads has changed; undo that, or take the hash out",
            from.recipe.display(),
            stage.hash
        ))),
        _ => Ok(Some(Box::new(stage))),
    }
}

fn read(parent: &Recipe, from: &StageRecipe, above: &mut Vec<StageRecipe>) -> Result<Stage, RunError> {
    let mut recipe = Recipe::read(&from.recipe, &from.set)?;
    recipe.run.cache.clone_from(&parent.run.cache);
    recipe.run.threads = parent.run.threads;
    let before = of(&recipe, above)?;
    if let (Some(from), Some(before)) = (&mut recipe.policy.from, &before) {
        from.hash = Some(before.hash.clone());
    }
    let hash = hash::of(&recipe)?;
    let name = from.recipe.file_stem().unwrap_or_default().to_string_lossy();
    recipe.run.dir = recipe.run.cache.join(format!("{name}-{hash}"));
    Ok(Stage { file: from.recipe.clone(), recipe, hash, before })
}

fn within<T>(file: &Path, result: Result<T, RunError>) -> Result<T, RunError> {
    result.map_err(|source| match source {
        // The innermost stage is the one to look at.
        RunError::Stage { .. } => source,
        source => RunError::Stage { recipe: file.display().to_string(), source: Box::new(source) },
    })
}

impl Stage {
    /// Its run directory.
    pub fn dir(&self) -> &Path {
        &self.recipe.run.dir
    }

    /// Its hash: 16 hexadecimal digits.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Its last checkpoint, where its run is finished.
    ///
    /// # Errors
    /// If what lies in its place is not what it should be.
    pub fn checkpoint(&self) -> Result<Option<PathBuf>, RunError> {
        within(&self.file, self.finished())
    }

    fn make_for(&self, recipe: &mut Recipe, watch: &mut dyn Watch, stop: &Stop) -> Result<Made, RunError> {
        held_out::refuse(recipe, self)?;
        let place = format!("{} ({})", self.dir().display(), self.file.display());
        if self.checkpoint()?.is_none() {
            watch.event(Event::Note(format!("stage {place}: making the policy to start from")));
            if let Some(stopped) = within(&self.file, self.run(watch, stop))? {
                return Ok(stopped);
            }
        }
        let checkpoint = self.checkpoint()?;
        if checkpoint.is_some() {
            watch.event(Event::Note(format!("stage {place}: there")));
        }
        recipe.policy.path = checkpoint;
        Ok(Made::Ready)
    }

    /// Runs it to its end, in this process or another; `None` when it is finished.
    fn run(&self, watch: &mut dyn Watch, stop: &Stop) -> Result<Option<Made>, RunError> {
        let mut is_waiting = false;
        while self.finished()?.is_none() {
            if stop.is_asked() {
                return Ok(Some(Made::Stopped { dir: self.dir().to_owned() }));
            }
            let mut run = match self.begin(watch, stop)? {
                Begun::Here(run) => run,
                Begun::Stopped(made) => return Ok(Some(made)),
                Begun::Elsewhere(pid) => {
                    if !is_waiting {
                        let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                        let dir = self.dir().display();
                        watch.event(Event::Note(format!(
                            "stage {dir}: another burnish process{pid} makes it; waiting for that"
                        )));
                    }
                    is_waiting = true;
                    std::thread::sleep(LOOK_EVERY);
                    continue;
                }
            };
            if let Finish::Interrupted { .. } = run.drive(watch, stop)? {
                return Ok(Some(Made::Stopped { dir: self.dir().to_owned() }));
            }
        }
        Ok(None)
    }

    fn begin(&self, watch: &mut dyn Watch, stop: &Stop) -> Result<Begun, RunError> {
        let begun = if self.dir().join(run_dir::RECIPE).is_file() {
            let run = Run::resume(self.dir(), watch);
            if let Ok(run) = &run {
                self.check(run.recipe())?;
            }
            run
        } else {
            let mut recipe = self.recipe.clone();
            if let Some(before) = &self.before
                && let stopped @ Made::Stopped { .. } = before.make_for(&mut recipe, watch, stop)?
            {
                return Ok(Begun::Stopped(stopped));
            }
            Run::start(recipe, watch)
        };
        match begun {
            Ok(run) => Ok(Begun::Here(Box::new(run))),
            Err(RunError::Directory(RunDirError::Locked { pid, .. })) => Ok(Begun::Elsewhere(pid)),
            // Another process was faster.
            Err(RunError::Directory(RunDirError::Exists { .. })) => Ok(Begun::Elsewhere(None)),
            Err(error) => Err(error),
        }
    }

    fn finished(&self) -> Result<Option<PathBuf>, RunError> {
        let dir = self.dir();
        // What a run writes last. Looked at often where another process is waited for, so it comes first.
        if !run_dir::report_in(dir).is_file() {
            return Ok(None);
        }
        let there = Source::read(&dir.join(run_dir::RECIPE), &[]).and_then(|source| Recipe::resolve(&source));
        self.check(&there.map_err(|error| self.broken(error.to_string()))?)?;
        let checkpoints = dir.join(run_dir::CHECKPOINTS);
        match checkpoint::latest(&checkpoints).map_err(|error| self.broken(error.to_string()))? {
            Some(checkpoint) if checkpoint.step() == self.recipe.train.max_steps => {
                Ok(Some(checkpoint.path().to_owned()))
            }
            _ => Err(self.broken("its run is finished, but its last checkpoint is not there".into())),
        }
    }

    /// Is what lies in its place the run of its recipe?
    fn check(&self, there: &Recipe) -> Result<(), RunError> {
        let found = hash::of(there)?;
        if found == self.hash {
            return Ok(());
        }
        Err(self.broken(format!("its {} has the hash {found}", run_dir::RECIPE)))
    }

    fn broken(&self, problem: String) -> RunError {
        let dir = self.dir().display();
        RunError::Refused(format!("`{dir}` is broken: {problem}; remove the folder, and it is made again"))
    }
}

enum Begun {
    /// It runs in this process.
    Here(Box<Run>),
    /// It was asked to stop before it began.
    Stopped(Made),
    /// Another process has it.
    Elsewhere(Option<u32>),
}
