//! The operations of linear attention and of latent steps (`mixer_op.rs`).

use std::sync::Arc;

use super::Tape;
use crate::{
    DeltaInputs, DeltaShape, Layout, Param, Var,
    backward::Op,
    data::dispatch,
    mixer_op::{MixerOp, Operand, States},
    ops::{columns::Columns, put_rows::PutRows},
};

impl Tape<'_> {
    /// Of every `period` columns of a row those from `start` on, `width` of them, side by side:
    /// `[T, C] -> [T, C / period · width]`. With `period = C` a part of a fused projection, with a smaller one the same
    /// part of each head.
    pub fn columns(&mut self, x: &Var, period: usize, start: usize, width: usize) -> Var {
        assert!(
            width > 0 && start + width <= period && x.cols.is_multiple_of(period),
            "columns {start} to {} of every {period} in rows of {}",
            start + width,
            x.cols
        );
        self.mix(MixerOp::Columns(Columns { period, start, width }), &[x], x.cols / period * width)
    }

    /// `x` with row `rows[i]` replaced by row `i` of `new`; no row twice.
    pub fn put_rows(&mut self, x: &Var, new: &Var, rows: &[u32]) -> Var {
        assert_eq!((new.rows, new.cols), (rows.len(), x.cols), "one new row for each that is replaced");
        let put = PutRows { rows: rows.to_vec(), cols: x.cols };
        self.mix(MixerOp::PutRows(put), &[x, new], x.cols)
    }

    /// The same numbers as a constant: no gradient flows into what made them.
    pub fn detach(&mut self, x: &Var) -> Var {
        self.share(x)
    }

    /// `σ(x)`.
    pub fn sigmoid(&mut self, x: &Var) -> Var {
        self.mix(MixerOp::Sigmoid, &[x], x.cols)
    }

    /// `x ⊙ σ(gate)`.
    pub fn sigmoid_gate(&mut self, x: &Var, gate: &Var) -> Var {
        assert_eq!((x.rows, x.cols), (gate.rows, gate.cols), "one gate for each element");
        self.mix(MixerOp::SigmoidGate, &[x, gate], x.cols)
    }

    /// `x ⊙ √σ(gate)`: keys and values with a rate of writing for each of their channels, of which
    /// [`Tape::delta_rule`] with `β = 1` makes the symmetric form of vector rates (arXiv:2604.19021). Its gradient is
    /// finite at every gate.
    pub fn root_gate(&mut self, x: &Var, gate: &Var) -> Var {
        assert_eq!((x.rows, x.cols), (gate.rows, gate.cols), "one gate for each element");
        self.mix(MixerOp::RootGate, &[x, gate], x.cols)
    }

    /// Depthwise causal convolution with SiLU: `y[t, c] = silu(Σ_j w[c, K-1-j] x[t-j, c])`, with `weight` `[C, K]` (Hugging
    /// Face: `[C, 1, K]`). `t - j` runs along a row's path through `layout`; before the beginning of a sequence `x` is
    /// 0. Without a tape: [`short_conv_continued`](crate::short_conv_continued).
    pub fn short_conv(&mut self, x: &Var, weight: Param, layout: &Arc<Layout>) -> Var {
        assert_eq!(weight.rows, x.cols, "one filter for each column");
        assert_eq!(layout.rows(), x.rows, "rows of the layout");
        assert!(layout.is_causal(), "a convolution over the tokens before a token");
        self.mix(MixerOp::ShortConv { weight, layout: Arc::clone(layout) }, &[x], x.cols)
    }

    /// `scale · x / sqrt(Σ x² + 1e-6)` of each head of `head_dim` neighbouring columns.
    pub fn unit_heads(&mut self, x: &Var, head_dim: usize, scale: f32) -> Var {
        assert!(x.cols.is_multiple_of(head_dim), "rows of {} are not heads of {head_dim}", x.cols);
        self.mix(MixerOp::UnitHeads { head_dim, scale }, &[x], x.cols)
    }

    /// The logarithm of a decay, `-exp(a_log) · softplus(x + dt_bias)`: `x` and `dt_bias` have a column for each head, or
    /// several for each; `a_log` `[H]` has one element for a head. On a GPU it is f32 in every precision.
    pub fn log_decay(&mut self, x: &Var, a_log: Param, dt_bias: Param) -> Var {
        assert_eq!(dt_bias.len(), x.cols, "one bias for each column");
        assert!(x.cols.is_multiple_of(a_log.len()), "rows of {} for {} heads", x.cols, a_log.len());
        self.mix(MixerOp::LogDecay { a_log, dt_bias }, &[x], x.cols)
    }

    /// A gated delta rule: per value head the state `S_t = (I - β k kᵀ) Diag(e^g) S_{t-1} + β k vᵀ`, which is 0 before a
    /// sequence, and the output `S_tᵀ q_t`, `[T, value_heads · value_dim]` (Yang et al. 2024, arXiv:2412.06464; with a
    /// decay for each channel arXiv:2510.26692). States go along the paths of `layout`: a segment goes on from the
    /// state after its parent. Vector rates, `β_t` in `(0, 1)^d` (arXiv:2604.19021), are `β = 1` with `k` and `v`
    /// scaled by their square roots ([`Tape::root_gate`]). Without a tape: [`delta_scan`](crate::delta_scan) and
    /// [`delta_step`](crate::delta_step).
    ///
    /// The backward pass computes each chunk of [`DELTA_CHUNK`](crate::DELTA_CHUNK) rows again from the state before it,
    /// and only these states are kept.
    pub fn delta_rule(&mut self, inputs: DeltaInputs<'_>, shape: DeltaShape, layout: &Arc<Layout>) -> Var {
        let DeltaInputs { q, k, v, log_decay, beta } = inputs;
        let rows = layout.rows();
        assert!([q, k, v, log_decay, beta].iter().all(|x| x.rows == rows), "rows of the layout");
        assert!(layout.is_causal(), "a state goes from token to token");
        let op = MixerOp::DeltaRule { shape, layout: Arc::clone(layout), states: States::None };
        self.mix(op, &[q, k, v, log_decay, beta], shape.value_width())
    }

    fn mix(&mut self, mut op: MixerOp, operands: &[&Var], cols: usize) -> Var {
        let rows = operands[0].rows;
        let is_recording = self.is_recording;
        let data = dispatch!(self, |gpu| gpu.mix(&mut op, operands, is_recording), {
            let params: Vec<_> = op.params().into_iter().map(|p| self.params.elements(p).widened()).collect();
            let params: Vec<&[f32]> = params.iter().map(|values| &**values).collect();
            let values: Vec<&[f32]> = operands.iter().map(|x| x.data()).collect();
            op.forward(&values, &params, is_recording).into()
        });
        let reads_again = op.reads_again();
        self.push(rows, cols, data, || Op::Mixer {
            op,
            operands: operands
                .iter()
                .map(|x| Operand { slot: x.slot, data: reads_again.then(|| Arc::clone(&x.data)) })
                .collect(),
        })
    }
}
