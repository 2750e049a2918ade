//! What can go wrong with a journal; every message names the file.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::EpisodeKind;

/// A journal could not be opened, written or read.
#[derive(Debug, thiserror::Error)]
#[error("journal `{}`: {problem}", path.display())]
pub struct JournalError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub problem: JournalProblem,
}

/// What is wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalProblem {
    /// There is no file.
    #[error("there is no such file; is this the directory of a run?")]
    Missing,
    /// A new journal was asked for where there is a database already.
    #[error("there is a database already: open it, or choose another `run.dir`")]
    Exists,
    /// The database of another program.
    #[error("this is a database, but not a journal of burnish")]
    Foreign,
    /// The journal has another version.
    #[error(
        "it has version {found}, but this burnish reads versions up to {newest}: use the burnish that wrote it"
    )]
    Version {
        /// Version of the file.
        found: i64,
        /// Latest version that this program can read.
        newest: i64,
    },
    /// The file is not a database, or a damaged one.
    #[error("it is damaged or not a journal ({0})")]
    Corrupt(String),
    /// The newest records are in the log, which can't be read where nothing can be written.
    #[error(
        "the newest records are in its log (`run.db-wal`), which can't be read where nothing can be written ({0}): copy \
         the whole run directory, and look at the copy"
    )]
    Log(rusqlite::Error),
    /// A damaged journal could not be set aside.
    #[error("it is damaged, and can't be renamed to make room for a new one: {0}")]
    Aside(std::io::Error),
    /// A value is nothing that burnish writes, or would not be read back the same.
    #[error("{what} {problem}")]
    Value {
        /// Which value.
        what: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The step has been recorded already.
    #[error(
        "the {kind} episodes of step {step} are there already: truncate it before the step is done again"
    )]
    Recorded {
        /// The step.
        step: u64,
        /// The kind of its episodes.
        kind: EpisodeKind,
    },
    /// Another process keeps it busy.
    #[error("another process has been using it for too long: stop that process and try again")]
    Busy,
    /// The database or the file system reported an error.
    #[error("{0}")]
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for JournalProblem {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                JournalProblem::Corrupt(error.to_string())
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalProblem::Busy,
            _ => JournalProblem::Sqlite(error),
        }
    }
}

/// Adds the name of the value that has the problem.
pub(super) fn value<T>(what: &str, result: Result<T, String>) -> Result<T, JournalProblem> {
    result.map_err(|problem| JournalProblem::Value { what: what.to_owned(), problem })
}

/// Adds the file's name to an error.
pub(super) trait OnPath<T> {
    fn on(self, path: &Path) -> Result<T, JournalError>;
}

impl<T, P: Into<JournalProblem>> OnPath<T> for Result<T, P> {
    fn on(self, path: &Path) -> Result<T, JournalError> {
        self.map_err(|problem| JournalError { path: path.to_owned(), problem: problem.into() })
    }
}
