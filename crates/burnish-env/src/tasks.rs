//! Tasks as environments make them and read them back.

use std::collections::BTreeMap;
use std::fmt::Display;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Message, Task, TaskId};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::EnvError;

/// A task of the environment `id`.
pub(crate) fn task(
    id: &str,
    name: impl Display,
    prompt: Vec<Message>,
    truth: Value,
    labels: BTreeMap<String, String>,
) -> Task {
    Task { id: TaskId(format!("{id}/{name}")), environment: id.to_owned(), prompt, truth, labels }
}

/// The seed of task number `index` of the set that `seed` decides.
pub(crate) fn seed_of(seed: u64, index: usize) -> u64 {
    Address { task: index as u64, ..Address::new(seed, Purpose::Task) }.seed()
}

/// Replaces each task by the first one of the same name, because an id stands for one content.
pub(crate) fn unify(tasks: &mut [Task]) {
    let mut known: BTreeMap<TaskId, usize> = BTreeMap::new();
    for index in 0..tasks.len() {
        let first = *known.entry(tasks[index].id.clone()).or_insert(index);
        if first < index {
            tasks[index] = tasks[first].clone();
        }
    }
}

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
