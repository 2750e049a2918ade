//! What is shared by selectors that keep a belief about every task and take the tasks with the highest score.

use std::cmp::Ordering;

use serde_json::Value;

use super::Selector;
use crate::SettingError;
use crate::belief::Beliefs;
use crate::settings::require;

/// Candidates per task that is played: InSight's pool.
pub(super) const POOL_FACTOR: usize = 16;

/// A selector that takes the tasks with the highest score.
pub trait Scored: Send + Sync {
    /// Candidates per task that is played.
    fn pool_factor(&self) -> usize;

    /// The beliefs about the tasks.
    fn beliefs(&self) -> &Beliefs;

    /// The same, to learn.
    fn beliefs_mut(&mut self) -> &mut Beliefs;

    /// A score for each task of `pool`; `rollouts` rollouts of a chosen task will be played.
    fn scores(&self, pool: &[&str], rollouts: usize, seed: u64) -> Vec<f64>;
}

/// The methods of [`Scored`] that read the settings `pool_factor` and `beliefs`, which every such selector has.
macro_rules! settings {
    () => {
        fn pool_factor(&self) -> usize {
            self.pool_factor
        }

        fn beliefs(&self) -> &Beliefs {
            &self.beliefs
        }

        fn beliefs_mut(&mut self) -> &mut Beliefs {
            &mut self.beliefs
        }
    };
}
pub(super) use settings;

impl<S: Scored> Selector for S {
    fn pool(&self, count: usize) -> usize {
        count.saturating_mul(self.pool_factor())
    }

    fn choose(&self, pool: &[&str], count: usize, rollouts: usize, seed: u64) -> Vec<usize> {
        best(&self.scores(pool, rollouts, seed), count)
    }

    fn observe(&mut self, task: &str, rollouts: usize, successes: usize) {
        self.beliefs_mut().observe(task, rollouts, successes);
    }

    fn expected_success(&self, task: &str) -> Option<f64> {
        Some(self.beliefs().of(task).mean())
    }

    fn state(&self) -> Value {
        self.beliefs().state()
    }

    fn restore(&mut self, state: &Value) -> Result<(), SettingError> {
        self.beliefs_mut().restore(state)
    }
}

/// Refuses settings out of range.
pub(super) fn check(scored: &impl Scored) -> Result<(), SettingError> {
    require("pool_factor", scored.pool_factor() as f64, |factor| factor >= 1.0, "must be 1 or more")?;
    scored.beliefs().check()
}

/// Indices of the `count` highest scores, the highest first; on a tie, the first in the pool wins.
fn best(scores: &[f64], count: usize) -> Vec<usize> {
    let order = |a: &usize, b: &usize| -> Ordering { scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)) };
    let mut found: Vec<usize> = (0..scores.len()).collect();
    if count < found.len() {
        found.select_nth_unstable_by(count, order);
        found.truncate(count);
    }
    found.sort_unstable_by(order);
    found
}
