//! The models by which thoughts are controlled, as files that a recipe or a strategy names.

use std::collections::BTreeMap;

use burnish_core::ThoughtControl;
use burnish_engine::read_reflection_model;

use crate::RunError;
use burnish_recipe::Recipe;
use burnish_recipe::paths::{self, PathKind};
use burnish_rundir::files::file_digest;

/// Reads the controllers of a recipe, so that none fails when the first answer is due. A judge's are needed only with
/// `needs_training`.
///
/// # Errors
/// Names the key, the file, and the field that is wrong in it.
pub(crate) fn check(recipe: &Recipe, needs_training: bool) -> Result<(), RunError> {
    let mut values = serde_json::to_value(recipe)
        .map_err(|error| RunError::Refused(format!("the recipe can't be written: {error}")))?;
    paths::each(&mut values, &mut |place| match place.kind {
        PathKind::Controller if needs_training || !place.key.starts_with("judge.") => {
            match read_reflection_model(place.value.as_ref()) {
                Ok(_) => Ok(()),
                Err(problem) => Err(RunError::Refused(format!("{}: {problem}", place.key))),
            }
        }
        _ => Ok(()),
    })
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
