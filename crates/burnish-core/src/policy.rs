//! The policy as its users see it: messages in, messages out, and a token-exact record of every turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{LatentPlace, Message, Sampled, Sampling, SamplingError, StopReason, ToolSpec, Trace};

/// Details of one sampled token. Log-probs are in nats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprobs {
    /// Number of ids that are at least as likely as the token, itself included; 1 is the likeliest.
    pub rank: usize,
    /// The likeliest ids with their log-probs, the likeliest first; of equal ones the lower id first. They are the
    /// model's ([`Sampled::model_logprobs`](crate::Sampled::model_logprobs)): over the whole vocabulary at the
    /// temperature, before penalties and filters.
    pub top: Vec<(u32, f32)>,
    /// Log-prob of the token under the distribution that it was drawn from, after penalties and filters. 0
    /// where sampling was greedy.
    pub sampled: f32,
}

/// A request for one turn of a policy: everything that decides its answer.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The record of this agent so far. It comes back with the answer, extended by what the policy read and sampled.
    pub trace: Trace,
    /// The whole conversation so far, the newest message last.
    pub messages: Arc<Vec<Message>>,
    /// Tools that may be called.
    pub tools: Arc<Vec<ToolSpec>>,
    /// The beginning of the answer: the policy reads it as its own words and continues. The answer's message includes
    /// it.
    pub prefix: Vec<Piece>,
    /// How to choose tokens.
    pub sampling: Arc<Sampling>,
    /// Seed of the turn: the token at position `i` of the turn is chosen with `rng::uniform(seed, i)`.
    pub seed: u64,
}

/// A piece of an answer's beginning. Its ids are read as they are, not made from its text.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Piece {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Their text, without an unfinished character at the end.
    pub text: String,
    /// How they were sampled, if they are the beginning of an earlier answer; that record is kept. Otherwise the trace
    /// marks them as [`Source::Hint`](crate::Source::Hint).
    pub sampled: Option<Sampled>,
}

/// What a policy answered.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutput {
    /// The answer, to be appended to the conversation.
    pub message: Message,
    /// For each tool call that could not be read: the reason, in words for the policy. The call's text stays in the
    /// message.
    pub malformed: Vec<String>,
    /// Why sampling stopped.
    pub stop: StopReason,
    /// One entry per sampled token if [`Sampling::logprobs`] asked for them; otherwise empty.
    pub logprobs: Vec<TokenLogprobs>,
    /// Tokens that were read and sampled beside the answer, to decide about it; they are part of no trace.
    pub aside: usize,
}

impl TurnOutput {
    /// An answer without calls that could not be read, log-probs, and tokens beside it.
    pub fn new(message: Message, stop: StopReason) -> Self {
        TurnOutput { message, malformed: Vec::new(), stop, logprobs: Vec::new(), aside: 0 }
    }
}

/// Id of a submitted turn, in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(pub u64);

/// A finished turn.
#[derive(Debug)]
pub struct Answered {
    /// Which one.
    pub id: TurnId,
    /// Its trace; if the turn failed, the trace as it was submitted.
    pub trace: Trace,
    /// What was answered.
    pub result: Result<TurnOutput, PolicyError>,
}

/// What a policy declares that it can do. A turn that asks for more is refused; nothing is dropped silently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// It records in the trace the ids that it read and sampled.
    pub token_ids: bool,
    /// It records two log-probs per id: the model's, and the one with which the id was drawn.
    pub logprobs: bool,
    /// The seed determines its answer.
    pub seed: bool,
    /// It continues the beginning of an answer ([`Turn::prefix`]).
    pub prefix: bool,
    /// It stops at given texts and ids.
    pub stop: bool,
    /// It applies penalties and filters.
    pub filters: bool,
    /// It can be given tools.
    pub tools: bool,
    /// It makes its answers from masks, in steps.
    pub denoising: bool,
}

impl Abilities {
    /// Everything that a policy can do that answers token by token.
    pub const ALL: Abilities = Abilities {
        token_ids: true,
        logprobs: true,
        seed: true,
        prefix: true,
        stop: true,
        filters: true,
        tools: true,
        denoising: false,
    };

    /// What a model of masked diffusion can do. The log-prob of its whole answer is not known, so it reports none.
    pub const DENOISING: Abilities =
        Abilities { logprobs: false, stop: false, filters: false, denoising: true, ..Abilities::ALL };

    /// Text from conversations, and nothing else.
    pub const TEXT: Abilities = Abilities {
        token_ids: false,
        logprobs: false,
        seed: false,
        prefix: false,
        stop: false,
        filters: false,
        tools: false,
        denoising: false,
    };

    /// Checks that the policy can do everything that a turn asks for.
    ///
    /// # Errors
    /// Names the first thing that it can't do.
    pub fn check(self, turn: &Turn) -> Result<(), PolicyError> {
        self.check_sampling(&turn.sampling)?;
        first_missing(&[
            (!turn.prefix.is_empty(), self.prefix, "go on from the beginning of an answer"),
            (!turn.tools.is_empty(), self.tools, "be told of tools, and the environment has some"),
        ])
    }

    /// Checks that the policy can choose tokens in this way.
    ///
    /// # Errors
    /// Names the first thing that it can't do.
    pub fn check_sampling(self, sampling: &Sampling) -> Result<(), PolicyError> {
        let is_stopping =
            !sampling.stop.is_empty() || !sampling.stop_token_ids.is_empty() || sampling.ignore_eos;
        let is_filtering = sampling.is_truncating() || sampling.is_penalising() || sampling.min_tokens > 0;
        let is_latent = sampling.latent.as_ref().is_some_and(|latent| latent.place != LatentPlace::Visible);
        first_missing(&[
            (is_stopping, self.stop, "be told where to stop (`stop`, `stop_token_ids`, `ignore_eos`)"),
            (
                is_filtering,
                self.filters,
                "filter or penalise tokens (`top_k`, `top_p`, `min_p`, `min_tokens`, penalties)",
            ),
            (sampling.grammar.is_some(), self.filters, "hold its answer to a grammar (`grammar`)"),
            (sampling.contrast.is_some(), self.filters, "be looked into (`contrast`)"),
            (sampling.thoughts.is_some(), self.filters, "have its thoughts controlled (`thoughts`)"),
            (is_latent, self.filters, "go on in latent steps (`latent`)"),
            (sampling.logprobs.is_some(), self.logprobs, "report log-probs (`logprobs`)"),
            (sampling.denoising_steps.is_some(), self.denoising, "answer in steps (`denoising_steps`)"),
        ])
    }

    /// Checks that the policy's answers can be trained on.
    ///
    /// # Errors
    /// If the policy does not report the ids that it sampled, or their log-probs.
    pub fn check_trainable(self) -> Result<(), PolicyError> {
        if !self.token_ids {
            return Err(PolicyError::Unable(
                "say which token ids it read and sampled, so its answers can't be trained on; it can judge, play a user, \
                 teach by text and be evaluated",
            ));
        }
        if !self.logprobs {
            return Err(PolicyError::Unable(
                "report the log-probs of what it sampled, so its answers can't be trained on",
            ));
        }
        Ok(())
    }
}

/// Fails at the first thing that is asked for and can't be done.
fn first_missing(asked: &[(bool, bool, &'static str)]) -> Result<(), PolicyError> {
    match asked.iter().find(|(is_asked, can, _)| *is_asked && !can) {
        Some((_, _, what)) => Err(PolicyError::Unable(what)),
        None => Ok(()),
    }
}

/// Whatever answers: a model in this process, a server, a script in a test.
///
/// Turns are submitted one at a time, at any time, and come back when they are finished, in any order. The answer to a
/// turn depends on that turn alone, not on the others under way.
pub trait Policy {
    /// What the policy can do.
    fn abilities(&self) -> Abilities;

    /// Number of updates that the weights have had.
    fn version(&self) -> u64;

    /// Accepts a turn. If it can't be answered, it comes back with its error.
    fn submit(&mut self, turn: Turn) -> TurnId;

    /// The turns that finished since the last call. Does not block: a model in this process does one piece of work, and
    /// a server is checked for answers.
    fn poll(&mut self) -> Vec<Answered>;

    /// Like `poll`, but waits for at least one turn; empty only if none is under way.
    fn wait(&mut self) -> Vec<Answered>;

    /// Whether turns progress by themselves, so that polling does none of their work.
    fn is_remote(&self) -> bool {
        false
    }

    /// Cancels a turn, which then does not come back. Returns whether it was under way.
    fn cancel(&mut self, id: TurnId) -> bool;
}

impl<P: Policy + ?Sized> Policy for &mut P {
    fn abilities(&self) -> Abilities {
        (**self).abilities()
    }

    fn version(&self) -> u64 {
        (**self).version()
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        (**self).submit(turn)
    }

    fn poll(&mut self) -> Vec<Answered> {
        (**self).poll()
    }

    fn wait(&mut self) -> Vec<Answered> {
        (**self).wait()
    }

    fn is_remote(&self) -> bool {
        (**self).is_remote()
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        (**self).cancel(id)
    }
}

/// Submits all turns and waits for them; returns their traces and results, in order. No other turn may be under way.
pub fn answer_all(
    policy: &mut dyn Policy,
    turns: impl IntoIterator<Item = Turn>,
) -> Vec<(Trace, Result<TurnOutput, PolicyError>)> {
    let ids: Vec<TurnId> = turns.into_iter().map(|turn| policy.submit(turn)).collect();
    let mut answers: BTreeMap<TurnId, Answered> = BTreeMap::new();
    while answers.len() < ids.len() {
        let answered = policy.wait();
        if answered.is_empty() {
            break;
        }
        answers.extend(answered.into_iter().map(|answered| (answered.id, answered)));
    }
    let lost = || (Trace::new(), Err(PolicyError::Failed("it lost the turn".into())));
    let mut take = |id: &TurnId| answers.remove(id).map(|answered| (answered.trace, answered.result));
    ids.iter().map(|id| take(id).unwrap_or_else(lost)).collect()
}

/// Why a policy did not answer.
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
    /// The conversation could not be rendered in the policy's format.
    #[error("the conversation could not be rendered: {0}")]
    Render(String),
    /// The sampling parameters are out of range.
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    /// The turn asks for something that the policy can't do.
    #[error("the policy can't {0}")]
    Unable(&'static str),
    /// The policy itself failed.
    #[error("the policy failed: {0}")]
    Failed(String),
}
