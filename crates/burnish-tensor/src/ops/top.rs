//! The likeliest ids of rows of an output head, a few rows at a time.

use rayon::prelude::*;

use super::scores::{Inputs, chunk_rows, softmax_sums};
use crate::{
    Buffer, parallel,
    vector::{self, simd},
};

/// The `top` likeliest ids of each row, the likeliest first (of equal ones, the smaller), and their log-probs over the
/// whole vocabulary. There must be at least `top` ids.
pub(crate) fn top(inputs: Inputs<'_>, top: usize) -> (Vec<u32>, Vec<f32>) {
    let (t, v) = (inputs.rows(), inputs.vocab.len());
    let mut ids = vec![0; t * top];
    let mut logprobs = vec![0.0; t * top];
    let allowed: Vec<u32> = (0..v as u32).filter(|id| inputs.vocab.contains(*id)).collect();
    assert!((1..=allowed.len()).contains(&top), "{top} of {} ids", allowed.len());
    let chunk = chunk_rows(v);
    let mut logits = Buffer::scratch(chunk.min(t) * v);
    let parts = ids.chunks_mut(chunk * top).zip(logprobs.chunks_mut(chunk * top));
    for (index, (ids, logprobs)) in parts.enumerate() {
        let first = index * chunk;
        let logits = &mut logits[..ids.len() / top * v];
        inputs.logits(first, logits);
        let each = parallel::task_rows(v);
        let tasks = logits.par_chunks(each * v).zip(ids.par_chunks_mut(each * top));
        let tasks = tasks.zip(logprobs.par_chunks_mut(each * top));
        tasks.enumerate().for_each(|(task, ((logits, ids), logprobs))| {
            let mut order = Vec::with_capacity(v);
            let rows = logits.chunks_exact(v).zip(ids.chunks_exact_mut(top));
            for (index, ((z, ids), logprobs)) in rows.zip(logprobs.chunks_exact_mut(top)).enumerate() {
                order.clone_from(&allowed);
                let temperature = inputs.temperatures[first + task * each + index];
                top_of_row(z, temperature, &mut order, ids, logprobs);
            }
        });
    }
    (ids, logprobs)
}

fn top_of_row(z: &[f32], temperature: f32, order: &mut Vec<u32>, ids: &mut [u32], logprobs: &mut [f32]) {
    let by_logit = |a: &u32, b: &u32| z[*b as usize].total_cmp(&z[*a as usize]).then(a.cmp(b));
    order.select_nth_unstable_by(ids.len() - 1, by_logit);
    order.truncate(ids.len());
    order.sort_unstable_by(by_logit);
    ids.copy_from_slice(order);
    let (maximum, sum) = simd(
        #[inline(always)]
        || {
            let maximum = vector::max(z);
            (maximum, softmax_sums(z, maximum, 1.0 / temperature).0)
        },
    );
    let log_sum = sum.ln();
    for (logprob, id) in logprobs.iter_mut().zip(ids) {
        let y = (f64::from(z[*id as usize]) - f64::from(maximum)) / f64::from(temperature);
        *logprob = (y - log_sum) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Elements, Precision, Vocab, reference,
        testing::{assert_close, random, wide},
    };

    #[test]
    fn the_likeliest_ids_are_those_of_sorting_over_many_chunks() {
        let (v, width) = (23, 5);
        let vocab = Vocab::only(v, |id| id % 7 != 3);
        let rows = chunk_rows(v) + 9;
        let (hidden, weight) = (random(1, rows * width), random(2, v * width));
        let temperatures: Vec<f32> = random(3, rows).iter().map(|x| 1.0 + 0.5 * x).collect();
        let inputs = Inputs {
            hidden: &hidden,
            weight: Elements::F32(&weight),
            low_rank: None,
            precision: Precision::F32,
            width,
            targets: &[],
            temperatures: &temperatures,
            vocab: &vocab,
        };
        for count in [1, 4, 20] {
            let (ids, logprobs) = top(inputs, count);
            for row in 0..rows {
                let own = &hidden[row * width..][..width];
                let allowed: Vec<u32> = (0..v as u32).filter(|id| vocab.contains(*id)).collect();
                let of = |id: u32| {
                    let temperature = &temperatures[row..=row];
                    reference::token_scores(&wide(own), &wide(&weight), width, &[id], temperature, &vocab).0
                        [0]
                };
                let mut expected: Vec<(f64, u32)> = allowed.iter().map(|id| (of(*id), *id)).collect();
                expected.sort_by(|a, b| b.0.total_cmp(&a.0));
                let own = row * count..(row + 1) * count;
                let expected_ids: Vec<u32> = expected[..count].iter().map(|(_, id)| *id).collect();
                assert_eq!(ids[own.clone()], expected_ids);
                let expected: Vec<f64> = expected[..count].iter().map(|(log, _)| *log).collect();
                assert_close(&logprobs[own], &expected, 1e-6);
            }
        }
    }
}
