//! Off-policy corrections: verl's and TRL's own numbers, made by `tests/golden/make_correction.py`, and what is
//! refused.

use crate::common::{clip, is_near, loss};
use crate::off_policy::{OffPolicy, TOLERANCE, TOLERANCE_MEANS, golden, mean};
use burnish_rl::LossConfig;
use burnish_rl::aggregation::Aggregation;
use burnish_rl::correction::{
    CorrectionConfig, Rejected, WeightConfig, WeightLevel, loglinear_proximal, loglinear_share,
};

/// What verl calls so.
pub(crate) fn aggregation(loss_agg_mode: &str) -> Aggregation {
    match loss_agg_mode {
        "token-mean" => Aggregation::Bnpo,
        "token-sum" => Aggregation::TokenSum,
        "seq-mean-token-sum" => Aggregation::SeqMeanTokenSum,
        "seq-mean-token-sum-norm" => Aggregation::DrGrpo,
        _ => Aggregation::Grpo,
    }
}

#[test]
fn weights_and_rejections_are_those_of_verl() {
    let golden = golden();
    let batch = OffPolicy::of_rows(&golden.batch);
    let (mut weighted, mut rejecting) = (0, 0);
    for case in golden.verl_corrections {
        let config = case.correction;
        config.check().unwrap();
        let said = batch.corrected(&config);
        let normaliser = config.weight.normaliser(said.iter().map(|(_, said)| &said.weights[..]));
        let (weights, kept) = (case.weights.map(|rows| rows.concat()), case.kept.concat());
        for (positions, said) in &said {
            for (own, at) in positions.iter().enumerate() {
                assert_eq!(said.kept[own], kept[*at] == 1, "{config:?} at {at}");
                let expected = weights.as_ref().map_or(1.0, |weights| weights[*at]);
                let found = said.weights[own] * normaliser;
                let tolerance = if config.weight.batch_normalize { TOLERANCE_MEANS } else { TOLERANCE };
                assert!(is_near(found, expected, tolerance), "{config:?}: {found} for {expected}");
            }
        }
        weighted += usize::from(weights.is_some());
        let tokens: usize = said.iter().map(|(positions, _)| positions.len()).sum();
        let kept = kept.iter().filter(|kept| **kept == 1).count();
        rejecting += usize::from(0 < kept && kept < tokens);
    }
    assert!(weighted == 8 && rejecting >= 11, "{weighted} {rejecting}");
}

#[test]
fn diagnostics_are_those_of_verl() {
    let golden = golden();
    let batch = OffPolicy::of_rows(&golden.batch);
    let mut compared = 0;
    for case in golden.verl_corrections.into_iter().filter(|case| case.correction.is_on()) {
        let what = format!("{:?}", case.correction);
        let found =
            batch.evaluate(&loss(LossConfig { correction: case.correction, ..LossConfig::default() }), 9);
        for (name, expected) in case.metrics {
            let found = mean(&found, &name).unwrap_or(f64::NAN);
            assert!(is_near(found, expected, TOLERANCE_MEANS), "{what}: {name}: {found} for {expected}");
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
    let off = batch.evaluate(&loss(LossConfig::default()), 9);
    assert!(off.metrics.iter().all(|metric| !metric.name.starts_with("rollout_corr/")));
}

#[test]
fn corrected_losses_and_gradients_are_those_of_verl() {
    let golden = golden();
    let batch = OffPolicy::of_rows(&golden.batch);
    let cases = golden.verl_losses;
    assert_eq!(cases.len(), 19);
    for case in cases {
        let aggregation = aggregation(&case.loss_agg_mode);
        let rejected = if case.correction.reject.is_empty() { Rejected::Zero } else { Rejected::Remove };
        let config = LossConfig {
            config: clip(0.2, 0.28),
            beta: case.kl_loss_coef,
            use_bias_correction_kl: false,
            kl_clamp: 10.0,
            aggregation,
            correction: CorrectionConfig { rejected, ..case.correction.clone() },
            ..LossConfig::default()
        };
        let found = batch.evaluate(&loss(config), golden.tokens_max);
        let what = format!("{} {:?}", case.loss_agg_mode, case.correction);
        let is_mean = aggregation == Aggregation::Grpo || case.correction.weight.batch_normalize;
        let tolerance = if is_mean { TOLERANCE_MEANS } else { TOLERANCE };
        assert!(is_near(found.loss, case.loss, tolerance), "{what}: {} for {}", found.loss, case.loss);
        for (found, expected) in found.d_policy.iter().zip(case.gradient.concat()) {
            assert!(is_near(*found, expected, tolerance), "{what}: gradient {found} for {expected}");
        }
    }
}

#[test]
fn aggregations_are_those_of_verl() {
    let golden = golden();
    let batch = OffPolicy::of_rows(&golden.batch);
    let totals = batch.totals(golden.tokens_max);
    assert_eq!(golden.aggregations.len(), 5);
    for case in golden.aggregations {
        let aggregation = aggregation(&case.loss_agg_mode);
        let tolerance = if aggregation == Aggregation::Grpo { TOLERANCE_MEANS } else { TOLERANCE };
        let gradient = case.gradient.concat();
        let mut value = 0.0;
        for sequence in &batch.batch.sequences {
            let positions: Vec<usize> = batch.streams().loss_positions(sequence.clone()).collect();
            let denominator = aggregation.denominator(positions.len(), &totals);
            for at in positions {
                value += batch.batch.policy[at] / denominator;
                assert!(is_near(1.0 / denominator, gradient[at], tolerance), "{aggregation:?}");
            }
        }
        assert!(is_near(value, case.value, tolerance), "{aggregation:?}: {value} for {}", case.value);
    }
}

#[test]
fn importance_sampling_modes_masks_and_entropy_terms_are_those_of_trl() {
    let golden = golden();
    let batch = OffPolicy::of_rows(&golden.batch);
    assert_eq!(golden.trl_losses.len(), 20);
    for case in golden.trl_losses {
        let config = LossConfig { config: clip(0.2, 0.28), ..case.loss };
        let what = format!("{:?} {:?}", config.aggregation, config.correction);
        let found = batch.evaluate(&loss(config), golden.tokens_max);
        assert!(is_near(found.loss, case.value, TOLERANCE), "{what}: {} for {}", found.loss, case.value);
        for (found, expected) in found.d_policy.iter().zip(case.gradient.concat()) {
            assert!(is_near(*found, expected, TOLERANCE), "{what}: gradient {found} for {expected}");
        }
        for (found, expected) in found.d_entropy.iter().zip(case.d_entropy.concat()) {
            assert!(is_near(*found, expected, TOLERANCE), "{what}: by entropy {found} for {expected}");
        }
    }
}

#[test]
fn a_log_linear_proximal_lies_between_behavior_and_policy_by_age() {
    for case in golden().loglinear {
        let sampled = u64::try_from(case.sampled).ok();
        let share = loglinear_share(sampled, case.current.saturating_sub(1), case.current);
        let found = loglinear_proximal(case.behavior, case.policy, share);
        assert!(is_near(found, case.proximal, TOLERANCE), "{} of {}", case.sampled, case.current);
    }
    assert_eq!(loglinear_share(Some(3), 3, 4), 0.0, "of the version before: its own proximal");
    assert_eq!(loglinear_share(Some(2), 3, 4), 0.5);
    // Two steps behind are two steps behind, however many updates a step makes.
    assert_eq!(loglinear_share(Some(12), 20, 24), loglinear_share(Some(3), 5, 6));
    assert_eq!(loglinear_proximal(-2.0, -1.0, 0.5), -1.5);
}

#[test]
fn in_bypass_mode_every_weight_and_rejection_is_of_the_policy_itself() {
    let batch = OffPolicy::of_rows(&golden().batch);
    let weight = WeightConfig { level: WeightLevel::Token, max: 1e9, ..WeightConfig::default() };
    let bypass = CorrectionConfig { bypass: true, weight, ..CorrectionConfig::default() };
    let decoupled = CorrectionConfig { bypass: false, ..bypass.clone() };
    let (mut moved, streams) = (false, batch.streams());
    for (positions, said) in batch.corrected(&bypass) {
        for (at, weight) in positions.iter().zip(said.weights) {
            assert_eq!(weight, (streams.policy[*at] - streams.behavior[*at]).exp());
            moved |= streams.policy[*at] != streams.proximal[*at];
        }
    }
    assert!(moved && batch.corrected(&decoupled) != batch.corrected(&bypass));
}

#[test]
fn values_out_of_range_are_refused_by_key() {
    for (wrong, message) in [
        (r#"{"weight": {"max": 0.0}}"#, "correction.weight.max: must be above 0, not 0"),
        (
            r#"{"weight": {"min": 2.5}}"#,
            "correction.weight.min: must be 0 (no bound) to 2 (correction.weight.max)",
        ),
        (
            r#"{"off_policy_mask_threshold": -1.0}"#,
            "correction.off_policy_mask_threshold: must be 0 (off) or more",
        ),
        (
            r#"{"reject": [{"statistic": "seq_max_k2", "max": 0.0}]}"#,
            "correction.reject: must have a `max` above 0",
        ),
        (
            r#"{"reject": [{"statistic": "token_k3", "min": 0.1, "max": 1.0}]}"#,
            "correction.reject: must have no `min` for `token_k3`",
        ),
        (
            r#"{"reject": [{"statistic": "token_k1", "min": 3.0, "max": 2.0}]}"#,
            "correction.reject: must have a `min` of 0 (one over `max`) to `max` for `token_k1`",
        ),
        (
            r#"{"reject": [{"statistic": "seq_mean_k1", "max": 0.9}]}"#,
            "correction.reject: must have a `min` for `seq_mean_k1` where `max` is below 1",
        ),
        (
            r#"{"reject": [{"statistic": "token_k2", "max": 0.9}, {"statistic": "token_k2", "max": 1.9}]}"#,
            "correction.reject: has `token_k2` twice",
        ),
    ] {
        let correction: CorrectionConfig = serde_json::from_str(wrong).unwrap();
        let error = LossConfig { correction, ..LossConfig::default() }.complete().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    assert!(
        serde_json::from_str::<CorrectionConfig>(r#"{"reject": [{"statistic": "seq_max_k1", "max": 1}]}"#)
            .is_err()
    );
    for (wrong, message) in [
        (LossConfig { kl_clamp: -1.0, ..LossConfig::default() }, "kl_clamp: must be 0 (no bound) or more"),
        (LossConfig { entropy_coef: f64::NAN, ..LossConfig::default() }, "entropy_coef: must be a number"),
        (
            LossConfig { top_entropy_quantile: 1.5, ..LossConfig::default() },
            "top_entropy_quantile: must be 0 to 1",
        ),
    ] {
        let error = wrong.complete().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}
