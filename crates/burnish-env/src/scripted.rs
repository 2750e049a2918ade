//! A policy for tests whose answers are given, calls and complaints about calls included.

use burnish_core::{Abilities, Answered, Message, Policy, StopReason, Turn, TurnId, TurnOutput};

/// Answers each turn as a closure says: with a message, and why calls in it could not be read.
pub(crate) struct Scripted<F> {
    answer: F,
    answered: Vec<Answered>,
    next: u64,
}

impl<F: FnMut(&Turn) -> (Message, Vec<String>)> Scripted<F> {
    pub(crate) fn new(answer: F) -> Self {
        Scripted { answer, answered: Vec::new(), next: 0 }
    }
}

impl<F: FnMut(&Turn) -> (Message, Vec<String>)> Policy for Scripted<F> {
    fn abilities(&self) -> Abilities {
        Abilities { token_ids: false, logprobs: false, ..Abilities::ALL }
    }
    fn version(&self) -> u64 {
        0
    }
    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.next);
        self.next += 1;
        let (message, malformed) = (self.answer)(&turn);
        let output = TurnOutput { malformed, ..TurnOutput::new(message, StopReason::EndToken) };
        self.answered.push(Answered { id, trace: turn.trace, result: Ok(output) });
        id
    }
    fn poll(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.answered)
    }
    fn wait(&mut self) -> Vec<Answered> {
        self.poll()
    }
    fn cancel(&mut self, _: TurnId) -> bool {
        false
    }
}
