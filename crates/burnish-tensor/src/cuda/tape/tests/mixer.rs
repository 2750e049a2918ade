//! A layer of a delta rule, on a tape whose values are on the GPU.

use super::*;
use crate::{DeltaInputs, DeltaShape, Norm};

const HEADS: DeltaShape = DeltaShape { key_heads: 1, value_heads: 2, key_dim: 5, value_dim: 6 };

/// One layer with all of them; `channels` decays for each head.
struct Layer {
    params: Params,
    table: Param,
    norm: Param,
    qkv: Param,
    conv: Param,
    gates: Param,
    a_log: Param,
    dt_bias: Param,
    out: Param,
    channels: usize,
}

impl Layer {
    fn new(precision: Precision, conv: Store, channels: usize) -> Self {
        let mut params = Params::new().in_precision(precision);
        let qkv_width = 2 * HEADS.key_width() + HEADS.value_width();
        let mut add = |store, shape: &[usize]| {
            let param = params.add_to(store, "", shape, true);
            let values = random(param.offset as u64 + 1, param.len());
            params.elements_mut(param).set(&values);
            param
        };
        let layer = Layer {
            table: add(Store::Trained, &[VOCAB, WIDTH]),
            norm: add(Store::Trained, &[WIDTH]),
            qkv: add(Store::Trained, &[qkv_width, WIDTH]),
            conv: add(conv, &[qkv_width, 1, 4]),
            gates: add(Store::Trained, &[HEADS.value_heads * (1 + channels), WIDTH]),
            a_log: add(Store::Trained, &[HEADS.value_heads]),
            dt_bias: add(Store::Trained, &[HEADS.value_heads * channels]),
            out: add(Store::Trained, &[WIDTH, HEADS.value_width()]),
            channels,
            params: Params::new(),
        };
        Layer { params, ..layer }
    }

    fn forward(&self, tape: &mut Tape<'_>, x: &Var, layout: &Arc<Layout>) -> Var {
        let (keys, values, heads) = (HEADS.key_width(), HEADS.value_width(), HEADS.value_heads);
        let normed = tape.rms_norm(x, Norm { weight: self.norm, offset: 1.0 }, EPS);
        let qkv = tape.linear(&normed, self.qkv, None);
        let qkv = tape.short_conv(&qkv, self.conv, layout);
        let parts = [(0, keys), (keys, keys), (2 * keys, values)];
        let [q, k, v] = parts.map(|(start, width)| tape.columns(&qkv, qkv.cols(), start, width));
        let [q, k] = [q, k].map(|x| tape.unit_heads(&x, HEADS.key_dim, 0.5));
        let gates = tape.linear(&normed, self.gates, None);
        let beta = tape.columns(&gates, gates.cols() / heads, 0, 1);
        let beta = tape.sigmoid(&beta);
        let decay = tape.columns(&gates, gates.cols() / heads, 1, self.channels);
        let log_decay = tape.log_decay(&decay, self.a_log, self.dt_bias);
        let inputs = DeltaInputs { q: &q, k: &k, v: &v, log_decay: &log_decay, beta: &beta };
        let mixed = tape.delta_rule(inputs, HEADS, layout);
        let mixed = tape.root_gate(&mixed, &v);
        let mixed = tape.sigmoid_gate(&mixed, &v);
        let mixed = tape.linear(&mixed, self.out, None);
        tape.add(x, &mixed)
    }

    /// The output, and the gradients of the parameters.
    fn run(&mut self, device: &Device, is_checkpointed: bool) -> [Vec<f32>; 2] {
        self.params = std::mem::take(&mut self.params).on(device);
        let inputs = Inputs::new();
        let mut tape = Tape::recording(&self.params);
        let x = tape.embed(self.table, &inputs.ids);
        let layer = |tape: &mut Tape<'_>, x: &Var| self.forward(tape, x, &inputs.layout);
        let out =
            if is_checkpointed { tape.checkpoint(&x, Keep::Input, layer) } else { layer(&mut tape, &x) };
        let data = HostReadback::default().read(&out).unwrap().to_vec();
        let mut grads = Flat::zeros(&self.params);
        tape.backward_from(&out, random(5, data.len()), &mut grads);
        [data, grads.to_host().unwrap().into_owned()]
    }
}

#[test]
fn a_layer_of_a_delta_rule_gives_what_it_gives_on_the_host() {
    let Some(cuda) = device() else { return };
    let gpu = Device::from(Arc::clone(&cuda));
    for precision in [Precision::F32, Precision::Bf16] {
        for (conv, channels, is_checkpointed) in
            [(Store::Trained, 1, false), (Store::FrozenBf16, HEADS.key_dim, true), (Store::Frozen, 1, true)]
        {
            let mut layer = Layer::new(precision, conv, channels);
            let expected = layer.run(&Device::cpu(), is_checkpointed);
            let ours = layer.run(&gpu, is_checkpointed);
            for (ours, expected) in ours.iter().zip(&expected) {
                assert!(expected.iter().any(|x| *x != 0.0));
                let expected = wide(expected);
                // In bf16 the GPU rounds whatever goes from one operation to the next, and the CPU does not. Single
                // elements may be sums of large numbers, so the whole is compared.
                let bound = if precision == Precision::F32 { 1e-5 } else { 5e-2 };
                let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
                let apart = norm(&mut ours.iter().zip(&expected).map(|(ours, x)| f64::from(*ours) - x));
                let share = apart / norm(&mut expected.iter().copied());
                println!("{precision:?}, {channels} channels: {share:.1e} of the length apart");
                assert!(share < bound, "{share} of the length apart");
            }
        }
    }
}

#[test]
fn a_gpu_that_has_failed_gives_nan_and_keeps_its_error() {
    let Some(cuda) = device() else { return };
    let mut params = Params::new();
    let table = params.add("table", &[2, 4], true);
    params = params.on(&Device::from(Arc::clone(&cuda)));
    let mut tape = Tape::recording(&params);
    let x = tape.embed(table, &[1]);
    cuda.note(Err(crate::CudaError::Ordinal { ordinal: 3, count: 1 }));
    let y = tape.sigmoid(&x);
    assert_eq!((y.rows(), y.cols()), (1, 4));
    tape.backward_from(&y, vec![1.0; 4], &mut Flat::zeros(&params));
    assert!(params.device().check().is_err());
}
