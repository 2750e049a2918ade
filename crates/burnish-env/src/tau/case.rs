//! The benchmark's tasks: what the user is told, what should be done, and how it is judged.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use burnish_core::{FunctionCall, Task};

use super::ID;
use super::config::{Domain, Set};
use crate::EnvError;

/// A task of the benchmark; it is the truth of a [`Task`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) domain: Domain,
    pub(super) set: Set,
    /// Its id in the file.
    pub(super) id: String,
    /// What the user is told.
    pub(super) brief: Brief,
    /// The calls that do what the user wants, in order.
    pub(super) actions: Vec<Gold>,
    /// What the policy should say to the user.
    pub(super) communicate: Vec<String>,
    /// What decides on success.
    pub(super) basis: Vec<Basis>,
    /// Number of assertions in natural language, which nothing here judges.
    pub(super) assertions: usize,
}

/// What the user is told, part by part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Brief {
    /// Who the user is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) persona: Option<String>,
    /// What the user wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// What the user knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) known: Option<String>,
    /// What the user does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unknown: Option<String>,
    /// How the user behaves. In the first version it is all there is, and says everything.
    pub(super) instructions: String,
}

/// A call that should be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gold {
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
    /// The arguments that a call is compared in; all of the call's own if it is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) compared: Option<Vec<String>>,
}

/// A part of the verdict that decides on success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Basis {
    /// The database is as the gold calls leave it.
    #[serde(rename = "DB")]
    Db,
    /// The policy has said what it should.
    #[serde(rename = "COMMUNICATE")]
    Communicate,
    /// The policy has made every gold call.
    #[serde(rename = "ACTION")]
    Action,
    /// Assertions in natural language hold. Not judged here; what should be communicated stands in for them.
    #[serde(rename = "NL_ASSERTION")]
    Assertion,
}

impl Gold {
    pub(super) fn call(&self) -> FunctionCall {
        FunctionCall { name: self.name.clone(), arguments: Value::Object(self.arguments.clone()) }
    }

    /// Whether a call is this one, as tau2-bench compares them: in the arguments that are to be compared, or else in those
    /// that the call gives.
    pub(super) fn is_made_by(&self, call: &FunctionCall) -> bool {
        let parsed = match &call.arguments {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            value => value.clone(),
        };
        let empty = Map::new();
        let given = parsed.as_object().unwrap_or(&empty);
        let compared: Vec<&String> = match &self.compared {
            Some(names) => names.iter().collect(),
            None => given.keys().collect(),
        };
        let same = |name: &&String| match (given.get(*name), self.arguments.get(*name)) {
            (Some(one), Some(other)) => is_same(one, other),
            (None, None) => true,
            _ => false,
        };
        self.name == call.name && compared.iter().all(same)
    }
}

/// Whether two values are the same in Python, where 1 is 1.0.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value): (&String, &Value)| other.get(key).is_some_and(|it| is_same(value, it));
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}

impl Case {
    /// Reads the truth of a task.
    ///
    /// # Errors
    /// If the task is not one of this environment.
    pub(super) fn of(task: &Task) -> Result<Case, EnvError> {
        Case::deserialize(&task.truth)
            .map_err(|error| EnvError::Foreign(format!("task {} is not one of {ID}: {error}", task.id)))
    }

    pub(super) fn counts(&self, basis: Basis) -> bool {
        self.basis.contains(&basis)
    }

    /// Whether what the policy says decides on success: by itself, or in place of assertions that nothing here judges.
    pub(super) fn counts_what_is_said(&self) -> bool {
        self.counts(Basis::Communicate) || self.counts(Basis::Assertion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gold(compared: Option<&[&str]>) -> Gold {
        let arguments = json!({"id": "A1", "count": 2, "list": [1, {"x": 2}]});
        let compared = compared.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Gold { name: "book".into(), arguments: arguments.as_object().unwrap().clone(), compared }
    }

    #[test]
    fn calls_are_compared_in_their_own_arguments_or_in_those_that_are_named() {
        let call = |arguments: Value| FunctionCall { name: "book".into(), arguments };
        for (compared, arguments, is_same) in [
            (None, json!({"list": [1.0, {"x": 2}], "count": 2.0, "id": "A1"}), true),
            (None, json!("{\"id\": \"A1\", \"count\": 2}"), true),
            (None, json!({"id": "A1"}), true),
            (None, json!({"id": "A2"}), false),
            (None, json!({"id": "A1", "more": 1}), false),
            (None, json!({"list": [1]}), false),
            (Some(&["id"][..]), json!({"id": "A1", "count": 9}), true),
            (Some(&["id"][..]), json!({"count": 2}), false),
            (Some(&[][..]), json!({"id": "other"}), true),
        ] {
            assert_eq!(
                gold(compared).is_made_by(&call(arguments.clone())),
                is_same,
                "{compared:?} {arguments}"
            );
        }
        assert!(!gold(Some(&[])).is_made_by(&FunctionCall { name: "cancel".into(), arguments: json!({}) }));
    }
}
