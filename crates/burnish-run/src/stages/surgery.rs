//! `[weights]`: the policy that a run starts from is made of other models, once, and lies beside the stages in
//! `run.cache`, under the hash of everything that decides it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use burnish_weights::{Checkpoint, Options, Progress, WeightsError};
use serde_json::{Value, json};

use super::Made;
use crate::RunError;
use crate::model_files::policy_digests;
use crate::model_path;
use crate::watch::{Event, Stop, Watch};
use burnish_recipe::{Ingredient, Recipe, WeightsSection};
use burnish_rundir::files::file_digest;

/// Increased when the same surgery on the same models makes other weights than before.
const FORMAT: u32 = 1;

/// Makes the policy of `[weights]`, unless it is there, and sets `policy.path`. The models of its stages must be made.
///
/// # Errors
/// If a model can't be read or merged, or what is in its place can't be used.
pub(super) fn make(recipe: &mut Recipe, watch: &mut dyn Watch, stop: &Stop) -> Result<Made, RunError> {
    let Some(weights) = &recipe.weights else { return Ok(Made::Ready) };
    let output = place(&recipe.run.cache, weights)?;
    if output.is_dir() {
        check(&output)?;
        watch.event(Event::Note(format!("surgery {}: there", output.display())));
    } else {
        watch.event(Event::Note(format!("surgery {}: merging by {}", output.display(), weights.method)));
        let merge = located(weights)?.merge()?;
        let options = Options { seed: weights.seed, ..Options::default() };
        let mut go_on = |_: Progress| match stop.is_asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        match merge.run(&output, &options, &mut go_on) {
            Ok(report) => report.notes.into_iter().for_each(|note| watch.event(Event::Note(note))),
            Err(WeightsError::Stopped { path }) => return Ok(Made::Stopped { dir: path }),
            // Another process was faster, with the same bytes.
            Err(_) if output.is_dir() => check(&output)?,
            Err(error) => return Err(error.into()),
        }
    }
    recipe.policy.path = Some(output);
    Ok(Made::Ready)
}

/// Where the policy of `[weights]` is; `None` without that table. `command` is the command that would make it.
///
/// # Errors
/// If it is not made yet.
pub(super) fn made(recipe: &Recipe, command: &str) -> Result<Option<PathBuf>, RunError> {
    let Some(weights) = &recipe.weights else { return Ok(None) };
    let output = place(&recipe.run.cache, weights)?;
    if output.is_dir() {
        return check(&output).map(|()| Some(output));
    }
    Err(RunError::Refused(format!(
        "weights: what {} makes is not there yet (`{}`); `{command}` makes it",
        weights.method,
        output.display()
    )))
}

/// Everything that decides the weights: the settings, and of each model its content or the hash of its stage.
///
/// # Errors
/// If a file can't be read.
pub(super) fn decides(weights: &WeightsSection) -> Result<Value, RunError> {
    let model = |model: &Ingredient| {
        let digests =
            model.path.as_deref().map(|path| policy_digests(&model_path::locate(path)?.dir)).transpose()?;
        let hash = model.from.as_ref().and_then(|from| from.hash.as_ref());
        Ok(json!({ "files": digests, "stage": hash, "parameters": model.parameters }))
    };
    let models = weights.models.iter().map(model).collect::<Result<Vec<Value>, RunError>>()?;
    let files = weights.files().iter().map(|file| file_digest(file)).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "format": FORMAT,
        "method": weights.method,
        "parameters": weights.parameters,
        "dtype": weights.dtype,
        "seed": weights.seed,
        "base_model": weights.base_model.as_ref().map(model).transpose()?,
        "models": models,
        "files": files,
    }))
}

fn place(cache: &Path, weights: &WeightsSection) -> Result<PathBuf, RunError> {
    let hash = burnish_env::digest(decides(weights)?.to_string().as_bytes());
    Ok(cache.join(format!("{}-{hash}", weights.method)))
}

/// The same with model directories in place of other names for them.
fn located(weights: &WeightsSection) -> Result<WeightsSection, RunError> {
    let mut weights = weights.clone();
    for model in weights.base_model.iter_mut().chain(&mut weights.models) {
        if let Some(path) = &mut model.path {
            *path = model_path::locate(path)?.dir;
        }
    }
    Ok(weights)
}

/// Checks that the files in `output` are whole.
fn check(output: &Path) -> Result<(), RunError> {
    Checkpoint::open(output).map(drop).map_err(|error| {
        RunError::Refused(format!(
            "`{}` is broken: {error}; remove the folder, and it is made again",
            output.display()
        ))
    })
}
