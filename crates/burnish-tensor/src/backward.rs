//! The backward pass: the recorded operations in reverse.

use std::sync::Arc;

use crate::{
    Adapter, Buffer, GradientsMut, HeadShape, HeadTerm, Layout, Norm, Param, Params, Rope, Tape, TokenScores,
    Var,
    data::Data,
    flat::Sink,
    mixer_op::{MixerOp, Operand},
    ops::{self, attention, attention_backward, head_loss::HeadLoss, linear, low_rank, rope::Turn, scores},
    parallel,
    tape::{Attended, Rerun, Run, ScoresRecord, Softmax},
};

/// An operation with what its backward pass needs. The only `match` over it has no default arm, so that an operation
/// without a gradient does not compile.
pub(crate) enum Op<'p> {
    Embed { table: Param, ids: Vec<u32> },
    Linear { x: Var, weight: Param, bias: Option<Param> },
    LowRank { y: usize, x: Var, inner: Data, adapter: Adapter, keys: Option<Arc<[u64]>> },
    RmsNorm { x: Var, inverse_rms: Data, norm: Norm },
    Rope { x: usize, cols: usize, head_dim: usize, rope: Arc<Rope>, positions: Arc<[u32]> },
    Attention { q: Var, k: Var, v: Var, out: Var, log_sums: Data, shape: HeadShape, layout: Arc<Layout> },
    Swiglu { gate: Var, up: Var },
    SwigluLinear { gate: Var, up: Var, gated: usize, weight: Param, bias: Option<Param> },
    Add { a: usize, b: usize },
    Gather { x: usize, x_rows: usize, cols: usize, rows: Vec<u32> },
    Mixer { op: MixerOp, operands: Vec<Operand> },
    Checkpoint { x: Var, run: Run<'p>, attended: Attended },
}

impl<'p> Tape<'p> {
    /// Adds the gradient of `Σᵢ d_logprob[i] · logprob[i] + d_entropy[i] · entropy[i]` to `grads`, which is laid out
    /// like the parameters. An empty `d_entropy` stands for zeros.
    ///
    /// # Panics
    /// If the tape does not record, or `scores` come from another tape.
    pub fn backward<'g>(
        self,
        scores: &TokenScores,
        d_logprob: &[f32],
        d_entropy: &[f32],
        grads: impl Into<GradientsMut<'g>>,
    ) {
        self.backward_with(scores, d_logprob, d_entropy, None, None, grads);
    }

    /// As [`Tape::backward`], for the sum of that scalar and `Σᵢ weights[i] · loss[i]`, with the losses of `term`. The
    /// derivative of the losses by the logits is computed where the logits are, some rows at a time. Returns the loss
    /// of each row, 0 for rows without weight; nothing without a term.
    ///
    /// Also adds to `share` the gradient that the head's matrix gets as the head, whether or not the matrix is trained;
    /// if head and embedding are tied, this leaves out what it gets as the embedding. `share` is laid out like that
    /// matrix and is on the same device as `grads`. `grads` are the same to the bit with and without it.
    ///
    /// A term waits for a GPU. If the GPU has failed, losses are NaN and [`Device::check`](crate::Device::check)
    /// returns the error.
    ///
    /// # Panics
    /// As [`Tape::backward`], if sizes differ, or if the share or the term's teacher is on another device.
    pub fn backward_with<'g>(
        mut self,
        scores: &TokenScores,
        d_logprob: &[f32],
        d_entropy: &[f32],
        term: Option<HeadTerm<'_>>,
        share: Option<GradientsMut<'_>>,
        grads: impl Into<GradientsMut<'g>>,
    ) -> Vec<f64> {
        assert!(self.is_recording, "backward needs a recording tape");
        assert!(scores.node < self.scores.len(), "scores of another tape");
        let record = self.scores.swap_remove(scores.node);
        let rows = record.targets.len();
        assert_eq!(d_logprob.len(), rows, "one derivative for each log-prob");
        assert!(d_entropy.is_empty() || d_entropy.len() == rows, "one derivative for each entropy");
        if let Some(term) = term {
            term.check(rows, record.vocab.len());
        }
        if let Some(share) = &share {
            assert_eq!(share.len(), record.head.len(), "a share laid out like the head");
        }
        let seeds = scores::Seeds { d_logprob, d_entropy };
        // Other scores on this tape will not be differentiated, so their data is freed.
        self.scores.clear();
        match grads.into().0 {
            Sink::Host(grads) => {
                let share = share.map(|share| match share.0 {
                    Sink::Host(share) => share,
                    Sink::Device(_) => elsewhere(),
                });
                self.backward_on_host(record, seeds, term, grads, share)
            }
            Sink::Device(grads) => self.backward_on_gpu(record, seeds, term, share, grads),
        }
    }

    fn backward_on_host(
        self,
        record: ScoresRecord,
        seeds: scores::Seeds<'_>,
        term: Option<HeadTerm<'_>>,
        grads: &mut [f32],
        mut share: Option<&mut [f32]>,
    ) -> Vec<f64> {
        let ScoresRecord { hidden, head, low_rank, targets, temperatures, vocab, softmax } = record;
        let (rows, logits) = match softmax {
            Softmax::Host(rows, logits) => (rows, logits),
            Softmax::Device(_) => elsewhere(),
        };
        let inputs = scores::Inputs {
            hidden: hidden.data(),
            weight: self.params.elements(head),
            low_rank: low_rank.as_ref().map(|(adapter, u)| adapter.of_head(self.params, u.host())),
            precision: self.params.precision(),
            width: head.cols,
            targets: &targets,
            temperatures: &temperatures,
            vocab: &vocab,
        };
        // The factor gets a buffer of its own, because two parts of the flat one can't be borrowed at once.
        let b = low_rank.as_ref().map(|(adapter, _)| adapter.b);
        let mut d_b = b.filter(Param::is_trained).map(|b| vec![0.0; b.len()]);
        // If others add to the gradient as well, the head's share is computed as a difference, so that their sum stays
        // the same to the bit. If nobody else does, the share is exact.
        if let (Some(share), Some(own)) = (share.as_deref_mut(), head.gradient(grads)) {
            share.iter_mut().zip(own).for_each(|(share, before)| *share -= *before);
        }
        let d_weight = match share.as_deref_mut() {
            Some(share) if !head.is_trained() => Some(share),
            _ => head.gradient(grads),
        };
        let params = scores::ParamGradients { d_weight, d_b: d_b.as_deref_mut() };
        let teacher = term.and_then(HeadTerm::teacher);
        let their_inner = teacher.and_then(|teacher| teacher.inner(temperatures.len()));
        let head_loss = term.map(|HeadTerm { weights, loss }| {
            let teacher = teacher.map(|teacher| teacher.inputs(inputs, their_inner.as_deref()));
            HeadLoss { weights, loss, teacher }
        });
        let scores::Backward { mut d_hidden, d_u, values } =
            scores::backward(inputs, &rows, logits, seeds, head_loss, params);
        if let (Some(share), Some(own)) = (share, head.gradient(grads)) {
            parallel::add(share, own);
        }
        if let Some((adapter, _)) = &low_rank {
            if let (Some(d_b), Some(own)) = (d_b, adapter.b.gradient(grads)) {
                parallel::add(own, &d_b);
            }
            let inputs = adapter.inputs(self.params, hidden.data(), hidden.rows);
            low_rank::scaled_inner_backward(inputs, &d_u, &mut d_hidden, adapter.a.gradient(grads));
        }
        self.backward_from(&hidden, d_hidden, grads);
        values
    }

    /// Adds to `grads` the gradient of `Σ d_out ⊙ out`.
    ///
    /// # Panics
    /// If the tape does not record, or sizes differ.
    pub fn backward_from<'g>(self, out: &Var, d_out: impl Into<Buffer>, grads: impl Into<GradientsMut<'g>>) {
        assert!(self.is_recording, "backward needs a recording tape");
        let (d_out, grads) = (d_out.into(), grads.into());
        let len = self.params.trained_len();
        assert_eq!(grads.len(), len, "gradients are laid out like what is trained");
        assert_eq!(d_out.len(), out.data.len(), "one derivative for each element");
        match grads.0 {
            Sink::Host(grads) => drop(self.flow_back(out.slot, Arc::new(d_out), grads)),
            Sink::Device(grads) => self.backward_from_on_gpu(out, &d_out, grads),
        }
    }

    /// Passes the gradient of one value back to its origins; returns what reached the values that no operation of this
    /// tape made.
    fn flow_back(mut self, slot: usize, d: Arc<Buffer>, grads: &mut [f32]) -> Slots {
        let mut records = std::mem::take(&mut self.records);
        let mut flow = Flow { tape: &self, grads, slots: vec![None; self.slots] };
        flow.slots[slot] = Some(d);
        // Popping a record frees what its operation saved as soon as its gradient has been passed on.
        while let Some(record) = records.pop() {
            if let Some(d_out) = flow.slots[record.out].take() {
                flow.step(record.op, d_out);
            }
        }
        flow.slots
    }
}

/// The gradients are on the host, but what was computed is not.
#[expect(clippy::panic, reason = "a mistake of the program")]
fn elsewhere() -> ! {
    panic!(
        "gradients on the host of values on a GPU: they are given to a `Flat` made for the same parameters"
    )
}

/// Gradients that are not complete yet. Shared, because both terms of a sum get the gradient of the sum.
type Slots = Vec<Option<Arc<Buffer>>>;

/// The gradients of values that are not complete yet, and those of the parameters.
struct Flow<'a, 'p> {
    tape: &'a Tape<'p>,
    grads: &'a mut [f32],
    slots: Slots,
}

impl<'p> Flow<'_, 'p> {
    fn params(&self) -> &'p Params {
        self.tape.params
    }

    fn step(&mut self, op: Op<'p>, d: Arc<Buffer>) {
        match op {
            Op::Embed { table, ids } => {
                if let Some(d_table) = table.gradient(self.grads) {
                    ops::embed::backward(d_table, table.cols, &ids, &d);
                }
            }
            Op::Linear { x, weight, bias } => self.linear(&x, weight, bias, &d),
            Op::LowRank { y, x, inner, adapter, keys } => {
                self.low_rank(&x, inner.host(), adapter, keys.as_deref(), &d);
                self.add(y, d);
            }
            Op::RmsNorm { x, inverse_rms, norm } => {
                let mut d = Arc::unwrap_or_clone(d);
                let factors = norm.factors(self.tape.params);
                let d_weight = norm.weight.gradient(self.grads);
                ops::norm::backward(x.data(), inverse_rms.host(), &factors, &mut d, d_weight);
                self.add(x.slot, Arc::new(d));
            }
            Op::Rope { x, cols, head_dim, rope, positions } => {
                let mut d = Arc::unwrap_or_clone(d);
                ops::rope::rotate(&mut d, cols, head_dim, &rope, &positions, Turn::Back);
                self.add(x, Arc::new(d));
            }
            Op::Attention { q, k, v, out, log_sums, shape, layout } => {
                let inputs =
                    attention::Inputs { q: q.data(), k: k.data(), v: v.data(), shape, layout: &layout };
                let outputs =
                    attention_backward::Outputs { out: out.data(), log_sums: log_sums.host(), d_out: &d };
                let gradients = attention_backward::backward(inputs, outputs);
                self.add(q.slot, Arc::new(gradients.d_q));
                self.add(k.slot, Arc::new(gradients.d_k));
                self.add(v.slot, Arc::new(gradients.d_v));
            }
            Op::Swiglu { gate, up } => {
                let mut d = Arc::unwrap_or_clone(d);
                let d_gate = ops::swiglu::backward(gate.data(), up.data(), &mut d);
                self.add(gate.slot, Arc::new(d_gate));
                self.add(up.slot, Arc::new(d));
            }
            Op::SwigluLinear { gate, up, gated, weight, bias } => {
                let data = Arc::new(ops::swiglu::forward(gate.data(), up.data()).into());
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
                let mut d_x = Buffer::zeros(x_rows * cols);
                ops::embed::backward(&mut d_x, cols, &rows, &d);
                self.add(x, Arc::new(d_x));
            }
            Op::Mixer { op, operands } => self.mix(&op, operands, &d),
            Op::Checkpoint { x, run, attended } => {
                let Rerun { tape, input, out } = self.tape.rerun(&x, &run, attended);
                let mut slots = tape.flow_back(out, d, self.grads);
                if let Some(d_x) = slots[input].take() {
                    self.add(x.slot, d_x);
                }
            }
        }
    }

    fn linear(&mut self, x: &Var, weight: Param, bias: Option<Param>, d: &[f32]) {
        let params = self.params();
        let precision = params.precision();
        let shape = linear::Shape { rows: x.rows, inputs: weight.cols, outputs: weight.rows, precision };
        if let Some(d_weight) = weight.gradient(self.grads) {
            linear::backward_weight(d, x.data(), shape, d_weight);
        }
        if let Some(d_bias) = bias.and_then(|bias| bias.gradient(self.grads)) {
            linear::backward_bias(d, weight.rows, d_bias);
        }
        let d_x = self.slots[x.slot].take().map(Arc::unwrap_or_clone);
        let d_x = linear::backward_input(d, params.elements(weight), shape, d_x);
        self.slots[x.slot] = Some(Arc::new(d_x));
    }

    fn low_rank(&mut self, x: &Var, inner: &[f32], adapter: Adapter, keys: Option<&[u64]>, d: &[f32]) {
        let dropped = keys.map(|keys| adapter.dropped(x.data(), keys));
        let inputs = adapter.inputs(self.params(), dropped.as_deref().unwrap_or(x.data()), x.rows);
        let (mut d_a, mut d_b) = (self.factor_gradient(adapter.a), self.factor_gradient(adapter.b));
        let mut d_x = low_rank::backward(inputs, inner, d, d_a.as_deref_mut(), d_b.as_deref_mut());
        for (param, own) in [(adapter.a, d_a), (adapter.b, d_b)] {
            if let (Some(sum), Some(own)) = (param.gradient(self.grads), own) {
                parallel::add(sum, &own);
            }
        }
        if let Some(keys) = keys {
            adapter.drop_out(&mut d_x, keys);
        }
        self.add(x.slot, Arc::new(d_x));
    }

    fn mix(&mut self, op: &MixerOp, operands: Vec<Operand>, d: &[f32]) {
        let of_op = op.params();
        let params: Vec<_> = of_op.iter().map(|&param| self.params().elements(param).widened()).collect();
        let params: Vec<&[f32]> = params.iter().map(|values| &**values).collect();
        let mut d_params: Vec<_> = of_op.iter().map(|&param| self.factor_gradient(param)).collect();
        let values: Vec<&[f32]> =
            operands.iter().filter_map(|x| x.data.as_ref()).map(|data| &**data.host()).collect();
        let gradients = op.backward(&values, &params, d, &mut d_params);
        for (param, own) in of_op.iter().zip(d_params) {
            if let (Some(sum), Some(own)) = (param.gradient(self.grads), own) {
                parallel::add(sum, &own);
            }
        }
        for (operand, d) in operands.into_iter().zip(gradients) {
            self.add(operand.slot, Arc::new(d));
        }
    }

    /// A buffer for the gradient of a small factor, because the parts of both factors in the flat buffer can't be
    /// borrowed at once.
    fn factor_gradient(&self, param: Param) -> Option<Vec<f32>> {
        param.is_trained().then(|| vec![0.0; param.len()])
    }

    /// Adds `d` to the gradient of a value.
    fn add(&mut self, slot: usize, d: Arc<Buffer>) {
        match &mut self.slots[slot] {
            Some(sum) => parallel::add(Arc::<Buffer>::make_mut(sum), &d),
            empty => *empty = Some(d),
        }
    }
}

#[cfg(test)]
mod tests;
