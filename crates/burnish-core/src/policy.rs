//! The policy as its users see it: messages in, messages out, and a token-exact record of how.

use serde::{Deserialize, Serialize};

use crate::{Message, StopReason, ToolSpec, Trace};

/// How tokens are chosen. The filters apply in the order of the fields, as in `transformers`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Divides the logits. 0 means greedy.
    pub temperature: f32,
    /// Keep only the `top_k` likeliest tokens; 0 keeps all.
    #[serde(default)]
    pub top_k: usize,
    /// Keep the smallest set of likeliest tokens whose probability reaches `top_p`; 1 keeps all.
    #[serde(default = "one")]
    pub top_p: f32,
    /// Drop tokens less likely than `min_p` times the likeliest; 0 keeps all.
    #[serde(default)]
    pub min_p: f32,
    /// Most tokens that one turn may sample.
    pub tokens_max: usize,
}

fn one() -> f32 {
    1.0
}

impl Sampling {
    /// Untruncated sampling at `temperature`, up to `tokens_max` tokens.
    pub fn at(temperature: f32, tokens_max: usize) -> Self {
        Sampling { temperature, top_k: 0, top_p: 1.0, min_p: 0.0, tokens_max }
    }

    /// The likeliest token each time, up to `tokens_max` tokens.
    pub fn greedy(tokens_max: usize) -> Self {
        Sampling::at(0.0, tokens_max)
    }

    /// Does any filter cut the distribution?
    pub fn is_truncating(&self) -> bool {
        self.top_k > 0 || self.top_p < 1.0 || self.min_p > 0.0
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first field that is out of range, and the range.
    pub fn check(&self) -> Result<(), SamplingError> {
        let out_of_range = |field, range| Err(SamplingError { field, range });
        if !(self.temperature.is_finite() && self.temperature >= 0.0) {
            return out_of_range("temperature", "0 or more");
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return out_of_range("top_p", "above 0 and at most 1");
        }
        if !(0.0..=1.0).contains(&self.min_p) {
            return out_of_range("min_p", "0 to 1");
        }
        if self.tokens_max == 0 {
            return out_of_range("tokens_max", "1 or more");
        }
        Ok(())
    }
}

/// A sampling parameter is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sampling.{field} must be {range}")]
pub struct SamplingError {
    /// Which field.
    pub field: &'static str,
    /// What it may be.
    pub range: &'static str,
}

/// One turn that is wanted from a policy.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The record of this agent so far; the policy extends it with what it read and what it sampled.
    pub trace: &'a mut Trace,
    /// The whole conversation so far, the newest message last.
    pub messages: &'a [Message],
    /// Tools that may be called.
    pub tools: &'a [ToolSpec],
    /// How to choose tokens.
    pub sampling: &'a Sampling,
    /// Seed of the turn: the token at position `i` of the turn is chosen with `rng::uniform(seed, i)`.
    pub seed: u64,
}

/// What a policy answered.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutput {
    /// The answer, to be appended to the conversation.
    pub message: Message,
    /// Why sampling stopped.
    pub stop: StopReason,
}

/// Whatever answers: a local model, a remote server, a script in a test.
pub trait Policy {
    /// Answers every turn, one result for each, in order. A turn that fails leaves its trace as it was.
    fn act(&mut self, turns: &mut [Turn<'_>]) -> Vec<Result<TurnOutput, PolicyError>>;

    /// Number of updates that the weights have had.
    fn version(&self) -> u64;
}

/// Why a policy could not answer.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The conversation is longer than the policy can read.
    #[error("the prompt has {tokens} tokens, but at most {tokens_max} fit with room for an answer")]
    PromptTooLong {
        /// Length of the prompt.
        tokens: usize,
        /// Most that fits.
        tokens_max: usize,
    },
    /// The conversation could not be put into the policy's format.
    #[error("the conversation could not be rendered: {0}")]
    Render(String),
    /// The sampling parameters are out of range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The policy itself failed.
    #[error("the policy failed: {0}")]
    Failed(String),
}
