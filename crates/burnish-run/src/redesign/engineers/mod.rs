//! The engineers.

mod checkpoint;
mod endpoint;
mod failure_guided;
mod identity;
mod monotone;
mod random;

use burnish_env::redesign::{Harder, Knob};
use burnish_recipe::{EngineerKind, Recipe, RedesignSection};
use serde_json::{Map, Value, json};

use super::Engineer;
use crate::RunError;

/// The engineer that a recipe names.
///
/// # Errors
/// If it can't work with these keys, or can't be reached.
pub(crate) fn engineer(
    recipe: &Recipe,
    redesign: &RedesignSection,
    knobs: &[Knob],
) -> Result<Box<dyn Engineer>, RunError> {
    let rule = redesign.rule.clone();
    let needs_direction = matches!(redesign.engineer, EngineerKind::Monotone | EngineerKind::FailureGuided);
    if needs_direction && knobs.iter().all(|knob| knob.harder == Harder::Unknown) {
        return Err(RunError::Refused(format!(
            "redesign.engineer: the environment {} says of no key in which direction tasks become harder, which this \
             engineer needs; take another one, such as \"random\"",
            recipe.env.id
        )));
    }
    Ok(match redesign.engineer {
        EngineerKind::Identity => Box::new(identity::Identity),
        EngineerKind::Random => Box::new(random::Random),
        EngineerKind::Monotone => Box::new(monotone::Monotone { rule }),
        EngineerKind::FailureGuided => Box::new(failure_guided::FailureGuided { rule }),
        EngineerKind::Checkpoint => Box::new(checkpoint::Chooser::new(recipe)?),
        EngineerKind::Endpoint => Box::new(endpoint::Asked::new(redesign)?),
    })
}

/// What an engineer that follows a rule says: a proposal in the form that models are asked for too.
fn proposal<'a>(reason: &str, values: impl IntoIterator<Item = (&'a Knob, f64)>) -> String {
    let config: Map<String, Value> =
        values.into_iter().map(|(knob, value)| (knob.key.clone(), Value::from(value))).collect();
    json!({ "reason": reason, "config": config }).to_string()
}
