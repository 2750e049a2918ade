//! Plays episodes: policies in environments, side by side.

mod player;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Episode, Message, Piece, Policy, PolicyError, Record, Sampling, Task, TaskId, ToolSpec};
use burnish_episode::{Cast, ContactError, Finished, Known, Outside, RunError, Started, Threads};
use serde::{Deserialize, Serialize};

use crate::{EnvError, Generator};

/// The name by which the policy that plays answers.
pub const POLICY: &str = "policy";

/// What is to be played, and how.
#[derive(Clone, Copy)]
pub struct RolloutSpec<'a> {
    /// Makes the environments.
    pub generator: &'a dyn Generator,
    /// Who else takes part, as environments ask for them.
    pub partners: Option<&'a Partners>,
    /// What is played, side by side.
    pub spawns: &'a [Spawn<'a>],
    /// Most turns of the policy in one episode; at least 1.
    pub turns_max: usize,
    /// What happens to a prompt that does not fit the policy's context window.
    pub overlong: Overlong,
}

/// Who takes part in episodes beside the policy that plays: a simulated user, another player.
#[derive(Default)]
pub struct Partners {
    policies: RefCell<Vec<(String, Box<dyn Policy>)>>,
    sampling: BTreeMap<String, Arc<Sampling>>,
}

impl Partners {
    /// With one more, who answers as `name`.
    #[must_use]
    pub fn with(mut self, name: &str, policy: Box<dyn Policy>, sampling: Sampling) -> Self {
        self.policies.get_mut().push((name.to_owned(), policy));
        self.sampling.insert(name.to_owned(), Arc::new(sampling));
        self
    }

    /// How one of them chooses tokens.
    fn sampling(&self, name: &str) -> Option<&Arc<Sampling>> {
        self.sampling.get(name)
    }
}

/// Episodes that start alike: the one way to start any.
#[derive(Debug, Clone)]
pub struct Spawn<'a> {
    /// What is played.
    pub task: &'a Task,
    /// Where they start.
    pub start: Start<'a>,
    /// What the first answer that is sampled begins with.
    pub prefix: Vec<Piece>,
    /// What they are for (`rollout`, `draft` ...), as errors name them.
    pub role: &'static str,
    /// How many.
    pub count: usize,
    /// How tokens are chosen.
    pub sampling: Arc<Sampling>,
    /// Who plays: a name of the cast.
    pub policy: Arc<str>,
    /// Where in the run the first of them is; the others differ in the rollout. Decides every random number.
    pub place: Address,
}

/// Where an episode starts.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Start<'a> {
    /// With the environment's opening messages.
    #[default]
    Opening,
    /// With these in their place. The environment is reset and judges as ever.
    Messages(Vec<Message>),
    /// At turn `turn` of another episode of the task: what came before is taken from its record, and the trace goes on from
    /// there. With a beginning of that turn's answer as the [`Spawn::prefix`], within the answer.
    Within {
        /// The episode.
        episode: &'a Episode,
        /// The turn that is sampled first, counted from 0; at most the number of turns.
        turn: usize,
    },
}

impl<'a> Spawn<'a> {
    /// Each task `count` times, from its opening, with the seeds of [`SeedPlace`].
    pub fn of_tasks(
        tasks: &'a [Task],
        count: usize,
        sampling: &Sampling,
        seeds: SeedPlace,
    ) -> Vec<Spawn<'a>> {
        let (sampling, policy): (_, Arc<str>) = (Arc::new(sampling.clone()), POLICY.into());
        let spawn = |(at, task)| Spawn {
            task,
            start: Start::Opening,
            prefix: Vec::new(),
            role: "rollout",
            count,
            sampling: Arc::clone(&sampling),
            policy: Arc::clone(&policy),
            place: seeds.address(at),
        };
        tasks.iter().enumerate().map(spawn).collect()
    }

    /// The address of one of them.
    fn address(&self, rollout: usize) -> Address {
        Address { rollout: self.place.rollout + rollout as u64, ..self.place }
    }
}

/// Where in a run episodes are played.
///
/// A turn samples with the seed of the address (run, stage, step, task, rollout, turn, [`Purpose::Sample`]);
/// an environment starts with that of (run, stage, step, task, rollout, 0, [`Purpose::Environment`]), where
/// `task` is `task_offset` plus the index of the task. So the same task gives the same episodes however the
/// tasks of a step are split between calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeedPlace {
    /// Seed of the run.
    pub run: u64,
    /// Stage of the run.
    pub stage: u64,
    /// Optimiser step.
    pub step: u64,
    /// Index, within the step, of the first task.
    pub task_offset: u64,
}

/// What happens to a prompt that is longer than the policy can read.
///
/// This concerns the prompt of the first turn. An episode that outgrows the context window at a later turn
/// ends there with [`Ending::ContextOverflow`](burnish_core::Ending::ContextOverflow) and is judged by what it has done, unless `truncate` makes room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlong {
    /// The run ends with an error that names the task and its length.
    #[default]
    Refuse,
    /// The episode is not played: unscored, [`Ending::ContextOverflow`](burnish_core::Ending::ContextOverflow).
    Drop,
    /// The oldest messages are left out, system messages and the newest message excepted, until the rest fits.
    /// Where even those do not fit, the episode is treated as under `drop` (first turn) or ends (later turns).
    Truncate,
}

impl SeedPlace {
    /// The address of the first rollout of the task with this index; its turn and its purpose are set where a seed is needed.
    pub fn address(self, task: usize) -> Address {
        Address {
            stage: self.stage,
            step: self.step,
            task: self.task_offset.wrapping_add(task as u64),
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

/// How the episode of a task opens that starts at an address.
///
/// # Errors
/// If the environment can't play the task.
pub fn opened(generator: &dyn Generator, task: &Task, place: Address) -> Result<Opened, EnvError> {
    let mut environment = generator.environment();
    let messages = environment.reset(task, place.seed())?;
    Ok(Opened { messages, tools: environment.tools() })
}

/// Why a spec could not be played.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    /// A prompt does not fit, and the spec refuses that.
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
    /// A policy could not answer.
    #[error("task {task}, {role} {rollout}, turn {turn}: {source}")]
    Policy {
        /// The task.
        task: TaskId,
        /// What its episode is for.
        role: &'static str,
        /// Which of them.
        rollout: usize,
        /// Which turn, from 0.
        turn: usize,
        /// What the policy said.
        source: PolicyError,
    },
    /// An episode can't go on from its record.
    #[error("task {task}, {role} {rollout}: {source}")]
    Record {
        /// The task.
        task: TaskId,
        /// What its episode is for.
        role: &'static str,
        /// Which of them.
        rollout: usize,
        /// What does not fit.
        source: ContactError,
    },
    /// The policy did not answer.
    #[error("the policy has nothing under way, but {turns} turns were not answered")]
    Lost {
        /// Turns without an answer.
        turns: usize,
    },
    /// The spec allows no turn.
    #[error("turns_max must be 1 or more")]
    NoTurns,
}

/// Plays all that the spec spawns, side by side, with one policy: an episode whose turn is over goes on at once.
///
/// Returns the episodes in the order of the spawns. An environment that fails ends its own episode as
/// unscored with [`Ending::EnvironmentError`](burnish_core::Ending::EnvironmentError); the others go on. A truncated answer is
/// still handed to the environment and judged.
///
/// # Errors
/// If the policy fails, or a prompt does not fit under [`Overlong::Refuse`]. What is under way then is given up.
pub fn play(policy: &mut dyn Policy, spec: &RolloutSpec<'_>) -> Result<Vec<Episode>, RolloutError> {
    let mut partners = spec.partners.map(|partners| partners.policies.borrow_mut());
    let mut cast = Cast::default().with(POLICY, policy);
    for (name, partner) in partners.iter_mut().flat_map(|partners| partners.iter_mut()) {
        cast = cast.with(name, &mut **partner);
    }
    play_with(cast, &mut Threads::default(), spec)
}

/// As [`play`], with a cast of one's own (the policy as [`POLICY`], others as environments ask for them), and with the world
/// outside.
///
/// # Errors
/// As [`play`].
pub fn play_with(
    cast: Cast<'_>,
    outside: &mut dyn Outside,
    spec: &RolloutSpec<'_>,
) -> Result<Vec<Episode>, RolloutError> {
    if spec.turns_max == 0 {
        return Err(RolloutError::NoTurns);
    }
    let played = spec.spawns.iter().flat_map(|spawn| (0..spawn.count).map(move |rollout| (spawn, rollout)));
    let started = played.map(|(spawn, rollout)| {
        let known = match spawn.start {
            Start::Within { episode, turn } => before(episode, turn),
            Start::Opening | Start::Messages(_) => Known::default(),
        };
        started(spec, spawn, rollout, known)
    });
    let finished = burnish_episode::run(started.collect(), cast, outside);
    let finished = finished.map_err(|error| explained(spec, error))?;
    Ok(finished.into_iter().map(episode_of).collect())
}

/// Plays an episode once more on its record, without asking anybody: as it was played, where the environment computes the
/// same as then.
///
/// # Errors
/// If the record is not one of this spec's first spawn, or breaks off; it names the place.
pub fn replay(spec: &RolloutSpec<'_>, spawn: &Spawn<'_>, episode: &Episode) -> Result<Episode, RolloutError> {
    let known = Known { record: episode.record.clone(), traces: episode.traces_of_agents() };
    let started = started(spec, spawn, episode.rollout, known);
    let finished = burnish_episode::run(vec![started], Cast::default(), &mut Threads::default());
    let mut finished = finished.map_err(|error| {
        let alone = Spawn { count: 1, ..spawn.clone() };
        explained(&RolloutSpec { spawns: &[alone], ..*spec }, error)
    })?;
    finished.pop().map(episode_of).ok_or(RolloutError::Lost { turns: 0 })
}

/// Says of which episode of the spec an error speaks.
fn explained(spec: &RolloutSpec<'_>, error: RunError<RolloutError>) -> RolloutError {
    let of = |at: usize, source: ContactError| {
        let mut before = 0;
        for Spawn { task, role, count, .. } in spec.spawns {
            if at < before + count {
                return RolloutError::Record { task: task.id.clone(), role, rollout: at - before, source };
            }
            before += count;
        }
        RolloutError::Lost { turns: 0 }
    };
    match error {
        RunError::Episode(error) => error,
        RunError::Contact { at, source } => of(at, source),
        RunError::Lost { turns } => RolloutError::Lost { turns },
        RunError::Stuck { at } => {
            let problem = "it waits for something that it has not asked for".to_owned();
            of(at, ContactError::Failed { what: "the episode".to_owned(), problem })
        }
    }
}

fn started<'f>(
    spec: &'f RolloutSpec<'_>,
    spawn: &'f Spawn<'_>,
    rollout: usize,
    known: Known,
) -> Started<'f, Episode, RolloutError> {
    Started::new(spawn.address(rollout), known, async move |handle| {
        player::Player::new(&handle, spec, spawn, rollout).play().await
    })
}

fn episode_of(finished: Finished<Episode>) -> Episode {
    let Finished { value, record, traces } = finished;
    let record = Record { calls: value.record.calls, ..record };
    let (mut own, mut partners) = (Vec::new(), Vec::new());
    for (is_own, trace) in record.are_own().zip(traces) {
        if is_own { own.push(trace) } else { partners.push(trace) }
    }
    Episode { traces: own, partners, record, ..value }
}

/// What an episode left before the policy's turn number `turn`; all of it where it had no such turn.
fn before(episode: &Episode, turn: usize) -> Known {
    let number = episode.record.first_agents_turns().nth(turn).map_or(u32::MAX, |(number, _)| number);
    Known { record: episode.record.before(number), traces: episode.traces_of_agents() }
}
