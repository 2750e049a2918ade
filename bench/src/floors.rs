//! What this machine can do at most.
//!
//! Rates are the best of several runs, since a floor is what nothing can undercut. The bandwidth is that of memory: a
//! model that fits into the processor's caches may be read faster.

use std::path::PathBuf;
use std::time::Instant;

use burnish_model::ModelConfig;
use burnish_tensor::{Params, Precision, Tape};
use clap::Args;
use rayon::prelude::*;
use serde_json::json;

use crate::Done;
use crate::flops::{Costs, Extent};
use crate::policy::precision;

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Model directories whose training steps and samples are put beside the rates.
    models: Vec<PathBuf>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// Rows, inputs and outputs of the product.
const PRODUCT: (usize, usize, usize) = (4096, 1024, 1024);
/// Bytes that are read.
const READ_BYTES: usize = 1 << 30;
const RUNS: usize = 12;

/// Prints one line of rates, and one for each model: operations and seconds of the reference work.
pub(crate) fn run(arguments: &Arguments) -> Done {
    burnish_tensor::set_threads(arguments.threads);
    let [f32_flops, bf16_flops] = [false, true].map(|bf16| product_rate(precision(bf16)));
    let read = read_rate();
    println!(
        "{}",
        json!({ "f32_gflops": f32_flops / 1e9, "bf16_gflops": bf16_flops / 1e9, "read_gb_per_s": read / 1e9 })
    );
    for dir in &arguments.models {
        let costs = Costs::of(&ModelConfig::load(dir)?);
        let many = |count, one: Extent| (0..count).fold(Extent::default(), |all, _| all.and(one));
        let step = costs.training(many(16, Extent::of_group(1, [255])));
        let sample = costs.forward(many(64, Extent::of_group(64, [128])));
        let group = many(8, Extent::of_group(64, [128; 8]));
        let grpo = costs.forward(group) + costs.training(group);
        let seconds = |flops: f64| json!({ "gflop": flops / 1e9, "f32_s": flops / f32_flops, "bf16_s": flops / bf16_flops });
        println!(
            "{}",
            json!({
                "model": dir,
                "step": seconds(step),
                "sample": seconds(sample),
                "grpo": seconds(grpo),
                "sample_one_tokens_per_s": read / (4.0 * costs.weights()),
            })
        );
    }
    Ok(())
}

/// Operations a second of a large product.
fn product_rate(precision: Precision) -> f64 {
    let (rows, inputs, outputs) = PRODUCT;
    let mut params = Params::new().in_precision(precision);
    let weight = params.add("weight", &[outputs, inputs], true);
    for (at, value) in params.get_mut(weight).iter_mut().enumerate() {
        *value = (at % 17) as f32 / 17.0 - 0.5;
    }
    let x: Vec<f32> = (0..rows * inputs).map(|at| (at % 13) as f32 / 13.0 - 0.5).collect();
    let mut tape = Tape::inference(&params);
    let x = tape.external(rows, inputs, x);
    let seconds = least_seconds(|| {
        std::hint::black_box(tape.linear(&x, weight, None));
    });
    2.0 * (rows * inputs * outputs) as f64 / seconds
}

/// Bytes a second of a sum over a buffer that no cache holds.
fn read_rate() -> f64 {
    let buffer: Vec<u64> = (0..READ_BYTES / 8).into_par_iter().map(|at| at as u64).collect();
    let seconds = least_seconds(|| {
        let sum = buffer
            .par_chunks(1 << 20)
            .map(|chunk| chunk.iter().fold(0, |sum: u64, value| sum.wrapping_add(*value)))
            .reduce(|| 0, u64::wrapping_add);
        std::hint::black_box(sum);
    });
    READ_BYTES as f64 / seconds
}

fn least_seconds(mut work: impl FnMut()) -> f64 {
    let run = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..RUNS).map(run).fold(f64::INFINITY, f64::min)
}
