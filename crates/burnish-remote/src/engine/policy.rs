//! A fleet as a policy: token in, token out.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::{Abilities, Answered, Policy, PolicyError, Sampling, StopReason, Trace, Turn, TurnId};
use burnish_model::{Chat, Said};

use super::request::{Ask, Completion, End};
use super::{EngineError, Fleet};
use crate::turns::Turns;

/// Turns that a fleet answers. Ids go there and come back; text is made here.
pub struct EnginePolicy {
    fleet: Arc<Fleet>,
    chat: Arc<Chat>,
    /// Ids of the model's head that the tokenizer does not have, ascending.
    missing_ids: Arc<[u32]>,
    version: u64,
    turns: Turns<Result<Completion, PolicyError>>,
    /// With the trace whose head is the prompt.
    under_way: BTreeMap<TurnId, (Turn, Trace)>,
}

impl EnginePolicy {
    /// The policy that `fleet` serves, with its chat format; its weights have had `version` updates. Replicas with
    /// other weights are not asked. `missing_ids` are those of the model's head that the tokenizer does not have, in
    /// ascending order: an engine does not know them, and must never sample them.
    pub fn new(fleet: &Arc<Fleet>, chat: &Arc<Chat>, missing_ids: &[u32], version: u64) -> Self {
        EnginePolicy {
            fleet: Arc::clone(fleet),
            chat: Arc::clone(chat),
            missing_ids: missing_ids.into(),
            version,
            turns: Turns::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// Checks that everything so far was sampled with the weights of this policy.
    ///
    /// # Errors
    /// If somebody else gave a replica others.
    pub fn confirm(&self) -> Result<(), EngineError> {
        self.fleet.confirm(self.version)
    }

    /// What an engine can do for a turn.
    pub const ABILITIES: Abilities = Abilities { filters: false, ..Abilities::ALL };

    /// The trace with the turn's prompt at its head, and the prompt, if the turn can be answered.
    fn read(&self, turn: &Turn) -> Result<(Trace, Vec<u32>), PolicyError> {
        self.abilities().check(turn)?;
        self.fleet.check(&turn.sampling)?;
        self.chat.pose(turn, self.fleet.context_tokens_max().saturating_sub(1))
    }

    fn finish(&mut self, (id, news): (TurnId, Result<Completion, PolicyError>)) -> Option<Answered> {
        self.turns.end(id);
        let (turn, mut trace) = self.under_way.remove(&id)?;
        let recorded = news.and_then(|completion| {
            let said = self.said(completion, &turn.sampling)?;
            self.chat.take_answer(&mut trace, &turn, said)
        });
        Some(match recorded {
            Ok(output) => Answered { id, trace, result: Ok(output) },
            Err(error) => Answered { id, trace: turn.trace, result: Err(error) },
        })
    }

    fn said(&self, completion: Completion, sampling: &Sampling) -> Result<Said, PolicyError> {
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
        let (model_logprobs, details, policy_version) = (logprobs, Vec::new(), self.version);
        Ok(Said { ids, model_logprobs, sampled_logprobs, stop, text, details, policy_version })
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

impl Policy for EnginePolicy {
    fn abilities(&self) -> Abilities {
        Abilities { seed: self.fleet.heeds_seeds(), ..EnginePolicy::ABILITIES }
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let (id, trace) = match self.read(&turn) {
            Err(error) => (self.turns.answered(Err(error)), turn.trace.clone()),
            Ok((trace, prompt)) => {
                let (fleet, chat, sampling) =
                    (Arc::clone(&self.fleet), Arc::clone(&self.chat), Arc::clone(&turn.sampling));
                let missing_ids = Arc::clone(&self.missing_ids);
                let (root, version, seed) = (root(&trace), self.version, turn.seed);
                let tokens_max = fleet.context_tokens_max().saturating_sub(prompt.len());
                let id = self.turns.begin(
                    async move |teller| {
                        let (prompt, sampling, end_ids) = (&prompt[..], &*sampling, chat.end_ids());
                        let missing_ids = &*missing_ids;
                        let ask =
                            Ask { prompt, sampling, adapter: None, end_ids, missing_ids, seed, tokens_max };
                        teller.tell(fleet.ask(root, version, ask).await);
                    },
                    Err,
                );
                (id, trace)
            }
        };
        self.under_way.insert(id, (turn, trace));
        id
    }

    fn poll(&mut self) -> Vec<Answered> {
        let mut answers = Vec::new();
        while let Some(news) = self.turns.heard() {
            answers.extend(self.finish(news));
        }
        answers
    }

    fn wait(&mut self) -> Vec<Answered> {
        while let Some(news) = self.turns.hear() {
            if let Some(answer) = self.finish(news) {
                let mut answers = vec![answer];
                answers.extend(self.poll());
                return answers;
            }
        }
        Vec::new()
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        self.turns.end(id);
        self.under_way.remove(&id).is_some()
    }
}
