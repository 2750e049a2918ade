//! An environment in the middle of an episode: the conversation so far, and what brought it there.

mod environment;

use std::collections::VecDeque;
use std::sync::Arc;

use burnish_core::{
    Ending, Message, PolicyError, Repeating, Role, Sampling, TaskId, ToolCalls, ToolSpec, Trace, TurnOutput,
    Verdict,
};
use burnish_episode::{Agent, Ask, ContactError, Handle, Position, Waited};

use super::{Overlong, Partners, RolloutSpec, Spawn};
use crate::{EnvError, Environment, Posed, Question, Step};

/// Most turns of others that environments may ask for between two turns of the policy.
const ASKED_MAX: usize = 64;

/// The reason for which an episode stops.
pub(super) enum Stop {
    /// It is over, and judged if it got far enough.
    Over(Ending),
    /// It is unscored.
    Unscored(Ending, String),
    /// The run can't continue.
    Fatal {
        /// The turn, counted from 0.
        turn: usize,
        /// The failed contact.
        source: ContactError,
    },
}

/// Somebody whom the environment has asked.
#[derive(Clone)]
struct Other {
    name: String,
    /// Continues from what it read and said.
    agent: Agent,
    turns: u64,
    /// Its trace when it went along with the first way on from here.
    left: Option<Trace>,
}

/// An environment in the middle of an episode.
pub(super) struct Seat<'a> {
    spec: &'a RolloutSpec<'a>,
    spawn: &'a Spawn<'a>,
    /// Is everybody's answer on the record?
    is_replay: bool,
    /// `None` while it works on a thread of its own, and when it went along with another way.
    environment: Option<Box<dyn Environment>>,
    /// The seed with which it opened.
    seed: u64,
    /// Does a program ask the policy by itself?
    pub(super) asks: bool,
    /// Sampling of the next turn.
    pub(super) sampling: Arc<Sampling>,
    pub(super) tools: Arc<Vec<ToolSpec>>,
    pub(super) messages: Arc<Vec<Message>>,
    pub(super) answers: Vec<Message>,
    pub(super) calls: ToolCalls,
    pub(super) ending: Option<Ending>,
    /// The reason why it can't be judged.
    failure: Option<String>,
    others: Vec<Other>,
    past: Past,
    /// Answers of the others that are given again, on the way to a point where the environment has been before.
    again: Option<VecDeque<Message>>,
}

/// The answers that bring a fresh environment to the same point.
#[derive(Debug, Clone, Default)]
struct Past {
    turns: Vec<TurnOutput>,
    /// Answers of the others.
    said: Vec<Message>,
}

impl From<EnvError> for Stop {
    fn from(error: EnvError) -> Self {
        Stop::Unscored(Ending::EnvironmentError, error.to_string())
    }
}

impl<'a> Seat<'a> {
    pub(super) fn new(spec: &'a RolloutSpec<'a>, spawn: &'a Spawn<'a>, is_replay: bool) -> Self {
        let environment = spec.generator.environment();
        Seat {
            spec,
            spawn,
            is_replay,
            seed: 0,
            asks: environment.asks(),
            environment: Some(environment),
            sampling: Arc::clone(&spawn.sampling),
            tools: Arc::default(),
            messages: Arc::default(),
            answers: Vec::new(),
            calls: ToolCalls::default(),
            ending: None,
            failure: None,
            others: Vec::new(),
            past: Past::default(),
            again: None,
        }
    }

    /// Gives the environment the policy's answer, and gets it to the policy's next turn or the end.
    pub(super) async fn take(&mut self, handle: &Handle, output: TurnOutput) -> Result<(), Stop> {
        self.come_back(handle).await?;
        if self.spec.program.is_some() {
            self.past.turns.push(output.clone());
        }
        self.answers.push(output.message.clone());
        let is_last = self.answers.len() >= self.spec.turns_max;
        let is_truncated = output.stop.is_truncated();
        if self.asks {
            self.ending = match self.answer(handle, output).await? {
                Step::Turn(_) if is_last => Some(Ending::TurnsMax),
                Step::Turn(posed) => {
                    self.pose(posed);
                    None
                }
                _ if is_truncated => Some(Ending::Truncated),
                _ => Some(Ending::Completed),
            };
            return Ok(());
        }
        let TurnOutput { message, malformed, .. } = output;
        Arc::make_mut(&mut self.messages).push(message.clone());
        let calls = self.runs_tools() && !(message.tool_calls.is_empty() && malformed.is_empty());
        let step = match calls && !is_truncated {
            true => {
                let said = self.call_all(handle, &message.tool_calls, malformed).await?;
                self.environment()?.called(&message, &said);
                Step::Continue(said)
            }
            false => {
                let step = self.step(handle, &message).await?;
                // After a truncated or last answer nobody else is asked.
                if is_truncated { Step::Done } else { self.settle(handle, step).await? }
            }
        };
        self.ending = match step {
            _ if is_truncated => Some(Ending::Truncated),
            Step::Done | Step::Ask(_) | Step::Turn(_) => Some(Ending::Completed),
            Step::Continue(_) if is_last => Some(Ending::TurnsMax),
            Step::Continue(further) => {
                Arc::make_mut(&mut self.messages).extend(further);
                None
            }
        };
        Ok(())
    }

    /// If the environment went along with another way, brings a fresh one here.
    async fn come_back(&mut self, handle: &Handle) -> Result<(), Stop> {
        if self.environment.is_some() {
            return Ok(());
        }
        let mut seat = Seat::new(self.spec, self.spawn, self.is_replay);
        seat.again = Some(self.past.said.iter().cloned().collect());
        seat.reset(handle, self.seed, None).await?;
        for turn in self.past.turns.clone() {
            Box::pin(seat.take(handle, turn)).await?;
        }
        if seat.messages.last() != self.messages.last() {
            let reason = "its environment does not come to the same point with the same answers, so no second way can be tried";
            return Err(Stop::Unscored(Ending::Lost, reason.to_owned()));
        }
        self.environment = seat.environment;
        Ok(())
    }

    /// The next turn is what a program asks. It may shorten the answer; how tokens are drawn is not its decision.
    pub(super) fn pose(&mut self, Posed { messages, tools, tokens_max, stop }: Posed) {
        (self.messages, self.tools) = (Arc::new(messages), Arc::new(tools));
        self.sampling = Arc::clone(&self.spawn.sampling);
        if tokens_max.is_some() || !stop.is_empty() {
            let sampling = Arc::make_mut(&mut self.sampling);
            sampling.tokens_max = sampling.tokens_max.min(tokens_max.unwrap_or(usize::MAX));
            sampling.min_tokens = sampling.min_tokens.min(sampling.tokens_max);
            sampling.stop.extend(stop);
        }
    }

    /// Does the environment run any of its tools? If not, it judges answers with calls itself.
    fn runs_tools(&self) -> bool {
        self.tools.iter().any(|tool| self.repeating(&tool.name).is_some())
    }

    fn repeating(&self, tool: &str) -> Option<Repeating> {
        self.environment.as_ref().and_then(|environment| environment.repeating(tool))
    }

    /// Handles a conversation that does not fit: it is shortened, or the episode ends.
    pub(super) fn shorten(&mut self, tokens: usize, tokens_max: usize) -> Result<(), Stop> {
        let overlong = self.spec.overlong;
        if overlong == Overlong::Truncate && drop_oldest(Arc::make_mut(&mut self.messages)) {
            return Ok(());
        }
        Err(if !self.answers.is_empty() {
            Stop::Over(Ending::ContextOverflow)
        } else if overlong == Overlong::Refuse && !self.asks {
            self.stop(PolicyError::PromptTooLong { tokens, tokens_max }.into())
        } else {
            let reason = format!("the prompt has {tokens} tokens, but at most {tokens_max} fit");
            Stop::Unscored(Ending::ContextOverflow, reason)
        })
    }

    /// Gets an environment's questions answered until it is the policy's turn, or the end.
    async fn settle(&mut self, handle: &Handle, mut step: Step) -> Result<Step, Stop> {
        let mut asked = 0;
        while let Step::Ask(question) = step {
            asked += 1;
            if asked > ASKED_MAX {
                let problem =
                    format!("the environment asked `{}` {ASKED_MAX} times without an end", question.who);
                return Err(EnvError::Failed(problem).into());
            }
            let known = |partners: &Partners| partners.has(&question.who);
            // A mistake of somebody else's program ends its episode, one of ours the run.
            if self.stepping().is_some() && !self.is_replay && !self.spec.partners.is_some_and(known) {
                let problem = format!("it asks `{}`, who takes no part: a recipe has `[user]`", question.who);
                return Err(EnvError::Failed(problem).into());
            }
            let said = self.ask(handle, question).await?;
            step = self.hear(handle, said).await?;
        }
        Ok(step)
    }

    /// Asks another participant.
    async fn ask(&mut self, handle: &Handle, question: Question) -> Result<Message, Stop> {
        let Question { who, messages, is_for_verdict } = question;
        if let Some(said) = self.again.as_mut().and_then(VecDeque::pop_front) {
            return Ok(said);
        }
        let known = self.spec.partners.and_then(|partners| partners.sampling(&who));
        let sampling = Arc::clone(known.unwrap_or(&self.spawn.sampling));
        let at = match self.others.iter().position(|other| other.name == who) {
            Some(at) => at,
            None => {
                let agent = handle.agent(&who.as_str().into(), Trace::new());
                self.others.push(Other { name: who, agent, turns: 0, left: None });
                self.others.len() - 1
            }
        };
        let Other { agent, turns, .. } = &mut self.others[at];
        let seed = handle.seed(agent, *turns);
        *turns += 1;
        let ask =
            Ask { messages: Arc::new(messages), tools: Arc::default(), prefix: Vec::new(), sampling, seed };
        match handle.sample(agent, ask).await {
            Ok(output) => {
                self.past.said.push(output.message.clone());
                Ok(output.message)
            }
            Err(ContactError::Policy(source)) if is_for_verdict => {
                Err(Stop::Unscored(Ending::EnvironmentError, format!("it could not be judged: {source}")))
            }
            // An overlong prompt of somebody else is not the policy's.
            Err(ContactError::Policy(source @ PolicyError::PromptTooLong { .. })) => {
                let problem = format!("`{}`: {source}", self.others[at].name);
                Err(self.stop(PolicyError::Failed(problem).into()))
            }
            Err(error) => Err(self.stop(error)),
        }
    }

    /// The episode ends where it stops.
    ///
    /// # Errors
    /// If the run can't continue.
    fn ended(&mut self, result: Result<(), Stop>) -> Result<(), ContactError> {
        match result {
            Ok(()) => {}
            Err(Stop::Over(ending)) => self.ending = Some(ending),
            Err(Stop::Unscored(ending, reason)) => {
                (self.ending, self.failure) = (Some(ending), Some(reason));
            }
            Err(Stop::Fatal { source, .. }) => return Err(source),
        }
        Ok(())
    }

    /// What becomes of the episode after a contact that failed.
    pub(super) fn stop(&self, error: ContactError) -> Stop {
        match error {
            // What somebody else's program asks for is not the run's mistake.
            ContactError::Policy(
                source @ (PolicyError::Render(_) | PolicyError::Sampling(_) | PolicyError::Unable(_)),
            ) if self.asks => {
                let reason = format!("its program asked for what can't be answered: {source}");
                Stop::Unscored(Ending::EnvironmentError, reason)
            }
            error @ (ContactError::Lost { .. } | ContactError::Unfinished { .. }) => {
                Stop::Unscored(Ending::Lost, error.to_string())
            }
            error @ ContactError::Failed { .. } => {
                Stop::Unscored(Ending::EnvironmentError, error.to_string())
            }
            source @ (ContactError::Policy(_) | ContactError::Unlike { .. }) => {
                Stop::Fatal { turn: self.answers.len(), source }
            }
        }
    }
}

impl<'a> Position<'a> for Seat<'a> {
    fn messages(&self) -> &Arc<Vec<Message>> {
        &self.messages
    }

    fn tools(&self) -> &Arc<Vec<ToolSpec>> {
        &self.tools
    }

    fn sampling(&self) -> &Arc<Sampling> {
        &self.sampling
    }

    fn task(&self) -> Option<&TaskId> {
        Some(&self.spawn.task.id)
    }

    fn answers(&self) -> &[Message] {
        &self.answers
    }

    fn calls(&self) -> ToolCalls {
        self.calls
    }

    fn ending(&self) -> Option<Ending> {
        self.ending
    }

    fn fork(&mut self, handle: &Handle) -> Box<dyn Position<'a> + 'a> {
        // The others go along with the first way; every further one has a conversation of its own with them.
        let own = |other: &mut Other| {
            let agent = match &other.left {
                None => {
                    other.left = Some(handle.trace(&other.agent));
                    other.agent.clone()
                }
                Some(left) => handle.agent(other.agent.policy(), left.clone()),
            };
            Other { name: other.name.clone(), agent, turns: other.turns, left: None }
        };
        Box::new(Seat {
            environment: self.environment.take(),
            sampling: Arc::clone(&self.sampling),
            tools: Arc::clone(&self.tools),
            messages: Arc::clone(&self.messages),
            answers: self.answers.clone(),
            others: self.others.iter_mut().map(own).collect(),
            past: self.past.clone(),
            failure: self.failure.clone(),
            again: None,
            ..*self
        })
    }

    fn make_room(&mut self, tokens: usize, tokens_max: usize) -> Result<(), ContactError> {
        let room = self.shorten(tokens, tokens_max);
        self.ended(room)
    }

    fn act<'b>(&'b mut self, handle: &'b Handle, answer: TurnOutput) -> Waited<'b, Result<(), ContactError>> {
        Box::pin(async move {
            let taken = self.take(handle, answer).await;
            self.ended(taken)
        })
    }

    fn judge<'b>(&'b mut self, handle: &'b Handle) -> Waited<'b, Result<Verdict, ContactError>> {
        Box::pin(async move {
            if let Some(reason) = &self.failure {
                return Ok(Verdict::unscored(reason.clone()));
            }
            let verdict = match self.come_back(handle).await {
                Ok(()) => self.verdict(handle).await,
                Err(stop) => Err(stop),
            };
            match verdict {
                Ok(verdict) => Ok(verdict),
                Err(stop) => {
                    self.ended(Err(stop))?;
                    Ok(Verdict::unscored(self.failure.clone().unwrap_or_default()))
                }
            }
        })
    }
}

/// Drops the oldest message that is not a system message, together with the answers and tool results that
/// followed it, but never the newest message. Returns whether anything could be dropped.
fn drop_oldest(messages: &mut Vec<Message>) -> bool {
    let Some(first) = messages.iter().position(|message| message.role != Role::System) else { return false };
    let newest = messages.len() - 1;
    if first >= newest {
        return false;
    }
    let end = (first + 1..newest)
        .find(|&at| matches!(messages[at].role, Role::User | Role::System))
        .unwrap_or(newest);
    messages.drain(first..end);
    true
}
