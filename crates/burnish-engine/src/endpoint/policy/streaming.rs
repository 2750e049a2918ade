//! Answers of a server that are read while they arrive.

use std::time::{Duration, Instant};

use burnish_core::{
    Answered, Message, Partial, Policy, PolicyError, StopReason, Streaming, Trace, Turn, TurnId, TurnOutput,
};

use super::{EndpointPolicy, News};

/// A turn that was submitted, and what has arrived of its answer.
pub(super) struct UnderWay {
    trace: Trace,
    thoughts: String,
    text: String,
    /// When the last piece arrived.
    last: Option<Instant>,
}

impl UnderWay {
    pub(super) fn of(turn: &Turn) -> Self {
        UnderWay { trace: turn.trace.clone(), thoughts: String::new(), text: String::new(), last: None }
    }

    pub(super) fn add(&mut self, thoughts: &str, text: &str) {
        self.thoughts += thoughts;
        self.text += text;
        self.last = Some(Instant::now());
    }
}

impl EndpointPolicy {
    /// Gives up the turns of which nothing more has come for too long.
    fn give_up_stalled(&mut self) -> Vec<Answered> {
        let longest = Duration::from_secs_f64(self.endpoint.config.timeout_seconds);
        let is_stalled = |turn: &UnderWay| turn.last.is_some_and(|last| last.elapsed() > longest);
        let stalled: Vec<TurnId> =
            self.under_way.iter().filter(|(_, turn)| is_stalled(turn)).map(|(id, _)| *id).collect();
        let mut answers = Vec::new();
        for id in stalled {
            let Some(turn) = self.under_way.remove(&id) else { continue };
            self.give_up(id);
            let problem = format!(
                "POST {}: the answer broke off: nothing more came for {} s",
                self.endpoint.url(),
                longest.as_secs_f64()
            );
            answers.push(Answered { id, trace: turn.trace, result: Err(PolicyError::Failed(problem)) });
        }
        answers
    }
}

impl Streaming for EndpointPolicy {
    fn partial(&mut self, id: TurnId) -> Option<Partial<'_>> {
        let turn = self.under_way.get(&id)?;
        Some(Partial { thoughts: &turn.thoughts, text: &turn.text, in_thoughts: false })
    }

    fn progress(&mut self, longest: Duration) -> Vec<Answered> {
        if self.under_way.is_empty() {
            return self.poll();
        }
        // One at a time, so that what came before the end is seen before it, even if the answer breaks off there.
        let news = self.news.recv_timeout(longest).ok().into_iter().collect();
        let mut answers = self.hear(news);
        answers.extend(self.give_up_stalled());
        answers
    }

    fn stop(&mut self, id: TurnId) -> bool {
        let Some(turn) = self.under_way.get(&id) else { return false };
        if turn.text.is_empty() && turn.thoughts.is_empty() {
            self.cancel(id);
            return false;
        }
        let reasoning_content = (!turn.thoughts.is_empty()).then(|| turn.thoughts.clone());
        let message = Message { reasoning_content, ..Message::assistant(turn.text.clone()) };
        let output =
            TurnOutput { message, malformed: Vec::new(), stop: StopReason::Control, logprobs: Vec::new() };
        // It is heard like any other answer; the receiver belongs to this policy.
        let _ = self.tell.send(News::Over(Answered { id, trace: turn.trace.clone(), result: Ok(output) }));
        self.give_up(id);
        true
    }
}
