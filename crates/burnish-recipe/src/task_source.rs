//! `env.tasks`: how many tasks the environment makes, or where they come from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Recipe, RecipeError, Source, StageRecipe, StageUse, rounds};

/// `env.tasks`: `2048`, `{ from = "recipes/filter.toml" }` or `{ path = "tasks.jsonl" }`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum TaskSource {
    /// The environment makes so many.
    Count(usize),
    /// They are in a file.
    File(StageFile),
}

/// A file that is given, or that another recipe makes: tasks (`env.tasks`) or notes (`[memory]`), a JSON object per line.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageFile {
    /// The file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Instead: the recipe whose run makes it (`docs/stages.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<StageRecipe>,
    /// The place of what that recipe made, once it is made.
    #[serde(skip)]
    pub made: Option<PathBuf>,
}

impl TaskSource {
    /// The file of tasks, if they are in one.
    pub fn file(&self) -> Option<&StageFile> {
        match self {
            TaskSource::Count(_) => None,
            TaskSource::File(file) => Some(file),
        }
    }

    /// As [`TaskSource::file`], mutable.
    pub fn file_mut(&mut self) -> Option<&mut StageFile> {
        match self {
            TaskSource::Count(_) => None,
            TaskSource::File(file) => Some(file),
        }
    }
}

impl StageFile {
    /// The place of the file; `None` if another recipe has yet to make it.
    pub fn place(&self) -> Option<&Path> {
        self.path.as_deref().or(self.made.as_deref())
    }
}

impl<'de> Deserialize<'de> for TaskSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountOrTable;

        impl<'de> Visitor<'de> for CountOrTable {
            type Value = TaskSource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of tasks, or a table such as { from = \"recipes/filter.toml\" }")
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<TaskSource, E> {
                usize::try_from(count).map(TaskSource::Count).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<TaskSource, E> {
                usize::try_from(count)
                    .map(TaskSource::Count)
                    .map_err(|_| E::custom(format!("is {count}, and must be a number of tasks, 1 or more")))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TaskSource, A::Error> {
                StageFile::deserialize(MapAccessDeserializer::new(map)).map(TaskSource::File)
            }
        }

        deserializer.deserialize_any(CountOrTable)
    }
}

/// Checks `env.tasks`.
pub(super) fn check(recipe: &Recipe, source: &Source) -> Result<(), RecipeError> {
    let tasks = match &recipe.env.tasks {
        TaskSource::Count(0) => {
            return Err(source.error("env.tasks", "must be 1 or more (it is 0)".to_owned()));
        }
        TaskSource::Count(_) => return Ok(()),
        TaskSource::File(tasks) => tasks,
    };
    let is_one = tasks.path.is_some() != tasks.from.is_some() || rounds::gives(recipe, StageUse::Tasks);
    let of_file = "needs tasks that the environment makes: `env.tasks` is a file";
    for (key, holds, rule) in [
        (
            "env.tasks",
            is_one,
            "must be a number, or name one file: `{ path = \"tasks.jsonl\" }`, or `{ from = \"recipe.toml\" }`, which makes it",
        ),
        ("env.tasks", recipe.plays(), "must be a number: no task is played, so the file has no use"),
        ("env.split", recipe.env.split.is_none(), of_file),
    ] {
        if !holds {
            return Err(source.error(key, rule.to_owned()));
        }
    }
    Ok(())
}
