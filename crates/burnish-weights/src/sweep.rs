//! Passes over tensors, on all threads, in pieces that stay in the caches.
//!
//! Pieces have the same bounds whatever the number of threads, and sums of floating-point numbers are taken piece by
//! piece in their order, so no bit depends on the machine's cores.

use std::ops::Range;

use rayon::prelude::*;

use crate::WeightsError;
use crate::checkpoint::View;

/// Elements that one thread takes at a time.
const TASK: usize = 1 << 18;
/// Elements of which all inputs are in the cache at once.
pub(crate) const PIECE: usize = 1 << 13;

/// Elements of several tensors at one place.
pub(crate) struct Piece<'a> {
    /// Index of the first element.
    pub(crate) start: usize,
    /// The elements of each tensor.
    pub(crate) inputs: &'a [&'a [f32]],
}

/// The ranges of `range` that threads take, each a multiple of `unit` elements.
pub(crate) fn tasks(range: Range<usize>, unit: usize) -> impl IndexedParallelIterator<Item = Range<usize>> {
    let step = multiple(TASK, unit);
    let Range { start, end } = range;
    (0..(end - start).div_ceil(step)).into_par_iter().map(move |task| {
        let from = start + task * step;
        from..(from + step).min(end)
    })
}

fn multiple(size: usize, unit: usize) -> usize {
    let unit = unit.max(1);
    unit * (size / unit).max(1)
}

/// Reads the elements `range` of all tensors piece by piece, each a multiple of `unit` elements.
pub(crate) fn pieces(
    tensors: &[View<'_>],
    range: Range<usize>,
    unit: usize,
    mut visit: impl FnMut(Piece<'_>) -> Result<(), WeightsError>,
) -> Result<(), WeightsError> {
    let step = multiple(PIECE, unit).min(range.len());
    let mut buffers = vec![vec![0.0; step]; tensors.len()];
    let mut start = range.start;
    while start < range.end {
        let end = (start + step).min(range.end);
        for (tensor, buffer) in tensors.iter().zip(&mut buffers) {
            tensor.read(start..end, &mut buffer[..end - start])?;
        }
        let inputs: Vec<&[f32]> = buffers.iter().map(|buffer| &buffer[..end - start]).collect();
        visit(Piece { start, inputs: &inputs })?;
        start = end;
    }
    Ok(())
}

/// Adds up what `add` sees, task by task: one `T` per task, in order.
pub(crate) fn fold<T: Send + std::default::Default>(
    tensors: &[View<'_>],
    add: impl Fn(&mut T, Piece<'_>) + Sync,
) -> Result<Vec<T>, WeightsError> {
    let len = tensors.first().map_or(0, View::len);
    tasks(0..len, 1)
        .map(|range| {
            let mut sum = T::default();
            pieces(tensors, range, 1, |piece| {
                add(&mut sum, piece);
                Ok(())
            })?;
            Ok(sum)
        })
        .collect()
}

/// Counts in `bins` bins; `count` sees every element once.
pub(crate) fn histogram(
    tensors: &[View<'_>],
    bins: usize,
    count: impl Fn(&mut [u64], Piece<'_>) + Sync,
) -> Result<Vec<u64>, WeightsError> {
    let len = tensors.first().map_or(0, View::len);
    // Counts are whole numbers, so the order in which threads meet is no matter.
    tasks(0..len, 1)
        .try_fold(
            || vec![0; bins],
            |mut counts, range| {
                pieces(tensors, range, 1, |piece| {
                    count(&mut counts, piece);
                    Ok(())
                })?;
                Ok(counts)
            },
        )
        .try_reduce(
            || vec![0; bins],
            |mut one, other| {
                one.iter_mut().zip(other).for_each(|(one, other)| *one += other);
                Ok(one)
            },
        )
}

/// `Σ |a|` in f64, in an order that the processor can take eight at a time.
pub(crate) fn size(values: &[f32]) -> f64 {
    let mut sums = [0.0; 8];
    let (whole, rest) = values.as_chunks::<8>();
    for values in whole {
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(value.abs()));
    }
    sums.iter_mut().zip(rest).for_each(|(sum, value)| *sum += f64::from(value.abs()));
    sums.iter().sum()
}

/// `Σ a·b` in f64, in an order that the processor can take eight at a time.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let mut sums = [0.0; 8];
    let (whole_a, rest_a) = a.as_chunks::<8>();
    let (whole_b, rest_b) = b.as_chunks::<8>();
    for (a, b) in whole_a.iter().zip(whole_b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += f64::from(*a) * f64::from(*b);
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(rest_a).zip(rest_b) {
        *sum += f64::from(*a) * f64::from(*b);
    }
    sums.iter().sum()
}
