//! Moments of AdamW in 8 bits: blockwise dynamic quantisation (Dettmers, Lewis, Shleifer and Zettlemoyer 2022,
//! arXiv:2110.02861), with the maps, the block size and the arithmetic of bitsandbytes. (Its library for CPUs looks codes
//! up in a table, which is coarse near 0; here each number gets the nearest code, as by its kernels for GPUs.)
//!
//! [`BLOCK`] numbers share a scale, their largest absolute value. A number is stored as the index of the nearest of 256
//! shares of it, which are closer to each other near 0. A step widens both moments of a block, makes the update in f32,
//! and rounds them again, each to its own new scale.

use std::sync::LazyLock;

use rayon::prelude::*;

use crate::optim::{AdamW, Factors};

/// Numbers that share a scale.
pub const BLOCK: usize = 256;

/// Blocks per task of a pool of threads. It changes no result.
const TASK_BLOCKS: usize = 64;

/// A map from codes to shares of a block's scale, in ascending order.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) values: [f32; 256],
    /// `between[i]` is halfway from value `i` to the next; the last is infinite.
    between: [f32; 256],
}

/// For numbers of either sign: the first moment.
pub(crate) static SIGNED: LazyLock<Map> = LazyLock::new(|| Map::dynamic(true));
/// For numbers that are not negative: the second moment.
pub(crate) static UNSIGNED: LazyLock<Map> = LazyLock::new(|| Map::dynamic(false));

impl Map {
    /// `create_dynamic_map` of bitsandbytes. Of each power of ten from 10⁻⁶ to 1, it has the middles of intervals that
    /// divide 0.1 to 1 evenly, twice as many as of the one before; and 0 and 1.
    fn dynamic(is_signed: bool) -> Map {
        let mut values = vec![0.0, 1.0];
        for exponent in 0..7 {
            let intervals = 1_usize << (exponent + usize::from(!is_signed));
            let scale = 10.0_f64.powi(exponent as i32 - 6) as f32;
            let step = (1.0_f32 - 0.1) / intervals as f32;
            // As `torch.linspace`: from the nearer end, rounded once.
            let bound = |i: usize| match i < intervals.div_ceil(2) {
                true => step.mul_add(i as f32, 0.1),
                false => (-step).mul_add((intervals - i) as f32, 1.0),
            };
            for i in 0..intervals {
                let middle = scale * ((bound(i) + bound(i + 1)) / 2.0);
                values.push(middle);
                if is_signed {
                    values.push(-middle);
                }
            }
        }
        values.sort_by(f32::total_cmp);
        let values: [f32; 256] = std::array::from_fn(|i| values[i]);
        let between = |i: usize| values.get(i + 1).map_or(f32::INFINITY, |next| (values[i] + next) / 2.0);
        Map { values, between: std::array::from_fn(between) }
    }

    /// The code of the value nearest to `share`; of two that are as near, the lower.
    fn code(&self, share: f32) -> u8 {
        self.between[..255].partition_point(|&between| between < share) as u8
    }

    fn widen(&self, codes: &[u8], absmax: f32, to: &mut [f32]) {
        for (to, &code) in to.iter_mut().zip(codes) {
            *to = self.values[usize::from(code)] * absmax;
        }
    }

    /// Rounds the numbers of a block; returns their scale.
    fn round(&self, numbers: &[f32], codes: &mut [u8]) -> f32 {
        let absmax = numbers.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
        let inverse = if absmax > 0.0 { 1.0 / absmax } else { 0.0 };
        for (code, &x) in codes.iter_mut().zip(numbers) {
            *code = self.code(x * inverse);
        }
        absmax
    }
}

/// Quantised numbers of one tensor: a code for each, and a scale for each [`BLOCK`] of them, the last of which may be
/// short.
#[derive(Debug)]
pub struct QuantizedMut<'a> {
    /// `[n]`.
    pub codes: &'a mut [u8],
    /// `[n.div_ceil(BLOCK)]`.
    pub absmax: &'a mut [f32],
}

/// Quantises `numbers` with the map for either sign, or for what is not negative.
#[must_use]
pub fn quantize(numbers: &[f32], is_signed: bool) -> (Vec<u8>, Vec<f32>) {
    let map = if is_signed { &*SIGNED } else { &*UNSIGNED };
    let mut codes = vec![0; numbers.len()];
    let blocks = numbers.chunks(BLOCK).zip(codes.chunks_mut(BLOCK));
    let absmax = blocks.map(|(numbers, codes)| map.round(numbers, codes)).collect();
    (codes, absmax)
}

/// The numbers that codes and scales stand for.
#[must_use]
pub fn dequantize(codes: &[u8], absmax: &[f32], is_signed: bool) -> Vec<f32> {
    let map = if is_signed { &*SIGNED } else { &*UNSIGNED };
    let mut numbers = vec![0.0; codes.len()];
    for ((codes, to), &absmax) in codes.chunks(BLOCK).zip(numbers.chunks_mut(BLOCK)).zip(absmax) {
        map.widen(codes, absmax, to);
    }
    numbers
}

/// As [`crate::optim::adamw_step`] on one tensor, with the moments `m` and `v` in 8 bits. The update uses the new moments
/// before they are rounded.
///
/// # Panics
/// If lengths differ.
pub fn adamw_step_8bit(
    params: &mut [f32],
    grads: &[f32],
    m: QuantizedMut<'_>,
    v: QuantizedMut<'_>,
    hyper: &AdamW,
    decay: bool,
) {
    let (n, blocks) = (params.len(), params.len().div_ceil(BLOCK));
    assert_eq!((grads.len(), m.codes.len(), v.codes.len()), (n, n, n), "one gradient and two codes for each");
    assert_eq!((m.absmax.len(), v.absmax.len()), (blocks, blocks), "one scale for each block");
    let factors = Factors::of(hyper, decay);
    let chunk = TASK_BLOCKS * BLOCK;
    let numbers = params.par_chunks_mut(chunk).zip(grads.par_chunks(chunk));
    let m = m.codes.par_chunks_mut(chunk).zip(m.absmax.par_chunks_mut(TASK_BLOCKS));
    let v = v.codes.par_chunks_mut(chunk).zip(v.absmax.par_chunks_mut(TASK_BLOCKS));
    numbers.zip(m).zip(v).for_each(|(((params, grads), (m, m_absmax)), (v, v_absmax))| {
        let blocks = params.chunks_mut(BLOCK).zip(grads.chunks(BLOCK));
        let moments = m.chunks_mut(BLOCK).zip(m_absmax).zip(v.chunks_mut(BLOCK).zip(v_absmax));
        for ((params, grads), ((m, m_absmax), (v, v_absmax))) in blocks.zip(moments) {
            let (mut wide_m, mut wide_v) = ([0.0; BLOCK], [0.0; BLOCK]);
            let (wide_m, wide_v) = (&mut wide_m[..params.len()], &mut wide_v[..params.len()]);
            SIGNED.widen(m, *m_absmax, wide_m);
            UNSIGNED.widen(v, *v_absmax, wide_v);
            for (((p, &g), m), v) in params.iter_mut().zip(grads).zip(&mut *wide_m).zip(&mut *wide_v) {
                factors.update(p, g, m, v);
            }
            *m_absmax = SIGNED.round(wide_m, m);
            *v_absmax = UNSIGNED.round(wide_v, v);
        }
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn maps_are_ascending_and_hold_0_and_1() {
        for map in [&*SIGNED, &*UNSIGNED] {
            assert!(map.values.is_sorted_by(|a, b| a < b));
            assert!(map.values.contains(&0.0) && map.values[255] == 1.0);
            for code in 0..=255 {
                assert_eq!(map.code(map.values[usize::from(code)]), code);
            }
        }
        assert!(SIGNED.values[0] > -1.0 && UNSIGNED.values[0] == 0.0);
    }

    proptest! {
        #[test]
        fn a_number_becomes_the_nearest_of_its_block(numbers in prop::collection::vec(-1e3_f32..1e3, 1..600)) {
            for is_signed in [true, false] {
                let numbers: Vec<f32> = numbers.iter().map(|x| if is_signed { *x } else { x.abs() }).collect();
                let (codes, absmax) = quantize(&numbers, is_signed);
                prop_assert_eq!(absmax.len(), numbers.len().div_ceil(BLOCK));
                let back = dequantize(&codes, &absmax, is_signed);
                let map = if is_signed { &*SIGNED } else { &*UNSIGNED };
                for (i, (&x, &back)) in numbers.iter().zip(&back).enumerate() {
                    let scale = absmax[i / BLOCK];
                    prop_assert!(x.abs() <= scale);
                    let nearest =
                        map.values.iter().map(|value| (value * scale - x).abs()).fold(f32::INFINITY, f32::min);
                    prop_assert!((back - x).abs() <= nearest + 1e-6 * scale, "{x} became {back}");
                }
            }
        }
    }
}
