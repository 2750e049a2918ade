//! The rounds before a run.

use std::path::Path;

use burnish_rundir::report::{DesignTold, Evaluated, RoundTold, Rounds};
use serde_json::Value;

use crate::RunError;
use crate::redesign::{Design, Record, short};
use burnish_recipe::Recipe;
use burnish_rundir::metrics::{self, Row};

/// The rounds of which the run in `dir` is the last; `None` if it is none.
///
/// # Errors
/// If the record of the rounds can't be read.
pub(super) fn of(
    dir: &Path,
    recipe: &Recipe,
    rows: &[Row],
    main: &Evaluated,
) -> Result<Option<Rounds>, RunError> {
    let Some(record) = Record::read(dir)? else { return Ok(None) };
    let mut keys: Vec<String> = record.rounds.iter().flat_map(|round| round.values.keys().cloned()).collect();
    keys.sort();
    keys.dedup();
    let values = |value: &dyn Fn(&str) -> Option<f64>| -> Vec<String> {
        keys.iter().map(|key| value(key).map_or_else(|| "none".to_owned(), short)).collect()
    };
    let mut rounds: Vec<RoundTold> = record
        .rounds
        .iter()
        .map(|round| RoundTold {
            values: values(&|key| round.values.get(key).copied()),
            played: round.played.to_string(),
            result: result(round.evaluation.all.success, round.evaluation.all.reward),
            dir: round.dir.display().to_string(),
        })
        .collect();
    let own = |key: &str| {
        key.split('.').try_fold(&recipe.env.config, |table, part| table.get(part)).and_then(Value::as_f64)
    };
    let played: f64 =
        rows.iter().filter(|row| row.event == metrics::TRAIN).filter_map(|row| row.values.get("tasks")).sum();
    let last = main.steps.iter().rev().find(|at| at.step > 0).map(|at| &at.summary);
    rounds.push(RoundTold {
        values: values(&own),
        played: (played as usize).to_string(),
        result: last.map_or_else(
            || "not evaluated yet".to_owned(),
            |last| result(last.success.map(|it| it.mean), last.reward.map(|it| it.mean)),
        ),
        dir: "this run".to_owned(),
    });
    let engineer = serde_json::to_value(record.engineer).unwrap_or_default();
    Ok(Some(Rounds {
        engineer: engineer.as_str().unwrap_or_default().to_owned(),
        keys,
        rounds,
        designs: record.designs.iter().map(told).collect(),
    }))
}

fn result(success: Option<f64>, reward: Option<f64>) -> String {
    let success = success.map(|rate| format!("success {:.1} %", 100.0 * rate));
    let reward = reward.map(|reward| format!("reward {reward:.3}"));
    success.into_iter().chain(reward).collect::<Vec<_>>().join(", ")
}

fn told(design: &Design) -> DesignTold {
    let last = design.attempts.last();
    let mut changes = Vec::new();
    for change in last.iter().flat_map(|attempt| &attempt.changes) {
        let was = change.was.map_or_else(|| "none".to_owned(), short);
        let asked = match change.asked {
            Some(asked) if asked != change.is => format!(", asked for {}", short(asked)),
            _ => String::new(),
        };
        let note = change.note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
        changes.push(format!("{}: {was} to {}{asked}{note}", change.key, short(change.is)));
    }
    for rejected in last.iter().flat_map(|attempt| &attempt.rejected) {
        changes.push(format!("{}: not taken over: {}", rejected.key, rejected.problem));
    }
    let problem = last.and_then(|attempt| attempt.problem.as_ref()).filter(|_| !design.is_taken);
    changes.extend(problem.map(|problem| format!("the environment stays as it is: {problem}")));
    let asked = match design.attempts.len() {
        1 => String::new(),
        often => format!(", asked {often} times"),
    };
    DesignTold {
        title: format!("Design of round {}{asked}", design.round),
        reason: last.map(|attempt| attempt.reason.clone()).unwrap_or_default(),
        changes,
        saw: design.saw.clone(),
        said: last.map(|attempt| attempt.said.clone()).unwrap_or_default(),
    }
}
