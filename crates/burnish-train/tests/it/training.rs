use burnish_core::rng::Stream;
use burnish_model::{Architecture, Dtype, Model};
use burnish_rl::nll::Nll;
use burnish_train::adamw::AdamwConfig;
use burnish_train::{Sample, Trainer, TrainerConfig};

use crate::common::{CONFIG, VOCAB, qwen3, random_batch, random_sample, tiny_model, totals_of};

fn moved(model: &mut Model, batch: &[Sample]) -> Vec<bool> {
    let adamw = AdamwConfig { weight_decay: 0.0, ..CONFIG.adamw };
    let mut trainer = Trainer::new(model, TrainerConfig { adamw, ..CONFIG });
    let before = model.params.data().to_vec();
    trainer.update(model, batch, &Nll, &totals_of(batch), 1e-3).unwrap();
    model.params.data().iter().zip(&before).map(|(after, before)| after != before).collect()
}

#[test]
fn one_step_moves_every_trainable_parameter() {
    // Every id is read, so that every row of the embedding has a gradient even if the head is not tied.
    let all: Vec<u32> = (0..VOCAB).collect();
    let batch: Vec<Sample> = (0..4).map(|seed| random_sample(&all, 12, &mut Stream::new(seed))).collect();
    for architecture in [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3] {
        for is_tied in [true, false] {
            let mut model = tiny_model(architecture, is_tied, Dtype::F32);
            let is_moved = moved(&mut model, &batch);
            for entry in model.params.entries() {
                let still = is_moved[entry.param.range()].iter().filter(|is_moved| !**is_moved).count();
                assert_eq!(still, 0, "{architecture:?}: {} of {} did not move", still, entry.name);
            }
        }
    }
}

#[test]
fn training_learns_a_tiny_batch_by_heart() {
    let mut model = qwen3();
    let mut trainer = Trainer::new(&model, CONFIG);
    let mut random = Stream::new(4);
    let batch: Vec<Sample> = (0..4)
        .map(|first| Sample { temperatures: vec![1.0; 11], ..random_sample(&[first], 10, &mut random) })
        .collect();
    let totals = totals_of(&batch);
    let mut losses = Vec::new();
    for _ in 0..150 {
        losses.push(trainer.update(&mut model, &batch, &Nll, &totals, 1e-2).unwrap().loss);
    }
    assert!(losses[0] > 2.0 && losses[149] < 0.1, "from {} to {}", losses[0], losses[149]);
}

#[test]
fn the_same_updates_give_the_same_bits() {
    let run = || {
        let mut model = qwen3();
        let mut trainer = Trainer::new(&model, CONFIG);
        for seed in 0..3 {
            let batch = random_batch(seed);
            trainer.update(&mut model, &batch, &Nll, &totals_of(&batch), 1e-2).unwrap();
        }
        model.params.data().iter().map(|weight| weight.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_gradient_longer_than_the_bound_is_clipped_and_reported_as_it_was() {
    let batch = random_batch(0);
    let update = |grad_norm_max| {
        let mut model = qwen3();
        // Without momentum and with a large ε the update is proportional to the gradient.
        let adamw = AdamwConfig { beta1: 0.0, beta2: 0.0, epsilon: 1e6, ..AdamwConfig::default() };
        let mut trainer = Trainer::new(&model, TrainerConfig { adamw, grad_norm_max, ..CONFIG });
        let before = model.params.data().to_vec();
        let update = trainer.update(&mut model, &batch, &Nll, &totals_of(&batch), 1e6).unwrap();
        let step =
            model.params.data().iter().zip(&before).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        (update.grad_norm.unwrap(), step.sqrt())
    };
    let (norm, free) = update(None);
    let (clipped_norm, clipped) = update(Some(norm / 4.0));
    assert_eq!(norm, clipped_norm);
    assert!((free / norm - 1.0).abs() < 1e-3 && (clipped / free - 0.25).abs() < 1e-3, "{free}, {clipped}");
}
