//! A small model of linear attention on the public interface.

use std::sync::Arc;

use burnish_core::rng::Stream;
use burnish_tensor::{DeltaInputs, DeltaShape, Layout, Norm, Param, Params, Tape, Var};

const SHAPE: DeltaShape = DeltaShape { key_heads: 2, value_heads: 4, key_dim: 18, value_dim: 9 };
const WIDTH: usize = 12;
const VOCAB: usize = 50;

/// Two layers that share their parameters.
pub(crate) struct Linear {
    pub(crate) params: Params,
    pub(crate) table: Param,
    norm: Param,
    qkv: Param,
    conv: Param,
    gates: Param,
    a_log: Param,
    dt_bias: Param,
    z: Param,
    out_norm: Param,
    out: Param,
    channels: usize,
}

impl Linear {
    pub(crate) fn new(channels: usize) -> Self {
        let channels = if channels == 1 { 1 } else { SHAPE.key_dim };
        let mut params = Params::new();
        let qkv_width = 2 * SHAPE.key_width() + SHAPE.value_width();
        let heads = SHAPE.value_heads;
        let mut add = |name: &str, shape: &[usize]| params.add(name, shape, true);
        let mut model = Linear {
            table: add("table", &[VOCAB, WIDTH]),
            norm: add("norm", &[WIDTH]),
            qkv: add("qkv", &[qkv_width, WIDTH]),
            conv: add("conv", &[qkv_width, 1, 4]),
            gates: add("gates", &[heads * (1 + channels), WIDTH]),
            a_log: add("a_log", &[heads]),
            dt_bias: add("dt_bias", &[heads * channels]),
            z: add("z", &[SHAPE.value_width(), WIDTH]),
            out_norm: add("out_norm", &[SHAPE.value_dim]),
            out: add("out", &[WIDTH, SHAPE.value_width()]),
            channels,
            params: Params::new(),
        };
        let mut stream = Stream::new(7);
        params.data_mut().fill_with(|| (0.8 * (2.0 * stream.uniform() - 1.0)) as f32);
        model.params = params;
        model
    }

    pub(crate) fn run(&self, tape: &mut Tape<'_>, ids: &[u32], layout: &Arc<Layout>) -> Var {
        const EPS: f32 = 1e-6;
        let (keys, values, heads) = (SHAPE.key_width(), SHAPE.value_width(), SHAPE.value_heads);
        let mut x = tape.embed(self.table, ids);
        for _ in 0..2 {
            let normed = tape.rms_norm(&x, Norm { weight: self.norm, offset: 1.0 }, EPS);
            let qkv = tape.linear(&normed, self.qkv, None);
            let qkv = tape.short_conv(&qkv, self.conv, layout);
            let parts = [(0, keys), (keys, keys), (2 * keys, values)];
            let [q, k, v] = parts.map(|(start, width)| tape.columns(&qkv, qkv.cols(), start, width));
            let q = tape.unit_heads(&q, SHAPE.key_dim, 0.3);
            let k = tape.unit_heads(&k, SHAPE.key_dim, 1.0);
            // The rate and the decays of a head lie side by side.
            let gates = tape.linear(&normed, self.gates, None);
            let beta = tape.columns(&gates, gates.cols() / heads, 0, 1);
            let beta = tape.sigmoid(&beta);
            let decay = tape.columns(&gates, gates.cols() / heads, 1, self.channels);
            let log_decay = tape.log_decay(&decay, self.a_log, self.dt_bias);
            let inputs = DeltaInputs { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
            let mixed = tape.delta_rule(inputs, SHAPE, layout);
            let mixed = tape.rms_norm(&mixed, self.out_norm, EPS);
            let z = tape.linear(&normed, self.z, None);
            let mixed = tape.sigmoid_gate(&mixed, &z);
            let mixed = tape.linear(&mixed, self.out, None);
            x = tape.add(&x, &mixed);
        }
        x
    }
}
