//! What may be changed in the recipe of a run that has begun.

use std::path::Path;

use burnish_rundir::run_dir::RECORD;
use burnish_train::schedule::Decay;
use serde_json::Value;

use super::inputs;
use super::record::{Change, Record};
use crate::RunError;
use crate::stages;
use burnish_recipe::{Difference, Method, Recipe, Source, all_differences, paths};

/// Keys that do not affect a step's result: places, speed, the length of the run, and what is logged or measured.
const FREE: &[&str] = &[
    "run.dir",
    "run.cache",
    "run.threads",
    "train.max_steps",
    "train.activation_checkpointing",
    "eval.every",
    "checkpoint.every",
    "checkpoint.keep",
    "metrics.tensorboard",
    "metrics.names",
    "rollout.batch_max",
    "rollout.cache_mib",
    "policy.from.recipe",
    "teacher.from.recipe",
    "judge.endpoint.url",
    "user.endpoint.url",
    "engine.urls",
    "engine.model",
    "engine.requests_max",
    "engine.adapters",
    "engine.weights_dir",
    "engine.weights_dir_there",
    "engine.update_seconds",
    "engine.tolerance",
    "trainer.url",
    "trainer.requests_max",
    "trainer.away_seconds",
];

/// Suffixes of keys about how a program or server is contacted, such as timeouts and retries.
const FREE_ENDS: &[&str] = &[
    ".timeout_seconds",
    ".startup_seconds",
    ".retries",
    ".retry_wait_seconds",
    ".api_key_env",
    ".base_dir",
    ".verifier.command",
    ".config.command",
    ".config.workers",
];

/// Keys of a server whose tools a policy has (`env.config.servers.NAME`): how it is started or reached.
const FREE_OF_SERVERS: &[&str] = &["command", "env", "url", "headers_env", "workers"];

/// The keys that an error suggests: those that people change for a reason.
const TOLD: &str = "`train.max_steps`, `eval.every`, `checkpoint.*`, `run.threads`, `metrics.tensorboard`, `metrics.names`, \
                    and where files lie";

/// The changes that were found.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// What to tell a person.
    pub(super) notes: Vec<String>,
    pub(super) list: Vec<Change>,
}

/// What differs between the recipe of `record` and `written`, the text of `recipe.toml` with overrides, for the run
/// in `dir` that has saved `step` steps.
///
/// If something differs that may not.
/// If something differs that may not.
pub(super) fn between(
    record: &Record,
    written: &Recipe,
    source: &Source,
    dir: &Path,
    step: Option<u64>,
) -> Result<Changed, RunError> {
    let began: Recipe = Source::parse_of_run(RECORD, &record.recipe)?.decode()?;
    let places = path_keys(written)?;
    let all = all_differences(&value(&began), &value(written));
    let (free, fixed): (Vec<Difference>, Vec<Difference>) =
        all.into_iter().partition(|difference| may_change(difference, &places));
    if !fixed.is_empty() {
        return Err(refused(&fixed, source, dir, step));
    }
    accepted(&free, &began, written, dir, step)
}

/// What overrides change in a run whose start is not recorded.
///
/// # Errors
/// If something differs that may not.
pub(super) fn without_record(
    dir: &Path,
    overrides: &[String],
    written: &Recipe,
    step: Option<u64>,
) -> Result<Changed, RunError> {
    let began: Recipe = super::source(dir, &[])?.decode()?;
    let source = super::source(dir, overrides)?;
    let places = path_keys(written)?;
    let all = all_differences(&value(&began), &value(written));
    let (free, fixed): (Vec<Difference>, Vec<Difference>) =
        all.into_iter().partition(|difference| may_change(difference, &places));
    if !fixed.is_empty() {
        return Err(refused(&fixed, &source, dir, step));
    }
    accepted(&free, &began, written, dir, step)
}

fn value(recipe: &Recipe) -> Value {
    serde_json::to_value(stages::as_written(recipe).with_first_defaults()).unwrap_or_default()
}

/// The keys of data files and models, whose content is compared instead; a list of files counts as one.
fn path_keys(recipe: &Recipe) -> Result<Vec<String>, RunError> {
    let mut keys = Vec::new();
    paths::each(&mut value(recipe), &mut |place| {
        let input = inputs::at(&place);
        keys.extend(input.map(
            |input| match input.key.strip_suffix(']').and_then(|key| key.rsplit_once('[')) {
                Some((list, _)) => list.to_owned(),
                None => input.key,
            },
        ));
        Ok::<(), RunError>(())
    })?;
    Ok(keys)
}

fn may_change(Difference { key, there, here }: &Difference, places: &[String]) -> bool {
    // There are as many files as before; their content is compared.
    let is_moved = || match (there, here) {
        (Some(Value::Array(there)), Some(Value::Array(here))) => there.len() == here.len(),
        (there, here) => [there, here].into_iter().all(|value| value.as_ref().is_some_and(Value::is_string)),
    };
    let is_free = FREE.contains(&key.as_str())
        || FREE_ENDS.iter().any(|end| key.ends_with(end))
        || of_server(key).is_some_and(|own| FREE_OF_SERVERS.contains(&own));
    is_free || (places.contains(key) && is_moved())
}

/// The key of a server's own table that this key is, or is below.
fn of_server(key: &str) -> Option<&str> {
    let (_, own) = key.split_once(".config.servers.")?.1.split_once('.')?;
    own.split('.').next()
}

fn refused(fixed: &[Difference], source: &Source, dir: &Path, step: Option<u64>) -> RunError {
    let lines: Vec<String> = fixed
        .iter()
        .map(|difference| {
            let (was, is) = difference.values();
            let place = source.error(&difference.key, String::new()).place;
            format!("  `{}`: {was} when the run began, {is} now ({place})", difference.key)
        })
        .collect();
    let start = match step {
        Some(step) => {
            let checkpoint = dir.join(burnish_rundir::run_dir::CHECKPOINTS).join(format!("step_{step}"));
            format!("a new run whose `policy.path` is `{}`", checkpoint.display())
        }
        None => "a new run".to_owned(),
    };
    RunError::Refused(format!(
        "the recipe of `{}` was changed in what decides its steps:\n{}\nundo that, or begin {start}; only these may change \
         in a run that has begun: {TOLD}",
        dir.display(),
        lines.join("\n")
    ))
}

fn accepted(
    free: &[Difference],
    began: &Recipe,
    written: &Recipe,
    dir: &Path,
    step: Option<u64>,
) -> Result<Changed, RunError> {
    let mut changed = Changed::default();
    for difference in free.iter().filter(|difference| difference.key != "run.dir") {
        let (was, is) = difference.values();
        changed.notes.push(format!("changed: `{}` was {was}, and is {is} from now on", difference.key));
        changed.list.push(Change {
            step: 0,
            key: difference.key.clone(),
            was: difference.there.clone(),
            is: difference.here.clone(),
        });
    }
    let (steps, done) = (written.train.max_steps, step.unwrap_or(0));
    if steps == began.train.max_steps {
        return Ok(changed);
    }
    if steps < done.max(1) {
        return Err(RunError::Refused(format!(
            "`train.max_steps` = {steps}: `{}` has done {done} steps already; give {} or more",
            dir.display(),
            done.max(1)
        )));
    }
    let depends = depends_on_length(written);
    if !depends.is_empty() && done > 0 {
        changed.notes.push(format!(
            "{} follow{} `train.max_steps`: from step {} on they are those of a run of {steps} steps, and those before were \
             of one of {}; a run that had {steps} from its start would come to other weights",
            depends.join(" and "),
            if depends.len() == 1 { "s" } else { "" },
            done + 1,
            began.train.max_steps
        ));
    }
    Ok(changed)
}

/// Settings of a recipe that depend on the number of its steps.
fn depends_on_length(recipe: &Recipe) -> Vec<String> {
    let mut found = Vec::new();
    if recipe.optimizer.schedule != Decay::Constant {
        let name = serde_json::to_value(recipe.optimizer.schedule).unwrap_or_default();
        found.push(format!("the learning rate (`optimizer.schedule` = {name})"));
    }
    if let Some(plan) = recipe.plan.as_ref().filter(|_| recipe.train.method == Method::Grpo) {
        found.push(format!("what is sampled (`plan.plan` = \"{}\")", plan.plan));
    }
    found
}
