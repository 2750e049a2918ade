//! `run.json`: how a run began.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::absolute;
use super::inputs::{Input, Recorded};
use super::session::Session;
use crate::RunError;
use burnish_recipe::renamed;
use burnish_rundir::files::{FileError, write_atomic};
use burnish_rundir::run_dir::RECORD;

const FORMAT: u32 = 1;

/// How a run began, and what has changed since.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    format: u32,
    /// The version of burnish that began the run.
    burnish: String,
    /// The folder that relative paths of the recipe start from.
    pub(super) folder: PathBuf,
    /// The path of the run directory.
    pub(super) dir: PathBuf,
    /// The text of `recipe.toml` as the run uses it.
    pub(super) recipe: String,
    /// The content of the files that decide the run.
    inputs: Vec<Recorded>,
    /// Changes of the recipe since the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
    /// Who has worked on it; empty in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sessions: Vec<Session>,
}

/// A key that was changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    /// Number of steps saved at that time.
    pub(super) step: u64,
    pub(super) key: String,
    pub(super) was: Option<Value>,
    pub(super) is: Option<Value>,
}

impl Record {
    /// The record of a run that begins here and now.
    pub(super) fn new(recipe: &str, dir: &Path, inputs: Vec<Recorded>) -> Self {
        Record {
            format: FORMAT,
            burnish: env!("CARGO_PKG_VERSION").to_owned(),
            folder: std::env::current_dir().unwrap_or_default(),
            dir: absolute(dir),
            recipe: recipe.to_owned(),
            inputs,
            changes: Vec::new(),
            sessions: Vec::new(),
        }
    }

    /// The record in the run directory `dir`; `None` if an earlier version made the run.
    ///
    /// # Errors
    /// If it can't be read, or is damaged.
    pub(crate) fn read(dir: &Path) -> Result<Option<Self>, RunError> {
        let path = dir.join(RECORD);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(FileError::on("read", &path))?,
        };
        let record: Record = serde_json::from_slice(&text).map_err(|error| {
            RunError::Refused(format!(
                "`{}` is damaged ({error}), which says what the run began with: restore it; without it the run can \
                 go on, but whether its recipe and its data are what they were is not checked",
                path.display()
            ))
        })?;
        if record.format != FORMAT {
            return Err(RunError::Refused(format!(
                "`{}` has format {}, but this burnish reads {FORMAT}: use the burnish that wrote it",
                path.display(),
                record.format
            )));
        }
        Ok(Some(record))
    }

    /// Writes it into the run directory `dir`.
    ///
    /// # Errors
    /// If it can't be written.
    pub(super) fn write(&self, dir: &Path) -> Result<(), RunError> {
        let path = dir.join(RECORD);
        let failed = |error: serde_json::Error| RunError::Refused(format!("`{}`: {error}", path.display()));
        let mut text = serde_json::to_vec_pretty(self).map_err(failed)?;
        text.push(b'\n');
        Ok(write_atomic(&path, &text)?)
    }

    /// The record of the input at a key.
    pub(super) fn input(&self, key: &str) -> Option<&Recorded> {
        self.inputs.iter().find(|input| renamed::path(&input.key) == key)
    }

    #[cfg(test)]
    pub(super) fn of_place(folder: &str, dir: &str) -> Self {
        Record { folder: folder.into(), ..Record::new("", Path::new(dir), Vec::new()) }
    }

    /// How the content of `input` differs from the record; `None` if it does not, or nothing is recorded.
    ///
    /// # Errors
    /// If a file can't be read.
    pub(super) fn compare(&self, input: &Input) -> Result<Option<String>, RunError> {
        self.input(&input.key).map_or(Ok(None), |recorded| recorded.difference(input))
    }

    /// Records the content of `input`, if nothing is recorded for it yet.
    ///
    /// # Errors
    /// If a file can't be read.
    pub(super) fn note(&mut self, input: Input) -> Result<(), RunError> {
        if self.input(&input.key).is_none() {
            self.inputs.push(input.record()?);
        }
        Ok(())
    }

    /// Makes `text` the recipe of the run from now on, and records the changes.
    pub(super) fn accept(&mut self, text: &str, step: u64, changed: Vec<Change>) {
        text.clone_into(&mut self.recipe);
        self.changes.extend(changed.into_iter().map(|change| Change { step, ..change }));
    }
}
