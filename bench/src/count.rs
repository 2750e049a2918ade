//! Steps on a small model made from a seed, on one thread, for counting instructions under valgrind.

use burnish_model::{Architecture, Dtype, Model, ModelConfig, ModelShape};
use clap::{Args, ValueEnum};

use crate::{Done, sample, step};

/// What to do.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Which work.
    kind: Kind,
    /// How many steps.
    steps: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Training steps of 2 x 32 tokens: valgrind emulates a vector multiply-add lane by lane, so more would take
    /// minutes.
    Train,
    /// Decoding steps of a batch of 8.
    Decode,
}

/// Does the steps. The difference between two numbers of steps is the cost of a step, without the start.
pub(crate) fn run(arguments: &Arguments) -> Done {
    burnish_tensor::set_threads(1);
    let model = Model::init(shape_c()?, 0);
    match arguments.kind {
        Kind::Train => {
            let mut steps = step::Steps::of(model, 2, 32);
            for _ in 0..arguments.steps {
                steps.step()?;
            }
        }
        // The first token comes from reading the prompt, every other from a decoding step.
        Kind::Decode => sample::Batches::of(model, 8, 16, 1 + arguments.steps).sample()?,
    }
    Ok(())
}

/// The reference shape (c), 0.9 M parameters.
fn shape_c() -> Done<ModelConfig> {
    Ok(ModelConfig::new(&ModelShape {
        architecture: Architecture::Qwen3,
        vocab_size: 512,
        hidden_size: 128,
        intermediate_size: 384,
        num_hidden_layers: 4,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 32,
        max_position_embeddings: 4096,
        rope_theta: 10_000.0,
        tie_word_embeddings: false,
        dtype: Dtype::F32,
        delta_rule: None,
        masked: false,
    })?)
}
