//! Every operation again, as plain scalar loops in f64: the definition that the kernels are tested against.

use crate::{DeltaShape, HeadShape, Layout, Vocab};

pub(crate) fn embed(table: &[f64], cols: usize, ids: &[u32]) -> Vec<f64> {
    ids.iter().flat_map(|&id| table[id as usize * cols..][..cols].to_vec()).collect()
}

pub(crate) fn linear(x: &[f64], weight: &[f64], bias: Option<&[f64]>, inputs: usize) -> Vec<f64> {
    let mut y = Vec::new();
    for x in x.chunks_exact(inputs) {
        for (output, w) in weight.chunks_exact(inputs).enumerate() {
            let product: f64 = x.iter().zip(w).map(|(x, w)| x * w).sum();
            y.push(product + bias.map_or(0.0, |bias| bias[output]));
        }
    }
    y
}

pub(crate) fn rms_norm(x: &[f64], weight: &[f64], eps: f64) -> Vec<f64> {
    let mut y = Vec::new();
    for x in x.chunks_exact(weight.len()) {
        let mean_square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        y.extend(x.iter().zip(weight).map(|(x, w)| w * x / (mean_square + eps).sqrt()));
    }
    y
}

pub(crate) fn rope(
    x: &[f64],
    cols: usize,
    head_dim: usize,
    inv_freq: &[f32],
    scaling: f64,
    positions: &[u32],
) -> Vec<f64> {
    let pairs = inv_freq.len();
    let mut y = x.to_vec();
    for (row, &position) in positions.iter().enumerate() {
        for head in 0..cols / head_dim {
            for (pair, frequency) in inv_freq.iter().enumerate() {
                let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
                let a = row * cols + head * head_dim + pair;
                let b = a + pairs;
                y[a] = scaling * (x[a] * cos - x[b] * sin);
                y[b] = scaling * (x[b] * cos + x[a] * sin);
            }
        }
    }
    y
}

pub(crate) fn swiglu(gate: &[f64], up: &[f64]) -> Vec<f64> {
    gate.iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up).collect()
}

pub(crate) fn sigmoid(x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect()
}

pub(crate) fn sigmoid_gate(x: &[f64], gate: &[f64]) -> Vec<f64> {
    x.iter().zip(sigmoid(gate)).map(|(x, gate)| x * gate).collect()
}

pub(crate) fn root_gate(x: &[f64], gate: &[f64]) -> Vec<f64> {
    x.iter().zip(sigmoid(gate)).map(|(x, gate)| x * gate.sqrt()).collect()
}

pub(crate) fn unit_heads(x: &[f64], head_dim: usize, scale: f64) -> Vec<f64> {
    let unit = |head: &[f64]| {
        let length = (head.iter().map(|x| x * x).sum::<f64>() + 1e-6).sqrt();
        head.iter().map(|x| scale * x / length).collect::<Vec<f64>>()
    };
    x.chunks_exact(head_dim).flat_map(unit).collect()
}

pub(crate) fn log_decay(x: &[f64], a_log: &[f64], dt_bias: &[f64]) -> Vec<f64> {
    let channels = dt_bias.len() / a_log.len();
    let of = |(at, x): (usize, &f64)| {
        let column = at % dt_bias.len();
        -a_log[column / channels].exp() * (x + dt_bias[column]).exp().ln_1p()
    };
    x.iter().enumerate().map(of).collect()
}

/// Weight `[C, taps]`.
pub(crate) fn short_conv(x: &[f64], weight: &[f64], taps: usize, layout: &Layout) -> Vec<f64> {
    let cols = weight.len() / taps;
    let mut out = Vec::new();
    for row in 0..layout.rows() {
        let visible = visible(layout, row);
        for column in 0..cols {
            let z: f64 = visible
                .iter()
                .rev()
                .take(taps)
                .enumerate()
                .map(|(back, &row)| weight[column * taps + taps - 1 - back] * x[row * cols + column])
                .sum();
            out.push(z / (1.0 + (-z).exp()));
        }
    }
    out
}

/// The rows that `row` sees, in the order of its sequence.
pub(crate) fn visible(layout: &Layout, row: usize) -> Vec<usize> {
    let mut segment = layout.segments().iter().position(|segment| segment.rows().contains(&row)).unwrap();
    let own = layout.segments()[segment];
    let end = if own.is_causal() { row + 1 } else { own.rows().end };
    let mut rows: Vec<usize> = (own.start..end).collect();
    while let Some(parent) = layout.segments()[segment].parent {
        rows.splice(0..0, layout.segments()[parent].rows());
        segment = parent;
    }
    rows
}

pub(crate) fn attention(q: &[f64], k: &[f64], v: &[f64], shape: HeadShape, layout: &Layout) -> Vec<f64> {
    let HeadShape { heads, kv_heads, head_dim } = shape;
    let mut out = vec![0.0; q.len()];
    for row in 0..layout.rows() {
        let visible = visible(layout, row);
        for head in 0..heads {
            let at = (row * heads + head) * head_dim;
            let column = head / (heads / kv_heads) * head_dim;
            let element = |data: &[f64], row: usize, i: usize| data[row * kv_heads * head_dim + column + i];
            let score = |&seen: &usize| -> f64 {
                let product: f64 = (0..head_dim).map(|i| q[at + i] * element(k, seen, i)).sum();
                product / (head_dim as f64).sqrt()
            };
            let weights: Vec<f64> = visible.iter().map(|row| score(row).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for i in 0..head_dim {
                out[at + i] =
                    visible.iter().zip(&weights).map(|(&seen, w)| w * element(v, seen, i)).sum::<f64>() / sum;
            }
        }
    }
    out
}

/// Operands of a delta rule, named and shaped as [`crate::DeltaRows`].
#[derive(Clone)]
pub(crate) struct Delta {
    pub(crate) q: Vec<f64>,
    pub(crate) k: Vec<f64>,
    pub(crate) v: Vec<f64>,
    pub(crate) log_decay: Vec<f64>,
    pub(crate) beta: Vec<f64>,
}

/// The recurrence, row by row: the output, and the state after each segment.
pub(crate) fn delta_rule(x: &Delta, shape: DeltaShape, layout: &Layout) -> (Vec<f64>, Vec<Vec<f64>>) {
    let DeltaShape { key_heads, value_heads, key_dim, value_dim } = shape;
    let channels = x.log_decay.len() / x.beta.len().max(1);
    let mut out = vec![0.0; x.v.len()];
    let mut finals: Vec<Vec<f64>> = Vec::new();
    for segment in layout.segments() {
        let mut states = segment.parent.map_or(vec![0.0; shape.state_len()], |parent| finals[parent].clone());
        for row in segment.rows() {
            for (head, s) in states.chunks_exact_mut(key_dim * value_dim).enumerate() {
                let of_key = (row * key_heads + head / (value_heads / key_heads)) * key_dim;
                let at = row * value_heads + head;
                for c in 0..key_dim {
                    let log = x.log_decay[at * channels + if channels == 1 { 0 } else { c }];
                    s[c * value_dim..][..value_dim].iter_mut().for_each(|s| *s *= log.exp());
                }
                for j in 0..value_dim {
                    let held: f64 = (0..key_dim).map(|c| x.k[of_key + c] * s[c * value_dim + j]).sum();
                    let write = x.beta[at] * (x.v[at * value_dim + j] - held);
                    for c in 0..key_dim {
                        s[c * value_dim + j] += x.k[of_key + c] * write;
                        out[at * value_dim + j] += x.q[of_key + c] * s[c * value_dim + j];
                    }
                }
            }
        }
        finals.push(states);
    }
    (out, finals)
}

/// Log-probs of the targets and entropies.
pub(crate) fn token_scores(
    hidden: &[f64],
    weight: &[f64],
    width: usize,
    targets: &[u32],
    temperatures: &[f32],
    vocab: &Vocab,
) -> (Vec<f64>, Vec<f64>) {
    let logits = linear(hidden, weight, None, width);
    let mut scores = (Vec::new(), Vec::new());
    for (row, z) in logits.chunks_exact(vocab.len()).enumerate() {
        let scaled = |id: usize| z[id] / f64::from(temperatures[row]);
        let allowed = || (0..z.len()).filter(|&id| vocab.contains(id as u32));
        let log_sum = allowed().map(|id| scaled(id).exp()).sum::<f64>().ln();
        scores.0.push(scaled(targets[row] as usize) - log_sum);
        scores
            .1
            .push(-allowed().map(|id| (scaled(id) - log_sum).exp() * (scaled(id) - log_sum)).sum::<f64>());
    }
    scores
}
