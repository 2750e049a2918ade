//! The operations of linear attention and of latent steps: their operands, parameters and gradients, and their
//! arithmetic on the host. That on a GPU is in `cuda/tape/mixer.rs`.

use std::sync::Arc;

use crate::{
    Buffer, DeltaRows, DeltaShape, Elements, Layout, Param, cuda,
    data::Data,
    ops::{
        columns::{self, Columns},
        delta, log_decay,
        put_rows::{self, PutRows},
        root_gate,
        short_conv::{self, ConvWeight},
        sigmoid, unit_heads,
    },
};

/// An operation, with what its backward pass needs besides its operands.
pub(crate) enum MixerOp {
    /// Of `[x]`.
    Columns(Columns),
    /// Of `[x, new]`.
    PutRows(PutRows),
    /// Of `[x]`.
    Sigmoid,
    /// Of `[x, gate]`.
    SigmoidGate,
    /// Of `[x, gate]`.
    RootGate,
    /// Of `[x]`.
    ShortConv { weight: Param, layout: Arc<Layout> },
    /// Of `[x]`.
    UnitHeads { head_dim: usize, scale: f32 },
    /// Of `[x]`.
    LogDecay { a_log: Param, dt_bias: Param },
    /// Of `[q, k, v, log_decay, beta]`.
    DeltaRule { shape: DeltaShape, layout: Arc<Layout>, states: States },
}

/// The states that a delta rule keeps for its backward pass.
pub(crate) enum States {
    None,
    /// Before each chunk.
    Host(delta::States),
    /// Those that a chunk goes on from.
    Device(cuda::Buffer<f32>),
}

/// An operand of a recorded operation.
pub(crate) struct Operand {
    /// The slot of its gradient.
    pub(crate) slot: usize,
    /// Its numbers, if the backward pass reads them.
    pub(crate) data: Option<Arc<Data>>,
}

/// Gradients of an operation's operands, in their order.
pub(crate) type OperandGradients = Vec<Buffer>;

impl MixerOp {
    /// The parameters that it reads.
    pub(crate) fn params(&self) -> Vec<Param> {
        match self {
            MixerOp::Columns(_)
            | MixerOp::PutRows(_)
            | MixerOp::Sigmoid
            | MixerOp::SigmoidGate
            | MixerOp::RootGate
            | MixerOp::UnitHeads { .. }
            | MixerOp::DeltaRule { .. } => Vec::new(),
            MixerOp::ShortConv { weight, .. } => vec![*weight],
            MixerOp::LogDecay { a_log, dt_bias } => vec![*a_log, *dt_bias],
        }
    }

    /// Does the backward pass read the operands?
    pub(crate) fn reads_again(&self) -> bool {
        !matches!(self, MixerOp::Columns(_) | MixerOp::PutRows(_))
    }

    /// Its result, from its operands and its parameters. Remembers what the backward pass needs if `is_recording`.
    pub(crate) fn forward(&mut self, x: &[&[f32]], params: &[&[f32]], is_recording: bool) -> Buffer {
        match self {
            MixerOp::Columns(columns) => columns::forward(x[0], *columns),
            MixerOp::PutRows(put) => put_rows::forward(x[0], x[1], put),
            MixerOp::Sigmoid => sigmoid::forward(x[0]),
            MixerOp::SigmoidGate => sigmoid::gate_forward(x[0], x[1]),
            MixerOp::RootGate => root_gate::forward(x[0], x[1]),
            MixerOp::ShortConv { weight, layout } => {
                short_conv::forward(x[0], conv_weight(params, *weight), layout)
            }
            MixerOp::UnitHeads { head_dim, scale } => unit_heads::forward(x[0], *head_dim, *scale),
            MixerOp::LogDecay { .. } => log_decay::forward(x[0], rates(params)),
            MixerOp::DeltaRule { shape, layout, states } => {
                let (out, kept) = delta::Job::new(delta_rows(x), *shape, layout).forward(is_recording);
                *states = States::Host(kept);
                out
            }
        }
    }

    /// The gradients of the operands, given `d` of the result; adds those of parameters to `d_params`, which has one
    /// element for each of [`MixerOp::params`], `None` for a frozen one.
    pub(crate) fn backward(
        &self,
        x: &[&[f32]],
        params: &[&[f32]],
        d: &[f32],
        d_params: &mut [Option<Vec<f32>>],
    ) -> OperandGradients {
        match self {
            MixerOp::Columns(columns) => vec![columns::backward(d, *columns)],
            MixerOp::PutRows(put) => put_rows::backward(d, put).into(),
            MixerOp::Sigmoid => vec![sigmoid::backward(x[0], d)],
            MixerOp::SigmoidGate => sigmoid::gate_backward(x[0], x[1], d).into(),
            MixerOp::RootGate => root_gate::backward(x[0], x[1], d).into(),
            MixerOp::ShortConv { weight, layout } => {
                let weight = conv_weight(params, *weight);
                vec![short_conv::backward(x[0], weight, layout, d, d_params[0].as_deref_mut())]
            }
            MixerOp::UnitHeads { head_dim, scale } => vec![unit_heads::backward(x[0], *head_dim, *scale, d)],
            MixerOp::LogDecay { .. } => {
                let (d_a_log, d_dt_bias) = d_params.split_at_mut(1);
                let (d_a_log, d_dt_bias) = (d_a_log[0].as_deref_mut(), d_dt_bias[0].as_deref_mut());
                vec![log_decay::backward(x[0], rates(params), d, d_a_log, d_dt_bias)]
            }
            MixerOp::DeltaRule { shape, layout, states } => {
                let job = delta::Job::new(delta_rows(x), *shape, layout);
                let States::Host(states) = states else { nothing_kept() };
                let gradients = delta::backward(&job, states, d);
                vec![gradients.q, gradients.k, gradients.v, gradients.log_decay, gradients.beta]
            }
        }
    }
}

/// # Panics
/// Always.
#[expect(clippy::panic, reason = "a mistake of the program")]
pub(crate) fn nothing_kept() -> ! {
    panic!("the backward pass of a delta rule that kept nothing on this device")
}

fn conv_weight<'a>(params: &[&'a [f32]], weight: Param) -> ConvWeight<'a> {
    ConvWeight { elements: Elements::F32(params[0]), taps: weight.cols }
}

fn rates<'a>(params: &[&'a [f32]]) -> log_decay::Rates<'a> {
    log_decay::Rates { a_log: params[0], dt_bias: params[1] }
}

fn delta_rows<'a>(x: &[&'a [f32]]) -> DeltaRows<'a> {
    DeltaRows { q: x[0], k: x[1], v: x[2], log_decay: x[3], beta: x[4] }
}
