//! Which token weighs what. verl's own numbers are in `correction.rs`, TRL's in `trl.rs`.

use crate::common::{Batch, batches, is_near, loss};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::{LossConfig, Objective, Streams, Totals};
use proptest::prelude::*;
use std::ops::Range;

/// All of them.
pub(crate) const AGGREGATIONS: [Aggregation; 7] = [
    Aggregation::Grpo,
    Aggregation::Bnpo,
    Aggregation::DrGrpo,
    Aggregation::Dapo,
    Aggregation::PromptMean,
    Aggregation::SeqMeanTokenSum,
    Aggregation::TokenSum,
];

fn totals(batch: &Batch, groups: &[Range<usize>]) -> Totals {
    let totals = batch.totals();
    Totals { groups: groups.len(), tokens_generation: totals.tokens, minibatches: 1, ..totals }
}

/// The loss and the derivative, with sequences in these groups.
fn evaluate(batch: &Batch, groups: &[Range<usize>], aggregation: Aggregation) -> (f64, Vec<f64>) {
    let objective = loss(LossConfig { aggregation, ..LossConfig::default() });
    let streams = Streams { groups, ..batch.streams() };
    let found = objective.evaluate(&streams, &totals(batch, groups));
    (found.loss, found.d_policy)
}

fn scaled((loss, d_policy): (f64, Vec<f64>), by: f64) -> (f64, Vec<f64>) {
    (loss * by, d_policy.into_iter().map(|derivative| derivative * by).collect())
}

fn are_near(found: &(f64, Vec<f64>), expected: &(f64, Vec<f64>)) -> bool {
    let derivatives = || found.1.iter().zip(&expected.1);
    is_near(found.0, expected.0, 1e-12)
        && derivatives().all(|(found, expected)| is_near(*found, *expected, 1e-12))
}

proptest! {
    #[test]
    fn groups_of_one_are_sequences_and_one_group_is_the_batch(batch in batches(1.0)) {
        let count = batch.sequences.len();
        let singles: Vec<Range<usize>> = (0..count).map(|at| at..at + 1).collect();
        let by_prompt = evaluate(&batch, &singles, Aggregation::PromptMean);
        prop_assert_eq!(by_prompt, evaluate(&batch, &singles, Aggregation::Grpo));
        let whole = [0..count; 1];
        let by_prompt = evaluate(&batch, &whole, Aggregation::PromptMean);
        prop_assert_eq!(by_prompt, evaluate(&batch, &whole, Aggregation::Bnpo));
    }

    #[test]
    fn sums_are_means_times_their_divisor(batch in batches(1.0)) {
        let totals = totals(&batch, &[]);
        let sum = evaluate(&batch, &[], Aggregation::TokenSum);
        for (aggregation, divisor) in [
            (Aggregation::SeqMeanTokenSum, totals.sequences),
            (Aggregation::Bnpo, totals.tokens.max(1)),
            (Aggregation::DrGrpo, totals.sequences * totals.completion_tokens_max),
        ] {
            let found = scaled(evaluate(&batch, &[], aggregation), divisor as f64);
            prop_assert!(are_near(&found, &sum), "{aggregation:?}");
        }
    }

    #[test]
    fn a_constant_of_ones_own_takes_the_place_of_the_longest_completion(batch in batches(1.0)) {
        let with = LossConfig { aggregation: Aggregation::DrGrpo, loss_scale_factor: 18, ..LossConfig::default() };
        let found = batch.evaluate(&loss(with));
        // The batch says 9.
        let expected = scaled(evaluate(&batch, &[], Aggregation::DrGrpo), 0.5);
        prop_assert!(are_near(&(found.loss, found.d_policy), &expected));
    }
}

#[test]
fn a_prompt_weighs_the_same_however_many_tokens_its_group_has() {
    let batch = Batch {
        policy: vec![-1.0; 6],
        proximal: vec![-1.0; 6],
        reference: vec![-1.0; 6],
        entropy: vec![0.0; 6],
        advantage: vec![1.0; 6],
        loss_mask: vec![true, true, true, true, false, true],
        sequences: vec![0..1, 1..4, 4..6],
        ..Batch::default()
    };
    let (_, found) = evaluate(&batch, &[0..2, 2..3], Aggregation::PromptMean);
    assert_eq!(found, [-0.125, -0.125, -0.125, -0.125, 0.0, -0.5]);
}

#[test]
#[should_panic(expected = "the aggregation needs groups")]
fn a_mean_over_groups_without_groups_is_refused() {
    let batch = Batch {
        policy: vec![-1.0],
        proximal: vec![-1.0],
        reference: vec![-1.0],
        entropy: vec![0.0],
        advantage: vec![1.0],
        loss_mask: vec![true],
        sequences: std::iter::once(0..1).collect(),
        ..Batch::default()
    };
    evaluate(&batch, &[], Aggregation::PromptMean);
}

#[test]
fn only_a_mean_over_groups_asks_for_them() {
    for aggregation in AGGREGATIONS {
        let needs = loss(LossConfig { aggregation, ..LossConfig::default() }).needs();
        assert_eq!(needs.groups, aggregation == Aggregation::PromptMean);
    }
}
