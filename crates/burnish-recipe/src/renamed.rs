//! Keys that had other names in earlier versions. An error about an old name in a new recipe tells the present one;
//! in the recipes of old runs, old names are accepted.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// A table, the old name of one of its keys, and the present name.
const RENAMED: [(&str, &str, &str); 1] = [("eval", "also", "extra")];

/// A table that is no more: rounds in which the environment was redesigned. A run of a last round has the configuration
/// and the policy that it was given in `[env]` and in its own folder.
const GONE: &str = "redesign";
const GONE_HELP: &str = "rounds are `[rounds]` now, whose stages make the configuration of the next one: see \
                         `systems/redesign/recipe.toml` and `docs/redesign.md`";

/// Weights of losses that were keys of `[loss]`, each with the objective of the term that it is now, and the key before
/// or after which it was written.
const PROXIMAL_KL: (&str, &str, &str) = ("proximal_kl_coef", "proximal_kl", "entropy_coef");
const POSITIVE_NLL: (&str, &str, &str) = ("positive_nll_coef", "positive_nll", "top_entropy_quantile");

/// Turns keys of `[loss]` that are terms of the loss now into terms. A weight that is no number stays, for the error.
pub(super) fn to_terms(recipe: &mut Value) {
    let Some(Value::Object(loss)) = recipe.get_mut("loss") else { return };
    for (key, objective, _) in [PROXIMAL_KL, POSITIVE_NLL] {
        let Some(weight) = loss.get(key).and_then(Value::as_f64) else { continue };
        loss.shift_remove(key);
        if weight == 0.0 {
            continue;
        }
        if let Value::Array(terms) = loss.entry("terms").or_insert_with(|| json!([])) {
            terms.push(json!({ "objective": objective, "weight": weight }));
        }
    }
}

/// The reverse of [`to_terms`], as recipes with those keys were written.
fn from_terms(recipe: &mut Value) {
    let Some(Value::Object(loss)) = recipe.get_mut("loss") else { return };
    let mut taken = |objective: &str| {
        let terms = loss.get_mut("terms")?.as_array_mut()?;
        let is_plain =
            |term: &Value| *term == json!({ "objective": objective, "config": {}, "weight": term["weight"] });
        let at = terms.iter().rposition(is_plain)?;
        Some(terms.remove(at)["weight"].take())
    };
    let (proximal, imitation) = (taken(PROXIMAL_KL.1), taken(POSITIVE_NLL.1));
    if loss.get("terms") == Some(&json!([])) {
        loss.shift_remove("terms");
    }
    for (key, value) in std::mem::take(loss) {
        if let Some(weight) = proximal.clone().filter(|_| key == PROXIMAL_KL.2) {
            loss.insert(PROXIMAL_KL.0.to_owned(), weight);
        }
        let is_before = key == POSITIVE_NLL.2;
        loss.insert(key, value);
        if is_before {
            loss.insert(POSITIVE_NLL.0.to_owned(), imitation.clone().unwrap_or(json!(0.0)));
        }
    }
}

/// What to say about `key` in a new recipe, if it is an old name.
pub(super) fn help(key: &str) -> Option<String> {
    let of_term = [PROXIMAL_KL, POSITIVE_NLL].into_iter().find(|(then, ..)| key == format!("loss.{then}"));
    if let Some((_, objective, _)) = of_term {
        return Some(format!(
            "that is a term of the loss now: `{{ objective = \"{objective}\", weight = 0.1 }}` in `loss.terms`"
        ));
    }
    if key == GONE {
        return Some(GONE_HELP.to_owned());
    }
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
    if let Value::Object(recipe) = recipe {
        recipe.shift_remove(GONE);
    }
}

/// Renames the keys of a recipe to their first names, which hashes are computed from.
pub fn to_first(recipe: &mut Value) {
    for (table, then, now) in RENAMED {
        rename(recipe, table, now, then);
    }
    from_terms(recipe);
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
    fn a_table_that_is_gone_is_dropped_in_runs_and_explained_in_new_recipes() {
        let text = format!("{SMALL}\n[redesign]\nengineer = \"random\"\n[redesign.given]\nseed = 3\n");
        let stored: crate::Recipe = Source::parse_of_run("recipe.toml", &text).unwrap().decode().unwrap();
        assert_eq!(stored, Source::parse_of_run("recipe.toml", SMALL).unwrap().decode().unwrap());
        for error in [read(&text, &[]).unwrap_err(), read(SMALL, &["redesign.engineer=random"]).unwrap_err()]
        {
            assert!(error.contains("`redesign`") && error.contains("`[rounds]` now"), "{error}");
        }
    }

    #[test]
    fn weights_of_losses_are_read_as_terms_and_hashed_as_they_were_written() {
        let loss = |keys: &[&str]| read(SMALL, keys).map(|recipe| recipe.loss);
        let (plain, both) = (
            ["loss.proximal_kl_coef=0.25", "loss.positive_nll_coef=0.5"],
            "loss.terms=[\
            {objective=\"proximal_kl\", weight=0.25}, {objective=\"positive_nll\", weight=0.5}]",
        );
        assert_eq!(loss(&plain).unwrap(), loss(&[both]).unwrap());
        assert_eq!(
            loss(&["loss.proximal_kl_coef=0", "loss.positive_nll_coef=0"]).unwrap(),
            loss(&[]).unwrap()
        );
        let text = format!("{SMALL}\n[loss]\npositive_nll_coef = 0.5\n");
        let of_run: crate::Recipe = Source::parse_of_run("recipe.toml", &text).unwrap().decode().unwrap();
        assert_eq!((of_run.loss.terms.len(), of_run.loss.terms[0].weight), (1, 0.5));
        assert_eq!(read(&text, &[]).unwrap().loss.terms, of_run.loss.terms);
        let error = loss(&["loss.positive_nll_coef=much"]).unwrap_err();
        assert!(error.contains("loss.positive_nll_coef") && error.contains("loss.terms"), "{error}");
        // Losses that look at the whole batch keep theirs.
        let batch = ["loss.top_entropy_quantile=0.5", "loss.positive_nll_coef=0.5"];
        assert_eq!(loss(&batch).unwrap().terms.len(), 1);

        let first = |keys: &[&str]| {
            let mut value = serde_json::to_value(read(SMALL, keys).unwrap()).unwrap();
            to_first(&mut value);
            let keys: Vec<String> = value["loss"].as_object().unwrap().keys().cloned().collect();
            (keys, value["loss"].clone())
        };
        let (keys, value) = first(&[]);
        assert_eq!(keys[keys.len() - 2..], ["top_entropy_quantile", "positive_nll_coef"]);
        assert_eq!(value["positive_nll_coef"].to_string(), "0.0");
        assert!(!keys.contains(&"terms".to_owned()) && !keys.contains(&"proximal_kl_coef".to_owned()));
        let (keys, value) = first(&plain);
        assert_eq!((&value["positive_nll_coef"], &value["proximal_kl_coef"]), (&json!(0.5), &json!(0.25)));
        let at = keys.iter().position(|key| key == "proximal_kl_coef").unwrap();
        assert_eq!((&*keys[at - 1], &*keys[at + 1]), ("correction", "entropy_coef"));
        assert_eq!(keys.last().unwrap(), "positive_nll_coef");
        // A term that no key could say stays a term.
        let cispo =
            "loss.terms=[{objective=\"cispo\", weight=1.0}, {objective=\"positive_nll\", weight=0.5}]";
        let (keys, value) = first(&[cispo]);
        assert_eq!((keys.last().unwrap().as_str(), value["terms"].as_array().unwrap().len()), ("terms", 1));
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
