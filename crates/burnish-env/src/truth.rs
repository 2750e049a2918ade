//! The part of a task that the policy is not told.

use std::fmt::Display;

use burnish_core::Task;
use serde::de::DeserializeOwned;

use crate::EnvError;

/// Reads the truth of a task of the environment `id`.
///
/// # Errors
/// If the task is not one of that environment.
pub(crate) fn read<T: DeserializeOwned>(id: &str, task: &Task) -> Result<T, EnvError> {
    T::deserialize(&task.truth).map_err(|error| foreign(id, task, error))
}

/// The error on a task that is not one of the environment `id`.
pub(crate) fn foreign(id: &str, task: &Task, problem: impl Display) -> EnvError {
    EnvError::Foreign(format!("task {} is not one of {id}: {problem}", task.id))
}
