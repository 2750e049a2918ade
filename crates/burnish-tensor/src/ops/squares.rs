//! A measure of how concentrated the distributions of an output head's rows are, a few rows at a time.

use rayon::prelude::*;

use super::scores::{Inputs, SUM_ELEMENTS, chunk_rows};
use crate::{
    Buffer, parallel,
    vector::{self, simd},
};

/// `Σ p²` of each row: 1 if one id has all the probability, `1 / n` if `n` ids share it evenly.
pub(crate) fn squares(inputs: Inputs<'_>) -> Vec<f32> {
    let (t, v) = (inputs.rows(), inputs.vocab.len());
    let mut squares = vec![0.0; t];
    let chunk = chunk_rows(v);
    let mut logits = Buffer::scratch(chunk.min(t) * v);
    for (index, squares) in squares.chunks_mut(chunk).enumerate() {
        let first = index * chunk;
        let logits = &mut logits[..squares.len() * v];
        inputs.logits(first, logits);
        let each = parallel::task_rows(v);
        let tasks = logits.par_chunks(each * v).zip(squares.par_chunks_mut(each));
        tasks.enumerate().for_each(|(task, (logits, squares))| {
            let temperatures = &inputs.temperatures[first + task * each..];
            for ((z, own), temperature) in logits.chunks_exact(v).zip(squares).zip(temperatures) {
                *own = simd(
                    #[inline(always)]
                    || of_row(z, 1.0 / temperature),
                );
            }
        });
    }
    squares
}

/// `Σ e^{2y} / (Σ e^y)²`.
#[inline(always)]
fn of_row(z: &[f32], inverse_temperature: f32) -> f32 {
    let maximum = vector::max(z);
    let (mut sum, mut squared) = (0.0_f64, 0.0_f64);
    let mut e = [0.0; SUM_ELEMENTS];
    for z in z.chunks(SUM_ELEMENTS) {
        let e = &mut e[..z.len()];
        for (e, &z) in e.iter_mut().zip(z) {
            *e = vector::exp((z - maximum) * inverse_temperature);
        }
        sum += f64::from(vector::sum(e));
        squared += f64::from(vector::dot(e, e));
    }
    (squared / (sum * sum)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Elements, Precision, Vocab, reference,
        testing::{assert_close, random, wide},
    };

    #[test]
    fn they_are_those_of_the_reference_over_many_chunks_and_excluded_ids() {
        let (v, width) = (2 * SUM_ELEMENTS + 23, 5);
        let vocab = Vocab::only(v, |id| id % 7 != 3);
        let rows = chunk_rows(v) + 2;
        let (hidden, weight) = (random(1, rows * width), random(2, v * width));
        let temperatures: Vec<f32> = random(3, rows).iter().map(|x| 0.6 + 0.5 * x.abs()).collect();
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
        let found = squares(inputs);
        let weight = wide(&weight);
        let allowed: Vec<u32> = (0..v as u32).filter(|id| vocab.contains(*id)).collect();
        // The ends of chunks, and of all rows.
        for row in [0, chunk_rows(v) - 1, chunk_rows(v), rows - 1] {
            let own = wide(&hidden[row * width..][..width]);
            let of = |id: &u32| {
                let temperature = &temperatures[row..=row];
                reference::token_scores(&own, &weight, width, &[*id], temperature, &vocab).0[0]
            };
            let expected: f64 = allowed.iter().map(|id| (2.0 * of(id)).exp()).sum();
            assert_close(&[(f64::from(found[row]) / expected) as f32], &[1.0], 1e-5);
        }
    }
}
