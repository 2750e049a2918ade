//! What an evaluation found, as rates by label: all that an engineer learns of the tasks that are held out.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::{Episode, Task, TaskId};
use burnish_env::redesign::Knob;
use burnish_eval::Summary;
use serde::{Deserialize, Serialize};

/// Most values of a label that are told apart. One with more of them could name single tasks.
const VALUES_MAX: usize = 12;

/// Labels with their values.
pub(crate) type Labels = BTreeMap<String, String>;

/// Rates over some tasks, as evaluations define them ([`Summary`]).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// How many tasks.
    pub tasks: usize,
    /// Rate of success, if the environment reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<f64>,
    /// Mean reward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// Rate of each flag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: BTreeMap<String, f64>,
}

impl Rates {
    fn of(tasks: &[Task], episodes: &[Episode], weights: &BTreeMap<String, f64>) -> Self {
        // Only means are read, so nothing depends on the seed of the intervals.
        let summary = Summary::of(tasks, episodes, weights, 0);
        Rates {
            tasks: summary.tasks,
            success: summary.success.map(|success| success.mean),
            reward: summary.reward.map(|reward| reward.mean),
            flags: summary.flags,
        }
    }

    /// How well these tasks are solved, from 0 to 1: the rate of success, or the reward.
    pub(crate) fn solved(&self) -> Option<f64> {
        self.success.or(self.reward).map(|rate| rate.clamp(0.0, 1.0))
    }
}

/// Rates over all tasks of an evaluation and over parts of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Over all of them.
    pub all: Rates,
    /// By the labels that the tasks of a part share: each value of a label, and the tasks on which a key acts.
    pub parts: Vec<Part>,
}

/// Some tasks of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The labels that they share.
    pub labels: BTreeMap<String, String>,
    /// What was found.
    pub rates: Rates,
}

impl Breakdown {
    /// The rates of `episodes` of `tasks`. `weights` are those of the reward's components.
    pub(crate) fn of(
        tasks: &[Task],
        episodes: &[Episode],
        weights: &BTreeMap<String, f64>,
        knobs: &[Knob],
    ) -> Self {
        let part = |labels: Labels| {
            let has_them =
                |task: &&Task| labels.iter().all(|(name, value)| task.labels.get(name) == Some(value));
            let tasks: Vec<Task> = tasks.iter().filter(has_them).cloned().collect();
            let ids: BTreeSet<&TaskId> = tasks.iter().map(|task| &task.id).collect();
            let episodes: Vec<Episode> =
                episodes.iter().filter(|episode| ids.contains(&episode.task)).cloned().collect();
            let rates = Rates::of(&tasks, &episodes, weights);
            (rates.tasks > 0).then_some(Part { labels, rates })
        };
        Breakdown {
            all: Rates::of(tasks, episodes, weights),
            parts: labels(tasks, knobs).into_iter().filter_map(part).collect(),
        }
    }

    /// The rates of the tasks that have these labels in common; `None` if there are none.
    pub(crate) fn at(&self, labels: &Labels) -> Option<&Rates> {
        if labels.is_empty() {
            return Some(&self.all);
        }
        self.parts.iter().find(|part| part.labels == *labels).map(|part| &part.rates)
    }
}

/// The labels by which tasks are told apart.
fn labels(tasks: &[Task], knobs: &[Knob]) -> BTreeSet<Labels> {
    let mut all = BTreeSet::new();
    for name in tasks.iter().flat_map(|task| task.labels.keys()).collect::<BTreeSet<_>>() {
        let values: BTreeSet<&String> = tasks.iter().filter_map(|task| task.labels.get(name)).collect();
        if values.len() <= VALUES_MAX && 2 * values.len() <= tasks.len() {
            all.extend(values.into_iter().map(|value| Labels::from([(name.clone(), value.clone())])));
        }
    }
    all.extend(knobs.iter().map(|knob| &knob.tasks).filter(|labels| labels.len() > 1).cloned());
    all
}
