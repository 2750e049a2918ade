//! No stage may be trained on what a later one is evaluated on.

use std::collections::BTreeSet;

use burnish_core::TaskId;

use super::Stage;
use crate::RunError;
use crate::corpus::demonstrated;
use crate::recipe::{Method, Recipe};
use crate::tasks::Tasks;

/// Refuses to go on where `stage`, or one before it, is trained on tasks that `recipe` holds out.
pub(super) fn refuse(recipe: &Recipe, stage: &Stage) -> Result<(), RunError> {
    let eval = Tasks::make(recipe, false)?.eval;
    let held_out: BTreeSet<&TaskId> = eval.iter().map(|task| &task.id).collect();
    let mut next = Some(stage);
    while let Some(stage) = next {
        let trained = trained_on(&stage.recipe)?;
        let shared = held_out.iter().filter(|id| trained.contains(**id)).count();
        if shared > 0 {
            return Err(RunError::Refused(format!(
                "policy.from: {} trains on {shared} of the {} tasks that are held out for evaluation here; give both \
                 recipes the same `eval.tasks`, `eval.seed` and `eval.config` (or `env.config`)",
                stage.file.display(),
                held_out.len()
            )));
        }
        next = stage.before.as_deref();
    }
    Ok(())
}

fn trained_on(recipe: &Recipe) -> Result<BTreeSet<TaskId>, RunError> {
    let tasks = Tasks::make(recipe, recipe.train.method == Method::Grpo)?;
    let held_out: BTreeSet<&TaskId> = tasks.eval.iter().map(|task| &task.id).collect();
    let mut trained: BTreeSet<TaskId> = tasks.train.iter().map(|task| task.id.clone()).collect();
    if recipe.train.method == Method::Sft {
        for index in 0..recipe.data.demonstrations.len() {
            let (_, tasks) = demonstrated(recipe, index, &held_out)?;
            trained.extend(tasks.into_iter().map(|task| task.id));
        }
    }
    Ok(trained)
}
