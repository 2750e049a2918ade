//! TRL 1.16's own numbers of preferences, made by `tests/golden/make_preference.py`.

use crate::common::{Batch, Grouped, Rows, is_near, metric};
use burnish_rl::preference::{Baseline, Dpo, GroupDpo, Ipo, Kto, Orpo, Simpo};
use burnish_rl::{Evaluation, Part};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Both sides compute in f64, and the file has 14 digits.
const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
pub(crate) struct Golden {
    batches: BTreeMap<String, Rows>,
    dpo: Vec<Case>,
    ipo: Vec<Case>,
    group_dpo: Vec<Case>,
    simpo: Vec<Case>,
    orpo: Vec<Case>,
    kto: Vec<Case>,
    pub(crate) opd: Vec<Case>,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    batch: String,
    pub(crate) settings: Value,
    #[serde(default)]
    mismatched: bool,
    loss: f64,
    gradient: Vec<Vec<f64>>,
    metrics: BTreeMap<String, f64>,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
pub(crate) fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/preference.json")).unwrap()
}

impl Golden {
    /// Sequences that belong together `size` by `size`, and the log-probs at which they were sampled.
    pub(crate) fn batch(&self, name: &str, size: usize) -> (Grouped, Vec<f64>) {
        let rows = &self.batches[name];
        let columns = rows.policy[0].len();
        let or_policy = |stream: &[Vec<f64>]| {
            if stream.is_empty() { rows.policy.concat() } else { stream.concat() }
        };
        let labels = if rows.label.is_empty() { &rows.advantages } else { &rows.label };
        let label = |row: usize| labels.get(row).copied().unwrap_or(f64::NAN);
        let batch = Batch {
            proximal: or_policy(&rows.proximal),
            entropy: vec![1.0; rows.policy.len() * columns],
            advantage: (0..rows.policy.len()).flat_map(|row| vec![label(row); columns]).collect(),
            ..rows.batch()
        };
        (Grouped::new(batch, size), or_policy(&rows.behavior))
    }
}

impl Case {
    pub(crate) fn compare(&self, found: &Evaluation) {
        let what = format!("{} {}", self.batch, self.settings);
        assert!(is_near(found.loss, self.loss, TOLERANCE), "{what}: {} for {}", found.loss, self.loss);
        let expected = self.gradient.concat();
        assert_eq!(found.d_policy.len(), expected.len(), "{what}");
        for (found, expected) in found.d_policy.iter().zip(expected) {
            assert!(is_near(*found, expected, TOLERANCE), "{what}: gradient {found} for {expected}");
        }
        for (name, expected) in self.metrics.iter().filter(|(name, _)| *name != "rewards/margins") {
            let found = metric(found, name);
            assert!(is_near(found, *expected, TOLERANCE), "{what}: {name} {found} for {expected}");
        }
        // KTO has none: it is the difference of two means.
        if let Some(expected) = self.metrics.get("rewards/margins") {
            let margin = metric(found, "rewards/chosen") - metric(found, "rewards/rejected");
            assert!(is_near(margin, *expected, TOLERANCE), "{what}: {margin} for {expected}");
        }
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.settings.get(key).and_then(Value::as_f64)
    }

    /// TRL's settings are ours, but for a list of one loss.
    #[expect(clippy::unwrap_used, reason = "the file is part of the test")]
    fn dpo(&self) -> Dpo {
        Dpo {
            beta: self.number("beta").unwrap_or(0.1),
            loss_type: serde_json::from_value(self.settings["loss_type"][0].clone()).unwrap(),
            label_smoothing: self.number("label_smoothing").unwrap_or(0.0),
            ..Dpo::default()
        }
    }
}

#[test]
fn dpo_and_ipo_are_those_of_trl() {
    let golden = golden();
    for case in &golden.dpo {
        case.compare(&golden.batch(&case.batch, 2).0.evaluate(&case.dpo()));
    }
    for case in &golden.ipo {
        let ipo = Ipo { beta: case.number("beta").unwrap(), ..Ipo::default() };
        case.compare(&golden.batch(&case.batch, 2).0.evaluate(&ipo));
    }
    let kinds: BTreeSet<String> =
        golden.dpo.iter().map(|case| case.settings["loss_type"][0].to_string()).collect();
    assert_eq!((kinds.len(), golden.ipo.len()), (11, 4));
}

#[test]
fn simpo_and_orpo_are_those_of_trl() {
    let golden = golden();
    for case in &golden.simpo {
        let number = |key| case.number(key).unwrap();
        let (beta, gamma) = (number("beta"), number("simpo_gamma"));
        let simpo = Simpo { beta, gamma, label_smoothing: number("label_smoothing") };
        case.compare(&golden.batch(&case.batch, 2).0.evaluate(&simpo));
    }
    for case in &golden.orpo {
        let orpo = Orpo { beta: case.number("beta").unwrap() };
        case.compare(&golden.batch(&case.batch, 2).0.evaluate(&orpo));
    }
    assert_eq!((golden.simpo.len(), golden.orpo.len()), (2, 2));
}

#[test]
fn a_group_is_what_trl_makes_of_its_pairs_written_out() {
    let golden = golden();
    let case = &golden.group_dpo[0];
    let group = GroupDpo { beta: case.number("beta").unwrap(), ..GroupDpo::default() };
    case.compare(&golden.batch("group", 4).0.evaluate(&group));
}

#[test]
fn kto_is_that_of_trl_with_its_baseline_and_with_that_of_the_batch() {
    let golden = golden();
    let mut baselines = Vec::new();
    for case in &golden.kto {
        let is_apo = case.settings.get("loss_type").is_some();
        let kl = case.metrics["kl"];
        let (baseline, z0) = match (case.mismatched, is_apo) {
            (true, _) => (Baseline::Given, kl),
            (_, true) => (Baseline::Given, 0.0),
            _ => (Baseline::Batch, 0.0),
        };
        let kto = Kto {
            beta: case.number("beta").unwrap(),
            desirable_weight: case.number("desirable_weight").unwrap_or(1.0),
            undesirable_weight: case.number("undesirable_weight").unwrap_or(1.0),
            baseline,
            z0,
        };
        kto.check().unwrap();
        case.compare(&golden.batch(&case.batch, 1).0.evaluate(&kto));
        baselines.push((baseline, kl > 0.0));
    }
    // Each kind of baseline is tried with one that is not 0.
    assert!(baselines.contains(&(Baseline::Given, true)) && baselines.contains(&(Baseline::Batch, true)));
}
