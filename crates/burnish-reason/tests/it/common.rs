//! A policy for tests: one token for each character that it reads or says.

use std::sync::Arc;

use burnish_core::{
    Abilities, Answered, Message, Node, NodeId, Policy, PolicyError, Sampled, Sampling, Source, StopReason,
    Trace, Turn, TurnId, TurnOutput,
};
use burnish_reason::StrategyConfig;
use serde_json::Value;

/// Says what a function says. Its log-probs follow from the seed.
pub(crate) struct Speaker<F> {
    say: F,
    over: Vec<Answered>,
    submitted: u64,
    is_backwards: bool,
    room: usize,
    abilities: Abilities,
}

impl<F: FnMut(&Turn) -> String> Speaker<F> {
    pub(crate) fn new(say: F) -> Self {
        let (is_backwards, room) = (false, usize::MAX);
        Speaker { say, over: Vec::new(), submitted: 0, is_backwards, room, abilities: Abilities::ALL }
    }

    /// The newest turn is answered first, one at a time.
    pub(crate) fn backwards(self) -> Self {
        Speaker { is_backwards: true, ..self }
    }

    /// Reads at most `room` tokens.
    pub(crate) fn with_room(self, room: usize) -> Self {
        Speaker { room, ..self }
    }

    pub(crate) fn without_logprobs(self) -> Self {
        Speaker { abilities: Abilities { logprobs: false, ..Abilities::ALL }, ..self }
    }

    fn act(&mut self, turn: &mut Turn) -> Result<TurnOutput, PolicyError> {
        self.abilities.check(turn)?;
        let tokens: usize = turn.messages.iter().map(|message| message.content.chars().count()).sum();
        if tokens > self.room {
            return Err(PolicyError::PromptTooLong { tokens, tokens_max: self.room });
        }
        let text = (self.say)(turn);
        let mut parent = None;
        // The conversation as far as it is known, message by message.
        for message in turn.messages.iter() {
            let known = turn
                .trace
                .nodes()
                .iter()
                .position(|node| node.parent == parent && node.text == message.content);
            parent =
                Some(known.map_or_else(|| push(&mut turn.trace, parent, &message.content, None), NodeId));
        }
        push(&mut turn.trace, parent, &text, Some(turn.seed));
        let (message, stop) = (Message::assistant(text), StopReason::EndToken);
        Ok(TurnOutput::new(message, stop))
    }
}

fn push(trace: &mut Trace, parent: Option<NodeId>, text: &str, seed: Option<u64>) -> NodeId {
    let ids: Vec<u32> = text.chars().map(u32::from).collect();
    let source = if seed.is_some() { Source::Policy } else { Source::User };
    let sampled = seed.map(|seed| Sampled {
        model_logprobs: (0..ids.len() as u64)
            .map(|at| -burnish_core::rng::uniform(seed, at) as f32)
            .collect(),
        sampled_logprobs: None,
        policy_version: 0,
        temperature: 1.0,
        stop: StopReason::EndToken,
        latents: Vec::new(),
    });
    let sources = vec![source; ids.len()];
    trace.push(Node { parent, text: text.to_owned(), ids, sources, sampled }).unwrap()
}

impl<F: FnMut(&Turn) -> String> Policy for Speaker<F> {
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn version(&self) -> u64 {
        0
    }

    fn submit(&mut self, mut turn: Turn) -> TurnId {
        let id = TurnId(self.submitted);
        self.submitted += 1;
        let result = self.act(&mut turn);
        self.over.push(Answered { id, trace: turn.trace, result });
        id
    }

    fn poll(&mut self) -> Vec<Answered> {
        if self.is_backwards {
            return self.over.pop().into_iter().collect();
        }
        std::mem::take(&mut self.over)
    }

    fn wait(&mut self) -> Vec<Answered> {
        self.poll()
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        let before = self.over.len();
        self.over.retain(|answered| answered.id != id);
        self.over.len() < before
    }
}

pub(crate) fn turn(question: &str, seed: u64) -> Turn {
    Turn {
        trace: Trace::new(),
        messages: Arc::new(vec![Message::user(question)]),
        tools: Arc::default(),
        prefix: Vec::new(),
        sampling: Arc::new(Sampling::at(1.0, 64)),
        seed,
    }
}

pub(crate) fn strategy(name: &str, config: Value) -> StrategyConfig {
    StrategyConfig { strategy: name.to_owned(), config }
}
