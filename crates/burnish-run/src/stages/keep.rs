//! The copy of its policy that a run keeps: it needs no space where the file system can give a file two names.

use std::fs;
use std::path::{Path, PathBuf};

use burnish_model::Model;

use crate::RunError;
use crate::files::{FileError, write_atomic};
use crate::recipe::Recipe;
use crate::run_dir::RunDir;

/// The state of the trainer, which says nothing about the policy.
const TRAINER: &str = "trainer.";
const ADAPTER: &str = "adapter_config.json";
/// Folder of an adapter's base, and how the adapter names it.
const BASE: &str = "start-base";

/// Takes the files of `policy.path` into the run directory, and sets `policy.path` to them.
///
/// # Errors
/// If the policy of `policy.from` is not made, or a file can't be written.
pub(crate) fn keep(recipe: &mut Recipe, dir: &RunDir) -> Result<(), RunError> {
    let Some(made) = &recipe.policy.path else {
        return Err(RunError::Refused(
            "policy.from: the policy is not made; `stages::make` comes before `Run::start`".into(),
        ));
    };
    let start = dir.start();
    // What a false start left.
    if start.exists() {
        fs::remove_dir_all(&start).map_err(FileError::on("remove", &start))?;
    }
    share(made, &start)?;
    // An adapter's base may lie in the cache too.
    if let Some(base) = Model::base_of(made)? {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if absolute(&base).starts_with(absolute(&recipe.run.cache)) {
            share(&base, &start.join(BASE))?;
            name_base(&start.join(ADAPTER))?;
        }
    }
    recipe.policy.path = Some(start);
    Ok(())
}

/// The recipe as a run directory keeps it: where the policy lies follows from where the directory is.
pub(crate) fn as_written(recipe: &Recipe) -> Recipe {
    let mut recipe = recipe.clone();
    if recipe.policy.from.is_some() {
        recipe.policy.path = None;
    }
    recipe
}

/// Gives the files of the policy in `from` a second name in the new folder `to`, or copies them. Files of a checkpoint are
/// never written to again.
fn share(from: &Path, to: &Path) -> Result<(), RunError> {
    fs::create_dir_all(to).map_err(FileError::on("create directory", to))?;
    for entry in fs::read_dir(from).map_err(FileError::on("list", from))? {
        let entry = entry.map_err(FileError::on("list", from))?;
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_file() && !name.to_string_lossy().starts_with(TRAINER) {
            let place: PathBuf = to.join(&name);
            fs::hard_link(&path, &place)
                .or_else(|_| fs::copy(&path, &place).map(drop))
                .map_err(FileError::on("copy to", &place))?;
        }
    }
    Ok(())
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
