//! Servers that answer in tokens, as a policy.

use std::sync::Arc;

use burnish_core::{Abilities, Answered, Policy, PolicyError, Sampling, StopReason, Trace, Turn, TurnId};
use burnish_model::{Chat, Generated};

use super::{Ask, Completion, End, TokenServer};
use crate::turns::{Over, Turns};

/// Turns that servers answer in tokens. Ids go there and come back; text is made here.
pub struct TokenPolicy {
    server: Arc<dyn TokenServer>,
    chat: Arc<Chat>,
    /// Ids of the model's head that the tokenizer does not have, ascending.
    missing_ids: Arc<[u32]>,
    version: u64,
    turns: Turns<Posed, Result<Completion, PolicyError>>,
}

/// A turn with the trace whose head is its prompt.
struct Posed {
    turn: Turn,
    trace: Trace,
}

impl TokenPolicy {
    /// The policy that `server` samples from, with its chat format; its weights have had `version` updates.
    /// `missing_ids` are those of the model's head that the tokenizer does not have, in ascending order: a server does
    /// not know them, and must never sample them.
    pub fn new(server: Arc<dyn TokenServer>, chat: &Arc<Chat>, missing_ids: &[u32], version: u64) -> Self {
        TokenPolicy {
            server,
            chat: Arc::clone(chat),
            missing_ids: missing_ids.into(),
            version,
            turns: Turns::new(),
        }
    }

    /// Checks that everything so far was sampled with the weights of this policy.
    ///
    /// # Errors
    /// If somebody else gave a server others.
    pub fn confirm(&self) -> Result<(), PolicyError> {
        self.server.confirm(self.version)
    }

    /// The trace with the turn's prompt at its head, and the prompt, if the turn can be answered.
    fn read(&self, turn: &Turn) -> Result<(Trace, Vec<u32>), PolicyError> {
        self.abilities().check(turn)?;
        self.server.check(&turn.sampling)?;
        self.chat.pose(turn, self.server.context_tokens_max().saturating_sub(1))
    }

    fn finish(&self, (id, posed, news): Over<Posed, Result<Completion, PolicyError>>) -> Answered {
        let Posed { turn, mut trace } = posed;
        let recorded = news.and_then(|completion| {
            let generated = self.generated(completion, &turn.sampling)?;
            self.chat.take_answer(&mut trace, &turn, generated, self.version)
        });
        match recorded {
            Ok(output) => Answered { id, trace, result: Ok(output) },
            Err(error) => Answered { id, trace: turn.trace, result: Err(error) },
        }
    }

    fn generated(&self, completion: Completion, sampling: &Sampling) -> Result<Generated, PolicyError> {
        let Completion { ids, logprobs, end } = completion;
        if let Some(id) = ids.iter().find(|id| self.missing_ids.binary_search(id).is_ok()) {
            let problem = format!("it sampled the id {id}, which the tokenizer does not have");
            return Err(PolicyError::Failed(problem));
        }
        let stop = match end {
            End::Text => StopReason::StopString,
            End::Length if ids.len() < sampling.tokens_max => StopReason::ContextFull,
            End::Length => StopReason::TokensMax,
            End::Token | End::Aborted => StopReason::EndToken,
        };
        let text = match end {
            End::Text => {
                let whole = self.chat.tokenizer.decode(&ids, false);
                let whole = whole.map_err(|error| PolicyError::Failed(error.to_string()))?;
                Some(until_stop(&whole, sampling).to_owned())
            }
            _ => None,
        };
        // Without penalties and filters, a token is drawn from the model's own distribution; greedy ones are not drawn.
        let sampled_logprobs = (sampling.temperature == 0.0).then(|| vec![0.0; ids.len()]);
        Ok(Generated {
            ids,
            model_logprobs: logprobs,
            sampled_logprobs,
            stop,
            text,
            sources: None,
            latents: Vec::new(),
            details: Vec::new(),
            aside: 0,
        })
    }
}

/// The text up to the stop string that ends first, or up to its end if it is to be included.
fn until_stop<'a>(text: &'a str, sampling: &Sampling) -> &'a str {
    let found = sampling.stop.iter().filter_map(|stop| text.find(stop).map(|at| (at + stop.len(), at)));
    match found.min() {
        Some((end, _)) if sampling.include_stop => &text[..end],
        Some((_, begin)) => &text[..begin],
        None => text,
    }
}

/// What the requests of an episode have in common: the first prompt that it read.
fn root(trace: &Trace) -> u64 {
    let first = trace.nodes().first().map(|node| node.ids.as_slice()).unwrap_or_default();
    first.iter().fold(0, |hash, id| burnish_core::rng::fold_bytes(hash, &id.to_le_bytes()))
}

impl Policy for TokenPolicy {
    fn abilities(&self) -> Abilities {
        self.server.abilities()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let (trace, prompt) = match self.read(&turn) {
            Err(error) => {
                let trace = turn.trace.clone();
                return self.turns.answered(Posed { turn, trace }, Err(error));
            }
            Ok(read) => read,
        };
        let (server, chat, sampling) =
            (Arc::clone(&self.server), Arc::clone(&self.chat), Arc::clone(&turn.sampling));
        let missing_ids = Arc::clone(&self.missing_ids);
        let (root, version, seed) = (root(&trace), self.version, turn.seed);
        let tokens_max = server.context_tokens_max().saturating_sub(prompt.len());
        self.turns.begin(
            Posed { turn, trace },
            async move |teller| {
                let (prompt, sampling, end_ids) = (&prompt[..], &*sampling, chat.end_ids());
                let ask = Ask { prompt, sampling, end_ids, missing_ids: &missing_ids, seed, tokens_max };
                teller.tell(server.ask(root, version, ask).await);
            },
            Err,
        )
    }

    fn poll(&mut self) -> Vec<Answered> {
        let over = self.turns.poll(|_, news| Some(news));
        over.into_iter().map(|over| self.finish(over)).collect()
    }

    fn wait(&mut self) -> Vec<Answered> {
        let over = self.turns.wait(|_, news| Some(news));
        over.into_iter().map(|over| self.finish(over)).collect()
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        self.turns.cancel(id)
    }
}
