//! A policy that answers by a rule.

use crate::{
    Abilities, Answered, Message, Node, Policy, PolicyError, Sampled, Source, StopReason, Turn, TurnId,
    TurnOutput,
};

/// What a [`Script`] says: a text, and why it stops there.
pub type Said = Result<(String, StopReason), PolicyError>;

/// A policy that answers each turn with the result of a function, called when the turn is submitted.
#[derive(Debug)]
pub struct Script<F> {
    answer: F,
    /// The ids that are recorded for each answer, if any.
    ids: Option<Vec<u32>>,
    submitted: u64,
    over: Vec<Answered>,
}

impl<F: FnMut(&Turn) -> Said> Script<F> {
    /// A script that gives texts and no ids.
    pub fn new(answer: F) -> Self {
        Script { answer, ids: None, submitted: 0, over: Vec::new() }
    }

    /// A script whose every answer is recorded in the trace as these ids, sampled with certainty.
    pub fn recorded_as(ids: Vec<u32>, answer: F) -> Self {
        Script { ids: Some(ids), ..Script::new(answer) }
    }

    fn act(&mut self, turn: &mut Turn) -> Result<TurnOutput, PolicyError> {
        self.abilities().check(turn)?;
        let (text, stop) = (self.answer)(turn)?;
        if let Some(ids) = &self.ids {
            let sampled = Sampled {
                model_logprobs: vec![0.0; ids.len()],
                sampled_logprobs: None,
                policy_version: 0,
                temperature: 1.0,
                stop,
                latents: Vec::new(),
            };
            let node = Node {
                parent: turn.trace.head(),
                text: text.clone(),
                ids: ids.clone(),
                sources: vec![Source::Policy; ids.len()],
                sampled: Some(sampled),
            };
            turn.trace.push(node).map_err(|error| PolicyError::Failed(error.to_string()))?;
        }
        let begun: String = turn.prefix.iter().map(|piece| piece.text.as_str()).collect();
        let message = Message::assistant(begun + &text);
        Ok(TurnOutput::new(message, stop))
    }
}

impl<F: FnMut(&Turn) -> Said> Policy for Script<F> {
    fn abilities(&self) -> Abilities {
        let is_recorded = self.ids.is_some();
        Abilities { token_ids: is_recorded, logprobs: false, ..Abilities::ALL }
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
