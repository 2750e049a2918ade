//! Servers that answer in tokens, whichever they are: ids go there, and ids come back with their log-probs.

mod policy;

use std::pin::Pin;

use burnish_core::{Abilities, PolicyError, Sampling};

pub use policy::TokenPolicy;

/// Who samples for a [`TokenPolicy`].
pub trait TokenServer: Send + Sync {
    /// What can be done for a turn. Controls and text are the policy's own work.
    fn abilities(&self) -> Abilities;

    /// Checks that tokens can be chosen in this way, and that their log-probs will be known.
    ///
    /// # Errors
    /// Says what can't be done, and what to do.
    fn check(&self, sampling: &Sampling) -> Result<(), PolicyError>;

    /// Most tokens of prompt and answer together.
    fn context_tokens_max(&self) -> usize;

    /// One answer of the weights after `version` updates. Requests with the same `root` have a common beginning, which
    /// a cache may know.
    fn ask<'a>(&'a self, root: u64, version: u64, ask: Ask<'a>) -> Asking<'a>;

    /// Checks that everything so far was sampled with the weights after `version` updates.
    ///
    /// # Errors
    /// If somebody else gave a server others.
    fn confirm(&self, version: u64) -> Result<(), PolicyError>;
}

/// An answer that is waited for.
pub type Asking<'a> = Pin<Box<dyn Future<Output = Result<Completion, PolicyError>> + Send + 'a>>;

/// A request for one answer.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The prompt.
    pub prompt: &'a [u32],
    /// How tokens are chosen.
    pub sampling: &'a Sampling,
    /// The policy's own end tokens.
    pub end_ids: &'a [u32],
    /// Ids of the head that the tokenizer does not have.
    pub missing_ids: &'a [u32],
    /// Determines the answer, where the server heeds it.
    pub seed: u64,
    /// Most tokens that fit.
    pub tokens_max: usize,
}

/// An answer in tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Completion {
    /// All that was sampled.
    pub ids: Vec<u32>,
    /// The log-prob of each id under the model at the temperature, in nats.
    pub logprobs: Vec<f32>,
    /// Why it ended.
    pub end: End,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With a token that ends it.
    Token,
    /// With a stop string.
    Text,
    /// It is as long as it may be.
    Length,
    /// The server gave it up; somebody else may answer.
    Aborted,
}
