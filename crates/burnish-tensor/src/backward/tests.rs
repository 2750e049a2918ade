//! The backward pass against scalar references and finite differences.

mod linear_attention;

use super::*;
use crate::{
    Keep, Precision, Segment, Store, Vocab, Weight, reference,
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

/// A decoder block with every operation of a tape, over a shared prefix, with a tied head.
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
        let segment = Segment::causal;
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
        let out = tape.swiglu_linear(&gate, &up, self.down, None);
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
        let x = tape.checkpoint(&x, Keep::Input, move |tape, x| {
            let y = tape.linear(x, weight, None);
            tape.add(&y, x)
        });
        tape.token_scores(&x, self.head, &[0, 3, 8, 8], &[1.0; 4], &Arc::new(Vocab::all(9)))
    }

    /// `Σ logprob` in f64, where the trained parameters have the values `trained`.
    fn loss(&self, trained: &[f64]) -> f64 {
        let full = |weight: Weight| -> Vec<f64> {
            let base = wide(&self.params.elements(weight.base).widened());
            let Some(Adapter { a, b, scale, .. }) = weight.adapter else { return base };
            let (a_data, b_data) = (&trained[a.range()], &trained[b.range()]);
            let low = |row: usize, col: usize| -> f64 {
                (0..a.rows).map(|k| b_data[row * a.rows + k] * a_data[k * a.cols + col]).sum()
            };
            let cols = weight.base.cols;
            base.iter().enumerate().map(|(at, w)| w + f64::from(scale) * low(at / cols, at % cols)).collect()
        };
        let x = wide(&random(5, 4 * D));
        let y = reference::linear(&x, &full(self.weight), None, D);
        let sum: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        let head = full(self.head);
        let (logprobs, _) = reference::token_scores(&sum, &head, D, &[0, 3, 8, 8], &[1.0; 4], &Vocab::all(9));
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
fn the_share_of_a_tied_head_is_apart_from_what_it_gets_as_an_embedding_and_changes_no_other_bit() {
    let block = Block::new();
    let (d_logprob, d_entropy) = (random(12, ROWS.len()), random(13, ROWS.len()));
    let (mut plain, mut with) = (block.params.zeros_like(), block.params.zeros_like());
    let mut share = vec![0.0; block.table.len()];
    // For a head that is not the embedding: what the scores alone pass to the table.
    let alone = {
        let mut tape = Tape::recording(&block.params);
        let scores = block.run(&mut tape);
        let hidden = tape.scores[scores.node].hidden.clone();
        let mut tape = Tape::recording(&block.params);
        let hidden = tape.external(ROWS.len(), D, hidden.data().to_vec());
        let scores = tape.token_scores(&hidden, block.table, &TARGETS, &TEMPERATURES, &block.vocab);
        let mut grads = block.params.zeros_like();
        tape.backward(&scores, &d_logprob, &d_entropy, &mut grads);
        grads[block.table.range()].to_vec()
    };
    // The second pass adds to existing gradients.
    for passes in [1.0, 2.0] {
        let mut tape = Tape::recording(&block.params);
        let scores = block.run(&mut tape);
        tape.backward(&scores, &d_logprob, &d_entropy, &mut plain);
        let mut tape = Tape::recording(&block.params);
        let scores = block.run(&mut tape);
        tape.backward_with(&scores, &d_logprob, &d_entropy, None, Some((&mut share).into()), &mut with);
        assert_eq!(with, plain);
        let expected: Vec<f64> = alone.iter().map(|g| passes * f64::from(*g)).collect();
        assert_close(&share, &expected, 1e-5);
    }
    let whole = &plain[block.table.range()];
    assert!(whole.iter().zip(&share).any(|(all, own)| (all - own).abs() > 0.1), "the embedding adds to it");
}

#[test]
fn the_share_of_a_frozen_head_with_an_adapter_is_the_gradient_by_its_matrix() {
    let mut adapted = Adapted::new(Store::Frozen, Precision::F32, 0.0);
    let mut share = vec![0.0; adapted.head.base.len()];
    let mut tape = Tape::recording(&adapted.params);
    let scores = adapted.scores(&mut tape);
    let mut grads = adapted.params.zeros_like();
    tape.backward_with(&scores, &[1.0; 4], &[], None, Some((&mut share).into()), &mut grads);
    let trained = wide(adapted.params.data());
    let base = adapted.params.get(adapted.head.base).to_vec();
    for (at, own) in share.iter().enumerate() {
        let mut moved = |step: f32| {
            let moved = base[at] + step;
            adapted.params.get_mut(adapted.head.base)[at] = moved;
            let loss = adapted.loss(&trained);
            adapted.params.get_mut(adapted.head.base)[at] = base[at];
            (f64::from(moved), loss)
        };
        let ((high, more), (low, less)) = (moved(1e-3), moved(-1e-3));
        let slope = (more - less) / (high - low);
        assert!((slope - f64::from(*own)).abs() < 1e-4, "{at}: {own} for {slope}");
    }
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
