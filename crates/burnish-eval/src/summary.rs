//! What the episodes of one evaluation, or of one training step, amount to.

use std::collections::BTreeMap;

use burnish_core::{Ending, Episode, Task, TaskId};
use serde::{Deserialize, Serialize};

use crate::bootstrap::{self, Interval};
use crate::spread;

/// What the episodes of one evaluation amount to.
///
/// Every mean and rate is a mean over tasks of the mean over a task's scored episodes, so that a task counts
/// once however many of its episodes could be scored. Unscored episodes enter no number but [`Self::unscored`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Tasks with at least one scored episode.
    pub tasks: usize,
    /// Scored episodes.
    pub episodes: usize,
    /// Episodes that could not be judged.
    pub unscored: usize,
    /// Most scored episodes of any one task: the k of [`Self::success`] read as mean@k.
    pub rollouts_max: usize,
    /// Success rate over tasks: mean@k. `None` where nothing was scored.
    pub success: Option<Interval>,
    /// pass@k by k, for 2, 4, 8 ... and [`Self::rollouts_max`], each over the tasks with at least k scored episodes; empty
    /// where a task has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pass_at: BTreeMap<usize, Interval>,
    /// Different answers to a task over its scored episodes, over the tasks with at least two; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct_rate: Option<f64>,
    /// Weighted sum of the reward components. `None` where nothing was scored.
    pub reward: Option<Interval>,
    /// Mean of each reward component by name, unweighted; a component that a verdict does not name counts as 0.
    pub rewards: BTreeMap<String, f64>,
    /// Rate of each flag by name; a flag that a verdict does not name counts as no.
    pub flags: BTreeMap<String, f64>,
    /// Tokens that the policy sampled in an episode, over all turns and agents.
    pub completion_tokens_mean: Option<f64>,
    /// -log p of the tokens that the policy sampled, in nats: a mean over tasks of the mean over a task's tokens. Where
    /// tokens are drawn from the whole distribution (not greedily, without filters), it estimates the entropy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surprisal_mean: Option<f64>,
    /// Rate of episodes that a limit cut short ([`is_cut_short`]).
    pub truncated_rate: Option<f64>,
    /// Success by label and value: `by_label["size"]["4"]`.
    pub by_label: BTreeMap<String, BTreeMap<String, Slice>>,
    /// Rate of each flag over the tasks that share a value of a label: `flags_by_label["size"]["4"]["parse_error"]`. The
    /// values of a label split the tasks, so these rates are over disjoint sets (rate of abstentions where there is an
    /// answer, and where there is none).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags_by_label: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
}

/// The tasks that share one value of a label.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Tasks with at least one scored episode.
    pub tasks: usize,
    /// Success rate over these tasks.
    pub success: Interval,
}

impl Summary {
    /// Sums up `episodes`, in any order.
    ///
    /// `tasks` gives the labels; an episode of a task that is not among them counts everywhere but in
    /// [`Self::by_label`]. `weights` are those of [`burnish_core::Verdict::total`]. `seed` is an address of
    /// `Purpose::Bootstrap`.
    pub fn of(tasks: &[Task], episodes: &[Episode], weights: &BTreeMap<String, f64>, seed: u64) -> Self {
        let groups = group_by_task(episodes);
        let mean_of = |value: &dyn Fn(&Episode) -> f64| mean(&task_means(&groups, value));
        let success = task_means(&groups, &success_of);
        let reward = task_means(&groups, &|episode| reward_of(episode, weights));
        let scored: usize = groups.values().map(Vec::len).sum();
        Summary {
            tasks: groups.len(),
            episodes: scored,
            unscored: episodes.len() - scored,
            rollouts_max: groups.values().map(Vec::len).max().unwrap_or(0),
            success: bootstrap::mean(&success, seed),
            pass_at: spread::pass_at(&groups, seed),
            distinct_rate: spread::distinct(&groups),
            reward: bootstrap::mean(&reward, seed),
            rewards: named_means(&groups, |episode| &episode.verdict.rewards, |reward| *reward),
            flags: flag_rates(&groups),
            completion_tokens_mean: mean_of(&|episode| episode.sampled_tokens() as f64),
            surprisal_mean: spread::surprisal(&groups),
            truncated_rate: mean_of(&|episode| f64::from(u8::from(is_cut_short(episode)))),
            by_label: by_label(tasks, groups.keys().copied().zip(success).collect(), seed),
            flags_by_label: flags_by_label(tasks, &groups),
        }
    }
}

/// Did a limit on tokens or on the context window cut any answer of the episode short?
pub fn is_cut_short(episode: &Episode) -> bool {
    matches!(episode.ending, Ending::Truncated | Ending::ContextOverflow)
        || episode
            .traces
            .iter()
            .flat_map(|trace| trace.nodes())
            .filter_map(|node| node.sampled.as_ref())
            .any(|sampled| sampled.stop.is_truncated())
}

/// The scored episodes of each task that has any.
pub(crate) type Groups<'a> = BTreeMap<&'a TaskId, Vec<&'a Episode>>;

pub(crate) fn group_by_task(episodes: &[Episode]) -> Groups<'_> {
    let mut groups = Groups::new();
    for episode in episodes.iter().filter(|episode| episode.verdict.is_scored()) {
        groups.entry(&episode.task).or_default().push(episode);
    }
    groups
}

/// The mean of `value` over the episodes of each task, in the order of the task ids.
pub(crate) fn task_means(groups: &Groups<'_>, value: &dyn Fn(&Episode) -> f64) -> Vec<f64> {
    groups
        .values()
        .map(|episodes| episodes.iter().map(|episode| value(episode)).sum::<f64>() / episodes.len() as f64)
        .collect()
}

pub(crate) fn success_of(episode: &Episode) -> f64 {
    f64::from(u8::from(episode.verdict.success))
}

pub(crate) fn reward_of(episode: &Episode, weights: &BTreeMap<String, f64>) -> f64 {
    // Groups hold scored episodes only, which have a total.
    episode.verdict.total(weights).unwrap_or(f64::NAN)
}

pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean of every named entry of a verdict; an entry that is missing counts as 0.
fn named_means<T>(
    groups: &Groups<'_>,
    entries: impl Fn(&Episode) -> &BTreeMap<String, T>,
    number: impl Fn(&T) -> f64,
) -> BTreeMap<String, f64> {
    let names = groups.values().flatten().flat_map(|episode| entries(episode).keys());
    let mut means: BTreeMap<String, f64> = names.map(|name| (name.clone(), 0.0)).collect();
    for (name, entry) in &mut means {
        let of = |episode: &Episode| entries(episode).get(name).map_or(0.0, &number);
        *entry = mean(&task_means(groups, &of)).unwrap_or(0.0);
    }
    means
}

fn flag_rates(groups: &Groups<'_>) -> BTreeMap<String, f64> {
    named_means(groups, |episode| &episode.verdict.flags, |flag| f64::from(u8::from(*flag)))
}

/// The rates of flags over the tasks of each value of each label; empty where no episode has a flag.
fn flags_by_label(
    tasks: &[Task],
    groups: &Groups<'_>,
) -> BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>> {
    let mut values: BTreeMap<&String, BTreeMap<&String, Groups<'_>>> = BTreeMap::new();
    for task in tasks {
        let Some((&id, episodes)) = groups.get_key_value(&task.id) else { continue };
        for (label, value) in &task.labels {
            values.entry(label).or_default().entry(value).or_default().insert(id, episodes.clone());
        }
    }
    let rates = |slices: BTreeMap<&String, Groups<'_>>| {
        let rates = slices.iter().map(|(value, groups)| ((*value).clone(), flag_rates(groups)));
        rates.filter(|(_, rates)| !rates.is_empty()).collect::<BTreeMap<_, _>>()
    };
    values
        .into_iter()
        .map(|(label, slices)| (label.clone(), rates(slices)))
        .filter(|(_, slices)| !slices.is_empty())
        .collect()
}

fn by_label(
    tasks: &[Task],
    success: BTreeMap<&TaskId, f64>,
    seed: u64,
) -> BTreeMap<String, BTreeMap<String, Slice>> {
    // By id, so that a task that is listed twice counts once.
    let labels: BTreeMap<&TaskId, _> = tasks.iter().map(|task| (&task.id, &task.labels)).collect();
    let mut values: BTreeMap<&String, BTreeMap<&String, Vec<f64>>> = BTreeMap::new();
    for (id, labels) in labels {
        let Some(&success) = success.get(id) else { continue };
        for (label, value) in labels {
            values.entry(label).or_default().entry(value).or_default().push(success);
        }
    }
    let slice = |values: &Vec<f64>| Slice::of(values, seed);
    values
        .into_iter()
        .map(|(label, slices)| {
            let slices = slices.iter().filter_map(|(value, of)| Some(((*value).clone(), slice(of)?)));
            (label.clone(), slices.collect())
        })
        .collect()
}

impl Slice {
    fn of(success: &[f64], seed: u64) -> Option<Self> {
        Some(Slice { tasks: success.len(), success: bootstrap::mean(success, seed)? })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use burnish_core::{Node, Sampled, Source, StopReason, Trace, Verdict};
    use proptest::prelude::*;

    pub(crate) fn episode(task: &str, success: bool, reward: f64) -> Episode {
        Episode {
            task: TaskId(task.into()),
            rollout: 0,
            traces: Vec::new(),
            verdict: Verdict::scored("valid", reward, success),
            ending: Ending::Completed,
            answers: Vec::new(),
        }
    }

    pub(crate) fn unscored(task: &str) -> Episode {
        Episode { verdict: Verdict::unscored("hung"), ..episode(task, false, 0.0) }
    }

    fn task(id: &str, labels: &[(&str, &str)]) -> Task {
        Task {
            id: TaskId(id.into()),
            environment: "test".into(),
            prompt: Vec::new(),
            truth: Default::default(),
            labels: labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        }
    }

    pub(crate) fn sampled_trace(tokens: usize, stop: StopReason) -> Trace {
        let mut trace = Trace::new();
        let context = Node {
            parent: None,
            text: String::new(),
            ids: vec![1; 5],
            sources: vec![Source::User; 5],
            sampled: None,
        };
        let parent = Some(trace.push(context).unwrap());
        let sampled = Sampled { logprobs: vec![-1.0; tokens], policy_version: 0, temperature: 1.0, stop };
        let answer = Node {
            parent,
            text: String::new(),
            ids: vec![1; tokens],
            sources: vec![Source::Policy; tokens],
            sampled: Some(sampled),
        };
        trace.push(answer).unwrap();
        trace
    }

    fn means(summary: &Summary) -> (f64, f64) {
        (summary.success.unwrap().mean, summary.reward.unwrap().mean)
    }

    #[test]
    fn a_task_counts_once_however_many_of_its_episodes_were_scored() {
        let episodes =
            [episode("a", true, 1.0), unscored("a"), episode("b", false, 0.5), episode("b", false, 0.0)];
        let summary = Summary::of(&[], &episodes, &BTreeMap::new(), 1);
        assert_eq!(means(&summary), (0.5, 0.625));
        assert_eq!((summary.tasks, summary.episodes, summary.unscored, summary.rollouts_max), (2, 3, 1, 2));
    }

    #[test]
    fn a_task_without_a_scored_episode_is_left_out_and_its_episodes_are_counted() {
        let episodes = [episode("a", true, 1.0), unscored("b"), unscored("b")];
        let summary = Summary::of(&[task("b", &[("size", "4")])], &episodes, &BTreeMap::new(), 1);
        assert_eq!(means(&summary), (1.0, 1.0));
        assert_eq!((summary.tasks, summary.unscored), (1, 2));
        assert!(summary.by_label.is_empty());
    }

    #[test]
    fn nothing_scored_gives_no_numbers_instead_of_zeros() {
        for episodes in [vec![], vec![unscored("a")]] {
            let summary = Summary::of(&[], &episodes, &BTreeMap::new(), 1);
            let expected = Summary { unscored: episodes.len(), ..Summary::default() };
            assert_eq!(summary, expected);
        }
    }

    #[test]
    fn rewards_are_weighted_in_the_total_and_reported_bare_by_name() {
        let mut long = episode("a", true, 1.0);
        long.verdict.rewards.insert("length".into(), 0.5);
        let weights = BTreeMap::from([("length".into(), 4.0)]);
        let summary = Summary::of(&[], &[long, episode("b", true, 1.0)], &weights, 1);
        assert_eq!(summary.reward.unwrap().mean, 2.0);
        assert_eq!(summary.rewards, BTreeMap::from([("length".into(), 0.25), ("valid".into(), 1.0)]));
    }

    #[test]
    fn flags_are_rates_over_tasks_and_a_missing_flag_counts_as_no() {
        let mut wrong = episode("a", false, 0.0);
        wrong.verdict.flags = BTreeMap::from([("parse_error".into(), true), ("hole".into(), false)]);
        let episodes = [wrong, episode("a", true, 1.0), episode("b", true, 1.0)];
        let summary = Summary::of(&[], &episodes, &BTreeMap::new(), 1);
        assert_eq!(summary.flags, BTreeMap::from([("hole".into(), 0.0), ("parse_error".into(), 0.25)]));
    }

    #[test]
    fn tokens_and_cut_off_answers_are_read_from_the_traces() {
        let mut long = episode("a", false, 0.0);
        long.traces = vec![sampled_trace(7, StopReason::TokensMax), sampled_trace(4, StopReason::EndToken)];
        let mut short = episode("b", false, 0.0);
        short.traces = vec![sampled_trace(3, StopReason::EndToken)];
        let mut overflow = episode("c", false, 0.0);
        overflow.ending = Ending::ContextOverflow;
        let turns_max = Episode { ending: Ending::TurnsMax, ..episode("d", false, 0.0) };
        let summary = Summary::of(&[], &[long, short, overflow, turns_max], &BTreeMap::new(), 1);
        assert_eq!(summary.completion_tokens_mean, Some(14.0 / 4.0));
        assert_eq!(summary.truncated_rate, Some(0.5));
    }

    #[test]
    fn labels_split_the_tasks() {
        let tasks = [
            task("a", &[("size", "4"), ("agents", "2")]),
            task("b", &[("size", "4"), ("agents", "3")]),
            task("c", &[("size", "10")]),
            task("c", &[("size", "10")]),
        ];
        let episodes = [
            episode("a", true, 1.0),
            episode("b", false, 0.0),
            episode("c", true, 1.0),
            episode("elsewhere", false, 0.0),
        ];
        let by_label = Summary::of(&tasks, &episodes, &BTreeMap::new(), 1).by_label;
        let of = |label: &str, value: &str| {
            let slice: Slice = by_label[label][value];
            (slice.tasks, slice.success.mean)
        };
        assert_eq!(of("size", "4"), (2, 0.5));
        assert_eq!(of("size", "10"), (1, 1.0));
        assert_eq!(of("agents", "3"), (1, 0.0));
        assert_eq!(by_label.len(), 2);
    }

    #[test]
    fn one_who_always_abstains_does_so_on_all_unanswerable_and_on_all_answerable_tasks() {
        let abstention = |id: &str, abstained: bool, answerable: bool| {
            let success = abstained != answerable;
            let mut episode = episode(id, success, 0.0);
            episode.verdict.flags = BTreeMap::from([("abstained".into(), abstained)]);
            episode
        };
        let tasks = [
            task("a", &[("answerable", "yes")]),
            task("b", &[("answerable", "yes")]),
            task("c", &[("answerable", "no")]),
            task("never played", &[("answerable", "perhaps")]),
        ];
        let rates = |abstained: [bool; 3]| {
            let episodes = [
                abstention("a", abstained[0], true),
                abstention("b", abstained[1], true),
                abstention("c", abstained[2], false),
                unscored("c"),
            ];
            let summary = Summary::of(&tasks, &episodes, &BTreeMap::new(), 1);
            assert_eq!(summary.flags_by_label["answerable"].len(), 2);
            let rate = |value: &str| summary.flags_by_label["answerable"][value]["abstained"];
            (rate("no"), rate("yes"), summary.by_label["answerable"]["yes"].success.mean)
        };
        assert_eq!(rates([true, true, true]), (1.0, 1.0, 0.0));
        assert_eq!(rates([true, false, true]), (1.0, 0.5, 0.5));
        assert_eq!(rates([false, false, false]), (0.0, 0.0, 1.0));
        let bare = Summary::of(&tasks, &[episode("a", true, 1.0)], &BTreeMap::new(), 1);
        assert!(bare.flags_by_label.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_order_of_episodes_changes_nothing(
            results in prop::collection::vec((0u8..6, any::<bool>(), 0.0f64..1.0), 1..20), seed: u64,
        ) {
            // Within a task the order stays: floating-point sums are not associative.
            let episodes: Vec<Episode> = results
                .iter()
                .map(|(task, success, reward)| episode(&format!("t{task}"), *success, *reward))
                .collect();
            let mut sorted = episodes.clone();
            sorted.sort_by(|a, b| b.task.cmp(&a.task));
            let weights = BTreeMap::new();
            prop_assert_eq!(
                Summary::of(&[], &episodes, &weights, seed),
                Summary::of(&[], &sorted, &weights, seed)
            );
        }
    }
}
