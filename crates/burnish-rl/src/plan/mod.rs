//! How the rollouts of a step are sampled, beyond "each task a number of times". One file per plan;
//! [`crate::catalogue::PLANS`] lists them.
//!
//! A plan works in waves. For each task it requests episodes ([`Request`]), sees what came of them ([`Played`]), and requests more,
//! until it has what it wants; then it may change their verdicts. It says all of this as plain data: a run carries it out, and
//! knows no plan by name.

mod dgpo;
mod lang;
mod skpo;
mod vl_rethinker;

use std::collections::BTreeMap;

use burnish_core::{Episode, Task, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SettingError;
use crate::advantage::Phase;
use crate::catalogue::{PLANS, choice, no_settings};
use crate::fact::Need;

pub use dgpo::{COHERENT, CycleCheck, Dgpo};
pub use lang::{Decay, Lang};
pub use skpo::Skpo;
pub use vl_rethinker::VlRethinker;

/// `[plan]`: which plan, and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanConfig {
    /// Id of the plan.
    pub plan: String,
    /// Its own settings.
    #[serde(default = "no_settings")]
    pub config: Value,
}

choice!(PlanConfig, plan, PLANS, dyn RolloutPlan);

/// What has been played of a task so far.
#[derive(Debug, Clone, Copy)]
pub struct Played<'a> {
    /// The task.
    pub task: &'a Task,
    /// How many rollouts of each task the recipe asks for.
    pub rollouts: usize,
    /// Steps done, as a share of those of the run: 0 at the first, below 1 at the last.
    pub progress: f64,
    /// Seed of what the plan chooses at random about this task in this step.
    pub seed: u64,
    /// The episodes, in the order in which they were requested.
    pub episodes: &'a [Spawned],
}

/// An episode that was requested.
#[derive(Debug, Clone)]
pub struct Spawned {
    /// What it is for.
    pub role: Role,
    /// Which episode it started from, where it started from one.
    pub of: Option<usize>,
    /// What came of it. Checks of the same question share an episode.
    pub episode: std::sync::Arc<Episode>,
}

/// What an episode is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It answers the task: a member of the group.
    Rollout,
    /// It answers the task turned round, with the task's right answer stated: a member of the group too.
    Turned,
    /// A short first answer that others start from. It is a member that is credited with what follows.
    Draft,
    /// It goes on where a member ended, and takes its place in the group.
    Extension,
    /// A greedy answer that only the plan looks at. It is neither trained on nor kept.
    Check,
}

impl Role {
    /// Its name, in errors and journals.
    pub fn name(self) -> &'static str {
        match self {
            Role::Rollout => "rollout",
            Role::Turned => "turned",
            Role::Draft => "draft",
            Role::Extension => "extension",
            Role::Check => "check",
        }
    }

    /// Is it learned from?
    pub fn is_member(self) -> bool {
        self != Role::Check
    }

    /// Which part of an answer it is.
    pub fn phase(self) -> Phase {
        if self == Role::Draft { Phase::Upstream } else { Phase::Downstream }
    }
}

/// Episodes that a plan wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What they are for.
    pub role: Role,
    /// Where they start.
    pub start: Start,
    /// What the first answer that is sampled begins with.
    pub prefix: Vec<Beginning>,
    /// How many.
    pub count: usize,
    /// Most tokens of an answer, where that is fewer than the recipe allows.
    pub tokens_max: Option<usize>,
}

/// Where an episode starts. Numbers are places in [`Played::episodes`].
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// With the prompt of its task: for [`Role::Turned`], of the task turned round.
    Prompt,
    /// With the prompt, whose last message shows the first answer of an episode: `{prompt}` stands for that message and `{draft}`
    /// for the answer.
    Shown {
        /// Whose answer is shown.
        of: usize,
        /// What takes the place of the message.
        template: String,
    },
    /// With the other direction of an episode's task, as its last answer states it. Nothing is played where that states none.
    Reversed {
        /// Whose answer is put to the test.
        of: usize,
    },
    /// Where an episode ended, within its last answer, whose end token is dropped.
    After {
        /// The episode.
        of: usize,
    },
}

/// What an answer begins with: tokens that were not sampled by it, and that are not trained.
#[derive(Debug, Clone, PartialEq)]
pub enum Beginning {
    /// The first `share` of the tokens of the task's reasoning: 0 none, 1 all. It needs [`HINT`](crate::fact::HINT).
    Hint(f64),
    /// The first answer of an episode.
    Answer(usize),
    /// A text.
    Text(String),
}

impl Request {
    /// `count` rollouts of the task, as without a plan.
    pub fn rollouts(count: usize) -> Self {
        Request { role: Role::Rollout, start: Start::Prompt, prefix: Vec::new(), count, tokens_max: None }
    }
}

/// Each task a number of times: what is done without a plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl RolloutPlan for Plain {}

/// What came of the group of a task that was trained on.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// The task's labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Has any of its rollouts an advantage above 0? A group in which all succeed has none.
    pub is_positive: bool,
}

/// How the rollouts of a step are sampled.
pub trait RolloutPlan: Send + Sync {
    /// What it needs of an environment.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// What is to be played next of a task, in wave number `wave`, counted from 0. The plan is over where it requests nothing of
    /// any task.
    fn wave(&self, played: &Played<'_>, wave: usize) -> Vec<Request> {
        if wave == 0 { vec![Request::rollouts(played.rollouts)] } else { Vec::new() }
    }

    /// How many members that earn a reward a group has, where the recipe asks for `rollouts` of each task.
    fn group_size(&self, rollouts: usize) -> usize {
        rollouts
    }

    /// The verdicts that it puts in place of the environment's: one entry per episode.
    ///
    /// # Errors
    /// If what it adds is there already.
    fn judge(&self, played: &Played<'_>) -> Result<Vec<Option<Verdict>>, SettingError> {
        Ok(vec![None; played.episodes.len()])
    }

    /// Does it change verdicts? Then an episode that it did not request earns something else.
    fn judges(&self) -> bool {
        false
    }

    /// The components that it adds to rewards.
    fn components(&self) -> &'static [&'static str] {
        &[]
    }

    /// Can held-out tasks be played in its way? Evaluation never reads a hint.
    fn plays_evaluations(&self) -> bool {
        false
    }

    /// Learns from what came of a step.
    fn observe(&mut self, _groups: &[Outcome<'_>]) {}

    /// Named numbers of what was played in a step, for the run's metrics.
    fn tally(&self, _groups: &[Played<'_>]) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// Named numbers of what it has learned, for the run's metrics.
    fn metrics(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// What it has learned, for a checkpoint; null where it learns nothing.
    fn state(&self) -> Value {
        Value::Null
    }

    /// Goes on from what [`RolloutPlan::state`] said.
    ///
    /// # Errors
    /// If it is not a state of this plan.
    fn restore(&mut self, _state: &Value) -> Result<(), SettingError> {
        Ok(())
    }
}
