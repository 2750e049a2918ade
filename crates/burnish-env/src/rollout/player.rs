//! One episode: a policy in an environment, as a durable function.

mod environment;

use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{
    Ending, Episode, Message, NodeId, PolicyError, Record, Repeating, Role, Sampling, Source, ToolCalls,
    ToolSpec, Trace, TurnOutput, Verdict,
};
use burnish_episode::{Agent, Ask, ContactError, Handle};

use super::{Overlong, Partners, RolloutError, RolloutSpec, Spawn, Start};
use crate::{EnvError, Environment, Posed, Question, Step};

/// Most turns of others that environments may ask for between two turns of the policy.
const ASKED_MAX: usize = 64;

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
    /// Is everybody's answer on the record?
    is_replay: bool,
    /// `None` while it works on a thread of its own.
    environment: Option<Box<dyn Environment>>,
    /// Does a program ask the policy by itself?
    asks: bool,
    /// How tokens of the next turn are chosen.
    sampling: Arc<Sampling>,
    tools: Arc<Vec<ToolSpec>>,
    messages: Arc<Vec<Message>>,
    answers: Vec<Message>,
    calls: ToolCalls,
    /// The others who were asked; each continues from what it read and said.
    others: Vec<(String, Agent, u64)>,
}

/// Why an episode stops.
enum Stop {
    /// It is over, and judged if it got far enough.
    Over(Ending),
    /// It is unscored.
    Unscored(Ending, String),
    /// The run can't continue.
    Fatal(RolloutError),
}

impl From<EnvError> for Stop {
    fn from(error: EnvError) -> Self {
        Stop::Unscored(Ending::EnvironmentError, error.to_string())
    }
}

impl<'a> Player<'a> {
    pub(super) fn new(
        handle: &'a Handle,
        spec: &'a RolloutSpec<'a>,
        spawn: &'a Spawn<'a>,
        rollout: usize,
        is_replay: bool,
    ) -> Self {
        let environment = spec.generator.environment();
        Player {
            handle,
            spec,
            spawn,
            rollout,
            is_replay,
            asks: environment.asks(),
            environment: Some(environment),
            sampling: Arc::clone(&spawn.sampling),
            tools: Arc::default(),
            messages: Arc::default(),
            answers: Vec::new(),
            calls: ToolCalls::default(),
            others: Vec::new(),
        }
    }

    /// Plays the episode to its end. Traces and record are kept by the handle.
    pub(super) async fn play(mut self) -> Result<Episode, RolloutError> {
        let agent = self.handle.agent(&self.spawn.policy, Trace::new());
        let over = match self.turns(&agent).await {
            Err(stop) => stop,
            Ok(ending) => Stop::Over(ending),
        };
        let (ending, mut verdict) = match over {
            Stop::Over(ending) => match self.judge().await {
                Ok(verdict) => (ending, verdict),
                Err(Stop::Unscored(ending, reason)) => (ending, Verdict::unscored(reason)),
                Err(Stop::Over(ending)) => (ending, Verdict::unscored("it was not judged")),
                Err(Stop::Fatal(error)) => return Err(error),
            },
            Stop::Unscored(ending, reason) => (ending, Verdict::unscored(reason)),
            Stop::Fatal(error) => return Err(error),
        };
        let turns = self.answers.len();
        if let Some((turn, _)) = verdict.turns.last_key_value().filter(|(turn, _)| **turn >= turns) {
            let reason = format!("it rewards turn {turn}, counted from 0, of an episode of {turns} turns");
            verdict = Verdict::unscored(reason);
        }
        if self.answers.iter().any(says_nothing) {
            verdict.flags.insert(EMPTY_ANSWER.to_owned(), true);
        }
        Ok(Episode {
            task: self.spawn.task.id.clone(),
            rollout: self.rollout,
            traces: Vec::new(),
            verdict,
            ending,
            answers: self.answers,
            partners: Vec::new(),
            record: Record { calls: self.calls, ..Record::default() },
        })
    }

    /// The conversation of the episode, with the tools that were offered in it, up to its last answer. It is not judged.
    pub(super) async fn converse(mut self) -> Result<(Vec<Message>, Vec<ToolSpec>), RolloutError> {
        let agent = self.handle.agent(&self.spawn.policy, Trace::new());
        if let Err(Stop::Fatal(error)) = self.turns(&agent).await {
            return Err(error);
        }
        let mut messages = Arc::unwrap_or_clone(self.messages);
        let answers = messages.iter().rposition(|message| message.role == Role::Assistant);
        messages.truncate(answers.map_or(0, |last| last + 1));
        Ok((messages, Arc::unwrap_or_clone(self.tools)))
    }

    async fn turns(&mut self, agent: &Agent) -> Result<Ending, Stop> {
        self.open().await?;
        if self.asks
            && let Step::Turn(posed) = self.begin().await?
        {
            self.pose(posed);
        }
        loop {
            let first = self.is_first_sampled();
            if first {
                self.go_within(agent)?;
            }
            let output = self.sample(agent, first).await?;
            self.answers.push(output.message.clone());
            let is_last = self.answers.len() >= self.spec.turns_max;
            if self.asks {
                let is_truncated = output.stop.is_truncated();
                match self.answer(output).await? {
                    Step::Turn(_) if is_last => return Ok(Ending::TurnsMax),
                    Step::Turn(posed) => self.pose(posed),
                    _ if is_truncated => return Ok(Ending::Truncated),
                    _ => return Ok(Ending::Completed),
                }
                continue;
            }
            let TurnOutput { message, malformed, stop, .. } = output;
            Arc::make_mut(&mut self.messages).push(message.clone());
            let calls = self.runs_tools() && !(message.tool_calls.is_empty() && malformed.is_empty());
            let step = match calls && !stop.is_truncated() {
                true => {
                    let said = self.call_all(&message.tool_calls, malformed).await?;
                    self.environment()?.called(&message, &said);
                    Step::Continue(said)
                }
                false => {
                    let step = self.step(&message).await?;
                    // After a truncated or last answer nobody else is asked.
                    if stop.is_truncated() { Step::Done } else { self.settle(step).await? }
                }
            };
            match step {
                _ if stop.is_truncated() => return Ok(Ending::Truncated),
                Step::Done | Step::Ask(_) | Step::Turn(_) => return Ok(Ending::Completed),
                Step::Continue(_) if is_last => return Ok(Ending::TurnsMax),
                Step::Continue(further) => Arc::make_mut(&mut self.messages).extend(further),
            }
        }
    }

    /// The next turn is what a program asks. It may shorten the answer; how tokens are drawn is not its decision.
    fn pose(&mut self, Posed { messages, tools, tokens_max, stop }: Posed) {
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

    /// Is the next turn the first one that is not known from another episode?
    fn is_first_sampled(&self) -> bool {
        let known = match self.spawn.start {
            Start::Within { turn, .. } => turn,
            Start::Opening | Start::Messages(_) => 0,
        };
        self.answers.len() == known
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
        let turn = self.answers.len();
        let address = Address { turn: turn as u64, purpose: Purpose::Sample, ..self.handle.address() };
        loop {
            let ask = Ask {
                messages: Arc::clone(&self.messages),
                tools: Arc::clone(&self.tools),
                prefix: if is_first { self.spawn.prefix.clone() } else { Vec::new() },
                sampling: Arc::clone(&self.sampling),
                seed: address.seed(),
            };
            match self.handle.sample(agent, ask).await {
                Ok(output) => return Ok(output),
                Err(ContactError::Policy(PolicyError::PromptTooLong { tokens, tokens_max })) => {
                    self.make_room(tokens, tokens_max)?;
                }
                Err(error) => return Err(self.stop(error)),
            }
        }
    }

    /// Handles a conversation that does not fit: it is shortened, or the episode ends.
    fn make_room(&mut self, tokens: usize, tokens_max: usize) -> Result<(), Stop> {
        let overlong = self.spec.overlong;
        if overlong == Overlong::Truncate && drop_oldest(Arc::make_mut(&mut self.messages)) {
            return Ok(());
        }
        Err(if !self.answers.is_empty() {
            Stop::Over(Ending::ContextOverflow)
        } else if overlong == Overlong::Refuse && !self.asks {
            Stop::Fatal(RolloutError::Overlong { task: self.spawn.task.id.clone(), tokens, tokens_max })
        } else {
            let reason = format!("the prompt has {tokens} tokens, but at most {tokens_max} fit");
            Stop::Unscored(Ending::ContextOverflow, reason)
        })
    }

    /// Gets an environment's questions answered until it is the policy's turn, or the end.
    async fn settle(&mut self, mut step: Step) -> Result<Step, Stop> {
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
            let said = self.ask(question).await?;
            step = self.hear(said).await?;
        }
        Ok(step)
    }

    /// Asks another participant.
    async fn ask(&mut self, question: Question) -> Result<Message, Stop> {
        let Question { who, messages, is_for_verdict } = question;
        let known = self.spec.partners.and_then(|partners| partners.sampling(&who));
        let sampling = Arc::clone(known.unwrap_or(&self.spawn.sampling));
        let at = match self.others.iter().position(|(name, ..)| *name == who) {
            Some(at) => at,
            None => {
                let agent = self.handle.agent(&who.as_str().into(), Trace::new());
                self.others.push((who, agent, 0));
                self.others.len() - 1
            }
        };
        let (_, agent, turn) = &mut self.others[at];
        let seed = self.handle.seed(agent, *turn);
        *turn += 1;
        let ask =
            Ask { messages: Arc::new(messages), tools: Arc::default(), prefix: Vec::new(), sampling, seed };
        let answered = self.handle.sample(agent, ask).await;
        answered.map(|output| output.message).map_err(|error| match error {
            ContactError::Policy(source) if is_for_verdict => {
                Stop::Unscored(Ending::EnvironmentError, format!("it could not be judged: {source}"))
            }
            error => self.stop(error),
        })
    }

    fn stop(&self, error: ContactError) -> Stop {
        let (task, role, rollout) = (self.spawn.task.id.clone(), self.spawn.role, self.rollout);
        match error {
            // What somebody else's program asks for is not the run's mistake.
            ContactError::Policy(
                source @ (PolicyError::Render(_) | PolicyError::Sampling(_) | PolicyError::Unable(_)),
            ) if self.asks => {
                let reason = format!("its program asked for what can't be answered: {source}");
                Stop::Unscored(Ending::EnvironmentError, reason)
            }
            ContactError::Policy(source) => {
                Stop::Fatal(RolloutError::Policy { task, role, rollout, turn: self.answers.len(), source })
            }
            error @ (ContactError::Lost { .. } | ContactError::Unfinished { .. }) => {
                Stop::Unscored(Ending::Lost, error.to_string())
            }
            error @ ContactError::Failed { .. } => {
                Stop::Unscored(Ending::EnvironmentError, error.to_string())
            }
            source @ ContactError::Unlike { .. } => {
                Stop::Fatal(RolloutError::Record { task, role, rollout, source })
            }
        }
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
