//! What frameworks compute under the settings of a preset, made by `tests/golden/make_presets.py`.

use crate::common::{Golden, is_near, loss};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::presets::{self, PRESETS};
use burnish_rl::{LossConfig, Objective, Totals};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Both sides compute in f64, and the file has 14 digits.
const TOLERANCE: f64 = 1e-11;
/// Weight of the KL where there is one.
const BETA: f64 = 0.1;
/// TRL and verl count in f32.
const TOLERANCE_METRICS: f64 = 1e-6;

#[derive(Deserialize)]
struct Case {
    preset: String,
    batch: String,
    /// What the recipe says beside the preset.
    over: Value,
    beta: f64,
    use_bias_correction_kl: bool,
    loss: f64,
    gradient: Vec<Vec<f64>>,
    metrics: BTreeMap<String, f64>,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden<Case> {
    serde_json::from_str(include_str!("../golden/presets.json")).unwrap()
}

fn merge(below: &mut Value, over: &Value) {
    match (below, over) {
        (Value::Object(below), Value::Object(over)) => {
            over.iter().for_each(|(key, value)| merge(below.entry(key).or_insert(Value::Null), value));
        }
        (below, over) => *below = over.clone(),
    }
}

impl Case {
    #[expect(clippy::unwrap_used, reason = "presets are constants")]
    fn config(&self) -> LossConfig {
        let mut settings = (presets::find(&self.preset).unwrap().settings)()["loss"].clone();
        merge(&mut settings, &self.over);
        let preset: LossConfig = serde_json::from_value(settings).unwrap();
        // TRL's own setting of that name is set there as well; verl has no such correction, and its presets say so.
        let corrected =
            if self.is_verl() { preset.use_bias_correction_kl } else { self.use_bias_correction_kl };
        LossConfig { beta: self.beta, use_bias_correction_kl: corrected, ..preset }
    }

    fn is_verl(&self) -> bool {
        self.preset.starts_with("verl")
    }

    fn tolerance(&self) -> f64 {
        match self.preset.as_str() {
            // verl adds 1e-8 to a number of tokens, here below a log-ratio of up to 9 nats.
            "verl-0.9/geo_mean" => 2e-7,
            "verl-0.9/gspo" | "verl-0.9/sapo" => 1e-7,
            _ => TOLERANCE,
        }
    }

    /// Our names of the metrics that are also the framework's.
    fn metrics(&self) -> Vec<(&str, f64)> {
        let shared = self.metrics.iter().filter_map(|(name, value)| match name.as_str() {
            // verl's counts tokens beyond either bound, also where nothing is clipped.
            _ if self.preset == "verl-0.9/geo_mean" => None,
            "actor/pg_clipfrac" => Some(("clip_ratio/region_mean", *value)),
            "actor/pg_clipfrac_lower" if self.preset == "verl-0.9/grpo" => {
                Some(("clip_ratio/dual_mean", *value))
            }
            // 0, as verl says: "for compatibility".
            "actor/pg_clipfrac_lower" => None,
            // Ours is a mean over tokens, and named so.
            "vespo/phi_seq_mean" => None,
            name => Some((name, *value)),
        });
        shared.collect()
    }
}

#[test]
fn every_preset_is_what_its_framework_computes_with_a_kl_and_without() {
    let golden = golden();
    for case in golden.cases.values().flatten() {
        let batch = golden.batches[&case.batch].batch();
        let totals = batch.totals();
        let totals =
            Totals { tokens_generation: totals.tokens, minibatches: 1, completion_tokens_max: 7, ..totals };
        let found = loss(case.config()).evaluate(&batch.streams(), &totals);
        let what = format!(
            "{} {} on {}, beta {} {}",
            case.preset, case.over, case.batch, case.beta, case.use_bias_correction_kl
        );
        assert!(is_near(found.loss, case.loss, case.tolerance()), "{what}: {} for {}", found.loss, case.loss);
        for (at, (found, expected)) in found.d_policy.iter().zip(case.gradient.concat()).enumerate() {
            assert!(
                is_near(*found, expected, case.tolerance()),
                "{what}: gradient {found} for {expected} at {at}"
            );
        }
        for (name, expected) in case.metrics() {
            let metric = found.metrics.iter().find(|metric| metric.name == name);
            let metric = metric.map(|metric| metric.sum / metric.weight);
            assert!(
                metric.is_some_and(|metric| is_near(metric, expected, TOLERANCE_METRICS)),
                "{what}: {name} {metric:?} for {expected}"
            );
        }
    }
}

#[test]
fn for_sequences_of_one_token_the_kl_of_losses_of_sequences_is_that_of_the_token() {
    for rows in golden().batches.values() {
        let mut batch = rows.batch();
        batch.sequences = (0..batch.policy.len()).map(|at| at..at + 1).collect();
        let of = |objective: &str, level: Option<&str>| {
            let mut config = json!({ "epsilon_low": 0.2, "epsilon_high": 0.28 });
            level.into_iter().for_each(|level| config["level"] = level.into());
            let aggregation = Aggregation::Grpo;
            let objective = objective.to_owned();
            loss(LossConfig { objective, config, aggregation, beta: BETA, ..LossConfig::default() })
                .evaluate(&batch.streams(), &batch.totals())
        };
        let expected = of("ppo_clip", None);
        for (id, level) in [("gspo", Some("sequence")), ("gspo", Some("token")), ("luspo", None)] {
            let found = of(id, level);
            assert!(is_near(found.loss, expected.loss, TOLERANCE), "{id} {level:?}");
            for (found, expected) in found.d_policy.iter().zip(&expected.d_policy) {
                assert!(is_near(*found, *expected, TOLERANCE), "{id} {level:?}: {found} for {expected}");
            }
        }
    }
}

#[test]
fn what_a_preset_says_of_beta_is_what_was_compared() {
    let golden = golden();
    let compared: BTreeSet<&str> = golden
        .cases
        .values()
        .flatten()
        .filter(|case| case.beta > 0.0)
        .map(|case| case.preset.as_str())
        .collect();
    for preset in PRESETS {
        let is_compared = !preset.with_beta.starts_with("nothing");
        assert_eq!(is_compared, compared.contains(preset.id), "{}: {}", preset.id, preset.with_beta);
    }
}

#[test]
fn the_golden_batches_clip_both_ways_and_bound_the_kl() {
    let golden = golden();
    let mut reached = BTreeSet::new();
    for case in golden.cases.values().flatten() {
        for (name, value) in &case.metrics {
            if *value > 0.0 {
                reached.insert((case.preset.as_str(), name.as_str()));
            }
        }
    }
    for preset in ["trl-1.16/dapo", "trl-1.16/gspo", "trl-1.16/luspo"] {
        for name in ["clip_ratio/low_mean", "clip_ratio/high_mean", "kl"] {
            assert!(reached.contains(&(preset, name)), "{preset}: {name}");
        }
    }
    for seen in [
        ("trl-1.16/cispo", "cispo_clip_ratio"),
        ("verl-0.9/grpo", "actor/pg_clipfrac_lower"),
        ("verl-0.9/gspo", "actor/pg_clipfrac"),
    ] {
        assert!(reached.contains(&seen), "{seen:?}");
    }
    for batch in golden.batches.values() {
        let rows = batch.reference.concat().into_iter().zip(batch.policy.concat());
        assert!(rows.into_iter().any(|(reference, policy)| (reference - policy).exp_m1() > 12.0));
    }
}
