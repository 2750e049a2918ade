//! The loss of a critic; golden numbers of verl's own function by `tests/golden/make_value_loss.py`.

use crate::common::{Batch, batches, is_near};
use burnish_rl::{Objective, ValueLoss};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    columns: usize,
    values: Vec<f64>,
    old: Vec<f64>,
    returns: Vec<f64>,
    mask: Vec<bool>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    clip_range: f64,
    loss: f64,
    clipped: f64,
    gradient: Vec<f64>,
}

#[test]
fn loss_gradient_and_clipped_share_are_those_of_verl() {
    let golden: Golden = serde_json::from_str(include_str!("../golden/value_loss.json")).unwrap();
    let rows = golden.values.len() / golden.columns;
    let batch = Batch {
        policy: golden.values,
        proximal: golden.old,
        advantage: golden.returns,
        reference: vec![0.0; rows * golden.columns],
        entropy: vec![0.0; rows * golden.columns],
        loss_mask: golden.mask,
        sequences: (0..rows).map(|row| row * golden.columns..(row + 1) * golden.columns).collect(),
        ..Batch::default()
    };
    for case in golden.cases {
        let found = ValueLoss { clip_range: case.clip_range }.evaluate(&batch.streams(), &batch.totals());
        assert!(is_near(found.loss, case.loss, 1e-7), "{} for {}", found.loss, case.loss);
        for (found, expected) in found.d_policy.iter().zip(&case.gradient) {
            assert!(is_near(*found, *expected, 1e-7), "{found} for {expected}");
        }
        let clipped = found.metrics.iter().find(|metric| metric.name == "critic/vf_clipfrac").unwrap();
        assert!(is_near(clipped.sum / clipped.weight, case.clipped, 1e-6));
        assert_eq!(case.clipped > 0.0, case.clip_range < 2.0, "the batch reaches the bounds that it should");
    }
}

proptest! {
    #[test]
    fn the_derivative_is_the_slope_and_the_clipped_loss_is_never_the_smaller(batch in batches(1.0)) {
        const STEP: f64 = 1e-6;
        let free = ValueLoss { clip_range: 0.0 };
        for loss in [free, ValueLoss { clip_range: 0.4 }] {
            let found = loss.evaluate(&batch.streams(), &batch.totals());
            prop_assert!(found.loss >= free.evaluate(&batch.streams(), &batch.totals()).loss - 1e-12);
            for at in 0..batch.policy.len() {
                let moved = |change: f64| {
                    let mut moved = batch.clone();
                    moved.policy[at] += change;
                    loss.evaluate(&moved.streams(), &moved.totals()).loss
                };
                let (after, before) = ((moved(STEP) - found.loss) / STEP, (found.loss - moved(-STEP)) / STEP);
                if is_near(after, before, 1e-4) {
                    prop_assert!(is_near(found.d_policy[at], 0.5 * (after + before), 1e-5));
                }
            }
        }
    }

    #[test]
    fn in_the_first_update_nothing_is_clipped(batch in batches(1.0)) {
        let batch = batch.on_policy();
        let clipped = ValueLoss { clip_range: 0.1 }.evaluate(&batch.streams(), &batch.totals());
        let free = ValueLoss { clip_range: 0.0 }.evaluate(&batch.streams(), &batch.totals());
        prop_assert_eq!(&clipped, &free);
    }
}
