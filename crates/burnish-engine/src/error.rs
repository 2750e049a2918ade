use burnish_core::SamplingError;

/// Why a batch could not be sampled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// A limit leaves no room to work in.
    #[error("limits.{field} must be 1 or more")]
    Limit {
        /// Which limit.
        field: &'static str,
    },
    /// A request has nothing to continue.
    #[error("request {request}: the prompt is empty; give it at least one token")]
    EmptyPrompt {
        /// Index of the request.
        request: usize,
    },
    /// A prompt has an id that the model can't read.
    #[error(
        "request {request}: token {position} of the prompt has id {id}, but the model knows ids below {vocab_size}; \
         is the tokenizer that of this model?"
    )]
    UnknownId {
        /// Index of the request.
        request: usize,
        /// Where in the prompt.
        position: usize,
        /// The id.
        id: u32,
        /// Rows of the model's embedding.
        vocab_size: usize,
    },
    /// A prompt leaves no room for an answer.
    #[error(
        "request {request}: the prompt has {tokens} tokens, but at most {tokens_max} fit with room for an answer"
    )]
    PromptTooLong {
        /// Index of the request.
        request: usize,
        /// Length of the prompt.
        tokens: usize,
        /// Most that fits.
        tokens_max: usize,
    },
    /// A sampling parameter is out of its range.
    #[error("request {request}: {source}")]
    Sampling {
        /// Index of the request.
        request: usize,
        /// What is wrong with it.
        source: SamplingError,
    },
    /// The model's output can't be normalised into a distribution.
    #[error(
        "request {request}: the logits of token {position} of the answer are not finite, or no id is allowed; \
         the weights have probably diverged"
    )]
    NotFinite {
        /// Index of the request.
        request: usize,
        /// Position in the answer.
        position: usize,
    },
}
