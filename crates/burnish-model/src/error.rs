//! Errors between reading a model directory and getting an answer from the policy.

use std::path::{Path, PathBuf};

use burnish_shards::ShardsError;

use crate::chat_files::TEMPLATE;

/// A model directory could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
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
    /// A file does not follow its format.
    #[error("{}: {problem}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do about it.
        problem: String,
    },
    /// A directory has no chat template.
    #[error(
        "{}: there is no chat template: neither {TEMPLATE}, nor `chat_template` in tokenizer_config.json; a base model \
         often has none. Put one into {} (that of the chat model of its family, or ChatML: docs/chat-templates.md has \
         it), and see that the model has its end token",
        .path.display(),
        .path.join(TEMPLATE).display()
    )]
    NoTemplate {
        /// The directory.
        path: PathBuf,
    },
    /// A key of a configuration is missing, malformed, or asks for something that is not supported.
    #[error("{}: {error}", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Which key, and why.
        error: ConfigError,
    },
    /// A tensor that the architecture needs is missing from the file.
    #[error(
        "{}: tensor {name} {shape:?} is missing; config.json asks for it, so the file is incomplete or belongs \
         to another configuration",
        .path.display()
    )]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Shape that it should have.
        shape: Vec<usize>,
    },
    /// A tensor's shape differs from the configuration.
    #[error("{}: tensor {name} has shape {found:?}, but config.json asks for {expected:?}", .path.display())]
    TensorShape {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Shape according to the configuration.
        expected: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },
    /// A tensor is stored in a type that is not supported.
    #[error("{}: tensor {name} is stored as {found}; supported are F32, BF16 and F16", .path.display())]
    TensorType {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// Type in the file.
        found: String,
    },
    /// A tensor in the file does not belong to the architecture.
    #[error(
        "{}: tensor {name} has no place in {architecture}; ignoring it could change what the model computes",
        .path.display()
    )]
    UnknownTensor {
        /// The file.
        path: PathBuf,
        /// Name of the tensor.
        name: String,
        /// The architecture according to config.json.
        architecture: &'static str,
    },
    /// What is to be frozen can't be.
    #[error("train.freeze: `{pattern}` {problem} ({})", .path.display())]
    Freeze {
        /// A name of parameters, perhaps with stars.
        pattern: String,
        /// The model's directory.
        path: PathBuf,
        /// Why not.
        problem: String,
    },
    /// The tokenizer lacks tokens that are needed.
    #[error("{place}: the tokenizer does not have {}; add {} as special tokens", quoted(.tokens), if .tokens.len() == 1 { "it" } else { "them" })]
    MissingTokens {
        /// Where the tokens are needed.
        place: String,
        /// The tokens.
        tokens: Vec<String>,
    },
    /// The chat template does not compile.
    #[error("{}: the chat template does not compile: {problem}", .path.display())]
    Template {
        /// The file.
        path: PathBuf,
        /// What the template engine said.
        problem: String,
    },
    /// A tokenizer could not be trained.
    #[error("cannot train a tokenizer: {0}")]
    Training(String),
}

impl ModelError {
    pub(crate) fn read(path: &Path, source: std::io::Error) -> Self {
        ModelError::Io { action: "read", path: path.into(), source }
    }

    pub(crate) fn write(path: &Path, source: std::io::Error) -> Self {
        ModelError::Io { action: "write", path: path.into(), source }
    }

    pub(crate) fn malformed(path: &Path, problem: impl Into<String>) -> Self {
        ModelError::Malformed { path: path.into(), problem: problem.into() }
    }
}

/// What is wrong with a key of `config.json`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The key is required.
    #[error("`{key}` is missing; it must be {expected}")]
    Missing {
        /// The key.
        key: String,
        /// What it should hold.
        expected: String,
    },
    /// The value has the wrong type or is out of range.
    #[error("`{key}` is {value}; it must be {expected}")]
    Invalid {
        /// The key.
        key: String,
        /// Its value, as JSON.
        value: String,
        /// What it should hold.
        expected: String,
    },
    /// The value asks for a computation that is not supported.
    #[error("`{key}` is {value}, which is not supported; supported: {supported}")]
    Unsupported {
        /// The key.
        key: String,
        /// Its value, as JSON.
        value: String,
        /// What is supported.
        supported: String,
    },
    /// The key is unknown, so it may change the computation.
    #[error(
        "`{key}` is {value}, and this key is unknown; remove it if it does not change what the \
         model computes"
    )]
    Unknown {
        /// The key.
        key: String,
        /// Its value, as JSON.
        value: String,
    },
}

impl ConfigError {
    /// The same about a key of an inner object.
    pub(crate) fn within(mut self, object: &str) -> Self {
        let (ConfigError::Missing { key, .. }
        | ConfigError::Invalid { key, .. }
        | ConfigError::Unsupported { key, .. }
        | ConfigError::Unknown { key, .. }) = &mut self;
        *key = format!("{object}.{key}");
        self
    }
}

/// A conversation could not be turned into the policy's tokens.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The template failed on this conversation.
    #[error("the chat template failed on this conversation: {0}")]
    Render(String),
    /// The text could not be tokenised, or ids could not be decoded.
    #[error("the tokenizer failed: {0}")]
    Tokenizer(String),
    /// The trace refused a node.
    #[error(transparent)]
    Trace(#[from] burnish_core::TraceError),
    /// A demonstrated answer does not continue its own prompt.
    #[error(
        "message {message}: the chat template renders the answer in another way than its generation prompt \
         begins it, so the answer can't be demonstrated"
    )]
    AnswerLeavesPrompt {
        /// Index of the message.
        message: usize,
    },
    /// The template closes a demonstrated answer without an end token.
    #[error(
        "message {message}: the chat template closes the answer without an end token ({}), so a policy would \
         not learn to stop; correct eos_token_id in generation_config.json",
        quoted(.end_tokens)
    )]
    NoEndToken {
        /// Index of the message.
        message: usize,
        /// The end tokens.
        end_tokens: Vec<String>,
    },
}

impl From<ShardsError> for ModelError {
    fn from(error: ShardsError) -> Self {
        match error {
            ShardsError::Read { path, source } => ModelError::read(&path, source),
            ShardsError::Malformed { path, problem } => ModelError::Malformed { path, problem },
        }
    }
}

fn quoted(tokens: &[String]) -> String {
    tokens.iter().map(|token| format!("`{token}`")).collect::<Vec<_>>().join(", ")
}
