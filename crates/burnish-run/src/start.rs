//! What is looked at before anything is made for a run.

use std::path::PathBuf;

use burnish_env::FileRows;
use burnish_model::{check_finite, load_chat};
use burnish_recipe::{Recipe, StageUse};

use crate::RunError;
use crate::memory::outline;
use crate::policy::{named_template, without_template};
use crate::stages::{Origin, origin};

/// Makes sure that the policy can be read: its configuration, tokenizer, chat template, and that its weights are numbers.
///
/// # Errors
/// Names the file, or what is missing.
pub fn check_policy(recipe: &Recipe) -> Result<(), RunError> {
    // A server has the weights; here are a tokenizer and a configuration.
    let is_bare = |path: &&PathBuf| recipe.trainer.is_some() && path.join("tokenizer.json").is_file();
    let from = match recipe.policy.path.as_ref().filter(is_bare) {
        Some(path) => Origin::Dir(path.clone()),
        None => origin(StageUse::Policy, recipe).map_err(|error| match recipe.policy.path {
            Some(_) => RunError::Refused(format!("policy.path: {error}")),
            None => error,
        })?,
    };
    if recipe.trainer.is_none() {
        outline(&from, &recipe.policy.sampling())?;
    }
    let template = named_template(recipe.policy.chat_template.as_deref())?;
    match from {
        Origin::Dir(dir) => {
            load_chat(&dir, template).map_err(without_template)?;
            if recipe.trainer.is_none() {
                check_finite(&dir)?;
            }
            Ok(())
        }
        Origin::New(_) => Ok(()),
    }
}

/// Makes sure that a file has rows to train on beside those that are held out. It reads the file; a run finds out when it makes
/// its tasks.
///
/// # Errors
/// If it has none.
pub fn check_rows(recipe: &Recipe) -> Result<(), RunError> {
    if !recipe.plays() || recipe.env.tasks.file().is_some() || recipe.eval.config.is_some() {
        return Ok(());
    }
    let generator = burnish_env::build(&recipe.env.id, &recipe.env.config)?;
    let held_out = recipe.eval.tasks;
    match generator.rows().map(FileRows::count) {
        Some(rows) if held_out >= rows => Err(RunError::Refused(format!(
            "eval.tasks: is {held_out}, so that all {rows} rows are held out and none is left to train on: set it lower, or give \
             evaluation its own data in `eval.config`"
        ))),
        _ => Ok(()),
    }
}
