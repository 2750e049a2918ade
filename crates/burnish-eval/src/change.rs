//! What changed between two evaluations of the same tasks.

use std::collections::BTreeMap;

use burnish_core::Episode;
use serde::{Deserialize, Serialize};

use crate::bootstrap::{self, Interval};
use crate::summary::{Groups, group_by_task, reward_of, success_of, task_means};

/// What changed between two evaluations of the same tasks: `after - before`, paired by task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Tasks with a scored episode on both sides; the others are left out.
    pub tasks: usize,
    /// Difference of the success rate.
    pub success: Interval,
    /// Difference of the weighted sum of rewards.
    pub reward: Interval,
}

impl Change {
    /// Compares `before` with `after`; `None` where no task was scored in both.
    ///
    /// `weights` are those of [`burnish_core::Verdict::total`]; `seed` is an address of `Purpose::Bootstrap`.
    pub fn between(
        before: &[Episode],
        after: &[Episode],
        weights: &BTreeMap<String, f64>,
        seed: u64,
    ) -> Option<Self> {
        let (mut before, mut after) = (group_by_task(before), group_by_task(after));
        before.retain(|task, _| after.contains_key(task));
        after.retain(|task, _| before.contains_key(task));
        let difference = |value: &dyn Fn(&Episode) -> f64| {
            bootstrap::paired_difference(&pairs(&before, &after, value), seed)
        };
        Some(Change {
            tasks: before.len(),
            success: difference(&success_of)?,
            reward: difference(&|episode| reward_of(episode, weights))?,
        })
    }
}

/// Both groupings hold the same tasks, in the same order.
fn pairs(before: &Groups<'_>, after: &Groups<'_>, value: &dyn Fn(&Episode) -> f64) -> Vec<(f64, f64)> {
    task_means(before, value).into_iter().zip(task_means(after, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::{episode, unscored};

    #[test]
    fn tasks_are_paired_by_id_whatever_their_order() {
        let before = [episode("a", false, 0.0), episode("b", true, 1.0)];
        let after = [episode("b", true, 1.0), episode("a", true, 0.5)];
        let change = Change::between(&before, &after, &BTreeMap::new(), 1).unwrap();
        assert_eq!((change.tasks, change.success.mean, change.reward.mean), (2, 0.5, 0.25));
    }

    #[test]
    fn a_task_that_was_not_scored_on_both_sides_is_left_out() {
        let before = [episode("a", false, 0.0), episode("b", true, 1.0), episode("only before", true, 1.0)];
        let after = [episode("a", true, 1.0), unscored("b"), episode("only after", false, 0.0)];
        let change = Change::between(&before, &after, &BTreeMap::new(), 1).unwrap();
        assert_eq!((change.tasks, change.success.mean), (1, 1.0));
    }

    #[test]
    fn without_a_common_task_there_is_no_change_to_speak_of() {
        assert_eq!(Change::between(&[episode("a", true, 1.0)], &[unscored("a")], &BTreeMap::new(), 1), None);
        assert_eq!(Change::between(&[], &[], &BTreeMap::new(), 1), None);
    }

    #[test]
    fn an_equal_gain_on_every_task_has_an_interval_without_width_though_tasks_differ() {
        let rewarded = |shift: f64| -> Vec<Episode> {
            (0..30).map(|i| episode(&format!("t{i}"), true, f64::from(i) + shift)).collect()
        };
        let reward = Change::between(&rewarded(0.0), &rewarded(0.25), &BTreeMap::new(), 1).unwrap().reward;
        assert_eq!((reward.low, reward.mean, reward.high), (0.25, 0.25, 0.25));
    }
}
