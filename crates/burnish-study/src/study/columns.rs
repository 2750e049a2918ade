//! The additional numbers that a study names: from the last evaluation's summary, or from the run's metrics.

use std::collections::BTreeMap;

use burnish_core::names;
use burnish_eval::Summary;
use serde_json::Value;

use burnish_rundir::metrics::Row;
use burnish_rundir::metrics::aliases::METRICS;

/// How many similar names are suggested for an unknown one.
const NEAR: usize = 3;

/// How the numbers of a metric over the steps of a run become one number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fold {
    Last,
    Mean,
    /// With n - 1 in the denominator.
    Std,
    Min,
    Max,
}

const FOLDS: [(&str, Fold); 5] =
    [("last", Fold::Last), ("mean", Fold::Mean), ("std", Fold::Std), ("min", Fold::Min), ("max", Fold::Max)];

/// The numbers of one run, to look names up in.
pub(super) struct Numbers {
    summary: Value,
    /// The finite numbers of each metric, in the order of the steps. If a step has a metric twice, the later number
    /// counts.
    metrics: BTreeMap<String, Vec<f64>>,
}

impl Numbers {
    /// `summary` is that of the last evaluation, if there was one.
    pub(super) fn of(summary: Option<&Summary>, rows: &[Row]) -> Self {
        let mut by_step: BTreeMap<&String, BTreeMap<u64, f64>> = BTreeMap::new();
        for row in rows {
            for (name, number) in row.values.iter().filter(|(_, number)| number.is_finite()) {
                by_step.entry(name).or_default().insert(row.step, *number);
            }
        }
        let metrics = by_step.into_iter().map(|(name, steps)| (name.clone(), steps.into_values().collect()));
        Numbers { summary: serde_json::to_value(summary).unwrap_or_default(), metrics: metrics.collect() }
    }

    /// The number called `name`: a path in the summary, a metric (its last number), or a metric in brackets,
    /// `std(grad_norm)`.
    pub(super) fn get(&self, name: &str) -> Option<f64> {
        match call(name) {
            Some((fold, metric)) => fold_of(fold).ok()?.over(self.metrics.get(metric)?),
            None => at(&self.summary, name).or_else(|| Fold::Last.over(self.metrics.get(name)?)),
        }
    }

    /// Why no number can be called `name`, with similar names. `None` if there is one, or if other runs may have one.
    pub(super) fn why_unknown(&self, name: &str) -> Option<String> {
        let metric = call(name).map_or(name, |(_, metric)| metric);
        // All arms are evaluated on the same tasks, but which numbers training logs depends on the method.
        let may_be_of_others =
            !metric.starts_with("eval/") && METRICS.iter().any(|known| known.is_called(metric));
        if may_be_of_others || self.get(name).is_some() {
            return None;
        }
        let mut known: Vec<String> = self.metrics.keys().cloned().collect();
        if call(name).is_none() {
            paths(&self.summary, "", &mut known);
        }
        let mut near = names::near(metric, known.iter().map(String::as_str));
        near.dedup();
        let near: Vec<String> = near.into_iter().take(NEAR).map(|name| format!("`{name}`")).collect();
        let near = if near.is_empty() { String::new() } else { format!("; near it: {}", near.join(", ")) };
        Some(format!(
            "names `{metric}`, which is neither in the summary of the last evaluation nor a metric{near}"
        ))
    }
}

impl Fold {
    fn over(self, numbers: &[f64]) -> Option<f64> {
        let last = *numbers.last()?;
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        Some(match self {
            Fold::Last => last,
            Fold::Mean => mean,
            Fold::Std if numbers.len() < 2 => return None,
            Fold::Std => {
                (numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt()
            }
            Fold::Min => numbers.iter().copied().fold(f64::INFINITY, f64::min),
            Fold::Max => numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// What is wrong with the form of `name`, as far as that can be said before there is a run.
pub(super) fn check(name: &str) -> Result<(), String> {
    call(name).map_or(Ok(()), |(fold, _)| fold_of(fold).map(drop))
}

/// The word before the brackets and the text inside, if `name` has that form. Keys of a path may contain brackets
/// too, but then dots or slashes come before them.
fn call(name: &str) -> Option<(&str, &str)> {
    let (fold, metric) = name.strip_suffix(')')?.split_once('(')?;
    (!fold.is_empty() && fold.bytes().all(|byte| byte.is_ascii_alphabetic())).then_some((fold, metric))
}

fn fold_of(word: &str) -> Result<Fold, String> {
    let found = FOLDS.iter().find(|(name, _)| *name == word);
    found.map(|(_, fold)| *fold).ok_or_else(|| {
        let names = FOLDS.map(|(name, _)| name).join(", ");
        format!("has `{word}(...)`; before brackets there can be: {names}")
    })
}

/// The number at a path of keys; for an interval, its mean. Keys may contain dots.
fn at(value: &Value, path: &str) -> Option<f64> {
    let table = value.as_object()?;
    if let Some(value) = table.get(path) {
        return value.as_f64().or_else(|| value.get("mean")?.as_f64());
    }
    table.iter().find_map(|(key, value)| at(value, path.strip_prefix(&**key)?.strip_prefix('.')?))
}

/// Collects the paths of all numbers; an interval counts as one number.
fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(table) if !table.contains_key("low") => {
            for (key, value) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                paths(value, &path, found);
            }
        }
        Value::Object(_) | Value::Number(_) => found.push(path.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_eval::Interval;

    #[test]
    fn a_number_of_the_summary_is_named_by_its_path() {
        let table = serde_json::json!({
            "success": {"mean": 0.5, "low": 0.4, "high": 0.6},
            "flags_by_label": {"share": {"0.5": {"abstained": 0.25}}, "share.0": {"5": {"x": 1.0}}},
            "unscored": 3,
        });
        assert_eq!(at(&table, "success"), Some(0.5));
        assert_eq!(at(&table, "success.low"), Some(0.4));
        assert_eq!(at(&table, "unscored"), Some(3.0));
        assert_eq!(at(&table, "flags_by_label.share.0.5.abstained"), Some(0.25));
        assert_eq!(at(&table, "flags_by_label.share.0.5.x"), Some(1.0));
        for missing in ["flags_by_label", "flags_by_label.share.0.6.abstained", "succes", "", "success."] {
            assert_eq!(at(&table, missing), None, "{missing}");
        }
    }

    fn numbers() -> Numbers {
        let row = |step, event: &str, name: &str, value| Row {
            step,
            event: event.into(),
            values: BTreeMap::from([(name.to_owned(), value)]),
        };
        let rows = [
            row(1, "train", "grad_norm", 1.0),
            row(2, "train", "grad_norm", f64::NAN),
            row(3, "train", "grad_norm", 4.0),
            // A step that occurs twice counts once.
            row(4, "train", "grad_norm", 9.0),
            row(4, "train", "grad_norm", 1.0),
            row(0, "eval", "eval/retention/success", 0.75),
            row(4, "eval", "eval/retention/success", 0.5),
            row(4, "train", "success", 0.25),
        ];
        let interval = Interval { mean: 0.5, low: 0.4, high: 0.6 };
        let summary = Summary {
            success: Some(interval),
            pass_at: BTreeMap::from([(8, interval)]),
            flags: BTreeMap::from([("parse_error".into(), 0.125)]),
            ..Summary::default()
        };
        Numbers::of(Some(&summary), &rows)
    }

    #[test]
    fn a_metric_is_its_last_number_or_what_the_brackets_say() {
        let numbers = numbers();
        for (name, value) in [
            ("grad_norm", 1.0),
            ("last(grad_norm)", 1.0),
            ("mean(grad_norm)", 2.0),
            ("std(grad_norm)", 3f64.sqrt()),
            ("min(grad_norm)", 1.0),
            ("max(grad_norm)", 4.0),
            ("eval/retention/success", 0.5),
            ("max(eval/retention/success)", 0.75),
            ("pass_at.8", 0.5),
            // The summary is looked up first; brackets are for metrics only.
            ("success", 0.5),
            ("last(success)", 0.25),
        ] {
            assert!(numbers.get(name).is_some_and(|found| (found - value).abs() < 1e-12), "{name}");
        }
        for missing in ["std(success)", "mean(flags.parse_error)", "mean(none)", "entropy"] {
            assert_eq!(numbers.get(missing), None, "{missing}");
        }
    }

    #[test]
    fn what_is_unknown_is_said_with_what_is_near() {
        let numbers = numbers();
        for known in ["grad_norm", "success", "entropy", "mean(kl)"] {
            assert_eq!(numbers.why_unknown(known), None, "{known}: there, or other runs may have it");
        }
        for (name, near) in [
            ("grad_nrm", "`grad_norm`"),
            ("std(grad_nrm)", "`grad_norm`"),
            ("eval/retention/succes", "`eval/retention/success`"),
            ("eval/retension/success", "`eval/retention/success`"),
            ("flags.parse_eror", "`flags.parse_error`"),
            ("pass_at.16", "`pass_at.8`"),
        ] {
            let said = numbers.why_unknown(name).unwrap();
            assert!(said.contains(near), "{said}");
        }
        assert!(!numbers.why_unknown("zzz").unwrap().contains("near"));
        assert!(check("median(kl)").unwrap_err().contains("last, mean, std, min, max"));
        for fine in ["mean(kl)", "flags_by_label.a(b).c", "by_label.kind.f(x)"] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
    }
}
