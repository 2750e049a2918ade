//! A task: one problem instance with its checkable truth.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::Message;

/// Id of a task: `GENERATOR/...`, unique to its content within one generator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

impl std::fmt::Display for TaskId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One problem instance with its checkable truth.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Id of the task.
    pub id: TaskId,
    /// Id of the environment that plays it.
    pub environment: String,
    /// The messages that open the conversation: all that the policy sees at first.
    pub prompt: Vec<Message>,
    /// What the environment needs to play and verify the task. Never shown to the policy.
    pub truth: serde_json::Value,
    /// Labels by which results are broken down (size, agents, level ...).
    pub labels: BTreeMap<String, String>,
}
