//! The policy as its users see it: messages in, messages out, and a token-exact record of how.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Message, Sampled, Sampling, SamplingError, StopReason, ToolSpec, Trace};

/// What a policy thought of one token that it sampled. Log-probs are in nats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprobs {
    /// How many ids are at least as likely as the token, itself included: 1 is the likeliest.
    pub rank: usize,
    /// The likeliest ids with their log-probs, the likeliest first, of equal ones the lower id. They are the model's
    /// ([`Sampled::model_logprobs`](crate::Sampled::model_logprobs)): of the whole vocabulary at the temperature, before
    /// penalties and filters.
    pub top: Vec<(u32, f32)>,
    /// Log-prob of the token under the distribution that it was drawn from, after penalties and filters. 0
    /// where sampling was greedy.
    pub sampled: f32,
}

/// One turn that is wanted from a policy: everything that decides its answer.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The record of this agent so far. It comes back with the answer, extended by what the policy read and what it sampled.
    pub trace: Trace,
    /// The whole conversation so far, the newest message last.
    pub messages: Arc<Vec<Message>>,
    /// Tools that may be called.
    pub tools: Arc<Vec<ToolSpec>>,
    /// What the answer begins with: the policy reads it as its own words and goes on. The answer's message has it.
    pub prefix: Vec<Piece>,
    /// How to choose tokens.
    pub sampling: Arc<Sampling>,
    /// Seed of the turn: the token at position `i` of the turn is chosen with `rng::uniform(seed, i)`.
    pub seed: u64,
}

/// A piece of what an answer begins with. Its ids are read as they are, and not made of its text.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Piece {
    /// Token ids.
    pub ids: Vec<u32>,
    /// Their text, without a character that they only begin.
    pub text: String,
    /// How they were sampled, where they are the beginning of an earlier answer: they keep it. Else the trace marks them as
    /// [`Source::Hint`](crate::Source::Hint).
    pub sampled: Option<Sampled>,
}

/// What a policy answered.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutput {
    /// The answer, to be appended to the conversation.
    pub message: Message,
    /// For each tool call that could not be read why it is none, in words for the policy. Its text stands in the message.
    pub malformed: Vec<String>,
    /// Why sampling stopped.
    pub stop: StopReason,
    /// One entry for each token that was sampled, where [`Sampling::logprobs`] asked for them; else empty.
    pub logprobs: Vec<TokenLogprobs>,
}

/// A turn that was submitted to a policy, in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(pub u64);

/// A turn that is over.
#[derive(Debug)]
pub struct Answered {
    /// Which one.
    pub id: TurnId,
    /// Its trace: where the turn failed, as it was submitted.
    pub trace: Trace,
    /// What was answered.
    pub result: Result<TurnOutput, PolicyError>,
}

/// What a policy can do, as it declares it. What a turn asks for beyond that is refused, not left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// It records in the trace which ids it read and sampled.
    pub token_ids: bool,
    /// It records the log-probs of each id, the model's and the one with which it was drawn.
    pub logprobs: bool,
    /// The seed decides its answer.
    pub seed: bool,
    /// It goes on from the beginning of an answer ([`Turn::prefix`]).
    pub prefix: bool,
    /// It stops at texts and ids.
    pub stop: bool,
    /// It applies penalties and filters.
    pub filters: bool,
    /// It is told of tools.
    pub tools: bool,
}

impl Abilities {
    /// Everything.
    pub const ALL: Abilities = Abilities {
        token_ids: true,
        logprobs: true,
        seed: true,
        prefix: true,
        stop: true,
        filters: true,
        tools: true,
    };

    /// Conversations in, text out, and nothing else.
    pub const TEXT: Abilities = Abilities {
        token_ids: false,
        logprobs: false,
        seed: false,
        prefix: false,
        stop: false,
        filters: false,
        tools: false,
    };

    /// Checks that all that a turn asks for can be done.
    ///
    /// # Errors
    /// Names the first thing that can't.
    pub fn check(self, turn: &Turn) -> Result<(), PolicyError> {
        self.check_sampling(&turn.sampling)?;
        first_missing(&[
            (!turn.prefix.is_empty(), self.prefix, "go on from the beginning of an answer"),
            (!turn.tools.is_empty(), self.tools, "be told of tools, and the environment has some"),
        ])
    }

    /// Checks that it can choose tokens like this.
    ///
    /// # Errors
    /// Names the first thing that can't be done.
    pub fn check_sampling(self, sampling: &Sampling) -> Result<(), PolicyError> {
        let is_stopping =
            !sampling.stop.is_empty() || !sampling.stop_token_ids.is_empty() || sampling.ignore_eos;
        let is_filtering = sampling.is_truncating() || sampling.is_penalising() || sampling.min_tokens > 0;
        first_missing(&[
            (is_stopping, self.stop, "be told where to stop (`stop`, `stop_token_ids`, `ignore_eos`)"),
            (
                is_filtering,
                self.filters,
                "filter or penalise tokens (`top_k`, `top_p`, `min_p`, `min_tokens`, penalties)",
            ),
            (sampling.grammar.is_some(), self.filters, "hold its answer to a grammar (`grammar`)"),
            (sampling.logprobs.is_some(), self.logprobs, "report log-probs (`logprobs`)"),
        ])
    }

    /// Checks that its answers can be trained on.
    ///
    /// # Errors
    /// If it does not say which ids it sampled, or how likely they were.
    pub fn check_trainable(self) -> Result<(), PolicyError> {
        if !self.token_ids {
            return Err(PolicyError::Unable(
                "say which token ids it read and sampled, so its answers can't be trained on; it can judge, play a user, \
                 teach by text and be evaluated",
            ));
        }
        if !self.logprobs {
            return Err(PolicyError::Unable(
                "say the log-probs of what it sampled, so its answers can't be trained on",
            ));
        }
        Ok(())
    }
}

/// The first of some things that is asked for and can't be done.
fn first_missing(asked: &[(bool, bool, &'static str)]) -> Result<(), PolicyError> {
    match asked.iter().find(|(is_asked, can, _)| *is_asked && !can) {
        Some((_, _, what)) => Err(PolicyError::Unable(what)),
        None => Ok(()),
    }
}

/// Whatever answers: a model in this process, a server, a script in a test.
///
/// Turns are submitted one at a time, at any time, and come back when they are over, in any order. What a turn is given
/// depends on the turn alone, not on which others are under way.
pub trait Policy {
    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// Number of updates that the weights have had.
    fn version(&self) -> u64;

    /// Takes a turn. One that can't be answered comes back with its error.
    fn submit(&mut self, turn: Turn) -> TurnId;

    /// The turns that are over since the last call. Waits for nobody: a model in this process does a piece of its work
    /// meanwhile, a server's answers are looked for.
    fn poll(&mut self) -> Vec<Answered>;

    /// The same, of at least one turn: empty only where none is under way.
    fn wait(&mut self) -> Vec<Answered>;

    /// Do turns go on by themselves, so that polling does none of their work?
    fn is_remote(&self) -> bool {
        false
    }

    /// Gives a turn up: it does not come back. Whether it was under way.
    fn cancel(&mut self, id: TurnId) -> bool;
}

/// Submits all turns and waits for them: their traces and results, in order. None may be under way before.
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
    /// The turn asks for what the policy can't do.
    #[error("the policy can't {0}")]
    Unable(&'static str),
    /// The policy itself failed.
    #[error("the policy failed: {0}")]
    Failed(String),
}
