//! Gated updates: what a gate sees, that seeing changes nothing, and that a dropped update leaves no trace.

use burnish_model::{Architecture, Dtype, Loading, Model, Trains};
use burnish_rl::gate::Proposal;
use burnish_rl::nll::Nll;
use burnish_rl::{Evaluation, LossConfig, Objective, PolicyLoss, Streams, Totals, ValueLoss};
use burnish_train::{
    PassConfig, Proximal, Sample, TrainError, Trainer, TrainerConfig, Update, accumulate, score,
};

use crate::common::{CONFIG, EveryStream, adapted, loaded_as, qwen3, random_batch, tiny_model, totals_of};

fn in_parts(tokens_max: usize) -> TrainerConfig {
    TrainerConfig { pass: PassConfig { tokens_max, ..CONFIG.pass }, ..CONFIG }
}

/// What a gate sees in the first update of `model`, which it drops.
fn seen(model: &Model, batch: &[Sample], objective: &dyn Objective, tokens_max: usize) -> Proposal {
    let mut model = model.clone();
    let mut trainer = Trainer::new(&model, in_parts(tokens_max));
    let mut seen = Proposal::default();
    let mut gate = |proposal: &Proposal| {
        seen = *proposal;
        false
    };
    trainer.update_gated(&mut model, batch, objective, &totals_of(batch), 1e-2, &mut gate).unwrap();
    seen
}

/// Models of every kind: tied, with a head of its own, with adapters that drop out.
fn models() -> [Model; 3] {
    let own_head = tiny_model(Architecture::Llama, false, Dtype::F32);
    [qwen3(), own_head, adapted(&qwen3(), 0.3)]
}

/// The same weights with a head of its own.
fn untied(model: &Model) -> Model {
    let mut twin = tiny_model(Architecture::Qwen3, false, Dtype::F32);
    for entry in model.params.entries() {
        let values = model.params.get(entry.param).to_vec();
        let own = twin.params.find(&entry.name).unwrap().param;
        twin.params.get_mut(own).copy_from_slice(&values);
        if entry.name.contains("embed_tokens") {
            let head = twin.head().base;
            twin.params.get_mut(head).copy_from_slice(&values);
        }
    }
    twin
}

fn bits(model: &Model) -> Vec<u32> {
    model.params.data().iter().map(|weight| weight.to_bits()).collect()
}

#[test]
fn a_gate_that_always_opens_changes_no_bit() {
    for start in models() {
        let (mut plain, mut watched) = (start.clone(), start);
        let mut config = in_parts(40);
        config.pass.dropout = Some(9);
        let (mut trainer, mut watching) = (Trainer::new(&plain, config), Trainer::new(&watched, config));
        for seed in 0..3 {
            let batch = random_batch(seed);
            let totals = totals_of(&batch);
            let update = trainer.update(&mut plain, &batch, &EveryStream, &totals, 1e-2).unwrap();
            let seen = watching
                .update_gated(&mut watched, &batch, &EveryStream, &totals, 1e-2, &mut |_| true)
                .unwrap();
            assert!(update.micro_batches > 1 && update.head_grad_norm.is_none());
            assert!(seen.is_made && seen.head_grad_norm.is_some_and(|norm| norm > 0.0));
            assert_eq!(Update { head_grad_norm: None, ..seen }, update);
            assert_eq!(bits(&watched), bits(&plain));
            assert_eq!(watching.adamw(), trainer.adamw());
        }
    }
}

#[test]
fn a_dropped_update_leaves_weights_moments_and_count_and_what_follows_is_as_if_it_had_not_been() {
    for start in models() {
        let run = |drops: bool| {
            let mut model = start.clone();
            let mut config = in_parts(64);
            config.pass.dropout = Some(9);
            let mut trainer = Trainer::new(&model, config);
            for seed in 0..3 {
                let batch = random_batch(seed);
                let totals = totals_of(&batch);
                trainer.update(&mut model, &batch, &EveryStream, &totals, 1e-2).unwrap();
                if drops {
                    let before = (bits(&model), trainer.adamw().clone(), trainer.updates());
                    let other = random_batch(seed + 10);
                    let totals = totals_of(&other);
                    let update = trainer
                        .update_gated(&mut model, &other, &EveryStream, &totals, 1e-2, &mut |_| false)
                        .unwrap();
                    assert!(!update.is_made && update.grad_norm > Some(0.0));
                    assert_eq!((bits(&model), trainer.adamw().clone(), trainer.updates()), before);
                }
            }
            (bits(&model), trainer.adamw().clone())
        };
        assert_eq!(run(true), run(false));
    }
}

#[test]
fn the_head_of_tied_embeddings_is_measured_as_if_it_stood_apart_whatever_the_micro_batches() {
    let tied = qwen3();
    let twin = untied(&tied);
    for seed in 0..3 {
        let batch = random_batch(seed);
        let mut grads = twin.params.zeros_like();
        let pass = PassConfig::new(1000);
        accumulate(&twin, &batch, &EveryStream, &totals_of(&batch), pass, &mut grads).unwrap();
        let norm = |range: std::ops::Range<usize>| {
            grads[range].iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt()
        };
        let expected = norm(twin.head().base.range());
        for tokens_max in [1, 40, 1000] {
            for model in [&tied, &twin] {
                let found = seen(model, &batch, &EveryStream, tokens_max).head_grad_norm;
                assert!((found / expected - 1.0).abs() < 1e-5, "{found} for {expected}");
            }
        }
        // Both parts together give another number: the part that the rows get as the embedding is not small.
        let embedding = twin.params.find("model.embed_tokens.weight").unwrap().param;
        assert!(norm(embedding.range()) > 0.05 * expected);
    }
}

#[test]
fn a_frozen_head_is_measured_by_the_gradient_that_its_matrix_would_have() {
    let model = qwen3();
    let frozen = loaded_as(&model, &Loading { trains: Trains::Nothing, ..Loading::default() });
    assert_eq!(frozen.params.trained_len(), 0);
    let batch = random_batch(2);
    let (own, other) = (seen(&model, &batch, &Nll, 40), seen(&frozen, &batch, &Nll, 40));
    assert!((own.head_grad_norm / other.head_grad_norm - 1.0).abs() < 1e-5, "{own:?} {other:?}");
    assert_eq!(other.grad_norm, 0.0, "nothing of it is trained");
}

#[test]
fn a_gate_sees_the_divergence_the_clipped_share_and_the_entropy_of_the_batch() {
    let model = qwen3();
    let batch = random_batch(4);
    let (mut kl, mut clipped, mut tokens) = (0.0, 0.0, 0.0);
    for (sample, policy) in batch.iter().zip(score(&model, &batch, 1000).unwrap()) {
        let Proximal::Known(proximal) = &sample.proximal else { panic!("{:?}", sample.proximal) };
        for at in sample.scored() {
            let log_ratio = f64::from(policy[at]) - f64::from(proximal[at]);
            let (ratio, advantage) = (log_ratio.exp(), sample.advantages[at]);
            kl += ratio - 1.0 - log_ratio;
            clipped += f64::from((advantage > 0.0 && ratio > 1.2) || (advantage < 0.0 && ratio < 0.8));
            tokens += 1.0;
        }
    }
    let objective = PolicyLoss::new(&LossConfig::default()).unwrap();
    for tokens_max in [30, 1000] {
        let found = seen(&model, &batch, &objective, tokens_max);
        for (found, expected) in [(found.kl, kl / tokens), (found.clip_fraction, clipped / tokens)] {
            assert!(expected > 0.0 && (found / expected - 1.0).abs() < 1e-5, "{found} for {expected}");
        }
        let mut grads = model.params.zeros_like();
        let config = PassConfig::new(tokens_max);
        let pass = accumulate(&model, &batch, &Nll, &totals_of(&batch), config, &mut grads).unwrap();
        assert!((found.entropy / pass.metrics["entropy"] - 1.0).abs() < 1e-9);
    }
}

/// A loss whose derivative overflows.
struct Overflowing;

impl Objective for Overflowing {
    fn evaluate(&self, streams: &Streams<'_>, _: &Totals) -> Evaluation {
        let d_policy = vec![f64::INFINITY; streams.policy.len()];
        Evaluation { loss: 1.0, d_policy, ..Evaluation::default() }
    }
}

#[test]
fn what_is_not_finite_is_shown_and_may_be_dropped_but_is_never_made() {
    let batch = random_batch(0);
    let (totals, mut model) = (totals_of(&batch), qwen3());
    let mut trainer = Trainer::new(&model, CONFIG);
    for opens in [false, true] {
        let before = bits(&model);
        let mut gate = |proposal: &Proposal| {
            assert!(!proposal.head_grad_norm.is_finite() && !proposal.grad_norm.is_finite());
            opens
        };
        let update = trainer.update_gated(&mut model, &batch, &Overflowing, &totals, 1e-2, &mut gate);
        match update {
            Ok(update) => assert!(!opens && !update.is_made),
            Err(error) => assert!(opens && matches!(error, TrainError::NotFinite { update: 0, .. })),
        }
        assert_eq!((bits(&model), trainer.updates()), (before, 0));
    }
}

#[test]
fn a_model_of_values_has_no_head_to_watch() {
    let mut model = qwen3().to_value_model().unwrap();
    let mut trainer = Trainer::new(&model, CONFIG);
    let batch = random_batch(0);
    let objective = ValueLoss { clip_range: 0.0 };
    let error = trainer
        .update_gated(&mut model, &batch, &objective, &totals_of(&batch), 1e-2, &mut |_| true)
        .unwrap_err();
    assert!(error.to_string().contains("a model of values has none"), "{error}");
}
