//! Numbers of the frameworks' own functions, made by `tests/golden/make_objectives.py`.

use crate::common::{Columns, Golden, is_near, loss};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::catalogue::{self, OBJECTIVES};
use burnish_rl::{Bound, Check, LossConfig, Objective, Totals};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Both sides compute in f64, and the file has 14 digits.
const TOLERANCE: f64 = 1e-11;

#[derive(Deserialize)]
struct Case {
    what: String,
    batch: String,
    objective: String,
    config: Value,
    aggregation: Aggregation,
    /// None where the framework's surrogate has another value and the same gradient.
    loss: Option<f64>,
    gradient: Vec<Vec<f64>>,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden<Case> {
    serde_json::from_str(include_str!("../golden/objectives.json")).unwrap()
}

impl Case {
    fn tolerance(&self, framework: &str) -> f64 {
        match (framework, self.aggregation) {
            // verl adds 1e-8 to a number of tokens, here below a log-ratio of up to 9 nats.
            ("verl", _) if self.objective == "gmpo" => 2e-7,
            ("verl", Aggregation::Grpo) | ("klear", _) => 1e-8,
            _ => TOLERANCE,
        }
    }
}

#[test]
fn losses_and_gradients_are_those_of_the_frameworks_own_functions() {
    let golden = golden();
    let mut compared = BTreeMap::new();
    for (framework, cases) in &golden.cases {
        for case in cases {
            let batch = golden.batches[&case.batch].batch();
            let tokens = batch.totals().tokens;
            let totals = Totals { tokens_generation: tokens, minibatches: 1, ..batch.totals() };
            let objective = loss(LossConfig {
                objective: case.objective.clone(),
                config: case.config.clone(),
                aggregation: case.aggregation,
                ..LossConfig::default()
            });
            let found = objective.evaluate(&batch.streams(), &totals);
            let what = format!("{framework} {} on {}: {}", case.what, case.batch, case.config);
            let tolerance = case.tolerance(framework);
            if let Some(expected) = case.loss {
                assert!(is_near(found.loss, expected, tolerance), "{what}: {} for {expected}", found.loss);
            }
            for (at, (found, expected)) in found.d_policy.iter().zip(case.gradient.concat()).enumerate() {
                assert!(
                    is_near(*found, expected, tolerance),
                    "{what}: gradient {found} for {expected} at {at}"
                );
            }
            *compared.entry(framework.as_str()).or_insert(0) += 1;
        }
    }
    let expected = [("klear", 12), ("prime-rl", 16), ("trl", 36), ("verl", 68)];
    assert_eq!(compared, BTreeMap::from(expected));
}

#[test]
fn the_golden_batches_reach_every_bound_and_have_extreme_ratios() {
    let golden = golden();
    let mut crossed = BTreeMap::<&str, BTreeSet<&str>>::new();
    for case in golden.cases.values().flatten() {
        let entry = catalogue::find(OBJECTIVES, "objective", &case.objective).unwrap();
        let part = (entry.build)(&case.config).unwrap();
        let losses = Columns::of(&golden.batches[&case.batch].batch(), &*part).losses(&*part);
        for (bound, derivative) in losses.clipped.iter().zip(&losses.d_policy) {
            let name = match bound {
                None if *derivative == 0.0 => continue,
                None => "none",
                Some(Bound::Low) => "low",
                Some(Bound::High) => "high",
            };
            crossed.entry(entry.card.id).or_default().insert(name);
        }
    }
    for (id, bounds) in crossed {
        let expected = match id {
            "sapo" | "vespo" | "dro" => 1,
            "reinforce" => 2,
            _ => 3,
        };
        assert_eq!(bounds.len(), expected, "{id}: {bounds:?}");
    }
    let far = golden.batches["far"].batch();
    let log_ratios = far.policy.iter().zip(&far.proximal).zip(&far.loss_mask);
    let log_ratios = log_ratios.filter(|(_, in_loss)| **in_loss).map(|((policy, old), _)| policy - old);
    let (least, most) =
        log_ratios.fold((0.0f64, 0.0f64), |(least, most), log| (least.min(log), most.max(log)));
    assert!(least < -4.0 && most > 4.0, "{least} {most}");
}

#[test]
fn a_card_names_the_frameworks_that_its_objective_was_compared_with() {
    let golden = golden();
    for entry in OBJECTIVES {
        let compared: BTreeSet<&str> = golden
            .cases
            .iter()
            .filter(|(_, cases)| cases.iter().any(|case| case.objective == entry.card.id))
            .map(|(framework, _)| framework.as_str())
            .collect();
        let named = match entry.card.check {
            Check::Golden(named) => named.to_lowercase(),
            Check::Oracle(_) => "oracle".to_owned(),
        };
        for framework in compared {
            assert!(named.contains(framework), "{}: {named} for {framework}", entry.card.id);
        }
    }
}
