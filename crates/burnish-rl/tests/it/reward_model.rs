//! Losses of reward models; golden numbers of TRL's and torch's own functions by `tests/golden/make_reward_model.py`.

use std::collections::BTreeMap;

use crate::common::{Batch, Grouped, is_near};
use burnish_rl::Objective;
use burnish_rl::reward_model::{BradleyTerry, Outcome};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    chosen: Vec<f64>,
    rejected: Vec<f64>,
    pairs: Vec<Pairs>,
    outcome: Labelled,
}

#[derive(Deserialize)]
struct Pairs {
    center: f64,
    loss: f64,
    /// Of the chosen ones, then of the rejected ones.
    gradient: Vec<f64>,
    metrics: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct Labelled {
    labels: Vec<bool>,
    loss: f64,
    gradient: Vec<f64>,
}

#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/reward_model.json")).unwrap()
}

/// Conversations of three tokens, whose last position has the reward.
fn batch(rewards: &[f64], labels: &[f64]) -> Batch {
    let tokens = 3 * rewards.len();
    let spread = |values: &[f64], rest: f64| values.iter().flat_map(|value| [rest, rest, *value]).collect();
    Batch {
        policy: spread(rewards, 9.0),
        proximal: vec![0.0; tokens],
        reference: vec![0.0; tokens],
        entropy: vec![0.0; tokens],
        advantage: spread(labels, 0.0),
        loss_mask: (0..tokens).map(|at| at % 3 == 2).collect(),
        sequences: (0..rewards.len()).map(|at| 3 * at..3 * at + 3).collect(),
        ..Batch::default()
    }
}

fn assert_all_near(found: impl Iterator<Item = f64>, expected: &[f64]) {
    let found: Vec<f64> = found.collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(is_near(*found, *expected, 1e-12), "{found} for {expected}");
    }
}

#[test]
fn pairs_are_learned_as_in_trl() {
    let Golden { chosen, rejected, pairs, .. } = golden();
    let rewards: Vec<f64> = chosen.iter().zip(&rejected).flat_map(|(w, l)| [*w, *l]).collect();
    let pairs_of = Grouped::new(batch(&rewards, &[0.0; 10]), 2);
    for Pairs { center, loss, gradient, metrics } in pairs {
        let found = BradleyTerry { center_coefficient: center }
            .evaluate(&pairs_of.streams(), &pairs_of.batch.totals());
        assert!(is_near(found.loss, loss, 1e-12), "{} for {loss}", found.loss);
        let of = |first: usize| found.d_policy.iter().skip(2).step_by(3).skip(first).step_by(2).copied();
        assert_all_near(of(0).chain(of(1)), &gradient);
        assert!((0..found.d_policy.len()).all(|at| at % 3 == 2 || found.d_policy[at] == 0.0));
        for metric in &found.metrics {
            let mean = metric.sum / metric.weight;
            assert!(is_near(mean, metrics[metric.name], 1e-6), "{}: {mean}", metric.name);
        }
    }
}

#[test]
fn labels_are_learned_as_by_torchs_cross_entropy() {
    let Golden { chosen, rejected, outcome, .. } = golden();
    let rewards = [chosen, rejected].concat();
    let labels: Vec<f64> = outcome.labels.iter().map(|is_right| if *is_right { 1.0 } else { -1.0 }).collect();
    let batch = batch(&rewards, &labels);
    let found = Outcome {}.evaluate(&batch.streams(), &batch.totals());
    assert!(is_near(found.loss, outcome.loss, 1e-12), "{} for {}", found.loss, outcome.loss);
    assert_all_near(found.d_policy.iter().skip(2).step_by(3).copied(), &outcome.gradient);
}
