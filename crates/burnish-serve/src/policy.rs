//! A policy that answers requests, many at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use burnish_core::rng::{self, Address, Purpose};
use burnish_core::{Answered, Policy, PolicyError, Sampling, Trace, Turn, TurnId};

use crate::{Backend, Caller, ChatRequest, Refusal, Reply, Spoken};

/// How long to wait for a request before looking whether to stop.
const IDLE: Duration = Duration::from_millis(100);
/// How long to wait for a request while a policy works by itself.
const BESIDE: Duration = Duration::from_millis(2);

/// Takes requests for [`serve_policy`].
#[derive(Debug)]
pub struct PolicyBackend {
    model: String,
    key: Option<String>,
    queue: Sender<(ChatRequest, Reply)>,
}

/// The requests that a [`PolicyBackend`] has taken.
#[derive(Debug)]
pub struct Inbox(Receiver<(ChatRequest, Reply)>);

impl PolicyBackend {
    /// For a model of this name; with a `key`, only callers who send it are answered.
    pub fn new(model: impl Into<String>, key: Option<String>) -> (Self, Inbox) {
        let (queue, inbox) = channel();
        (PolicyBackend { model: model.into(), key, queue }, Inbox(inbox))
    }
}

impl Backend for PolicyBackend {
    fn models(&self, caller: &Caller) -> Result<Vec<String>, Refusal> {
        if !caller.base.is_empty() {
            let message = format!("there is nothing below {} here: leave it out", caller.base);
            return Err(Refusal::because(404, "unknown_path", message));
        }
        if self.key.is_some() && self.key != caller.key {
            let message = "this server wants its key, as `authorization: Bearer KEY`";
            return Err(Refusal::because(401, "invalid_api_key", message));
        }
        Ok(vec![self.model.clone()])
    }

    fn ask(&self, _: Caller, request: ChatRequest, reply: Reply) {
        // If nobody serves any more, the reply is dropped, which the client is told.
        let _ = self.queue.send((request, reply));
    }
}

/// How a policy serves.
#[derive(Debug, Clone)]
pub struct Serving {
    /// How tokens are chosen where a request does not say.
    pub defaults: Sampling,
    /// Most tokens of an answer that a request may ask for.
    pub tokens_max: usize,
    /// Seed of requests that bring none: request number `i` then samples with the address (seed, task `i`).
    pub seed: u64,
}

/// What has been served so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Requests whose client went away.
    pub given_up: u64,
}

/// A request under way.
struct UnderWay {
    reply: Reply,
    turns: Vec<TurnId>,
    spoken: Vec<Option<Spoken>>,
}

/// Answers requests until `is_stopped`, and returns what was served. Requests join the policy's batch as they come and
/// leave it as they are answered; one whose client goes away is cancelled.
pub fn serve_policy(
    policy: &mut dyn Policy,
    inbox: &Inbox,
    serving: &Serving,
    is_stopped: &dyn Fn() -> bool,
) -> Served {
    let mut served = Served::default();
    let mut under_way: BTreeMap<u64, UnderWay> = BTreeMap::new();
    let mut by_turn: BTreeMap<TurnId, (u64, usize)> = BTreeMap::new();
    let mut number = 0;
    while !is_stopped() {
        let mut patience = match (under_way.is_empty(), policy.is_remote()) {
            (true, _) => Some(IDLE),
            (false, true) => Some(BESIDE),
            (false, false) => None,
        };
        loop {
            let (request, reply) = match next(inbox, patience.take()) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                // Nobody can ask any more.
                Err(()) if under_way.is_empty() => return served,
                Err(()) => break,
            };
            match turns(&request, serving, number) {
                Err(refusal) => {
                    served.refused += 1;
                    reply.send(Err(refusal));
                }
                Ok(turns) => {
                    let turns: Vec<TurnId> = turns.into_iter().map(|turn| policy.submit(turn)).collect();
                    by_turn.extend(turns.iter().enumerate().map(|(at, id)| (*id, (number, at))));
                    let spoken = turns.iter().map(|_| None).collect();
                    under_way.insert(number, UnderWay { reply, turns, spoken });
                }
            }
            number += 1;
        }
        under_way.retain(|_, UnderWay { reply, turns, .. }| {
            let is_wanted = !reply.is_given_up();
            if !is_wanted {
                served.given_up += 1;
                cancel(policy, turns, &mut by_turn);
            }
            is_wanted
        });
        for Answered { id, trace, result } in policy.poll() {
            let Some((number, at)) = by_turn.remove(&id) else { continue };
            let Some(request) = under_way.get_mut(&number) else { continue };
            let failed = result.map(|output| request.spoken[at] = Some(Spoken { trace, output })).err();
            if failed.is_none() && request.spoken.iter().any(Option::is_none) {
                continue;
            }
            let Some(UnderWay { reply, turns, spoken }) = under_way.remove(&number) else { continue };
            match failed {
                Some(error) => {
                    served.refused += 1;
                    cancel(policy, &turns, &mut by_turn);
                    reply.send(Err(error.into()));
                }
                None => {
                    served.answered += 1;
                    reply.send(Ok(spoken.into_iter().flatten().collect()));
                }
            }
        }
    }
    served
}

fn cancel(policy: &mut dyn Policy, turns: &[TurnId], by_turn: &mut BTreeMap<TurnId, (u64, usize)>) {
    for id in turns {
        if by_turn.remove(id).is_some() {
            policy.cancel(*id);
        }
    }
}

/// The next request, if one comes in time; without `patience`, if one is there.
///
/// # Errors
/// If none will come any more.
fn next(inbox: &Inbox, patience: Option<Duration>) -> Result<Option<(ChatRequest, Reply)>, ()> {
    let Some(patience) = patience else {
        return match inbox.0.try_recv() {
            Ok(next) => Ok(Some(next)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(()),
        };
    };
    match inbox.0.recv_timeout(patience) {
        Ok(next) => Ok(Some(next)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(()),
    }
}

/// The turns of a request, one for each answer.
///
/// # Errors
/// Names the field that is out of range.
fn turns(request: &ChatRequest, serving: &Serving, number: u64) -> Result<Vec<Turn>, Refusal> {
    let mut sampling = request.sampling.over(&serving.defaults);
    // Log-probs of the tokens themselves are on the trace.
    sampling.logprobs = request.sampling.logprobs.filter(|top| *top > 0);
    if sampling.tokens_max > serving.tokens_max {
        let problem = format!("`max_tokens` must be {} or less", serving.tokens_max);
        return Err(Refusal::invalid("max_tokens", problem));
    }
    sampling.check().map_err(PolicyError::from)?;
    let own = Address { task: number, ..Address::new(serving.seed, Purpose::Sample) }.seed();
    let seed = request.seed.unwrap_or(own);
    let (messages, tools) = (Arc::new(request.messages.clone()), Arc::new(request.tools.clone()));
    let sampling = Arc::new(sampling);
    let turn = |at: usize| Turn {
        trace: Trace::new(),
        messages: Arc::clone(&messages),
        tools: Arc::clone(&tools),
        prefix: Vec::new(),
        sampling: Arc::clone(&sampling),
        // The first answer is that of a request for one.
        seed: if at == 0 { seed } else { rng::bits(seed, at as u64) },
    };
    Ok((0..request.answers).map(turn).collect())
}
