//! The decoder of Llama, Qwen2 and Qwen3, from top to bottom.
//!
//! ```text
//! h   = embed_tokens[ids]                                                  [T, D]
//! for each layer:
//!   x = input_layernorm(h)
//!   q = rope(q_norm(W_q x + b_q))    k = rope(k_norm(W_k x + b_k))    v = W_v x + b_v
//!   h = h + W_o attention(q, k, v) (+ b_o)
//!   x = post_attention_layernorm(h)
//!   h = h + W_down (silu(W_gate x) * W_up x)
//! out = norm(h)                     logits = lm_head out                   [T, D], [T, V]
//! ```
//!
//! Norms are RMS norms. Only Qwen3 has `q_norm` and `k_norm` (per head, over `head_dim` columns); only Qwen2 has biases
//! of q, k, v, unless `attention_bias` asks for them. Grouped-query attention: consecutive query heads share a key and
//! value head. Parameters are named as in the checkpoint.

use std::sync::Arc;

use burnish_tensor::{HeadShape, Param, Rope, Tape, Var, Weight};

use crate::{Attend, Head, ModelConfig, Packed, lora};

/// The initial values of a new parameter. The optimiser applies weight decay to matrices, not to norms and biases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Init {
    /// Normal with standard deviation `initializer_range`: matrices.
    Normal,
    /// Norms.
    Ones,
    /// Biases.
    Zeros,
}

/// Receives the name, shape and initial values of each parameter, and returns its handle.
pub(crate) type Declare<'a> = &'a mut dyn FnMut(&str, &[usize], Init) -> Param;

#[derive(Debug, Clone)]
pub(crate) struct Decoder {
    embed_tokens: Param, // [V, D]
    layers: Vec<Layer>,
    norm: Param,     // [D]
    lm_head: Weight, // [V, D], `embed_tokens` where they are tied; [1, D] of a value model
    rope: Arc<Rope>,
    head_dim: usize,
    eps: f32,
}

#[derive(Debug, Clone)]
struct Layer {
    input_layernorm: Param, // [D]
    q_proj: Linear,         // [H * head_dim, D]
    k_proj: Linear,         // [KV * head_dim, D]
    v_proj: Linear,
    q_norm: Option<Param>, // [head_dim]
    k_norm: Option<Param>,
    o_proj: Linear,                  // [D, H * head_dim]
    post_attention_layernorm: Param, // [D]
    gate_proj: Linear,               // [F, D]
    up_proj: Linear,
    down_proj: Linear, // [D, F]
}

#[derive(Debug, Clone)]
struct Linear {
    name: String,
    weight: Weight,
    bias: Option<Param>,
}

impl Decoder {
    /// Declares every parameter, in the order in which the model uses them.
    pub(crate) fn declare(config: &ModelConfig, add: Declare<'_>) -> Self {
        let (vocab, width) = (config.vocab_size, config.hidden_size);
        let embed_tokens = add("model.embed_tokens.weight", &[vocab, width], Init::Normal);
        let layers = (0..config.num_hidden_layers).map(|layer| Layer::declare(config, layer, add)).collect();
        let norm = add("model.norm.weight", &[width], Init::Ones);
        let lm_head = match (config.head, config.tie_word_embeddings) {
            (Head::Value, _) => add("score.weight", &[1, width], Init::Zeros),
            (Head::Vocabulary, true) => embed_tokens,
            (Head::Vocabulary, false) => add("lm_head.weight", &[vocab, width], Init::Normal),
        };
        let rope = Rope::new(config.inverse_frequencies(), 1.0);
        Decoder {
            embed_tokens,
            layers,
            norm,
            lm_head: lm_head.into(),
            rope: Arc::new(rope),
            head_dim: config.head_dim,
            eps: config.rms_norm_eps as f32,
        }
    }

    /// Hidden states after the last norm, `[T, D]`, for `T` tokens at the given positions.
    pub(crate) fn forward(
        &self,
        tape: &mut Tape<'_>,
        ids: &[u32],
        positions: &Arc<[u32]>,
        mixer: &mut dyn Attend,
    ) -> Var {
        let mut hidden = tape.embed(self.embed_tokens, ids);
        for index in 0..self.layers.len() {
            hidden = self.layer(tape, index, &hidden, positions, mixer);
        }
        tape.rms_norm(&hidden, self.norm, self.eps)
    }

    /// As [`Decoder::forward`] for a packed batch, keeping only the hidden states between layers.
    pub(crate) fn forward_checkpointed<'p>(
        &'p self,
        tape: &mut Tape<'p>,
        ids: &[u32],
        positions: &Arc<[u32]>,
        mixer: &Packed,
    ) -> Var {
        let mut hidden = tape.embed(self.embed_tokens, ids);
        for index in 0..self.layers.len() {
            let (positions, mixer) = (Arc::clone(positions), mixer.clone());
            hidden = tape.checkpoint(&hidden, move |tape, hidden| {
                self.layer(tape, index, hidden, &positions, &mut mixer.clone())
            });
        }
        tape.rms_norm(&hidden, self.norm, self.eps)
    }

    /// The head, `[V, D]`.
    pub(crate) fn lm_head(&self) -> Weight {
        self.lm_head
    }

    /// Every linear map with the name of its module: those of the layers, then the head.
    pub(crate) fn linear_maps(&mut self) -> impl Iterator<Item = (&str, &mut Weight)> {
        let of_layers = self.layers.iter_mut().flat_map(|layer| {
            let Layer { q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, .. } = layer;
            [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj]
        });
        of_layers.map(|map| (&*map.name, &mut map.weight)).chain([(lora::HEAD, &mut self.lm_head)])
    }

    fn layer(
        &self,
        tape: &mut Tape<'_>,
        index: usize,
        hidden: &Var,
        positions: &Arc<[u32]>,
        mixer: &mut dyn Attend,
    ) -> Var {
        let layer = &self.layers[index];
        let normed = tape.rms_norm(hidden, layer.input_layernorm, self.eps);
        let attended = self.attention(tape, index, layer, &normed, positions, mixer);
        let hidden = tape.add(hidden, &attended);
        let normed = tape.rms_norm(&hidden, layer.post_attention_layernorm, self.eps);
        let mixed = layer.mlp(tape, &normed);
        tape.add(&hidden, &mixed)
    }

    fn attention(
        &self,
        tape: &mut Tape<'_>,
        index: usize,
        layer: &Layer,
        x: &Var,
        positions: &Arc<[u32]>,
        mixer: &mut dyn Attend,
    ) -> Var {
        let q = layer.q_proj.apply(tape, x);
        let k = layer.k_proj.apply(tape, x);
        let v = layer.v_proj.apply(tape, x);
        let q = self.turn(tape, q, layer.q_norm, positions);
        let k = self.turn(tape, k, layer.k_norm, positions);
        let mixed = mixer.attend(tape, index, q, k, v);
        layer.o_proj.apply(tape, &mixed)
    }

    /// Norms each head if the architecture does, and rotates it by its position.
    fn turn(&self, tape: &mut Tape<'_>, x: Var, norm: Option<Param>, positions: &Arc<[u32]>) -> Var {
        let x = match norm {
            Some(weight) => tape.rms_norm(&x, weight, self.eps),
            None => x,
        };
        tape.rope(x, self.head_dim, &self.rope, positions)
    }
}

impl Layer {
    fn declare(config: &ModelConfig, layer: usize, add: Declare<'_>) -> Self {
        let (width, inner) = (config.hidden_size, config.intermediate_size);
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        let (qkv_bias, o_bias, mlp_bias) = (config.has_qkv_bias, config.has_o_bias, config.has_mlp_bias);
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        let head_norm = |part: &str, add: Declare<'_>| {
            config.has_qk_norm.then(|| add(&name(part), &[config.head_dim], Init::Ones))
        };
        Layer {
            input_layernorm: add(&name("input_layernorm.weight"), &[width], Init::Ones),
            q_proj: Linear::declare(&name("self_attn.q_proj"), queries, width, qkv_bias, add),
            k_proj: Linear::declare(&name("self_attn.k_proj"), keys, width, qkv_bias, add),
            v_proj: Linear::declare(&name("self_attn.v_proj"), keys, width, qkv_bias, add),
            q_norm: head_norm("self_attn.q_norm.weight", add),
            k_norm: head_norm("self_attn.k_norm.weight", add),
            o_proj: Linear::declare(&name("self_attn.o_proj"), width, queries, o_bias, add),
            post_attention_layernorm: add(&name("post_attention_layernorm.weight"), &[width], Init::Ones),
            gate_proj: Linear::declare(&name("mlp.gate_proj"), inner, width, mlp_bias, add),
            up_proj: Linear::declare(&name("mlp.up_proj"), inner, width, mlp_bias, add),
            down_proj: Linear::declare(&name("mlp.down_proj"), width, inner, mlp_bias, add),
        }
    }

    fn mlp(&self, tape: &mut Tape<'_>, x: &Var) -> Var {
        let gate = self.gate_proj.apply(tape, x);
        let up = self.up_proj.apply(tape, x);
        tape.swiglu_linear(&gate, &up, self.down_proj.weight, self.down_proj.bias)
    }
}

impl Linear {
    fn declare(name: &str, rows: usize, cols: usize, has_bias: bool, add: Declare<'_>) -> Self {
        Linear {
            name: name.to_owned(),
            weight: add(&format!("{name}.weight"), &[rows, cols], Init::Normal).into(),
            bias: has_bias.then(|| add(&format!("{name}.bias"), &[rows], Init::Zeros)),
        }
    }

    fn apply(&self, tape: &mut Tape<'_>, x: &Var) -> Var {
        tape.linear(x, self.weight, self.bias)
    }
}

/// The head layout that attention needs.
pub(crate) fn head_shape(config: &ModelConfig) -> HeadShape {
    HeadShape {
        heads: config.num_attention_heads,
        kv_heads: config.num_key_value_heads,
        head_dim: config.head_dim,
    }
}
