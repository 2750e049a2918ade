//! The rounds before a run, which its configuration has on record.

use std::path::Path;

use burnish_reason::design::{Configuration, short};
use burnish_rundir::report::{DesignTold, Evaluated, RoundTold, Rounds};
use serde_json::Value;

use crate::RunError;
use crate::artefact::read_config;
use burnish_recipe::Recipe;
use burnish_rundir::metrics::{self, Row};
use burnish_rundir::run_dir;

/// The rounds of which the run in `dir` is the last; `None` if no other run made its configuration.
///
/// # Errors
/// If that can't be read.
pub(super) fn of(
    dir: &Path,
    recipe: &Recipe,
    rows: &[Row],
    main: &Evaluated,
) -> Result<Option<Rounds>, RunError> {
    if recipe.env.config_from.is_none() {
        return Ok(None);
    }
    let made = read_config(&dir.join(run_dir::START_CONFIG), &recipe.env.id)?;
    let mut keys: Vec<String> = made.history.iter().flat_map(|round| round.values.keys().cloned()).collect();
    keys.sort();
    keys.dedup();
    let values = |value: &dyn Fn(&str) -> Option<f64>| -> Vec<String> {
        keys.iter().map(|key| value(key).map_or_else(|| "none".to_owned(), short)).collect()
    };
    let mut rounds: Vec<RoundTold> = made
        .history
        .iter()
        .map(|round| RoundTold {
            values: values(&|key| round.values.get(key).copied()),
            reason: round.reason.clone(),
            played: round.played.to_string(),
            result: result(round.evaluation.all.success, round.evaluation.all.reward),
        })
        .collect();
    let own = |key: &str| {
        key.split('.').try_fold(&made.config, |table, part| table.get(part)).and_then(Value::as_f64)
    };
    let played: f64 =
        rows.iter().filter(|row| row.event == metrics::TRAIN).filter_map(|row| row.values.get("tasks")).sum();
    let last = main.steps.iter().rev().find(|at| at.step > 0).map(|at| &at.summary);
    rounds.push(RoundTold {
        values: values(&own),
        reason: made.reason.clone(),
        played: (played as usize).to_string(),
        result: last.map_or_else(
            || "not evaluated yet".to_owned(),
            |last| result(last.success.map(|it| it.mean), last.reward.map(|it| it.mean)),
        ),
    });
    Ok(Some(Rounds { keys, rounds, design: told(made) }))
}

fn result(success: Option<f64>, reward: Option<f64>) -> String {
    let success = success.map(|rate| format!("success {:.1} %", 100.0 * rate));
    let reward = reward.map(|reward| format!("reward {reward:.3}"));
    success.into_iter().chain(reward).collect::<Vec<_>>().join(", ")
}

fn told(mut made: Configuration) -> DesignTold {
    let mut changes = Vec::new();
    if made.attempts.len() > 1 {
        changes.push(format!("{} answers were tried; this is the last one", made.attempts.len()));
    }
    let last = made.attempts.pop().unwrap_or_default();
    for change in &last.changes {
        let was = change.was.map_or_else(|| "none".to_owned(), short);
        let asked = match change.asked {
            Some(asked) if asked != change.is => format!(", asked for {}", short(asked)),
            _ => String::new(),
        };
        let note = change.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        changes.push(format!("{}: {was} to {}{asked}{note}", change.key, short(change.is)));
    }
    for rejected in &last.rejected {
        changes.push(format!("{}: not taken over: {}", rejected.key, rejected.problem));
    }
    changes.extend(last.problem.map(|problem| format!("the environment stays as it is: {problem}")));
    DesignTold { changes, told: made.told, said: last.said }
}
