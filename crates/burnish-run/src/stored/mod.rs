//! What a run directory records about the start of its run, so that the run can be moved, shared and resumed
//! anywhere.
//!
//! ```text
//! recipe.toml   the recipe: paths as they were written, relative to the folder that run.json names
//! run.json      that folder, the recipe as the run uses it, the digests of all files that decide the run, and the
//!               changes since then (record.rs), and who has worked on it (session.rs)
//!
//! read      only the recipe: neither data nor models are read
//! evaluate  the files that evaluations need are looked up (locate.rs)
//! resume    changes of the recipe are accepted or refused (changes.rs), all files are looked up and compared
//!           (inputs.rs)
//! ```
//!
//! Runs of earlier versions have no run.json: their paths are relative to the current directory, and nothing is
//! compared until they have been resumed once.

mod changes;
mod inputs;
mod locate;
mod record;
mod session;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::RunError;
use crate::stages;
use burnish_recipe::{Recipe, Source, Use, paths};
use burnish_rundir::files::{FileError, write_atomic};
use burnish_rundir::metrics::aliases::Names;
use burnish_rundir::metrics::{self, Row};
use burnish_rundir::run_dir::{self, RECORD, RunDir, RunDirError};
use burnish_rundir::text::shell_path;

pub(crate) use record::Record;
#[cfg(test)]
pub(crate) use session::Machine;
pub use session::say_version;
pub(crate) use session::{Session, note_session, sessions};

use changes::Changed;
use inputs::Needs;
use locate::Located;

/// The key of the run directory, whose value follows from the directory itself.
const RUN_DIR: &str = "run.dir";

/// The recipe of the run in `dir`, for reading its records: the files that it names need not exist.
///
/// # Errors
/// If there is no run, or its recipe is invalid.
pub fn read(dir: &Path) -> Result<Recipe, RunError> {
    let mut recipe: Recipe = source(dir, &[])?.decode()?;
    stages::place_for_evaluation(&mut recipe, dir);
    Ok(recipe)
}

fn source(dir: &Path, overrides: &[String]) -> Result<Source, RunError> {
    let file = dir.join(run_dir::RECIPE);
    if !file.is_file() {
        return Err(RunDirError::Missing { path: dir.to_owned() }.into());
    }
    Ok(Source::read_of_run(&file, overrides)?)
}

/// The metrics of the run in `dir`, which may be in progress, under `names`.
///
/// # Errors
/// If there is no run, or its files can't be read.
pub fn metrics(dir: &Path, names: Names) -> Result<Vec<Row>, RunError> {
    // Only the recipe is needed: the files that it names need not exist.
    let aliases = read(dir)?.aliases(names);
    let rows = metrics::read(&run_dir::metrics_in(dir))?;
    Ok(rows.into_iter().map(|row| Row { values: aliases.rename(&row), ..row }).collect())
}

/// A recipe with its paths as they are now, and what to tell a person.
pub(crate) struct Found {
    pub(crate) recipe: Recipe,
    pub(crate) notes: Vec<String>,
}

/// The recipe of the run in `dir`, with `overrides`, for evaluating its policy. Looks up the files of its
/// evaluations.
///
/// # Errors
/// If there is no run, its recipe is wrong, or a file is missing or has changed.
pub(crate) fn evaluate(dir: &Path, overrides: &[String]) -> Result<Found, RunError> {
    let mut source = from_here(source(dir, overrides)?)?;
    let record = Record::read(dir)?;
    let command = format!("burnish eval {}", shell_path(dir));
    let needs = Needs::evaluation(&source.decode()?);
    let Located { found, mut notes, moved } =
        locate::all(&mut source, record.as_ref(), dir, &command, &needs)?;
    if let Some(record) = &record {
        for (input, _) in found.into_iter().filter(|(_, is_right)| !is_right) {
            match record.compare(&input)? {
                Some(problem) if source.is_overridden(&input.key) => {
                    notes.push(format!("{problem}: this evaluation is of other data than the run's"));
                }
                Some(problem) => return Err(changed(&problem, &command, &input.key)),
                None => {}
            }
        }
    }
    let mut recipe = Recipe::resolve_for(&source, Use::Evaluation)?;
    recipe.moved = moved;
    stages::place_for_evaluation(&mut recipe, dir);
    Ok(Found { recipe, notes })
}

fn changed(problem: &str, command: &str, key: &str) -> RunError {
    RunError::Refused(format!(
        "{problem}, which decides what the run does: put the file back as it was, or say where it is now: \
         {command} {}=PATH",
        base_key(key)
    ))
}

/// The key that an override changes; for a list item, the key of the list.
fn base_key(key: &str) -> String {
    let list = key.strip_suffix(']').and_then(|key| key.rsplit_once('[')).map_or(key, |(list, _)| list);
    list.replace('[', ".").replace(']', "")
}

/// Makes paths in overrides absolute: they are relative to where they were typed, not to where the run began.
fn from_here(mut source: Source) -> Result<Source, RunError> {
    paths::expand_all(&mut source)?;
    let mut values = source.values().clone();
    paths::each(&mut values, &mut |place| {
        if source.is_overridden(&place.key) && !place.value.is_empty() && place.key != RUN_DIR {
            *place.value = absolute(Path::new(&*place.value)).to_string_lossy().into_owned();
        }
        Ok::<(), RunError>(())
    })?;
    source.replace(values);
    Ok(source)
}

/// An equivalent absolute path, without looking at the disk.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Records in the directory `dir` how the run of `recipe` begins; `text` is the content of its recipe file.
///
/// # Errors
/// If a file that decides the run can't be read, or the record can't be written.
pub(crate) fn begin(recipe: &Recipe, text: &str, dir: &RunDir) -> Result<(), RunError> {
    let mut values = serde_json::to_value(stages::as_written(recipe)).unwrap_or(Value::Null);
    let inputs = inputs::of(&mut values, dir.path(), &Needs::everything())?;
    Record::new(text, dir.path(), inputs).write(dir.path())
}

/// Refuses a recipe that reads files in its own run directory, which would be removed before they are read.
///
/// # Errors
/// Names the key.
pub(crate) fn refuse_inside(recipe: &Recipe) -> Result<(), RunError> {
    let dir = absolute(&recipe.run.dir);
    let mut values = serde_json::to_value(stages::as_written(recipe)).unwrap_or(Value::Null);
    paths::each(&mut values, &mut |place| match inputs::at(&place) {
        Some(input) if absolute(&input.path).starts_with(&dir) => Err(RunError::Refused(format!(
            "`{}`: `{}` lies in the run directory `{}`, which a new run takes for itself: choose another `run.dir`",
            input.key,
            input.path.display(),
            recipe.run.dir.display()
        ))),
        _ => Ok(()),
    })
}

/// A resumed run.
pub(crate) struct Resumed {
    pub(crate) found: Found,
    /// Changes to write once everything that the run needs has been loaded.
    change: Option<Pending>,
}

/// A record, and the text of the recipe if overrides changed it.
struct Pending {
    record: Record,
    text: Option<String>,
}

/// The recipe of the run in `dir`, with `overrides`, for continuing its training after `step` steps; `None` if none
/// were saved. Everything that decides the run is looked up and compared with what it began with.
///
/// # Errors
/// If the recipe was changed where it must not be, or a file is missing or has changed.
pub(crate) fn resume(dir: &RunDir, overrides: &[String], step: Option<u64>) -> Result<Resumed, RunError> {
    let path = dir.path();
    let mut source = from_here(source(path, overrides)?)?;
    if source.is_overridden(RUN_DIR) {
        let problem = "can't be given to a run that is there: move or rename its directory instead";
        return Err(source.error(RUN_DIR, problem.into()).into());
    }
    let command = format!("burnish train --resume {}", shell_path(path));
    let written: Recipe = source.decode()?;
    let record = Record::read(path)?;
    let Changed { notes, list } = match &record {
        Some(record) => changes::between(record, &written, &source, path, step)?,
        None => changes::without_record(path, overrides, &written, step)?,
    };
    let needs = Needs::training(&written, step.is_some())?;
    let mut located = locate::all(&mut source, record.as_ref(), path, &command, &needs)?;
    let mut pending = record.clone().unwrap_or_else(|| Record::new("", path, Vec::new()));
    for (input, is_right) in located.found {
        let problem = if is_right { None } else { pending.compare(&input)? };
        if let Some(problem) = problem {
            return Err(changed(&problem, &command, &input.key));
        }
        pending.note(input)?;
    }
    for (name, kept) in [(run_dir::START, dir.start()), (run_dir::TEACHER, dir.teacher())] {
        if kept.is_dir() {
            let input = inputs::kept(name, &kept);
            if let Some(problem) = pending.compare(&input)? {
                return Err(RunError::Refused(format!(
                    "{problem}: the run can't be resumed; restore the folder, or begin another run"
                )));
            }
            pending.note(input)?;
        }
    }
    let text = if overrides.is_empty() {
        std::fs::read_to_string(dir.recipe()).map_err(FileError::on("read", &dir.recipe()))?
    } else {
        stages::as_written(&written).to_toml()?
    };
    pending.accept(&text, step.unwrap_or(0), list);
    let is_new = record.as_ref() != Some(&pending);
    let rewritten = (!overrides.is_empty()).then_some(text);
    let change = is_new.then_some(Pending { record: pending, text: rewritten });

    let mut recipe = Recipe::resolve(&source)?;
    recipe.moved = located.moved;
    located.notes.splice(0..0, notes);
    if record.is_none() {
        located.notes.push(format!(
            "an earlier burnish began this run: whether its recipe or its data have changed since is not known; \
             from now on they are compared with what they are today ({RECORD})"
        ));
    }
    Ok(Resumed { found: Found { recipe, notes: located.notes }, change })
}

impl Resumed {
    /// Writes the changes.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(crate) fn keep(&self, dir: &RunDir) -> Result<(), RunError> {
        let Some(Pending { record, text }) = &self.change else { return Ok(()) };
        // The recipe first: if the process is killed in between, the recipe looks edited, and the change is listed
        // again.
        if let Some(text) = text {
            write_atomic(&dir.recipe(), text.as_bytes())?;
        }
        record.write(dir.path())
    }
}
