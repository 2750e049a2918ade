//! Whether two recipes make the same run.

use std::path::PathBuf;

use burnish_train::Checkpointing;
use serde_json::Value;

use super::{ActivationCheckpointing, Recipe, StageRecipe, StageUse};

/// The recipe without the settings that change no number: where the run and its stages are stored, how many threads
/// work, and, for a policy that has a hash, how it is made.
pub fn timeless(recipe: &Recipe) -> Value {
    let mut recipe = recipe.with_first_defaults();
    recipe.run.dir = PathBuf::new();
    recipe.run.cache = PathBuf::new();
    recipe.run.threads = 0;
    if recipe.train.num_train_epochs.is_some() {
        recipe.train.max_steps = 0;
    }
    if recipe.env.config_from.as_ref().is_some_and(|from| from.hash.is_some()) {
        // A run writes down the configuration that it was given.
        recipe.env.config = Value::Null;
    }
    for of in StageUse::of(&recipe) {
        if let Some(from) = of.made_by_mut(&mut recipe).filter(|from| from.hash.is_some()) {
            *from = StageRecipe { hash: from.hash.take(), ..StageRecipe::default() };
            of.path_mut(&mut recipe).into_iter().for_each(|path| *path = None);
        }
    }
    serde_json::to_value(&recipe).unwrap_or_default()
}

/// A key whose values differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The key.
    pub key: String,
    /// Its value in the one recipe; `None` where the key is absent.
    pub there: Option<Value>,
    /// Its value in the other recipe.
    pub here: Option<Value>,
}

impl Recipe {
    /// The recipe with the first defaults of keys that change no result: its hashes and comparisons stay those of earlier
    /// versions.
    #[must_use]
    pub fn with_first_defaults(&self) -> Recipe {
        let mut recipe = self.clone();
        recipe.rollout.cache_mib.get_or_insert(4096);
        let checkpointing = &mut recipe.train.activation_checkpointing;
        if *checkpointing == ActivationCheckpointing::Auto {
            *checkpointing = ActivationCheckpointing::Always(Checkpointing::Off);
        }
        recipe
    }
}

impl Difference {
    /// Both values in words.
    pub fn values(&self) -> (String, String) {
        let shown =
            |value: &Option<Value>| value.as_ref().map_or_else(|| "absent".to_owned(), Value::to_string);
        (shown(&self.there), shown(&self.here))
    }
}

/// The keys whose values differ, with both values; at most three of them.
pub fn differences(there: &Value, here: &Value) -> Vec<String> {
    const SHOWN: usize = 3;
    let all = all_differences(there, here);
    let mut found: Vec<String> = all
        .iter()
        .take(SHOWN)
        .map(|difference| {
            let (there, here) = difference.values();
            format!("`{}`: {there} there, {here} now", difference.key)
        })
        .collect();
    if all.len() > SHOWN {
        found.push(format!("and {} more", all.len() - SHOWN));
    }
    found
}

/// All keys whose values differ. Lists are compared as a whole.
pub fn all_differences(there: &Value, here: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    collect("", Some(there), Some(here), &mut found);
    found
}

fn collect(key: &str, there: Option<&Value>, here: Option<&Value>, found: &mut Vec<Difference>) {
    if let (Some(Value::Object(one)), Some(Value::Object(other))) = (there, here) {
        let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            collect(&key, one.get(name), other.get(name), found);
        }
    } else if there != here {
        found.push(Difference { key: key.to_owned(), there: there.cloned(), here: here.cloned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_recipe_that_leaves_memory_to_the_device_is_the_one_that_recorded_the_defaults_of_before() {
        use crate::tests::{SMALL, read};
        let key = |value: &str| read(SMALL, &[&*format!("train.activation_checkpointing={value}")]).unwrap();
        assert_eq!(timeless(&read(SMALL, &[]).unwrap()), timeless(&key("auto")));
        assert_eq!(timeless(&key("auto")), timeless(&key("false")));
        assert_ne!(timeless(&key("auto")), timeless(&key("selective")));
        let [unset, recorded, other] = [&[][..], &["rollout.cache_mib=4096"], &["rollout.cache_mib=4097"]]
            .map(|keys| read(SMALL, keys).unwrap());
        assert_eq!((unset.rollout.cache_mib, recorded.rollout.cache_mib), (None, Some(4096)));
        assert_eq!(timeless(&unset), timeless(&recorded));
        assert_ne!(timeless(&unset), timeless(&other));
    }

    #[test]
    fn keys_that_differ_are_named_with_both_values_and_not_too_many_of_them() {
        let there = json!({"loss": {"beta": 0.0, "config": {"a": 1}}, "same": [1]});
        let here = json!({"loss": {"beta": 0.1, "config": {"a": 1, "b": 2}}, "same": [1]});
        assert_eq!(
            differences(&there, &here),
            ["`loss.beta`: 0.0 there, 0.1 now", "`loss.config.b`: absent there, 2 now"]
        );
        assert!(differences(&there, &there).is_empty());
        let many = |value: i32| json!({"a": value, "b": value, "c": value, "d": value, "e": value});
        assert_eq!(differences(&many(1), &many(2)).last().unwrap(), "and 2 more");
    }
}
