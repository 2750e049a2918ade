//! The loss of a critic.

use crate::common::{batches, is_near};
use burnish_rl::{Objective, ValueLoss};
use proptest::prelude::*;

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
