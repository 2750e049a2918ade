//! A step's metrics, under TRL's names.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::{Episode, Task};
use burnish_eval::Summary;
use burnish_rl::gate::Ruling;
use burnish_train::{Drift, Update};

use crate::metrics::Values;

/// What the episodes of a step say: rewards, success, flags, lengths. Unscored episodes are only counted.
pub(crate) fn episode_metrics(
    tasks: &[Task],
    episodes: &[Episode],
    weights: &BTreeMap<String, f64>,
) -> Values {
    let mut metrics = Values::new();
    let scored: Vec<&Episode> = episodes.iter().filter(|episode| episode.verdict.is_scored()).collect();
    let mut put = |name: &str, value: f64| {
        metrics.insert(name.to_owned(), value);
    };
    put("tasks", tasks.len() as f64);
    put("episodes", episodes.len() as f64);
    put("episodes/unscored", (episodes.len() - scored.len()) as f64);

    let names: BTreeSet<&String> = scored.iter().flat_map(|episode| episode.verdict.rewards.keys()).collect();
    for name in names {
        let values: Vec<f64> =
            scored.iter().filter_map(|episode| episode.verdict.rewards.get(name).copied()).collect();
        put(&format!("rewards/{name}/mean"), mean(&values));
        put(&format!("rewards/{name}/std"), sample_std(&values));
    }
    let totals: Vec<f64> = scored.iter().filter_map(|episode| episode.verdict.total(weights)).collect();
    // Where nothing was scored there is no rate: a verifier that is down must not look like a policy that fails.
    if !scored.is_empty() {
        put("reward", mean(&totals));
        put("success", share(&scored, |episode| episode.verdict.success));
    }
    let flags: BTreeSet<&String> = scored.iter().flat_map(|episode| episode.verdict.flags.keys()).collect();
    for flag in flags {
        put(
            &format!("flags/{flag}"),
            share(&scored, |episode| episode.verdict.flags.get(flag) == Some(&true)),
        );
    }

    let mut lengths = Vec::new();
    let mut terminated = Vec::new();
    for episode in episodes {
        let turns: Vec<_> =
            episode.traces.iter().flat_map(|t| t.nodes()).filter_map(|n| n.sampled.as_ref()).collect();
        if turns.is_empty() {
            continue;
        }
        let length = turns.iter().map(|turn| turn.logprobs.len()).sum::<usize>() as f64;
        lengths.push(length);
        if turns.iter().all(|turn| !turn.stop.is_truncated()) {
            terminated.push(length);
        }
    }
    put("tokens/sampled", lengths.iter().sum());
    if !lengths.is_empty() {
        put("completions/mean_length", mean(&lengths));
        put("completions/min_length", lengths.iter().copied().fold(f64::INFINITY, f64::min));
        put("completions/max_length", lengths.iter().copied().fold(0.0, f64::max));
        put("completions/clipped_ratio", 1.0 - terminated.len() as f64 / lengths.len() as f64);
        put("completions/mean_terminated_length", mean(&terminated));
    }
    metrics
}

/// The metrics of a step and of each of its updates.
pub(crate) struct Metrics {
    pub(crate) step: Values,
    pub(crate) updates: Vec<Values>,
}

/// The updates of a step, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    each: Vec<Values>,
    /// What a gate said last.
    ruling: Option<Ruling>,
    /// Rows that went through the model for an update that was dropped.
    dropped: usize,
    /// Of the first update.
    pub(crate) first_drift: Option<Drift>,
}

impl Updates {
    /// Adds an update, with what a gate said of it. Of one that was dropped only its cost counts.
    pub(crate) fn add(&mut self, update: &Update, lr: f64, ruling: Option<&Ruling>) {
        self.ruling = ruling.cloned();
        if !update.is_made {
            self.dropped += update.tokens;
            return;
        }
        self.first_drift.get_or_insert(update.drift);
        let mut values = update.metrics.clone();
        values.insert("loss".into(), update.loss);
        values.insert("grad_norm".into(), update.grad_norm);
        values.insert("learning_rate".into(), lr);
        values.insert(TRAINED.into(), update.tokens_scored as f64);
        values.insert(FORWARD.into(), update.tokens as f64);
        values.extend(update.head_grad_norm.map(|norm| ("head_grad_norm".to_owned(), norm)));
        let said = ruling.map(|ruling| ruling.metrics.as_slice()).unwrap_or_default();
        values.extend(said.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        self.each.push(values);
    }

    /// The mean of a metric over the updates that have it.
    pub(crate) fn mean(&self, name: &str) -> Option<f64> {
        let values: Vec<f64> = self.each.iter().filter_map(|update| update.get(name).copied()).collect();
        (!values.is_empty()).then(|| mean(&values))
    }

    /// Adds them to the step's metrics: sums of tokens, what a gate said last, means of everything else.
    pub(crate) fn finish(self, mut step: Values) -> Metrics {
        let count = self.each.len() as f64;
        let is_said = |name: &str| name.starts_with("gate/");
        for (name, value) in self.each.iter().flatten().filter(|(name, _)| !is_said(name)) {
            let share = if name == TRAINED || name == FORWARD { *value } else { value / count };
            *step.entry(name.clone()).or_insert(0.0) += share;
        }
        if let Some(ruling) = self.ruling {
            step.extend(ruling.metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)));
            step.insert("gate/closed".into(), f64::from(!ruling.is_open));
            step.insert("gate/updates".into(), count);
            *step.entry(FORWARD.to_owned()).or_insert(0.0) += self.dropped as f64;
        }
        Metrics { step, updates: self.each }
    }
}

/// Tokens that counted in a loss.
const TRAINED: &str = "tokens/trained";
/// Rows that went forward and backward, after sharing prefixes.
const FORWARD: &str = "tokens/forward";

/// An evaluation, as a row of metrics.
pub(crate) fn summary_metrics(summary: &Summary) -> Values {
    let mut metrics = Values::new();
    let mut put = |name: String, value: f64| {
        metrics.insert(name, value);
    };
    for (name, interval) in [("success", &summary.success), ("reward", &summary.reward)] {
        if let Some(interval) = interval {
            put(format!("eval/{name}"), interval.mean);
            put(format!("eval/{name}/low"), interval.low);
            put(format!("eval/{name}/high"), interval.high);
        }
    }
    for (flag, rate) in &summary.flags {
        put(format!("eval/flags/{flag}"), *rate);
    }
    if let Some(tokens) = summary.completion_tokens_mean {
        put("eval/completions/mean_length".into(), tokens);
    }
    put("eval/unscored".into(), summary.unscored as f64);
    metrics
}

fn share(episodes: &[&Episode], holds: impl Fn(&Episode) -> bool) -> f64 {
    episodes.iter().filter(|episode| holds(episode)).count() as f64 / episodes.len().max(1) as f64
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Standard deviation with n - 1 in the denominator; 0 for fewer than two values.
fn sample_std(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}
