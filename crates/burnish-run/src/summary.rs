//! A step's metrics, under TRL's names.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::Episode;
use burnish_eval::{Measure, Summary, is_success};
use burnish_rl::gate::Ruling;
use burnish_train::{Drift, Update};

use crate::eval_set::EvalSet;
use burnish_rundir::metrics::Values;

/// The numbers of a step's episodes: rewards, success, flags, lengths. Unscored episodes are only counted.
pub(crate) fn episode_metrics(
    tasks: usize,
    episodes: &[&Episode],
    weights: &BTreeMap<String, f64>,
) -> Values {
    let mut metrics = Values::new();
    let scored: Vec<&Episode> =
        episodes.iter().copied().filter(|episode| episode.verdict.is_scored()).collect();
    let mut put = |name: &str, value: f64| {
        metrics.insert(name.to_owned(), value);
    };
    put("tasks", tasks as f64);
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
    // If nothing was scored, there is no rate: a verifier that is down must not look like a policy that fails.
    if !scored.is_empty() {
        put("reward", mean(&totals));
    }
    if !scored.is_empty() && Measure::of(scored.iter().copied()) == Measure::Success {
        put("success", share(&scored, is_success));
    }
    let flags: BTreeSet<&String> = scored.iter().flat_map(|episode| episode.verdict.flags.keys()).collect();
    for flag in flags {
        put(
            &format!("flags/{flag}"),
            share(&scored, |episode| episode.verdict.flags.get(flag) == Some(&true)),
        );
    }

    let measured: BTreeSet<&String> =
        scored.iter().flat_map(|episode| episode.verdict.metrics.keys()).collect();
    for name in measured {
        let values: Vec<f64> =
            scored.iter().filter_map(|episode| episode.verdict.metrics.get(name).copied()).collect();
        put(&format!("environment/{name}"), mean(&values));
    }

    let calls = episodes.iter().map(|episode| episode.record.calls);
    let (made, failed) = calls.fold((0, 0), |(made, failed), of| (made + of.made, failed + of.failed));
    if made > 0 {
        put("tools/call_frequency", made as f64 / episodes.len() as f64);
        put("tools/failure_frequency", failed as f64 / made as f64);
    }

    let mut lengths = Vec::new();
    let mut terminated = Vec::new();
    for episode in episodes {
        let turns: Vec<_> =
            episode.traces.iter().flat_map(|t| t.nodes()).filter_map(|n| n.sampled.as_ref()).collect();
        if turns.is_empty() {
            continue;
        }
        let length = turns.iter().map(|turn| turn.model_logprobs.len()).sum::<usize>() as f64;
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

/// The updates of a step, in order.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    each: Vec<Values>,
    /// The last ruling of the gate.
    ruling: Option<Ruling>,
    /// Rows that went through the model for a dropped update.
    dropped: usize,
    /// The drift of the first update.
    pub(crate) first_drift: Option<Drift>,
}

impl Updates {
    /// Adds an update, with the gate's ruling. A dropped update counts only by its cost.
    pub(crate) fn add(&mut self, update: &Update, lr: f64, ruling: Option<&Ruling>) {
        self.ruling = ruling.cloned();
        if !update.is_made {
            self.dropped += update.tokens;
            return;
        }
        self.first_drift.get_or_insert(update.drift);
        let mut values = update.metrics.clone();
        values.insert("loss".into(), update.loss);
        values.extend(update.grad_norm.map(|norm| ("grad_norm".to_owned(), norm)));
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

    /// Adds the updates to the step's metrics: sums of tokens, the gate's last ruling, and means of everything else.
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

/// A label with more values than this gets no success rate per value.
const LABEL_VALUES_MAX: usize = 8;
/// A label with more values than this gets no flags per value.
const FLAG_VALUES_MAX: usize = 4;

/// An evaluation as a row of metrics. Labels with one value split nothing, and labels with many values would fill the
/// row: both are left out.
pub(crate) fn summary_metrics(summary: &Summary, set: &EvalSet) -> Values {
    let mut metrics = Values::new();
    let prefix = set.prefix();
    let mut put = |name: String, value: f64| {
        metrics.insert(format!("{prefix}{name}"), value);
    };
    for (name, interval) in [("success", &summary.success), ("reward", &summary.reward)] {
        if let Some(interval) = interval {
            put(name.to_owned(), interval.mean);
            put(format!("{name}/low"), interval.low);
            put(format!("{name}/high"), interval.high);
        }
    }
    for (k, interval) in &summary.pass_at {
        put(format!("pass@{k}"), interval.mean);
    }
    for (component, mean) in &summary.rewards {
        put(format!("rewards/{component}/mean"), *mean);
    }
    for (flag, rate) in &summary.flags {
        put(format!("flags/{flag}"), *rate);
    }
    for (name, mean) in &summary.metrics {
        put(format!("environment/{name}"), *mean);
    }
    for (label, slices) in &summary.by_label {
        for (value, slice) in slices.iter().filter(|_| (2..=LABEL_VALUES_MAX).contains(&slices.len())) {
            let leading = slice.leading().map(|interval| interval.mean);
            leading.into_iter().for_each(|mean| put(format!("by_label/{label}/{value}"), mean));
        }
    }
    for (label, slices) in &summary.flags_by_label {
        for (value, rates) in slices.iter().filter(|_| (2..=FLAG_VALUES_MAX).contains(&slices.len())) {
            for (flag, rate) in rates {
                put(format!("flags_by_label/{label}/{value}/{flag}"), *rate);
            }
        }
    }
    // Filtered or greedy tokens are not drawn from the distribution whose log-probs are recorded.
    let entropy = summary.surprisal_mean.filter(|_| set.sampling.check_on_policy().is_ok());
    let numbers = [
        ("distinct", summary.distinct_rate),
        ("entropy", entropy),
        ("completions/mean_length", summary.completion_tokens_mean),
        ("completions/clipped_ratio", summary.truncated_rate),
    ];
    for (name, value) in numbers {
        value.into_iter().for_each(|value| put(name.to_owned(), value));
    }
    put("unscored".into(), summary.unscored as f64);
    if summary.prompt_too_long > 0 {
        put("prompt_too_long".into(), summary.prompt_too_long as f64);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::Tasks;
    use burnish_eval::{Interval, Slice};
    use burnish_recipe::{Recipe, Source};

    const TEXT: &str = "[run]\ndir = \"x\"\n[policy]\npath = \"p\"\n[train]\nmethod = \"grpo\"\nmax_steps = 9\n[env]\n\
                        id = \"countdown\"\n[eval]\ntasks = 3\n[[eval.extra]]\nname = \"warm\"\ntemperature = 1.0\n";

    fn summary(values: usize) -> Summary {
        let interval = Interval { mean: 0.5, low: 0.25, high: 0.75 };
        let slice = Slice { tasks: 2, success: Some(interval), reward: None };
        let flags = BTreeMap::from([("parse_error".to_owned(), 0.125)]);
        let of = |at: usize| at.to_string();
        Summary {
            success: Some(interval),
            pass_at: BTreeMap::from([(8, interval)]),
            rewards: BTreeMap::from([("format".into(), 0.75)]),
            flags: flags.clone(),
            surprisal_mean: Some(0.3),
            distinct_rate: Some(0.6),
            truncated_rate: Some(0.1),
            prompt_too_long: 3,
            by_label: BTreeMap::from([("size".into(), (0..values).map(|at| (of(at), slice)).collect())]),
            flags_by_label: BTreeMap::from([(
                "size".into(),
                (0..values).map(|at| (of(at), flags.clone())).collect(),
            )]),
            ..Summary::default()
        }
    }

    #[test]
    fn an_evaluation_is_logged_under_its_name_with_labels_of_few_values() {
        let recipe = Recipe::resolve(&Source::parse("r.toml", TEXT, &[]).unwrap()).unwrap();
        let tasks = Tasks::make(&recipe, false).unwrap();
        let main = summary_metrics(&summary(4), tasks.main().unwrap());
        let number = |name: &str| main.get(name).copied();
        assert_eq!((number("eval/success"), number("eval/success/low")), (Some(0.5), Some(0.25)));
        assert_eq!((number("eval/pass@8"), number("eval/rewards/format/mean")), (Some(0.5), Some(0.75)));
        assert_eq!(number("eval/by_label/size/3"), Some(0.5));
        assert_eq!(number("eval/flags_by_label/size/0/parse_error"), Some(0.125));
        assert_eq!(
            (number("eval/distinct"), number("eval/completions/clipped_ratio")),
            (Some(0.6), Some(0.1))
        );
        assert_eq!(number("eval/prompt_too_long"), Some(3.0));
        assert_eq!(number("eval/entropy"), None, "greedy answers have none");
        let warm = summary_metrics(&summary(4), tasks.evaluation(Some("warm")).unwrap());
        assert_eq!((warm.get("eval/warm/entropy"), warm.get("eval/warm/success")), (Some(&0.3), Some(&0.5)));
        assert_eq!(warm.len(), main.len() + 1);
        let count = |values, part: &str| {
            let metrics = summary_metrics(&summary(values), tasks.main().unwrap());
            metrics.keys().filter(|name| name.starts_with(part)).count()
        };
        let labels = |values| (count(values, "eval/by_label/"), count(values, "eval/flags_by_label/"));
        assert_eq!([1, 2, 4, 5, 8, 9].map(labels), [(0, 0), (2, 2), (4, 4), (5, 0), (8, 0), (0, 0)]);
        for name in main.keys().chain(warm.keys()) {
            let called =
                burnish_rundir::metrics::aliases::METRICS.iter().filter(|metric| metric.is_called(name));
            assert_eq!(called.count(), 1, "{name}");
        }
        let error = tasks.evaluation(Some("wram")).err().unwrap().to_string();
        assert!(error.contains("`wram`") && error.contains("warm"), "{error}");
    }
}
