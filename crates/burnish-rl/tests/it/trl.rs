//! TRL 1.16's own numbers, made by `tests/golden/make_trl.py`.

use crate::common::{Batch, Rows, clip, group_relative, is_near, loss};
use burnish_rl::advantage::{Grpo, Scale};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::{LossConfig, Objective, PolicyLoss, Totals};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Both sides compute in f64, and the file has 14 digits. The bar is 1e-5.
const TOLERANCE: f64 = 1e-11;
/// TRL counts in f32.
const TOLERANCE_METRICS: f64 = 1e-6;

#[derive(Deserialize)]
struct Golden {
    losses: Losses,
    advantages: Vec<AdvantageCase>,
}

#[derive(Deserialize)]
struct Losses {
    completion_tokens_max: usize,
    batches: BTreeMap<String, Rows>,
    cases: Vec<LossCase>,
}

#[derive(Deserialize)]
struct LossCase {
    name: String,
    loss_type: Aggregation,
    beta: f64,
    use_bias_correction_kl: bool,
    epsilon_low: f64,
    epsilon_high: f64,
    micro_batches: usize,
    minibatches: usize,
    tokens_generation: usize,
    loss: f64,
    gradient: Vec<Vec<f64>>,
    metrics: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct AdvantageCase {
    name: String,
    scale: Scale,
    group_size: usize,
    rewards: Vec<Option<f64>>,
    advantages: Vec<f64>,
    metrics: BTreeMap<String, f64>,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/trl.json")).unwrap()
}

/// The batches that TRL was given.
pub(crate) fn batches() -> BTreeMap<String, Batch> {
    golden().losses.batches.into_iter().map(|(name, rows)| (name, rows.batch())).collect()
}

/// The length of an answer that they are divided by.
pub(crate) fn completion_tokens_max() -> usize {
    golden().losses.completion_tokens_max
}

impl LossCase {
    fn objective(&self) -> PolicyLoss {
        loss(LossConfig {
            config: clip(self.epsilon_low, self.epsilon_high),
            beta: self.beta,
            use_bias_correction_kl: self.use_bias_correction_kl,
            aggregation: self.loss_type,
            ..LossConfig::default()
        })
    }

    fn totals(&self, batch: &Batch, completion_tokens_max: usize) -> Totals {
        Totals {
            tokens_generation: self.tokens_generation,
            minibatches: self.minibatches,
            completion_tokens_max,
            ..batch.totals()
        }
    }

    /// TRL's `bnpo` over several micro-batches, which it defines differently.
    fn depends_on_micro_batches(&self) -> bool {
        self.loss_type == Aggregation::Bnpo && self.micro_batches > 1
    }

    /// Every ratio is 1, and so are the bounds.
    fn is_on_bounds(&self) -> bool {
        self.name == "on_bounds"
    }
}

#[test]
fn grpo_has_the_loss_and_the_gradient_of_trl_for_every_aggregation() {
    let losses = golden().losses;
    let mut compared = BTreeMap::new();
    for case in losses.cases.iter().filter(|case| !case.depends_on_micro_batches() && !case.is_on_bounds()) {
        let batch = losses.batches[&case.name].batch();
        let totals = case.totals(&batch, losses.completion_tokens_max);
        let found = case.objective().evaluate(&batch.streams(), &totals);
        let what = format!("{} {:?} beta {}", case.name, case.loss_type, case.beta);
        assert!(is_near(found.loss, case.loss, TOLERANCE), "{what}: loss {} for {}", found.loss, case.loss);
        for (at, (found, expected)) in found.d_policy.iter().zip(case.gradient.concat()).enumerate() {
            assert!(is_near(*found, expected, TOLERANCE), "{what}: gradient {found} for {expected} at {at}");
        }
        *compared.entry(format!("{:?}", case.loss_type)).or_insert(0) += 1;
    }
    assert_eq!(compared.len(), 4);
    assert!(compared.values().all(|cases| *cases >= 9), "{compared:?}");
}

#[test]
fn grpo_has_the_metrics_of_trl() {
    let losses = golden().losses;
    let mut crossed = [false; 2];
    for case in losses.cases.iter().filter(|case| case.micro_batches == 1) {
        let batch = losses.batches[&case.name].batch();
        let found = case
            .objective()
            .evaluate(&batch.streams(), &case.totals(&batch, losses.completion_tokens_max))
            .metrics;
        let names: Vec<&str> = found.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), case.metrics.len(), "{names:?}");
        for metric in found {
            let (found, expected) = (metric.sum / metric.weight, case.metrics[metric.name]);
            assert!(
                is_near(found, expected, TOLERANCE_METRICS),
                "{}: {}: {found} for {expected}",
                case.name,
                metric.name
            );
        }
        crossed[0] |= case.metrics["clip_ratio/low_mean"] > 0.0;
        crossed[1] |= case.metrics["clip_ratio/high_mean"] > 0.0;
    }
    assert_eq!(crossed, [true; 2], "the golden batches cross both bounds");
}

#[test]
fn bnpo_over_several_micro_batches_is_not_that_of_trl() {
    let losses = golden().losses;
    let case = losses.cases.iter().find(|case| case.depends_on_micro_batches()).unwrap();
    let batch = losses.batches[&case.name].batch();
    let found =
        case.objective().evaluate(&batch.streams(), &case.totals(&batch, losses.completion_tokens_max));
    assert!(!is_near(found.loss, case.loss, 1e-3), "{} and {}", found.loss, case.loss);
}

#[test]
fn on_a_bound_torch_drops_the_half_of_the_gradient_that_goes_through_the_clamp() {
    let losses = golden().losses;
    for case in losses.cases.iter().filter(|case| case.is_on_bounds()) {
        let batch = losses.batches[&case.name].batch();
        let found =
            case.objective().evaluate(&batch.streams(), &case.totals(&batch, losses.completion_tokens_max));
        assert!(is_near(found.loss, case.loss, TOLERANCE), "the loss has no kink");
        for (found, torch) in found.d_policy.iter().zip(case.gradient.concat()) {
            assert!(is_near(*found, 2.0 * torch, TOLERANCE), "{found} for twice {torch}");
        }
    }
}

#[test]
fn advantages_are_those_of_trl() {
    let cases = golden().advantages;
    assert_eq!(cases.len(), 15);
    for case in cases {
        let config = Grpo { scale: case.scale, ..Grpo::default() };
        let credit = group_relative(&case.rewards, case.group_size, &config);
        let what = format!("{}, {:?}", case.name, case.scale);
        for ((found, expected), reward) in credit.advantages.iter().zip(&case.advantages).zip(&case.rewards) {
            assert_eq!(found.is_some(), reward.is_some(), "{what}");
            // TRL gives an unscored rollout 0.
            assert!(is_near(found.unwrap_or(0.0), *expected, TOLERANCE), "{what}: {found:?} for {expected}");
        }
        assert_eq!(credit.metrics.len(), case.metrics.len());
        for (name, found) in &credit.metrics {
            let expected = case.metrics[name];
            assert!(is_near(*found, expected, TOLERANCE_METRICS), "{what}: {name} {found} for {expected}");
        }
    }
}
