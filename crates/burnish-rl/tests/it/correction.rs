//! Off-policy corrections and the entropy terms: verl's and TRL's own numbers, made by `tests/golden/make_correction.py`,
//! and algebra.

use crate::common::{Batch, batches, clip, is_near, loss};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::correction::{
    Corrected, CorrectionConfig, Rejected, Rejection, Statistic, WeightAction, WeightConfig, WeightLevel,
    loglinear_proximal,
};
use burnish_rl::entropy::{AdaptiveEntropy, quantile};
use burnish_rl::{Evaluation, LossConfig, Objective, PolicyLoss, Streams, Tokens, Totals};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Both sides compute in f64, and the file has 14 digits.
const TOLERANCE: f64 = 1e-11;
/// verl adds 1e-8 to the numbers that it divides by.
const TOLERANCE_MEANS: f64 = 1e-7;

#[derive(Deserialize)]
struct Golden {
    tokens_max: usize,
    batch: Rows,
    verl_corrections: Vec<CorrectionCase>,
    verl_losses: Vec<VerlLoss>,
    aggregations: Vec<AggregationCase>,
    trl_losses: Vec<TrlLoss>,
    adaptive_entropy: AdaptiveCase,
    loglinear: Vec<LoglinearCase>,
}

/// `[rows][columns]`, padded.
#[derive(Deserialize)]
struct Rows {
    policy: Vec<Vec<f64>>,
    proximal: Vec<Vec<f64>>,
    behavior: Vec<Vec<f64>>,
    reference: Vec<Vec<f64>>,
    entropy: Vec<Vec<f64>>,
    mask: Vec<Vec<u8>>,
    advantages: Vec<f64>,
}

#[derive(Deserialize)]
struct CorrectionCase {
    correction: CorrectionConfig,
    weights: Option<Vec<Vec<f64>>>,
    kept: Vec<Vec<u8>>,
    metrics: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
struct VerlLoss {
    correction: CorrectionConfig,
    loss_agg_mode: String,
    kl_loss_coef: f64,
    loss: f64,
    gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct AggregationCase {
    loss_agg_mode: String,
    value: f64,
    gradient: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct TrlLoss {
    loss: LossConfig,
    value: f64,
    gradient: Vec<Vec<f64>>,
    d_entropy: Vec<Vec<f64>>,
}

#[derive(Deserialize)]
struct AdaptiveCase {
    settings: AdaptiveEntropy,
    steps: Vec<AdaptiveStep>,
}

#[derive(Deserialize)]
struct AdaptiveStep {
    coef: f64,
    entropy: f64,
    applied: f64,
    next: f64,
}

#[derive(Deserialize)]
struct LoglinearCase {
    behavior: f64,
    policy: f64,
    sampled: i64,
    current: u64,
    proximal: f64,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/correction.json")).unwrap()
}

/// A batch whose tokens another policy sampled.
#[derive(Debug, Clone)]
struct OffPolicy {
    batch: Batch,
    behavior: Vec<f64>,
    groups: Vec<std::ops::Range<usize>>,
}

impl OffPolicy {
    fn streams(&self) -> Streams<'_> {
        Streams { behavior: &self.behavior, groups: &self.groups, ..self.batch.streams() }
    }

    fn totals(&self, completion_tokens_max: usize) -> Totals {
        let totals = self.batch.totals();
        Totals {
            groups: self.groups.len(),
            tokens_generation: totals.tokens,
            minibatches: 1,
            completion_tokens_max,
            ..totals
        }
    }

    fn marked(&self, objective: &PolicyLoss) -> OffPolicy {
        let mut marked = self.clone();
        if objective.needs().marks {
            marked.batch.marks = objective.marks(&self.streams(), &self.totals(9));
        }
        marked
    }

    fn evaluate(&self, objective: &PolicyLoss, completion_tokens_max: usize) -> Evaluation {
        objective.evaluate(&self.marked(objective).streams(), &self.totals(completion_tokens_max))
    }

    /// What is said of the loss tokens of each sequence, and where they are.
    fn corrected(&self, config: &CorrectionConfig) -> Vec<(Vec<usize>, Corrected)> {
        let streams = self.streams();
        let said = |range: &std::ops::Range<usize>| {
            let positions: Vec<usize> = streams.loss_positions(range.clone()).collect();
            let column = |stream: &[f64]| -> Vec<f64> { positions.iter().map(|at| stream[*at]).collect() };
            let [policy, proximal, behavior, entropy, advantage] =
                [streams.policy, streams.proximal, streams.behavior, streams.entropy, streams.advantage]
                    .map(column);
            let whole = 0..positions.len();
            let corrected = config.correct(&Tokens {
                policy: &policy,
                proximal: &proximal,
                behavior: &behavior,
                entropy: &entropy,
                advantage: &advantage,
                marks: &[],
                sequences: std::slice::from_ref(&whole),
            });
            (positions, corrected)
        };
        streams.sequences.iter().map(said).filter(|(positions, _)| !positions.is_empty()).collect()
    }
}

impl Rows {
    fn batch(&self) -> OffPolicy {
        let columns = self.policy[0].len();
        let rows = self.policy.len();
        let batch = Batch {
            policy: self.policy.concat(),
            proximal: self.proximal.concat(),
            reference: self.reference.concat(),
            entropy: self.entropy.concat(),
            advantage: self.advantages.iter().flat_map(|advantage| vec![*advantage; columns]).collect(),
            loss_mask: self.mask.concat().into_iter().map(|in_loss| in_loss == 1).collect(),
            sequences: (0..rows).map(|row| row * columns..(row + 1) * columns).collect(),
            ..Batch::default()
        };
        OffPolicy { batch, behavior: self.behavior.concat(), groups: vec![0..2, 2..rows] }
    }
}

fn mean(found: &Evaluation, name: &str) -> Option<f64> {
    let metric = found.metrics.iter().find(|metric| metric.name == name)?;
    Some(metric.sum / metric.weight)
}

fn aggregation(loss_agg_mode: &str) -> Aggregation {
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
    let batch = golden.batch.batch();
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
    let batch = golden.batch.batch();
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
    let batch = golden.batch.batch();
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
    let batch = golden.batch.batch();
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
    let batch = golden.batch.batch();
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
fn a_log_linear_proximal_lies_between_behavior_and_policy_by_age() {
    for case in golden().loglinear {
        let sampled = u64::try_from(case.sampled).ok();
        let found = loglinear_proximal(case.behavior, case.policy, sampled, case.current);
        assert!(is_near(found, case.proximal, TOLERANCE), "{} of {}", case.sampled, case.current);
    }
    assert_eq!(loglinear_proximal(-2.0, -1.0, Some(3), 4), -2.0, "of the version before: its own proximal");
    assert_eq!(loglinear_proximal(-2.0, -1.0, Some(2), 4), -1.5);
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

/// Everything that can be on at once.
fn everything() -> CorrectionConfig {
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
        positive_nll_coef: 0.3,
        ..LossConfig::default()
    }
}

const AGGREGATIONS: [Aggregation; 7] = [
    Aggregation::Grpo,
    Aggregation::Bnpo,
    Aggregation::DrGrpo,
    Aggregation::Dapo,
    Aggregation::PromptMean,
    Aggregation::SeqMeanTokenSum,
    Aggregation::TokenSum,
];

/// Batches whose tokens a policy sampled that is `far` away at most, in groups of up to two.
fn off_policy(far: f64) -> impl Strategy<Value = OffPolicy> {
    (batches(1.0), prop::collection::vec(-far..far, 64)).prop_map(|(batch, moved)| {
        let behavior = batch.proximal.iter().zip(&moved).map(|(old, moved)| old - moved).collect();
        let sequences = batch.sequences.len();
        let groups = (0..sequences).step_by(2).map(|start| start..(start + 2).min(sequences)).collect();
        OffPolicy { batch, behavior, groups }
    })
}

impl OffPolicy {
    /// The given groups alone.
    fn part(&self, groups: std::ops::Range<usize>) -> OffPolicy {
        let groups = &self.groups[groups];
        let (Some(first), Some(last)) = (groups.first(), groups.last()) else {
            return OffPolicy { batch: Batch::default(), behavior: Vec::new(), groups: Vec::new() };
        };
        let (start, sequences) = (first.start, first.start..last.end);
        let positions = self.batch.sequences[start].start..self.batch.sequences[sequences.end - 1].end;
        OffPolicy {
            batch: self.batch.part(sequences),
            behavior: self.behavior[positions].to_vec(),
            groups: groups.iter().map(|group| group.start - start..group.end - start).collect(),
        }
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
fn in_bypass_mode_every_weight_and_rejection_is_of_the_policy_itself() {
    let batch = golden().batch.batch();
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
fn imitation_is_the_mean_nll_of_the_tokens_with_a_positive_advantage() {
    let batch = golden().batch.batch();
    let with =
        |coef| batch.evaluate(&loss(LossConfig { positive_nll_coef: coef, ..LossConfig::default() }), 9);
    let streams = batch.streams();
    let positive: Vec<f64> = streams
        .loss_positions(0..streams.policy.len())
        .filter(|at| streams.advantage[*at] > 0.0)
        .map(|at| streams.policy[at])
        .collect();
    let nll = -positive.iter().sum::<f64>() / positive.len() as f64;
    assert!(nll > 0.0 && is_near(with(0.5).loss, with(0.0).loss + 0.5 * nll, TOLERANCE));
}

#[test]
fn only_tokens_of_high_entropy_are_trained_on_and_all_keep_their_distance() {
    let batch = golden().batch.batch();
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
        (
            LossConfig { positive_nll_coef: -0.1, ..LossConfig::default() },
            "positive_nll_coef: must be 0 or more",
        ),
    ] {
        let error = wrong.complete().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let wrong = AdaptiveEntropy { coef_min: 2.0, ..AdaptiveEntropy::default() };
    assert!(wrong.check().unwrap_err().to_string().starts_with("adaptive_entropy.coef_max: must be 2"));
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
