//! `[weights]`: the policy that a run starts from is made of other models, once, and lies beside the stages in
//! `run.cache`, under the hash of everything that decides it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use burnish_weights::{Checkpoint, Options, Progress, WeightsError};
use serde_json::{Value, json};

use super::Made;
use super::calibration::Texts;
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
    let texts = Texts::of(recipe)?;
    let steps = located(weights)?.steps();
    let of_step = |at: usize| match steps.len() {
        1 => place(&recipe.run.cache, weights, texts.as_ref()),
        _ => place(&recipe.run.cache, &weights.until(at + 1), texts.as_ref()),
    };
    let places = (0..steps.len()).map(of_step).collect::<Result<Vec<PathBuf>, RunError>>()?;
    // What a stream came to so far is what the same stream would make of fewer models.
    let made = places.iter().rposition(|place| place.is_dir());
    if let Some(made) = made {
        check(&places[made])?;
        watch.event(Event::Note(format!("surgery {}: there", places[made].display())));
    }
    let first = made.map_or(0, |made| made + 1);
    for (at, mut step) in steps.into_iter().enumerate().skip(first) {
        let output = &places[at];
        if let Some(before) = at.checked_sub(1)
            && let Some(base) = &mut step.base_model
        {
            base.made = Some(places[before].clone());
        }
        let of = if places.len() > 1 { format!(" ({} of {})", at + 1, places.len()) } else { String::new() };
        watch.event(Event::Note(format!("surgery {}: merging by {}{of}", output.display(), step.method)));
        let merge = step.merge()?;
        let mut options = Options { seed: step.seed, ..Options::default() };
        if let Some(texts) = &texts {
            match texts.record(&merge, stop)? {
                ControlFlow::Continue(recorded) => options.recorded = recorded,
                ControlFlow::Break(()) => return Ok(Made::Stopped { dir: output.clone() }),
            }
        }
        let mut go_on = |_: Progress| match stop.is_asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        match merge.run(output, &options, &mut go_on) {
            Ok(report) => report.notes.into_iter().for_each(|note| watch.event(Event::Note(note))),
            Err(WeightsError::Stopped { path }) => return Ok(Made::Stopped { dir: path }),
            // Another process was faster, with the same bytes.
            Err(_) if output.is_dir() => check(output)?,
            Err(error) => return Err(error.into()),
        }
    }
    recipe.policy.path = places.into_iter().next_back();
    Ok(Made::Ready)
}

/// Where the policy of `[weights]` is; `None` without that table. `command` is the command that would make it.
///
/// # Errors
/// If it is not made yet.
pub(super) fn made(recipe: &Recipe, command: &str) -> Result<Option<PathBuf>, RunError> {
    let Some(weights) = &recipe.weights else { return Ok(None) };
    let output = place(&recipe.run.cache, weights, Texts::of(recipe)?.as_ref())?;
    if output.is_dir() {
        return check(&output).map(|()| Some(output));
    }
    Err(RunError::Refused(format!(
        "weights: what {} makes is not there yet (`{}`); `{command}` makes it",
        weights.method,
        output.display()
    )))
}

/// Everything that decides the weights: the settings, of each model its content or the hash of its stage, and the digest
/// of the texts on which inputs are recorded.
///
/// # Errors
/// If a file can't be read.
pub(super) fn decides(weights: &WeightsSection, texts: Option<&str>) -> Result<Value, RunError> {
    let model = |model: &Ingredient| {
        let digests =
            model.path.as_deref().map(|path| policy_digests(&model_path::locate(path)?.dir)).transpose()?;
        let hash = model.from.as_ref().and_then(|from| from.hash.as_ref());
        Ok(json!({ "files": digests, "stage": hash, "parameters": model.parameters }))
    };
    let models = weights.models.iter().map(model).collect::<Result<Vec<Value>, RunError>>()?;
    let files = weights.files().iter().map(|file| file_digest(file)).collect::<Result<Vec<_>, _>>()?;
    let mut whole = json!({
        "format": FORMAT,
        "method": weights.method,
        "parameters": weights.parameters,
        "dtype": weights.dtype,
        "seed": weights.seed,
        "base_model": weights.base_model.as_ref().map(model).transpose()?,
        "models": models,
        "files": files,
    });
    if let Some(texts) = texts {
        whole["calibration"] = texts.into();
    }
    Ok(whole)
}

fn place(cache: &Path, weights: &WeightsSection, texts: Option<&Texts>) -> Result<PathBuf, RunError> {
    let decides = decides(weights, texts.map(|texts| &*texts.digest))?;
    let hash = burnish_env::digest(decides.to_string().as_bytes());
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
