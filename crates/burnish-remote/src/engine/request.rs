//! What an engine is asked, and what it answers, whichever it is.

use burnish_core::Sampling;
use serde_json::Value;

/// A request for one answer.
#[derive(Debug, Clone)]
pub(super) struct Ask<'a> {
    pub(super) prompt: &'a [u32],
    pub(super) sampling: &'a Sampling,
    /// The name of the adapter that answers, over the model; `None`: the model itself.
    pub(super) adapter: Option<&'a str>,
    /// The policy's own end tokens.
    pub(super) end_ids: &'a [u32],
    /// Ids of the head that the tokenizer does not have.
    pub(super) missing_ids: &'a [u32],
    pub(super) seed: u64,
    /// Most tokens that fit.
    pub(super) tokens_max: usize,
}

impl Ask<'_> {
    /// What is added to the logits of ids, so that those that the tokenizer does not have are never sampled.
    pub(super) fn logit_bias(&self) -> Value {
        self.missing_ids.iter().map(|id| (id.to_string(), Value::from(-100.0))).collect()
    }
}

/// An answer in tokens.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Completion {
    /// All that was sampled.
    pub(super) ids: Vec<u32>,
    /// The log-prob of each id, of the kind that the server gives ([`Kind`]).
    pub(super) logprobs: Vec<f32>,
    pub(super) end: End,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With a token that ends it.
    Token,
    /// With a stop string.
    Text,
    /// It is as long as it may be.
    Length,
    /// The server gave it up; somebody else may answer.
    Aborted,
}

/// Which log-prob of a sampled token a server gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The model's, before the temperature.
    Raw,
    /// That of the distribution from which the token was drawn.
    Drawn,
}

/// What is known of a server.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    /// The name under which the model is asked for.
    pub(super) model: String,
    /// Most tokens of prompt and answer together.
    pub(super) context_tokens_max: usize,
    pub(super) kind: Kind,
    /// Does the seed of a request determine its answer?
    pub(super) heeds_seeds: bool,
}
