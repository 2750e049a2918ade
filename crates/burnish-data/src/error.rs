//! What can be wrong with a data file.

use std::fmt;
use std::path::Path;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Line number from 1, in a file of lines.
    Line(u64),
    /// Row number from 1, in a parquet file.
    Row(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(number) => write!(f, "line {number}"),
            Place::Row(number) => write!(f, "row {number}"),
        }
    }
}

/// A data file can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", place.map(|place| format!(", {place}")).unwrap_or_default())]
pub struct DataError {
    /// The file.
    pub file: String,
    /// The place in it; `None` if the error concerns the whole file.
    pub place: Option<Place>,
    /// What is wrong, and what to do about it.
    pub problem: String,
}

impl DataError {
    /// An error about a whole file.
    pub fn file(file: &Path, problem: impl Into<String>) -> Self {
        DataError { file: file.display().to_string(), place: None, problem: problem.into() }
    }

    /// An error about one place of a file.
    pub fn at(file: &Path, place: Place, problem: impl Into<String>) -> Self {
        DataError { place: Some(place), ..DataError::file(file, problem) }
    }

    /// The operation `what` failed on `file`.
    pub(crate) fn io<'f>(file: &'f Path, what: &'f str) -> impl Fn(std::io::Error) -> Self + 'f {
        move |error| DataError::file(file, format!("can't be {what}: {error}"))
    }
}
