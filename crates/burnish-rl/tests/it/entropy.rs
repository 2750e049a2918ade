//! The entropy bonus, the tokens of high entropy, and the imitation of successes. The losses with them are compared
//! with TRL's in `correction.rs`.

use crate::common::{is_near, loss};
use crate::correction::aggregation;
use crate::off_policy::{AdaptiveCase, OffPolicy, TOLERANCE, TOLERANCE_MEANS, golden, mean};
use burnish_rl::LossConfig;
use burnish_rl::entropy::{AdaptiveEntropy, quantile};

#[test]
fn the_coefficient_of_the_entropy_is_that_of_trl() {
    let AdaptiveCase { settings, steps } = golden().adaptive_entropy;
    settings.check().unwrap();
    let mut coef = steps[0].coef;
    let mut before = f64::INFINITY;
    for step in &steps {
        assert!(is_near(coef, step.coef, TOLERANCE), "{coef} for {}", step.coef);
        assert!(is_near(settings.applied(coef, before), step.applied, TOLERANCE), "{coef} after {before}");
        coef = settings.next(coef, step.entropy);
        before = step.entropy;
        assert!(is_near(coef, step.next, TOLERANCE), "{coef} for {}", step.next);
    }
    assert!(
        [settings.coef_min, settings.coef_max]
            .iter()
            .all(|bound| steps.iter().any(|step| step.next == *bound))
    );
    let off = AdaptiveEntropy::default();
    assert_eq!((off.next(0.3, 0.0), off.applied(0.3, f64::INFINITY)), (0.3, 0.3));
}

#[test]
fn a_quantile_is_that_of_the_definition() {
    // torch.quantile(torch.tensor([3., 1., 2., 4., 10.]), q)
    let values = [3.0, 1.0, 2.0, 4.0, 10.0];
    for (share, expected) in [(0.0, 1.0), (0.25, 2.0), (0.5, 3.0), (0.625, 3.5), (0.875, 7.0), (1.0, 10.0)] {
        assert_eq!(quantile(&values, share), expected);
    }
    assert_eq!(quantile(&[5.0], 0.3), 5.0);
    assert_eq!(quantile(&[], 0.3), f64::INFINITY);
}

#[test]
fn only_tokens_of_high_entropy_are_trained_on_and_all_keep_their_distance() {
    let batch = OffPolicy::of_rows(&golden().batch);
    let objective = loss(LossConfig { top_entropy_quantile: 0.0, ..LossConfig::default() });
    let found = batch.evaluate(&objective, 9);
    let streams = batch.streams();
    let highest = |at: &usize| {
        let others = streams.loss_positions(0..streams.policy.len());
        others.into_iter().all(|other| streams.entropy[other] <= streams.entropy[*at])
    };
    let most: Vec<usize> = streams.loss_positions(0..streams.policy.len()).filter(highest).collect();
    assert!(found.d_policy.iter().enumerate().all(|(at, d)| *d == 0.0 || most.contains(&at)));
    let expected = most.iter().map(|at| streams.entropy[*at]).sum::<f64>() / most.len() as f64;
    assert_eq!(mean(&found, "entropy_top"), Some(expected));
    let with_kl = loss(LossConfig { top_entropy_quantile: 0.0, beta: 0.1, ..LossConfig::default() });
    let with_kl = batch.evaluate(&with_kl, 9).d_policy;
    let moved = |at: &usize| with_kl[*at] != 0.0;
    assert!(streams.loss_positions(0..streams.policy.len()).filter(moved).count() > most.len());
}

#[test]
fn bounds_of_the_coefficient_that_cross_are_refused() {
    let wrong = AdaptiveEntropy { coef_min: 2.0, ..AdaptiveEntropy::default() };
    assert!(wrong.check().unwrap_err().to_string().starts_with("adaptive_entropy.coef_max: must be 2"));
}

/// verl's entropy loss is `agg_loss` of the entropies.
#[test]
fn a_bonus_by_the_aggregation_has_the_denominators_of_verl() {
    let golden = golden();
    let batch = OffPolicy::of_rows(&golden.batch);
    for case in golden.aggregations {
        let config = LossConfig {
            aggregation: aggregation(&case.loss_agg_mode),
            entropy_coef: 0.25,
            use_entropy_aggregation: true,
            ..LossConfig::default()
        };
        let found = batch.evaluate(&loss(config), golden.tokens_max);
        for (found, expected) in found.d_entropy.iter().zip(case.gradient.concat()) {
            assert!(is_near(*found, -0.25 * expected, TOLERANCE_MEANS), "{}", case.loss_agg_mode);
        }
    }
}
