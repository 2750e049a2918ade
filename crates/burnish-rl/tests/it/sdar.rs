//! SDAR: its limits, what opens its gate, and what never does.

use crate::common::{Batch, Columns, batches, is_near, loss, metric};
use burnish_rl::objective::{Sdar, SdarGate};
use burnish_rl::{Evaluation, LossConfig, Metric, Objective, Part};
use proptest::prelude::*;
use serde_json::{Value, json};

const GATES: [&str; 5] = ["gap", "entropy", "soft_or", "hard", "none"];

fn sdar(config: Value) -> impl Objective {
    loss(LossConfig { objective: "sdar".into(), config, ..LossConfig::default() })
}

/// With a vocabulary of 20 tokens, whose entropies are below 3 nats.
#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn part(gate: &str, sdar_coef: f64, gate_beta: f64) -> Sdar {
    let config = json!({ "gate": gate, "sdar_coef": sdar_coef, "gate_beta": gate_beta, "vocabulary": 20 });
    serde_json::from_value(config).unwrap()
}

/// What the term adds to each loss token's derivative, over -λ.
fn gates(batch: &Batch, part: &Sdar) -> Vec<f64> {
    let losses = |part: &Sdar| Columns::of(batch, part).losses(part).d_policy;
    let without = losses(&Sdar { sdar_coef: 0.0, ..part.clone() });
    losses(part).iter().zip(without).map(|(with, without)| (without - with) / part.sdar_coef).collect()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The published gates, with [`part`]'s vocabulary.
fn published(gate: &str, beta: f64, gap: f64, entropy: f64) -> f64 {
    let unsure = entropy / 20f64.ln();
    match gate {
        "gap" => logistic(beta * gap),
        "entropy" => logistic(beta * unsure),
        "soft_or" => logistic(beta * (1.0 - (1.0 - unsure) * (1.0 - gap.clamp(0.0, 1.0)))),
        "hard" => f64::from(gap > 0.0),
        _ => 1.0,
    }
}

/// Gap and entropy of each loss token.
fn tokens(batch: &Batch) -> impl Iterator<Item = (f64, f64)> {
    let counted = (0..batch.policy.len()).filter(|at| batch.loss_mask[*at]);
    counted.map(|at| (batch.reference[at] - batch.policy[at], batch.entropy[at]))
}

proptest! {
    #[test]
    fn without_a_weight_it_is_ppo_clip_to_the_bit_and_needs_no_teacher(batch in batches(2.0)) {
        let ppo = loss(LossConfig::default());
        for gate in GATES {
            let config = json!({ "sdar_coef": 0.0, "gate": gate, "vocabulary": 20 });
            let sdar = sdar(config);
            prop_assert!(!sdar.needs().teacher);
            let mut batch = batch.clone();
            let expected = batch.evaluate(&ppo);
            batch.reference.fill(f64::NAN);
            prop_assert_eq!(batch.evaluate(&sdar), expected);
        }
        prop_assert!(sdar(Value::Null).needs().teacher);
    }

    #[test]
    fn every_gate_is_its_formula(batch in batches(2.0), beta in 0.0..8.0f64) {
        for gate in GATES {
            let found = gates(&batch, &part(gate, 0.3, beta));
            for (found, (gap, entropy)) in found.iter().zip(tokens(&batch)) {
                let expected = published(gate, beta, gap, entropy);
                prop_assert!(is_near(*found, expected, 1e-12), "{gate}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn derivatives_with_the_gate_frozen_are_those_of_finite_differences(batch in batches(1.0)) {
        for gate in GATES {
            let part = part(gate, 0.7, 5.0);
            let checked = Columns::of(&batch, &part).check_derivatives(&part);
            prop_assert!(checked.is_ok(), "{gate}: {checked:?}");
        }
    }

    #[test]
    fn a_gate_without_slope_is_half_open_as_with_an_empty_hint(batch in batches(2.0)) {
        let mut no_hint = batch.clone();
        no_hint.reference = no_hint.policy.clone();
        let flat = gates(&batch, &part("gap", 0.4, 0.0));
        let empty = gates(&no_hint, &part("gap", 0.4, 5.0));
        prop_assert!(flat.iter().chain(&empty).all(|gate| is_near(*gate, 0.5, 1e-12)));
        // The gradient of the ungated control, with half the weight; and with an empty hint its value too.
        let half = no_hint.evaluate(&sdar(json!({ "gate": "none", "sdar_coef": 0.2 })));
        let found = no_hint.evaluate(&sdar(json!({ "sdar_coef": 0.4 })));
        prop_assert_eq!(found.loss, half.loss);
        prop_assert_eq!(found.d_policy, half.d_policy);
    }

    #[test]
    fn other_words_of_the_hint_change_the_gate_and_what_it_lets_through_and_nothing_else(batch in batches(2.0)) {
        // A teacher that was told the opposite: what it found likelier, it finds as much less likely.
        let mut other = batch.clone();
        other.reference = batch.policy.iter().zip(&batch.reference).map(|(own, told)| 2.0 * own - told).collect();
        for gate in GATES {
            let part = part(gate, 0.3, 5.0);
            let values = |batch: &Batch| Columns::of(batch, &part).losses(&part).value;
            let (before, after) = (values(&batch), values(&other));
            let (was, is) = (gates(&batch, &part), gates(&other, &part));
            for (at, (gap, entropy)) in tokens(&batch).enumerate() {
                prop_assert!(is_near(is[at], published(gate, 5.0, -gap, entropy), 1e-9), "{gate}: {}", is[at]);
                let pulled = 0.3 * (is[at] * -gap - was[at] * gap);
                prop_assert!(is_near(after[at] - before[at], pulled, 1e-9), "{gate}: {pulled}");
                // Where the teacher changed its mind, a gate that listens to it moves to the other side.
                if matches!(gate, "gap" | "hard") && gap.abs() > 1e-6 {
                    prop_assert!(if gap > 0.0 { is[at] < was[at] } else { is[at] > was[at] }, "{gate}: {gap}");
                }
            }
            let config = json!({ "sdar_coef": 0.3, "gate": gate, "vocabulary": 20 });
            let [before, after] = [&batch, &other].map(|batch| batch.evaluate(&sdar(config.clone())));
            let others = |found: &Evaluation| -> Vec<Metric> {
                let own = ["gate_mean", "gate_active_ratio", "teacher_gap_mean"];
                found.metrics.iter().filter(|metric| !own.contains(&metric.name)).cloned().collect()
            };
            prop_assert!(!others(&before).is_empty());
            prop_assert_eq!(others(&before), others(&after));
            prop_assert_eq!(&before.d_entropy, &after.d_entropy);
            // A teacher is heard through the gate alone: one that does not listen pulls the same, whatever it says.
            if matches!(gate, "entropy" | "none") {
                prop_assert_eq!(before.d_policy, after.d_policy);
            }
        }
    }

    #[test]
    fn a_steep_gate_is_a_hard_one(batch in batches(2.0)) {
        let steep = gates(&batch, &part("gap", 1.0, 1e9));
        let hard = gates(&batch, &part("hard", 1.0, 5.0));
        for ((steep, hard), (gap, _)) in steep.iter().zip(hard).zip(tokens(&batch)) {
            prop_assert!(gap.abs() < 1e-6 || is_near(*steep, hard, 1e-9), "{steep} {hard} {gap}");
        }
    }

    #[test]
    fn metrics_are_means_over_the_tokens_of_all_sequences(batch in batches(2.0)) {
        prop_assume!(batch.loss_mask.contains(&true));
        let found = batch.evaluate(&sdar(json!({ "sdar_coef": 0.1, "gate_beta": 3.0 })));
        let all: Vec<(f64, f64)> = tokens(&batch).collect();
        let mean = |of: fn(f64) -> f64| all.iter().map(|(gap, _)| of(*gap)).sum::<f64>() / all.len() as f64;
        prop_assert!(is_near(metric(&found, "gate_mean"), mean(|gap| logistic(3.0 * gap)), 1e-12));
        prop_assert!(is_near(metric(&found, "gate_active_ratio"), mean(|gap| f64::from(gap > 0.0)), 1e-12));
        prop_assert!(is_near(metric(&found, "teacher_gap_mean"), mean(|gap| gap), 1e-12));
    }

    #[test]
    fn with_an_empty_hint_the_gradient_is_zero_in_expectation_only(policy in crate::distillation::logits()) {
        let batch = crate::distillation::all_tokens(&policy, &policy);
        let mut batch = batch;
        batch.advantage.fill(0.0);
        let per_token = gates(&batch, &part("gap", 1.0, 5.0));
        prop_assert!(per_token.iter().all(|gate| is_near(*gate, 0.5, 1e-12)));
        // Σ_y π(y) · -g · ∂log π(y)/∂logit.
        for logit in 0..policy.len() {
            let p = |at: usize| batch.policy[at].exp();
            let of = |at: usize| -p(at) * per_token[at] * (f64::from(at == logit) - p(logit));
            prop_assert!((0..policy.len()).map(of).sum::<f64>().abs() < 1e-12);
        }
    }
}

#[test]
fn settings_out_of_range_are_refused_by_key() {
    for (wrong, message) in [
        (Sdar { sdar_coef: -1.0, ..Sdar::default() }, "sdar_coef: must be 0 or more, not -1"),
        (Sdar { gate_beta: -1.0, ..Sdar::default() }, "gate_beta: must be 0 or more, not -1"),
        (Sdar { epsilon_low: 2.0, ..Sdar::default() }, "epsilon_low: must be 0 to 1, not 2"),
        (
            Sdar { gate: SdarGate::SoftOr, vocabulary: 1, ..Sdar::default() },
            "vocabulary: must be the number of tokens of the vocabulary, 2 or more, with `gate = \"entropy\"` or \
             \"soft_or\": entropies are divided by its logarithm, not 1",
        ),
    ] {
        assert_eq!(wrong.check().unwrap_err().to_string(), message);
    }
}
