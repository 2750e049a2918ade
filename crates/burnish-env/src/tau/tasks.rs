//! Reads the benchmark's tasks: those of tau2-bench, and those of tau-bench, which its published episodes carry.

use std::collections::BTreeMap;
use std::path::Path;

use burnish_core::names;
use burnish_data::DataError;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::case::{Basis, Brief, Case, Gold};
use super::config::{Domain, Set};
use super::data::read_json;
use super::world::tools;
use crate::EnvError;
use crate::settings::config_error;

/// A task of tau2-bench. Keys that say nothing about playing and judging (`description`, `annotations`) are not read.
#[derive(Deserialize)]
struct Second {
    id: String,
    user_scenario: Scenario,
    #[serde(default)]
    initial_state: Option<Value>,
    evaluation_criteria: Criteria,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    persona: Option<String>,
    instructions: Instructions,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Instructions {
    Text(String),
    Parts(Parts),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    task_instructions: String,
    #[serde(rename = "domain")]
    _domain: String,
    reason_for_call: String,
    known_info: Option<String>,
    unknown_info: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Criteria {
    #[serde(default)]
    actions: Option<Vec<Action>>,
    #[serde(default)]
    env_assertions: Option<Vec<Value>>,
    #[serde(default)]
    communicate_info: Option<Vec<String>>,
    #[serde(default)]
    nl_assertions: Option<Vec<String>>,
    reward_basis: Vec<Basis>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Action {
    #[serde(rename = "action_id")]
    _id: String,
    #[serde(default)]
    requestor: Option<String>,
    name: String,
    arguments: Map<String, Value>,
    #[serde(default, rename = "info")]
    _info: Option<String>,
    #[serde(default)]
    compare_args: Option<Vec<String>>,
}

/// A published episode of tau-bench, of which only the task is read.
#[derive(Deserialize)]
struct Played {
    task_id: u64,
    info: Info,
}

#[derive(Deserialize)]
struct Info {
    task: First,
}

/// A task of tau-bench.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct First {
    #[serde(rename = "user_id")]
    _user_id: String,
    actions: Vec<FirstAction>,
    instruction: String,
    outputs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstAction {
    name: String,
    kwargs: Map<String, Value>,
}

/// The name with which tau-bench notes that something is said to the user; no tool is called so.
const RESPOND: &str = "respond";

fn wrong(file: &Path, id: &str, problem: &str) -> EnvError {
    DataError::file(file, format!("task {id}: {problem}")).into()
}

/// Refuses a gold call of a tool that there is not.
fn check_tools(file: &Path, case: Case) -> Result<Case, EnvError> {
    let is_known = |gold: &&Gold| !tools(case.domain, case.set).any(|tool| tool.name == gold.name);
    match case.actions.iter().find(is_known) {
        Some(gold) => Err(wrong(file, &case.id, &format!("there is no tool `{}`", gold.name))),
        None => Ok(case),
    }
}

/// The tasks of tau2-bench's `tasks.json`.
///
/// # Errors
/// If the file is not in its format, or asks for something that these domains do not have.
pub(super) fn read_second(file: &Path, domain: Domain) -> Result<Vec<Case>, EnvError> {
    let rows: Vec<Value> = read_json(file)?;
    let mut cases = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let id = row.get("id").and_then(Value::as_str).map_or_else(|| format!("number {at}"), str::to_owned);
        let task = Second::deserialize(row).map_err(|error| wrong(file, &id, &error.to_string()))?;
        let Criteria { actions, env_assertions, communicate_info, nl_assertions, reward_basis } =
            task.evaluation_criteria;
        if task.initial_state.is_some() {
            return Err(wrong(
                file,
                &id,
                "`initial_state` must be null: tasks start from the database as it is",
            ));
        }
        if env_assertions.is_some_and(|assertions| !assertions.is_empty()) {
            return Err(wrong(file, &id, "`env_assertions` must be empty: these domains have none"));
        }
        let brief = match task.user_scenario.instructions {
            Instructions::Text(instructions) => Brief { instructions, ..Brief::default() },
            Instructions::Parts(parts) => Brief {
                persona: None,
                reason: Some(parts.reason_for_call),
                known: parts.known_info,
                unknown: parts.unknown_info,
                instructions: parts.task_instructions,
            },
        };
        let mut golds = Vec::new();
        for Action { requestor, name, arguments, compare_args, .. } in actions.unwrap_or_default() {
            if requestor.is_some_and(|who| who != "assistant") {
                return Err(wrong(
                    file,
                    &id,
                    "an action's `requestor` must be \"assistant\": users have no tools here",
                ));
            }
            golds.push(Gold { name, arguments, compared: compare_args });
        }
        let case = Case {
            domain,
            set: Set::Tau2,
            id: task.id,
            brief: Brief { persona: task.user_scenario.persona, ..brief },
            actions: golds,
            communicate: communicate_info.unwrap_or_default(),
            basis: reward_basis,
            assertions: nl_assertions.map_or(0, |assertions| assertions.len()),
        };
        cases.push(check_tools(file, case)?);
    }
    Ok(cases)
}

/// The tasks of tau-bench, from a file of published episodes; each task once, in their order.
///
/// # Errors
/// If the file is not in its format.
pub(super) fn read_first(file: &Path, domain: Domain) -> Result<Vec<Case>, EnvError> {
    let rows: Vec<Value> = read_json(file)?;
    let mut cases: BTreeMap<u64, Case> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let problem = |error: serde_json::Error| DataError::file(file, format!("episode {at}: {error}"));
        let Played { task_id, info: Info { task } } = Played::deserialize(row).map_err(problem)?;
        if cases.contains_key(&task_id) {
            continue;
        }
        let calls = task.actions.into_iter().filter(|action| action.name != RESPOND);
        let golds =
            calls.map(|FirstAction { name, kwargs }| Gold { name, arguments: kwargs, compared: None });
        let case = Case {
            domain,
            set: Set::Tau,
            id: task_id.to_string(),
            brief: Brief { instructions: task.instruction, ..Brief::default() },
            actions: golds.collect(),
            communicate: task.outputs,
            basis: vec![Basis::Db, Basis::Communicate],
            assertions: 0,
        };
        cases.insert(task_id, check_tools(file, case)?);
    }
    Ok(cases.into_values().collect())
}

/// The tasks of a split, in the order of the tasks.
///
/// # Errors
/// If there is no such split, or it names a task that there is not.
pub(super) fn read_split(file: &Path, split: &str, cases: Vec<Case>) -> Result<Vec<Case>, EnvError> {
    let splits: BTreeMap<String, Vec<String>> = read_json(file)?;
    let Some(ids) = splits.get(split) else {
        let known = || splits.keys().map(String::as_str);
        let near = names::nearest(split, known()).map(|near| format!("; did you mean `{near}`?"));
        let listed = known().collect::<Vec<_>>().join(", ");
        let problem = format!(
            "there is no `{split}` in {}{}; there are {listed}",
            file.display(),
            near.unwrap_or_default()
        );
        return Err(config_error("split", &problem));
    };
    if let Some(id) = ids.iter().find(|id| !cases.iter().any(|case| case.id == **id)) {
        return Err(DataError::file(file, format!("{split}: there is no task `{id}`")).into());
    }
    Ok(cases.into_iter().filter(|case| ids.contains(&case.id)).collect())
}
