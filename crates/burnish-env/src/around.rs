//! Environments whose tasks are those of another one, played in a way of their own: what all of them share.

use burnish_core::{Message, Task, TaskId};
use serde::{Deserialize, Serialize};

use crate::tasks::read;
use crate::{EnvError, settings};

/// The truth of a task.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Truth {
    /// The task of the other environment.
    task: Task,
}

/// The task of the environment `id` around a task of another one.
///
/// # Errors
/// If it can't be serialised.
pub(crate) fn outer(id: &str, prompt: Vec<Message>, task: Task) -> Result<Task, EnvError> {
    Ok(Task {
        id: TaskId(format!("{id}/{}", task.id)),
        environment: id.to_owned(),
        prompt,
        labels: task.labels.clone(),
        truth: settings::to_value(&Truth { task })?,
    })
}

/// The task of the other environment in a task of the environment `id`.
///
/// # Errors
/// If the task is not one of that environment.
pub(crate) fn inner(id: &str, task: &Task) -> Result<Task, EnvError> {
    read(id, task).map(|Truth { task }| task)
}

/// The methods of a generator that it takes from the one in its field `inner`. Its own method `task` wraps the tasks of
/// that one.
macro_rules! generates_around {
    ($id:expr) => {
        fn components(&self) -> Option<Vec<String>> {
            self.inner.components()
        }

        fn files(&self) -> Vec<std::path::PathBuf> {
            self.inner.files()
        }

        fn evaluation_only(&self) -> Option<&'static str> {
            self.inner.evaluation_only()
        }

        fn at_once(&self) -> Option<usize> {
            self.inner.at_once()
        }

        fn tasks(&self, seed: u64, count: usize) -> Result<$crate::TaskSet, $crate::EnvError> {
            let $crate::TaskSet { tasks, cells } = self.inner.tasks(seed, count)?;
            let tasks = tasks.into_iter().map(|task| self.task(task)).collect::<Result<_, _>>()?;
            Ok($crate::TaskSet { tasks, cells })
        }

        fn draw(&self, task: &burnish_core::Task, answer: Option<&str>) -> String {
            match $crate::around::inner($id, task) {
                Ok(task) => self.inner.draw(&task, answer),
                Err(error) => error.to_string(),
            }
        }
    };
}
pub(crate) use generates_around;

/// Tools, and how long things take, in an environment that has another one in a field `inner`: as there.
macro_rules! plays_around {
    () => {
        fn tools(&self) -> Vec<burnish_core::ToolSpec> {
            self.inner.tools()
        }

        fn repeating(&self, tool: &str) -> Option<burnish_core::Repeating> {
            self.inner.repeating(tool)
        }

        fn latency(&self, call: &burnish_core::FunctionCall) -> std::time::Duration {
            self.inner.latency(call)
        }

        fn call(&mut self, call: &burnish_core::FunctionCall, key: &str) -> Result<String, $crate::EnvError> {
            self.inner.call(call, key)
        }

        fn is_slow(&self) -> bool {
            self.inner.is_slow()
        }
    };
}
pub(crate) use plays_around;
