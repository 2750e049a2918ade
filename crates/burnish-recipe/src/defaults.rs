//! Keys that follow from others where a recipe leaves them out.

use std::path::Path;

use serde_json::{Value, json};

use super::{RecipeError, Source, Use};

/// The recipe with `run.dir` named after its file, `train.method = "grpo"` where it has an environment and no rows to learn
/// from, and no training where only an evaluation is asked for.
///
/// # Errors
/// If a recipe for training doesn't say how.
pub(super) fn under(mut source: Source, what: Use) -> Result<Source, RecipeError> {
    if source.is_of_run() {
        return Ok(source);
    }
    let name = Path::new(source.file()).file_stem().map(|name| name.to_string_lossy().into_owned());
    if let Some(name) = name.filter(|_| source.get("run.dir").is_none() && is_table(&source, "run")) {
        source.underlay(json!({ "run": { "dir": format!("runs/{name}") } }));
    }
    if source.get("train.method").is_some() || !is_table(&source, "train") {
        return Ok(source);
    }
    let learns_from_rows =
        ["data.path", "data.from", "data.demonstrations"].iter().any(|key| source.get(key).is_some());
    let is_played = source.get("env").is_some();
    match what {
        Use::Evaluation if source.get("train").is_none() => {
            source.underlay(json!({ "train": { "method": "none" } }));
        }
        _ if is_played && !learns_from_rows => source.underlay(json!({ "train": { "method": "grpo" } })),
        _ => {
            return Err(RecipeError {
                help: Some(
                    "\"sft\", \"preference\" and \"reward\" learn from the rows of `data.path`; \"grpo\" plays an `[env]` and \
                     is the default where no rows are given; \"none\" only evaluates"
                        .to_owned(),
                ),
                ..source.error("train.method", "is missing: how the policy learns".to_owned())
            });
        }
    }
    Ok(source)
}

/// Is `key` absent, or a table that can be filled in?
fn is_table(source: &Source, key: &str) -> bool {
    source.get(key).is_none_or(|value| matches!(value, Value::Null | Value::Object(_)))
}

/// Tasks of an evaluation where a recipe does not say how many, of a file with `rows` rows: a fifth where the others are
/// trained on, otherwise all, and 200 at most.
pub(super) fn tasks_held_out(rows: usize, trains: bool) -> usize {
    let share = if trains { rows / 5 } else { rows };
    share.clamp(1, super::EvalSection::default().tasks)
}

#[cfg(test)]
mod tests {
    use crate::tests::read;
    use crate::{Method, Recipe, Source, Use};

    const LEAST: &str = "policy.path = \"p\"\n[env]\nid = \"countdown\"\n";

    #[test]
    fn a_recipe_is_run_under_its_name_and_learns_from_its_environment() {
        let recipe = read(LEAST, &["train.max_steps=3"]).unwrap();
        assert_eq!(recipe.run.dir.to_str(), Some("runs/r"));
        assert_eq!((recipe.train.method, recipe.train.max_steps), (Method::Grpo, 3));
        let recipe = read(LEAST, &["train.max_steps=3", "run.seed=2", "train.epochs=2"]).unwrap();
        assert_eq!((recipe.run.dir.to_str(), recipe.run.seed), (Some("runs/r"), 2));
        let error = read(LEAST, &["data.path=rows.jsonl", "train.max_steps=3"]).unwrap_err();
        assert!(error.contains("`train.method` is missing") && error.contains("\"sft\""), "{error}");
        let error = read(LEAST, &[]).unwrap_err();
        assert!(error.contains("`train.max_steps`"), "{error}");
        let error = read(LEAST, &["run=3", "train.max_steps=3"]).unwrap_err();
        assert!(error.contains("run=3"), "{error}");
    }

    #[test]
    fn a_recipe_for_an_evaluation_needs_no_training() {
        let source = Source::parse("eval.toml", LEAST, &[]).unwrap();
        let recipe = Recipe::resolve_for(&source, Use::Evaluation).unwrap();
        assert_eq!((recipe.train.method, recipe.eval.tasks), (Method::None, 200));
        let source = Source::parse("eval.toml", LEAST, &["train.method=grpo".to_owned()]).unwrap();
        assert_eq!(Recipe::resolve_for(&source, Use::Evaluation).unwrap().train.method, Method::Grpo);
    }
}
