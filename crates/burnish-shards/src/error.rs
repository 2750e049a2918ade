//! What can be wrong with weight files.

use std::io;
use std::path::{Path, PathBuf};

/// Weight files could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ShardsError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or a directory is not what it should be.
    #[error("{}: {problem}", .path.display())]
    Malformed {
        /// The file or the directory.
        path: PathBuf,
        /// What is wrong, and what to do about it.
        problem: String,
    },
}

impl ShardsError {
    pub(crate) fn read(path: &Path, source: io::Error) -> Self {
        ShardsError::Read { path: path.to_owned(), source }
    }

    pub(crate) fn malformed(path: &Path, problem: impl Into<String>) -> Self {
        ShardsError::Malformed { path: path.to_owned(), problem: problem.into() }
    }
}
