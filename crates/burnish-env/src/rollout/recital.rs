//! Judges answers that were given elsewhere.

use std::sync::Arc;

use burnish_core::rng::Address;
use burnish_core::{
    Abilities, Answered, Episode, Message, Policy, Sampling, StopReason, Task, ToolSpec, Turn, TurnId,
    TurnOutput,
};
use burnish_episode::{Cast, Threads};

use super::{Overlong, RolloutError, RolloutSpec, Spawn, Start, conversation, play_with};
use crate::Generator;

/// Answers to the turns of a task.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The task.
    pub task: &'a Task,
    /// The place of the episode in which it was given ([`Spawn::place`]).
    pub place: Address,
    /// The answers, turn by turn.
    pub answers: &'a [Message],
}

/// The episodes in which these answers are given: what their verdicts would have been. Nobody is asked.
///
/// # Errors
/// If an environment asks for somebody other than the policy.
pub fn recite(generator: &dyn Generator, given: &[Given<'_>]) -> Result<Vec<Episode>, RolloutError> {
    let names: Vec<Arc<str>> = (0..given.len()).map(|at| Arc::from(format!("answer {at}"))).collect();
    let spawns: Vec<Spawn<'_>> = given.iter().zip(&names).map(|(given, name)| given.spawn(name)).collect();
    let mut recitals: Vec<Recital<'_>> = given.iter().map(|given| Recital::of(given.answers)).collect();
    let cast =
        names.iter().zip(&mut recitals).fold(Cast::default(), |cast, (name, own)| cast.with(name, own));
    let turns_max = given.iter().map(|given| given.answers.len()).max().unwrap_or(1).max(1);
    let spec = RolloutSpec::new(generator, &spawns, turns_max, Overlong::Drop);
    play_with(cast, &mut Threads::default(), &spec)
}

/// The episode in which an answer is given, with its conversation and the tools that were offered in it.
///
/// # Errors
/// As [`recite`].
pub fn recited(
    generator: &dyn Generator,
    given: Given<'_>,
) -> Result<(Episode, Vec<Message>, Vec<ToolSpec>), RolloutError> {
    let episode = recite(generator, &[given])?.pop().ok_or(RolloutError::Lost { turns: 0 })?;
    let (turns_max, overlong) = (given.answers.len().max(1), Overlong::Drop);
    let spec = RolloutSpec::new(generator, &[], turns_max, overlong);
    let (messages, tools) = conversation(&spec, &given.spawn(&"answer 0".into()), &episode)?;
    Ok((episode, messages, tools))
}

impl<'a> Given<'a> {
    /// The episode in which it is given by a policy called `name`.
    fn spawn(&self, name: &Arc<str>) -> Spawn<'a> {
        Spawn {
            task: self.task,
            start: Start::Opening,
            prefix: Vec::new(),
            role: "candidate",
            count: 1,
            sampling: Arc::new(Sampling::greedy(1)),
            policy: Arc::clone(name),
            place: self.place,
        }
    }
}

/// Answers one turn after the other with given answers; the last one is repeated.
struct Recital<'a> {
    answers: &'a [Message],
    submitted: u64,
    over: Vec<Answered>,
}

impl<'a> Recital<'a> {
    fn of(answers: &'a [Message]) -> Self {
        Recital { answers, submitted: 0, over: Vec::new() }
    }
}

impl Policy for Recital<'_> {
    fn abilities(&self) -> Abilities {
        Abilities { tools: true, ..Abilities::TEXT }
    }

    fn version(&self) -> u64 {
        0
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.submitted);
        let own = self.answers.get(self.submitted as usize).or(self.answers.last());
        self.submitted += 1;
        let message = own.cloned().unwrap_or_else(|| Message::assistant(""));
        let stop = StopReason::EndToken;
        let output = TurnOutput::new(message, stop);
        self.over.push(Answered { id, trace: turn.trace, result: Ok(output) });
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use burnish_core::rng::Purpose;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_answer_gets_the_verdict_of_its_own_task() {
        let generator = crate::build("chains", &json!({})).unwrap();
        let tasks = generator.tasks(1, 3).unwrap().tasks;
        let right: Vec<Message> = tasks
            .iter()
            .map(|task| generator.demonstrations().and_then(|known| known.demonstrate(task)).unwrap())
            .collect();
        let wrong = Message::assistant("no answer");
        let place = Address::new(1, Purpose::Environment);
        let given: Vec<Given<'_>> = tasks
            .iter()
            .zip(&right)
            .flat_map(|(task, right)| {
                [right, &wrong].map(|answer| Given { task, place, answers: std::slice::from_ref(answer) })
            })
            .collect();
        let episodes = recite(&*generator, &given).unwrap();
        let found: Vec<bool> = episodes.iter().map(|episode| episode.verdict.success).collect();
        assert_eq!(found, [true, false].repeat(3));
        assert!(recite(&*generator, &[]).unwrap().is_empty());
    }
}
