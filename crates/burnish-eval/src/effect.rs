//! The effect of a change, over evaluation tasks and training seeds at once.
//!
//! Two arms are trained with the same seeds and evaluated on the same tasks, so each pair (seed, task) has a difference
//! `d[s][t]`. Both the seeds and the tasks are samples: with other ones, the mean would have been different.
//!
//! **Bootstrap.** Seeds and tasks are resampled independently of each other, and every drawn seed is combined with the
//! same drawn tasks (for crossed factors: Owen 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1(2)).
//! Drawing tasks anew for each seed would treat what is peculiar to a task as noise that averages out over seeds. It
//! does not, because all seeds are evaluated on the same tasks. Of `S` seeds only `S - 1` are drawn, with replacement:
//! the usual `S` draws make their variance too small by the factor `(S - 1) / S`, which matters with few seeds
//! (McCarthy and Snowden 1985, "The bootstrap and finite population sampling"). A single seed can't be resampled: the
//! result is then about that seed alone.
//!
//! What belongs to neither the seed nor the task alone enters this variance about three times (Owen 2007), so intervals
//! tend to be too wide rather than too narrow; with two seeds that differ a lot, they are still too narrow.
//!
//! **Smallest detectable effect.** With a standard error `SE`, an interval of `± 1.96 SE` excludes 0 in 80 % of
//! repetitions if the true effect is `(1.96 + 0.84) SE`: 1.96 is the 97.5th percentile of the standard normal
//! distribution (two-sided 5 %), 0.84 the 80th (power).

use std::collections::BTreeMap;

use burnish_core::rng::{Stream, bits};
use burnish_core::{Episode, TaskId};
use serde::{Deserialize, Serialize};

use crate::bootstrap::{Interval, LEVEL, RESAMPLES, quantile};
use crate::measure::Measure;
use crate::summary::{Groups, counted_by_task, reward_of, scored_by_task, success_of, task_means};

/// 97.5th percentile of the standard normal distribution: two-sided 5 %.
const Z_SIZE: f64 = 1.96;
/// 80th percentile of the standard normal distribution: 80 % power.
const Z_POWER: f64 = 0.84;

/// The results of an arm of a study: one number per seed and task.
pub type Scores = BTreeMap<u64, BTreeMap<TaskId, f64>>;

/// The result of each task in one evaluation: the mean over its episodes that count. Tasks without such an episode are
/// left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskScores {
    /// Share of the episodes that succeeded; empty if the environment does not report success. A prompt that does not
    /// fit the context window is a failure.
    pub success: BTreeMap<TaskId, f64>,
    /// Weighted sum of the reward components, over the scored episodes.
    pub reward: BTreeMap<TaskId, f64>,
}

impl TaskScores {
    /// The results of `episodes`, given in any order; `weights` are those of [`burnish_core::Verdict::total`].
    pub fn of(episodes: &[Episode], weights: &BTreeMap<String, f64>) -> Self {
        let by_task = |groups: &Groups<'_>, value: &dyn Fn(&Episode) -> f64| {
            groups.keys().map(|task| (*task).clone()).zip(task_means(groups, value)).collect()
        };
        TaskScores {
            success: match Measure::of(episodes) {
                Measure::Success => by_task(&counted_by_task(episodes), &success_of),
                Measure::Reward => BTreeMap::new(),
            },
            reward: by_task(&scored_by_task(episodes), &|episode| reward_of(episode, weights)),
        }
    }
}

/// A mean over seeds and tasks, with an interval from resampling both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The number of seeds that it averages over. A single seed is not resampled.
    pub seeds: usize,
    /// The number of tasks that it averages over.
    pub tasks: usize,
    /// The mean, and the percentile interval of [`LEVEL`].
    pub interval: Interval,
    /// Standard deviation of the resampled means.
    pub standard_error: f64,
}

/// What the interval of a difference says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It lies above 0.
    Better,
    /// It lies below 0.
    Worse,
    /// It holds 0. This is not evidence that there is no effect: see [`Estimate::smallest_detectable`].
    NoDifferenceSeen,
}

impl Estimate {
    /// The mean of one arm. `seed` is an address of `Purpose::Bootstrap`. `None` with fewer than two tasks that every
    /// seed has, because a spread over tasks needs two.
    pub fn of(scores: &Scores, seed: u64) -> Option<Self> {
        let tasks = common_tasks(scores.values());
        let of = |run: &BTreeMap<TaskId, f64>| tasks.iter().map(|task| run[*task]).collect();
        resampled(&scores.values().map(of).collect::<Vec<_>>(), seed, RESAMPLES)
    }

    /// The mean of `arm - baseline` over the seeds that both have, and the tasks that were scored in all of their runs.
    /// Otherwise as [`Estimate::of`].
    pub fn of_difference(baseline: &Scores, arm: &Scores, seed: u64) -> Option<Self> {
        let pairs: Vec<_> = baseline.iter().filter_map(|(at, run)| Some((run, arm.get(at)?))).collect();
        let tasks = common_tasks(pairs.iter().flat_map(|(baseline, arm)| [*baseline, *arm]));
        let differences: Vec<Vec<f64>> = pairs
            .iter()
            .map(|(baseline, arm)| tasks.iter().map(|task| arm[*task] - baseline[*task]).collect())
            .collect();
        resampled(&differences, seed, RESAMPLES)
    }

    /// The smallest effect that would have been seen with a probability of 80 %: `(1.96 + 0.84)` standard errors.
    pub fn smallest_detectable(&self) -> f64 {
        (Z_SIZE + Z_POWER) * self.standard_error
    }

    /// What the interval says, if this is a difference.
    pub fn verdict(&self) -> Verdict {
        if self.interval.low > 0.0 {
            Verdict::Better
        } else if self.interval.high < 0.0 {
            Verdict::Worse
        } else {
            Verdict::NoDifferenceSeen
        }
    }
}

/// The tasks that every run has, in the order of their ids.
fn common_tasks<'a>(runs: impl Iterator<Item = &'a BTreeMap<TaskId, f64>>) -> Vec<&'a TaskId> {
    let runs: Vec<_> = runs.collect();
    let Some((first, others)) = runs.split_first() else { return Vec::new() };
    first.keys().filter(|task| others.iter().all(|run| run.contains_key(task))).collect()
}

/// The estimate for `values[s][t]`, rows of equal length.
fn resampled(values: &[Vec<f64>], seed: u64, resamples: usize) -> Option<Estimate> {
    let (seeds, tasks) = (values.len(), values.first()?.len());
    if tasks < 2 {
        return None;
    }
    let first = values[0][0];
    // Averaging deviations from the first value keeps the interval of equal values at exactly that value.
    let deviations: Vec<f64> = values.iter().flatten().map(|value| value - first).collect();
    let seeds_drawn = (seeds - 1).max(1);
    let mut drawn = vec![0usize; tasks];
    let mut means: Vec<f64> = (0..resamples as u64)
        .map(|resample| {
            let mut stream = Stream::new(bits(seed, resample));
            drawn.iter_mut().for_each(|task| *task = stream.index(tasks));
            let row_sum = |row: usize| drawn.iter().map(|task| deviations[row * tasks + task]).sum::<f64>();
            let sum: f64 = (0..seeds_drawn).map(|_| row_sum(stream.index(seeds))).sum();
            sum / (seeds_drawn * tasks) as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let tail = (1.0 - LEVEL) / 2.0;
    let interval = Interval {
        mean: first + deviations.iter().sum::<f64>() / deviations.len() as f64,
        low: first + quantile(&means, tail),
        high: first + quantile(&means, 1.0 - tail),
    };
    Some(Estimate { seeds, tasks, interval, standard_error: sample_std(&means) })
}

fn sample_std(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::{bare, episode, too_long, unscored};
    use proptest::prelude::*;

    fn id(task: usize) -> TaskId {
        TaskId(format!("t{task}"))
    }

    fn scores(seeds: u64, tasks: usize, value: impl Fn(u64, usize) -> f64) -> Scores {
        (0..seeds).map(|s| (s, (0..tasks).map(|t| (id(t), value(s, t))).collect())).collect()
    }

    /// Differences with an effect of the seed, of the task and of their combination, each with the given standard
    /// deviation.
    struct World {
        seeds: usize,
        tasks: usize,
        of_seed: f64,
        of_task: f64,
        of_both: f64,
    }

    impl World {
        fn draw(&self, trial: u64) -> Vec<Vec<f64>> {
            let mut stream = Stream::new(bits(17, trial));
            let by_task: Vec<f64> = (0..self.tasks).map(|_| self.of_task * stream.normal()).collect();
            let row = |stream: &mut Stream| {
                let by_seed = self.of_seed * stream.normal();
                by_task.iter().map(|by_task| by_seed + by_task + self.of_both * stream.normal()).collect()
            };
            (0..self.seeds).map(|_| row(&mut stream)).collect()
        }

        /// The true standard error of the mean.
        fn standard_error(&self) -> f64 {
            let (seeds, tasks) = (self.seeds as f64, self.tasks as f64);
            let variance = self.of_seed.powi(2) / seeds
                + self.of_task.powi(2) / tasks
                + self.of_both.powi(2) / (seeds * tasks);
            variance.sqrt()
        }

        /// Over many trials: the share of intervals that hold `effect`, and the mean standard error.
        fn measure(&self, effect: f64, value: f64) -> (f64, f64) {
            const TRIALS: u64 = 400;
            let (mut held, mut error) = (0.0, 0.0);
            for trial in 0..TRIALS {
                let mut differences = self.draw(trial);
                differences.iter_mut().flatten().for_each(|difference| *difference += effect);
                let found = resampled(&differences, bits(5, trial), 200).unwrap();
                held += f64::from(u8::from(found.interval.contains(value)));
                error += found.standard_error;
            }
            (held / TRIALS as f64, error / TRIALS as f64)
        }
    }

    /// As in a typical study: five seeds, and the largest effect is that of one run on one task.
    const USUAL: World = World { seeds: 5, tasks: 80, of_seed: 0.04, of_task: 0.2, of_both: 0.3 };

    #[test]
    fn about_95_of_100_intervals_hold_the_true_effect_and_the_standard_error_is_not_too_small() {
        let (held, error) = USUAL.measure(0.0, 0.0);
        // Three standard errors of 400 trials are 0.033; the interval is known to be somewhat too wide.
        assert!((0.93..=0.995).contains(&held), "{held}");
        let ratio = error / USUAL.standard_error();
        assert!((0.95..1.35).contains(&ratio), "{ratio}");
        // Only seeds differ: the number of draws makes up for how few there are.
        let seeds = World { of_seed: 0.3, of_task: 0.0, of_both: 0.0, ..USUAL };
        let (_, error) = seeds.measure(0.0, 0.0);
        // The mean of a standard deviation of 5 values is 6 % below that of the distribution.
        let ratio = error / seeds.standard_error();
        assert!((0.88..1.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn what_is_peculiar_to_a_task_does_not_average_out_over_seeds() {
        let tasks = World { of_seed: 0.0, of_task: 0.3, of_both: 0.0, ..USUAL };
        let (held, error) = tasks.measure(0.0, 0.0);
        assert!((0.91..0.98).contains(&held), "{held}");
        assert!((error / tasks.standard_error() - 1.0).abs() < 0.05, "{error}");
    }

    #[test]
    fn an_effect_of_the_smallest_detectable_size_is_seen_in_at_least_80_of_100_studies() {
        let (_, error) = USUAL.measure(0.0, 0.0);
        let (missed, _) = USUAL.measure((Z_SIZE + Z_POWER) * error, 0.0);
        // Three standard errors are 0.06.
        assert!(missed < 0.26, "{missed}");
        let (missed, _) = USUAL.measure(0.3 * error, 0.0);
        assert!(missed > 0.85, "a tenth of it is not seen: {missed}");
    }

    #[test]
    fn equal_arms_differ_by_nothing_and_a_gain_shared_by_all_is_certain() {
        let level = |s: u64, t: usize| 0.1 * s as f64 + 0.01 * t as f64;
        let baseline = scores(3, 7, level);
        let none = Estimate::of_difference(&baseline, &baseline, 1).unwrap();
        assert_eq!(none.interval, Interval { mean: 0.0, low: 0.0, high: 0.0 });
        assert_eq!((none.standard_error, none.verdict()), (0.0, Verdict::NoDifferenceSeen));
        assert_eq!((none.seeds, none.tasks), (3, 7));
        for (shift, verdict) in [(0.5, Verdict::Better), (-0.5, Verdict::Worse)] {
            let arm = scores(3, 7, |_, _| shift);
            let found = Estimate::of_difference(&scores(3, 7, |_, _| 0.0), &arm, 1).unwrap();
            assert_eq!(found.interval, Interval { mean: shift, low: shift, high: shift });
            assert_eq!((found.smallest_detectable(), found.verdict()), (0.0, verdict));
        }
    }

    #[test]
    fn one_seed_is_not_resampled_and_agrees_with_normal_theory_over_tasks() {
        let run = scores(1, 200, |_, t| f64::from(u8::from(t % 4 == 0)));
        let found = Estimate::of(&run, 3).unwrap();
        let error = (0.25f64 * 0.75 / 200.0).sqrt();
        assert_eq!((found.seeds, found.interval.mean), (1, 0.25));
        assert!((found.standard_error / error - 1.0).abs() < 0.05, "{found:?}");
        assert!((found.smallest_detectable() / error - 2.8).abs() < 0.15, "{found:?}");
    }

    #[test]
    fn two_seeds_that_differ_have_the_standard_error_of_two_values() {
        let found = Estimate::of(&scores(2, 50, |s, _| s as f64), 1).unwrap();
        // The standard deviation of {0, 1} is √½; over √2 that is ½.
        assert!((found.standard_error - 0.5).abs() < 0.005, "{found:?}");
    }

    #[test]
    fn only_what_both_arms_have_is_compared() {
        let baseline = scores(3, 5, |_, t| t as f64);
        let mut arm = scores(2, 6, |_, t| t as f64 + 1.0);
        arm.get_mut(&1).unwrap().remove(&id(2));
        arm.insert(9, BTreeMap::from([(id(0), 100.0)]));
        let found = Estimate::of_difference(&baseline, &arm, 1).unwrap();
        assert_eq!((found.seeds, found.tasks, found.interval.mean), (2, 4, 1.0));
        assert_eq!(Estimate::of_difference(&baseline, &scores(0, 5, |_, _| 0.0), 1), None);
    }

    #[test]
    fn one_task_says_nothing_about_others() {
        assert_eq!(Estimate::of(&scores(4, 1, |_, _| 1.0), 1), None);
        assert_eq!(Estimate::of(&Scores::new(), 1), None);
    }

    #[test]
    fn the_scores_of_a_task_are_means_over_its_episodes_that_count() {
        let episodes = [episode("a", true, 1.0), unscored("a"), episode("a", false, 0.0), unscored("b")];
        let with = |more: Episode| {
            let episodes: Vec<Episode> = episodes.iter().cloned().chain([more]).collect();
            TaskScores::of(&episodes, &BTreeMap::new())
        };
        let c = TaskId("c".into());
        assert_eq!(
            (with(too_long("c")).success.get(&c), with(too_long("c")).reward.get(&c)),
            (Some(&0.0), None)
        );
        let bare = TaskScores::of(&[bare("a", 0.5)], &BTreeMap::new());
        assert_eq!((bare.success.len(), bare.reward.len()), (0, 1));
        let found = TaskScores::of(&episodes, &BTreeMap::from([("valid".into(), 2.0)]));
        let a = TaskId("a".into());
        assert_eq!(found.success, BTreeMap::from([(a.clone(), 0.5)]));
        assert_eq!(found.reward, BTreeMap::from([(a, 1.0)]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_order_of_seeds_and_tasks_changes_nothing_and_the_result_is_reproducible(
            values in prop::collection::vec(prop::collection::vec(-1.0f64..1.0, 6), 1..5), seed: u64,
        ) {
            let forth = scores(values.len() as u64, 6, |s, t| values[s as usize][t]);
            let back: Scores = forth
                .iter()
                .rev()
                .map(|(s, run)| (*s, run.iter().rev().map(|(t, v)| (t.clone(), *v)).collect()))
                .collect();
            let found = Estimate::of(&forth, seed).unwrap();
            prop_assert_eq!(Estimate::of(&back, seed), Some(found));
            // With other names, the seeds and tasks are other draws from the same distribution.
            let renamed: Scores = values
                .iter()
                .rev()
                .enumerate()
                .map(|(s, run)| (s as u64, run.iter().rev().enumerate().map(|(t, v)| (id(t), *v)).collect()))
                .collect();
            let renamed = Estimate::of(&renamed, seed).unwrap();
            prop_assert!((renamed.interval.mean - found.interval.mean).abs() < 1e-12);
            let slack = 0.1 * found.standard_error + 1e-12;
            prop_assert!((renamed.standard_error - found.standard_error).abs() < slack);
        }
    }
}
