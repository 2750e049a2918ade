//! The operations of [`MixerOp`] on a GPU.

use std::sync::Arc;

use super::{Elements, Gpu, Values};
use crate::{
    Layout, Param, Var,
    cuda::{
        Buffer, lock,
        ops::{
            delta::{self, Chunks},
            embed,
            linear_attention::{self, Gate, Rates},
            short_conv::{self, Paths},
        },
        values::{Converted, to_bf16},
    },
    data::Data,
    mixer_op::{MixerOp, Operand, States, nothing_kept},
};

impl Gpu<'_> {
    /// The result of an operation; see [`MixerOp::forward`].
    pub(crate) fn mix(&self, op: &mut MixerOp, operands: &[&Var], is_recording: bool) -> Data {
        let cuda = self.cuda;
        let x = |at: usize| operands[at].data.device().all();
        match op {
            MixerOp::Columns(columns) => linear_attention::columns(cuda, x(0), *columns),
            MixerOp::PutRows(put) => linear_attention::put_rows(cuda, x(0), Some(x(1)), put),
            MixerOp::Sigmoid => linear_attention::sigmoid(cuda, x(0)),
            MixerOp::SigmoidGate => linear_attention::gated(cuda, Gate::Sigmoid, [x(0), x(1)]),
            MixerOp::RootGate => linear_attention::gated(cuda, Gate::Root, [x(0), x(1)]),
            MixerOp::ShortConv { weight, layout } => {
                let paths = self.paths(layout, weight.cols);
                short_conv::forward(cuda, x(0), self.widened(*weight).all(), &paths)
            }
            MixerOp::UnitHeads { head_dim, scale } => {
                linear_attention::unit_heads(cuda, x(0), *head_dim, *scale)
            }
            MixerOp::LogDecay { a_log, dt_bias } => {
                linear_attention::log_decay(cuda, x(0), self.rates(*a_log, *dt_bias)).into()
            }
            MixerOp::DeltaRule { shape, layout, states } => {
                let (logs, chunks) = (x(3).in_f32(cuda), self.chunks(layout, false));
                let operands = delta::Operands {
                    q: x(0),
                    k: x(1),
                    v: x(2),
                    log_decay: logs.all(),
                    beta: x(4),
                    shape: *shape,
                };
                let (out, made) = delta::forward(cuda, delta::Inputs { operands, chunks: &chunks });
                if is_recording {
                    *states = States::Device(made);
                }
                out
            }
        }
        .into()
    }

    /// The gradients of the operands, each in its operand's type, and of the parameters; see [`MixerOp::backward`]. That of
    /// columns is added to `sum`, the gradient of their operand so far.
    pub(crate) fn mix_backward(
        &self,
        op: &MixerOp,
        operands: &[Operand],
        d: &Values,
        sum: Option<Arc<Values>>,
    ) -> (Vec<Values>, Vec<Option<Buffer<f32>>>) {
        let cuda = self.cuda;
        let data: Vec<Elements<'_>> =
            operands.iter().filter_map(|x| x.data.as_ref()).map(|data| data.device().all()).collect();
        let zeros = |param: Param| param.is_trained().then(|| Buffer::zeros(cuda, param.len()));
        let mut d_params: Vec<Option<Buffer<f32>>> = op.params().into_iter().map(zeros).collect();
        let gradients = match op {
            MixerOp::Columns(columns) => {
                let len = d.len() / columns.width * columns.period;
                let zeros = || Values::zeros(cuda, d.all().precision(), len);
                let mut d_x = sum.map_or_else(zeros, Arc::unwrap_or_clone);
                linear_attention::columns_backward(cuda, &mut d_x, d.all(), *columns);
                vec![d_x]
            }
            MixerOp::PutRows(put) => {
                let ids = embed::Ids::upload(cuda, &put.rows, d.len() / put.cols);
                let d_new = embed::forward(cuda, d.all().precision(), d.all(), put.cols, &ids);
                vec![linear_attention::put_rows(cuda, d.all(), None, put), d_new]
            }
            MixerOp::Sigmoid => vec![linear_attention::sigmoid_backward(cuda, data[0], d.all())],
            MixerOp::SigmoidGate => {
                linear_attention::gated_backward(cuda, Gate::Sigmoid, [data[0], data[1]], d.all()).into()
            }
            MixerOp::RootGate => {
                linear_attention::gated_backward(cuda, Gate::Root, [data[0], data[1]], d.all()).into()
            }
            MixerOp::ShortConv { weight, layout } => {
                let (paths, values) = (self.paths(layout, weight.cols), self.widened(*weight));
                let d_weight = d_params[0].as_mut().map(Buffer::all_mut);
                vec![short_conv::backward(cuda, data[0], values.all(), &paths, d.all(), d_weight)]
            }
            MixerOp::UnitHeads { head_dim, scale } => {
                vec![linear_attention::unit_heads_backward(cuda, data[0], *head_dim, *scale, d.all())]
            }
            MixerOp::LogDecay { a_log, dt_bias } => {
                let (d_a_log, d_dt_bias) = d_params.split_at_mut(1);
                let into = [&mut d_a_log[0], &mut d_dt_bias[0]].map(|own| own.as_mut().map(Buffer::all_mut));
                let rates = self.rates(*a_log, *dt_bias);
                vec![linear_attention::log_decay_backward(cuda, data[0], rates, d.wide(), into)]
            }
            MixerOp::DeltaRule { shape, layout, states } => {
                let States::Device(states) = states else { nothing_kept() };
                let (logs, chunks) = (data[3].in_f32(cuda), self.chunks(layout, false));
                let operands = delta::Operands {
                    q: data[0],
                    k: data[1],
                    v: data[2],
                    log_decay: logs.all(),
                    beta: data[4],
                    shape: *shape,
                };
                let inputs = delta::Inputs { operands, chunks: &chunks };
                let gradients = delta::backward(cuda, inputs, states.all(), d.all());
                let d_log_decay = match data[3] {
                    Elements::F32(_) => gradients.log_decay.into(),
                    Elements::Bf16(_) => to_bf16(cuda, gradients.log_decay.all()).into(),
                };
                vec![gradients.q, gradients.k, gradients.v, d_log_decay, gradients.beta]
            }
        };
        (gradients, d_params)
    }

    fn rates(&self, a_log: Param, dt_bias: Param) -> Rates<'_> {
        Rates { a_log: self.params.get(a_log), dt_bias: self.params.get(dt_bias) }
    }

    pub(crate) fn widened(&self, param: Param) -> Converted<'_, f32> {
        self.params.elements(param).in_f32(self.cuda)
    }

    fn paths(&self, layout: &Arc<Layout>, taps: usize) -> Arc<Paths> {
        lock(&self.batch).paths.get(
            |(other, of)| Arc::ptr_eq(other, layout) && *of == taps,
            || ((Arc::clone(layout), taps), Paths::upload(self.cuda, layout, taps)),
        )
    }

    pub(crate) fn chunks(&self, layout: &Arc<Layout>, keeps_ends: bool) -> Arc<Chunks> {
        lock(&self.batch).chunks.get(
            |(other, keeps)| Arc::ptr_eq(other, layout) && *keeps == keeps_ends,
            || ((Arc::clone(layout), keeps_ends), Chunks::upload(self.cuda, layout, keeps_ends)),
        )
    }
}
