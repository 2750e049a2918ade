//! Results for rows of an output head other than log-probs and entropies, some rows at a time, as in
//! `crate::ops::squares` and `crate::ops::top`.

use std::sync::Arc;

use super::scores::{Inputs, THREADS, chunk_rows};
use crate::{
    Vocab,
    cuda::{Buffer, Cuda, Slice, int, launch_shape::LaunchShape, modules::Program::Scores},
};

/// `Σ p²` of each row.
pub(crate) fn squares(cuda: &Arc<Cuda>, inputs: Inputs<'_>) -> Buffer<f32> {
    squares_in(cuda, inputs, chunk_rows(inputs.asked.vocab))
}

fn squares_in(cuda: &Arc<Cuda>, inputs: Inputs<'_>, chunk: usize) -> Buffer<f32> {
    let mut squares = Buffer::uninit(cuda, inputs.asked.rows());
    for_chunks(cuda, inputs, chunk, |first, n, logits| {
        let arguments = &mut [
            squares.slice_mut(first..first + n).into(),
            logits.into(),
            inputs.asked.temperatures.slice(first..first + n).into(),
            int(inputs.asked.vocab),
        ];
        cuda.launch(Scores, "square_rows", LaunchShape::blocks(n, 1, THREADS), arguments);
    });
    squares
}

/// The `top` likeliest ids of each row, the likeliest first (of equal ones, the smaller), and their log-probs over the
/// whole vocabulary: `[rows, top]` each. Floats are ordered as by [`f32::total_cmp`]; a row with NaN has NaN log-probs.
///
/// # Panics
/// If there are fewer ids than that.
pub(crate) fn top(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    vocab: &Vocab,
    top: usize,
) -> (Buffer<i32>, Buffer<f32>) {
    top_in(cuda, inputs, vocab, top, chunk_rows(inputs.asked.vocab))
}

fn top_in(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    vocab: &Vocab,
    top: usize,
    chunk: usize,
) -> (Buffer<i32>, Buffer<f32>) {
    let allowed: Vec<i32> =
        (0..vocab.len() as u32).filter(|id| vocab.contains(*id)).map(|id| id as i32).collect();
    assert!((1..=allowed.len()).contains(&top), "{top} of {} ids", allowed.len());
    let allowed = Buffer::upload(cuda, &allowed);
    let len = inputs.asked.rows() * top;
    let (mut ids, mut logprobs) = (Buffer::uninit(cuda, len), Buffer::uninit(cuda, len));
    for_chunks(cuda, inputs, chunk, |first, n, logits| {
        let part = first * top..(first + n) * top;
        let arguments = &mut [
            ids.slice_mut(part.clone()).into(),
            logprobs.slice_mut(part).into(),
            logits.into(),
            inputs.asked.temperatures.slice(first..first + n).into(),
            allowed.all().into(),
            int(allowed.len()),
            int(top),
            int(inputs.asked.vocab),
        ];
        cuda.launch(Scores, "top_rows", LaunchShape::blocks(n, 1, THREADS), arguments);
    });
    (ids, logprobs)
}

/// Passes on the logits of at most `chunk` rows at a time, with the first row and the number of rows.
fn for_chunks(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    chunk: usize,
    mut read: impl FnMut(usize, usize, Slice<'_, f32>),
) {
    let (t, v) = (inputs.asked.rows(), inputs.asked.vocab);
    let mut logits = Buffer::uninit(cuda, chunk.min(t) * v);
    for first in (0..t).step_by(chunk) {
        let n = chunk.min(t - first);
        inputs.logits(cuda, first, n, logits.slice_mut(0..n * v));
        read(first, n, logits.slice(0..n * v));
    }
}

#[cfg(test)]
mod tests;
