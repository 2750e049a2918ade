//! What is kept of the rounds: their configurations, what came of them, and what each engineer saw and said.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_env::redesign::{Change, Rejected};
use burnish_recipe::EngineerKind;
use burnish_rundir::files::{FileError, write_atomic};
use burnish_rundir::run_dir::REDESIGN;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::context::short;
use super::{Breakdown, Training};
use crate::RunError;

/// The rounds before the last one, and how the environment came to be that of the last one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Rounds in all.
    pub rounds_planned: usize,
    /// Who redesigned.
    pub engineer: EngineerKind,
    /// Digest of the tasks on which every round is evaluated.
    pub validation: String,
    /// The rounds before the last.
    pub rounds: Vec<Round>,
    /// The designs of the second round, the third ... the last.
    pub designs: Vec<Design>,
}

/// A round that is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Its number, from 1.
    pub round: usize,
    /// Its run directory.
    pub dir: PathBuf,
    /// The hash of everything that decides its policy.
    pub hash: String,
    /// Its `env.config`.
    pub config: Value,
    /// The values there of the keys that may change.
    pub values: BTreeMap<String, f64>,
    /// Tasks that were made to train on, without those that are held out.
    pub tasks: usize,
    /// Tasks that were played in its training steps, each as often as it was drawn.
    pub played: usize,
    /// What its last evaluation found.
    pub evaluation: Breakdown,
    /// What its training steps showed.
    pub training: Training,
}

/// How the environment of a round came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// The round that it is for.
    pub round: usize,
    /// What the engineer was told.
    pub saw: String,
    /// What it said, as often as it was asked.
    pub attempts: Vec<Attempt>,
    /// Whether the last attempt was taken over; else the environment stays as it is.
    pub is_taken: bool,
    /// The `env.config`.
    pub config: Value,
}

/// One answer of an engineer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The answer.
    pub said: String,
    /// Its reason, if it could be read.
    pub reason: String,
    /// The values that it changed or asked for.
    pub changes: Vec<Change>,
    /// What in it could not be taken over.
    pub rejected: Vec<Rejected>,
    /// Why none of it could; `None` if it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Record {
    /// The record in the run directory `dir`; `None` if the run is no last round.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn read(dir: &Path) -> Result<Option<Self>, RunError> {
        let path = dir.join(REDESIGN);
        if !path.is_file() {
            return Ok(None);
        }
        read(&path).map(Some)
    }
}

impl Design {
    /// What came of it, in a line.
    pub(crate) fn told(&self) -> String {
        let place = format!("design of round {}", self.round);
        let Some(last) = self.attempts.last() else {
            return format!("{place}: the environment stays as it is");
        };
        let problem = last.problem.as_deref().filter(|_| !self.is_taken);
        if let Some(problem) = problem {
            return format!("{place}: not taken over, so the environment stays as it is: {problem}");
        }
        let moved = |change: &&Change| change.was != Some(change.is);
        let changed: Vec<String> = last
            .changes
            .iter()
            .filter(moved)
            .map(|change| format!("{} {}", change.key, short(change.is)))
            .collect();
        let rejected: Vec<&str> = last.rejected.iter().map(|rejected| rejected.key.as_str()).collect();
        let rejected = match rejected.is_empty() {
            true => String::new(),
            false => format!("; not taken over: {}", rejected.join(", ")),
        };
        match changed.is_empty() {
            true => format!("{place}: the environment stays as it is{rejected}"),
            false => format!("{place}: {}{rejected}", changed.join(", ")),
        }
    }
}

/// What is stored in `path`.
///
/// # Errors
/// If it can't be read: says what to do.
pub(crate) fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, RunError> {
    let bytes = std::fs::read(path).map_err(FileError::on("read", path))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        RunError::Refused(format!(
            "`{}` is broken: {error}; remove the file, and it is made again",
            path.display()
        ))
    })
}

/// Stores `it` in `path`.
///
/// # Errors
/// If it can't be written.
pub(crate) fn write<T: Serialize>(it: &T, path: &Path) -> Result<(), RunError> {
    let failed = |error: serde_json::Error| RunError::Refused(format!("{}: {error}", path.display()));
    Ok(write_atomic(path, &serde_json::to_vec_pretty(it).map_err(failed)?)?)
}
