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
    /// The piece of [`PIECE`] elements that has the last kept element of just this size, and how many it keeps; all are
    /// kept in pieces before it, and none in those behind it. `None` if all are kept everywhere.
    last: Option<(usize, u64)>,
}

const HIGH_BITS: u32 = 15;
const LOW_BITS: u32 = 16;

impl Largest {
    /// The `count` largest elements of the second of `tensors` less the first.
    pub(super) fn of(tensors: [View<'_>; 2], count: u64) -> Result<Self, WeightsError> {
        let high = histogram(&tensors, 1 << HIGH_BITS, |bins, piece| {
            sizes(&piece).for_each(|size| bins[(size >> LOW_BITS) as usize] += 1);
        })?;
        let (top, larger) = bin_of(&high, count);
        let low = histogram(&tensors, 1 << LOW_BITS, |bins, piece| {
            for size in sizes(&piece).filter(|size| size >> LOW_BITS == top) {
                bins[(size & 0xffff) as usize] += 1;
            }
        })?;
        let (bottom, larger) = bin_of(&low, count - larger);
        let (least, larger) = ((top << LOW_BITS) | bottom, count_larger(&high, top) + larger);
        let equal = low[bottom as usize];
        let wanted = count - larger;
        let last = if wanted < equal { Some(last_equal(&tensors, least, wanted)?) } else { None };
        Ok(Largest { least, last })
    }

    /// Sets the changes that are not among the largest to 0. `changes` begins with element `start`, where a piece
    /// begins.
    pub(super) fn keep(&self, start: usize, changes: &mut [f32]) {
        for (piece, changes) in (start / PIECE..).zip(changes.chunks_mut(PIECE)) {
            match self.last {
                Some((last, count)) if piece == last => self.keep_some(changes, count),
                Some((last, _)) if piece > last => keep_from(changes, self.least + 1),
                _ => keep_from(changes, self.least),
            }
        }
    }

    /// Of elements of just the smallest size, the first `count` are kept.
    fn keep_some(&self, changes: &mut [f32], mut count: u64) {
        for change in changes {
            let size = change.abs().to_bits();
            let is_kept = size > self.least || (size == self.least && count > 0);
            count -= u64::from(is_kept && size == self.least);
            *change = if is_kept { *change } else { 0.0 };
        }
    }
}

/// Keeps the elements whose size is `least` or more. A mask in place of a condition, which nobody can predict.
fn keep_from(changes: &mut [f32], least: u32) {
    for change in changes {
        let mask = u32::from(change.abs().to_bits() >= least).wrapping_neg();
        *change = f32::from_bits(change.to_bits() & mask);
    }
}

/// Sizes of the changes, as the bits of an f32.
fn sizes(piece: &Piece<'_>) -> impl Iterator<Item = u32> {
    piece.inputs[1].iter().zip(piece.inputs[0]).map(|(model, base)| (model - base).abs().to_bits())
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

/// The piece that has element number `wanted` of size `least`, and how many there are in it up to that one.
fn last_equal(tensors: &[View<'_>; 2], least: u32, wanted: u64) -> Result<(usize, u64), WeightsError> {
    let of_task = |range: Range<usize>| {
        let mut counts = Vec::new();
        pieces(tensors, range, 1, |piece| {
            counts.push(sizes(&piece).filter(|size| *size == least).count() as u64);
            Ok(())
        })?;
        Ok(counts)
    };
    let counts: Result<Vec<Vec<u64>>, WeightsError> = tasks(0..tensors[0].len(), 1).map(of_task).collect();
    let (mut left, mut last) = (wanted, 0);
    for (piece, count) in counts?.concat().into_iter().enumerate() {
        last = piece;
        if count >= left {
            break;
        }
        left -= count;
    }
    Ok((last, left))
}
