//! The backward pass: the recorded operations in reverse.

use std::sync::Arc;

use crate::{
    Adapter, HeadShape, Layout, Param, Params, Rope, Tape, TokenScores, Var,
    ops::{self, attention, attention_backward, linear, low_rank, rope::Turn, scores},
    parallel,
    tape::ScoresRecord,
};

/// An operation with what its backward pass needs. The one `match` over it has no default arm: an operation without
/// a gradient does not compile.
pub(crate) enum Op<'p> {
    Embed { table: Param, ids: Vec<u32> },
    Linear { x: Var, weight: Param, bias: Option<Param> },
    LowRank { y: usize, x: Var, inner: Vec<f32>, adapter: Adapter, keys: Option<Arc<[u64]>> },
    RmsNorm { x: Var, inverse_rms: Vec<f32>, weight: Param },
    Rope { x: usize, cols: usize, head_dim: usize, rope: Arc<Rope>, positions: Arc<[u32]> },
    Attention { q: Var, k: Var, v: Var, out: Var, log_sums: Vec<f32>, shape: HeadShape, layout: Arc<Layout> },
    Swiglu { gate: Var, up: Var },
    Add { a: usize, b: usize },
    Gather { x: usize, x_rows: usize, cols: usize, rows: Vec<u32> },
    Checkpoint { x: Var, run: Run<'p> },
}

/// Part of a forward pass that can be run again.
pub(crate) type Run<'p> = Box<dyn Fn(&mut Tape<'p>, &Var) -> Var + 'p>;

impl<'p> Tape<'p> {
    /// Adds to `grads`, laid out like the parameters, the gradient of
    /// `Σᵢ d_logprob[i] · logprob[i] + d_entropy[i] · entropy[i]`. An empty `d_entropy` stands for zeros.
    ///
    /// # Panics
    /// If the tape does not record, or `scores` come from another tape.
    pub fn backward(mut self, scores: &TokenScores, d_logprob: &[f32], d_entropy: &[f32], grads: &mut [f32]) {
        assert!(self.is_recording, "backward needs a recording tape");
        assert!(scores.node < self.scores.len(), "scores of another tape");
        let ScoresRecord { hidden, head, low_rank, targets, temperatures, vocab, rows, logits } =
            self.scores.swap_remove(scores.node);
        assert_eq!(d_logprob.len(), targets.len(), "one derivative for each log-prob");
        assert!(d_entropy.is_empty() || d_entropy.len() == targets.len(), "one derivative for each entropy");
        // Other scores on this tape are not differentiated: what they hold is of no more use.
        self.scores.clear();
        let inputs = scores::Inputs {
            hidden: &hidden.data,
            weight: self.params.elements(head),
            low_rank: low_rank.as_ref().map(|(adapter, u)| adapter.of_head(self.params, u)),
            precision: self.params.precision(),
            width: head.cols,
            targets: &targets,
            temperatures: &temperatures,
            vocab: &vocab,
        };
        let seeds = scores::Seeds { d_logprob, d_entropy };
        // One of the two is trained at most, so both may borrow the buffer in turn: the weight, or its adapter.
        let b = low_rank.as_ref().map(|(adapter, _)| adapter.b);
        let mut d_b = b.filter(Param::is_trained).map(|b| vec![0.0; b.len()]);
        let params = scores::ParamGradients { d_weight: head.gradient(grads), d_b: d_b.as_deref_mut() };
        let (mut d_hidden, d_u) = scores::backward(inputs, &rows, logits, seeds, params);
        if let Some((adapter, _)) = &low_rank {
            if let (Some(d_b), Some(own)) = (d_b, adapter.b.gradient(grads)) {
                parallel::add(own, &d_b);
            }
            let inputs = adapter.inputs(self.params, &hidden.data, hidden.rows);
            low_rank::scaled_inner_backward(inputs, &d_u, &mut d_hidden, adapter.a.gradient(grads));
        }
        self.backward_from(&hidden, d_hidden, grads);
    }

    /// Adds to `grads` the gradient of `Σ d_out ⊙ out`.
    ///
    /// # Panics
    /// If the tape does not record, or sizes differ.
    pub fn backward_from(self, out: &Var, d_out: Vec<f32>, grads: &mut [f32]) {
        assert!(self.is_recording, "backward needs a recording tape");
        assert_eq!(grads.len(), self.params.data().len(), "gradients are laid out like what is trained");
        assert_eq!(d_out.len(), out.data.len(), "one derivative for each element");
        self.flow_back(out.slot, Arc::new(d_out), grads);
    }

    /// Passes the gradient of one value back to where it came from; gives what reached the values that no
    /// operation of this tape made.
    fn flow_back(mut self, slot: usize, d: Arc<Vec<f32>>, grads: &mut [f32]) -> Slots {
        let mut records = std::mem::take(&mut self.records);
        let mut flow = Flow { tape: &self, grads, slots: vec![None; self.slots] };
        flow.slots[slot] = Some(d);
        // Popping frees what an operation saved as soon as its gradient has been passed on.
        while let Some(record) = records.pop() {
            if let Some(d_out) = flow.slots[record.out].take() {
                flow.step(record.op, d_out);
            }
        }
        flow.slots
    }
}

/// Gradients that are not complete yet. Shared, because both terms of a sum have the gradient of the sum.
type Slots = Vec<Option<Arc<Vec<f32>>>>;

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

    fn step(&mut self, op: Op<'p>, d: Arc<Vec<f32>>) {
        match op {
            Op::Embed { table, ids } => {
                if let Some(d_table) = table.gradient(self.grads) {
                    ops::embed::backward(d_table, table.cols, &ids, &d);
                }
            }
            Op::Linear { x, weight, bias } => self.linear(&x, weight, bias, &d),
            Op::LowRank { y, x, inner, adapter, keys } => {
                self.low_rank(&x, &inner, adapter, keys.as_deref(), &d);
                self.add(y, d);
            }
            Op::RmsNorm { x, inverse_rms, weight } => {
                let mut d = Arc::unwrap_or_clone(d);
                let d_weight = weight.gradient(self.grads);
                ops::norm::backward(&x.data, &inverse_rms, self.tape.params.get(weight), &mut d, d_weight);
                self.add(x.slot, Arc::new(d));
            }
            Op::Rope { x, cols, head_dim, rope, positions } => {
                let mut d = Arc::unwrap_or_clone(d);
                ops::rope::rotate(&mut d, cols, head_dim, &rope, &positions, Turn::Back);
                self.add(x, Arc::new(d));
            }
            Op::Attention { q, k, v, out, log_sums, shape, layout } => {
                let inputs = attention::Inputs { q: &q.data, k: &k.data, v: &v.data, shape, layout: &layout };
                let outputs = attention_backward::Outputs { out: &out.data, log_sums: &log_sums, d_out: &d };
                let gradients = attention_backward::backward(inputs, outputs);
                self.add(q.slot, Arc::new(gradients.d_q));
                self.add(k.slot, Arc::new(gradients.d_k));
                self.add(v.slot, Arc::new(gradients.d_v));
            }
            Op::Swiglu { gate, up } => {
                let mut d = Arc::unwrap_or_clone(d);
                let d_gate = ops::swiglu::backward(&gate.data, &up.data, &mut d);
                self.add(gate.slot, Arc::new(d_gate));
                self.add(up.slot, Arc::new(d));
            }
            Op::Add { a, b } => {
                self.add(a, Arc::clone(&d));
                self.add(b, d);
            }
            Op::Gather { x, x_rows, cols, rows } => {
                let mut d_x = vec![0.0; x_rows * cols];
                ops::embed::backward(&mut d_x, cols, &rows, &d);
                self.add(x, Arc::new(d_x));
            }
            Op::Checkpoint { x, run } => {
                let mut again = self.tape.part(true);
                let input = again.external(x.rows, x.cols, x.data.to_vec());
                let out = run(&mut again, &input);
                let mut slots = again.flow_back(out.slot, d, self.grads);
                if let Some(d_x) = slots[input.slot].take() {
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
            linear::backward_weight(d, &x.data, shape, d_weight);
        }
        if let Some(d_bias) = bias.and_then(|bias| bias.gradient(self.grads)) {
            linear::backward_bias(d, weight.rows, d_bias);
        }
        let d_x = self.slots[x.slot].take().map(Arc::unwrap_or_clone);
        let d_x = linear::backward_input(d, params.elements(weight), shape, d_x);
        self.slots[x.slot] = Some(Arc::new(d_x));
    }

    fn low_rank(&mut self, x: &Var, inner: &[f32], adapter: Adapter, keys: Option<&[u64]>, d: &[f32]) {
        let dropped = keys.map(|keys| adapter.dropped(&x.data, keys));
        let inputs = adapter.inputs(self.params(), dropped.as_deref().unwrap_or(&x.data), x.rows);
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

    /// A buffer for the gradient of a small factor: both factors' parts of the flat buffer can't be lent at once.
    fn factor_gradient(&self, param: Param) -> Option<Vec<f32>> {
        param.is_trained().then(|| vec![0.0; param.len()])
    }

    /// Adds `d` to the gradient of a value.
    fn add(&mut self, slot: usize, d: Arc<Vec<f32>>) {
        match &mut self.slots[slot] {
            Some(sum) => parallel::add(Arc::<Vec<f32>>::make_mut(sum), &d),
            empty => *empty = Some(d),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Precision, Segment, Store, Vocab, Weight, reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    const D: usize = 8;
    const SHAPE: HeadShape = HeadShape { heads: 2, kv_heads: 1, head_dim: 4 };
    const INV_FREQ: [f32; 2] = [1.0, 0.3];
    const POSITIONS: [u32; 7] = [0, 1, 2, 3, 4, 3, 4];
    const IDS: [u32; 7] = [3, 1, 1, 0, 5, 2, 6];
    const ROWS: [u32; 6] = [2, 2, 4, 5, 6, 0];
    const TARGETS: [u32; 6] = [0, 2, 6, 6, 1, 1];
    const TEMPERATURES: [f32; 6] = [1.0, 1.0, 0.7, 1.3, 1.0, 1.0];
    const EPS: f32 = 1e-4;

    /// A decoder block with everything a tape can do, over a shared prefix, with a tied head.
    struct Block {
        params: Params,
        table: Param,
        norm: Param,
        q: Param,
        k: Param,
        v: Param,
        v_bias: Param,
        q_norm: Param,
        o: Param,
        gate: Param,
        up: Param,
        down: Param,
        layout: Arc<Layout>,
        vocab: Arc<Vocab>,
    }

    impl Block {
        fn new() -> Self {
            let mut params = Params::new();
            let mut add = |name: &str, shape: &[usize]| params.add(name, shape, true);
            let (table, norm) = (add("table", &[7, D]), add("norm", &[D]));
            let (q, k, v) = (add("q", &[8, D]), add("k", &[4, D]), add("v", &[4, D]));
            let (v_bias, q_norm, o) = (add("v_bias", &[4]), add("q_norm", &[4]), add("o", &[D, 8]));
            let (gate, up, down) = (add("gate", &[6, D]), add("up", &[6, D]), add("down", &[D, 6]));
            let values = random(11, params.data().len());
            params.data_mut().copy_from_slice(&values);
            let segment = |start, len, parent| Segment { start, len, parent };
            let segments = vec![segment(0, 3, None), segment(3, 2, Some(0)), segment(5, 2, Some(0))];
            let layout = Arc::new(Layout::new(segments).unwrap());
            let vocab = Arc::new(Vocab::only(7, |id| id != 4));
            Block { params, table, norm, q, k, v, v_bias, q_norm, o, gate, up, down, layout, vocab }
        }

        fn run<'p>(&'p self, tape: &mut Tape<'p>) -> TokenScores {
            let rope = Arc::new(Rope::new(INV_FREQ.to_vec(), 1.0));
            let positions = Arc::from(POSITIONS);
            let x = tape.embed(self.table, &IDS);
            let normed = tape.rms_norm(&x, self.norm, EPS);
            let q = tape.linear(&normed, self.q, None);
            let q = tape.rms_norm(&q, self.q_norm, EPS);
            let q = tape.rope(q, 4, &rope, &positions);
            let k = tape.linear(&normed, self.k, None);
            let k = tape.rope(k, 4, &rope, &positions);
            let v = tape.linear(&normed, self.v, Some(self.v_bias));
            let mixed = tape.attention(&q, &k, &v, SHAPE, &self.layout);
            let mixed = tape.linear(&mixed, self.o, None);
            let x = tape.add(&x, &mixed);
            let normed = tape.rms_norm(&x, self.norm, EPS);
            let (gate, up) = (tape.linear(&normed, self.gate, None), tape.linear(&normed, self.up, None));
            let gated = tape.swiglu(&gate, &up);
            let out = tape.linear(&gated, self.down, None);
            let x = tape.add(&x, &out);
            let doubled = tape.add(&x, &x);
            let picked = tape.gather(&doubled, &ROWS);
            tape.token_scores(&picked, self.table, &TARGETS, &TEMPERATURES, &self.vocab)
        }

        fn reference(&self, params: &[f64]) -> (Vec<f64>, Vec<f64>) {
            let get = |param: Param| &params[param.range()];
            let eps = f64::from(EPS);
            let linear = |x: &[f64], weight: Param| reference::linear(x, get(weight), None, weight.cols);
            let rope = |x: &[f64], cols| reference::rope(x, cols, 4, &INV_FREQ, 1.0, &POSITIONS);
            let add = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<f64>>();
            let x = reference::embed(get(self.table), D, &IDS);
            let normed = reference::rms_norm(&x, get(self.norm), eps);
            let q = rope(&reference::rms_norm(&linear(&normed, self.q), get(self.q_norm), eps), 8);
            let k = rope(&linear(&normed, self.k), 4);
            let v = reference::linear(&normed, get(self.v), Some(get(self.v_bias)), D);
            let mixed = reference::attention(&q, &k, &v, SHAPE, &self.layout);
            let x = add(&x, &linear(&mixed, self.o));
            let normed = reference::rms_norm(&x, get(self.norm), eps);
            let gated = reference::swiglu(&linear(&normed, self.gate), &linear(&normed, self.up));
            let x = add(&x, &linear(&gated, self.down));
            let picked = reference::embed(&add(&x, &x), D, &ROWS);
            reference::token_scores(&picked, get(self.table), D, &TARGETS, &TEMPERATURES, &self.vocab)
        }
    }

    #[test]
    fn a_block_with_every_operation_has_the_gradient_of_the_reference() {
        let block = Block::new();
        let (d_logprob, d_entropy) = (random(12, ROWS.len()), random(13, ROWS.len()));
        let mut tape = Tape::recording(&block.params);
        let scores = block.run(&mut tape);
        let (logprobs, entropies) = block.reference(&wide(block.params.data()));
        assert_close(&scores.logprobs, &logprobs, 1e-5);
        assert_close(&scores.entropies, &entropies, 1e-5);

        let mut grads = block.params.zeros_like();
        tape.backward(&scores, &d_logprob, &d_entropy, &mut grads);
        let loss = |params: &[f64]| {
            let (logprobs, entropies) = block.reference(params);
            weighted(&d_logprob, &logprobs) + weighted(&d_entropy, &entropies)
        };
        assert_gradient(&grads, block.params.data(), loss, 1e-4);
    }

    /// A map, a head and their adapters over a frozen base.
    struct Adapted {
        params: Params,
        weight: Weight,
        head: Weight,
    }

    impl Adapted {
        fn new(store: Store, precision: Precision, dropout: f32) -> Self {
            let mut params = Params::new().in_precision(precision);
            let mut frozen = |name: &str, shape: &[usize], seed| {
                let param = params.add_to(store, name, shape, true);
                let values = random(seed, param.len());
                params.elements_mut(param).set(&values);
                param
            };
            let (weight, head) = (frozen("weight", &[D, D], 1), frozen("head", &[9, D], 2));
            let mut adapter = |base: Param, site| {
                let a = params.add("a", &[3, base.cols], true);
                let b = params.add("b", &[base.rows, 3], true);
                for param in [a, b] {
                    let values = random(10 + param.offset as u64, param.len());
                    params.get_mut(param).copy_from_slice(&values);
                }
                let dropout = if site == 0 { dropout } else { 0.0 };
                Weight { base, adapter: Some(Adapter { a, b, scale: 0.7, dropout, site }) }
            };
            let (weight, head) = (adapter(weight, 0), adapter(head, 1));
            Adapted { params, weight, head }
        }

        fn scores<'p>(&self, tape: &mut Tape<'p>) -> TokenScores {
            let x = tape.external(4, D, random(5, 4 * D));
            let weight = self.weight;
            let x = tape.checkpoint(&x, move |tape, x| {
                let y = tape.linear(x, weight, None);
                tape.add(&y, x)
            });
            tape.token_scores(&x, self.head, &[0, 3, 8, 8], &[1.0; 4], &Arc::new(Vocab::all(9)))
        }

        /// `Σ logprob` in f64, the trained parameters being `trained`.
        fn loss(&self, trained: &[f64]) -> f64 {
            let full = |weight: Weight| -> Vec<f64> {
                let base = wide(&self.params.elements(weight.base).widened());
                let Some(Adapter { a, b, scale, .. }) = weight.adapter else { return base };
                let (a_data, b_data) = (&trained[a.range()], &trained[b.range()]);
                let low = |row: usize, col: usize| -> f64 {
                    (0..a.rows).map(|k| b_data[row * a.rows + k] * a_data[k * a.cols + col]).sum()
                };
                let cols = weight.base.cols;
                base.iter()
                    .enumerate()
                    .map(|(at, w)| w + f64::from(scale) * low(at / cols, at % cols))
                    .collect()
            };
            let x = wide(&random(5, 4 * D));
            let y = reference::linear(&x, &full(self.weight), None, D);
            let sum: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
            let head = full(self.head);
            let (logprobs, _) =
                reference::token_scores(&sum, &head, D, &[0, 3, 8, 8], &[1.0; 4], &Vocab::all(9));
            logprobs.iter().sum()
        }
    }

    #[test]
    fn adapters_over_a_frozen_base_have_the_gradient_of_the_reference() {
        for (store, precision, tolerance) in [
            (Store::Frozen, Precision::F32, 1e-4),
            (Store::FrozenBf16, Precision::F32, 1e-4),
            (Store::FrozenBf16, Precision::Bf16, 0.05),
        ] {
            let adapted = Adapted::new(store, precision, 0.0);
            let mut tape = Tape::recording(&adapted.params);
            let scores = adapted.scores(&mut tape);
            let mut grads = adapted.params.zeros_like();
            tape.backward(&scores, &[1.0; 4], &[], &mut grads);
            assert_gradient(&grads, adapted.params.data(), |trained| adapted.loss(trained), tolerance);
        }
    }

    #[test]
    fn without_adapters_the_base_is_computed() {
        let adapted = Adapted::new(Store::Frozen, Precision::F32, 0.0);
        let scores = adapted.scores(&mut Tape::inference(&adapted.params).without_adapters());
        let base: f32 = scores.logprobs.iter().sum();
        let zeros = vec![0.0; adapted.params.data().len()];
        assert!((f64::from(base) - adapted.loss(&zeros)).abs() < 1e-5);
    }

    #[test]
    fn dropout_is_the_same_forward_and_backward_and_off_without_keys() {
        let adapted = Adapted::new(Store::Frozen, Precision::F32, 0.5);
        let keys: Arc<[u64]> = Arc::from([3, 1, 4, 1]);
        let run = |params: &Params| -> f64 {
            let mut tape = Tape::inference(params).with_dropout(Arc::clone(&keys));
            adapted.scores(&mut tape).logprobs.iter().map(|&logprob| f64::from(logprob)).sum()
        };
        let plain = adapted.scores(&mut Tape::inference(&adapted.params)).logprobs;
        assert!((run(&adapted.params) - plain.iter().map(|&l| f64::from(l)).sum::<f64>()).abs() > 1e-3);

        let mut tape = Tape::recording(&adapted.params).with_dropout(Arc::clone(&keys));
        let scores = adapted.scores(&mut tape);
        let mut grads = adapted.params.zeros_like();
        tape.backward(&scores, &[1.0; 4], &[], &mut grads);
        let direction = random(31, grads.len());
        let moved = |step: f32| {
            let mut params = adapted.params.clone();
            params.data_mut().iter_mut().zip(&direction).for_each(|(p, d)| *p += step * d);
            run(&params)
        };
        let difference = (moved(1e-2) - moved(-1e-2)) / 2e-2;
        let along: f64 = grads.iter().zip(&direction).map(|(g, d)| f64::from(g * d)).sum();
        assert!((difference - along).abs() < 1e-2 * (1.0 + along.abs()), "{difference} {along}");
    }

    #[test]
    fn gradients_add_to_what_the_buffer_holds() {
        let block = Block::new();
        let d_logprob = random(12, ROWS.len());
        let mut grads = block.params.zeros_like();
        let mut passes = Vec::new();
        for _ in 0..2 {
            let mut tape = Tape::recording(&block.params);
            let scores = block.run(&mut tape);
            tape.backward(&scores, &d_logprob, &[], &mut grads);
            passes.push(grads.clone());
        }
        let twice: Vec<f64> = passes[0].iter().map(|&g| 2.0 * f64::from(g)).collect();
        assert_close(&passes[1], &twice, 1e-5);
    }

    #[test]
    fn an_inference_tape_computes_the_same_bits_and_keeps_nothing() {
        let block = Block::new();
        let recorded = block.run(&mut Tape::recording(&block.params));
        let mut tape = Tape::inference(&block.params);
        let inferred = block.run(&mut tape);
        assert_eq!(inferred.logprobs, recorded.logprobs);
        assert!(tape.records.is_empty() && tape.scores.is_empty());
    }

    #[test]
    fn a_value_used_by_rope_and_by_others_is_not_changed_under_them() {
        let params = Params::new();
        let mut tape = Tape::inference(&params);
        let x = tape.external(1, 2, vec![1.0, 2.0]);
        let turned = tape.rope(x.clone(), 2, &Arc::new(Rope::new(vec![1.0], 1.0)), &Arc::from([1]));
        assert_eq!(x.data(), [1.0, 2.0]);
        assert_ne!(turned.data(), x.data());
    }

    #[test]
    #[should_panic(expected = "recording tape")]
    fn backward_on_an_inference_tape_is_refused() {
        let block = Block::new();
        let mut tape = Tape::inference(&block.params);
        let scores = block.run(&mut tape);
        tape.backward(&scores, &[1.0; ROWS.len()], &[], &mut block.params.zeros_like());
    }
}
