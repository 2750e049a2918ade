//! Which elements of a change are its largest.
//!
//! The size of the `k`-th largest is found by counting, in two passes over the inputs, without sorting or storing the
//! change. Of elements of just this size the first ones are kept, as a stable sort keeps them.

use std::ops::Range;

use rayon::prelude::*;

use crate::WeightsError;
use crate::checkpoint::View;
use crate::sweep::{PIECE, Piece, histogram, pieces, tasks};

/// The largest elements of `model − base`.
#[derive(Debug)]
pub(super) struct Largest {
    /// Size of the smallest that is kept, as the bits of an f32, which are in the order of sizes.
    least: u32,
    /// Per piece of [`PIECE`] elements: how many elements of just this size are kept.
    equals: Option<Vec<u32>>,
}

const HIGH_BITS: u32 = 15;
const LOW_BITS: u32 = 16;

impl Largest {
    /// The `count` largest elements of the second of `tensors` less the first.
    pub(super) fn of(tensors: [View<'_>; 2], count: u64) -> Result<Self, WeightsError> {
        let size = |piece: &Piece<'_>, at: usize| change(piece.inputs, at).abs().to_bits();
        let each = |piece: &Piece<'_>| 0..piece.inputs[0].len();
        let high = histogram(&tensors, 1 << HIGH_BITS, |bins, piece| {
            each(&piece).for_each(|at| bins[(size(&piece, at) >> LOW_BITS) as usize] += 1);
        })?;
        let (top, larger) = bin_of(&high, count);
        let low = histogram(&tensors, 1 << LOW_BITS, |bins, piece| {
            for at in each(&piece) {
                let size = size(&piece, at);
                if size >> LOW_BITS == top {
                    bins[(size & 0xffff) as usize] += 1;
                }
            }
        })?;
        let (bottom, larger) = bin_of(&low, count - larger);
        let (least, larger) = ((top << LOW_BITS) | bottom, count_larger(&high, top) + larger);
        let equal = low[bottom as usize];
        let wanted = count - larger;
        let equals = if wanted < equal { Some(first_equals(&tensors, least, wanted)?) } else { None };
        Ok(Largest { least, equals })
    }

    /// Sets the changes that are not among the largest to 0. `changes` begins with element `start`, where a piece
    /// begins.
    pub(super) fn keep(&self, start: usize, changes: &mut [f32]) {
        let Some(equals) = &self.equals else {
            for change in changes {
                *change = if change.abs().to_bits() >= self.least { *change } else { 0.0 };
            }
            return;
        };
        for (piece, changes) in changes.chunks_mut(PIECE).enumerate() {
            let mut left = equals.get(start / PIECE + piece).copied().unwrap_or_default();
            for change in changes {
                let size = change.abs().to_bits();
                let is_kept = size > self.least || (size == self.least && left > 0);
                left -= u32::from(is_kept && size == self.least);
                *change = if is_kept { *change } else { 0.0 };
            }
        }
    }
}

fn change(inputs: &[&[f32]], at: usize) -> f32 {
    inputs[1][at] - inputs[0][at]
}

/// The highest bin down to which there are `count` elements, and how many are above it.
fn bin_of(bins: &[u64], count: u64) -> (u32, u64) {
    let mut above = 0;
    for (bin, elements) in bins.iter().enumerate().rev() {
        if above + elements >= count {
            return (bin as u32, above);
        }
        above += elements;
    }
    (0, above)
}

fn count_larger(bins: &[u64], bin: u32) -> u64 {
    bins[bin as usize + 1..].iter().sum()
}

/// Per piece: how many of the first `wanted` elements of size `least` are in it.
fn first_equals(tensors: &[View<'_>; 2], least: u32, wanted: u64) -> Result<Vec<u32>, WeightsError> {
    let of_task = |range: Range<usize>| {
        let mut counts = Vec::new();
        pieces(tensors, range, 1, |piece| {
            let sizes = (0..piece.inputs[0].len()).map(|at| change(piece.inputs, at).abs().to_bits());
            counts.push(sizes.filter(|size| *size == least).count() as u32);
            Ok(())
        })?;
        Ok(counts)
    };
    let counts: Result<Vec<Vec<u32>>, WeightsError> = tasks(0..tensors[0].len(), 1).map(of_task).collect();
    let mut left = wanted;
    let kept = counts?.concat().into_iter().map(|count| {
        let kept = u64::from(count).min(left);
        left -= kept;
        kept as u32
    });
    Ok(kept.collect())
}
