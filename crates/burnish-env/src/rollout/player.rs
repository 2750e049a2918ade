//! One episode: a policy in an environment, as a durable function.

use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{
    Ending, Episode, Message, NodeId, PolicyError, Record, Role, Source, ToolCalls, ToolSpec, Trace,
    TurnOutput, Verdict,
};
use burnish_episode::{Agent, Ask, ContactError, Handle, Program};

use super::seat::{Seat, Stop};
use super::{RolloutError, RolloutSpec, Spawn, Start};

/// Flag of an episode in which the policy gave an answer without a text, thoughts or calls.
const EMPTY_ANSWER: &str = "empty_answer";

fn says_nothing(answer: &Message) -> bool {
    answer.content.is_empty() && answer.tool_calls.is_empty() && answer.reasoning_content.is_none()
}

/// An episode under way.
pub(super) struct Player<'a> {
    handle: &'a Handle,
    spec: &'a RolloutSpec<'a>,
    spawn: &'a Spawn<'a>,
    rollout: usize,
    seat: Seat<'a>,
}

/// An episode up to its end.
struct Played {
    answers: Vec<Message>,
    calls: ToolCalls,
    end: Result<(Ending, Verdict), Stop>,
}

impl<'a> Player<'a> {
    pub(super) fn new(
        handle: &'a Handle,
        spec: &'a RolloutSpec<'a>,
        spawn: &'a Spawn<'a>,
        rollout: usize,
        is_replay: bool,
    ) -> Self {
        Player { handle, spec, spawn, rollout, seat: Seat::new(spec, spawn, is_replay) }
    }

    /// Plays the episode to its end. Traces and record are kept by the handle.
    pub(super) async fn play(self) -> Result<Episode, RolloutError> {
        let Player { spec, spawn, rollout, .. } = self;
        let Played { answers, calls, end } = match spec.program {
            Some(playing) => self.play_by(playing.program).await,
            None => self.play_plainly().await,
        };
        let (ending, mut verdict) = match end {
            Ok(over) => over,
            Err(Stop::Over(ending)) => (ending, Verdict::unscored("it was not judged")),
            Err(Stop::Unscored(ending, reason)) => (ending, Verdict::unscored(reason)),
            Err(Stop::Fatal { turn, source }) => return Err(fatal(spawn, rollout, turn, source)),
        };
        let turns = answers.len();
        if let Some((turn, _)) = verdict.turns.last_key_value().filter(|(turn, _)| **turn >= turns) {
            let reason = format!("it rewards turn {turn}, counted from 0, of an episode of {turns} turns");
            verdict = Verdict::unscored(reason);
        }
        if answers.iter().any(says_nothing) {
            verdict.flags.insert(EMPTY_ANSWER.to_owned(), true);
        }
        Ok(Episode {
            task: spawn.task.id.clone(),
            rollout,
            traces: Vec::new(),
            verdict,
            ending,
            answers,
            partners: Vec::new(),
            record: Record { calls, ..Record::default() },
        })
    }

    /// One turn after the other.
    async fn play_plainly(mut self) -> Played {
        let agent = self.handle.agent(&self.spawn.policy, Trace::new());
        let ending = match self.turns(&agent).await {
            Ok(ending) | Err(Stop::Over(ending)) => Ok(ending),
            Err(stop) => Err(stop),
        };
        let end = match ending {
            Ok(ending) => self.seat.verdict(self.handle).await.map(|verdict| (ending, verdict)),
            Err(stop) => Err(stop),
        };
        Played { answers: self.seat.answers, calls: self.seat.calls, end }
    }

    /// In the way of a program.
    async fn play_by(mut self, program: &dyn Program) -> Played {
        let nothing = |stop| Played { answers: Vec::new(), calls: ToolCalls::default(), end: Err(stop) };
        let fatal = |source| Stop::Fatal { turn: 0, source };
        if let Err(stop) = self.seat.open(self.handle).await {
            return nothing(stop);
        }
        let over = program.play(self.handle, &self.spawn.policy, Box::new(self.seat)).await;
        let mut position = match over {
            Ok(position) => position,
            Err(source) => return nothing(fatal(source)),
        };
        let verdict = position.judge(self.handle).await;
        let ending = position.ending().unwrap_or(Ending::TurnsMax);
        let end = verdict.map(|verdict| (ending, verdict)).map_err(fatal);
        Played { answers: position.answers().to_vec(), calls: position.calls(), end }
    }

    /// The conversation of the episode, with the tools that were offered in it, up to its last answer. It is not judged.
    pub(super) async fn converse(mut self) -> Result<(Vec<Message>, Vec<ToolSpec>), RolloutError> {
        let agent = self.handle.agent(&self.spawn.policy, Trace::new());
        if let Err(Stop::Fatal { turn, source }) = self.turns(&agent).await {
            return Err(fatal(self.spawn, self.rollout, turn, source));
        }
        let mut messages = Arc::unwrap_or_clone(self.seat.messages);
        let answers = messages.iter().rposition(|message| message.role == Role::Assistant);
        messages.truncate(answers.map_or(0, |last| last + 1));
        Ok((messages, Arc::unwrap_or_clone(self.seat.tools)))
    }

    async fn turns(&mut self, agent: &Agent) -> Result<Ending, Stop> {
        self.seat.open(self.handle).await?;
        loop {
            let first = self.is_first_sampled();
            if first {
                self.go_within(agent)?;
            }
            let output = self.sample(agent, first).await?;
            self.seat.take(self.handle, output).await?;
            if let Some(ending) = self.seat.ending {
                return Ok(ending);
            }
        }
    }

    /// Is the next turn the first one that is not known from another episode?
    fn is_first_sampled(&self) -> bool {
        let known = match self.spawn.start {
            Start::Within { turn, .. } => turn,
            Start::Opening | Start::Messages(_) => 0,
        };
        self.seat.answers.len() == known
    }

    /// The trace continues where the other episode's answer begins, so that its prompt is not read again.
    fn go_within(&self, agent: &Agent) -> Result<(), Stop> {
        let Start::Within { episode, turn } = self.spawn.start else { return Ok(()) };
        let Some((_, recorded)) = episode.record.first_agents_turns().nth(turn) else { return Ok(()) };
        let trace = episode.traces.first();
        let cut = trace.and_then(|trace| {
            let answer = recorded
                .head
                .filter(|head| trace.nodes().get(*head).is_some_and(|node| node.sampled.is_some()))?;
            // The node before the answer and before the beginning that it was given.
            let mut prompt = trace.nodes()[answer].parent;
            while let Some(NodeId(at)) = prompt
                && trace.nodes()[at]
                    .sources
                    .iter()
                    .all(|source| matches!(source, Source::Hint | Source::Policy))
            {
                prompt = trace.nodes()[at].parent;
            }
            trace.before(prompt.map_or(0, |NodeId(at)| at + 1), prompt)
        });
        if let Some(trace) = cut {
            self.handle.set_trace(agent, trace);
        }
        Ok(())
    }

    /// Asks the policy for its next turn, with as much of the conversation as it can read.
    async fn sample(&mut self, agent: &Agent, is_first: bool) -> Result<TurnOutput, Stop> {
        let turn = self.seat.answers.len();
        let address = Address { turn: turn as u64, purpose: Purpose::Sample, ..self.handle.address() };
        loop {
            let ask = Ask {
                messages: Arc::clone(&self.seat.messages),
                tools: Arc::clone(&self.seat.tools),
                prefix: if is_first { self.spawn.prefix.clone() } else { Vec::new() },
                sampling: Arc::clone(&self.seat.sampling),
                seed: address.seed(),
            };
            match self.handle.sample(agent, ask).await {
                Ok(output) => return Ok(output),
                Err(ContactError::Policy(PolicyError::PromptTooLong { tokens, tokens_max })) => {
                    self.seat.shorten(tokens, tokens_max)?;
                }
                Err(error) => return Err(self.seat.stop(error)),
            }
        }
    }
}

/// The error of a run that can't continue.
fn fatal(spawn: &Spawn<'_>, rollout: usize, turn: usize, source: ContactError) -> RolloutError {
    let (task, role) = (spawn.task.id.clone(), spawn.role);
    match source {
        ContactError::Policy(PolicyError::PromptTooLong { tokens, tokens_max }) => {
            RolloutError::Overlong { task, tokens, tokens_max }
        }
        ContactError::Policy(source) => RolloutError::Policy { task, role, rollout, turn, source },
        source => RolloutError::Record { task, role, rollout, source },
    }
}
