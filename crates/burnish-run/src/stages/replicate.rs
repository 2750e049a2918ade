//! A recipe on another seed: an independent replication, from its first stage on.

use std::path::PathBuf;

use burnish_recipe::{Recipe, StageRecipe, StageUse};

use crate::RunError;

/// Stages draw tasks by `run.seed` too, so their seeds are far from those of the runs that start from them.
const STAGE_STRIDE: u64 = 1 << 20;

/// Gives `recipe` the seed `seed`: its own training tasks and random numbers (`run.seed`), its own held-out tasks
/// (`eval.seed`), and its own stages with the same held-out tasks, from the first on. Two recipes that differ in
/// something else are replicated alike.
///
/// # Errors
/// If the recipe of a stage can't be read.
pub fn replicate(recipe: &mut Recipe, seed: u64) -> Result<(), RunError> {
    recipe.run.seed = seed;
    recipe.eval.seed = recipe.eval.seed.wrapping_add(seed);
    for of in StageUse::of(recipe) {
        let eval_seed = recipe.eval.seed;
        if let Some(from) = of.made_by_mut(recipe) {
            replicate_stage(from, seed, eval_seed)?;
        }
    }
    Ok(())
}

fn replicate_stage(from: &mut StageRecipe, seed: u64, eval_seed: u64) -> Result<(), RunError> {
    let stage = Recipe::read(&from.recipe, &from.set)?;
    from.set.push(format!("run.seed={}", stage.run.seed.wrapping_add(seed.wrapping_mul(STAGE_STRIDE))));
    from.set.push(format!("eval.seed={eval_seed}"));
    for of in StageUse::of(&stage) {
        let Some(mut before) = of.made_by(&stage).cloned() else { continue };
        replicate_stage(&mut before, seed, eval_seed)?;
        from.set.push(format!("{}={}", of.key(), as_override(&before)));
    }
    Ok(())
}

/// `{recipe="recipes/sft.toml", set=["run.seed=2"]}`
fn as_override(stage: &StageRecipe) -> String {
    let hash = stage.hash.iter().map(|hash| format!(", hash={hash:?}")).collect::<String>();
    // Strings of JSON are strings of TOML.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let set: Vec<String> = stage.set.iter().map(|change| quoted(change)).collect();
    format!("{{recipe={}, set=[{}]{hash}}}", quoted(&stage.recipe.to_string_lossy()), set.join(", "))
}

/// The recipe files of all stages of `recipe`, each once.
///
/// # Errors
/// As [`super::resolve`].
pub fn files(recipe: &Recipe) -> Result<Vec<PathBuf>, RunError> {
    let mut files = Vec::new();
    collect(&super::before(&mut recipe.clone(), &mut Vec::new())?, &mut files);
    Ok(files)
}

fn collect(stages: &[super::Stage], files: &mut Vec<PathBuf>) {
    for stage in stages {
        if !files.contains(&stage.file) {
            files.push(stage.file.clone());
        }
        collect(&stage.before, files);
    }
}
