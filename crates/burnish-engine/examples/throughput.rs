//! Tokens sampled per second by a random 5 M-parameter model of Qwen3's architecture.
//!
//! `cargo run --release -p burnish-engine --example throughput [batch [prompt_tokens [answer_tokens]]]` (default: 64,
//! 64, 128). It runs twice: each request with its own prompt, then groups of 8 that share one.

use burnish_core::Sampling;
use burnish_engine::{Limits, Request, generate};
use burnish_model::{Architecture, Dtype, Model, ModelConfig, ModelShape};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VOCAB: u32 = 512;

fn main() -> Result<(), Box<dyn Error>> {
    let mut sizes = std::env::args().skip(1).map(|size| size.parse::<usize>());
    let mut size_or = |default| sizes.next().unwrap_or(Ok(default));
    let (batch, prompt_tokens, answer_tokens) = (size_or(64)?, size_or(64)?, size_or(128)?);
    let shape = ModelShape {
        architecture: Architecture::Qwen3,
        vocab_size: VOCAB as usize,
        hidden_size: 256,
        intermediate_size: 768,
        num_hidden_layers: 6,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 64,
        max_position_embeddings: prompt_tokens + answer_tokens,
        rope_theta: 10_000.0,
        tie_word_embeddings: true,
        dtype: Dtype::F32,
        delta_rule: None,
        masked: false,
    };
    let model = Arc::new(Model::init(ModelConfig::new(&shape)?, 0));
    println!("{batch} requests of {prompt_tokens} + {answer_tokens} tokens");
    for group in [1, 8] {
        let requests: Vec<Request> = (0..batch)
            .map(|i| Request {
                prompt: (0..prompt_tokens).map(|at| (i / group * 31 + at * 7) as u32 % VOCAB).collect(),
                sampling: Sampling::at(1.0, answer_tokens),
                seed: i as u64,
                end_ids: Arc::from([]),
            })
            .collect();
        for round in 0..3 {
            let start = Instant::now();
            let (_, stats) = generate(&model, None, &requests, &Limits::default())?;
            let seconds = start.elapsed().as_secs_f64();
            let rate = stats.sampled_tokens as f64 / seconds;
            println!("groups of {group}, round {round}: {seconds:.3} s, {rate:.0} tokens/s, {stats:?}");
        }
    }
    Ok(())
}
