//! Plays episodes: a policy in environments, side by side.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{
    Answered, Ending, Episode, Message, Policy, PolicyError, Role, Sampling, Task, TaskId, ToolSpec, Trace,
    Turn, TurnId, TurnOutput, Verdict,
};
use serde::{Deserialize, Serialize};

use crate::{EnvError, Environment, Generator, Step};

/// What is to be played, and how.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// Makes the environments.
    pub generator: &'a dyn Generator,
    /// The tasks, each played `rollouts` times.
    pub tasks: &'a [Task],
    /// Episodes of each task.
    pub rollouts: usize,
    /// How the policy chooses tokens.
    pub sampling: &'a Sampling,
    /// Most turns of the policy in one episode; at least 1.
    pub turns_max: usize,
    /// What happens to a prompt that does not fit the policy's context window.
    pub overlong: Overlong,
    /// Where in the run this is: decides every random number.
    pub seeds: SeedPlace,
    /// How the episodes of each task begin, where that is not as the environment says: one entry a task, or none at
    /// all.
    pub openings: &'a [Opening],
}

/// How the episodes of a task begin otherwise than their environment says. The environment is reset and judges as ever.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Opening {
    /// The conversation, in place of the environment's opening messages.
    pub messages: Option<Vec<Message>>,
    /// What the first answer begins with: the policy has not said it, the environment reads it as said.
    pub prefix: String,
}

/// Where in a run episodes are played.
///
/// A turn samples with the seed of the address (run, stage, step, task, rollout, turn, [`Purpose::Sample`]);
/// an environment starts with that of (run, stage, step, task, rollout, 0, [`Purpose::Environment`]), where
/// `task` is `task_offset` plus the index in [`Plan::tasks`]. So the same task gives the same episodes however
/// the tasks of a step are split between calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeedPlace {
    /// Seed of the run.
    pub run: u64,
    /// Stage of the run.
    pub stage: u64,
    /// Optimiser step.
    pub step: u64,
    /// Index, within the step, of the first task of the plan.
    pub task_offset: u64,
}

/// What happens to a prompt that is longer than the policy can read.
///
/// This concerns the prompt of the first turn. An episode that outgrows the context window at a later turn
/// ends there with [`Ending::ContextOverflow`] and is judged by what it has done, unless `truncate` makes room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlong {
    /// The run ends with an error that names the task and its length.
    #[default]
    Refuse,
    /// The episode is not played: unscored, [`Ending::ContextOverflow`].
    Drop,
    /// The oldest messages are left out, system messages and the newest message excepted, until the rest fits.
    /// Where even those do not fit, the episode is treated as under `drop` (first turn) or ends (later turns).
    Truncate,
}

impl SeedPlace {
    /// The address of rollout `rollout` of the task with index `task` in its plan; its turn and its purpose are set where
    /// a seed is needed.
    fn address(self, task: usize, rollout: usize) -> Address {
        Address {
            stage: self.stage,
            step: self.step,
            task: self.task_offset.wrapping_add(task as u64),
            rollout: rollout as u64,
            ..Address::new(self.run, Purpose::Environment)
        }
    }
}

/// How an environment opens an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The conversation that the policy reads first.
    pub messages: Vec<Message>,
    /// The tools that it may call.
    pub tools: Vec<ToolSpec>,
}

/// How the first rollout of a task opens, which stands at `index` in a plan at `seeds`.
///
/// # Errors
/// If the environment can't play the task.
pub fn opened(
    generator: &dyn Generator,
    task: &Task,
    seeds: SeedPlace,
    index: usize,
) -> Result<Opened, EnvError> {
    let mut environment = generator.environment();
    let messages = environment.reset(task, seeds.address(index, 0).seed())?;
    Ok(Opened { messages, tools: environment.tools() })
}

/// Why a plan could not be played.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// A prompt does not fit, and the plan refuses that.
    #[error(
        "task {task}: the prompt has {tokens} tokens, but at most {tokens_max} fit with room for an answer; \
         shorten it, raise the context, or set overlong to \"drop\" or \"truncate\""
    )]
    Overlong {
        /// The task.
        task: TaskId,
        /// Length of its prompt.
        tokens: usize,
        /// Most that fits.
        tokens_max: usize,
    },
    /// The policy could not answer.
    #[error("task {task}, rollout {rollout}, turn {turn}: {source}")]
    Policy {
        /// The task.
        task: TaskId,
        /// Which rollout of it.
        rollout: usize,
        /// Which turn, from 0.
        turn: usize,
        /// What the policy said.
        source: PolicyError,
    },
    /// The policy did not answer.
    #[error("the policy has nothing under way, but {turns} turns were not answered")]
    Lost {
        /// Turns without an answer.
        turns: usize,
    },
    /// The plan allows no turn.
    #[error("turns_max must be 1 or more")]
    NoTurns,
}

/// Plays every task of the plan `rollouts` times, all of them side by side: an episode whose turn is over goes on at once.
///
/// Returns the episodes ordered by task, then by rollout. An environment that fails ends its own episode as
/// unscored with [`Ending::EnvironmentError`]; the others go on. A truncated answer is still handed to the
/// environment and judged.
///
/// # Errors
/// If the policy fails, or a prompt does not fit under [`Overlong::Refuse`]. What is under way then is given up.
pub fn play(policy: &mut dyn Policy, plan: &Plan<'_>) -> Result<Vec<Episode>, RolloutError> {
    if plan.turns_max == 0 {
        return Err(RolloutError::NoTurns);
    }
    let mut players: Vec<Player<'_>> = (0..plan.tasks.len())
        .flat_map(|task| (0..plan.rollouts).map(move |rollout| Player::start(plan, task, rollout)))
        .collect();
    let mut under_way = BTreeMap::new();
    let played = play_all(policy, plan, &mut players, &mut under_way);
    if let Err(error) = played {
        under_way.into_keys().for_each(|id| {
            policy.cancel(id);
        });
        return Err(error);
    }
    Ok(players.into_iter().map(Player::into_episode).collect())
}

/// Plays until every episode is over, then judges them. `under_way` says whose each turn is.
fn play_all(
    policy: &mut dyn Policy,
    plan: &Plan<'_>,
    players: &mut [Player<'_>],
    under_way: &mut BTreeMap<TurnId, usize>,
) -> Result<(), RolloutError> {
    let sampling = Arc::new(plan.sampling.clone());
    for (at, player) in players.iter_mut().enumerate().filter(|(_, player)| player.is_running()) {
        under_way.insert(policy.submit(player.turn(&sampling)), at);
    }
    while !under_way.is_empty() {
        let answered = policy.wait();
        if answered.is_empty() {
            return Err(RolloutError::Lost { turns: under_way.len() });
        }
        for Answered { id, trace, result } in answered {
            let Some(at) = under_way.remove(&id) else { continue };
            let player = &mut players[at];
            player.trace = trace;
            match result {
                Ok(output) => player.take(output, plan.turns_max),
                Err(PolicyError::PromptTooLong { tokens, tokens_max }) => {
                    player.make_room(plan.overlong, tokens, tokens_max)?;
                }
                Err(source) => return Err(player.policy_error(source)),
            }
            if player.is_running() {
                under_way.insert(policy.submit(player.turn(&sampling)), at);
            } else if player.is_to_be_judged() {
                // What judges may begin while others still play.
                player.environment.request_verdict();
            }
        }
    }
    players.iter_mut().filter(|player| player.is_to_be_judged()).for_each(Player::judge);
    Ok(())
}

/// One episode being played.
struct Player<'a> {
    task: &'a Task,
    rollout: usize,
    /// The address of the episode; its turn and purpose are set where a seed is needed.
    address: Address,
    environment: Box<dyn Environment>,
    prefix: &'a str,
    tools: Arc<Vec<ToolSpec>>,
    messages: Arc<Vec<Message>>,
    /// With the policy while it answers.
    trace: Trace,
    answers: Vec<Message>,
    /// How it ended, where nothing more is played. It may yet have to be judged.
    over: Option<Ending>,
    outcome: Option<(Ending, Verdict)>,
}

impl<'a> Player<'a> {
    fn start(plan: &Plan<'a>, task_index: usize, rollout: usize) -> Self {
        let address = plan.seeds.address(task_index, rollout);
        let task = &plan.tasks[task_index];
        let opening = plan.openings.get(task_index);
        let mut player = Player {
            task,
            rollout,
            address,
            environment: plan.generator.environment(),
            prefix: opening.map_or("", |opening| &opening.prefix),
            tools: Arc::default(),
            messages: Arc::default(),
            trace: Trace::new(),
            answers: Vec::new(),
            over: None,
            outcome: None,
        };
        match player.environment.reset(task, address.seed()) {
            Ok(messages) => {
                let messages = opening.and_then(|opening| opening.messages.clone()).unwrap_or(messages);
                player.messages = Arc::new(messages);
                player.tools = Arc::new(player.environment.tools());
            }
            Err(error) => player.fail(&error),
        }
        player
    }

    fn is_running(&self) -> bool {
        self.over.is_none() && self.outcome.is_none()
    }

    /// Is it over, and not judged yet?
    fn is_to_be_judged(&self) -> bool {
        self.over.is_some() && self.outcome.is_none()
    }

    fn judge(&mut self) {
        let Some(ending) = self.over else { return };
        match self.environment.verify() {
            Ok(verdict) => self.outcome = Some((ending, verdict)),
            Err(error) => self.fail(&error),
        }
    }

    /// The turn that is next. The trace goes with it.
    fn turn(&mut self, sampling: &Arc<Sampling>) -> Turn {
        let place = Address { turn: self.answers.len() as u64, purpose: Purpose::Sample, ..self.address };
        Turn {
            trace: std::mem::take(&mut self.trace),
            messages: Arc::clone(&self.messages),
            tools: Arc::clone(&self.tools),
            prefix: if self.answers.is_empty() { self.prefix.to_owned() } else { String::new() },
            sampling: Arc::clone(sampling),
            seed: place.seed(),
        }
    }

    /// Hands the policy's answer to the environment and ends the episode where it is over.
    fn take(&mut self, output: TurnOutput, turns_max: usize) {
        self.answers.push(output.message.clone());
        let step = self.environment.step(&output.message);
        let messages = Arc::make_mut(&mut self.messages);
        messages.push(output.message);
        match step {
            Err(error) => self.fail(&error),
            Ok(_) if output.stop.is_truncated() => self.end(Ending::Truncated),
            Ok(Step::Done) => self.end(Ending::Completed),
            Ok(Step::Continue(_)) if self.answers.len() >= turns_max => self.end(Ending::TurnsMax),
            Ok(Step::Continue(further)) => messages.extend(further),
        }
    }

    /// Deals with a conversation that does not fit: it is shortened, or the episode ends.
    fn make_room(
        &mut self,
        overlong: Overlong,
        tokens: usize,
        tokens_max: usize,
    ) -> Result<(), RolloutError> {
        if overlong == Overlong::Truncate && drop_oldest(Arc::make_mut(&mut self.messages)) {
            return Ok(());
        }
        if !self.answers.is_empty() {
            self.end(Ending::ContextOverflow);
        } else if overlong == Overlong::Refuse {
            return Err(RolloutError::Overlong { task: self.task.id.clone(), tokens, tokens_max });
        } else {
            let reason = format!("the prompt has {tokens} tokens, but at most {tokens_max} fit");
            self.outcome = Some((Ending::ContextOverflow, Verdict::unscored(reason)));
        }
        Ok(())
    }

    fn end(&mut self, ending: Ending) {
        self.over = Some(ending);
    }

    fn fail(&mut self, error: &EnvError) {
        self.outcome = Some((Ending::EnvironmentError, Verdict::unscored(error.to_string())));
    }

    fn policy_error(&self, source: PolicyError) -> RolloutError {
        RolloutError::Policy {
            task: self.task.id.clone(),
            rollout: self.rollout,
            turn: self.answers.len(),
            source,
        }
    }

    fn into_episode(self) -> Episode {
        // Every player has an outcome after `turns_max` rounds; the fallback states what its absence would mean.
        let (ending, verdict) = self
            .outcome
            .unwrap_or_else(|| (Ending::TurnsMax, Verdict::unscored("the episode was left unfinished")));
        Episode {
            task: self.task.id.clone(),
            rollout: self.rollout,
            traces: vec![self.trace],
            verdict,
            ending,
            answers: self.answers,
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
