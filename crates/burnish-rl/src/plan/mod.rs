//! How the rollouts of a step are sampled, beyond "each task a number of times". Published plans are in `systems/`, a folder
//! each.
//!
//! A plan is an async function over the group of a task ([`Group`]): it has episodes played ([`Request`]), sees how
//! they turned out, has more played, and may change their verdicts. What it asks for is plain data: a run carries it
//! out without knowing any plan by name. The functions of all tasks of a step run side by side: their episodes share
//! the sampler's batch, and none waits for those of another task.

mod group;

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::{Episode, Message, Task};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SettingError;
use crate::advantage::Phase;
use crate::fact::Need;

pub use group::{Group, PlanError, Program, Waited, World};

/// An episode that was requested.
#[derive(Debug, Clone)]
pub struct Spawned {
    /// What it is for.
    pub role: Role,
    /// The task that it plays, if it is not that of the group.
    pub task: Option<Arc<Task>>,
    /// The episode as it was played.
    pub episode: Arc<Episode>,
    /// The weight of its advantage ([`Request::weight`]).
    pub weight: f64,
}

/// What an episode is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It answers the task: a member of the group.
    Rollout,
    /// It answers the task turned round ([`Group::counterpart`]), which states the task's right answer: also a member
    /// of the group.
    Turned,
    /// A short first answer that others start from: a member, credited with what follows from it.
    Draft,
    /// It goes on where a member ended ([`Start::After`]), and takes its place in the group.
    Extension,
    /// A greedy answer that only the plan looks at. It is neither trained on nor kept.
    Check,
    /// An answer that others read. It is sampled as rollouts are, and neither trained on nor kept.
    Thought,
    /// A right answer that the environment gives: a member of the group that the policy did not sample.
    Expert,
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
            Role::Thought => "thought",
            Role::Expert => "expert",
        }
    }

    /// Is it learned from?
    pub fn is_member(self) -> bool {
        !matches!(self, Role::Check | Role::Thought)
    }

    /// Which part of an answer such an episode is.
    pub fn phase(self) -> Phase {
        if self == Role::Draft { Phase::Upstream } else { Phase::Downstream }
    }
}

/// Episodes that a plan wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What they are for.
    pub role: Role,
    /// The task that they play, if it is not that of the group ([`Group::counterpart`], [`Group::reversed`]). One that
    /// is made of an episode's end ([`Start::After`]) goes on with that episode's task.
    pub task: Option<Arc<Task>>,
    /// Where they start.
    pub start: Start,
    /// What the first sampled answer begins with.
    pub prefix: Vec<Beginning>,
    /// How many.
    pub count: usize,
    /// The most tokens of an answer, if fewer than the recipe allows.
    pub tokens_max: Option<usize>,
    /// The weight of the advantage of its tokens: 1 for the members of a plain group.
    pub weight: f64,
}

/// Where an episode starts. Numbers are indices into [`Group::episodes`].
#[derive(Debug, Clone, PartialEq)]
pub enum Start {
    /// With the prompt of the task.
    Prompt,
    /// With these messages in place of the prompt.
    Messages(Vec<Message>),
    /// With the prompt; the answers are the environment's own ([`DEMONSTRATED`](crate::fact::DEMONSTRATED)), and nothing is
    /// sampled. For [`Role::Expert`].
    Demonstration,
    /// Where an episode ended: its last answer goes on, without its end token.
    After {
        /// The episode.
        of: usize,
    },
}

impl Start {
    /// The episode whose place a started one takes.
    fn replaces(&self) -> Option<usize> {
        match self {
            Start::After { of } => Some(*of),
            Start::Prompt | Start::Messages(_) | Start::Demonstration => None,
        }
    }
}

/// What an answer begins with: tokens that it did not sample and that are not trained on.
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
        let (role, start) = (Role::Rollout, Start::Prompt);
        Request { role, task: None, start, prefix: Vec::new(), count, tokens_max: None, weight: 1.0 }
    }
}

/// Each task a number of times: what a run does without a plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl RolloutPlan for Plain {}

/// How the group of a task that was trained on turned out.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// The task's labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Does any of its rollouts have an advantage above 0? In a group in which all succeed, none does.
    pub is_positive: bool,
}

/// How the rollouts of a step are sampled.
pub trait RolloutPlan: Send + Sync {
    /// What it needs from an environment.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Plays the group of a task. It may begin with episodes that are played already.
    ///
    /// # Errors
    /// If the environment can't do what it needs, or gives a reward that it adds itself.
    fn play<'a>(&'a self, group: &'a Group<'a>) -> Program<'a> {
        Box::pin(async {
            group.play([Request::rollouts(group.rollouts)]).await?;
            Ok(())
        })
    }

    /// How many members with a reward a group has, if the recipe asks for `rollouts` of each task.
    fn group_size(&self, rollouts: usize) -> usize {
        rollouts
    }

    /// Does it change verdicts? If so, an episode that it did not request would be rewarded differently.
    fn judges(&self) -> bool {
        false
    }

    /// May members be answers that the policy did not sample? Nothing is known of their single tokens.
    fn gives_answers(&self) -> bool {
        false
    }

    /// Does it read notes ([`Group::recall`])? Then there must be a memory.
    fn recalls(&self) -> bool {
        false
    }

    /// The components that it adds to rewards.
    fn components(&self) -> &'static [&'static str] {
        &[]
    }

    /// Can evaluation play held-out tasks in the plan's way? Evaluation never reads a hint.
    fn plays_evaluations(&self) -> bool {
        false
    }

    /// Learns from the outcomes of a step.
    fn observe(&mut self, _groups: &[Outcome<'_>]) {}

    /// Named numbers about the episodes of each group of a step, for the run's metrics.
    fn tally(&self, _groups: &[&[Spawned]]) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// Named numbers about what it has learned, for the run's metrics.
    fn metrics(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// What it has learned, for a checkpoint; null if it learns nothing.
    fn state(&self) -> Value {
        Value::Null
    }

    /// Goes on from what [`RolloutPlan::state`] returned.
    ///
    /// # Errors
    /// If it is not a state of this plan.
    fn restore(&mut self, _state: &Value) -> Result<(), SettingError> {
        Ok(())
    }
}
