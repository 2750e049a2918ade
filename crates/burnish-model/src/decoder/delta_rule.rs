//! The gated delta rule (Yang, Kautz, Hatamizadeh 2024, arXiv:2412.06464), as Qwen3.5 has it: linear attention whose
//! state is a matrix per head that is read and rewritten at every token.
//!
//! ```text
//! q, k, v = silu(conv(W_qkv x))           a convolution over the last tokens, column by column
//! q = q / |q| / sqrt(key_dim)             k = k / |k|                                  per head
//! β = σ(W_b x)                            g = -exp(A_log) softplus(W_a x + dt_bias)    per value head
//! S_t = (I - β k kᵀ) e^g S_{t-1} + β k vᵀ                  o = Sᵀ q
//! out = W_o (norm(o) ⊙ silu(W_z x))                                                    norm per value head
//! ```

use burnish_tensor::{DELTA_CHUNK, DeltaInputs, DeltaShape, Param, Tape, Var};

use super::linear::show;
use super::{Declare, Init, Linear};
use crate::config::DeltaRuleConfig;
use crate::{Mix, ModelConfig, Tap};

#[derive(Debug, Clone)]
pub(super) struct DeltaRule {
    /// Which of the model's layers of this kind it is.
    index: usize,
    pub(super) in_proj_qkv: Linear, // [2 · K · key_dim + V · value_dim, D]
    pub(super) in_proj_z: Linear,   // [V · value_dim, D]
    pub(super) in_proj_b: Linear,   // [V, D]
    pub(super) in_proj_a: Linear,   // [V, D]
    pub(super) out_proj: Linear,    // [D, V · value_dim]
    conv: Param,                    // [rows of in_proj_qkv, 1, kernel]
    a_log: Param,                   // [V]
    dt_bias: Param,                 // [V]
    norm: Param,                    // [value_dim]
    shape: DeltaShape,
    eps: f32,
}

impl DeltaRule {
    pub(super) fn declare(
        config: &ModelConfig,
        delta: DeltaRuleConfig,
        name: &str,
        index: usize,
        add: Declare<'_>,
    ) -> Self {
        let (width, shape) = (config.hidden_size, delta.shape());
        let (keys, values) = (shape.key_heads * shape.key_dim, shape.value_heads * shape.value_dim);
        let columns = delta.conv_columns();
        let part = |part: &str| format!("{name}.{part}");
        let linear =
            |name: &str, rows, cols, add: Declare<'_>| Linear::declare(&part(name), rows, cols, false, add);
        debug_assert_eq!(columns, 2 * keys + values);
        DeltaRule {
            index,
            dt_bias: add(&part("dt_bias"), &[shape.value_heads], Init::Ones),
            a_log: add(&part("A_log"), &[shape.value_heads], Init::LogOfUniform),
            conv: add(&part("conv1d.weight"), &[columns, 1, delta.conv_kernel], Init::Normal),
            in_proj_qkv: linear("in_proj_qkv", columns, width, add),
            in_proj_z: linear("in_proj_z", values, width, add),
            in_proj_b: linear("in_proj_b", shape.value_heads, width, add),
            in_proj_a: linear("in_proj_a", shape.value_heads, width, add),
            norm: add(&part("norm.weight"), &[shape.value_dim], Init::Ones),
            out_proj: linear("out_proj", width, values, add),
            shape,
            eps: config.rms_norm_eps as f32,
        }
    }

    pub(super) fn apply(&self, tape: &mut Tape<'_>, x: &Var, mixer: &mut dyn Mix, tap: &mut dyn Tap) -> Var {
        let DeltaShape { key_heads, key_dim, value_heads, value_dim } = self.shape;
        let (keys, values) = (key_heads * key_dim, value_heads * value_dim);
        show(tap, [&self.in_proj_qkv, &self.in_proj_z, &self.in_proj_b, &self.in_proj_a], x);
        let qkv = self.in_proj_qkv.apply(tape, x);
        let z = self.in_proj_z.apply(tape, x);
        let beta = self.in_proj_b.apply(tape, x);
        let beta = tape.sigmoid(&beta);
        let log_decay = self.in_proj_a.apply(tape, x);
        let log_decay = tape.log_decay(&log_decay, self.a_log, self.dt_bias);

        let qkv = mixer.convolve(tape, self.index, &qkv, self.conv);
        let mut part = |start, width| tape.columns(&qkv, 2 * keys + values, start, width);
        let (q, k, v) = (part(0, keys), part(keys, keys), part(2 * keys, values));
        let q = tape.unit_heads(&q, key_dim, (key_dim as f32).sqrt().recip());
        let k = tape.unit_heads(&k, key_dim, 1.0);
        let inputs = DeltaInputs { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
        let mixed = mixer.recur(tape, self.index, inputs, self.shape);

        let normed = tape.rms_norm(&mixed, self.norm, self.eps);
        let gated = tape.swiglu(&z, &normed);
        show(tap, [&self.out_proj], &gated);
        self.out_proj.apply(tape, &gated)
    }

    /// Numbers per row that a recording pass keeps of it, besides its input.
    pub(super) fn kept(&self) -> usize {
        let values = self.shape.value_width();
        let rates = 2 * (self.in_proj_b.rows() + self.in_proj_a.rows());
        // z, the norm's input and result, and what is gated.
        let gated = 4 * values + self.shape.value_heads;
        let maps = [&self.in_proj_qkv, &self.in_proj_z, &self.in_proj_b, &self.in_proj_a, &self.out_proj];
        kept_by_rule(self.shape) + rates + gated + maps.map(Linear::kept).iter().sum::<usize>()
    }
}

/// Numbers per row that are kept of the convolution's input, of queries and keys before and after they have their length, of
/// values, and of the state before each chunk.
pub(super) fn kept_by_rule(shape: DeltaShape) -> usize {
    let (keys, values) = (shape.key_width(), shape.value_width());
    (2 * keys + values) + 4 * keys + values + shape.state_len().div_ceil(DELTA_CHUNK)
}
