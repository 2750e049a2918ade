//! A small random model, and requests to it.

use burnish_core::{Message, PolicyError, Sampling, Trace, Turn, TurnOutput, answer_all, rng};
use burnish_engine::{Generated, Limits, LocalPolicy, Request, Stats, generate};
use burnish_model::{Chat, ChatTemplate, Model, ModelConfig, Packed, Tokenizer};
use burnish_tensor::{Layout, Tape};
use serde_json::json;
use std::sync::Arc;

pub(crate) const VOCAB: usize = 97;
pub(crate) const CONTEXT: usize = 64;

/// Two layers of Qwen3, with weights so large that the distributions are neither flat nor certain.
pub(crate) fn model() -> Arc<Model> {
    Arc::new(model_of(VOCAB, CONTEXT, 32))
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

/// Requests of various lengths, temperatures and limits; some share prompts or end early.
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

pub(crate) fn run(model: &Arc<Model>, requests: &[Request], limits: &Limits) -> (Vec<Generated>, Stats) {
    generate(model, None, requests, limits).unwrap()
}

/// ChatML over a small vocabulary.
pub(crate) fn chat() -> Arc<Chat> {
    let texts = ["the robot moves left, right, up or down", "a hole in the ice; the goal is at the end"];
    let tokenizer = Tokenizer::train_bpe(&texts, 280, &["<|im_start|>", "<|im_end|>", "<|pad|>"]).unwrap();
    Arc::new(Chat::new(tokenizer, ChatTemplate::chatml().unwrap(), &["<|im_end|>"], "<|pad|>").unwrap())
}

/// A turn on a conversation without tools.
pub(crate) fn turn(trace: Trace, messages: &[Message], sampling: &Sampling, seed: u64) -> Turn {
    Turn {
        trace,
        messages: Arc::new(messages.to_vec()),
        tools: Arc::default(),
        prefix: Vec::new(),
        sampling: Arc::new(sampling.clone()),
        seed,
    }
}

/// Acts on one conversation.
pub(crate) fn act(
    policy: &mut LocalPolicy,
    trace: &mut Trace,
    messages: &[Message],
    sampling: &Sampling,
    seed: u64,
) -> Result<TurnOutput, PolicyError> {
    let turn = turn(std::mem::take(trace), messages, sampling, seed);
    let (after, result) = answer_all(policy, [turn]).pop().unwrap();
    *trace = after;
    result
}

/// Logits `[T, V]` of a whole sequence in one pass.
pub(crate) fn full_logits(model: &Model, ids: &[u32]) -> Vec<f32> {
    let mut tape = Tape::inference(&model.params);
    let positions: Arc<[u32]> = (0..ids.len() as u32).collect();
    let mut packed = Packed { layout: Arc::new(Layout::causal(&[ids.len()])), shape: model.head_shape() };
    let hidden = model.forward(&mut tape, ids, &positions, &mut packed);
    model.logits(&mut tape, &hidden).data().to_vec()
}
