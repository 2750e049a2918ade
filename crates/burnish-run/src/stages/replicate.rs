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
    let eval_seed = recipe.eval.seed;
    for stage in recipe.rounds.iter_mut().flat_map(|rounds| &mut rounds.stage) {
        let mut from = StageRecipe { recipe: stage.recipe.clone(), set: stage.set.clone(), hash: None };
        replicate_stage(&mut from, seed, eval_seed)?;
        stage.set = from.set;
    }
    for of in StageUse::of(recipe) {
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
        from.set.push(format!("{}={}", override_key(of), as_override(&before)));
    }
    Ok(())
}

/// Overrides write the number of a list's item like a key: `weights.models.0.from`.
fn override_key(of: StageUse) -> String {
    of.key().replace('[', ".").replace(']', "")
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

fn collect(before: &super::Before, files: &mut Vec<PathBuf>) {
    for stage in before.all() {
        if !files.contains(&stage.file) {
            files.push(stage.file.clone());
        }
        collect(&stage.before, files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_recipe::Source;

    #[test]
    fn a_seed_changes_the_stages_of_surgery_too() {
        let dir = tempfile::tempdir().unwrap();
        let sft = dir.path().join("sft.toml");
        let text = "[run]\ndir = \"x\"\nseed = 7\n[policy]\npath = \"p\"\n[env]\nid = \"countdown\"\n[train]\nmethod = \
                    \"sft\"\nmax_steps = 1\n[[data.demonstrations]]\nenv = \"countdown\"\ntasks = 5\n";
        std::fs::write(&sft, text).unwrap();
        let mixed = dir.path().join("mixed.toml");
        let text = format!(
            "[run]\ndir = \"x\"\n[weights]\nmethod = \"ties\"\nbase_model = {{ path = \"p\" }}\nmodels = [{{ path = \"q\" }}, \
             {{ from = {sft:?} }}]\n[train]\nmethod = \"none\"\n"
        );
        std::fs::write(&mixed, text).unwrap();
        // As a run of its own, and as the stage of another run.
        let mut own = Recipe::read(&mixed, &[]).unwrap();
        replicate(&mut own, 3).unwrap();
        let text = format!("[run]\ndir = \"x\"\n[policy]\nfrom = {mixed:?}\n[train]\nmethod = \"none\"\n");
        let mut run = Recipe::resolve(&Source::parse("run.toml", &text, &[]).unwrap()).unwrap();
        replicate(&mut run, 3).unwrap();
        let from = run.policy.from.unwrap();
        for mixed in [own, Recipe::read(&from.recipe, &from.set).unwrap()] {
            let from = mixed.weights.unwrap().models[1].from.clone().unwrap();
            let stage = Recipe::read(&from.recipe, &from.set).unwrap();
            assert_eq!((stage.run.seed, stage.eval.seed), (7 + 3 * STAGE_STRIDE, mixed.eval.seed));
        }
    }

    #[test]
    fn a_seed_changes_every_stage_of_a_chain_and_holds_out_the_same_tasks_in_all_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, start: &str, method: &str| {
            let path = dir.path().join(name);
            let text = format!(
                "[run]\ndir = \"x\"\nseed = 7\n[policy]\n{start}\n[env]\nid = \"countdown\"\n[train]\nmethod = \"{method}\"\n\
                 max_steps = 1\n"
            );
            let data = "[[data.demonstrations]]\nenv = \"countdown\"\ntasks = 5\n";
            std::fs::write(&path, if method == "sft" { text + data } else { text }).unwrap();
            path
        };
        let from =
            |path: &std::path::Path| format!("from = {{ recipe = {path:?}, set = [\"eval.tasks=9\"] }}");
        let first = write("first.toml", "path = \"p\"", "sft");
        let second = write("second.toml", &from(&first), "sft");
        let run = write("run.toml", &from(&second), "grpo");
        let replicated = |seed| {
            let mut recipe = Recipe::resolve(&Source::read(&run, &[]).unwrap()).unwrap();
            replicate(&mut recipe, seed).unwrap();
            recipe
        };
        let chain = |seed| {
            let mut recipes = vec![replicated(seed)];
            while let Some(from) = recipes.last().and_then(|recipe| recipe.policy.from.clone()) {
                recipes.push(Recipe::read(&from.recipe, &from.set).unwrap());
            }
            recipes
        };
        let (three, four) = (chain(3), chain(4));
        let seeds = |chain: &[Recipe]| chain.iter().map(|recipe| recipe.run.seed).collect::<Vec<_>>();
        assert_eq!(seeds(&three), [3, 7 + 3 * STAGE_STRIDE, 7 + 3 * STAGE_STRIDE]);
        assert_eq!(seeds(&four), [4, 7 + 4 * STAGE_STRIDE, 7 + 4 * STAGE_STRIDE]);
        assert!(three.iter().all(|recipe| recipe.eval.seed == three[0].eval.seed));
        assert_eq!(four[0].eval.seed, three[0].eval.seed + 1);
        assert!(three[1..].iter().all(|recipe| recipe.eval.tasks == 9), "what a stage was changed in stays");
    }
}
