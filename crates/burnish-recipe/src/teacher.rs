//! `[teacher]`: who grades every token that the policy sampled.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::StageRecipe;

/// `[teacher]`. Its vocabulary must be the policy's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TeacherSection {
    /// A model directory. Without `path` and `from`, the teacher is the policy itself, with the weights of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The last checkpoint of another recipe's run, which is made first if it does not exist yet (`docs/stages.md`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<StageRecipe>,
    /// What the teacher reads in addition to the policy's prompt, on a new line after its last message.
    pub context: TeacherContext,
}

/// What a teacher reads that the policy does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeacherContext {
    /// Nothing.
    #[default]
    None,
    /// The environment's advice for the task.
    Skill,
    /// A correct answer to the task.
    Demonstration,
    /// The text of a demonstration before its final answer.
    Reasoning,
}
