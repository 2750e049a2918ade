//! Which tasks are played next, based on how they went before. One file per selector;
//! [`crate::catalogue::SELECTORS`] lists them.

mod common;
mod difficulty;
mod evidence;
mod insight;
mod mopps;
mod uniform;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::SettingError;
use crate::advantage::Rollouts;
use crate::catalogue::{SELECTORS, choice, no_settings};
use crate::fact::Need;

pub use common::Scored;
pub use difficulty::Difficulty;
pub use evidence::Evidence;
pub use insight::{Insight, Weight};
pub use mopps::Mopps;
pub use uniform::Uniform;

/// `[selection]`: which selector, and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SelectionConfig {
    /// Id of the selector. Default: `uniform`.
    pub selector: String,
    /// Its own settings.
    pub config: Value,
}

impl Default for SelectionConfig {
    fn default() -> Self {
        SelectionConfig { selector: "uniform".to_owned(), config: no_settings() }
    }
}

choice!(SelectionConfig, selector, SELECTORS, dyn Selector);

/// Chooses tasks.
///
/// A choice depends on the pool, on what was observed and on the seed, and on nothing else, so a resumed run goes on
/// with the same tasks.
pub trait Selector: Send + Sync {
    /// How many candidates it wants to choose `count` tasks from: at least `count`. They are drawn uniformly without
    /// repetition; fewer if there are not enough tasks. If it wants no more than `count`, tasks come in passes over the
    /// set, as without a selector.
    fn pool(&self, count: usize) -> usize {
        count
    }

    /// Indices into `pool` of the `count` tasks to play, in the order of play; all tasks if there are no more than
    /// that. `rollouts` rollouts of each will be played. On a tie, the first in the pool wins.
    fn choose(&self, pool: &[&str], count: usize, rollouts: usize, seed: u64) -> Vec<usize>;

    /// Learns that `successes` of `rollouts` rollouts of a task succeeded.
    fn observe(&mut self, _task: &str, _rollouts: usize, _successes: usize) {}

    /// The facts that [`Selector::learn`] reads.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Learns from the members of a step that are trained on, with their facts, after [`Selector::observe`] of each
    /// task.
    fn learn(&mut self, _rollouts: &Rollouts<'_>) {}

    /// The success rate that it expects for a task; `None` if it has no expectation.
    fn expected_success(&self, _task: &str) -> Option<f64> {
        None
    }

    /// What it has learned, for a checkpoint; null if it learns nothing.
    fn state(&self) -> Value {
        Value::Null
    }

    /// Goes on from what [`Selector::state`] returned.
    ///
    /// # Errors
    /// If it is not a state of this selector.
    fn restore(&mut self, _state: &Value) -> Result<(), SettingError> {
        Ok(())
    }
}
