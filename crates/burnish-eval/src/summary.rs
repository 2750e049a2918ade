//! A summary of the episodes of one evaluation, or of one training step.

use std::collections::BTreeMap;

use burnish_core::{Ending, Episode, Task, TaskId, Validity};
use serde::{Deserialize, Serialize};

use crate::bootstrap::{self, Interval};
use crate::crossed::Crossed;
use crate::measure::Measure;
use crate::spread;

/// A summary of the episodes of one evaluation.
///
/// Every mean and rate is a mean over tasks of the mean over a task's episodes, so a task counts once, however many of
/// its episodes could be scored. An episode whose prompt does not fit the context window counts as a failure without
/// flags; it has no reward and no answer, so it is in no mean of those. An episode that could not be judged enters no
/// number but [`Self::unscored`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The measure that is the environment's headline.
    #[serde(default)]
    pub headline: Measure,
    /// Tasks with at least one episode that counts.
    pub tasks: usize,
    /// Episodes that count: those that were judged, and those whose prompt was too long.
    pub episodes: usize,
    /// Those among them that did not begin because their prompt does not fit the context window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prompt_too_long: usize,
    /// Episodes that could not be judged.
    pub unscored: usize,
    /// The most frequent reasons why they could not be judged, with the number of episodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unscored_reasons: BTreeMap<String, usize>,
    /// The largest number of episodes of any task that count: the k of [`Self::success`] read as mean@k.
    pub rollouts_max: usize,
    /// Success rate over tasks: mean@k. `None` if nothing counts, or the environment does not report success.
    pub success: Option<Interval>,
    /// pass@k by k, for 2, 4, 8 ... and [`Self::rollouts_max`], each over the tasks with at least k episodes that
    /// count; empty if no task has more than one, or the environment does not report success.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pass_at: BTreeMap<usize, Interval>,
    /// Number of different answers divided by that of scored episodes, averaged over the tasks with at least two;
    /// `None` if there is no such task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct_rate: Option<f64>,
    /// Weighted sum of the reward components. `None` if nothing was scored.
    pub reward: Option<Interval>,
    /// Mean of each reward component by name, unweighted; a component that a verdict does not name counts as 0.
    pub rewards: BTreeMap<String, f64>,
    /// Rate of each flag by name; a flag that a verdict does not name counts as not set.
    pub flags: BTreeMap<String, f64>,
    /// Mean of each of the environment's metrics by name, over the tasks with an episode that has it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Mean number of tokens that the policy sampled in an episode, over all turns and agents.
    pub completion_tokens_mean: Option<f64>,
    /// -log p of the tokens that the policy sampled, in nats: a mean over tasks of the mean over a task's tokens. If
    /// tokens are drawn from the whole distribution (not greedily, without filters), this estimates the entropy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surprisal_mean: Option<f64>,
    /// Rate of episodes that a limit cut short ([`is_cut_short`]).
    pub truncated_rate: Option<f64>,
    /// The headline's measure by label and value: `by_label["size"]["4"]`.
    pub by_label: BTreeMap<String, BTreeMap<String, Slice>>,
    /// Rate of each flag over the tasks that share a value of a label: `flags_by_label["size"]["4"]["parse_error"]`.
    /// The values of a label split the tasks, so these rates are over disjoint sets (such as the rate of abstentions on
    /// tasks with an answer, and on tasks without).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags_by_label: BTreeMap<String, BTreeMap<String, BTreeMap<String, f64>>>,
    /// The headline's measure by two labels at once, where the environment names two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crossed: Option<Crossed>,
}

/// The tasks that share one value of a label.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Tasks with at least one episode that counts.
    pub tasks: usize,
    /// Success rate over these tasks, if that is the headline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<Interval>,
    /// Reward over these tasks, if that is the headline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<Interval>,
}

impl Summary {
    /// Summarises `episodes`, given in any order.
    ///
    /// `tasks` gives the labels; an episode of a task that is not among them counts everywhere but in
    /// [`Self::by_label`]. [`Self::crossed`] is the caller's, who knows the labels. `weights` are those of [`burnish_core::Verdict::total`]. `seed` is an address of
    /// `Purpose::Bootstrap`.
    pub fn of(tasks: &[Task], episodes: &[Episode], weights: &BTreeMap<String, f64>, seed: u64) -> Self {
        let headline = Measure::of(episodes);
        let (groups, scored) = (counted_by_task(episodes), scored_by_task(episodes));
        let mean_of = |value: &dyn Fn(&Episode) -> f64| mean(&task_means(&scored, value));
        let reward = task_means(&scored, &|episode| reward_of(episode, weights));
        // Without reports of success, there is no success rate.
        let has_success = headline == Measure::Success;
        let success = if has_success { task_means(&groups, &success_of) } else { Vec::new() };
        let leading: BTreeMap<&TaskId, f64> = if has_success {
            groups.keys().copied().zip(success.iter().copied()).collect()
        } else {
            scored.keys().copied().zip(reward.iter().copied()).collect()
        };
        let counted: usize = groups.values().map(Vec::len).sum();
        Summary {
            headline,
            tasks: groups.len(),
            episodes: counted,
            prompt_too_long: episodes.iter().filter(|episode| episode.is_prompt_too_long()).count(),
            unscored: episodes.len() - counted,
            unscored_reasons: unscored_reasons(episodes),
            rollouts_max: groups.values().map(Vec::len).max().unwrap_or(0),
            success: bootstrap::mean(&success, seed),
            pass_at: if has_success { spread::pass_at(&groups, seed) } else { BTreeMap::new() },
            distinct_rate: spread::distinct(&scored),
            reward: bootstrap::mean(&reward, seed),
            rewards: named_means(&scored, |episode| &episode.verdict.rewards, |reward| *reward),
            flags: flag_rates(&groups),
            metrics: metric_means(&scored),
            completion_tokens_mean: mean_of(&|episode| episode.sampled_tokens() as f64),
            surprisal_mean: spread::surprisal(&scored),
            truncated_rate: mean_of(&|episode| f64::from(u8::from(is_cut_short(episode)))),
            by_label: by_label(tasks, &leading, headline, seed),
            flags_by_label: flags_by_label(tasks, &groups),
            crossed: None,
        }
    }

    /// The result: the headline's measure with its interval. `None` if nothing could be judged.
    pub fn leading(&self) -> Option<Interval> {
        match self.headline {
            Measure::Success => self.success,
            Measure::Reward => self.reward,
        }
    }

    /// In words, how many episodes do not count or count as a failure without an answer; empty if there are none.
    pub fn left_out(&self) -> Vec<String> {
        let mut said = Vec::new();
        let all = self.episodes + self.unscored;
        if self.prompt_too_long > 0 {
            let what = match self.headline {
                Measure::Success => "counted as a failure",
                Measure::Reward => "without a reward, in no mean of rewards",
            };
            said.push(format!(
                "{} of {all} episodes {what}: the prompt does not fit the context window",
                self.prompt_too_long
            ));
        }
        if self.unscored > 0 {
            let mut reasons: Vec<(&String, &usize)> = self.unscored_reasons.iter().collect();
            reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let reasons: Vec<String> = match &reasons[..] {
                [(reason, count)] if **count == self.unscored => vec![(*reason).clone()],
                _ => reasons.iter().map(|(reason, count)| format!("{reason} ({count})")).collect(),
            };
            said.push(format!(
                "{} of {all} episodes unscored, in no mean: {}",
                self.unscored,
                reasons.join("; ")
            ));
        }
        said
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// How many reasons are kept, and how much of each.
const REASONS_MAX: usize = 4;
const REASON_CHARS_MAX: usize = 160;

/// Why episodes that began could not be judged: the most frequent reasons, each the beginning of its first line.
fn unscored_reasons(episodes: &[Episode]) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for episode in episodes.iter().filter(|episode| !episode.is_prompt_too_long()) {
        if let Validity::Unscored { reason } = &episode.verdict.validity {
            *counts.entry(shortened(reason)).or_default() += 1;
        }
    }
    let mut ranked: Vec<(String, usize)> = counts.into_iter().collect();
    ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    ranked.truncate(REASONS_MAX);
    ranked.into_iter().collect()
}

/// The beginning of the first line, without control characters.
fn shortened(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default().replace(char::is_control, "\u{fffd}");
    match line.char_indices().nth(REASON_CHARS_MAX) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line,
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

/// The episodes of each task that has any.
pub(crate) type Groups<'a> = BTreeMap<&'a TaskId, Vec<&'a Episode>>;

/// The episodes that were judged: those that have a reward.
pub(crate) fn scored_by_task(episodes: &[Episode]) -> Groups<'_> {
    group(episodes.iter().filter(|episode| episode.verdict.is_scored()))
}

/// The episodes that succeeded or failed: those that were judged, and those whose prompt the policy could not read.
pub(crate) fn counted_by_task(episodes: &[Episode]) -> Groups<'_> {
    group(episodes.iter().filter(|episode| episode.verdict.is_scored() || episode.is_prompt_too_long()))
}

fn group<'a>(episodes: impl Iterator<Item = &'a Episode>) -> Groups<'a> {
    let mut groups = Groups::new();
    for episode in episodes {
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
    f64::from(u8::from(is_success(episode)))
}

/// Did it succeed, as its environment reports? Without a report, it did not.
pub fn is_success(episode: &Episode) -> bool {
    episode.verdict.success && episode.verdict.has_success
}

pub(crate) fn reward_of(episode: &Episode, weights: &BTreeMap<String, f64>) -> f64 {
    // Only called for scored episodes, which have a total.
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

/// The mean of every metric, of which an episode that does not have it says nothing.
fn metric_means(groups: &Groups<'_>) -> BTreeMap<String, f64> {
    let mut tasks: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for episodes in groups.values() {
        let mut of_task: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
        for (name, value) in episodes.iter().flat_map(|episode| &episode.verdict.metrics) {
            of_task.entry(name).or_default().push(*value);
        }
        for (name, values) in of_task {
            tasks.entry(name).or_default().extend(mean(&values));
        }
    }
    tasks.into_iter().filter_map(|(name, values)| Some((name.clone(), mean(&values)?))).collect()
}

fn flag_rates(groups: &Groups<'_>) -> BTreeMap<String, f64> {
    named_means(groups, |episode| &episode.verdict.flags, |flag| f64::from(u8::from(*flag)))
}

/// The rates of flags over the tasks of each value of each label; empty if no episode has a flag.
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
    values_of: &BTreeMap<&TaskId, f64>,
    headline: Measure,
    seed: u64,
) -> BTreeMap<String, BTreeMap<String, Slice>> {
    // By id, so that a task that is listed twice counts once.
    let labels: BTreeMap<&TaskId, _> = tasks.iter().map(|task| (&task.id, &task.labels)).collect();
    let mut values: BTreeMap<&String, BTreeMap<&String, Vec<f64>>> = BTreeMap::new();
    for (id, labels) in labels {
        let Some(&number) = values_of.get(id) else { continue };
        for (label, value) in labels {
            values.entry(label).or_default().entry(value).or_default().push(number);
        }
    }
    let slice = |values: &Vec<f64>| Slice::of(values, headline, seed);
    values
        .into_iter()
        .map(|(label, slices)| {
            let slices = slices.iter().filter_map(|(value, of)| Some(((*value).clone(), slice(of)?)));
            (label.clone(), slices.collect())
        })
        .collect()
}

impl Slice {
    pub(crate) fn of(values: &[f64], headline: Measure, seed: u64) -> Option<Self> {
        let (tasks, interval) = (values.len(), Some(bootstrap::mean(values, seed)?));
        Some(match headline {
            Measure::Success => Slice { tasks, success: interval, reward: None },
            Measure::Reward => Slice { tasks, success: None, reward: interval },
        })
    }

    /// The headline's measure over these tasks.
    pub fn leading(&self) -> Option<Interval> {
        self.success.or(self.reward)
    }
}

#[cfg(test)]
pub(crate) mod tests;
