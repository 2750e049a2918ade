//! Softmax attention.
//!
//! ```text
//! q = rope(q_norm(W_q x + b_q))    k = rope(k_norm(W_k x + b_k))    v = W_v x + b_v
//! out = W_o attention(q, k, v) (+ b_o)
//! ```
//!
//! Qwen3 and Qwen3.5 have `q_norm` and `k_norm` (per head, over `head_dim` columns); only Qwen2 has biases of q, k, v,
//! unless `attention_bias` asks for them. Qwen3.5 turns the first columns of each head only, and multiplies what is
//! attended by `σ(gate)`; `W_q` gives the gate of each head behind its query. Grouped-query attention: consecutive
//! query heads share a key and value head.

use std::sync::Arc;

use burnish_tensor::{HeadMaps, HeadShape, Norm, Rope, Tape, Var};

use super::linear::show;
use super::{Declare, Linear};
use crate::{Mix, ModelConfig, Tap};

#[derive(Debug, Clone)]
pub(super) struct Attention {
    /// Which of the model's layers of attention it is.
    index: usize,
    pub(super) q_proj: Linear, // [H * head_dim, D], twice as many rows with a gate
    pub(super) k_proj: Linear, // [KV * head_dim, D]
    pub(super) v_proj: Linear,
    pub(super) o_proj: Linear, // [D, H * head_dim]
    q_norm: Option<Norm>,      // [head_dim]
    k_norm: Option<Norm>,
    has_gate: bool,
    shape: HeadShape,
    head_dim: usize,
    eps: f32,
    rope: Arc<Rope>,
}

impl Attention {
    pub(super) fn declare(
        config: &ModelConfig,
        name: &str,
        index: usize,
        rope: &Arc<Rope>,
        add: Declare<'_>,
    ) -> Self {
        let (width, head_dim) = (config.hidden_size, config.head_dim);
        let queries = config.num_attention_heads * head_dim;
        let keys = config.num_key_value_heads * head_dim;
        let q_rows = if config.has_attention_gate { 2 * queries } else { queries };
        let (qkv_bias, o_bias) = (config.has_qkv_bias, config.has_o_bias);
        let part = |part: &str| format!("{name}.{part}");
        let head_norm = |name: &str, add: Declare<'_>| {
            config.has_qk_norm.then(|| super::norm(config, &part(name), head_dim, add))
        };
        Attention {
            index,
            q_proj: Linear::declare(&part("q_proj"), q_rows, width, qkv_bias, add),
            k_proj: Linear::declare(&part("k_proj"), keys, width, qkv_bias, add),
            v_proj: Linear::declare(&part("v_proj"), keys, width, qkv_bias, add),
            q_norm: head_norm("q_norm.weight", add),
            k_norm: head_norm("k_norm.weight", add),
            o_proj: Linear::declare(&part("o_proj"), width, queries, o_bias, add),
            has_gate: config.has_attention_gate,
            shape: super::head_shape(config),
            head_dim,
            eps: config.rms_norm_eps as f32,
            rope: Arc::clone(rope),
        }
    }

    /// `layer` is its number among all layers.
    pub(super) fn apply(
        &self,
        tape: &mut Tape<'_>,
        layer: usize,
        x: &Var,
        positions: &Arc<[u32]>,
        mixer: &mut dyn Mix,
        tap: &mut dyn Tap,
    ) -> Var {
        show(tap, [&self.q_proj, &self.k_proj, &self.v_proj], x);
        if !self.has_gate
            && tap.marked().is_empty()
            && let Some(mixed) = mixer.attend_projected(tape, self.index, x, &self.maps(), positions)
        {
            show(tap, [&self.o_proj], &mixed);
            return self.o_proj.apply(tape, &mixed);
        }
        let q = self.q_proj.apply(tape, x);
        let k = self.k_proj.apply(tape, x);
        let v = self.v_proj.apply(tape, x);
        let dim = self.head_dim;
        let (q, gate) = if self.has_gate {
            (tape.columns(&q, 2 * dim, 0, dim), Some(tape.columns(&q, 2 * dim, dim, dim)))
        } else {
            (q, None)
        };
        let q = self.turn(tape, q, self.q_norm, positions);
        let k = self.turn(tape, k, self.k_norm, positions);
        let seen = match tap.marked() {
            [] => None,
            marked => Some((marked.to_vec(), q.clone(), k.clone())),
        };
        let mut mixed = mixer.attend(tape, self.index, q, k, v);
        if let Some((marked, q, k)) = seen
            && let Some(shares) = mixer.attention_to(tape, self.index, &q, &k, &marked)
        {
            for (set, share) in shares.into_iter().enumerate() {
                tap.attention(tape, layer, set, share);
            }
        }
        if let Some(gate) = gate {
            mixed = tape.sigmoid_gate(&mixed, &gate);
        }
        show(tap, [&self.o_proj], &mixed);
        self.o_proj.apply(tape, &mixed)
    }

    fn maps(&self) -> HeadMaps {
        HeadMaps {
            maps: [&self.q_proj, &self.k_proj, &self.v_proj].map(Linear::map),
            norms: self.q_norm.zip(self.k_norm).map(<[Norm; 2]>::from),
            eps: self.eps,
            rope: Arc::clone(&self.rope),
            shape: self.shape,
        }
    }

    /// Numbers per row that a recording pass keeps of it, besides its input.
    pub(super) fn kept(&self) -> usize {
        let (keys, queries) = (self.k_proj.rows(), self.o_proj.weight.base.cols);
        let heads = (queries + keys) / self.head_dim;
        // What a norm reads, the root that it divides by, and what is attended.
        let turned = if self.q_norm.is_some() { 2 * (queries + keys) + heads } else { queries + keys };
        // The gate, and what is gated.
        let gate = if self.has_gate { 2 * queries } else { 0 };
        let adapters = [&self.q_proj, &self.k_proj, &self.v_proj, &self.o_proj].map(Linear::kept);
        turned + self.v_proj.rows() + self.attended() + gate + adapters.iter().sum::<usize>()
    }

    /// Numbers per row that attention computes: its output, and a log sum for each head.
    pub(super) fn attended(&self) -> usize {
        let queries = self.o_proj.weight.base.cols;
        queries + queries / self.head_dim
    }

    /// Norms each head if the architecture does, and rotates it by its position.
    fn turn(&self, tape: &mut Tape<'_>, x: Var, norm: Option<Norm>, positions: &Arc<[u32]>) -> Var {
        let x = match norm {
            Some(norm) => tape.rms_norm(&x, norm, self.eps),
            None => x,
        };
        tape.rope(x, self.head_dim, &self.rope, positions)
    }
}
