//! The built-in environments.

use crate::{
    EnvError, Generator, accounts, associative, chains, clarify, command, countdown, household, mapf, mapped,
    mapping, openenv, orders, programs, recall, rows, scenes, skilled, specs, tables, timed_facts, timeqa,
    worlds,
};

/// One kind of environment.
#[derive(Debug)]
pub struct Kind {
    /// Name in recipes and on the command line.
    pub id: &'static str,
    /// What people call it, as it stands behind "learning": `taking orders`.
    pub title: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// Two labels of its tasks whose combinations are worth a table of their own: rows, columns.
    pub axes: Option<[&'static str; 2]>,
    /// The default configuration.
    pub defaults: fn() -> serde_json::Value,
    /// Makes a generator from a configuration; missing keys get their defaults.
    pub build: fn(&serde_json::Value) -> Result<Box<dyn Generator>, EnvError>,
}

/// Every environment, sorted by id.
pub const CATALOGUE: &[&Kind] = &[
    &accounts::KIND,
    &command::agent::KIND,
    &associative::KIND,
    &chains::KIND,
    &clarify::KIND,
    &command::KIND,
    &countdown::KIND,
    &household::KIND,
    &mapf::KIND,
    &mapped::KIND,
    &mapping::KIND,
    &openenv::KIND,
    &orders::KIND,
    &programs::KIND,
    &recall::KIND,
    &rows::KIND,
    &scenes::KIND,
    &skilled::KIND,
    &specs::KIND,
    &tables::KIND,
    &timed_facts::KIND,
    &timeqa::KIND,
    &worlds::KIND,
];

/// The kind called `id`.
///
/// # Errors
/// If there is none: names those that exist.
pub fn kind(id: &str) -> Result<&'static Kind, EnvError> {
    CATALOGUE.iter().copied().find(|kind| kind.id == id).ok_or_else(|| EnvError::UnknownId {
        id: id.to_owned(),
        known: CATALOGUE.iter().map(|kind| kind.id).collect::<Vec<_>>().join(", "),
    })
}

/// A generator of the environment `id` with `config`.
///
/// # Errors
/// If there is no such environment, or a key of the configuration is unknown, of the wrong type or out of range.
pub fn build(id: &str, config: &serde_json::Value) -> Result<Box<dyn Generator>, EnvError> {
    (kind(id)?.build)(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bound;
    use burnish_core::{Message, Task};
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn the_defaults_are_allowed_and_every_bound_names_a_number_of_them() {
        let mut named = BTreeSet::new();
        for kind in CATALOGUE {
            let config = (kind.defaults)();
            // Some environments need files.
            let Ok(generator) = build(kind.id, &config) else { continue };
            for Bound { key, min, max, .. } in generator.bounds() {
                // The sizes of boards are listed under their number.
                let path = format!("/{}", key.replace('*', "4").replace('.', "/"));
                let value = config.pointer(&path).and_then(serde_json::Value::as_f64);
                assert!(value.is_some_and(|value| (min..=max).contains(&value)), "{}: {key}", kind.id);
                named.insert(kind.id);
            }
        }
        let named: Vec<&str> = named.into_iter().collect();
        assert_eq!(
            named,
            [
                "accounts",
                "associative",
                "chains",
                "clarify",
                "countdown",
                "household",
                "mapf-frozenlake",
                "mapped",
                "mapping",
                "orders",
                "programs",
                "recall",
                "scenes",
                "skilled",
                "specs",
                "tables",
                "timed_facts",
                "worlds"
            ]
        );
    }

    #[test]
    fn verdicts_have_the_components_that_environments_say() {
        let mut played = 0;
        let changes = [("household", json!({"progress": true, "invalid": "count"}))];
        let defaults = CATALOGUE.iter().map(|kind| (kind.id, (kind.defaults)()));
        for (id, config) in defaults.chain(changes) {
            // Some environments need files.
            let Ok(generator) = build(id, &config) else { continue };
            let Ok(set) = generator.tasks(0, 2) else { continue };
            let said = generator.components().unwrap();
            for task in &set.tasks {
                let mut environment = generator.environment();
                environment.reset(task, 0).unwrap();
                environment.step(&Message::assistant("I don't know.")).unwrap();
                let verdict = environment.verify().unwrap();
                assert_eq!(verdict.rewards.keys().cloned().collect::<Vec<_>>(), sorted(&said), "{id}");
                played += 1;
            }
        }
        assert!(played >= 8, "{played}");
    }

    #[test]
    fn an_environment_with_an_ability_has_it_for_its_tasks() {
        let mut found = Vec::new();
        for kind in CATALOGUE {
            // Some environments need files.
            let Ok(generator) = build(kind.id, &(kind.defaults)()) else { continue };
            let tasks = generator.tasks(0, 20).unwrap().tasks;
            let any = |has: &dyn Fn(&Task) -> bool| tasks.iter().any(has);
            let demonstrates =
                generator.demonstrations().map(|its| any(&|task| its.demonstrate_episode(task).is_some()));
            assert_eq!(demonstrates, Some(true), "{}", kind.id);
            for (ability, is_had) in [
                ("hints", generator.hints().map(|its| any(&|task| its.reasoning(task).is_some()))),
                ("skills", generator.skills().map(|its| any(&|task| its.skill(task).is_some()))),
                (
                    "reversible",
                    generator.reversible().map(|its| any(&|task| its.counterpart(task).is_some())),
                ),
                ("rows", generator.rows().map(|its| any(&|task| its.row(task).is_some()))),
            ] {
                assert_ne!(is_had, Some(false), "{}: {ability}", kind.id);
                found.extend(is_had.map(|_| (kind.id, ability)));
            }
        }
        let chains = ["hints", "skills", "reversible"].map(|ability| ("chains", ability));
        assert_eq!(found, [&chains[..], &[("household", "skills"), ("timed_facts", "hints")]].concat());
    }

    fn sorted(names: &[String]) -> Vec<String> {
        let mut names = names.to_vec();
        names.sort();
        names
    }
}
