//! A world of one turn: it is over with the answer.

use std::sync::Arc;

use burnish_core::{Ending, Message, Sampling, ToolCalls, ToolSpec, Turn, TurnOutput, Verdict};
use burnish_episode::{ContactError, Handle, Position, Waited};

/// A turn, or the end after its answer.
#[derive(Clone)]
pub(crate) struct OneTurn {
    messages: Arc<Vec<Message>>,
    tools: Arc<Vec<ToolSpec>>,
    sampling: Arc<Sampling>,
    answers: Vec<Message>,
}

impl OneTurn {
    /// Before the answer to `turn`.
    pub(crate) fn of(turn: &Turn) -> Self {
        let Turn { messages, tools, sampling, .. } = turn;
        let (messages, tools, sampling) = (Arc::clone(messages), Arc::clone(tools), Arc::clone(sampling));
        OneTurn { messages, tools, sampling, answers: Vec::new() }
    }
}

impl Position<'static> for OneTurn {
    fn messages(&self) -> &Arc<Vec<Message>> {
        &self.messages
    }

    fn tools(&self) -> &Arc<Vec<ToolSpec>> {
        &self.tools
    }

    fn sampling(&self) -> &Arc<Sampling> {
        &self.sampling
    }

    fn answers(&self) -> &[Message] {
        &self.answers
    }

    fn calls(&self) -> ToolCalls {
        ToolCalls::default()
    }

    fn ending(&self) -> Option<Ending> {
        (!self.answers.is_empty()).then_some(Ending::Completed)
    }

    fn fork(&mut self, _: &Handle) -> Box<dyn Position<'static>> {
        Box::new(self.clone())
    }

    fn make_room(&mut self, _: usize, _: usize) -> Result<(), ContactError> {
        Ok(())
    }

    fn act<'a>(&'a mut self, _: &'a Handle, answer: TurnOutput) -> Waited<'a, Result<(), ContactError>> {
        self.answers.push(answer.message);
        Box::pin(std::future::ready(Ok(())))
    }

    fn judge<'a>(&'a mut self, _: &'a Handle) -> Waited<'a, Result<Verdict, ContactError>> {
        Box::pin(std::future::ready(Ok(Verdict::unscored("only a turn was asked for"))))
    }
}
