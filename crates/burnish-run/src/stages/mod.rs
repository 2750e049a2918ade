//! Stages: another recipe makes the policy that a run starts from, its teacher, a model for surgery, the rows that it
//! learns from, the tasks that it plays, the configuration that it plays in, the strategy of its evaluations or the notes
//! that its programs read, once. The result is stored under the hash of everything that decides it.
//!
//! ```text
//! policy.from, teacher.from, weights.models[0].from, data.from, env.tasks.from, env.config_from, eval.strategy.from,
//! memory.from
//!     -> resolve: the stage's recipe, those of the stages before it ..., and their hashes (hash.rs)
//!     -> make:    each of them is an ordinary run in `run.cache`: finished, resumed, waited for or started
//!     -> repeated: those of `[rounds]` (repeated.rs), each with what the others made last
//!     -> surgery: what `[weights]` makes of them (surgery.rs), by what their maps read (calibration.rs)
//!     -> keep:    the later run keeps a copy of the weights (keep.rs), so that the cache may be deleted
//! ```

mod calibration;
mod hash;
mod held_out;
mod keep;
mod repeated;
mod replicate;
mod surgery;

use std::path::{Path, PathBuf};
use std::time::Duration;

use burnish_model::ModelShape;
use burnish_train::checkpoint::{self, Extent, Newest};

use crate::RunError;
use crate::artefact;
use crate::model_path::locate;
use crate::train::{Finish, Run};
use crate::watch::{Event, Stop, Watch};
use burnish_recipe::{MakeKind, Method, Recipe, Source, StageRecipe, StageUse};
use burnish_rundir::run_dir::{self, RunDirError};
use repeated::Repeated;

pub(crate) use hash::of as hash_of;
pub(crate) use keep::{as_written, configure, keep, place, place_for_evaluation};
pub use replicate::{files, replicate};

/// Time between checks of a stage that another process makes.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The run that makes something for another, with the runs before it.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    /// The use of its result.
    of: StageUse,
    /// The recipe file.
    file: PathBuf,
    /// Its recipe. `run.dir` is its place in the cache, and the hashes of the stages before it are known.
    recipe: Recipe,
    hash: String,
    before: Before,
}

/// The stages that a recipe needs.
#[derive(Debug, Clone, Default)]
struct Before {
    /// Those that it names by a `from`.
    stages: Vec<Stage>,
    /// Those of `[rounds]`.
    repeated: Option<Box<Repeated>>,
}

/// The result of making a run's starting policy and its teacher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    /// `policy.path` and `teacher.path` are set, unless no recipe makes them.
    Ready,
    /// It was stopped on request; what was done is saved in `dir`.
    Stopped {
        /// The run directory of the stage.
        dir: PathBuf,
    },
}

/// Finds the stages that make something for `recipe`, if there are any, and writes their hashes into it.
/// Makes nothing.
///
/// # Errors
/// If a recipe is wrong, a file that it reads does not exist, recipes start from each other in a circle, or a
/// `from.hash` names another policy.
pub fn resolve(recipe: &mut Recipe) -> Result<(), RunError> {
    before(recipe, &mut Vec::new()).map(drop)
}

/// Makes everything that other recipes make for `recipe`, including all stages before that, and sets `policy.path`
/// and `teacher.path`. Finished stages are used, interrupted ones are resumed, and stages that another process makes
/// are waited for.
///
/// # Errors
/// As [`resolve`]; if a stage fails, or the content of its place can't be used; if a stage is trained on tasks that
/// `recipe` holds out.
pub fn make(recipe: &mut Recipe, watch: &mut dyn Watch, stop: &Stop) -> Result<Made, RunError> {
    let before = before(recipe, &mut Vec::new())?;
    make_all(&before, recipe, watch, stop)
}

fn make_all(
    before: &Before,
    recipe: &mut Recipe,
    watch: &mut dyn Watch,
    stop: &Stop,
) -> Result<Made, RunError> {
    for stage in &before.stages {
        let made = stage.make_for(recipe, watch, stop)?;
        if made != Made::Ready {
            return Ok(made);
        }
    }
    if let Some(repeated) = &before.repeated {
        let made = repeated.make(recipe, watch, stop)?;
        if made != Made::Ready {
            return Ok(made);
        }
    }
    surgery::make(recipe, watch, stop)
}

/// The path of the policy of `policy.from` or `[weights]`; `None` if neither makes it. `command` is the command that would make
/// it.
///
/// # Errors
/// As [`resolve`], and if it is not made yet.
pub fn made(recipe: &mut Recipe, command: &str) -> Result<Option<PathBuf>, RunError> {
    let Before { stages, repeated } = before(recipe, &mut Vec::new())?;
    if recipe.weights.is_some() {
        return surgery::made(recipe, command);
    }
    if let Some(repeated) = repeated.filter(|repeated| repeated.gives(StageUse::Policy)) {
        let missing = || {
            RunError::Refused(format!(
                "rounds: they are not made yet; `{command}` makes them, and trains from them"
            ))
        };
        return repeated.result(StageUse::Policy)?.ok_or_else(missing).map(Some);
    }
    let Some(stage) = stages.iter().find(|stage| stage.of == StageUse::Policy) else { return Ok(None) };
    let missing = || {
        let (file, dir) = (stage.file.display(), stage.dir().display());
        RunError::Refused(format!(
            "policy.from: what {file} makes is not there yet (`{dir}`); `{command}` makes it, and trains from it"
        ))
    };
    stage.result()?.ok_or_else(missing).map(Some)
}

/// The file that another recipe makes for this one: a strategy, notes.
///
/// # Errors
/// As [`resolve`], and if it is not made yet.
pub(crate) fn file_of(recipe: &Recipe, of: StageUse) -> Result<PathBuf, RunError> {
    let mut recipe = recipe.clone();
    let Before { stages, repeated } = before(&mut recipe, &mut Vec::new())?;
    let result = match repeated.filter(|repeated| repeated.gives(of)) {
        Some(repeated) => repeated.result(of)?,
        None => match stages.iter().find(|stage| stage.of == of) {
            Some(stage) => stage.result()?,
            None => None,
        },
    };
    let missing = || {
        let (key, what) = (of.key(), of.name());
        RunError::Refused(format!("{key}: {what} is not made yet; `burnish train` with this recipe makes it"))
    };
    result.ok_or_else(missing)
}

/// What a model that a recipe names is like before it exists.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// A directory with its configuration.
    Dir(PathBuf),
    /// A model that is made from scratch.
    New(ModelShape),
}

/// Where the configuration of the model that `recipe` uses for `of` is: in its directory, or if a stage that was not made
/// yet makes it, where that stage's is. Makes nothing.
///
/// # Errors
/// As [`resolve`], and if the recipe names no model there.
pub(crate) fn origin(of: StageUse, recipe: &Recipe) -> Result<Origin, RunError> {
    let mut recipe = recipe.clone();
    if let Some(Some(path)) = of.path_mut(&mut recipe) {
        return Ok(Origin::Dir(locate(path)?.dir));
    }
    if of == StageUse::Policy {
        if let Some(shape) = recipe.policy.new {
            return Ok(Origin::New(shape));
        }
        let first = recipe.weights.iter().flat_map(|weights| weights.ingredients()).next();
        if let Some((place, ingredient)) = first {
            return match &ingredient.path {
                Some(path) => Ok(Origin::Dir(locate(path)?.dir)),
                None => origin(StageUse::Weights(place), &recipe),
            };
        }
    }
    let Before { stages, repeated } = before(&mut recipe, &mut Vec::new())?;
    if let Some(repeated) = repeated.filter(|repeated| repeated.gives(of)) {
        return match repeated.result(of)? {
            Some(dir) => Ok(Origin::Dir(dir)),
            None => repeated.origin(of),
        };
    }
    let Some(stage) = stages.iter().find(|stage| stage.of == of) else {
        return Err(RunError::Refused(format!("{}: the recipe names no model there", of.key())));
    };
    match stage.result()? {
        Some(dir) => Ok(Origin::Dir(dir)),
        None => within(&stage.file, origin(StageUse::Policy, &stage.recipe)),
    }
}

/// The stages that `recipe` needs; writes their hashes into it. `above` lists the stages that are being resolved, as
/// they are written.
fn before(recipe: &mut Recipe, above: &mut Vec<StageRecipe>) -> Result<Before, RunError> {
    let repeated = Repeated::of(recipe, above)?;
    let mut stages = Vec::new();
    for of in StageUse::of(recipe) {
        if repeated.as_ref().is_some_and(|repeated| repeated.gives(of)) {
            continue;
        }
        let Some(from) = of.made_by(recipe).cloned() else { continue };
        let stage = one(of, recipe, &from, above)?;
        if let Some(from) = of.made_by_mut(recipe) {
            from.hash = Some(stage.hash.clone());
        }
        stages.push(stage);
    }
    Ok(Before { stages, repeated: repeated.map(Box::new) })
}

fn one(
    of: StageUse,
    recipe: &Recipe,
    from: &StageRecipe,
    above: &mut Vec<StageRecipe>,
) -> Result<Stage, RunError> {
    let key = of.key();
    let written = StageRecipe { hash: None, ..from.clone() };
    let stage = below(written, &key, above, |above| read(of, recipe, from, above))?;
    match &from.hash {
        Some(hash) if *hash != stage.hash => Err(RunError::Refused(format!(
            "{key}: {} makes {} now, and not {hash}, as `{key}.hash` says: the recipe or what it reads has \
             changed; undo that, or take the hash out",
            from.recipe.display(),
            stage.hash
        ))),
        _ => Ok(stage),
    }
}

/// Resolves a stage that a recipe names by `key`, below those of `above`.
fn below<T>(
    written: StageRecipe,
    key: &str,
    above: &mut Vec<StageRecipe>,
    resolve: impl FnOnce(&mut Vec<StageRecipe>) -> Result<T, RunError>,
) -> Result<T, RunError> {
    if let Some(first) = above.iter().position(|stage| *stage == written) {
        let files = above[first..].iter().chain([&written]).map(|stage| stage.recipe.display().to_string());
        return Err(RunError::Refused(format!(
            "{key}: recipes start from each other in a circle: {}",
            files.collect::<Vec<_>>().join(" <- ")
        )));
    }
    let file = written.recipe.clone();
    above.push(written);
    let resolved = within(&file, resolve(above))?;
    above.pop();
    Ok(resolved)
}

fn read(
    of: StageUse,
    parent: &Recipe,
    from: &StageRecipe,
    above: &mut Vec<StageRecipe>,
) -> Result<Stage, RunError> {
    let mut recipe = Recipe::read(&from.recipe, &from.set)?;
    recipe.run.cache.clone_from(&parent.run.cache);
    recipe.run.threads = parent.run.threads;
    check_make(of, parent, &recipe)?;
    let before = before(&mut recipe, above)?;
    let hash = hash::of(&recipe)?;
    let name = from.recipe.file_stem().unwrap_or_default().to_string_lossy();
    recipe.run.dir = recipe.run.cache.join(format!("{name}-{hash}"));
    Ok(Stage { of, file: from.recipe.clone(), recipe, hash, before })
}

/// Refuses a recipe that does not make what another one names it for.
fn check_make(of: StageUse, parent: &Recipe, recipe: &Recipe) -> Result<(), RunError> {
    let wanted = match (of, parent.train.method) {
        (StageUse::Rows, Method::Preference | Method::Reward) => MakeKind::Pairs,
        (StageUse::Rows, _) => MakeKind::Rows,
        (StageUse::Tasks, _) => MakeKind::Tasks,
        (StageUse::Strategy, _) => MakeKind::Strategy,
        (StageUse::Memory, _) => MakeKind::Memory,
        (StageUse::Config, _) => MakeKind::Config,
        (StageUse::Policy | StageUse::Teacher | StageUse::Weights(_), _) => return Ok(()),
    };
    let made = recipe.make.as_ref().map(|make| make.kind);
    if made == Some(wanted) {
        return Ok(());
    }
    let name = |kind: MakeKind| serde_json::to_value(kind).unwrap_or_default();
    Err(RunError::Refused(format!(
        "make: {}; `{}` needs a recipe with `make.kind = {}`",
        made.map_or("the recipe makes nothing of its episodes".to_owned(), |kind| format!(
            "its kind is {}",
            name(kind)
        )),
        of.key(),
        name(wanted)
    )))
}

fn within<T>(file: &Path, result: Result<T, RunError>) -> Result<T, RunError> {
    result.map_err(|source| match source {
        // The innermost stage is the one that matters.
        RunError::Stage { .. } => source,
        source => RunError::Stage { recipe: file.display().to_string(), source: Box::new(source) },
    })
}

impl Stage {
    /// Its run directory.
    fn dir(&self) -> &Path {
        &self.recipe.run.dir
    }

    /// The path of its result, if its run is finished: its last checkpoint, or a file.
    ///
    /// # Errors
    /// If its place holds something unexpected.
    fn result(&self) -> Result<Option<PathBuf>, RunError> {
        within(&self.file, self.finished())
    }

    fn make_for(&self, recipe: &mut Recipe, watch: &mut dyn Watch, stop: &Stop) -> Result<Made, RunError> {
        held_out::refuse(recipe, self)?;
        let place = format!("{} ({})", self.dir().display(), self.file.display());
        if self.result()?.is_none() {
            watch.event(Event::Note(format!("stage {place}: making {}", self.of.name())));
            if let Some(stopped) = within(&self.file, self.run(watch, stop))? {
                return Ok(stopped);
            }
        }
        let result = self.result()?;
        if result.is_some() {
            watch.event(Event::Note(format!("stage {place}: there")));
        }
        if let Some(path) = self.of.path_mut(recipe) {
            *path = result;
        }
        Ok(Made::Ready)
    }

    /// Runs it to its end, in this process or another; returns `None` when it is finished.
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
            let run = Run::resume(self.dir(), &[], watch);
            if run.is_ok() {
                self.check(&self.written()?)?;
            }
            run
        } else {
            let mut recipe = self.recipe.clone();
            if let stopped @ Made::Stopped { .. } = make_all(&self.before, &mut recipe, watch, stop)? {
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
        // This check comes first because it is repeated often while waiting for another process.
        if !run_dir::is_finished(dir) {
            return Ok(None);
        }
        let there = self.written()?;
        self.check(&there)?;
        let is_file = !matches!(self.of, StageUse::Policy | StageUse::Teacher | StageUse::Weights(_));
        if is_file {
            let file = there.make.as_ref().map(|make| dir.join(artefact::file_name(make.kind)));
            let is_there = |file: &PathBuf| file.is_file();
            let grows = there.make.as_ref().is_some_and(|make| make.every.is_some());
            let missing = || match grows {
                true => RunError::Refused(format!(
                    "make.program: its function made nothing while the run in `{}` went on: change `make.config`",
                    dir.display()
                )),
                false => self.broken("its run is finished, but what it made is not there".into()),
            };
            return file.filter(is_there).ok_or_else(missing).map(Some);
        }
        let best = dir.join(run_dir::BEST);
        if there.checkpoint.best.is_some() && best.is_dir() {
            let newest =
                checkpoint::latest(&best, Extent::Model).map_err(|error| self.broken(error.to_string()))?;
            let missing = || self.broken("its run is finished, but its best checkpoint is not there".into());
            return Ok(Some(newest.ok_or_else(missing)?.checkpoint.path().to_owned()));
        }
        let is_last = |step| step == there.train.max_steps || there.train.patience.is_some();
        let checkpoints = dir.join(run_dir::CHECKPOINTS);
        let newest = checkpoint::latest(&checkpoints, Extent::Model);
        match newest.map_err(|error| self.broken(error.to_string()))? {
            Some(newest) if is_last(newest.checkpoint.step()) => {
                Ok(Some(newest.checkpoint.path().to_owned()))
            }
            Some(Newest { passed_over, .. }) if !passed_over.is_empty() => {
                Err(self.broken(passed_over[0].to_string()))
            }
            _ => Err(self.broken("its run is finished, but its last checkpoint is not there".into())),
        }
    }

    /// The recipe of the run in its place, as written there.
    fn written(&self) -> Result<Recipe, RunError> {
        let source = Source::read_of_run(&self.dir().join(run_dir::RECIPE), &[]);
        source.and_then(|source| Recipe::resolve(&source)).map_err(|error| self.broken(error.to_string()))
    }

    /// Checks that the run in its place is a run of its recipe.
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

impl Before {
    /// All of them, those of rounds included.
    fn all(&self) -> impl Iterator<Item = Stage> {
        let repeated = self.repeated.iter().flat_map(|repeated| repeated.all());
        self.stages.iter().cloned().chain(repeated)
    }
}

enum Begun {
    /// It runs in this process.
    Here(Box<Run>),
    /// It was stopped before it began.
    Stopped(Made),
    /// Another process runs it.
    Elsewhere(Option<u32>),
}
