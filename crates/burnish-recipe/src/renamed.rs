//! Keys that had other names in earlier versions. An error about an old name in a new recipe tells the present one;
//! in the recipes of old runs, old names are accepted.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// A table, the old name of one of its keys, and the present name.
const RENAMED: [(&str, &str, &str); 1] = [("eval", "also", "extra")];

/// What to say about `key` in a new recipe, if it is an old name.
pub(super) fn help(key: &str) -> Option<String> {
    RENAMED
        .iter()
        .find(|(table, then, _)| key == format!("{table}.{then}"))
        .map(|(table, _, now)| format!("that is called `{table}.{now}` now"))
}

/// The path `key` with present names.
pub fn path(key: &str) -> Cow<'_, str> {
    for (table, then, now) in RENAMED {
        let rest = key.strip_prefix(&format!("{table}.{then}")).filter(|rest| is_end(rest));
        if let Some(rest) = rest {
            return format!("{table}.{now}{rest}").into();
        }
    }
    key.into()
}

fn is_end(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['.', '['])
}

/// Renames the keys of a recipe to their present names.
pub(super) fn to_present(recipe: &mut Value) {
    for (table, then, now) in RENAMED {
        rename(recipe, table, then, now);
    }
}

/// Renames the keys of a recipe to their first names, which hashes are computed from.
pub fn to_first(recipe: &mut Value) {
    for (table, then, now) in RENAMED {
        rename(recipe, table, now, then);
    }
}

/// The order of the keys stays, because hashes depend on it.
fn rename(recipe: &mut Value, table: &str, from: &str, to: &str) {
    let Some(Value::Object(table)) = recipe.get_mut(table) else { return };
    if table.contains_key(from) && !table.contains_key(to) {
        let renamed = |key: String| if key == from { to.to_owned() } else { key };
        *table = std::mem::take(table)
            .into_iter()
            .map(|(key, value)| (renamed(key), value))
            .collect::<Map<_, _>>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;
    use crate::tests::{SMALL, read};

    const THEN: &str = "\n[[eval.also]]\nname = \"sampled\"\nrollouts = 3\n";

    #[test]
    fn a_new_recipe_with_a_name_of_then_is_told_the_present_one() {
        let error = read(&format!("{SMALL}{THEN}"), &[]).unwrap_err();
        assert!(error.contains("`eval.also`") && error.contains("`eval.extra`"), "{error}");
        let error = read(SMALL, &["eval.also=[{name=\"a\"}]"]).unwrap_err();
        assert!(error.contains("called `eval.extra` now"), "{error}");
    }

    #[test]
    fn the_recipe_of_a_run_of_then_is_read_by_the_names_of_now() {
        let stored = Source::parse_of_run("recipe.toml", &format!("{SMALL}{THEN}")).unwrap();
        let recipe: crate::Recipe = stored.decode().unwrap();
        assert_eq!((recipe.eval.extra[0].name.as_str(), recipe.eval.extra[0].rollouts), ("sampled", Some(3)));
        let line = 3 + SMALL.matches('\n').count();
        let place = stored.error("eval.extra[0].name", "is wrong".into()).place;
        assert_eq!(place, format!("recipe.toml:{line}"));
        assert_eq!(path("eval.also[0].config.path"), "eval.extra[0].config.path");
        assert_eq!(path("eval.alsoran"), "eval.alsoran");
    }

    #[test]
    fn renaming_keeps_the_order() {
        let mut value = serde_json::json!({"eval": {"tasks": 1, "extra": [2], "seed": 3}});
        let now = value.clone();
        to_first(&mut value);
        assert_eq!(value.to_string(), r#"{"eval":{"tasks":1,"also":[2],"seed":3}}"#);
        to_present(&mut value);
        assert_eq!(value.to_string(), now.to_string());
    }
}
