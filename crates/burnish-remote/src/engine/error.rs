use std::fmt;

use burnish_http::HttpError;

/// The states that a replica passes through when it is given new weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It stops to sample.
    Pause,
    /// It reads the new weights.
    Load,
    /// It is told their version.
    Label,
    /// It goes on.
    Resume,
    /// Its log-probs are compared with those of the new weights.
    Prove,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Pause => "pausing",
            Stage::Load => "loading the weights",
            Stage::Label => "naming the weights",
            Stage::Resume => "resuming",
            Stage::Prove => "proving the weights",
        })
    }
}

/// Why an engine can't be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// A server does not answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A server is not what it should be.
    #[error("engine {url}: {problem}")]
    Unfit {
        /// The server.
        url: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// No replica took the new weights.
    #[error("no engine could be given the weights after {version} updates: {}", .problems.join("; "))]
    NotServed {
        /// Number of updates that the weights have had.
        version: u64,
        /// For each replica, its address, where it failed and why.
        problems: Vec<String>,
    },
}
