//! What can go wrong between checkpoints.

use std::path::{Path, PathBuf};

use burnish_shards::ShardsError;

/// A checkpoint could not be read, combined or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    /// An operation of the operating system failed.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// The operation: `read`, `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file or a directory is not what it should be.
    #[error("{}: {problem}", .path.display())]
    Malformed {
        /// The file or the directory.
        path: PathBuf,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// A tensor can't be used.
    #[error("{}: tensor {name} {problem}", .path.display())]
    Tensor {
        /// The file that holds it, or lacks it.
        path: PathBuf,
        /// Its name.
        name: String,
        /// What is wrong, as the rest of a sentence.
        problem: String,
    },
    /// A configuration asks for something that can't be done.
    #[error("{place}: {problem}")]
    Config {
        /// Where it says so: the file and the line, or the option.
        place: String,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// What was asked for makes no sense together.
    #[error("{0}")]
    Refused(String),
    /// The person stopped it.
    #[error("stopped; nothing was written to {}", .path.display())]
    Stopped {
        /// The output that does not exist.
        path: PathBuf,
    },
}

impl WeightsError {
    pub(crate) fn read(path: &Path, source: std::io::Error) -> Self {
        WeightsError::Io { action: "read", path: path.to_owned(), source }
    }

    pub(crate) fn write(path: &Path, source: std::io::Error) -> Self {
        WeightsError::Io { action: "write", path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, problem: impl Into<String>) -> Self {
        WeightsError::Malformed { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn config(place: impl Into<String>, problem: impl Into<String>) -> Self {
        WeightsError::Config { place: place.into(), problem: problem.into() }
    }

    pub(crate) fn tensor(path: &Path, name: &str, problem: impl Into<String>) -> Self {
        WeightsError::Tensor { path: path.to_owned(), name: name.to_owned(), problem: problem.into() }
    }
}

impl From<ShardsError> for WeightsError {
    fn from(error: ShardsError) -> Self {
        match error {
            ShardsError::Read { path, source } => WeightsError::read(&path, source),
            ShardsError::Malformed { path, problem } => WeightsError::Malformed { path, problem },
        }
    }
}
