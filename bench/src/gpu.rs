//! A GPU beside the CPU, on the same weights and ids.

use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::Sampling;
use burnish_core::rng::Stream;
use burnish_engine::{Limits, Request, generate};
use burnish_model::{Model, Packed, Trains};
use burnish_rl::nll::Nll;
use burnish_tensor::{Device, HostReadback, Layout, Tape};
use burnish_train::adamw::AdamwConfig;
use burnish_train::{PassConfig, Sample, Trainer, TrainerConfig, score, totals};
use clap::Args;
use serde_json::json;

use crate::step::{MICRO_BATCH_TOKENS, imitated};
use crate::{Done, policy};

/// What to compare.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A model directory.
    model: PathBuf,
    /// The device beside the CPU, as the recipe's `device`.
    #[arg(long, default_value = "cuda:0")]
    device: String,
}

/// Sequences, and tokens of each.
const SEQUENCES: usize = 8;
const LENGTH: usize = 128;
/// Tokens of the greedy answer.
const GREEDY: usize = 200;
/// Largest difference of log-probs in f32 that is allowed: that of bench/README.md.
const BAR_F32: f64 = 1e-4;
/// How many times as far from the CPU's f32 as the CPU's bf16 a GPU's bf16 may be: it also rounds what passes from one
/// operation to the next.
const BAR_BF16: f64 = 4.0;

/// What one device computed.
struct Computed {
    logits: Vec<f32>,
    logprobs: Vec<f32>,
    loss: f64,
    grad_norm: f64,
    moved: Vec<f32>,
    greedy: Vec<u32>,
}

/// Prints one line for each precision; an error if log-probs differ by more than they may. bf16 is compared with f32 on the
/// CPU, since both devices round.
pub(crate) fn run(arguments: &Arguments) -> Done {
    let device = Device::open(&arguments.device)?;
    let exact = compute(arguments, &Device::cpu(), false)?.logprobs;
    for bf16 in [false, true] {
        let cpu = compute(arguments, &Device::cpu(), bf16)?;
        let gpu = compute(arguments, &device, bf16)?;
        let logprobs = largest(&cpu.logprobs, &gpu.logprobs);
        let from_f32 = |of: &Computed| [mean(&exact, &of.logprobs), largest(&exact, &of.logprobs)];
        let (distance, bar) = match bf16 {
            false => (logprobs, BAR_F32),
            true => (from_f32(&gpu)[1], BAR_BF16 * from_f32(&cpu)[1]),
        };
        let same = cpu.greedy.iter().zip(&gpu.greedy).take_while(|(a, b)| a == b).count();
        println!(
            "{}",
            json!({
                "device": device.description(),
                "precision": if bf16 { "bf16" } else { "f32" },
                "logits_difference": largest(&cpu.logits, &gpu.logits),
                "logprobs_difference": logprobs,
                "mean_and_largest_from_f32": { "cpu": from_f32(&cpu), "gpu": from_f32(&gpu) },
                "bar": bar,
                "loss": [cpu.loss, gpu.loss],
                "grad_norm": [cpu.grad_norm, gpu.grad_norm],
                "largest_update": largest(&cpu.moved, &vec![0.0; cpu.moved.len()]),
                "update_difference": largest(&cpu.moved, &gpu.moved),
                "greedy_tokens": cpu.greedy.len(),
                "greedy_tokens_same": same,
            })
        );
        // Not `>`: a NaN is no small difference.
        if !matches!(distance.partial_cmp(&bar), Some(std::cmp::Ordering::Less)) {
            return Err(format!("log-probs differ by {distance}, the bar is {bar}").into());
        }
    }
    Ok(())
}

fn largest(a: &[f32], b: &[f32]) -> f64 {
    let differences = a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs()));
    differences.fold(0.0, |all, one| if one.is_nan() { one } else { all.max(one) })
}

fn mean(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / a.len() as f64
}

fn compute(arguments: &Arguments, device: &Device, bf16: bool) -> Done<Computed> {
    let mut model = Arc::new(policy::load_on(device, &arguments.model, bf16, Trains::All)?);
    let mut ids = Stream::new(3);
    let vocab = model.config.vocab_size;
    let mut sequence = |len: usize| -> Vec<u32> { (0..len).map(|_| ids.index(vocab) as u32).collect() };
    let samples: Vec<Sample> = (0..SEQUENCES).map(|_| imitated(sequence(LENGTH))).collect();
    let logits = logits(&model, &samples[0].ids)?;
    let logprobs = score(&model, &samples, MICRO_BATCH_TOKENS)?.concat();
    let greedy = greedy(&model, sequence(16))?;
    let before = model.params.data().to_vec();
    let config = TrainerConfig {
        adamw: AdamwConfig { epsilon: 1e-3, ..AdamwConfig::default() },
        grad_norm_max: None,
        pass: PassConfig::new(MICRO_BATCH_TOKENS),
    };
    let mut trainer = Trainer::new(&model, config);
    let totals = totals(&samples, &samples, 1, LENGTH, 0);
    let update = trainer.update(Arc::make_mut(&mut model), &samples, &Nll, &totals, 1e-3)?;
    model.params.fetch()?;
    let moved = model.params.data().iter().zip(&before).map(|(after, before)| after - before).collect();
    Ok(Computed {
        logits,
        logprobs,
        loss: update.loss,
        grad_norm: update.grad_norm.unwrap_or_default(),
        moved,
        greedy,
    })
}

fn logits(model: &Model, ids: &[u32]) -> Done<Vec<f32>> {
    let positions: Arc<[u32]> = (0..ids.len() as u32).collect();
    let layout = Arc::new(Layout::causal(&[ids.len()]));
    let mut tape = Tape::inference(&model.params);
    let mut mixer = Packed { layout, shape: model.head_shape() };
    let hidden = model.forward(&mut tape, ids, &positions, &mut mixer);
    let logits = model.logits(&mut tape, &hidden);
    Ok(HostReadback::default().read(&logits)?.to_vec())
}

fn greedy(model: &Arc<Model>, prompt: Vec<u32>) -> Done<Vec<u32>> {
    let request = Request { prompt, sampling: Sampling::at(0.0, GREEDY), seed: 0, end_ids: Arc::from([]) };
    let (answers, _) = generate(model, None, &[request], &Limits::default())?;
    Ok(answers.into_iter().flat_map(|answer| answer.ids).collect())
}
