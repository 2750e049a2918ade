//! Keys of an environment's configuration that may change between rounds of training ([`Knob`]). They are numbers of a
//! configuration, never tasks, so labels stay exact.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{Bound, EnvError, Generator};

pub use burnish_core::knob::{Harder, Knob, KnobKind};

/// The keys of a generator's configuration that may change, restricted to `only` where that names some. An environment
/// that declares no such keys has those of its bounds that `only` names: each with its present value, half of it and
/// twice as much for a menu.
///
/// # Errors
/// If a key of `only` is not there, none is left, or a program that should name them does not answer.
pub fn knobs(generator: &dyn Generator, only: &[String]) -> Result<Vec<Knob>, EnvError> {
    let config = generator.config();
    let (all, is_declared) = match generator.redesign() {
        Some(able) => (able.knobs()?, true),
        None => (of_bounds(&generator.bounds(), &config), false),
    };
    let id = generator.id();
    let names = || all.iter().map(|knob| knob.key.as_str()).collect::<Vec<_>>().join(", ");
    if all.is_empty() {
        return Err(EnvError::Failed(format!("the environment {id} has no key that can be redesigned")));
    }
    if !is_declared && only.is_empty() {
        return Err(EnvError::Failed(format!(
            "the environment {id} does not say which of its keys may be redesigned: name them; there are: {}",
            names()
        )));
    }
    if let Some(unknown) = only.iter().find(|key| all.iter().all(|knob| knob.key != **key)) {
        return Err(EnvError::Failed(format!(
            "the environment {id} has no key `{unknown}` that can be redesigned; there are: {}",
            names()
        )));
    }
    if let Some(problem) = all.iter().find_map(Knob::problem) {
        return Err(EnvError::Failed(format!("the environment {id} declares a key wrongly: {problem}")));
    }
    Ok(all.into_iter().filter(|knob| only.is_empty() || only.contains(&knob.key)).collect())
}

/// Keys out of the bounds of an environment that says no more about them. Rewards are not among them: what is measured
/// must stay what it was.
fn of_bounds(bounds: &[Bound], config: &Value) -> Vec<Knob> {
    let knob = |Bound { key, min, max, help }: &Bound| {
        let mut knob = Knob {
            key: key.clone(),
            kind: KnobKind::Number,
            of: String::new(),
            min: *min,
            max: *max,
            menu: Vec::new(),
            harder: Harder::Unknown,
            tasks: BTreeMap::new(),
            help: help.clone(),
        };
        let value = knob.value(config)?;
        let is_whole = config.pointer(&format!("/{}", key.replace('.', "/")))?.is_u64();
        let near = [value / 2.0, value, value * 2.0].map(|value| value.clamp(*min, *max));
        knob.menu = near.map(|value| if is_whole { value.round() } else { value }).to_vec();
        knob.menu.sort_by(f64::total_cmp);
        knob.menu.dedup();
        knob.kind = if is_whole { KnobKind::Whole } else { KnobKind::Number };
        Some(knob)
    };
    bounds.iter().filter(|bound| !bound.key.starts_with("reward")).filter_map(knob).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn environments_without_declared_keys_need_them_named_and_have_menus_around_their_values() {
        let chains = crate::build("chains", &json!({"steps": {"min": 1, "max": 3}})).unwrap();
        let error = knobs(&*chains, &[]).unwrap_err().to_string();
        assert!(error.contains("name them") && error.contains("steps.max"), "{error}");
        let only = |key: &str| knobs(&*chains, &[key.to_owned()]);
        let steps = &only("steps.max").unwrap()[0];
        assert_eq!((steps.kind, steps.menu.as_slice()), (KnobKind::Whole, &[2.0, 3.0, 6.0][..]));
        assert_eq!(steps.harder, Harder::Unknown);
        let error = only("steps.most").unwrap_err().to_string();
        assert!(error.contains("no key `steps.most`"), "{error}");
        for kind in crate::CATALOGUE {
            let Ok(generator) = crate::build(kind.id, &(kind.defaults)()) else { continue };
            for knob in of_bounds(&generator.bounds(), &generator.config()) {
                assert_eq!(knob.problem(), None, "{}", kind.id);
            }
            if generator.redesign().is_some() {
                let declared = knobs(&*generator, &[]).unwrap();
                for knob in &declared {
                    let value = knob.value(&generator.config());
                    assert!(
                        value.is_some_and(|it| (knob.min..=knob.max).contains(&it)),
                        "{}: {}",
                        kind.id,
                        knob.key
                    );
                }
                let twice =
                    declared.iter().any(|knob| declared.iter().filter(|it| it.key == knob.key).count() > 1);
                assert!(!twice, "{}", kind.id);
            }
        }
    }
}
