//! Off-policy corrections: what they reduce to, and what never changes.

use crate::aggregation::AGGREGATIONS;
use crate::common::{is_near, loss};
use crate::off_policy::{OffPolicy, off_policy};
use burnish_rl::correction::{
    CorrectionConfig, Rejected, Rejection, Statistic, WeightAction, WeightConfig, WeightLevel,
};
use burnish_rl::{LossConfig, Objective};
use proptest::prelude::*;
use serde_json::Value;

/// Everything that can be on at the same time.
pub(crate) fn everything() -> CorrectionConfig {
    let reject = [(Statistic::TokenK1, 2.5), (Statistic::SeqMeanK3, 0.8), (Statistic::SeqMaxK2, 3.0)];
    CorrectionConfig {
        weight: WeightConfig {
            level: WeightLevel::Geometric,
            max: 1.4,
            batch_normalize: true,
            ..WeightConfig::default()
        },
        reject: reject.map(|(statistic, max)| Rejection { statistic, min: 0.0, max }).to_vec(),
        rejected: Rejected::Remove,
        off_policy_mask_threshold: 0.3,
        ..CorrectionConfig::default()
    }
}

fn terms(correction: CorrectionConfig) -> LossConfig {
    LossConfig {
        correction,
        beta: 0.1,
        entropy_coef: 0.2,
        top_entropy_quantile: 0.6,
        ..LossConfig::default()
    }
}

proptest! {
    #[test]
    fn the_policy_that_sampled_is_the_proximal_one_and_nothing_changes(batch in off_policy(1.0)) {
        let batch = OffPolicy { behavior: batch.batch.proximal.clone(), ..batch };
        let plain = batch.evaluate(&loss(LossConfig::default()), 9);
        for level in [WeightLevel::Token, WeightLevel::Sequence, WeightLevel::Geometric] {
            for action in [WeightAction::Truncate, WeightAction::Mask] {
                let weight = WeightConfig { level, action, min: 0.5, ..WeightConfig::default() };
                let reject = vec![Rejection { statistic: Statistic::SeqSumK1, min: 0.0, max: 1.0 }];
                let correction = CorrectionConfig { weight, reject, ..CorrectionConfig::default() };
                for (_, said) in batch.corrected(&correction) {
                    prop_assert!(said.weights.iter().all(|weight| *weight == 1.0));
                    prop_assert!(said.kept.iter().chain(&said.unmasked).all(|kept| *kept));
                }
                let found = batch.evaluate(&loss(LossConfig { correction, ..LossConfig::default() }), 9);
                prop_assert_eq!((found.loss, found.d_policy), (plain.loss, plain.d_policy.clone()));
            }
        }
        let bypass = CorrectionConfig { bypass: true, ..CorrectionConfig::default() };
        let found = batch.evaluate(&loss(LossConfig { correction: bypass, ..LossConfig::default() }), 9);
        prop_assert_eq!((found.loss, found.d_policy), (plain.loss, plain.d_policy));
    }

    #[test]
    fn bounds_that_nothing_reaches_change_nothing(batch in off_policy(1.0)) {
        let plain = batch.evaluate(&loss(LossConfig::default()), 9);
        let reject = [Statistic::TokenK1, Statistic::SeqSumK2, Statistic::SeqMaxK3]
            .map(|statistic| Rejection { statistic, min: 0.0, max: 1e12 });
        for rejected in [Rejected::Zero, Rejected::Remove] {
            let correction = CorrectionConfig {
                reject: reject.to_vec(),
                rejected,
                off_policy_mask_threshold: 1e12,
                ..CorrectionConfig::default()
            };
            let found = batch.evaluate(&loss(LossConfig { correction, ..LossConfig::default() }), 9);
            prop_assert_eq!((found.loss, &found.d_policy), (plain.loss, &plain.d_policy));
        }
    }

    #[test]
    fn with_one_token_a_sequence_every_level_is_the_same(log_ratio in -3.0..3.0f64) {
        let of = |level| WeightConfig { level, ..WeightConfig::default() }.weights(&[log_ratio]);
        prop_assert_eq!(of(WeightLevel::Token), of(WeightLevel::Sequence));
        prop_assert_eq!(of(WeightLevel::Token), of(WeightLevel::Geometric));
        for same in [
            [Statistic::TokenK1, Statistic::SeqSumK1, Statistic::SeqMeanK1],
            [Statistic::TokenK2, Statistic::SeqSumK2, Statistic::SeqMaxK2],
            [Statistic::TokenK3, Statistic::SeqMeanK3, Statistic::SeqMaxK3],
        ] {
            prop_assert_eq!(same[0].values(&[log_ratio]), same[1].values(&[log_ratio]));
            prop_assert_eq!(same[0].values(&[log_ratio]), same[2].values(&[log_ratio]));
        }
    }

    #[test]
    fn removed_tokens_leave_the_loss_as_if_they_had_no_loss_mask(batch in off_policy(1.5)) {
        let reject = vec![
            Rejection { statistic: Statistic::TokenK1, min: 0.5, max: 2.0 },
            Rejection { statistic: Statistic::SeqMeanK2, min: 0.0, max: 0.5 },
        ];
        let correction = CorrectionConfig { reject, rejected: Rejected::Remove, ..CorrectionConfig::default() };
        let mut masked = batch.clone();
        for (positions, said) in batch.corrected(&correction) {
            positions.iter().zip(said.kept).for_each(|(at, kept)| masked.batch.loss_mask[*at] = kept);
        }
        for aggregation in AGGREGATIONS {
            let config = LossConfig { aggregation, beta: 0.1, entropy_coef: 0.2, ..LossConfig::default() };
            let expected = masked.evaluate(&loss(config.clone()), 9);
            let found = batch.evaluate(&loss(LossConfig { correction: correction.clone(), ..config }), 9);
            prop_assert!(is_near(found.loss, expected.loss, 1e-12), "{aggregation:?}");
            for (found, expected) in found.d_policy.iter().zip(expected.d_policy) {
                prop_assert!(is_near(*found, expected, 1e-12), "{aggregation:?}: {found} for {expected}");
            }
            for (found, expected) in found.d_entropy.iter().zip(expected.d_entropy) {
                prop_assert!(is_near(*found, expected, 1e-12), "{aggregation:?}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn the_size_of_micro_batches_changes_nothing_with_everything_on(batch in off_policy(1.0), cut in 0usize..4) {
        let cut = cut.min(batch.groups.len());
        let totals = batch.totals(9);
        for aggregation in AGGREGATIONS {
            let objective = loss(LossConfig { aggregation, ..terms(everything()) });
            let batch = batch.marked(&objective);
            let whole = objective.evaluate(&batch.streams(), &totals);
            let parts = [0..cut, cut..batch.groups.len()].map(|groups| batch.part(groups));
            let parts = parts.map(|part| objective.evaluate(&part.streams(), &totals));
            prop_assert!(is_near(parts[0].loss + parts[1].loss, whole.loss, 1e-9), "{aggregation:?}");
            prop_assert_eq!([&parts[0].d_policy[..], &parts[1].d_policy[..]].concat(), whole.d_policy);
            prop_assert_eq!([&parts[0].d_entropy[..], &parts[1].d_entropy[..]].concat(), whole.d_entropy);
            for metric in &whole.metrics {
                let sum = |of: fn(&burnish_rl::Metric) -> f64| -> f64 {
                    parts.iter().flat_map(|part| &part.metrics).filter(|own| own.name == metric.name).map(of).sum()
                };
                prop_assert!(is_near(sum(|own| own.sum), metric.sum, 1e-9), "{}", metric.name);
                prop_assert!(is_near(sum(|own| own.weight), metric.weight, 1e-9), "{}", metric.name);
            }
        }
    }

    #[test]
    fn derivatives_with_everything_on_are_those_of_finite_differences(batch in off_policy(1.0)) {
        const STEP: f64 = 1e-6;
        for aggregation in AGGREGATIONS {
            let objective = loss(LossConfig { aggregation, ..terms(everything()) });
            let batch = batch.marked(&objective);
            let totals = batch.totals(9);
            let value = |batch: &OffPolicy| objective.evaluate(&batch.streams(), &totals).loss;
            let found = objective.evaluate(&batch.streams(), &totals);
            for at in 0..batch.behavior.len() {
                let mut sides = [batch.clone(), batch.clone()];
                sides[0].batch.policy[at] -= STEP;
                sides[1].batch.policy[at] += STEP;
                let [before, after] = sides.map(|side| value(&side));
                let [before, after] = [(found.loss - before) / STEP, (after - found.loss) / STEP];
                // Not where clipping or the mask for negative advantages begins.
                if is_near(after, before, 1e-4) {
                    let slope = 0.5 * (after + before);
                    prop_assert!(is_near(found.d_policy[at], slope, 1e-6), "{} for {slope}", found.d_policy[at]);
                }
                let mut surer = batch.clone();
                surer.batch.entropy[at] -= 1e-3;
                let slope = (found.loss - value(&surer)) / 1e-3;
                prop_assert!(is_near(found.d_entropy[at], slope, 1e-9), "{} for {slope}", found.d_entropy[at]);
            }
        }
    }

    #[test]
    fn however_far_the_policies_are_apart_every_number_of_the_loss_is_finite(batch in off_policy(300.0)) {
        for level in [WeightLevel::Token, WeightLevel::Sequence, WeightLevel::Geometric] {
            for action in [WeightAction::Truncate, WeightAction::Mask] {
                let weight = WeightConfig { level, action, ..WeightConfig::default() };
                let correction = CorrectionConfig { weight, ..everything() };
                let found = batch.evaluate(&loss(terms(correction)), 9);
                prop_assert!(found.loss.is_finite());
                prop_assert!(found.d_policy.iter().all(|derivative| derivative.is_finite()));
            }
        }
    }
}

#[test]
fn a_correction_reads_back_as_it_is_written() {
    let written = serde_json::to_value(everything()).unwrap();
    assert_eq!(written["reject"][1]["statistic"], "seq_mean_k3");
    assert_eq!(serde_json::from_value::<CorrectionConfig>(written).unwrap(), everything());
    for statistic in ["token_k1", "seq_sum_k2", "seq_mean_k3", "seq_max_k3"] {
        let read: Statistic = serde_json::from_value(Value::from(statistic)).unwrap();
        assert_eq!(read.name(), statistic);
    }
}

#[test]
fn only_what_depends_on_the_whole_batch_asks_for_a_look_at_it() {
    let of = |config: LossConfig| loss(config).needs().batch_constants;
    let rejecting = CorrectionConfig { rejected: Rejected::Zero, ..everything() };
    let weight = WeightConfig { batch_normalize: false, ..rejecting.weight.clone() };
    let alone = CorrectionConfig { weight, ..rejecting.clone() };
    let removing = CorrectionConfig { rejected: Rejected::Remove, ..alone.clone() };
    for (correction, needs) in [(alone, false), (rejecting, true), (removing, true)] {
        assert_eq!(of(LossConfig { correction, ..LossConfig::default() }), needs);
    }
    let terms = LossConfig { entropy_coef: 0.1, ..LossConfig::default() };
    assert!(!of(terms.clone()) && of(LossConfig { top_entropy_quantile: 0.9, ..terms }));
}
