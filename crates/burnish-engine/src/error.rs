use burnish_core::SamplingError;
use burnish_tensor::DeviceError;

/// Why a batch could not be sampled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// A limit is so small that no work can be done.
    #[error("limits.{field} must be 1 or more")]
    Limit {
        /// Which limit.
        field: &'static str,
    },
    /// A model that answers token by token was to denoise.
    #[error(
        "the model is causal: it answers token by token, not from masks (`is_causal` and `mask_token_id` in config.json)"
    )]
    Causal,
    /// A model that reads in both directions was to answer token by token.
    #[error(
        "the model reads in both directions (`is_causal` is false in config.json): it answers from masks, not token by token"
    )]
    NotCausal,
    /// The prompt of a request is empty.
    #[error("request {request}: the prompt is empty; give it at least one token")]
    EmptyPrompt {
        /// Index of the request.
        request: usize,
    },
    /// A prompt has an id that is not in the model's vocabulary.
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
        /// Number of rows of the model's embedding.
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
        /// Most tokens that fit.
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
    /// A request has stop strings, but there is no tokenizer to decode its answer.
    #[error("request {request}: sampling.stop needs a tokenizer")]
    NoTokenizer {
        /// Index of the request.
        request: usize,
    },
    /// The text of an answer can't be decoded.
    #[error("request {request}: {problem}")]
    Text {
        /// Index of the request.
        request: usize,
        /// What the tokenizer said.
        problem: String,
    },
    /// A request does not fit into the cache even alone.
    #[error(
        "request {request}: a prompt of {tokens} tokens and up to {answer_tokens} of an answer need {least_bytes} \
         bytes of cache, but limits.cache_bytes is {cache_bytes}; set `rollout.cache_mib` to {} at least, or ask \
         for fewer tokens",
        least_bytes.div_ceil(1 << 20)
    )]
    CacheTooSmall {
        /// Index of the request.
        request: usize,
        /// Length of the prompt.
        tokens: usize,
        /// Most tokens in the answer.
        answer_tokens: usize,
        /// Least number of bytes for which it fits.
        least_bytes: usize,
        /// The limit.
        cache_bytes: usize,
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
    /// A control of an answer failed, or forbade every id.
    #[error("request {request}: token {position} of the answer: {problem}")]
    Control {
        /// Index of the request.
        request: usize,
        /// Position in the answer.
        position: usize,
        /// What the control said.
        problem: String,
    },
    /// A GPU failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}
