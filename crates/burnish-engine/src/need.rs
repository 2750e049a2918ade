//! How much memory sampling takes, from the outline of its model.

use burnish_model::{LayerKind, ModelConfig, Outline};
use burnish_tensor::Prepacked;

use crate::Limits;
use crate::pages::{PageShape, pages_of};
use crate::state::StateShape;

/// Bytes that sampling takes beside the parameters. They are freed when it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplingNeed {
    /// Keys and values, and states of recurrent layers.
    pub cache: usize,
    /// Copies of small weights in the order in which decoding reads them, on a CPU.
    pub packed: usize,
    /// A pass over as many prompt tokens as are read at once, or the logits of a decoding step.
    pub pass: usize,
}

impl SamplingNeed {
    /// Of `sequences` answers that are asked for at once and may fill the model's context. Values have `value_bytes` bytes:
    /// 4, or 2 on a GPU that computes in bf16. The cache of a GPU is made at once, but is never larger than this.
    pub fn new(
        outline: &Outline,
        limits: &Limits,
        sequences: usize,
        value_bytes: usize,
        is_gpu: bool,
    ) -> Self {
        let config = &outline.config;
        let shape = PageShape {
            layers: config.layers_of(LayerKind::Attention),
            width: config.num_key_value_heads * config.head_dim,
            head_dim: config.head_dim,
            element_bytes: value_bytes,
            state: StateShape::of(config),
        };
        let context = context_of(config, limits);
        let open = sequences.min(limits.batch_max);
        let each = pages_of(context) * shape.bytes() + shape.state.bytes();
        let bound = limits.cache_bytes.unwrap_or(if is_gpu { usize::MAX } else { Limits::CACHE_BYTES });
        SamplingNeed {
            cache: open.saturating_mul(each).min(bound),
            packed: if is_gpu { 0 } else { Prepacked::bytes_of(outline.precision, outline.maps()) },
            pass: pass_bytes(config, limits, open, value_bytes),
        }
    }

    /// All of it.
    pub fn total(self) -> usize {
        self.cache + self.packed + self.pass
    }
}

/// Bytes of a pass over as many prompt tokens as are read at once, or of the logits of a decoding step, while `open`
/// sequences are open.
pub(crate) fn pass_bytes(config: &ModelConfig, limits: &Limits, open: usize, value_bytes: usize) -> usize {
    let context = context_of(config, limits);
    let prompt_rows = limits.prefill_tokens_max.max(context).min(open.saturating_mul(context));
    let logits = 4 * open * config.vocab_size;
    (value_bytes * prompt_rows * config.passing()).max(logits)
}

fn context_of(config: &ModelConfig, limits: &Limits) -> usize {
    limits.context_tokens_max.unwrap_or(usize::MAX).min(config.max_position_embeddings)
}
