//! Numbers of held-out rows, row by row: their means, and intervals that resample rows.

use std::collections::{BTreeMap, BTreeSet};

use burnish_eval::bootstrap::{self, Interval};
use burnish_rundir::metrics::Values;
use serde::{Deserialize, Serialize};

/// The metric of how many rows are held out.
pub(crate) const HELD_OUT_ROWS: &str = "eval/held_out_rows";

/// The numbers that get intervals.
const LEADING: [&str; 3] = ["loss", "accuracy", "rewards/accuracies"];

/// The numbers of one evaluation, by row of the held-out corpus.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Measured(BTreeMap<usize, Numbers>);

/// The numbers of one row.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Numbers {
    /// Its weight in means over rows: its scored tokens where the loss is a mean over tokens, else 1.
    weight: f64,
    /// The loss and the objective's metrics, by name; each a mean over the row.
    values: Values,
}

impl Measured {
    /// Adds numbers of row number `row`, such as those of one of its samples.
    pub(super) fn add(&mut self, row: usize, weight: f64, values: impl Iterator<Item = (String, f64)>) {
        let known = self.0.entry(row).or_default();
        let before = known.weight;
        known.weight += weight;
        for (name, value) in values {
            let own = known.values.entry(name).or_insert(value);
            *own = (*own * before + value * weight) / known.weight;
        }
    }

    /// Without numbers that JSON can't hold.
    pub(crate) fn finite(&self) -> Measured {
        let mut finite = self.clone();
        finite.0.values_mut().for_each(|row| row.values.retain(|_, value| value.is_finite()));
        finite
    }

    /// The metrics `eval/...`: all means, and for the leading ones the ends of their 95 % intervals and, beside an
    /// evaluation `before` of the same rows, the change, paired by row. `seed` is an address of `Purpose::Bootstrap`.
    pub(crate) fn metrics(&self, before: Option<&Measured>, seed: u64) -> Values {
        let names: BTreeSet<&String> = self.0.values().flat_map(|row| row.values.keys()).collect();
        let mut metrics = Values::from([(HELD_OUT_ROWS.to_owned(), self.0.len() as f64)]);
        for name in names {
            let own = |row: &Numbers| row.values.get(name).copied();
            let rows = self.0.values().filter_map(|row| Some((row.weight, own(row)?)));
            let is_leading = LEADING.contains(&&**name);
            let mut put = |end: &str, value: f64| metrics.insert(format!("eval/{name}{end}"), value);
            let rows: Vec<(f64, f64)> = rows.collect();
            let Some(level) = weighted(&rows, if is_leading { Some(seed) } else { None }) else { continue };
            put("", level.mean);
            if !is_leading {
                continue;
            }
            put("/low", level.low);
            put("/high", level.high);
            let pairs = self
                .0
                .iter()
                .filter_map(|(row, after)| Some((after.weight, own(after)? - own(before?.0.get(row)?)?)));
            if let Some(change) = weighted(&pairs.collect::<Vec<_>>(), Some(seed)) {
                put("/change", change.mean);
                put("/change/low", change.low);
                put("/change/high", change.high);
            }
        }
        metrics
    }
}

/// The mean of values with weights; with a seed also its interval, in which the sum of the weights is taken as fixed.
fn weighted(rows: &[(f64, f64)], seed: Option<u64>) -> Option<Interval> {
    let weights: f64 = rows.iter().map(|(weight, _)| weight).sum();
    if weights <= 0.0 {
        return None;
    }
    let mean = rows.iter().map(|(weight, value)| weight * value).sum::<f64>() / weights;
    let Some(seed) = seed else { return Some(Interval { mean, low: mean, high: mean }) };
    let share = rows.len() as f64 / weights;
    let values: Vec<f64> = rows.iter().map(|(weight, value)| weight * value * share).collect();
    Some(Interval { mean, ..bootstrap::mean(&values, seed)? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn measured(rows: &[(f64, f64)]) -> Measured {
        let mut measured = Measured::default();
        for (row, (weight, loss)) in rows.iter().enumerate() {
            measured.add(row, *weight, [("loss".to_owned(), *loss)].into_iter());
        }
        measured
    }

    #[test]
    fn means_weigh_rows_by_their_tokens_and_samples_of_a_row_are_one_row() {
        let mut rows = measured(&[(1.0, 4.0), (3.0, 2.0)]);
        rows.add(1, 1.0, [("loss".to_owned(), 6.0)].into_iter());
        let metrics = rows.metrics(None, 1);
        assert_eq!(metrics["eval/loss"], (4.0 + 3.0 * 2.0 + 6.0) / 5.0);
        assert_eq!(metrics[HELD_OUT_ROWS], 2.0);
        assert!(!metrics.contains_key("eval/loss/change"));
    }

    #[test]
    fn a_change_is_paired_by_row_so_rows_that_all_improve_alike_leave_no_doubt() {
        let before: Vec<(f64, f64)> = (0..40).map(|row| (1.0, f64::from(row))).collect();
        let after: Vec<(f64, f64)> = before.iter().map(|(weight, loss)| (*weight, loss - 0.5)).collect();
        let metrics = measured(&after).metrics(Some(&measured(&before)), 1);
        assert!(metrics["eval/loss/high"] - metrics["eval/loss/low"] > 5.0);
        for end in ["", "/low", "/high"] {
            assert!((metrics[&format!("eval/loss/change{end}")] + 0.5).abs() < 1e-9, "{metrics:?}");
        }
        // A row without a partner is in no pair.
        let metrics = measured(&after).metrics(Some(&measured(&before[..1])), 1);
        assert!((metrics["eval/loss/change"] + 0.5).abs() < 1e-9);
    }
}
