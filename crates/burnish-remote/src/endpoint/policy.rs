//! A model at an address as a policy: text in, text out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use burnish_core::{
    Abilities, Answered, Message, Partial, Policy, PolicyError, Sampling, StopReason, Streaming, Trace, Turn,
    TurnId, TurnOutput,
};
use burnish_http::HttpError;
use tokio::sync::Semaphore;

use super::{ChatAnswer, ChatRequest, Delta, Endpoint, EndpointConfig};
use crate::turns::{Over, Teller, Turns};

/// Most requests to a server at the same time.
const AT_ONCE: usize = 8;

/// Answers turns through chat completions.
///
/// A server receives the conversation, its tools, the temperature, the token limit and a seed, and returns text and
/// tool calls. There are no token ids and no log-probs, and a turn that asks for anything else is refused before a
/// request is sent. Several requests are under way at once. After a failure that would also affect the next request,
/// the waiting turns are not sent and fail with the same error.
pub struct EndpointPolicy {
    line: Arc<Line>,
    turns: Turns<UnderWay, News>,
    /// Are answers asked for piece by piece?
    is_streaming: bool,
}

/// What is heard of a turn.
enum News {
    /// More of an answer: thoughts and text.
    Piece(String, String),
    Over(Result<TurnOutput, PolicyError>),
}

/// A turn that was submitted, and what has arrived of its answer.
struct UnderWay {
    trace: Trace,
    thoughts: String,
    text: String,
}

/// A server, and the turns that wait for it.
struct Line {
    endpoint: Endpoint,
    places: Semaphore,
    /// Number of failures that the next request would meet as well, and the last of them.
    failed: Mutex<(u64, String)>,
}

impl EndpointPolicy {
    /// The model that `config` describes. Nothing is sent yet.
    ///
    /// # Errors
    /// If the key is missing, or the address is none.
    pub fn new(config: EndpointConfig) -> Result<Self, HttpError> {
        let (places, failed) = (Semaphore::new(AT_ONCE), Mutex::default());
        Ok(EndpointPolicy {
            line: Arc::new(Line { endpoint: Endpoint::new(config)?, places, failed }),
            turns: Turns::new(),
            is_streaming: false,
        })
    }

    /// The same policy, which asks for its answers piece by piece ([`Streaming`]).
    #[must_use]
    pub fn streaming(mut self) -> Self {
        self.is_streaming = true;
        self
    }

    /// What a server can do for a turn.
    pub const ABILITIES: Abilities = Abilities { seed: true, tools: true, ..Abilities::TEXT };
}

/// Takes in what was heard of a turn. Returns its answer if it is over.
fn take_in(turn: &mut UnderWay, news: News) -> Option<Result<TurnOutput, PolicyError>> {
    match news {
        News::Piece(thoughts, text) => {
            turn.thoughts += &thoughts;
            turn.text += &text;
            None
        }
        News::Over(result) => Some(result),
    }
}

fn answered((id, turn, result): Over<UnderWay, Result<TurnOutput, PolicyError>>) -> Answered {
    Answered { id, trace: turn.trace, result }
}

impl Policy for EndpointPolicy {
    fn abilities(&self) -> Abilities {
        EndpointPolicy::ABILITIES
    }

    fn version(&self) -> u64 {
        0
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let under_way = UnderWay { trace: turn.trace.clone(), thoughts: String::new(), text: String::new() };
        let refused =
            turn.sampling.check().map_err(PolicyError::from).and_then(|()| self.abilities().check(&turn));
        match refused {
            Err(error) => self.turns.answered(under_way, News::Over(Err(error))),
            Ok(()) => {
                let (line, is_streaming) = (Arc::clone(&self.line), self.is_streaming);
                let failures = line.failures();
                self.turns.begin(
                    under_way,
                    async move |teller| line.answer(&turn, failures, is_streaming, &teller).await,
                    |error| News::Over(Err(error)),
                )
            }
        }
    }

    fn poll(&mut self) -> Vec<Answered> {
        self.turns.poll(take_in).into_iter().map(answered).collect()
    }

    fn wait(&mut self) -> Vec<Answered> {
        self.turns.wait(take_in).into_iter().map(answered).collect()
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        self.turns.cancel(id)
    }
}

impl Streaming for EndpointPolicy {
    fn partial(&mut self, id: TurnId) -> Option<Partial<'_>> {
        let turn = self.turns.get(id)?;
        Some(Partial { thoughts: &turn.thoughts, text: &turn.text, in_thoughts: false })
    }

    fn progress(&mut self, longest: Duration) -> Vec<Answered> {
        // One at a time, so that what came before the end is seen before it, even if the answer breaks off there.
        self.turns.progress(longest, take_in).map(answered).into_iter().collect()
    }

    fn stop(&mut self, id: TurnId) -> bool {
        let Some(turn) = self.turns.get(id) else { return false };
        if turn.text.is_empty() && turn.thoughts.is_empty() {
            self.cancel(id);
            return false;
        }
        let reasoning_content = (!turn.thoughts.is_empty()).then(|| turn.thoughts.clone());
        let message = Message { reasoning_content, ..Message::assistant(turn.text.clone()) };
        let stop = StopReason::Control;
        let output = TurnOutput::new(message, stop);
        // It is heard like any other answer.
        self.turns.tell_of(id, News::Over(Ok(output)));
        true
    }
}

impl Line {
    fn failures(&self) -> u64 {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// The work for a turn that was submitted after so many failures: waits for a place, asks, and reports.
    async fn answer(&self, turn: &Turn, failures: u64, is_streaming: bool, teller: &Teller<News>) {
        // The places are never closed.
        let Ok(_place) = self.places.acquire().await else { return };
        let problem = {
            let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            (failed.0 > failures).then(|| failed.1.clone())
        };
        let result = match problem {
            Some(problem) => {
                Err(PolicyError::Failed(format!("not sent, since a request before failed: {problem}")))
            }
            None => self.ask(turn, is_streaming, teller).await,
        };
        teller.tell(News::Over(result));
    }

    async fn ask(
        &self,
        turn: &Turn,
        is_streaming: bool,
        teller: &Teller<News>,
    ) -> Result<TurnOutput, PolicyError> {
        let asked = request(turn);
        let answer = if is_streaming {
            let each =
                |Delta { thoughts, text }: Delta<'_>| teller.tell(News::Piece(thoughts.into(), text.into()));
            self.endpoint.chat_streaming(&asked, each).await
        } else {
            self.endpoint.chat(&asked).await
        };
        answer.map(output).map_err(|error| {
            too_long(&error).unwrap_or_else(|| {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                *failed = (failed.0 + 1, error.to_string());
                PolicyError::Failed(error.to_string())
            })
        })
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
    TurnOutput { malformed: answer.malformed, ..TurnOutput::new(message, stop) }
}

/// The error if the server complains about a prompt that does not fit. Servers share no code for it; vLLM and similar
/// ones name the context length.
fn too_long(error: &HttpError) -> Option<PolicyError> {
    let HttpError::Status { status: 400 | 413 | 422, said, .. } = error else { return None };
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
