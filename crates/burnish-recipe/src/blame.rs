//! Finds the override that causes an error, when the error names a key that this override did not set.

use super::{Recipe, RecipeError, Source, Use};

/// `error` with the place of the override that causes it, where there is one.
///
/// A rule about several keys names only one of them. That key may stand in the file, or nowhere, while an override of
/// another key breaks the rule. So the recipe is checked again without each override in turn. If the error
/// disappears, that override is to blame. If another error appears instead, it is to blame only if it sets a key of
/// the same table: leaving it out may have broken more than it mended.
pub(super) fn settled(source: &Source, what: Use, error: RecipeError) -> RecipeError {
    if error.place.starts_with("override `") {
        return error;
    }
    let (mut alone, mut related) = (Vec::new(), Vec::new());
    for (at, text) in source.given().iter().enumerate() {
        match source.without(at).map(|source| Recipe::as_written(&source, what)) {
            Some(Ok(_)) => alone.push(text.as_str()),
            Some(Err(other)) if other.problem != error.problem && table(text) == named_table(&error) => {
                related.push(text.as_str());
            }
            Some(Err(_)) | None => {}
        }
    }
    let blamed = if alone.is_empty() { related } else { alone };
    if blamed.is_empty() {
        return error;
    }
    let blamed: Vec<String> = blamed.iter().map(|text| format!("`{text}`")).collect();
    let word = if blamed.len() == 1 { "override" } else { "overrides" };
    RecipeError { place: format!("{word} {}", blamed.join(" and ")), ..error }
}

/// The top-level table that an override changes.
fn table(text: &str) -> &str {
    text.split(['.', '=']).next().unwrap_or_default().trim()
}

/// The top-level table of the key that an error begins with.
fn named_table(error: &RecipeError) -> &str {
    error.problem.split('`').nth(1).and_then(|key| key.split('.').next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::tests::{SMALL, read};

    #[test]
    fn an_error_that_only_an_override_causes_names_the_override() {
        let file = format!("{SMALL}[loss]\naggregation = \"dapo\"\nkl_estimator = \"k1\"\n");
        for (changes, place, key) in [
            // The rule names a key of the file, a key that is nowhere, and a table of the file.
            (&["loss.objective=gspo"][..], "override `loss.objective=gspo`", "`loss.aggregation`"),
            (
                &["run.seed=3", "loss.beta=0.1", "loss.use_bias_correction_kl=false"],
                "overrides `loss.beta=0.1` and `loss.use_bias_correction_kl=false`",
                "`loss.kl_estimator`",
            ),
            (
                &["train.minibatches=9", "rollout.group_size=2"],
                "override `train.minibatches=9`",
                "minibatches",
            ),
            (&["advantage.estimator=gae"], "override `advantage.estimator=gae`", "[critic]"),
            (&["policy.lora={rank=0, alpha=8}"], "override `policy.lora={rank=0, alpha=8}`", "policy.lora"),
            (&["policy.lora.rank=4"], "override `policy.lora.rank=4`", "policy.lora"),
            (&["train.method=sft"], "override `train.method=sft`", "data.path"),
            (&["teacher.context=demonstration"], "override `teacher.context=demonstration`", "teacher"),
        ] {
            // A step has few episodes, so that this many minibatches do not fit.
            let file = format!("{file}[rollout]\ntasks_per_step = 4\n");
            let error = read(&file, changes).unwrap_err();
            assert!(error.starts_with(&format!("{place}: ")) && error.contains(key), "{changes:?}: {error}");
        }
    }

    #[test]
    fn an_error_of_the_file_stays_the_files_whatever_is_overridden() {
        let file = SMALL.replace("max_steps = 3", "max_steps = 0");
        let error = read(&file, &["run.seed=1", "train.epochs=2", "policy.path=other"]).unwrap_err();
        assert!(error.starts_with("r.toml:8: `train.max_steps`"), "{error}");
        let file = format!("{SMALL}[loss]\nobjective = \"gspo\"\n");
        let error = read(&file, &["run.seed=1", "loss.beta=0.1"]).unwrap_err();
        assert!(error.starts_with("r.toml:11: `loss.aggregation`"), "{error}");
    }
}
