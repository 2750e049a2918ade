//! What engines are asked, and what is known of them.

use serde_json::Value;

/// What is added to the logits of ids, so that those that the tokenizer does not have are never sampled.
pub(super) fn logit_bias(missing_ids: &[u32]) -> Value {
    missing_ids.iter().map(|id| (id.to_string(), Value::from(-100.0))).collect()
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
