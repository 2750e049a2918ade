//! The decoder of Llama, Qwen2, Qwen3, Qwen3.5 and burnish's own hybrid, from top to bottom.
//!
//! ```text
//! h   = embed_tokens[ids]                                                  [T, D]
//! for each layer:
//!   h = h + block(input_layernorm(h))              attention (`attention.rs`) or a delta rule
//!   x = post_attention_layernorm(h)
//!   h = h + W_down (silu(W_gate x) * W_up x)
//! out = norm(h)                     logits = lm_head out                   [T, D], [T, V]
//! ```
//!
//! Delta rules are Qwen3.5's (`delta_rule.rs`), or one of a family (`rule_layer.rs`). Norms are RMS norms; those of Qwen3.5 but for the delta rule's multiply by `1 + w`. Parameters are named as in the
//! checkpoint.

mod attention;
mod delta_rule;
mod linear;
mod rule_layer;

use std::sync::Arc;

use burnish_tensor::{HeadShape, Keep, Norm, Param, Rope, Tape, Var, Weight};

use self::attention::Attention;
use self::delta_rule::DeltaRule;
use self::linear::{Linear, show};
use self::rule_layer::RuleLayer;
use crate::{Head, LayerKind, Mix, ModelConfig, Packed, Tap, lora};

/// The initial values of a new parameter. The optimiser applies weight decay to matrices, not to norms and biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Init {
    /// Normal with standard deviation `initializer_range`: matrices.
    Normal,
    /// Norms.
    Ones,
    /// Biases, and norms whose weight is added to 1.
    Zeros,
    /// The logarithm of a uniform number from 0.01 to 16: decay rates, as transformers draws them.
    LogOfUniform,
    /// The logarithm of a uniform number from 1 to 16, as flash-linear-attention draws decay rates.
    LogOfUniformFromOne,
    /// What `softplus` makes a number from 0.001 to 0.1 of, whose logarithm is uniform: that library's time steps.
    InverseSoftplus,
}

/// Receives the name, shape and initial values of each parameter, and returns its handle.
pub(crate) type Declare<'a> = &'a mut dyn FnMut(&str, &[usize], Init) -> Param;

#[derive(Debug, Clone)]
pub(crate) struct Decoder {
    embed_tokens: Param, // [V, D]
    layers: Vec<Layer>,
    norm: Norm,      // [D]
    lm_head: Weight, // [V, D], `embed_tokens` where they are tied; [1, D] of a value model
    eps: f32,
}

#[derive(Debug, Clone)]
struct Layer {
    input_layernorm: Norm, // [D]
    block: Block,
    post_attention_layernorm: Norm, // [D]
    gate_proj: Linear,              // [F, D]
    up_proj: Linear,
    down_proj: Linear, // [D, F]
}

/// What mixes tokens at a layer.
#[derive(Debug, Clone)]
enum Block {
    Attention(Box<Attention>),
    DeltaRule(Box<DeltaRule>),
    Rule(Box<RuleLayer>),
}

impl Decoder {
    /// Declares every parameter, in the order in which the model uses them.
    pub(crate) fn declare(config: &ModelConfig, add: Declare<'_>) -> Self {
        let (vocab, width) = (config.vocab_size, config.hidden_size);
        let root = config.root();
        let embed_tokens = add(&config.embedding_name(), &[vocab, width], Init::Normal);
        let rope = Arc::new(Rope::new(config.inverse_frequencies(), 1.0));
        let layers =
            (0..config.num_hidden_layers).map(|layer| Layer::declare(config, layer, &rope, add)).collect();
        let norm = norm(config, &format!("{root}.norm.weight"), width, add);
        let lm_head = match (config.head, config.tie_word_embeddings) {
            (Head::Value, _) => add("score.weight", &[1, width], Init::Zeros),
            (Head::Vocabulary, true) => embed_tokens,
            (Head::Vocabulary, false) => add("lm_head.weight", &[vocab, width], Init::Normal),
        };
        Decoder { embed_tokens, layers, norm, lm_head: lm_head.into(), eps: config.rms_norm_eps as f32 }
    }

    /// Hidden states after the last norm, `[T, D]`, for `T` tokens at the given positions.
    pub(crate) fn forward(
        &self,
        tape: &mut Tape<'_>,
        ids: &[u32],
        positions: &Arc<[u32]>,
        mixer: &mut dyn Mix,
        tap: &mut dyn Tap,
    ) -> Var {
        let hidden = tape.embed(self.embed_tokens, ids);
        let mut hidden = tap.hidden(tape, 0, hidden);
        let mut normed = tape.rms_norm(&hidden, self.norm_before(0), self.eps);
        for index in 0..self.layers.len() {
            let (middle, mixed) = self.layer(tape, index, &hidden, &normed, positions, mixer, tap);
            (hidden, normed) = if tap.wants_hidden() {
                let hidden = tape.add(&middle, &mixed);
                let hidden = tap.hidden(tape, index + 1, hidden);
                let normed = tape.rms_norm(&hidden, self.norm_before(index + 1), self.eps);
                (hidden, normed)
            } else {
                tape.add_norm(&middle, &mixed, self.norm_before(index + 1), self.eps)
            };
        }
        if tap.wants_inputs() && self.lm_head.base != self.embed_tokens {
            tap.inputs(&[lora::HEAD], &normed);
        }
        normed
    }

    /// The final norm.
    pub(crate) fn normed(&self, tape: &mut Tape<'_>, hidden: &Var) -> Var {
        tape.rms_norm(hidden, self.norm, self.eps)
    }

    /// As [`Decoder::forward`] for a packed batch, keeping only what `keep` says of each layer.
    pub(crate) fn forward_checkpointed<'p>(
        &'p self,
        tape: &mut Tape<'p>,
        ids: &[u32],
        positions: &Arc<[u32]>,
        mixer: &Packed,
        keep: Keep,
    ) -> Var {
        let mut hidden = tape.embed(self.embed_tokens, ids);
        for index in 0..self.layers.len() {
            let (positions, mixer) = (Arc::clone(positions), mixer.clone());
            hidden = tape.checkpoint(&hidden, keep, move |tape, hidden| {
                let normed = tape.rms_norm(hidden, self.norm_before(index), self.eps);
                let mut mixer = mixer.clone();
                let (hidden, mixed) =
                    self.layer(tape, index, hidden, &normed, &positions, &mut mixer, &mut ());
                tape.add(&hidden, &mixed)
            });
        }
        self.normed(tape, &hidden)
    }

    /// The embedding, `[V, D]`.
    pub(crate) fn embed_tokens(&self) -> Param {
        self.embed_tokens
    }

    /// The head, `[V, D]`.
    pub(crate) fn lm_head(&self) -> Weight {
        self.lm_head
    }

    /// Every linear map with the name of its module: those of the layers, then the head.
    pub(crate) fn linear_maps(&mut self) -> impl Iterator<Item = (&str, &mut Weight)> {
        let of_layers = self.layers.iter_mut().flat_map(|layer| {
            let Layer { block, gate_proj, up_proj, down_proj, .. } = layer;
            block.linear_maps().into_iter().chain([gate_proj, up_proj, down_proj])
        });
        of_layers.map(|map| (&*map.name, &mut map.weight)).chain([(lora::HEAD, &mut self.lm_head)])
    }

    /// Numbers per row that a recording pass keeps of each layer, its input among them, and those of them that attention
    /// computes.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (usize, usize)> {
        self.layers.iter().map(|layer| {
            let attended = match &layer.block {
                Block::Attention(attention) => attention.attended(),
                Block::DeltaRule(_) | Block::Rule(_) => 0,
            };
            (layer.kept(), attended)
        })
    }

    /// The norm in front of a layer, or behind the last one.
    fn norm_before(&self, layer: usize) -> Norm {
        self.layers.get(layer).map_or(self.norm, |layer| layer.input_layernorm)
    }

    /// The two terms whose sum leaves the layer; `normed` is `hidden` after the norm in front of it.
    fn layer(
        &self,
        tape: &mut Tape<'_>,
        index: usize,
        hidden: &Var,
        normed: &Var,
        positions: &Arc<[u32]>,
        mixer: &mut dyn Mix,
        tap: &mut dyn Tap,
    ) -> (Var, Var) {
        let layer = &self.layers[index];
        let mixed = match &layer.block {
            Block::Attention(attention) => attention.apply(tape, index, normed, positions, mixer, tap),
            Block::DeltaRule(rule) => rule.apply(tape, normed, mixer, tap),
            Block::Rule(rule) => rule.apply(tape, normed, mixer, tap),
        };
        let (hidden, normed) = tape.add_norm(hidden, &mixed, layer.post_attention_layernorm, self.eps);
        let mixed = layer.mlp(tape, &normed, tap);
        (hidden, mixed)
    }
}

impl Layer {
    fn declare(config: &ModelConfig, layer: usize, rope: &Arc<Rope>, add: Declare<'_>) -> Self {
        let (width, inner, has_bias) = (config.hidden_size, config.intermediate_size, config.has_mlp_bias);
        let root = config.root();
        let name = |part: &str| format!("{root}.layers.{layer}.{part}");
        // Layers of a kind are counted separately, because each kind has its own state in a cache.
        let index = config.layers[..layer].iter().filter(|kind| **kind == config.layers[layer]).count();
        let input_layernorm = norm(config, &name("input_layernorm.weight"), width, add);
        let block = match (config.layers[layer], config.delta_rule) {
            (LayerKind::DeltaRule, Some(delta)) => {
                let name = name("linear_attn");
                match delta.rule {
                    Some(rule) => {
                        Block::Rule(Box::new(RuleLayer::declare(config, delta, rule, &name, index, add)))
                    }
                    None => Block::DeltaRule(Box::new(DeltaRule::declare(config, delta, &name, index, add))),
                }
            }
            _ => Block::Attention(Box::new(Attention::declare(config, &name("self_attn"), index, rope, add))),
        };
        let post = norm(config, &name("post_attention_layernorm.weight"), width, add);
        Layer {
            input_layernorm,
            block,
            post_attention_layernorm: post,
            gate_proj: Linear::declare(&name("mlp.gate_proj"), inner, width, has_bias, add),
            up_proj: Linear::declare(&name("mlp.up_proj"), inner, width, has_bias, add),
            down_proj: Linear::declare(&name("mlp.down_proj"), width, inner, has_bias, add),
        }
    }

    fn kept(&self) -> usize {
        let block = match &self.block {
            Block::Attention(attention) => attention.kept(),
            Block::DeltaRule(rule) => rule.kept(),
            Block::Rule(rule) => rule.kept(),
        };
        let (width, inner) = (self.down_proj.rows(), self.gate_proj.rows());
        // An adapter of the last map reads what is gated, which is then kept.
        let gated = if self.down_proj.weight.adapter.is_some() { inner } else { 0 };
        let adapters = [&self.gate_proj, &self.up_proj, &self.down_proj].map(Linear::kept);
        // Both norms: what they read, what they give, and the root that they divide by.
        block + 4 * width + 2 + 2 * inner + gated + adapters.iter().sum::<usize>()
    }

    fn mlp(&self, tape: &mut Tape<'_>, x: &Var, tap: &mut dyn Tap) -> Var {
        show(tap, [&self.gate_proj, &self.up_proj], x);
        if tap.wants_inputs() {
            let [gate, up] = [&self.gate_proj, &self.up_proj].map(|map| map.apply(tape, x));
            let gated = tape.swiglu(&gate, &up);
            show(tap, [&self.down_proj], &gated);
            return self.down_proj.apply(tape, &gated);
        }
        tape.swiglu_maps(x, [self.gate_proj.map(), self.up_proj.map()], self.down_proj.map())
    }
}

impl Block {
    fn linear_maps(&mut self) -> Vec<&mut Linear> {
        match self {
            Block::Attention(attention) => {
                let Attention { q_proj, k_proj, v_proj, o_proj, .. } = &mut **attention;
                vec![q_proj, k_proj, v_proj, o_proj]
            }
            Block::DeltaRule(rule) => {
                let DeltaRule { in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, out_proj, .. } = &mut **rule;
                vec![in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, out_proj]
            }
            Block::Rule(rule) => rule.linear_maps(),
        }
    }
}

/// Declares a norm: its weight starts at 1, or at 0 if 1 is added to it.
fn norm(config: &ModelConfig, name: &str, width: usize, add: Declare<'_>) -> Norm {
    let (offset, init) = if config.has_centred_norms { (1.0, Init::Zeros) } else { (0.0, Init::Ones) };
    Norm { weight: add(name, &[width], init), offset }
}

/// The head layout that attention needs.
pub(crate) fn head_shape(config: &ModelConfig) -> HeadShape {
    HeadShape {
        heads: config.num_attention_heads,
        kv_heads: config.num_key_value_heads,
        head_dim: config.head_dim,
    }
}
