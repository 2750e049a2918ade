use burnish_http::HttpError;

/// Why a server that trains can't be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TinkerError {
    /// It does not answer, or refuses.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A request failed there.
    #[error("{url}: `{request}` failed: {problem}")]
    Failed {
        /// The server.
        url: String,
        /// What was asked for.
        request: String,
        /// What it says.
        problem: String,
    },
    /// It is not what it should be.
    #[error("trainer {url}: {problem}")]
    Unfit {
        /// The server.
        url: String,
        /// What is wrong, and what to do.
        problem: String,
    },
}

/// How a request to a model of the server failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server has the model no more, or nobody knows whether it did what it was asked for.
    Lost(String),
    /// It would fail again.
    Fatal(TinkerError),
}

impl From<TinkerError> for Failure {
    fn from(error: TinkerError) -> Self {
        Failure::Fatal(error)
    }
}
