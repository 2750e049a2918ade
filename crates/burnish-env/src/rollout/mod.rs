//! Plays episodes: policies in environments, side by side.

mod player;
mod recital;
mod seat;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Episode, Message, Piece, Policy, PolicyError, Record, Sampling, Task, TaskId, ToolSpec};
use burnish_episode::{
    Cast, ContactError, Finished, Handle, Known, Outside, Program, RunError, Started, Threads,
};
use serde::{Deserialize, Serialize};

use crate::{EnvError, Generator};

pub use recital::{Given, recite, recited};

/// The name of the playing policy.
pub const POLICY: &str = "policy";

/// What to play, and how.
#[derive(Clone, Copy)]
pub struct RolloutSpec<'a> {
    /// Makes the environments.
    pub generator: &'a dyn Generator,
    /// The others who take part, when environments ask for them.
    pub partners: Option<&'a Partners>,
    /// The episodes to play, side by side.
    pub spawns: &'a [Spawn<'a>],
    /// Most turns of the policy in one episode; at least 1.
    pub turns_max: usize,
    /// What happens to a prompt that does not fit the policy's context window.
    pub overlong: Overlong,
    /// Plays every episode, if there is one. Its episodes are no samples of the policy's turns, and don't start within other
    /// episodes, with other messages or with a prescribed beginning.
    pub program: Option<Playing<'a>>,
}

impl<'a> RolloutSpec<'a> {
    /// Without partners and without a program.
    pub fn new(
        generator: &'a dyn Generator,
        spawns: &'a [Spawn<'a>],
        turns_max: usize,
        overlong: Overlong,
    ) -> Self {
        RolloutSpec { generator, partners: None, spawns, turns_max, overlong, program: None }
    }
}

/// A program, and whom it asks besides the policy.
#[derive(Clone, Copy)]
pub struct Playing<'a> {
    /// The program.
    pub program: &'a dyn Program,
    /// Whom it asks.
    pub others: &'a Partners,
}

/// Those who take part in episodes besides the playing policy: a simulated user, another player.
#[derive(Default)]
pub struct Partners {
    policies: RefCell<Vec<(String, Box<dyn Policy>)>>,
    sampling: BTreeMap<String, Arc<Sampling>>,
}

impl Partners {
    /// Adds a partner with the name `name`.
    #[must_use]
    pub fn with(mut self, name: &str, policy: Box<dyn Policy>, sampling: Sampling) -> Self {
        self.policies.get_mut().push((name.to_owned(), policy));
        self.sampling.insert(name.to_owned(), Arc::new(sampling));
        self
    }

    /// Adds a partner of recorded episodes, who is not asked again: its name and how it chose tokens.
    #[must_use]
    pub fn with_recorded(mut self, name: &str, sampling: Sampling) -> Self {
        self.sampling.insert(name.to_owned(), Arc::new(sampling));
        self
    }

    /// Is somebody called `name`?
    fn has(&self, name: &str) -> bool {
        self.sampling.contains_key(name)
    }

    /// How a partner chooses tokens.
    fn sampling(&self, name: &str) -> Option<&Arc<Sampling>> {
        self.sampling.get(name)
    }
}

/// Episodes that start alike. Every episode is started this way.
#[derive(Debug, Clone)]
pub struct Spawn<'a> {
    /// The task.
    pub task: &'a Task,
    /// Where the episodes start.
    pub start: Start<'a>,
    /// The beginning of the first sampled answer.
    pub prefix: Vec<Piece>,
    /// Their purpose (`rollout`, `draft` ...), as errors name it.
    pub role: &'static str,
    /// Number of episodes.
    pub count: usize,
    /// How tokens are chosen.
    pub sampling: Arc<Sampling>,
    /// The policy that plays: a name in the cast.
    pub policy: Arc<str>,
    /// The place of the first episode in the run; the others differ in the rollout. Determines every random number.
    pub place: Address,
}

/// Where an episode starts.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Start<'a> {
    /// With the environment's opening messages.
    #[default]
    Opening,
    /// With these messages instead. The environment is reset and judges as usual.
    Messages(Vec<Message>),
    /// At turn `turn` of another episode of the task: everything before it is taken from that episode's record, and the
    /// trace continues from there. With the beginning of that turn's answer as the [`Spawn::prefix`], it starts within
    /// the answer.
    Within {
        /// The episode.
        episode: &'a Episode,
        /// The first turn that is sampled, counted from 0; at most the number of turns.
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

    /// What is known of its episodes before they begin.
    fn known(&self) -> Known {
        match self.start {
            Start::Within { episode, turn } => before(episode, turn),
            Start::Opening | Start::Messages(_) => Known::default(),
        }
    }

    /// The error of an episode that does not continue from what is known of it.
    fn not_its_record(&self, rollout: usize, source: ContactError) -> RolloutError {
        RolloutError::Record { task: self.task.id.clone(), role: self.role, rollout, source }
    }

    /// The address of one of the episodes.
    fn address(&self, rollout: usize) -> Address {
        Address { rollout: self.place.rollout + rollout as u64, ..self.place }
    }
}

/// The place of episodes in a run.
///
/// A turn samples with the seed of the address (run, stage, step, task, rollout, turn, [`Purpose::Sample`]); an
/// environment starts with that of (run, stage, step, task, rollout, 0, [`Purpose::Environment`]), where `task` is
/// `task_offset` plus the index of the task. So the same task gives the same episodes, however the tasks of a step are
/// split between calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeedPlace {
    /// Seed of the run.
    pub run: u64,
    /// Stage of the run.
    pub stage: u64,
    /// Optimiser step.
    pub step: u64,
    /// Index of the first task within the step.
    pub task_offset: u64,
}

/// How to handle a prompt that is longer than the policy can read.
///
/// This concerns the prompt of the first turn. An episode that outgrows the context window at a later turn ends there
/// with [`Ending::ContextOverflow`](burnish_core::Ending::ContextOverflow) and is judged by what it has done, unless
/// `truncate` makes room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlong {
    /// The run ends with an error that names the task and its length.
    #[default]
    Refuse,
    /// The episode is not played: unscored, [`Ending::ContextOverflow`](burnish_core::Ending::ContextOverflow).
    Drop,
    /// The oldest messages are dropped, except system messages and the newest message, until the rest fits. If even
    /// that does not fit, the episode is treated as under `drop` (first turn) or ends (later turns).
    Truncate,
}

impl SeedPlace {
    /// The address of the first rollout of the task with this index; turn and purpose are set where a seed is needed.
    pub fn address(self, task: usize) -> Address {
        Address {
            stage: self.stage,
            step: self.step,
            task: self.task_offset.wrapping_add(task as u64),
            ..Address::new(self.run, Purpose::Environment)
        }
    }
}

/// The opening of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The conversation that the policy reads first.
    pub messages: Vec<Message>,
    /// The tools that the policy may call.
    pub tools: Vec<ToolSpec>,
}

/// The opening of a task's episode at an address.
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
    /// A prompt does not fit, and the spec does not allow that.
    #[error(
        "task {task}: the prompt has {tokens} tokens, but at most {tokens_max} fit with room for an answer; \
         shorten it, raise the context, or set overlong to \"drop\" or \"truncate\""
    )]
    Overlong {
        /// The task.
        task: TaskId,
        /// Length of its prompt.
        tokens: usize,
        /// Most tokens that fit.
        tokens_max: usize,
    },
    /// A policy could not answer.
    #[error("task {task}, {role} {rollout}, turn {turn}: {source}")]
    Policy {
        /// The task.
        task: TaskId,
        /// The purpose of its episode.
        role: &'static str,
        /// Index of the episode.
        rollout: usize,
        /// Which turn, from 0.
        turn: usize,
        /// What the policy said.
        source: PolicyError,
    },
    /// An episode can't continue from its record.
    #[error("task {task}, {role} {rollout}: {source}")]
    Record {
        /// The task.
        task: TaskId,
        /// The purpose of its episode.
        role: &'static str,
        /// Index of the episode.
        rollout: usize,
        /// What does not fit.
        source: ContactError,
    },
    /// The policy did not answer.
    #[error("the policy has nothing under way, but {turns} turns were not answered")]
    Lost {
        /// Number of turns without an answer.
        turns: usize,
    },
    /// The spec allows no turn.
    #[error("turns_max must be 1 or more")]
    NoTurns,
}

/// Plays everything that the spec spawns, side by side, with one policy: when a turn ends, its episode continues at
/// once.
///
/// Returns the episodes in the order of the spawns. If an environment fails, its own episode ends as unscored with
/// [`Ending::EnvironmentError`](burnish_core::Ending::EnvironmentError); the others continue. A truncated answer is
/// still given to the environment and judged.
///
/// # Errors
/// If the policy fails, or a prompt does not fit under [`Overlong::Refuse`]. Everything under way is then cancelled.
pub fn play(policy: &mut dyn Policy, spec: &RolloutSpec<'_>) -> Result<Vec<Episode>, RolloutError> {
    let asked = spec.program.map(|playing| playing.others);
    let partners: Vec<&Partners> = spec.partners.into_iter().chain(asked).collect();
    with_cast(policy, &partners, Vec::new(), |cast| play_with(cast, &mut Threads::default(), spec))
}

/// What `function` returns with a cast of the policy, as [`POLICY`], its partners, and others by their names.
pub fn with_cast<T>(
    policy: &mut dyn Policy,
    partners: &[&Partners],
    others: Vec<(&str, &mut dyn Policy)>,
    function: impl FnOnce(Cast<'_>) -> T,
) -> T {
    let mut partners: Vec<_> = partners.iter().map(|partners| partners.policies.borrow_mut()).collect();
    let mut cast = Cast::default().with(POLICY, policy);
    for (name, partner) in partners.iter_mut().flat_map(|partners| partners.iter_mut()) {
        cast = cast.with(name, &mut **partner);
    }
    function(others.into_iter().fold(cast, |cast, (name, who)| cast.with(name, who)))
}

/// As [`play`], with the caller's own cast (the policy as [`POLICY`], others as environments ask for them) and outside.
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
    let started = played.map(|(spawn, rollout)| started(spec, spawn, rollout, spawn.known(), false));
    let at_once = spec.generator.at_once().unwrap_or(usize::MAX);
    let finished = burnish_episode::run_at_most(at_once, started.collect(), cast, outside);
    let finished = finished.map_err(|error| explained(spec, error))?;
    Ok(finished.into_iter().map(episode_of).collect())
}

/// Replays an episode from its record without asking anybody. The result is the same as when it was played, if the
/// environment still computes the same.
///
/// # Errors
/// If the record does not belong to the first spawn of this spec, or is incomplete; names the place.
pub fn replay(spec: &RolloutSpec<'_>, spawn: &Spawn<'_>, episode: &Episode) -> Result<Episode, RolloutError> {
    alone(spec, spawn, started(spec, spawn, episode.rollout, recorded(episode), true)).map(episode_of)
}

/// Plays one of the episodes of a spawn within another function. Its record and its traces are its own. Most that may run at once
/// is for whoever runs the function to say ([`burnish_episode::run_programs`], [`Generator::at_once`]).
///
/// # Errors
/// As [`play`].
pub async fn play_within(
    handle: &Handle,
    spec: &RolloutSpec<'_>,
    spawn: &Spawn<'_>,
    rollout: usize,
) -> Result<Episode, RolloutError> {
    let play = async |handle: Handle| player::Player::new(&handle, spec, spawn, rollout, false).play().await;
    let finished = handle.episode(spawn.address(rollout), spawn.known(), play).await;
    finished.map(episode_of).map_err(|error| match error {
        RunError::Episode(error) => error,
        RunError::Contact { source, .. } => spawn.not_its_record(rollout, source),
        RunError::Lost { .. } | RunError::Stuck { .. } => RolloutError::Lost { turns: 0 },
    })
}

/// The conversation of an episode up to its last answer, and the tools that were offered in it. The environment is asked again
/// for its messages; nobody else is.
///
/// # Errors
/// As [`replay`].
pub fn conversation(
    spec: &RolloutSpec<'_>,
    spawn: &Spawn<'_>,
    episode: &Episode,
) -> Result<(Vec<Message>, Vec<ToolSpec>), RolloutError> {
    let started = Started::new(spawn.address(episode.rollout), recorded(episode), async move |handle| {
        player::Player::new(&handle, spec, spawn, episode.rollout, true).converse().await
    });
    alone(spec, spawn, started).map(|finished| finished.value)
}

fn recorded(episode: &Episode) -> Known {
    Known { record: episode.record.clone(), traces: episode.traces_of_agents() }
}

/// Runs an episode of the spec by itself, on its record.
fn alone<T>(
    spec: &RolloutSpec<'_>,
    spawn: &Spawn<'_>,
    started: Started<'_, T, RolloutError>,
) -> Result<Finished<T>, RolloutError> {
    let finished = burnish_episode::run(vec![started], Cast::default(), &mut Threads::default());
    let mut finished = finished.map_err(|error| {
        let alone = Spawn { count: 1, ..spawn.clone() };
        explained(&RolloutSpec { spawns: &[alone], ..*spec }, error)
    })?;
    finished.pop().ok_or(RolloutError::Lost { turns: 0 })
}

/// Adds to an error which episode of the spec it concerns.
fn explained(spec: &RolloutSpec<'_>, error: RunError<RolloutError>) -> RolloutError {
    let of = |at: usize, source: ContactError| {
        let mut before = 0;
        for spawn in spec.spawns {
            if at < before + spawn.count {
                return spawn.not_its_record(at - before, source);
            }
            before += spawn.count;
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
    is_replay: bool,
) -> Started<'f, Episode, RolloutError> {
    Started::new(spawn.address(rollout), known, async move |handle| {
        player::Player::new(&handle, spec, spawn, rollout, is_replay).play().await
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

/// What an episode had recorded before the policy's turn number `turn`; everything if it had no such turn.
fn before(episode: &Episode, turn: usize) -> Known {
    let number = episode.record.first_agents_turns().nth(turn).map_or(u32::MAX, |(number, _)| number);
    Known { record: episode.record.before(number), traces: episode.traces_of_agents() }
}
