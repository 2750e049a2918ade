//! A block of linear attention, over a shared prefix, against scalar references and finite differences.

use super::*;
use crate::{DeltaInputs, DeltaShape};

const HEADS: DeltaShape = DeltaShape { key_heads: 1, value_heads: 2, key_dim: 3, value_dim: 2 };
const WIDTH: usize = 5;

struct LinearBlock {
    params: Params,
    table: Param,
    norm: Param,
    qkv: Param,
    conv: Param,
    gates: Param,
    a_log: Param,
    dt_bias: Param,
    z: Param,
    layout: Arc<Layout>,
    /// Decays of each head.
    channels: usize,
}

impl LinearBlock {
    fn new(channels: usize) -> Self {
        let mut params = Params::new();
        let mut add = |name: &str, shape: &[usize]| params.add(name, shape, true);
        let qkv_width = 2 * HEADS.key_width() + HEADS.value_width();
        let (table, norm) = (add("table", &[7, WIDTH]), add("norm", &[WIDTH]));
        let (qkv, conv) = (add("qkv", &[qkv_width, WIDTH]), add("conv", &[qkv_width, 1, 3]));
        let gates = add("gates", &[HEADS.value_heads * (1 + channels), WIDTH]);
        let (a_log, dt_bias) =
            (add("a_log", &[HEADS.value_heads]), add("dt_bias", &[HEADS.value_heads * channels]));
        let z = add("z", &[HEADS.value_width(), WIDTH]);
        let values = random(11, params.data().len());
        params.data_mut().copy_from_slice(&values);
        let segment = Segment::causal;
        let segments = vec![segment(0, 3, None), segment(3, 2, Some(0)), segment(5, 2, Some(0))];
        let layout = Arc::new(Layout::new(segments).unwrap());
        LinearBlock { params, table, norm, qkv, conv, gates, a_log, dt_bias, z, layout, channels }
    }

    /// The columns of queries, keys and values.
    fn parts() -> [(usize, usize); 3] {
        let (keys, values) = (HEADS.key_width(), HEADS.value_width());
        [(0, keys), (keys, keys), (2 * keys, values)]
    }

    fn run(&self, tape: &mut Tape<'_>) -> Var {
        let x = tape.embed(self.table, &IDS);
        let normed = tape.rms_norm(&x, Norm { weight: self.norm, offset: 1.0 }, EPS);
        let qkv = tape.linear(&normed, self.qkv, None);
        let qkv = tape.short_conv(&qkv, self.conv, &self.layout);
        let [q, k, v] = Self::parts().map(|(start, width)| tape.columns(&qkv, qkv.cols(), start, width));
        let [q, k] = [q, k].map(|x| tape.unit_heads(&x, HEADS.key_dim, 0.6));
        let gates = tape.linear(&normed, self.gates, None);
        let beta = tape.columns(&gates, 1 + self.channels, 0, 1);
        let beta = tape.sigmoid(&beta);
        let decay = tape.columns(&gates, 1 + self.channels, 1, self.channels);
        let log_decay = tape.log_decay(&decay, self.a_log, self.dt_bias);
        let inputs = DeltaInputs { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
        let mixed = tape.delta_rule(inputs, HEADS, &self.layout);
        let z = tape.linear(&normed, self.z, None);
        let mixed = tape.root_gate(&mixed, &z);
        tape.sigmoid_gate(&mixed, &z)
    }

    fn reference(&self, params: &[f64]) -> Vec<f64> {
        let get = |param: Param| &params[param.range()];
        let linear = |x: &[f64], weight: Param| reference::linear(x, get(weight), None, WIDTH);
        let columns = |x: &[f64], period: usize, (start, width): (usize, usize)| -> Vec<f64> {
            x.chunks_exact(period).flat_map(|x| x[start..][..width].to_vec()).collect()
        };
        let x = reference::embed(get(self.table), WIDTH, &IDS);
        let weight: Vec<f64> = get(self.norm).iter().map(|w| 1.0 + w).collect();
        let normed = reference::rms_norm(&x, &weight, f64::from(EPS));
        let qkv = reference::short_conv(&linear(&normed, self.qkv), get(self.conv), 3, &self.layout);
        let [q, k, v] = Self::parts().map(|part| columns(&qkv, self.qkv.rows, part));
        let [q, k] = [q, k].map(|x| reference::unit_heads(&x, HEADS.key_dim, 0.6_f32.into()));
        let gates = linear(&normed, self.gates);
        let beta = reference::sigmoid(&columns(&gates, 1 + self.channels, (0, 1)));
        let decay = columns(&gates, 1 + self.channels, (1, self.channels));
        let log_decay = reference::log_decay(&decay, get(self.a_log), get(self.dt_bias));
        let operands = reference::Delta { q, k, v, log_decay, beta };
        let (mixed, _) = reference::delta_rule(&operands, HEADS, &self.layout);
        let z = linear(&normed, self.z);
        reference::sigmoid_gate(&reference::root_gate(&mixed, &z), &z)
    }
}

#[test]
fn a_block_of_linear_attention_has_the_gradient_of_the_reference() {
    for channels in [1, HEADS.key_dim] {
        let block = LinearBlock::new(channels);
        let mut tape = Tape::recording(&block.params);
        let out = block.run(&mut tape);
        assert_close(out.data(), &block.reference(&wide(block.params.data())), 1e-5);
        let d = random(12, out.data().len());
        let mut grads = block.params.zeros_like();
        tape.backward_from(&out, d.clone(), &mut grads);
        let loss = |params: &[f64]| weighted(&d, &block.reference(params));
        assert_gradient(&grads, block.params.data(), loss, 1e-4);
    }
}

/// Frozen parameters have no gradient, those in bf16 neither, and the others' is the same.
#[test]
fn frozen_parameters_of_linear_attention_get_no_gradient() {
    let mut params = Params::new();
    let table = params.add("table", &[7, 4], true);
    let conv = params.add_to(Store::FrozenBf16, "conv", &[4, 1, 3], true);
    let (a_log, dt_bias) =
        (params.add_to(Store::Frozen, "a_log", &[2], false), params.add("dt_bias", &[4], false));
    for param in [table, conv, a_log, dt_bias] {
        // Exact in bf16.
        let values: Vec<f32> = random(3, param.len()).iter().map(|x| (8.0 * x).round() / 8.0).collect();
        params.elements_mut(param).set(&values);
    }
    let layout = Arc::new(Layout::causal(&[7]));
    let mut tape = Tape::recording(&params);
    let x = tape.embed(table, &IDS);
    let x = tape.short_conv(&x, conv, &layout);
    let y = tape.log_decay(&x, a_log, dt_bias);
    let mut grads = params.zeros_like();
    tape.backward_from(&y, vec![1.0; 28], &mut grads);
    let [conv, a_log] = [conv, a_log].map(|param| wide(&params.elements(param).widened()));
    let loss = |params: &[f64]| {
        let x = reference::embed(&params[table.range()], 4, &IDS);
        let x = reference::short_conv(&x, &conv, 3, &layout);
        reference::log_decay(&x, &a_log, &params[dt_bias.range()]).iter().sum()
    };
    assert_gradient(&grads, params.data(), loss, 1e-4);
}
