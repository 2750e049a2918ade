//! Errors of environments, apart from the policy's own mistakes.

use burnish_core::settings::SettingError;

/// An environment could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum EnvError {
    /// No environment has that id.
    #[error("no environment is called `{id}`; there are: {known}")]
    UnknownId {
        /// The requested id.
        id: String,
        /// The ids that exist.
        known: String,
    },
    /// A key of the configuration is wrong. `key` is a path below the environment's own table.
    #[error("{key}: {problem}")]
    Config {
        /// Path of the key.
        key: String,
        /// What is wrong, what is allowed, and the nearest value that would be accepted.
        problem: String,
    },
    /// A data file can't be used.
    #[error(transparent)]
    Data(#[from] burnish_data::DataError),
    /// A task, action or snapshot does not belong to this environment.
    #[error("{0}")]
    Foreign(String),
    /// The environment failed during play.
    #[error("{0}")]
    Failed(String),
}

impl From<SettingError> for EnvError {
    fn from(SettingError { key, problem }: SettingError) -> Self {
        EnvError::Config { key, problem }
    }
}
