//! The backward pass of a tape on a GPU: the recorded operations in reverse.

use std::sync::Arc;

use super::{
    Buffer, SliceMut,
    ops::{attention, elementwise, embed, head_loss::HeadLoss, linear, low_rank, norm, scores},
    tape::{Gpu, Scored, head_rows::Teacher},
    values::Values,
};
use crate::{
    Adapter, GradientsMut, HeadTerm, Param, Tape, Var,
    backward::Op,
    flat::Sink,
    mixer_op::{MixerOp, Operand},
    ops::{self, linear::Shape, rope::Turn},
    tape::{Rerun, ScoresRecord, Softmax},
};

/// Gradients that are not complete yet. Shared, because both terms of a sum get the gradient of the sum.
type Slots = Vec<Option<Arc<Values>>>;

#[expect(clippy::panic, reason = "a mistake of the program")]
fn elsewhere() -> ! {
    panic!("gradients on a GPU of values on the host: they were made for other parameters")
}

impl<'p> Tape<'p> {
    fn on_gpu(&self) -> Gpu<'p> {
        self.gpu().cloned().unwrap_or_else(|| elsewhere())
    }

    /// See [`Tape::backward_with`].
    pub(crate) fn backward_on_gpu(
        self,
        record: ScoresRecord,
        seeds: ops::scores::Seeds<'_>,
        term: Option<HeadTerm<'_>>,
        share: Option<GradientsMut<'_>>,
        mut grads: SliceMut<'_, f32>,
    ) -> Vec<f64> {
        let gpu = self.on_gpu();
        let ScoresRecord { hidden, head, low_rank, softmax, temperatures, .. } = record;
        let Softmax::Device(Scored { asked, rows }) = softmax else { elsewhere() };
        let mut share = share.map(|share| match share.0 {
            Sink::Device(share) => share,
            Sink::Host(_) => elsewhere(),
        });
        let teacher = term.and_then(|term| Teacher::of(&gpu, term));
        let mut loss = term.map(|term| {
            let theirs = teacher.as_ref().map(|teacher| teacher.inputs(&asked));
            HeadLoss::of(gpu.cuda, term, &temperatures, head.rows, theirs)
        });
        let ops::scores::Seeds { d_logprob, d_entropy } = seeds;
        let d_logprob = Buffer::upload(gpu.cuda, d_logprob);
        let d_entropy = (!d_entropy.is_empty()).then(|| Buffer::upload(gpu.cuda, d_entropy));
        let seeds =
            scores::Seeds { d_logprob: d_logprob.all(), d_entropy: d_entropy.as_ref().map(Buffer::all) };
        let inputs = gpu.score_inputs(&hidden.data, head, low_rank.as_ref(), &asked);
        let mut d_b = low_rank.as_ref().and_then(|(adapter, _)| own_gradient(&gpu, adapter.b));
        // As on the host, the share is the gradient after minus the gradient before; `-(-share + before)` has the same
        // bits.
        if let (Some(share), Some(own)) = (&mut share, gradient(&mut grads, head)) {
            elementwise::scale(gpu.cuda, share.again(), -1.0);
            elementwise::add_assign(gpu.cuda, share.again(), own.read().into());
            elementwise::scale(gpu.cuda, share.again(), -1.0);
        }
        let d_weight = match &mut share {
            Some(share) if !head.is_trained() => Some(share.again()),
            _ => gradient(&mut grads, head),
        };
        let params = scores::ParamGradients { d_weight, d_b: d_b.as_mut().map(Buffer::all_mut) };
        let (mut d_hidden, d_u) = scores::backward(gpu.cuda, inputs, rows, seeds, loss.as_mut(), params);
        if let (Some(share), Some(own)) = (&mut share, gradient(&mut grads, head)) {
            elementwise::add_assign(gpu.cuda, share.again(), own.read().into());
        }
        if let Some((adapter, _)) = &low_rank {
            add_own(&gpu, &mut grads, adapter.b, d_b);
            let inputs = gpu.low_rank_inputs(*adapter, hidden.data.device().all(), hidden.rows);
            let d_a = gradient(&mut grads, adapter.a);
            low_rank::scaled_inner_backward(gpu.cuda, inputs, d_u.all(), d_hidden.all_mut(), d_a);
        }
        self.flow_back_on_gpu(hidden.slot, Arc::new(d_hidden), grads);
        loss.map_or_else(Vec::new, |loss| gpu.losses(loss, temperatures.len()))
    }

    /// See [`Tape::backward_from`].
    pub(crate) fn backward_from_on_gpu(self, out: &Var, d_out: &[f32], grads: SliceMut<'_, f32>) {
        let precision = out.data.device().all().precision();
        let d_out = Values::upload(self.on_gpu().cuda, precision, d_out);
        self.flow_back_on_gpu(out.slot, Arc::new(d_out), grads);
    }

    fn flow_back_on_gpu(mut self, slot: usize, d: Arc<Values>, grads: SliceMut<'_, f32>) -> Slots {
        let mut records = std::mem::take(&mut self.records);
        let gpu = self.on_gpu();
        let mut flow = Flow { tape: &self, gpu, grads, slots: vec![None; self.slots] };
        flow.slots[slot] = Some(d);
        while let Some(record) = records.pop() {
            if let Some(d_out) = flow.slots[record.out].take() {
                flow.step(record.op, d_out);
            }
        }
        flow.slots
    }
}

/// The part of the flat buffer that belongs to a parameter; `None` for a frozen one.
fn gradient<'g>(grads: &'g mut SliceMut<'_, f32>, param: Param) -> Option<SliceMut<'g, f32>> {
    param.is_trained().then(|| grads.slice(param.range()))
}

/// A buffer for the gradient of a small factor, because the parts of both factors in the flat buffer can't be borrowed
/// at once.
fn own_gradient(gpu: &Gpu<'_>, param: Param) -> Option<Buffer<f32>> {
    param.is_trained().then(|| Buffer::zeros(gpu.cuda, param.len()))
}

fn add_own(gpu: &Gpu<'_>, grads: &mut SliceMut<'_, f32>, param: Param, own: Option<Buffer<f32>>) {
    if let (Some(sum), Some(own)) = (gradient(grads, param), own) {
        elementwise::add_assign(gpu.cuda, sum, own.all().into());
    }
}

/// The gradients of values that are not complete yet, and those of the parameters.
struct Flow<'a, 'p> {
    tape: &'a Tape<'p>,
    gpu: Gpu<'p>,
    grads: SliceMut<'a, f32>,
    slots: Slots,
}

impl<'p> Flow<'_, 'p> {
    fn step(&mut self, op: Op<'p>, d: Arc<Values>) {
        let cuda = self.gpu.cuda;
        match op {
            Op::Embed { table, ids } => {
                if let Some(d_table) = gradient(&mut self.grads, table) {
                    let scatter = embed::Scatter::upload(cuda, &ids, table.rows);
                    embed::backward(cuda, d_table, table.cols, &scatter, d.all());
                }
            }
            Op::Linear { x, weight, bias } => self.linear(&x, weight, bias, &d),
            Op::LowRank { y, x, inner, adapter, keys } => {
                self.low_rank(&x, inner.device(), adapter, keys.as_ref(), &d);
                self.add(y, d);
            }
            Op::RmsNorm { x, inverse_rms, norm } => {
                let mut d = Arc::unwrap_or_clone(d);
                let d_weight = gradient(&mut self.grads, norm.weight);
                let (x_data, inverse_rms) = (x.data.device().all(), inverse_rms.device().wide());
                norm::backward(cuda, x_data, inverse_rms, self.gpu.norm(norm), d.all_mut(), d_weight);
                self.add(x.slot, Arc::new(d));
            }
            Op::Rope { x, cols, head_dim, rope, positions } => {
                let mut d = Arc::unwrap_or_clone(d).into();
                self.gpu.rope(&mut d, cols, head_dim, &rope, &positions, Turn::Back);
                self.add(x, Arc::new(d.into_device()));
            }
            Op::Attention { q, k, v, out, log_sums, shape, layout } => {
                let forest = self.gpu.forest(&layout, shape.head_dim);
                let [q_data, k_data, v_data, out] = [&q, &k, &v, &out].map(|x| x.data.device().all());
                let inputs = attention::Inputs { q: q_data, k: k_data, v: v_data, shape, forest: &forest };
                let log_sums = log_sums.device().wide();
                let outputs = attention::Outputs { out, log_sums, d_out: d.all() };
                let gradients = attention::backward(cuda, inputs, outputs);
                self.add(q.slot, Arc::new(gradients.d_q));
                self.add(k.slot, Arc::new(gradients.d_k));
                self.add(v.slot, Arc::new(gradients.d_v));
            }
            Op::Swiglu { gate, up } => {
                let mut d = Arc::unwrap_or_clone(d);
                let (gate_data, up_data) = (gate.data.device().all(), up.data.device().all());
                let d_gate = elementwise::swiglu_backward(cuda, gate_data, up_data, d.all_mut());
                self.add(gate.slot, Arc::new(d_gate));
                self.add(up.slot, Arc::new(d));
            }
            Op::SwigluLinear { gate, up, gated, weight, bias } => {
                let data = Arc::new(self.gpu.swiglu(&gate.data, &up.data));
                let x = Var { data, rows: gate.rows, cols: gate.cols, slot: gated };
                self.linear(&x, weight, bias, &d);
                drop(x);
                if let Some(d) = self.slots[gated].take() {
                    self.step(Op::Swiglu { gate, up }, d);
                }
            }
            Op::Add { a, b } => {
                self.add(a, Arc::clone(&d));
                self.add(b, d);
            }
            Op::Gather { x, x_rows, cols, rows } => {
                let mut d_x = Values::zeros(cuda, d.all().precision(), x_rows * cols);
                let scatter = embed::Scatter::upload(cuda, &rows, x_rows);
                embed::backward(cuda, d_x.all_mut(), cols, &scatter, d.all());
                self.add(x, Arc::new(d_x));
            }
            Op::Mixer { op, operands } => self.mix(&op, operands, &d),
            Op::Checkpoint { x, run, attended } => {
                let Rerun { tape, input, out } = self.tape.rerun(&x, &run, attended);
                let mut slots = tape.flow_back_on_gpu(out, d, self.grads.again());
                if let Some(d_x) = slots[input].take() {
                    self.add(x.slot, d_x);
                }
            }
        }
    }

    fn linear(&mut self, x: &Var, weight: Param, bias: Option<Param>, d: &Values) {
        let cuda = self.gpu.cuda;
        let precision = self.tape.params.precision();
        let shape = Shape { rows: x.rows, inputs: weight.cols, outputs: weight.rows, precision };
        if let Some(d_weight) = gradient(&mut self.grads, weight) {
            linear::backward_weight(cuda, d.all(), x.data.device().all(), shape, d_weight);
        }
        if let Some(d_bias) = bias.and_then(|bias| gradient(&mut self.grads, bias)) {
            linear::backward_bias(cuda, d.all(), d_bias);
        }
        let d_x = self.slots[x.slot].take().map(Arc::unwrap_or_clone);
        let d_x = linear::backward_input(cuda, d.all(), self.gpu.params.operand(weight), shape, d_x);
        self.slots[x.slot] = Some(Arc::new(d_x));
    }

    fn low_rank(&mut self, x: &Var, inner: &Values, adapter: Adapter, keys: Option<&Arc<[u64]>>, d: &Values) {
        let gpu = self.gpu.clone();
        let dropped = keys.map(|keys| gpu.dropped(adapter, keys, &x.data));
        let x_data = dropped.as_ref().unwrap_or(x.data.device());
        let inputs = gpu.low_rank_inputs(adapter, x_data.all(), x.rows);
        let [mut d_a, mut d_b] = [adapter.a, adapter.b].map(|param| own_gradient(&gpu, param));
        let factors = [&mut d_a, &mut d_b].map(|own| own.as_mut().map(Buffer::all_mut));
        let [to_a, to_b] = factors;
        let mut d_x = low_rank::backward(gpu.cuda, inputs, inner.all(), d.all(), to_a, to_b);
        add_own(&gpu, &mut self.grads, adapter.a, d_a);
        add_own(&gpu, &mut self.grads, adapter.b, d_b);
        if let Some(keys) = keys {
            gpu.drop_out(adapter, keys, &mut d_x);
        }
        self.add(x.slot, Arc::new(d_x));
    }

    fn mix(&mut self, op: &MixerOp, operands: Vec<Operand>, d: &Values) {
        // The parts of a fused projection add to one gradient.
        let sum = match op {
            MixerOp::Columns(_) => self.slots[operands[0].slot].take(),
            _ => None,
        };
        let (gradients, d_params) = self.gpu.mix_backward(op, &operands, d, sum);
        for (param, own) in op.params().into_iter().zip(d_params) {
            add_own(&self.gpu, &mut self.grads, param, own);
        }
        for (operand, d) in operands.into_iter().zip(gradients) {
            self.add(operand.slot, Arc::new(d));
        }
    }

    /// Adds `d` to the gradient of a value.
    fn add(&mut self, slot: usize, d: Arc<Values>) {
        match &mut self.slots[slot] {
            Some(sum) => {
                elementwise::add_assign(self.gpu.cuda, Arc::make_mut(sum).all_mut(), d.all());
            }
            empty => *empty = Some(d),
        }
    }
}
