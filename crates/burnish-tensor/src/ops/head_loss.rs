//! The derivative of a loss on rows of logits. It is added to that of log-probs and entropies where logits are turned
//! into their gradient.
//!
//! With `q = softmax(z / temperature)`, `L = Σ_k p_k (log p_k - log q_k)` has `∂L/∂z_j = (q_j Σ_k p_k - p_j) /
//! temperature`: the first part is that of a log-prob whose derivative is `-Σ_k p_k`, so it needs no pass of its own.

use rayon::prelude::*;

use super::scores::{Inputs, Row, Seeds, chunk_rows, differentiate_row};
use crate::{Buffer, RowFunction, RowLoss, parallel, vector::simd};

/// A loss on rows, with the teacher's head ready for use.
#[derive(Clone, Copy)]
pub(crate) struct HeadLoss<'a> {
    pub(crate) weights: &'a [f32],
    pub(crate) loss: RowLoss<'a>,
    pub(crate) teacher: Option<Inputs<'a>>,
}

/// Turns the logits of some rows into their gradient, and writes the loss of each row that has a weight.
pub(super) fn differentiate_rows(
    inputs: Inputs<'_>,
    first: usize,
    logits: &mut [f32],
    rows: &[Row],
    seeds: Seeds<'_>,
    head: HeadLoss<'_>,
    values: &mut [f64],
) {
    let v = inputs.vocab.len();
    // Kept logits are one chunk; the teacher's logits for it would be as large.
    let step = chunk_rows(v);
    let mut theirs = Buffer::scratch(head.teacher.map_or(0, |_| step.min(values.len()) * v));
    let parts = logits.chunks_mut(step * v).zip(rows.chunks(step)).zip(values.chunks_mut(step));
    for (index, ((logits, rows), values)) in parts.enumerate() {
        let first = first + index * step;
        if let Some(teacher) = head.teacher {
            teacher.logits(first, &mut theirs[..logits.len()]);
        }
        let part = Part { inputs, seeds, head, theirs: &theirs };
        let each = parallel::task_rows(v);
        let tasks =
            logits.par_chunks_mut(each * v).zip(rows.par_chunks(each)).zip(values.par_chunks_mut(each));
        tasks.enumerate().for_each(|(task, ((logits, rows), values))| {
            simd(
                #[inline(always)]
                || {
                    let all = logits.chunks_exact_mut(v).zip(rows).zip(values);
                    for (index, ((z, row), value)) in all.enumerate() {
                        let index = task * each + index;
                        *value = part.differentiate(z, row, first + index, index);
                    }
                },
            );
        });
    }
}

/// The data of some rows.
#[derive(Clone, Copy)]
struct Part<'a> {
    inputs: Inputs<'a>,
    seeds: Seeds<'a>,
    head: HeadLoss<'a>,
    /// The teacher's logits; empty if there is none.
    theirs: &'a [f32],
}

impl Part<'_> {
    /// Returns the row's loss, 0 if it has no weight. `at` is its index among all rows, `index` that within the part.
    #[inline(always)]
    fn differentiate(self, z: &mut [f32], row: &Row, at: usize, index: usize) -> f64 {
        let Part { inputs, seeds, head, theirs } = self;
        let (target, temperature, weight) = (inputs.targets[at], inputs.temperatures[at], head.weights[at]);
        let d_entropy = seeds.d_entropy.get(at).copied().unwrap_or(0.0);
        let d_logprob = if inputs.vocab.contains(target) { seeds.d_logprob[at] } else { 0.0 };
        let inverse_temperature = 1.0 / temperature;
        let value = match head.loss {
            _ if weight == 0.0 => {
                differentiate_row(z, row, inverse_temperature, d_logprob, d_entropy);
                0.0
            }
            RowLoss::SoftLabels { top, ids, probabilities } => {
                let labels = at * top..(at + 1) * top;
                let (ids, probabilities) = (&ids[labels.clone()], &probabilities[labels]);
                let value = soft_label_loss(z, row, temperature, ids, probabilities);
                let mass: f32 = probabilities.iter().sum();
                differentiate_row(z, row, inverse_temperature, d_logprob - weight * mass, d_entropy);
                for (id, p) in ids.iter().zip(probabilities) {
                    z[*id as usize] -= weight * p * inverse_temperature;
                }
                value
            }
            RowLoss::Whole { evaluate, .. } => {
                let theirs = theirs.get(index * z.len()..(index + 1) * z.len()).unwrap_or_default();
                let (value, d) = whole(evaluate, at, [z, theirs], temperature, weight);
                differentiate_row(z, row, inverse_temperature, d_logprob, d_entropy);
                z.iter_mut().zip(d).for_each(|(z, d)| *z += d);
                value
            }
        };
        z[target as usize] += d_logprob * inverse_temperature;
        value
    }
}

fn soft_label_loss(z: &[f32], row: &Row, temperature: f32, ids: &[u32], probabilities: &[f32]) -> f64 {
    let present = ids.iter().zip(probabilities).filter(|(_, p)| **p > 0.0);
    present
        .map(|(id, p)| {
            let y = (f64::from(z[*id as usize]) - f64::from(row.maximum)) / f64::from(temperature);
            let p = f64::from(*p);
            p * (p.ln() - (y - f64::from(row.log_sum)))
        })
        .sum()
}

/// The loss of a row under a function of whole rows, and its derivative by the row's own logits, times the row's
/// weight. `theirs` are the teacher's logits, empty if there is none.
#[inline(never)]
pub(crate) fn whole(
    evaluate: &RowFunction<'_>,
    at: usize,
    [own, theirs]: [&[f32]; 2],
    temperature: f32,
    weight: f32,
) -> (f64, Vec<f32>) {
    let scaled = |logits: &[f32]| -> Vec<f64> {
        logits.iter().map(|z| f64::from(*z) / f64::from(temperature)).collect()
    };
    let (value, d) = evaluate(at, &scaled(own), &scaled(theirs));
    assert_eq!(d.len(), own.len(), "one derivative for each logit");
    let factor = f64::from(weight) / f64::from(temperature);
    (value, d.into_iter().map(|d| (factor * d) as f32).collect())
}

#[cfg(test)]
mod tests;
