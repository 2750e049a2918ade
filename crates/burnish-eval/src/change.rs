//! What changed between two evaluations of the same tasks.

use std::collections::BTreeMap;

use burnish_core::Episode;
use serde::{Deserialize, Serialize};

use crate::bootstrap::{self, Interval};
use crate::measure::Measure;
use crate::summary::{Groups, counted_by_task, reward_of, scored_by_task, success_of, task_means};

/// What changed between two evaluations of the same tasks: `after - before`, paired by task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The measure that is the environment's headline.
    #[serde(default)]
    pub headline: Measure,
    /// The number of tasks that count on both sides; others are left out.
    pub tasks: usize,
    /// Difference of the success rate. `None` if the environment does not report success.
    pub success: Option<Interval>,
    /// Difference of the weighted sum of rewards, over the tasks that were judged on both sides. `None` if there is no
    /// such task.
    pub reward: Option<Interval>,
}

impl Change {
    /// Compares `before` with `after`; `None` if no task counts in both.
    ///
    /// `weights` are those of [`burnish_core::Verdict::total`]; `seed` is an address of `Purpose::Bootstrap`.
    pub fn between(
        before: &[Episode],
        after: &[Episode],
        weights: &BTreeMap<String, f64>,
        seed: u64,
    ) -> Option<Self> {
        let headline = Measure::of(before.iter().chain(after));
        let success = pairs(counted_by_task(before), counted_by_task(after), &success_of);
        let reward = |episode: &Episode| reward_of(episode, weights);
        let reward = pairs(scored_by_task(before), scored_by_task(after), &reward);
        let change = Change {
            headline,
            tasks: if headline == Measure::Success { success.len() } else { reward.len() },
            success: (headline == Measure::Success)
                .then(|| bootstrap::paired_difference(&success, seed))
                .flatten(),
            reward: bootstrap::paired_difference(&reward, seed),
        };
        change.leading().map(|_| change)
    }

    /// The difference in the headline's measure.
    pub fn leading(&self) -> Option<Interval> {
        match self.headline {
            Measure::Success => self.success,
            Measure::Reward => self.reward,
        }
    }
}

/// The means of the tasks that both sides have, in the order of the task ids.
fn pairs(mut before: Groups<'_>, mut after: Groups<'_>, value: &dyn Fn(&Episode) -> f64) -> Vec<(f64, f64)> {
    before.retain(|task, _| after.contains_key(task));
    after.retain(|task, _| before.contains_key(task));
    task_means(&before, value).into_iter().zip(task_means(&after, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::{bare, episode, too_long, unscored};

    #[test]
    fn tasks_are_paired_by_id_whatever_their_order() {
        let before = [episode("a", false, 0.0), episode("b", true, 1.0)];
        let after = [episode("b", true, 1.0), episode("a", true, 0.5)];
        let change = Change::between(&before, &after, &BTreeMap::new(), 1).unwrap();
        assert_eq!((change.tasks, change.success.unwrap().mean, change.reward.unwrap().mean), (2, 0.5, 0.25));
    }

    #[test]
    fn a_task_that_was_not_scored_on_both_sides_is_left_out() {
        let before = [episode("a", false, 0.0), episode("b", true, 1.0), episode("only before", true, 1.0)];
        let after = [episode("a", true, 1.0), unscored("b"), episode("only after", false, 0.0)];
        let change = Change::between(&before, &after, &BTreeMap::new(), 1).unwrap();
        assert_eq!((change.tasks, change.success.unwrap().mean), (1, 1.0));
    }

    #[test]
    fn a_prompt_that_does_not_fit_is_a_failure_on_its_side() {
        let before = [too_long("a"), episode("b", true, 1.0)];
        let after = [episode("a", true, 1.0), episode("b", true, 0.5)];
        let change = Change::between(&before, &after, &BTreeMap::new(), 1).unwrap();
        assert_eq!((change.tasks, change.success.unwrap().mean), (2, 0.5));
        assert_eq!(change.reward.unwrap().mean, -0.5, "b alone has a reward on both sides");
    }

    #[test]
    fn without_success_the_reward_is_what_changed() {
        let (before, after) = ([bare("a", 0.25), too_long("b")], [bare("a", 1.5), bare("b", 1.0)]);
        let change = Change::between(&before, &after, &BTreeMap::new(), 1).unwrap();
        assert_eq!((change.headline, change.tasks, change.success), (Measure::Reward, 1, None));
        assert_eq!(change.leading().unwrap().mean, 1.25);
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
        let reward =
            Change::between(&rewarded(0.0), &rewarded(0.25), &BTreeMap::new(), 1).unwrap().reward.unwrap();
        assert_eq!((reward.low, reward.mean, reward.high), (0.25, 0.25, 0.25));
    }
}
