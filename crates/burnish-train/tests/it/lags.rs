//! The derivatives of the loss by attention logits, against finite differences.

use burnish_core::rng::Stream;
use burnish_model::{
    Architecture, DeltaRuleConfig, Dtype, Mix, Model, ModelConfig, ModelShape, Packed, Rule,
};
use burnish_tensor::{DeltaInputs, DeltaShape, HeadShape, Layout, Param, Tape, Var};
use burnish_train::{LogitProbe, Sample};
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::common::{VOCAB, qwen3, random_sample, tiny_model};

/// Attention in f64 with one logit moved.
struct Moved {
    packed: Packed,
    /// Layer of attention, head, row, column.
    place: [usize; 4],
    by: f64,
}

impl Mix for Moved {
    fn attend(&mut self, tape: &mut Tape<'_>, layer: usize, q: Var, k: Var, v: Var) -> Var {
        let HeadShape { heads, kv_heads, head_dim } = self.packed.shape;
        let of = |x: &Var, row: usize, head: usize, at: usize| {
            f64::from(x.data()[row * x.cols() + head * head_dim + at])
        };
        let mut read = vec![0.0; q.rows() * q.cols()];
        for head in 0..heads {
            let group = head / (heads / kv_heads);
            for row in 0..q.rows() {
                let mut weights: Vec<f64> = (0..=row)
                    .map(|column| {
                        let product: f64 =
                            (0..head_dim).map(|at| of(&q, row, head, at) * of(&k, column, group, at)).sum();
                        let is_moved = self.place == [layer, head, row, column];
                        (product / (head_dim as f64).sqrt() + if is_moved { self.by } else { 0.0 }).exp()
                    })
                    .collect();
                let sum: f64 = weights.iter().sum();
                weights.iter_mut().for_each(|weight| *weight /= sum);
                for at in 0..head_dim {
                    let mixed: f64 = weights
                        .iter()
                        .enumerate()
                        .map(|(column, weight)| weight * of(&v, column, group, at))
                        .sum();
                    read[row * q.cols() + head * head_dim + at] = mixed as f32;
                }
            }
        }
        tape.external(q.rows(), q.cols(), read)
    }

    fn convolve(&mut self, tape: &mut Tape<'_>, layer: usize, x: &Var, weight: Param) -> Var {
        self.packed.convolve(tape, layer, x, weight)
    }

    fn recur(
        &mut self,
        tape: &mut Tape<'_>,
        layer: usize,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
    ) -> Var {
        self.packed.recur(tape, layer, inputs, shape)
    }
}

/// Mean negative log-likelihood of the scored tokens, where one logit is moved.
fn loss(model: &Model, sample: &Sample, place: [usize; 4], by: f64) -> f64 {
    let scored: Vec<usize> = sample.scored().collect();
    let inputs = &sample.ids[..sample.ids.len() - 1];
    let positions: Arc<[u32]> = (0..inputs.len() as u32).collect();
    let packed = Packed { layout: Arc::new(Layout::causal(&[inputs.len()])), shape: model.head_shape() };
    let mut tape = Tape::inference(&model.params);
    let hidden = model.forward(&mut tape, inputs, &positions, &mut Moved { packed, place, by });
    let logits = model.logits(&mut tape, &hidden);
    let nll = |at: usize| {
        let row = &logits.data()[(at - 1) * logits.cols()..][..logits.cols()];
        let logits: Vec<f64> =
            row.iter().map(|logit| f64::from(*logit) / f64::from(sample.temperatures[at])).collect();
        logits.iter().map(|logit| logit.exp()).sum::<f64>().ln() - logits[sample.ids[at] as usize]
    };
    scored.iter().map(|&at| nll(at)).sum::<f64>() / scored.len() as f64
}

/// Four layers, of which the second and the fourth attend.
fn hybrid() -> Model {
    let config = ModelConfig::new(&ModelShape {
        architecture: Architecture::Hybrid,
        vocab_size: VOCAB as usize,
        hidden_size: 12,
        intermediate_size: 20,
        num_hidden_layers: 4,
        num_attention_heads: 4,
        num_key_value_heads: 2,
        head_dim: 6,
        max_position_embeddings: 64,
        rope_theta: 1000.0,
        tie_word_embeddings: true,
        dtype: Dtype::F32,
        delta_rule: Some(DeltaRuleConfig {
            key_heads: 2,
            value_heads: 2,
            key_dim: 4,
            value_dim: 4,
            conv_kernel: 3,
            rule: Some(Rule::Gdn),
            decay_rank: None,
            rate_rank: None,
            gate_rank: None,
            attention_interval: Some(2),
        }),
        masked: false,
    })
    .unwrap();
    let mut model = Model::init(config, 1);
    let mut random = Stream::new(2);
    for weight in model.params.data_mut() {
        *weight += 0.2 * random.normal() as f32;
    }
    model
}

#[test]
fn derivatives_by_logits_agree_with_finite_differences() {
    for model in [qwen3(), tiny_model(Architecture::Llama, false, Dtype::F32), hybrid()] {
        let prompt: Vec<u32> = (0..9).map(|id| (7 * id) % 19).collect();
        let sample = random_sample(&prompt, 8, &mut Stream::new(5));
        let rows = sample.inputs().len();
        let mut found = Vec::new();
        let probe = LogitProbe::new(&model, 40);
        probe
            .differentiate(&sample, &mut |row| found.push((row.layer, row.head, row.values.to_vec())))
            .unwrap();
        let heads = model.head_shape().heads;
        assert_eq!(found.len(), 2 * heads * rows);

        let largest = found
            .iter()
            .flat_map(|(_, _, values)| values)
            .fold(0.0, |most: f64, value| most.max(value.abs()));
        assert!(largest > 1e-3, "{largest}");
        let (mut at, mut compared) = (0, 0);
        // Layers of attention are counted among themselves where logits are moved.
        let attending: BTreeSet<usize> = found.iter().map(|(layer, ..)| *layer).collect();
        for (layer, head, values) in &found {
            let row = values.len() - 1;
            // A derivative by all logits of a row at once is 0: softmax does not see it.
            assert!(values.iter().sum::<f64>().abs() < 1e-9);
            for (column, value) in values.iter().enumerate() {
                at += 1;
                if at % 17 > 0 {
                    continue;
                }
                compared += 1;
                let nth = attending.iter().position(|other| other == layer).unwrap();
                let moved = |by: f64| loss(&model, &sample, [nth, *head, row, column], by);
                let difference = (moved(0.02) - moved(-0.02)) / 0.04;
                assert!(
                    (difference - value).abs() < 0.01 * largest + 0.02 * value.abs(),
                    "layer {layer}, head {head}, row {row}, column {column}: {value} {difference}"
                );
            }
        }
        assert!(compared > 50, "{compared}");
    }
}

#[test]
fn a_sample_that_is_longer_than_the_probe_is_refused() {
    let model = qwen3();
    let sample = random_sample(&[1, 2, 3], 8, &mut Stream::new(1));
    let error = LogitProbe::new(&model, 5).differentiate(&sample, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("reads at most 5"), "{error}");
}
