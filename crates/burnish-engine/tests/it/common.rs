//! A small random model, and requests to it.

use burnish_core::{Sampling, rng};
use burnish_engine::{Generated, Limits, Request, Stats, generate};
use burnish_model::{Model, ModelConfig, Packed};
use burnish_tensor::{Layout, Tape};
use serde_json::json;
use std::sync::Arc;

pub(crate) const VOCAB: usize = 97;
pub(crate) const CONTEXT: usize = 64;

/// Two layers of Qwen3 with weights large enough that its distributions are neither flat nor certain.
pub(crate) fn model() -> Model {
    model_of(VOCAB, CONTEXT, 32)
}

/// The same with other sizes; `hidden_size` is that of the residual stream.
pub(crate) fn model_of(vocab_size: usize, context_tokens_max: usize, hidden_size: usize) -> Model {
    let config = json!({
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "intermediate_size": 2 * hidden_size,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": context_tokens_max,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "initializer_range": 1.7 / (hidden_size as f64).sqrt(),
        "tie_word_embeddings": true,
        "torch_dtype": "float32",
    });
    Model::init(ModelConfig::from_json(config).unwrap(), 5)
}

pub(crate) fn prompt(seed: u64, len: usize) -> Vec<u32> {
    let mut stream = rng::Stream::new(seed);
    (0..len).map(|_| stream.below(VOCAB as u64) as u32).collect()
}

pub(crate) fn request(prompt: Vec<u32>, sampling: Sampling, seed: u64) -> Request {
    Request { prompt, sampling, seed, end_ids: Arc::from([]) }
}

/// Requests of different length, temperature and bound, some of which share prompts or end early.
pub(crate) fn mixed_requests() -> Vec<Request> {
    (0..24u64)
        .map(|i| Request {
            prompt: prompt(i % 9, 1 + 2 * (i as usize % 9)),
            sampling: Sampling::at([0.7, 1.0, 1.3][i as usize % 3], 1 + (7 * i as usize) % 30),
            seed: 100 + i,
            end_ids: Arc::from([3, 50]),
        })
        .collect()
}

pub(crate) fn run(model: &Model, requests: &[Request], limits: &Limits) -> (Vec<Generated>, Stats) {
    generate(model, None, requests, limits).unwrap()
}

/// Logits `[T, V]` of a whole sequence in one pass.
pub(crate) fn full_logits(model: &Model, ids: &[u32]) -> Vec<f32> {
    let mut tape = Tape::inference(&model.params);
    let positions: Arc<[u32]> = (0..ids.len() as u32).collect();
    let mut packed = Packed { layout: Arc::new(Layout::causal(&[ids.len()])), shape: model.head_shape() };
    let hidden = model.forward(&mut tape, ids, &positions, &mut packed);
    model.logits(&mut tape, &hidden).data().to_vec()
}
