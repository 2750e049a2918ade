//! The models by which thoughts are controlled, as files that a recipe or a strategy names.

use std::collections::BTreeMap;
use std::path::PathBuf;

use burnish_core::ThoughtControl;
use burnish_engine::read_reflection_model;

use crate::RunError;
use burnish_recipe::Recipe;
use burnish_recipe::paths::{self, PathKind};
use burnish_rundir::files::file_digest;

/// The files of a recipe's controllers, with the keys that name them.
///
/// # Errors
/// If the recipe can't be written as JSON, which no recipe that was read meets.
pub(crate) fn of(recipe: &Recipe) -> Result<Vec<(String, PathBuf)>, RunError> {
    let mut values = serde_json::to_value(recipe)
        .map_err(|error| RunError::Refused(format!("the recipe can't be written: {error}")))?;
    let mut files = Vec::new();
    paths::each(&mut values, &mut |place| -> Result<(), RunError> {
        if place.kind == PathKind::Controller {
            files.push((place.key, PathBuf::from(&*place.value)));
        }
        Ok(())
    })?;
    Ok(files)
}

/// Reads the controllers of a recipe, so that none fails when the first answer is due. A judge's are needed only with
/// `needs_training`.
///
/// # Errors
/// Names the key, the file, and the field that is wrong in it.
pub(crate) fn check(recipe: &Recipe, needs_training: bool) -> Result<(), RunError> {
    for (key, file) in of(recipe)? {
        if needs_training || !key.starts_with("judge.") {
            read_reflection_model(&file).map_err(|problem| RunError::Refused(format!("{key}: {problem}")))?;
        }
    }
    Ok(())
}

/// Digests of the files that controls name, by their key below `controls`.
///
/// # Errors
/// The key, and what is wrong with the file, which is named.
pub(crate) fn digests(controls: &[ThoughtControl]) -> Result<BTreeMap<String, String>, (String, String)> {
    let mut digests = BTreeMap::new();
    for (at, control) in controls.iter().enumerate() {
        let Some(controller) = control.controller() else { continue };
        let key = format!("controls[{at}].first_try.controller");
        let wrong = |problem: String| (format!("{key}.path"), problem);
        read_reflection_model(&controller.path).map_err(wrong)?;
        let digest = file_digest(&controller.path).map_err(|error| wrong(error.to_string()))?;
        digests.insert(key, digest);
    }
    Ok(digests)
}
