//! How the rollouts of a step are sampled, beyond "each task a number of times". One file a plan;
//! [`crate::catalogue::PLANS`] lists them. A plan says what is to be done as plain data; a run does it.

mod dgpo;
mod lang;
mod skpo;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SettingError;
use crate::catalogue::{PLANS, choice, no_settings};

pub use dgpo::Dgpo;
pub use lang::{Decay, Lang};
pub use skpo::Skpo;

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

/// What a plan knows of a task.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Steps done, as a share of those of the run: 0 at the first, below 1 at the last.
    pub progress: f64,
}

/// What came of the group of a task.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// The task's labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Has any of its rollouts an advantage above 0? A group in which all succeed has none.
    pub is_positive: bool,
}

/// A short first answer, which every rollout of its group then reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// Most tokens that it may have.
    pub tokens: usize,
    /// What the policy reads next in place of the last message of the prompt, with `{prompt}` for that message and
    /// `{draft}` for the draft; none: the draft is the beginning of each answer.
    pub template: Option<String>,
}

/// Both directions of a task, and what becomes of an answer to either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// Is the task turned round, with its right answer stated, played as often as the task itself? Both are one group.
    pub reverse: bool,
    /// Is an answer coherent only if a greedy answer to the task turned round with it gives back what was known?
    pub closes: bool,
    /// Does the environment's own reward count beside that for coherence?
    pub keeps_rewards: bool,
}

impl Cycle {
    /// How many directions of a task are played.
    pub fn directions(self) -> usize {
        1 + usize::from(self.reverse)
    }
}

/// How the rollouts of a step are sampled.
pub trait RolloutPlan: Send + Sync {
    /// The share of the tokens of its task's hint that every rollout of the group begins with: 0 none, 1 all.
    fn hint(&self, _task: &About<'_>) -> f64 {
        0.0
    }

    /// The draft that is sampled of each task before its rollouts, where there is one.
    fn draft(&self) -> Option<Draft> {
        None
    }

    /// The directions in which each task is played, where that is not as ever.
    fn cycle(&self) -> Option<Cycle> {
        None
    }

    /// Learns from what came of a step.
    fn observe(&mut self, _groups: &[Outcome<'_>]) {}

    /// Named numbers for the run's metrics.
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
