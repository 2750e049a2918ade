//! The numbers of a run that a study names: from the last evaluation's summary, or from the run's metrics.
//!
//! ```text
//! flags.parse_error                        a path in the summary of the last evaluation
//! entropy, eval/retention/success          the last number of a metric
//! mean(grad_norm), at(eval/success, 20)    a function of a metric's numbers over the steps
//! A - B, A + B                             of any of these
//! ```

use std::collections::BTreeMap;

use burnish_core::names;
use burnish_eval::Summary;
use serde_json::Value;

use burnish_rundir::metrics::Row;
use burnish_rundir::metrics::aliases::METRICS;

/// How many similar names are suggested for an unknown one.
const NEAR: usize = 3;

/// The number of a run under a name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number {
    pub(super) value: f64,
    /// What was waited for never happened, so the value is only a lower bound.
    pub(super) is_bound: bool,
}

/// How the numbers of a metric over the steps of a run become one number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fold {
    First,
    Last,
    Mean,
    /// With n - 1 in the denominator.
    Std,
    Min,
    Max,
    /// From the first to the last.
    Gain,
    /// From the highest to the last.
    Drop,
    /// The mean over steps, with straight lines between the numbers: the area under the curve by its width.
    Area,
    /// The number after so many steps.
    At(u64),
    /// What training used up to the first number of at least the score.
    Until {
        used: Used,
        score: f64,
    },
}

/// What training uses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Used {
    Rollouts,
    Tokens,
}

impl Used {
    /// The metric of a step.
    fn metric(self) -> &'static str {
        match self {
            Used::Rollouts => "episodes",
            Used::Tokens => "tokens/sampled",
        }
    }
}

const PLAIN: [(&str, Fold); 9] = [
    ("first", Fold::First),
    ("last", Fold::Last),
    ("mean", Fold::Mean),
    ("std", Fold::Std),
    ("min", Fold::Min),
    ("max", Fold::Max),
    ("gain", Fold::Gain),
    ("drop", Fold::Drop),
    ("area", Fold::Area),
];

/// The numbers of one run, to look names up in.
pub(super) struct Numbers {
    summary: Value,
    /// The finite numbers of each metric by step. If a step has a metric twice, the later number counts.
    metrics: BTreeMap<String, BTreeMap<u64, f64>>,
}

impl Numbers {
    /// `summary` is that of the last evaluation, if there was one.
    pub(super) fn of(summary: Option<&Summary>, rows: &[Row]) -> Self {
        let mut metrics: BTreeMap<String, BTreeMap<u64, f64>> = BTreeMap::new();
        for row in rows {
            for (name, number) in row.values.iter().filter(|(_, number)| number.is_finite()) {
                metrics.entry(name.clone()).or_default().insert(row.step, *number);
            }
        }
        Numbers { summary: serde_json::to_value(summary).unwrap_or_default(), metrics }
    }

    /// The number called `name`; `None` if the run lacks a part of it.
    pub(super) fn get(&self, name: &str) -> Option<Number> {
        let mut sum = Number { value: 0.0, is_bound: false };
        for (sign, term) in terms(name) {
            let number = self.term(term)?;
            sum.value += sign * number.value;
            sum.is_bound |= number.is_bound;
        }
        Some(sum)
    }

    fn term(&self, term: &str) -> Option<Number> {
        match call(term) {
            Some(called) => {
                let (fold, metric) = called.ok()?;
                self.folded(fold, self.metrics.get(metric)?)
            }
            None => {
                let last = || self.metrics.get(term)?.values().last().copied();
                Some(Number { value: at(&self.summary, term).or_else(last)?, is_bound: false })
            }
        }
    }

    fn folded(&self, fold: Fold, by_step: &BTreeMap<u64, f64>) -> Option<Number> {
        let numbers = || by_step.values().copied();
        let (first, last) = (numbers().next()?, numbers().last()?);
        let (least, highest) = (numbers().fold(first, f64::min), numbers().fold(first, f64::max));
        let count = by_step.len() as f64;
        let mean = numbers().sum::<f64>() / count;
        let value = match fold {
            Fold::First => first,
            Fold::Last => last,
            Fold::Mean => mean,
            Fold::Std if by_step.len() < 2 => return None,
            Fold::Std => {
                (numbers().map(|number| (number - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt()
            }
            Fold::Min => least,
            Fold::Max => highest,
            Fold::Gain => last - first,
            Fold::Drop => highest - last,
            Fold::Area => area(by_step)?,
            Fold::At(step) => *by_step.get(&step)?,
            Fold::Until { used, score } => {
                let reached = by_step.iter().find(|(_, number)| **number >= score).map(|(step, _)| *step);
                let used = self.metrics.get(used.metric())?;
                let until = used.range(..=reached.unwrap_or(u64::MAX));
                return Some(Number {
                    value: until.map(|(_, number)| number).sum::<f64>() + 0.0,
                    is_bound: reached.is_none(),
                });
            }
        };
        Some(Number { value, is_bound: false })
    }

    /// Why no number can be called `name`, with similar names. `None` if there is one, or if other runs may have one.
    pub(super) fn why_unknown(&self, name: &str) -> Option<String> {
        terms(name).into_iter().find_map(|(_, term)| self.why_term_is_unknown(term))
    }

    fn why_term_is_unknown(&self, term: &str) -> Option<String> {
        let called = call(term).and_then(Result::ok);
        let metric = called.map_or(term, |(_, metric)| metric);
        // All arms are evaluated on the same tasks, but which numbers training logs depends on the method.
        let may_be_of_others =
            !metric.starts_with("eval/") && METRICS.iter().any(|known| known.is_called(metric));
        if may_be_of_others || self.term(term).is_some() {
            return None;
        }
        if let (Some((Fold::At(step), _)), Some(known)) = (called, self.metrics.get(metric)) {
            let steps: Vec<String> = known.keys().map(u64::to_string).collect();
            return Some(format!("names `{metric}` at step {step}; it is there at {}", steps.join(", ")));
        }
        let mut known: Vec<String> = self.metrics.keys().cloned().collect();
        if called.is_none() {
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

/// The trapezoids under the numbers by the steps from the first to the last.
fn area(by_step: &BTreeMap<u64, f64>) -> Option<f64> {
    let points: Vec<(f64, f64)> = by_step.iter().map(|(step, number)| (*step as f64, *number)).collect();
    let width = points.last()?.0 - points.first()?.0;
    let trapezoids = points.windows(2).map(|pair| (pair[1].0 - pair[0].0) * (pair[0].1 + pair[1].1) / 2.0);
    (width > 0.0).then(|| trapezoids.sum::<f64>() / width)
}

/// What is wrong with the form of `name`, as far as that can be said before there is a run.
pub(super) fn check(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("has a name that is empty".into());
    }
    terms(name).into_iter().try_for_each(|(_, term)| call(term).map_or(Ok(()), |called| called.map(drop)))
}

/// Whether `name` is a share, which is shown in percent and whose differences are points.
pub(super) fn is_share(name: &str) -> bool {
    const SHARES: [&str; 6] = ["success", "pass@", "pass_at", "flags", "rate", "distinct"];
    terms(name).into_iter().all(|(_, term)| match call(term) {
        Some(Ok((Fold::Until { .. }, _)) | Err(_)) => false,
        Some(Ok((_, metric))) => SHARES.iter().any(|share| metric.contains(share)),
        None => SHARES.iter().any(|share| term.contains(share)),
    })
}

/// The parts of a sum, each with its sign.
fn terms(name: &str) -> Vec<(f64, &str)> {
    let mut terms = Vec::new();
    let (mut sign, mut rest) = (1.0, name);
    loop {
        let next = [(" + ", 1.0), (" - ", -1.0)]
            .into_iter()
            .filter_map(|(mark, sign)| Some((rest.find(mark)?, sign)))
            .min_by_key(|(place, _)| *place);
        let Some((place, next_sign)) = next else {
            terms.push((sign, rest.trim()));
            return terms;
        };
        terms.push((sign, rest[..place].trim()));
        (sign, rest) = (next_sign, &rest[place + 3..]);
    }
}

/// The function and the metric in its brackets, if `term` has the form of a call. Keys of a path may contain brackets
/// too, but then dots or slashes come before them.
fn call(term: &str) -> Option<Result<(Fold, &str), String>> {
    let (word, inside) = term.strip_suffix(')')?.split_once('(')?;
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    is_word.then(|| folded(word, inside))
}

fn folded<'a>(word: &str, inside: &'a str) -> Result<(Fold, &'a str), String> {
    if let Some((_, fold)) = PLAIN.iter().find(|(name, _)| *name == word) {
        return Ok((*fold, inside.trim()));
    }
    let two = |what: &str| {
        let (metric, number) = inside.rsplit_once(',').unwrap_or((inside, ""));
        let example = format!("`{word}({}, {what})`", metric.trim());
        (
            metric.trim(),
            number.trim(),
            format!("has `{word}({inside})`, which takes a metric and a number: {example}"),
        )
    };
    let until = |used| {
        let (metric, score, problem) = two("0.5");
        let score = score.parse().ok().filter(|score: &f64| score.is_finite()).ok_or(problem)?;
        Ok((Fold::Until { used, score }, metric))
    };
    match word {
        "at" => {
            let (metric, step, problem) = two("20");
            Ok((Fold::At(step.parse().map_err(|_| problem)?), metric))
        }
        "rollouts_to" => until(Used::Rollouts),
        "tokens_to" => until(Used::Tokens),
        _ => {
            let names: Vec<&str> =
                PLAIN.iter().map(|(name, _)| *name).chain(["at", "rollouts_to", "tokens_to"]).collect();
            Err(format!("has `{word}(...)`; before brackets there can be: {}", names.join(", ")))
        }
    }
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
        let row = |step, event: &str, values: &[(&str, f64)]| Row {
            step,
            event: event.into(),
            values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
        };
        let train = |step, grad_norm, episodes| {
            let used =
                [("grad_norm", grad_norm), ("episodes", episodes), ("tokens/sampled", 100.0 * episodes)];
            row(step, "train", &used)
        };
        let eval = |step, all, retention| {
            row(step, "eval", &[("eval/success", all), ("eval/retention/success", retention)])
        };
        let rows = [
            eval(0, 0.2, 0.75),
            train(1, 1.0, 8.0),
            train(2, f64::NAN, 8.0),
            eval(2, 0.6, 0.5),
            train(3, 4.0, 8.0),
            // A step that occurs twice counts once.
            train(4, 9.0, 80.0),
            train(4, 1.0, 8.0),
            eval(4, 0.4, 0.5),
            row(4, "train", &[("success", 0.25)]),
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
            ("first(eval/success)", 0.2),
            ("gain(eval/success)", 0.2),
            ("drop(eval/success)", 0.2),
            // (0.2 + 0.6) / 2 over two steps, (0.6 + 0.4) / 2 over two.
            ("area(eval/success)", 0.45),
            ("at(eval/success, 2)", 0.6),
            ("at( eval/success ,2)", 0.6),
            ("eval/retention/success", 0.5),
            ("max(eval/retention/success)", 0.75),
            ("pass_at.8", 0.5),
            // The summary is looked up first; brackets are for metrics only.
            ("success", 0.5),
            ("last(success)", 0.25),
            ("success - flags.parse_error", 0.375),
            ("pass_at.8 - flags.parse_error + at(eval/success, 2) - grad_norm", -0.025),
        ] {
            let found = numbers.get(name);
            assert!(found.is_some_and(|found| (found.value - value).abs() < 1e-12), "{name}: {found:?}");
            assert!(found.is_some_and(|found| !found.is_bound), "{name}");
        }
        for missing in [
            "std(success)",
            "mean(flags.parse_error)",
            "mean(none)",
            "entropy",
            "success - none",
            "area(success)",
        ] {
            assert_eq!(numbers.get(missing), None, "{missing}");
        }
    }

    #[test]
    fn a_score_that_was_never_reached_leaves_a_lower_bound() {
        let at = |name: &str| numbers().get(name).map(|number| (number.value, number.is_bound));
        assert_eq!(at("rollouts_to(eval/success, 0.2)"), Some((0.0, false)), "before training");
        assert_eq!(at("rollouts_to(eval/success, 0.5)"), Some((16.0, false)));
        assert_eq!(at("tokens_to(eval/success, 0.5)"), Some((1600.0, false)));
        assert_eq!(at("rollouts_to(eval/success, 0.7)"), Some((32.0, true)), "all that it used");
    }

    #[test]
    fn what_is_unknown_is_said_with_what_is_near() {
        let numbers = numbers();
        for known in ["grad_norm", "success", "entropy", "mean(kl)", "success - mean(kl)"] {
            assert_eq!(numbers.why_unknown(known), None, "{known}: there, or other runs may have it");
        }
        for (name, near) in [
            ("grad_nrm", "`grad_norm`"),
            ("std(grad_nrm)", "`grad_norm`"),
            ("success - std(grad_nrm)", "`grad_norm`"),
            ("eval/retention/succes", "`eval/retention/success`"),
            ("eval/retension/success", "`eval/retention/success`"),
            ("flags.parse_eror", "`flags.parse_error`"),
            ("pass_at.16", "`pass_at.8`"),
            ("at(eval/success, 3)", "it is there at 0, 2, 4"),
        ] {
            let said = numbers.why_unknown(name).unwrap();
            assert!(said.contains(near), "{said}");
        }
        assert!(!numbers.why_unknown("zzz").unwrap().contains("near"));
    }

    #[test]
    fn a_wrong_form_is_said_before_there_is_a_run() {
        for (wrong, part) in [
            ("median(kl)", "first, last, mean"),
            ("success - median(kl)", "median(...)"),
            ("at(eval/success)", "`at(eval/success, 20)`"),
            ("at(eval/success, soon)", "`at(eval/success, 20)`"),
            ("rollouts_to(eval/success, nan)", "`rollouts_to(eval/success, 0.5)`"),
            (" ", "empty"),
        ] {
            let said = check(wrong).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
        for fine in
            ["mean(kl)", "flags_by_label.a(b).c", "by_label.kind.f(x)", "tokens_to(eval/success, 0.5)"]
        {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn shares_are_told_from_other_numbers() {
        for share in ["success", "pass_at.8", "area(eval/success)", "flags.a - flags.b", "distinct_rate"] {
            assert!(is_share(share), "{share}");
        }
        for other in
            ["reward", "entropy", "rollouts_to(eval/success, 0.5)", "success - reward", "std(grad_norm)"]
        {
            assert!(!is_share(other), "{other}");
        }
    }
}
