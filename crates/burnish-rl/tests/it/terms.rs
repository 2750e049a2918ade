//! Losses on parts of a batch.

use crate::common::{Batch, batches, is_near, loss};
use crate::off_policy;
use burnish_rl::aggregation::Aggregation;
use burnish_rl::terms::LossTerm;
use burnish_rl::{Evaluation, LossConfig, Objective, PartTotals, Streams, Totals};
use proptest::prelude::*;
use serde_json::json;

const AGGREGATIONS: [Aggregation; 4] =
    [Aggregation::Grpo, Aggregation::Bnpo, Aggregation::DrGrpo, Aggregation::Dapo];

fn term(objective: &str, weight: f64) -> LossTerm {
    LossTerm { objective: objective.into(), config: json!({}), on: String::new(), weight }
}

/// The batch with each token in the parts that `parts` names, and the counts of each part.
fn evaluate(batch: &Batch, objective: &dyn Objective, parts: &[u8]) -> Evaluation {
    let of_part = |part: usize| {
        let inside = (0..parts.len()).filter(|at| batch.loss_mask[*at] && parts[*at] >> part & 1 == 1);
        let positive = inside.clone().filter(|at| batch.advantage[*at] > 0.0).count();
        let tokens = inside.count();
        PartTotals { tokens, tokens_positive: positive, tokens_generation: 3 * tokens + 5 }
    };
    let totals = Totals { parts: std::array::from_fn(of_part), ..batch.totals() };
    objective.evaluate(&Streams { parts, ..batch.streams() }, &totals)
}

/// The counts of a part that is the whole batch.
fn of_totals(totals: &Totals) -> PartTotals {
    let Totals { tokens, tokens_positive, tokens_generation, .. } = *totals;
    PartTotals { tokens, tokens_positive, tokens_generation }
}

/// The batch without the tokens outside of a part.
fn only(batch: &Batch, parts: &[u8], part: usize) -> Batch {
    let inside = |at: usize| batch.loss_mask[at] && parts[at] >> part & 1 == 1;
    Batch { loss_mask: (0..parts.len()).map(inside).collect(), ..batch.clone() }
}

proptest! {
    #[test]
    fn each_term_is_its_loss_on_a_batch_of_its_part_alone(
        (batch, parts) in batches(0.5).prop_flat_map(|batch| {
            let tokens = batch.policy.len();
            (Just(batch), prop::collection::vec(1..8u8, tokens))
        }),
        aggregation in prop::sample::select(AGGREGATIONS.to_vec()),
        weight in -2.0..2.0f64,
    ) {
        let alone = LossConfig { aggregation, ..LossConfig::default() };
        let terms = vec![term("cispo", weight), term("positive_nll", 0.5)];
        let sum = evaluate(&batch, &*LossConfig { terms, ..alone.clone() }.build().unwrap(), &parts);
        let main = only(&batch, &parts, 0).evaluate(&loss(alone.clone()));
        let cispo = only(&batch, &parts, 1).evaluate(&loss(LossConfig { objective: "cispo".into(), ..alone }));
        let imitated = only(&batch, &parts, 2);
        let is_imitated = |at: usize| imitated.loss_mask[at] && imitated.advantage[at] > 0.0;
        let count = (0..parts.len()).filter(|at| is_imitated(*at)).count().max(1) as f64;
        for at in 0..parts.len() {
            let nll = if is_imitated(at) { -1.0 / count } else { 0.0 };
            let expected = main.d_policy[at] + weight * cispo.d_policy[at] + 0.5 * nll;
            prop_assert!(is_near(sum.d_policy[at], expected, 1e-12), "{} for {expected}", sum.d_policy[at]);
        }
        let nll: f64 = (0..parts.len()).filter(|at| is_imitated(*at)).map(|at| -imitated.policy[at] / count).sum();
        prop_assert!(is_near(sum.loss, main.loss + weight * cispo.loss + 0.5 * nll, 1e-9));
    }

    #[test]
    fn the_divergence_from_the_proximal_policy_has_its_derivative_and_is_nothing_before_the_first_update(
        batch in batches(0.5),
        aggregation in prop::sample::select(AGGREGATIONS.to_vec()),
    ) {
        const STEP: f64 = 1e-5;
        let all = vec![u8::MAX; batch.policy.len()];
        let of = |batch: &Batch, weight: f64| {
            let terms = vec![term("proximal_kl", weight)];
            let sum = LossConfig { aggregation, terms, ..LossConfig::default() }.build().unwrap();
            let main = loss(LossConfig { aggregation, ..LossConfig::default() });
            let (with, without) = (evaluate(batch, &*sum, &all), batch.evaluate(&main));
            let slopes: Vec<f64> = with.d_policy.iter().zip(&without.d_policy).map(|(own, main)| own - main).collect();
            (with.loss - without.loss, slopes)
        };
        let (value, slopes) = of(&batch, 2.0);
        prop_assert!(value >= -1e-12);
        for (at, slope) in slopes.iter().enumerate() {
            let moved = |step: f64| {
                let mut batch = batch.clone();
                batch.policy[at] += step;
                of(&batch, 2.0).0
            };
            let expected = (moved(STEP) - moved(-STEP)) / (2.0 * STEP);
            prop_assert!(is_near(*slope, expected, 1e-6), "{slope} for {expected}");
        }
        let first = Batch { proximal: batch.policy.clone(), ..batch };
        let (value, slopes) = of(&first, 2.0);
        prop_assert!(value == 0.0 && slopes.iter().all(|slope| *slope == 0.0));
    }

    /// The loss of `[loss]` has its batch constants on its own part, as if the batch had no other tokens.
    #[test]
    fn a_loss_that_looks_at_the_whole_batch_sees_its_own_part(
        (batch, parts) in batches(0.5).prop_flat_map(|batch| {
            let tokens = batch.policy.len();
            (Just(batch), prop::collection::vec(1..4u8, tokens))
        }),
    ) {
        for quantile in [LossConfig { top_entropy_quantile: 0.5, ..LossConfig::default() },
                         LossConfig { objective: "m2po".into(), ..LossConfig::default() }] {
            let both = LossConfig { terms: vec![term("positive_nll", 0.0)], ..quantile.clone() };
            let sum = both.build().unwrap();
            let main = only(&batch, &parts, 0);
            let expected = main.evaluate(&loss(quantile));
            let totals = Totals { parts: [of_totals(&main.totals()); 8], ..main.totals() };
            let streams = Streams { parts: &parts, ..batch.streams() };
            let batch_constants = sum.batch_constants(&streams, &totals);
            let found = sum.evaluate(&Streams { batch_constants: &batch_constants, ..streams }, &totals);
            prop_assert_eq!((found.loss, found.d_policy), (expected.loss, expected.d_policy));
        }
    }

    #[test]
    fn without_weight_it_is_the_main_loss(batch in batches(0.5)) {
        let main = batch.evaluate(&loss(LossConfig::default()));
        let all = vec![u8::MAX; batch.policy.len()];
        let with = |terms: Vec<LossTerm>| {
            evaluate(&batch, &*LossConfig { terms, ..LossConfig::default() }.build().unwrap(), &all)
        };
        let weightless = with(vec![term("cispo", 0.0)]);
        prop_assert_eq!((weightless.loss, &weightless.d_policy), (main.loss, &main.d_policy));
    }
}

#[test]
fn terms_are_checked_like_the_loss_that_they_are() {
    let problem = |term: serde_json::Value| {
        let loss: LossConfig =
            serde_json::from_value(json!({"terms": [{"objective": "cispo", "weight": 1.0}, term]})).unwrap();
        let error = loss.complete().unwrap_err();
        format!("{}: {}", error.key, error.problem)
    };
    let found = problem(json!({"objective": "cipso", "weight": 1.0}));
    assert!(found.starts_with("terms[1].objective") && found.contains("cispo"), "{found}");
    let found = problem(json!({"objective": "dpo", "weight": 1.0}));
    assert!(found.starts_with("terms[1].objective"), "{found}");
    let found = problem(json!({"objective": "positive_nll", "weight": 1.0, "config": {"x": 1}}));
    assert!(found.starts_with("terms[1].config.x"), "{found}");
    let found = problem(json!({"objective": "m2po", "weight": 1.0}));
    assert!(found.starts_with("terms[1].objective") && found.contains("whole batch first"), "{found}");
    let many = LossConfig { terms: vec![term("cispo", 1.0); 8], ..LossConfig::default() };
    assert!(many.complete().unwrap_err().problem.contains("7 at most"));
    // What a term leaves out is written down.
    let loss = LossConfig { terms: vec![term("ppo_clip", 1.0)], ..LossConfig::default() };
    assert!(loss.complete().unwrap().terms[0].config.get("epsilon_low").is_some());
}

#[test]
fn the_divergence_from_the_proximal_policy_is_that_of_switch() {
    let batch = off_policy::OffPolicy::of_rows(&off_policy::golden().batch).batch;
    let all = vec![u8::MAX; batch.policy.len()];
    // One optimiser batch is the generation.
    let of = |terms: Vec<LossTerm>| {
        let config = LossConfig { aggregation: Aggregation::Bnpo, terms, ..LossConfig::default() };
        evaluate(&batch, &*config.build().unwrap(), &all)
    };
    let (on, off) = (of(vec![term("proximal_kl", 0.7)]), of(vec![term("positive_nll", 0.0)]));
    let positions: Vec<usize> = (0..batch.policy.len()).filter(|at| batch.loss_mask[*at]).collect();
    // rho - 1 - ln rho, as SWITCH writes it, and its derivative by ln rho.
    let rho = |at: usize| (batch.policy[at] - batch.proximal[at]).exp();
    let mean = positions.iter().map(|&at| rho(at) - 1.0 - rho(at).ln()).sum::<f64>() / positions.len() as f64;
    assert!(mean > 1e-3 && is_near(on.loss, off.loss + 0.7 * mean, 1e-12));
    for &at in &positions {
        let expected = off.d_policy[at] + 0.7 * (rho(at) - 1.0) / positions.len() as f64;
        assert!(is_near(on.d_policy[at], expected, 1e-12));
    }
    let metric = |found: &Evaluation| {
        let metric = found.metrics.iter().find(|metric| metric.name == "proximal_kl")?;
        Some(metric.sum / metric.weight)
    };
    assert!(metric(&on).is_some_and(|found| is_near(found, mean, 1e-12)));
    assert_eq!(metric(&off), None);
}
