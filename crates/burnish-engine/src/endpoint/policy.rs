//! A model at an address as a policy: text in, text out.

mod streaming;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use burnish_core::{
    Abilities, Answered, Message, Policy, PolicyError, Sampling, StopReason, Turn, TurnId, TurnOutput,
};

use super::{ChatAnswer, ChatRequest, Delta, Endpoint, EndpointConfig, EndpointError};
use streaming::UnderWay;

/// Most requests to a server at the same time.
const AT_ONCE: usize = 8;

/// Answers turns through chat completions.
///
/// A server receives the conversation, its tools, the temperature, the token limit and a seed, and returns text and
/// tool calls. There are no token ids and no log-probs, and a turn that asks for anything else is refused before a
/// request is sent. Several requests are under way at once. After a failure that would also affect the next request,
/// the waiting turns are not sent and fail with the same error.
pub struct EndpointPolicy {
    endpoint: Arc<Endpoint>,
    line: Arc<Line>,
    /// Number of sending threads whose answers are wanted. They end with the policy, each after its current request.
    senders: usize,
    news: Receiver<News>,
    tell: Sender<News>,
    under_way: BTreeMap<TurnId, UnderWay>,
    submitted: u64,
    /// Are answers asked for piece by piece?
    is_streaming: bool,
}

/// What a sending thread has to tell.
enum News {
    /// More of an answer: thoughts and text.
    Piece(TurnId, String, String),
    Over(Answered),
}

/// Turns that wait to be sent.
#[derive(Default)]
struct Line {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(TurnId, Turn)>,
    /// Turns that were sent and whose answers have not come.
    sent: BTreeSet<TurnId>,
    /// Those of them whose answers nobody wants any more. Their threads end with them, as such an answer may never
    /// come.
    given_up: BTreeSet<TurnId>,
    is_closed: bool,
}

impl EndpointPolicy {
    /// The model that `config` describes. Nothing is sent yet.
    ///
    /// # Errors
    /// If the key is missing.
    pub fn new(config: EndpointConfig) -> Result<Self, EndpointError> {
        let (tell, news) = mpsc::channel();
        Ok(EndpointPolicy {
            endpoint: Arc::new(Endpoint::new(config)?),
            line: Arc::default(),
            senders: 0,
            news,
            tell,
            under_way: BTreeMap::new(),
            submitted: 0,
            is_streaming: false,
        })
    }

    /// The same policy, which asks for its answers piece by piece ([`Streaming`](burnish_core::Streaming)).
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.is_streaming = true;
        self
    }

    /// What a server can do for a turn.
    pub const ABILITIES: Abilities = Abilities { seed: true, tools: true, ..Abilities::TEXT };

    /// Sees to it that every turn under way has a thread that sends it.
    fn employ(&mut self) {
        while self.senders < AT_ONCE.min(self.under_way.len()) {
            let (line, endpoint) = (Arc::clone(&self.line), Arc::clone(&self.endpoint));
            let (tell, is_streaming) = (self.tell.clone(), self.is_streaming);
            std::thread::spawn(move || line.send_all(&endpoint, is_streaming, &tell));
            self.senders += 1;
        }
    }

    /// Neither sends a turn that waits, nor waits for its answer.
    fn give_up(&mut self, id: TurnId) {
        if self.line.give_up(id) {
            self.senders -= 1;
            self.employ();
        }
    }

    /// Takes in news. Returns the answers whose turns were not cancelled in the meantime.
    fn hear(&mut self, news: Vec<News>) -> Vec<Answered> {
        let mut answers = Vec::new();
        for news in news {
            match news {
                News::Piece(id, thoughts, text) => {
                    if let Some(turn) = self.under_way.get_mut(&id) {
                        turn.add(&thoughts, &text);
                    }
                }
                News::Over(answered) => {
                    if self.under_way.remove(&answered.id).is_some() {
                        answers.push(answered);
                    }
                }
            }
        }
        answers
    }
}

impl Policy for EndpointPolicy {
    fn abilities(&self) -> Abilities {
        EndpointPolicy::ABILITIES
    }

    fn version(&self) -> u64 {
        0
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.submitted);
        self.submitted += 1;
        self.under_way.insert(id, UnderWay::of(&turn));
        let refused =
            turn.sampling.check().map_err(PolicyError::from).and_then(|()| self.abilities().check(&turn));
        if let Err(error) = refused {
            // The receiver belongs to this policy.
            let _ = self.tell.send(News::Over(Answered { id, trace: turn.trace, result: Err(error) }));
            return id;
        }
        self.line.lock().waiting.push_back((id, turn));
        self.line.changed.notify_one();
        self.employ();
        id
    }

    fn poll(&mut self) -> Vec<Answered> {
        let news = self.news.try_iter().collect();
        self.hear(news)
    }

    fn wait(&mut self) -> Vec<Answered> {
        while !self.under_way.is_empty() {
            let Ok(first) = self.news.recv() else { break };
            let news = std::iter::once(first).chain(self.news.try_iter()).collect();
            let answers = self.hear(news);
            if !answers.is_empty() {
                return answers;
            }
        }
        Vec::new()
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        let is_under_way = self.under_way.remove(&id).is_some();
        if is_under_way {
            self.give_up(id);
        }
        is_under_way
    }
}

impl Drop for EndpointPolicy {
    fn drop(&mut self) {
        let mut state = self.line.lock();
        state.waiting.clear();
        state.is_closed = true;
        self.line.changed.notify_all();
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No thread panics while it holds the lock; the queue would be valid even then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn out of the line. Returns whether it was sent already, so that its thread is lost.
    fn give_up(&self, id: TurnId) -> bool {
        let mut state = self.lock();
        state.waiting.retain(|(waiting, _)| *waiting != id);
        let is_sent = state.sent.contains(&id);
        if is_sent {
            state.given_up.insert(id);
        }
        is_sent
    }

    /// The work of a thread: sends one turn after the other until the policy is dropped.
    fn send_all(&self, endpoint: &Endpoint, is_streaming: bool, tell: &Sender<News>) {
        while let Some((id, turn)) = self.next() {
            let asked = request(&turn);
            let answer = if is_streaming {
                endpoint.chat_streaming(&asked, &mut |Delta { thoughts, text }| {
                    let is_heard = tell.send(News::Piece(id, thoughts.into(), text.into())).is_ok();
                    let goes_on = is_heard && !self.lock().given_up.contains(&id);
                    if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })
            } else {
                endpoint.chat(&asked).map(Some)
            };
            if self.is_unwanted(id) {
                return;
            }
            let mut over = Vec::new();
            let result = match answer {
                Ok(Some(answer)) => Ok(output(answer)),
                // The policy is gone.
                Ok(None) => return,
                Err(error) => Err(too_long(&error).unwrap_or_else(|| {
                    over.extend(self.lock().waiting.drain(..));
                    PolicyError::Failed(error.to_string())
                })),
            };
            let failed = |(id, turn): (TurnId, Turn), problem: &str| {
                let result =
                    Err(PolicyError::Failed(format!("not sent, since a request before failed: {problem}")));
                Answered { id, trace: turn.trace, result }
            };
            let problem = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
            let first = Answered { id, trace: turn.trace, result };
            let answers =
                std::iter::once(first).chain(over.into_iter().map(|unsent| failed(unsent, &problem)));
            for answer in answers {
                if tell.send(News::Over(answer)).is_err() {
                    return;
                }
            }
        }
    }

    /// The answer to a turn has come: was it given up?
    fn is_unwanted(&self, id: TurnId) -> bool {
        let mut state = self.lock();
        state.sent.remove(&id);
        state.given_up.remove(&id)
    }

    /// The next turn to send; `None` when the policy is gone.
    fn next(&self) -> Option<(TurnId, Turn)> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            if let Some(next) = state.waiting.pop_front() {
                state.sent.insert(next.0);
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn request(turn: &Turn) -> ChatRequest<'_> {
    let Sampling { temperature, tokens_max, .. } = *turn.sampling;
    // Servers take a signed number.
    let seed = turn.seed & i64::MAX as u64;
    ChatRequest { messages: &turn.messages, tools: &turn.tools, temperature, tokens_max, seed }
}

fn output(answer: ChatAnswer) -> TurnOutput {
    let stop = match answer.finish_reason.as_deref() {
        Some("length") => StopReason::TokensMax,
        _ => StopReason::EndToken,
    };
    let reasoning_content = answer.reasoning_content;
    let message =
        Message { reasoning_content, tool_calls: answer.calls, ..Message::assistant(answer.content) };
    TurnOutput { message, malformed: answer.malformed, stop, logprobs: Vec::new() }
}

/// The error if the server complains about a prompt that does not fit. Servers share no code for it; vLLM and similar
/// ones name the context length.
fn too_long(error: &EndpointError) -> Option<PolicyError> {
    let EndpointError::Status { status: 400 | 413 | 422, said, .. } = error else { return None };
    let lower = said.to_lowercase();
    let is_said =
        ["context length", "context_length", "context window", "context size", "prompt is too long"]
            .iter()
            .any(|words| lower.contains(words));
    let numbers =
        || said.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<usize>().ok());
    // The message names the window, and a larger number of tokens that would be needed.
    let (tokens, tokens_max) = (numbers().max().unwrap_or(0), numbers().next().unwrap_or(0));
    is_said.then_some(PolicyError::PromptTooLong { tokens, tokens_max })
}

#[cfg(test)]
mod tests;
