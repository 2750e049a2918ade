//! A small decoder on the public interface.

use std::sync::Arc;

use burnish_core::rng::Stream;
use burnish_tensor::{HeadShape, Layout, Param, Params, Rope, Tape, Var};

pub(crate) const VOCAB: usize = 50;

struct Layer {
    norm: Param,
    qkv: [Param; 3],
    qk_norm: Param,
    out: Param,
    mlp: [Param; 3],
}

/// Two layers, tied head.
pub(crate) struct Decoder {
    pub(crate) params: Params,
    pub(crate) table: Param,
    layers: Vec<Layer>,
    shape: HeadShape,
    rope: Arc<Rope>,
}

impl Decoder {
    pub(crate) fn new(shape: HeadShape) -> Self {
        let (width, kv_width) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let mut params = Params::new();
        let table = params.add("table", &[VOCAB, width], true);
        let layers = (0..2)
            .map(|index| {
                let mut add =
                    |name: &str, shape: &[usize]| params.add(&format!("{index}.{name}"), shape, true);
                Layer {
                    norm: add("norm", &[width]),
                    qkv: [
                        add("q", &[width, width]),
                        add("k", &[kv_width, width]),
                        add("v", &[kv_width, width]),
                    ],
                    qk_norm: add("qk_norm", &[shape.head_dim]),
                    out: add("out", &[width, width]),
                    mlp: [
                        add("gate", &[2 * width, width]),
                        add("up", &[2 * width, width]),
                        add("down", &[width, 2 * width]),
                    ],
                }
            })
            .collect();
        let scale = 2.0 / (width as f64).sqrt();
        let mut stream = Stream::new(7);
        params.data_mut().fill_with(|| ((2.0 * stream.uniform() - 1.0) * scale) as f32);
        let pairs = shape.head_dim / 2;
        let inv_freq = (0..pairs).map(|i| 100_f32.powf(-(i as f32) / pairs as f32)).collect();
        Decoder { params, table, layers, shape, rope: Arc::new(Rope::new(inv_freq, 1.0)) }
    }

    pub(crate) fn run(
        &self,
        tape: &mut Tape<'_>,
        ids: &[u32],
        positions: &[u32],
        layout: &Arc<Layout>,
    ) -> Var {
        const EPS: f32 = 1e-6;
        let positions = Arc::from(positions);
        let mut x = tape.embed(self.table, ids);
        for layer in &self.layers {
            let normed = tape.rms_norm(&x, layer.norm, EPS);
            let [q, k, v] = layer.qkv.map(|weight| tape.linear(&normed, weight, None));
            let [q, k] = [q, k].map(|x| {
                let x = tape.rms_norm(&x, layer.qk_norm, EPS);
                tape.rope(x, self.shape.head_dim, &self.rope, &positions)
            });
            let mixed = tape.attention(&q, &k, &v, self.shape, layout);
            let mixed = tape.linear(&mixed, layer.out, None);
            x = tape.add(&x, &mixed);
            let normed = tape.rms_norm(&x, layer.norm, EPS);
            let [gate, up, down] = layer.mlp;
            let gated = {
                let (gate, up) = (tape.linear(&normed, gate, None), tape.linear(&normed, up, None));
                tape.swiglu(&gate, &up)
            };
            let out = tape.linear(&gated, down, None);
            x = tape.add(&x, &out);
        }
        x
    }
}
