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
    /// Those of them whose answers nobody wants any more. Their threads end with them, as such an answer may never come.
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
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use burnish_core::{Piece, Trace, answer_all};

    use super::super::test_server::{question, said, serve};
    use super::*;

    fn policy(url: &str) -> EndpointPolicy {
        let config = EndpointConfig { retries: 0, ..EndpointConfig::new(url, "m", None) };
        EndpointPolicy::new(config).unwrap()
    }

    fn turn(text: &str, seed: u64) -> Turn {
        Turn {
            trace: Trace::new(),
            messages: Arc::new(vec![Message::user(text)]),
            tools: Arc::default(),
            prefix: Vec::new(),
            sampling: Arc::new(Sampling::at(0.5, 7)),
            seed,
        }
    }

    #[test]
    fn many_turns_are_answered_and_each_by_its_own_answer() {
        let (url, sent) = serve(|_, asked| said(&format!("re: {}", question(asked))));
        let mut policy = policy(&url);
        let turns = |count: u64| (0..count).map(|at| turn(&format!("q{at}"), u64::MAX - at));
        let answers = answer_all(&mut policy, turns(30));
        for (at, (trace, answer)) in answers.iter().enumerate() {
            assert_eq!(answer.as_ref().unwrap().message.content, format!("re: q{at}"));
            assert!(trace.nodes().is_empty(), "a server says no ids");
        }
        let sent = sent.lock().unwrap();
        assert_eq!(sent.len(), 30);
        let seeds: BTreeSet<i64> = sent.iter().map(|body| body["seed"].as_i64().unwrap()).collect();
        assert_eq!(seeds, (0..30).map(|at| i64::MAX - at).collect());
        assert!(policy.wait().is_empty() && policy.poll().is_empty());
    }

    #[test]
    fn a_failure_that_lasts_sends_no_more_and_a_later_turn_tries_anew() {
        let (url, sent) = serve(|before, asked| match before {
            0 => ("401 Unauthorized", serde_json::json!({"error": {"message": "no such key"}})),
            _ => said(question(asked)),
        });
        let mut policy = policy(&url);
        let answers = answer_all(&mut policy, (0..100).map(|at| turn("a", at)));
        let errors: Vec<String> =
            answers.iter().filter_map(|(_, answer)| Some(answer.as_ref().err()?.to_string())).collect();
        assert!(
            errors.iter().all(|error| error.contains("status 401") && error.contains("no such key")),
            "{errors:?}"
        );
        assert!(sent.lock().unwrap().len() < 100 && errors.len() > 1, "{}", errors.len());
        let (_, later) = answer_all(&mut policy, [turn("later", 1)]).remove(0);
        assert_eq!(later.unwrap().message.content, "later");
    }

    #[test]
    fn what_a_server_can_not_be_told_is_refused_and_not_sent() {
        let (url, sent) = serve(|_, _| said("x"));
        let mut policy = policy(&url);
        let of = |sampling: Sampling| Turn { sampling: Arc::new(sampling), ..turn("a", 1) };
        let at = Sampling::at(1.0, 4);
        let refused = [
            (
                Turn { prefix: vec![Piece { text: "so".into(), ..Piece::default() }], ..turn("a", 1) },
                "the beginning of an answer",
            ),
            (of(Sampling { top_k: 3, ..at.clone() }), "`top_k`"),
            (of(Sampling { stop: vec!["x".into()], ..at.clone() }), "`stop`"),
            (of(Sampling { logprobs: Some(1), ..at.clone() }), "`logprobs`"),
            (of(Sampling { temperature: -1.0, ..at }), "temperature"),
        ];
        for (turn, part) in refused {
            let (_, answer) = answer_all(&mut policy, [turn]).remove(0);
            let error = answer.unwrap_err().to_string();
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(sent.lock().unwrap().is_empty());
        let error = policy.abilities().check_trainable().unwrap_err().to_string();
        assert!(error.contains("token ids") && error.contains("can judge"), "{error}");
    }

    #[test]
    fn a_turn_that_is_given_up_does_not_come_back() {
        let (url, _sent) = serve(|_, asked| said(question(asked)));
        let mut policy = policy(&url);
        let ids: Vec<TurnId> = (0..20).map(|at| policy.submit(turn(&format!("{at}"), at))).collect();
        for id in &ids[1..] {
            assert!(policy.cancel(*id));
        }
        let answers = policy.wait();
        assert_eq!(answers.iter().map(|answered| answered.id).collect::<Vec<_>>(), ids[..1]);
        assert!(policy.wait().is_empty() && !policy.cancel(ids[0]) && !policy.cancel(ids[1]));
    }

    fn status(status: u16, said: &str) -> EndpointError {
        EndpointError::Status { url: "u".into(), status, tries: 1, said: said.into() }
    }

    #[test]
    fn a_prompt_that_is_too_long_for_the_server_is_told_from_other_failures() {
        let vllm = "This model's maximum context length is 4096 tokens. However, you requested 5120 tokens (4864 in the \
                    messages, 256 in the completion).";
        let found = too_long(&status(400, vllm));
        assert!(
            matches!(found, Some(PolicyError::PromptTooLong { tokens: 5120, tokens_max: 4096 })),
            "{found:?}"
        );
        assert!(too_long(&status(400, "unknown model `x`")).is_none());
        assert!(too_long(&status(500, vllm)).is_none());
    }

    #[test]
    fn tools_are_sent_and_their_calls_come_back() {
        let tool =
            serde_json::json!({ "name": "weather", "description": "d", "parameters": { "type": "object" } });
        let (url, sent) = serve(|_, _| {
            let call = |name: &str, arguments: &str| {
                let function = serde_json::json!({ "name": name, "arguments": arguments });
                serde_json::json!({ "id": "c1", "type": "function", "function": function })
            };
            let calls =
                [call("weather", "{\"city\": \"Bern\"}"), call("weather", "{\"city\""), call("stop", "")];
            let message = serde_json::json!({ "role": "assistant", "content": null, "tool_calls": calls });
            (
                "200 OK",
                serde_json::json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] }),
            )
        });
        let mut policy = policy(&url);
        let asks = |tools: Arc<Vec<burnish_core::ToolSpec>>, messages| Turn {
            tools,
            messages: Arc::new(messages),
            ..turn("a", 1)
        };
        let tools = Arc::new(vec![serde_json::from_value(tool.clone()).unwrap()]);
        let (_, answer) =
            answer_all(&mut policy, [asks(Arc::clone(&tools), vec![Message::user("a")])]).remove(0);
        let TurnOutput { message, malformed, .. } = answer.unwrap();
        assert_eq!(malformed, ["call 2: the arguments are not JSON: it ends within an object at column 7"]);
        assert!(message.content.contains("weather"), "{}", message.content);
        let names: Vec<&str> = message.tool_calls.iter().map(|call| call.function.name.as_str()).collect();
        assert_eq!(names, ["weather", "stop"]);
        assert_eq!(message.tool_calls[0].function.arguments, serde_json::json!({ "city": "Bern" }));
        assert_eq!(message.tool_calls[0].id.as_deref(), Some("c1"));
        // A call without an id, and its result.
        let mut calls = message.clone();
        calls.tool_calls.truncate(1);
        calls.tool_calls[0].id = None;
        let result = Message::new(burnish_core::Role::Tool, "sunny");
        answer_all(&mut policy, [asks(tools, vec![Message::user("a"), calls, result])]);
        let sent = sent.lock().unwrap();
        assert_eq!(sent[0]["tools"], serde_json::json!([{ "type": "function", "function": tool }]));
        let call = &sent[1]["messages"][1]["tool_calls"][0];
        assert_eq!(call["function"]["arguments"], "{\"city\":\"Bern\"}");
        assert_eq!(
            (&call["id"], &sent[1]["messages"][2]["tool_call_id"]),
            (&"call_1".into(), &"call_1".into())
        );
    }

    #[test]
    fn an_answer_at_the_limit_is_cut_off() {
        let with = |reason: &str| {
            output(ChatAnswer { finish_reason: Some(reason.into()), ..ChatAnswer::default() }).stop
        };
        assert_eq!((with("length"), with("stop")), (StopReason::TokensMax, StopReason::EndToken));
    }
}
