//! No stage may be trained on tasks that a later stage is evaluated on, nor on the other part of a split.

use std::collections::BTreeSet;

use burnish_core::TaskId;

use super::{Stage, calibration};
use crate::RunError;
use crate::offline::demonstrated;
use crate::tasks::Tasks;
use burnish_recipe::{MakeKind, MakeSection, Method, Recipe, StageUse};

/// Refuses if `stage`, or one before it, is trained on tasks that `recipe` holds out, or if one imitates and the
/// other plays parts of a split that share tasks.
pub(super) fn refuse(recipe: &Recipe, stage: &Stage) -> Result<(), RunError> {
    let tasks = Tasks::make(recipe, false)?;
    let held_out = tasks.held_out_ids();
    let mut own = None;
    let mut open = vec![stage.clone()];
    while let Some(stage) = open.pop() {
        let key = stage.of.key();
        refuse_unknown(&held_out, &stage)?;
        let trained = trained_on(&stage.recipe)?;
        let shared = held_out.iter().filter(|id| trained.contains(**id)).count();
        if shared > 0 {
            return Err(RunError::Refused(format!(
                "{key}: {} trains on {shared} of the {} tasks that are held out for evaluation here; give both \
                 recipes the same `eval.tasks`, `eval.seed`, `eval.config` (or `env.config`) and `eval.extra`",
                stage.file.display(),
                held_out.len()
            )));
        }
        // A teacher may know the tasks that are played, because it is not trained any more.
        let is_continued = stage.of == StageUse::Policy && recipe.train.method == Method::Grpo;
        if recipe.env.split.is_some() && is_split(&stage.recipe) && is_continued {
            let own = own.get_or_insert(trained_on(recipe)?);
            let shared = own.intersection(&trained).count();
            if shared > 0 {
                return Err(RunError::Refused(format!(
                    "{key}: {} trains on {shared} of the {} tasks that are trained on here, although both are split; \
                     give both the same environment, `tasks`, held-out tasks and `split`, and to one of them the bound \
                     that leaves what the other keeps",
                    stage.file.display(),
                    own.len()
                )));
            }
        }
        open.extend(stage.before.all());
    }
    Ok(())
}

/// What a stage is trained on is not known before the configuration is made that it plays in, nor what a function makes before it
/// has run. Each leaves out what its own recipe holds out, so that must include everything that is held out later.
fn refuse_unknown(held_out: &BTreeSet<&TaskId>, stage: &Stage) -> Result<(), RunError> {
    let is_program = |make: &MakeSection| make.program.is_some() && make.kind != MakeKind::Config;
    let why = match &stage.recipe {
        recipe if recipe.env.config_from.is_some() => {
            "plays in a configuration that another recipe makes, and"
        }
        recipe if recipe.make.as_ref().is_some_and(is_program) => "makes tasks by a function, and",
        _ => return Ok(()),
    };
    let own = Tasks::make(&stage.recipe, false)?;
    let own = own.held_out_ids();
    let missing = held_out.iter().filter(|id| !own.contains(*id)).count();
    if missing == 0 {
        return Ok(());
    }
    Err(RunError::Refused(format!(
        "{}: {} {why} does not hold out {missing} of the {} tasks that are held out for evaluation here, so they might be \
         trained on; give both recipes the same `eval.tasks`, `eval.seed`, \
         `eval.config` and `eval.extra`",
        stage.of.key(),
        stage.file.display(),
        held_out.len()
    )))
}

/// Whether a recipe imitates a part of a split.
fn is_split(recipe: &Recipe) -> bool {
    recipe.train.method == Method::Sft && recipe.data.demonstrations.iter().any(|set| set.split.is_some())
}

fn trained_on(recipe: &Recipe) -> Result<BTreeSet<TaskId>, RunError> {
    // Tasks that another recipe has yet to make are some of those that it plays itself, and it is looked at too.
    let is_known = recipe.env.tasks.file().is_none_or(|tasks| tasks.place().is_some())
        && recipe.env.config_from.is_none();
    let tasks = Tasks::make(recipe, recipe.plays() && is_known)?;
    let held_out = tasks.held_out_ids();
    let mut trained: BTreeSet<TaskId> = tasks.train.iter().map(|task| task.id.clone()).collect();
    if recipe.train.method == Method::Sft {
        for index in 0..recipe.data.demonstrations.len() {
            let (_, tasks) = demonstrated(recipe, index, &held_out)?;
            trained.extend(tasks.into_iter().map(|task| task.id));
        }
    }
    if let Some((_, tasks)) = calibration::tasks(recipe)? {
        trained.extend(tasks.into_iter().map(|task| task.id));
    }
    Ok(trained)
}
