//! An episode whose policy is somewhere else: what it would read comes out, and its answers go in.
//!
//! The episode is played as any other is ([`rollout`](crate::rollout)), on a thread of its own, by a policy that asks its
//! [`Session`]. So tools, their checks, limits and verdicts are those of training.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use burnish_core::{
    Abilities, Answered, Episode, Message, Policy, PolicyError, Sampling, StopReason, Task, ToolSpec, Turn,
    TurnId, TurnOutput,
};

use crate::Generator;
use crate::rollout::{Overlong, RolloutSpec, SeedPlace, Spawn, play};

/// An episode under way. It is given up when this is dropped.
#[derive(Debug)]
pub(crate) struct Session {
    answers: Sender<Message>,
    seen: Receiver<Seen>,
}

/// What there is to see of an episode.
#[derive(Debug)]
pub(crate) enum Seen {
    /// It is the policy's turn.
    Turn {
        /// The whole conversation, the newest message last.
        messages: Arc<Vec<Message>>,
        /// The tools that may be called.
        tools: Arc<Vec<ToolSpec>>,
    },
    /// It is over, with its verdict.
    Over(Box<Episode>),
    /// It can't go on: why.
    Failed(String),
}

impl Session {
    /// Begins an episode of `task` in which the policy has at most `turns_max` turns. `seed` decides what is random in the
    /// environment.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn begin(
        generator: Arc<dyn Generator>,
        task: Task,
        seed: u64,
        turns_max: usize,
    ) -> io::Result<Session> {
        let ((answers, answered), (tell, seen)) = (channel(), channel());
        thread::Builder::new().name("session".into()).spawn(move || {
            let mut policy = Elsewhere { answered, tell, turn: None, turns: 0 };
            let place = SeedPlace { run: seed, stage: 0, step: 0, task_offset: 0 };
            let tasks = std::slice::from_ref(&task);
            let spawns = Spawn::of_tasks(tasks, 1, &Sampling::greedy(1), place);
            let spec = RolloutSpec::new(&*generator, &spawns, turns_max, Overlong::Refuse);
            let over = match play(&mut policy, &spec).map(|mut episodes| episodes.pop()) {
                Ok(Some(episode)) => Seen::Over(Box::new(episode)),
                Ok(None) => Seen::Failed("no episode was played".to_owned()),
                Err(error) => Seen::Failed(error.to_string()),
            };
            // The session may have been given up.
            let _ = policy.tell.send(over);
        })?;
        Ok(Session { answers, seen })
    }

    /// Waits until there is something to see: once after the beginning and once after each answer.
    pub(crate) fn look(&self) -> Seen {
        self.seen.recv().unwrap_or_else(|_| Seen::Failed("the episode is over".to_owned()))
    }

    /// Answers, and waits for what comes of it.
    pub(crate) fn answer(&self, message: Message) -> Seen {
        match self.answers.send(message) {
            Ok(()) => self.look(),
            Err(_) => Seen::Failed("the episode is over".to_owned()),
        }
    }
}

/// A policy that is asked outside.
struct Elsewhere {
    answered: Receiver<Message>,
    tell: Sender<Seen>,
    /// The turn that waits for its answer.
    turn: Option<(TurnId, Turn)>,
    turns: u64,
}

impl Policy for Elsewhere {
    fn abilities(&self) -> Abilities {
        Abilities { tools: true, ..Abilities::TEXT }
    }

    fn version(&self) -> u64 {
        0
    }

    fn submit(&mut self, turn: Turn) -> TurnId {
        let id = TurnId(self.turns);
        self.turns += 1;
        let seen = Seen::Turn { messages: Arc::clone(&turn.messages), tools: Arc::clone(&turn.tools) };
        // If nobody looks any more, the wait ends with an error.
        let _ = self.tell.send(seen);
        self.turn = Some((id, turn));
        id
    }

    fn poll(&mut self) -> Vec<Answered> {
        Vec::new()
    }

    fn wait(&mut self) -> Vec<Answered> {
        let Some((id, turn)) = self.turn.take() else { return Vec::new() };
        let result = match self.answered.recv() {
            Ok(message) => Ok(TurnOutput::new(message, StopReason::EndToken)),
            Err(_) => Err(PolicyError::Failed("it was given up".to_owned())),
        };
        vec![Answered { id, trace: turn.trace, result }]
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn cancel(&mut self, id: TurnId) -> bool {
        self.turn.take_if(|(turn, _)| *turn == id).is_some()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use burnish_core::{Ending, FunctionCall, Role, ToolCall};

    use super::*;
    use crate::build;

    fn begin(id: &str, config: serde_json::Value, turns_max: usize) -> (Session, Task, Arc<dyn Generator>) {
        let generator: Arc<dyn Generator> = Arc::from(build(id, &config).unwrap());
        let task = generator.tasks(3, 1).unwrap().tasks.remove(0);
        (Session::begin(Arc::clone(&generator), task.clone(), 5, turns_max).unwrap(), task, generator)
    }

    fn turn(seen: Seen) -> (Vec<Message>, Vec<ToolSpec>) {
        match seen {
            Seen::Turn { messages, tools } => (messages.to_vec(), tools.to_vec()),
            other => panic!("no turn: {other:?}"),
        }
    }

    fn over(seen: Seen) -> Episode {
        match seen {
            Seen::Over(episode) => *episode,
            other => panic!("not over: {other:?}"),
        }
    }

    #[test]
    fn the_demonstrated_answers_win_as_in_a_rollout() {
        for (id, config) in [("chains", serde_json::json!({})), ("household", serde_json::json!({}))] {
            let (session, task, generator) = begin(id, config, 100);
            let shown = generator.demonstrations().unwrap().demonstrate_episode(&task).unwrap();
            let (opening, _) = turn(session.look());
            assert!(shown.starts_with(&opening), "{id}");
            let mut answers =
                shown[opening.len()..].iter().filter(|message| message.role == Role::Assistant).peekable();
            loop {
                let seen = session.answer(answers.next().unwrap().clone());
                if answers.peek().is_none() {
                    let episode = over(seen);
                    assert!(
                        episode.verdict.success && episode.ending == Ending::Completed,
                        "{id}: {episode:?}"
                    );
                    break;
                }
                turn(seen);
            }
        }
    }

    #[test]
    fn calls_are_run_and_checked_and_turns_are_counted() {
        let (session, _, _) = begin("accounts", serde_json::json!({}), 2);
        let (_, tools) = turn(session.look());
        let function = FunctionCall { name: format!("{}x", tools[0].name), arguments: serde_json::json!({}) };
        let call = Message { tool_calls: vec![ToolCall { id: None, function }], ..Message::assistant("") };
        let (messages, _) = turn(session.answer(call.clone()));
        let told = messages.last().unwrap();
        assert!(told.role == Role::Tool && told.content.contains("there is no tool"), "{told:?}");
        assert_eq!(over(session.answer(call)).ending, Ending::TurnsMax);
        assert!(matches!(session.answer(Message::assistant("more")), Seen::Failed(_)));
    }

    #[test]
    fn a_session_that_is_dropped_gives_its_episode_up() {
        let (session, _, generator) = begin("chains", serde_json::json!({}), 1);
        turn(session.look());
        drop(session);
        for _ in 0..200 {
            if Arc::strong_count(&generator) == 1 {
                return;
            }
            thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("the episode goes on");
    }
}
