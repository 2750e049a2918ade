//! Every operation again, as plain scalar loops in f64: the definition that the kernels are tested against.

use crate::{HeadShape, Layout, Vocab};

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

/// The rows that `row` sees, in the order of its sequence.
pub(crate) fn visible(layout: &Layout, row: usize) -> Vec<usize> {
    let mut segment = layout.segments().iter().position(|segment| segment.rows().contains(&row)).unwrap();
    let mut rows: Vec<usize> = (layout.segments()[segment].start..=row).collect();
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
