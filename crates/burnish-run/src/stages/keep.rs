//! The copies that a run keeps of its starting policy, its teacher, its rows, its tasks, its configuration, its strategy and
//! its notes, if other recipes made them. They need no extra space if the file system supports hard links.

use std::fs;
use std::path::{Path, PathBuf};

use burnish_model::Model;

use crate::RunError;
use crate::artefact;
use burnish_recipe::{Recipe, StageUse};
use burnish_rundir::files::{FileError, write_atomic};
use burnish_rundir::run_dir::{self, RunDir};

/// Prefix of the trainer's state files, which say nothing about the policy.
const TRAINER: &str = "trainer.";
const ADAPTER: &str = "adapter_config.json";
/// Folder of an adapter's base; the adapter refers to it by this name.
const BASE: &str = "start-base";

/// Copies what other recipes made into the run directory, and sets the paths accordingly.
///
/// # Errors
/// If something is not made yet, or a file can't be written.
pub(crate) fn keep(recipe: &mut Recipe, dir: &RunDir) -> Result<(), RunError> {
    for of in StageUse::kept(recipe) {
        let Some(made) = of.path_mut(recipe).and_then(|path| path.clone()) else {
            return Err(RunError::Refused(format!(
                "{}: {} is not made; `stages::make` comes before `Run::start`",
                of.key(),
                of.name()
            )));
        };
        let own = place_of(of, dir);
        match of {
            StageUse::Rows | StageUse::Tasks | StageUse::Strategy | StageUse::Memory | StageUse::Config => {
                keep_file(&made, &own)?;
            }
            _ => keep_one(&made, &own, &recipe.run.cache)?,
        }
    }
    place(recipe, dir);
    Ok(())
}

/// Copies the policy in `made` into the new folder `to`.
fn keep_one(made: &Path, to: &Path, cache: &Path) -> Result<(), RunError> {
    // Left from a failed start.
    if to.exists() {
        fs::remove_dir_all(to).map_err(FileError::on("remove", to))?;
    }
    share(made, to)?;
    // An adapter's base may be in the cache too.
    if let Some(base) = Model::base_of(made)? {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if absolute(&base).starts_with(absolute(cache)) {
            share(&base, &to.join(BASE))?;
            name_base(&to.join(ADAPTER))?;
        }
    }
    Ok(())
}

/// Sets the paths of what other recipes made to the copies in the run directory.
pub(crate) fn place(recipe: &mut Recipe, dir: &RunDir) {
    for of in StageUse::kept(recipe) {
        if let Some(path) = of.path_mut(recipe) {
            *path = Some(place_of(of, dir));
        }
    }
}

/// Sets the paths of what evaluations need, the strategy and the notes, to the copies in the run directory `dir`, of a
/// recipe that is read from there to look at the run. A change of the recipe names other ones, whose hash is not known.
pub(crate) fn place_for_evaluation(recipe: &mut Recipe, dir: &Path) {
    for (of, name) in
        [(StageUse::Strategy, run_dir::START_STRATEGY), (StageUse::Memory, run_dir::START_MEMORY)]
    {
        let is_own = of.made_by(recipe).is_some_and(|from| from.hash.is_some());
        if let Some(path) = of.path_mut(recipe).filter(|_| is_own) {
            *path = Some(dir.join(name));
        }
    }
}

/// The recipe as a run directory stores it, without the paths of policy and teacher: they follow from the directory's
/// own path.
pub(crate) fn as_written(recipe: &Recipe) -> Recipe {
    let mut recipe = recipe.clone();
    for of in StageUse::kept(&recipe) {
        of.path_mut(&mut recipe).into_iter().for_each(|path| *path = None);
    }
    recipe
}

/// Lets a run that begins play in the configuration that another recipe made. From then on, its recipe has it.
///
/// # Errors
/// If it can't be read, or is of another environment.
pub(crate) fn configure(recipe: &mut Recipe) -> Result<(), RunError> {
    if let Some(made) = &recipe.env.config_made {
        recipe.env.config = artefact::read_config(made, &recipe.env.id)?.config;
    }
    Ok(())
}

/// Copies a file that another run made.
fn keep_file(made: &Path, to: &Path) -> Result<(), RunError> {
    if to.exists() {
        fs::remove_file(to).map_err(FileError::on("remove", to))?;
    }
    link(made, to)
}

fn place_of(of: StageUse, dir: &RunDir) -> PathBuf {
    match of {
        StageUse::Teacher => dir.teacher(),
        StageUse::Rows => dir.path().join(run_dir::START_ROWS),
        StageUse::Tasks => dir.path().join(run_dir::START_TASKS),
        StageUse::Strategy => dir.path().join(run_dir::START_STRATEGY),
        StageUse::Memory => dir.path().join(run_dir::START_MEMORY),
        StageUse::Config => dir.path().join(run_dir::START_CONFIG),
        StageUse::Policy | StageUse::Weights(_) => dir.start(),
    }
}

/// Hard-links the files of the policy in `from` into the new folder `to`, or copies them. Checkpoint files are never
/// modified later.
fn share(from: &Path, to: &Path) -> Result<(), RunError> {
    fs::create_dir_all(to).map_err(FileError::on("create directory", to))?;
    for entry in fs::read_dir(from).map_err(FileError::on("list", from))? {
        let entry = entry.map_err(FileError::on("list", from))?;
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_file() && !name.to_string_lossy().starts_with(TRAINER) {
            link(&path, &to.join(&name))?;
        }
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> Result<(), RunError> {
    let linked = fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop));
    Ok(linked.map_err(FileError::on("copy to", to))?)
}

fn name_base(config: &Path) -> Result<(), RunError> {
    let malformed =
        |error: serde_json::Error| RunError::Refused(format!("{} is wrong: {error}", config.display()));
    let text = fs::read(config).map_err(FileError::on("read", config))?;
    let mut value: serde_json::Value = serde_json::from_slice(&text).map_err(malformed)?;
    value["base_model_name_or_path"] = BASE.into();
    let text = serde_json::to_vec_pretty(&value).map_err(malformed)?;
    Ok(write_atomic(config, &text)?)
}
