use burnish_core::rng::Stream;
use burnish_model::{Architecture, Dtype, Model};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::nll::Nll;
use burnish_rl::{BatchConstant, Evaluation, LossConfig, Needs, Objective, PolicyLoss, Streams, Totals};
use burnish_tensor::Precision;
use burnish_train::{
    Checkpointing, CheckpointingBySize, Pass, PassConfig, Proximal, Sample, accumulate, pack, score,
    score_base,
};

use serde_json::json;

use crate::common::{
    EveryStream, InSpan, adapted, computed_in, qwen3, random_batch, random_sample, tiny_model, totals_of,
};

pub(crate) fn gradient(
    model: &Model,
    batch: &[Sample],
    objective: &dyn Objective,
    tokens_max: usize,
) -> (Pass, Vec<f32>) {
    let mut grads = model.params.zeros_like();
    let pass =
        accumulate(model, batch, objective, &totals_of(batch), PassConfig::new(tokens_max), &mut grads)
            .unwrap();
    (pass, grads)
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

pub(crate) fn relative_distance(a: &[f32], b: &[f32]) -> f64 {
    let distance = norm(a.iter().zip(b).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    distance / norm(a.iter().map(|a| f64::from(*a)))
}

/// Slope of the objective along `direction` (of length 1), by central differences: the error falls with the
/// fourth power of the step.
fn slope(
    model: &mut Model,
    batch: &[Sample],
    objective: &dyn Objective,
    at: usize,
    direction: &[f64],
) -> f64 {
    let mut loss = |step: f64| {
        let start = model.params.clone();
        let weights = &mut model.params.data_mut()[at..at + direction.len()];
        for (weight, along) in weights.iter_mut().zip(direction) {
            *weight += (step * along) as f32;
        }
        let loss = gradient(model, batch, objective, 1000).0.loss;
        model.params = start;
        loss
    };
    const STEP: f64 = 1e-2;
    (8.0 * (loss(STEP) - loss(-STEP)) - (loss(2.0 * STEP) - loss(-2.0 * STEP))) / (12.0 * STEP)
}

fn check_by_finite_differences(model: &mut Model, objective: &dyn Objective) {
    check_on(&random_batch(5), model, objective);
}

pub(crate) fn check_on(batch: &[Sample], model: &mut Model, objective: &dyn Objective) {
    let (_, grads) = gradient(model, batch, objective, 1000);
    let whole = norm(grads.iter().map(|value| f64::from(*value)));
    let mut random = Stream::new(6);
    for entry in model.params.trained_entries().cloned().collect::<Vec<_>>() {
        let own: Vec<f64> = grads[entry.param.range()].iter().map(|value| f64::from(*value)).collect();
        let scattered: Vec<f64> = own.iter().map(|_| random.normal()).collect();
        for direction in [own.clone(), scattered] {
            let length = norm(direction.iter().copied());
            assert!(length > 0.0, "{} has no gradient", entry.name);
            let direction: Vec<f64> = direction.iter().map(|value| value / length).collect();
            let expected = slope(model, batch, objective, entry.param.offset, &direction);
            let found: f64 = own.iter().zip(&direction).map(|(a, b)| a * b).sum();
            assert!(
                (found - expected).abs() < 2e-3 * norm(own.iter().copied()) + 1e-5 * whole,
                "{}: slope {expected}, gradient {found}",
                entry.name
            );
        }
    }
}

#[test]
fn the_gradient_of_every_tensor_is_the_slope_of_the_loss_with_normed_queries_and_a_tied_head() {
    check_by_finite_differences(&mut qwen3(), &EveryStream);
}

#[test]
fn the_gradient_of_every_tensor_is_the_slope_of_the_loss_with_biases_and_a_head_of_its_own() {
    let mut model = tiny_model(Architecture::Qwen2, false, Dtype::F32);
    check_by_finite_differences(&mut model, &EveryStream);
    check_by_finite_differences(&mut model, &Nll);
}

#[test]
fn the_gradient_of_grpo_is_the_slope_of_its_loss_inside_the_clip_region_and_outside() {
    let mut model = qwen3();
    let mut batch = random_batch(7);
    // Ratios so far from the kinks at 0.6 and 1.5, on both sides of each, that no step crosses one.
    let policy = score(&model, &batch, 1000).unwrap();
    for (sample, policy) in batch.iter_mut().zip(policy) {
        let moved =
            |moves: [f32; 4]| policy.iter().zip(moves.into_iter().cycle()).map(|(a, b)| a + b).collect();
        sample.proximal = Proximal::Known(moved([-1.0, -0.05, 0.05, 1.0]));
        sample.reference = Some(moved([0.3, -0.2, 0.5, -0.4]));
    }
    for aggregation in [Aggregation::Grpo, Aggregation::Dapo] {
        let config = LossConfig {
            config: json!({ "epsilon_low": 0.4, "epsilon_high": 0.5 }),
            beta: 0.05,
            aggregation,
            ..LossConfig::default()
        };
        check_on(&batch, &mut model, &PolicyLoss::new(&config).unwrap());
    }
}

#[test]
fn neither_sharing_prefixes_nor_the_size_of_micro_batches_changes_the_gradient() {
    let model = qwen3();
    for seed in 0..5 {
        let batch = random_batch(seed);
        let (alone, expected) = gradient(&model, &batch, &EveryStream, 1);
        let entropy = gradient(&model, &batch, &Nll, 1).0.metrics["entropy"];
        assert_eq!(alone.micro_batches, pack(&batch, 1).len());
        for tokens_max in [40, 64, 1000] {
            let (pass, grads) = gradient(&model, &batch, &EveryStream, tokens_max);
            assert!(pass.tokens < alone.tokens && pass.micro_batches < alone.micro_batches);
            assert_eq!(pass.tokens_scored, alone.tokens_scored);
            assert!((pass.loss / alone.loss - 1.0).abs() < 1e-5);
            let packed_entropy = gradient(&model, &batch, &Nll, tokens_max).0.metrics["entropy"];
            assert!((packed_entropy / entropy - 1.0).abs() < 1e-5);
            let distance = relative_distance(&expected, &grads);
            assert!(distance < 1e-5, "seed {seed}, {tokens_max} tokens: {distance}");
        }
    }
}

#[test]
fn tokens_that_are_not_scored_never_matter_beyond_being_read() {
    let model = qwen3();
    let batch = random_batch(3);
    let mut changed = batch.clone();
    for sample in &mut changed {
        let end = sample.scored().last().unwrap_or(0);
        for at in 0..sample.ids.len() {
            if sample.loss_mask[at] {
                continue;
            }
            sample.model_logprobs[at] = f32::NAN;
            sample.sampled_logprobs[at] = f32::NAN;
            sample.advantages[at] = f32::INFINITY;
            sample.temperatures[at] = 0.0;
            sample.reference.as_mut().unwrap()[at] = 1e30;
            let Proximal::Known(proximal) = &mut sample.proximal else { panic!("{:?}", sample.proximal) };
            proximal[at] = -1e30;
            if at > end && end > 0 {
                sample.ids[at] = (sample.ids[at] + 1) % 19;
            }
        }
    }
    let silent = Sample { loss_mask: vec![false; batch[0].ids.len()], ..batch[0].clone() };
    changed.insert(4, silent);
    let totals = totals_of(&batch);
    let run = |batch: &[Sample]| {
        let mut grads = model.params.zeros_like();
        let pass = accumulate(&model, batch, &EveryStream, &totals, PassConfig::new(64), &mut grads).unwrap();
        (pass, grads)
    };
    assert_eq!(run(&batch), run(&changed));
}

#[test]
fn an_objective_without_derivative_leaves_the_gradient_at_zero() {
    let mut batch = random_batch(1);
    for sample in &mut batch {
        sample.advantages.fill(0.0);
    }
    struct Surrogate;
    impl Objective for Surrogate {
        fn evaluate(&self, s: &Streams<'_>, _: &Totals) -> Evaluation {
            Evaluation { d_policy: s.advantage.to_vec(), ..Evaluation::default() }
        }
    }
    let (pass, grads) = gradient(&qwen3(), &batch, &Surrogate, 64);
    assert!(grads.iter().all(|value| *value == 0.0));
    assert!(pass.tokens_scored > 0);
}

#[test]
fn a_score_is_the_log_probability_that_the_objective_sees() {
    let model = qwen3();
    let batch = random_batch(2);
    let logprobs = score(&model, &batch, 64).unwrap();
    let mut sum = 0.0;
    for (sample, logprobs) in batch.iter().zip(&logprobs) {
        assert_eq!(logprobs.len(), sample.ids.len());
        for (logprob, is_scored) in logprobs.iter().zip(&sample.loss_mask) {
            assert_eq!(*logprob < 0.0, *is_scored);
        }
        sum += logprobs.iter().map(|value| f64::from(*value)).sum::<f64>();
    }
    let (pass, _) = gradient(&model, &batch, &Nll, 64);
    let mean = -sum / pass.tokens_scored as f64;
    assert!((pass.loss - mean).abs() < 1e-12);
}

#[test]
fn where_no_proximal_log_probs_are_given_the_models_of_sampling_stand_in() {
    let model = qwen3();
    let with = |proximal: Proximal| {
        let sample = random_sample(&[1, 2, 3], 9, &mut Stream::new(8));
        gradient(&model, &[Sample { proximal, ..sample }], &EveryStream, 64)
    };
    let then = random_sample(&[1, 2, 3], 9, &mut Stream::new(8)).model_logprobs;
    assert_eq!(with(Proximal::Sampling), with(Proximal::Known(then.clone())));
    let moved = then.iter().map(|value| value - 0.1).collect();
    assert_ne!(with(Proximal::Sampling), with(Proximal::Known(moved)));
}

#[test]
fn a_proximal_policy_between_two_is_at_its_share_of_the_way_to_the_policy_of_the_moment() {
    let model = qwen3();
    let sample = random_sample(&[1, 2, 3], 9, &mut Stream::new(8));
    let policy = score(&model, std::slice::from_ref(&sample), 64).unwrap().remove(0);
    let with =
        |proximal: Proximal| gradient(&model, &[Sample { proximal, ..sample.clone() }], &EveryStream, 64);
    let shares: Vec<f32> = (0..sample.ids.len()).map(|at| [0.0, 0.25, 1.0][at % 3]).collect();
    let then = &sample.model_logprobs;
    let between = |at: usize| then[at] + shares[at] * (policy[at] - then[at]);
    let known = (0..sample.ids.len()).map(between).collect();
    let ((found, slope), (expected, expected_slope)) =
        (with(Proximal::Between(shares.clone())), with(Proximal::Known(known)));
    assert!(
        (found.loss - expected.loss).abs() < 1e-6 * expected.loss.abs(),
        "{} {}",
        found.loss,
        expected.loss
    );
    assert!(relative_distance(&slope, &expected_slope) < 1e-5, "a constant of the derivative");
    assert_ne!(with(Proximal::Between(vec![0.5; shares.len()])).0.loss, found.loss);
    assert_eq!(with(Proximal::Between(vec![0.0; shares.len()])), with(Proximal::Sampling));
}

fn gradient_in(model: &Model, batch: &[Sample], config: PassConfig) -> Vec<f32> {
    let mut grads = model.params.zeros_like();
    accumulate(model, batch, &EveryStream, &totals_of(batch), config, &mut grads).unwrap();
    grads
}

#[test]
fn the_gradient_of_every_adapter_is_the_slope_of_the_loss() {
    check_by_finite_differences(&mut adapted(&qwen3(), 0.0), &EveryStream);
}

#[test]
fn checkpointing_changes_no_bit() {
    let batch = random_batch(5);
    for (model, dropout) in [(qwen3(), None), (adapted(&qwen3(), 0.3), Some(4))] {
        let with = |checkpointing| PassConfig { checkpointing, dropout, ..PassConfig::new(64) };
        let expected = gradient_in(&model, &batch, with(Checkpointing::Off.always()));
        // A batch of micro-batches of which each does as its size says.
        let by_size = CheckpointingBySize { off_max: 20, selective_max: 40 };
        for again in [Checkpointing::Selective.always(), Checkpointing::Full.always(), by_size] {
            assert_eq!(gradient_in(&model, &batch, with(again)), expected, "{again:?}");
        }
    }
}

#[test]
fn what_is_dropped_depends_neither_on_micro_batches_nor_on_shared_prefixes() {
    let model = adapted(&qwen3(), 0.4);
    let batch = random_batch(5);
    let with = |tokens_max, seed| PassConfig { dropout: Some(seed), ..PassConfig::new(tokens_max) };
    let together = gradient_in(&model, &batch, with(1000, 1));
    for tokens_max in [1, 40] {
        let apart = gradient_in(&model, &batch, with(tokens_max, 1));
        assert!(relative_distance(&apart, &together) < 1e-5);
    }
    assert!(relative_distance(&gradient_in(&model, &batch, with(1000, 2)), &together) > 1e-2);
    assert!(relative_distance(&gradient_in(&model, &batch, PassConfig::new(1000)), &together) > 1e-2);
}

#[test]
fn in_bf16_the_gradient_is_that_of_f32_up_to_its_rounding() {
    let batch = random_batch(5);
    for model in [qwen3(), adapted(&qwen3(), 0.0)] {
        let exact = gradient_in(&model, &batch, PassConfig::new(1000));
        let rounded = gradient_in(&computed_in(&model, Precision::Bf16), &batch, PassConfig::new(1000));
        let distance = relative_distance(&rounded, &exact);
        assert!(distance > 1e-5 && distance < 0.03, "{distance}");
    }
}

#[test]
fn the_base_under_an_adapter_scores_as_the_model_did_before_it() {
    let base = qwen3();
    let batch = random_batch(5);
    let adapted = adapted(&base, 0.0);
    let before = score(&base, &batch, 64).unwrap();
    assert_eq!(score_base(&adapted, &batch, 64).unwrap(), before);
    assert_ne!(score(&adapted, &batch, 64).unwrap(), before);
}

/// Its loss weighs every token by its place in the batch, and sums over whole groups.
struct Marked;

impl Objective for Marked {
    fn needs(&self) -> Needs {
        Needs { batch_constants: true, groups: true, ..Needs::default() }
    }

    fn batch_constants(&self, whole: &Streams<'_>, totals: &Totals) -> Vec<BatchConstant> {
        assert_eq!(whole.policy.len(), totals.tokens, "the whole batch, once");
        let mean = whole.policy.iter().sum::<f64>() / whole.policy.len() as f64;
        whole
            .policy
            .iter()
            .map(|logprob| BatchConstant { value: logprob - mean, ..BatchConstant::default() })
            .collect()
    }

    fn evaluate(&self, streams: &Streams<'_>, _: &Totals) -> Evaluation {
        assert_eq!(streams.batch_constants.len(), streams.policy.len());
        let mut evaluation = Evaluation::zero(streams.policy.len());
        for group in streams.groups {
            assert_eq!(group.len(), 2, "groups are never torn apart");
            let tokens = streams.sequences[group.start].start..streams.sequences[group.end - 1].end;
            let sum: f64 =
                tokens.clone().map(|at| streams.batch_constants[at].value * streams.policy[at]).sum();
            evaluation.loss += sum * sum;
            for at in tokens {
                evaluation.d_policy[at] = 2.0 * sum * streams.batch_constants[at].value;
            }
        }
        evaluation
    }
}

#[test]
fn marks_of_the_whole_batch_and_groups_are_the_same_whatever_the_size_of_micro_batches() {
    let model = qwen3();
    let mut batch = random_batch(3);
    batch.truncate(batch.len() / 2 * 2);
    batch.retain(|sample| sample.scored_tokens() > 0);
    batch.truncate(batch.len() / 2 * 2);
    for (at, sample) in batch.iter_mut().enumerate() {
        sample.group = at / 2;
    }
    let (alone, expected) = gradient(&model, &batch, &Marked, 1);
    assert_eq!(alone.micro_batches, batch.len() / 2);
    for tokens_max in [60, 1000] {
        let (pass, grads) = gradient(&model, &batch, &Marked, tokens_max);
        assert!(pass.micro_batches < alone.micro_batches);
        assert!((pass.loss / alone.loss - 1.0).abs() < 1e-4);
        let distance = relative_distance(&expected, &grads);
        assert!(distance < 1e-4, "{tokens_max} tokens: {distance}");
    }
}

/// The sum of the log-probs of the sequences of the second direction.
struct SecondDirection;

impl Objective for SecondDirection {
    fn evaluate(&self, streams: &Streams<'_>, _: &Totals) -> Evaluation {
        let mut evaluation = Evaluation::zero(streams.policy.len());
        for (at, sequence) in streams.sequences.iter().enumerate() {
            let weight = f64::from(streams.direction(at));
            evaluation.loss += weight * streams.policy[sequence.clone()].iter().sum::<f64>();
        }
        evaluation
    }
}

#[test]
fn each_sequence_has_the_direction_of_its_sample_whatever_the_size_of_micro_batches() {
    let model = qwen3();
    let mut batch = random_batch(3);
    batch.iter_mut().enumerate().for_each(|(at, sample)| sample.direction = u8::from(at % 3 == 0));
    let logprobs = score(&model, &batch, 1000).unwrap();
    let second = batch.iter().zip(&logprobs).filter(|(sample, _)| sample.direction == 1);
    let expected: f64 = second.flat_map(|(sample, own)| sample.scored().map(|at| f64::from(own[at]))).sum();
    for tokens_max in [1, 40, 1000] {
        let found = gradient(&model, &batch, &SecondDirection, tokens_max).0.loss;
        assert!(expected < 0.0 && (found / expected - 1.0).abs() < 1e-5, "{found} for {expected}");
    }
}

/// A loss of samples on parts of their tokens, with terms of every kind.
fn with_terms() -> Box<dyn Objective> {
    let terms = json!([
        { "objective": "cispo", "weight": 0.7 },
        { "objective": "positive_nll", "weight": 0.3 },
    ]);
    let loss = json!({ "terms": terms, "beta": 0.05, "entropy_coef": 0.1, "aggregation": "grpo" });
    let loss: LossConfig = serde_json::from_value(loss).unwrap();
    loss.complete().unwrap().build().unwrap()
}

#[test]
fn facts_spans_and_terms_are_those_of_each_token_whatever_the_size_of_micro_batches() {
    let mut model = qwen3();
    let mut batch = random_batch(3);
    for sample in &mut batch {
        InSpan::know(sample);
        sample.parts = (0..sample.ids.len()).map(|at| [1, 2, 7, 4, 6][at % 5]).collect();
    }
    let inside = |sample: &Sample, at: usize| f64::from(sample.facts["span.thoughts"][at]);
    let distance =
        |sample: &Sample, own: &[f32], at: usize| f64::from(own[at] - sample.facts["critic.values"][at]);
    let logprobs = score(&model, &batch, 1000).unwrap();
    let tokens: usize = batch.iter().map(Sample::scored_tokens).sum();
    let of_sample = |(sample, own): (&Sample, &Vec<f32>)| -> f64 {
        sample.scored().map(|at| inside(sample, at) * distance(sample, own, at).powi(2)).sum()
    };
    let expected = batch.iter().zip(&logprobs).map(of_sample).sum::<f64>() / tokens as f64;
    for objective in [Box::new(InSpan) as Box<dyn Objective>, with_terms()] {
        let (whole, gradient_of_whole) = gradient(&model, &batch, &*objective, 1000);
        assert_eq!(whole.micro_batches, 1);
        if !objective.spans().is_empty() {
            assert!((whole.loss / expected - 1.0).abs() < 1e-5, "{} for {expected}", whole.loss);
        }
        for tokens_max in [1, 40] {
            let (pass, grads) = gradient(&model, &batch, &*objective, tokens_max);
            assert!(pass.micro_batches > 1);
            assert!((pass.loss / whole.loss - 1.0).abs() < 1e-4, "{} for {}", pass.loss, whole.loss);
            let distance = relative_distance(&gradient_of_whole, &grads);
            assert!(distance < 1e-4, "{tokens_max} tokens: {distance}");
            for (name, value) in &pass.metrics {
                assert!((value - whole.metrics[name]).abs() < 1e-4 * value.abs().max(1.0), "{name}");
            }
        }
    }
    check_on(&batch, &mut model, &InSpan);
}
