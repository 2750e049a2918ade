//! Products of operands rounded to bf16, with sums in f32.
//!
//! Both operands are packed into tiles whose neighbouring elements along the inner dimension lie together in pairs,
//! the form that the processor's dot-product instruction takes (AVX-512 BF16); machines without it widen the pairs.
//! Every sum runs over the whole inner dimension in one task, so threads change no bit.

use rayon::prelude::*;

use super::{
    View, ViewMut, Write,
    kernel::{self, COLS, ROWS, Tile},
};
use crate::{Elements, vector::simd};

/// Packed elements of the right operand that exist at once: 8 MiB.
const PACKED_PAIRS: usize = 1 << 21;
/// Row tiles that one task works on, so that a column panel stays in the cache meanwhile.
const ROW_TILES: usize = 8;

/// `out = scale · lhs · rhs`, or that added to `out`. Shapes must fit.
pub(super) fn multiply(out: ViewMut<'_>, write: Write, scale: f32, lhs: View<'_>, rhs: View<'_>) {
    let (m, n, k) = (lhs.rows, rhs.cols, lhs.cols);
    if m == 0 || n == 0 {
        return;
    }
    let place = Place { data: out.data.as_mut_ptr(), row_stride: out.row_stride, write, scale };
    let pairs = k.div_ceil(2);
    let lhs = Side {
        data: lhs.data,
        lanes: m,
        inner: k,
        lane_stride: lhs.row_stride,
        inner_stride: lhs.col_stride,
    };
    let lhs = lhs.pack(0..m, ROWS);
    let right = Side {
        data: rhs.data,
        lanes: n,
        inner: k,
        lane_stride: rhs.col_stride,
        inner_stride: rhs.row_stride,
    };
    let block = (PACKED_PAIRS / pairs.max(1)).next_multiple_of(COLS);
    for first in (0..n).step_by(block) {
        let end = n.min(first + block);
        let rhs = right.pack(first..end, COLS);
        let panels = (end - first).div_ceil(COLS);
        let groups = m.div_ceil(ROWS * ROW_TILES);
        (0..groups * panels).into_par_iter().for_each(|task| {
            let (group, panel) = (task / panels, task % panels);
            let b = &rhs[panel * pairs * COLS..][..pairs * COLS];
            let col = first + panel * COLS;
            for row in (group * ROWS * ROW_TILES..m.min((group + 1) * ROWS * ROW_TILES)).step_by(ROWS) {
                let a = &lhs[row * pairs..][..pairs * ROWS];
                let tile = kernel::tile(a, b);
                // SAFETY: tiles do not overlap, each is written by one task, and lies inside the output, whose
                // bounds `ViewMut` has checked.
                unsafe { place.write(&tile, row..m.min(row + ROWS), col..n.min(col + COLS)) };
            }
        });
    }
}

/// Where the output goes. Tasks write disjoint parts of it.
#[derive(Clone, Copy)]
struct Place {
    data: *mut f32,
    row_stride: usize,
    write: Write,
    scale: f32,
}

// SAFETY: the pointer comes from an exclusive borrow that outlives all tasks, which write disjoint elements.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// Writes the beginning of a tile.
    ///
    /// # Safety
    /// The elements must lie inside the output, and nobody else may use them meanwhile.
    unsafe fn write(&self, tile: &Tile, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) {
        for (row, values) in rows.zip(tile.0.chunks_exact(COLS)) {
            // SAFETY: the caller's promise.
            let out = unsafe {
                std::slice::from_raw_parts_mut(self.data.add(row * self.row_stride + cols.start), cols.len())
            };
            self.put(out, values);
        }
    }

    fn put(&self, out: &mut [f32], values: &[f32]) {
        match self.write {
            Write::Set => out.iter_mut().zip(values).for_each(|(out, value)| *out = self.scale * value),
            Write::Add => out.iter_mut().zip(values).for_each(|(out, value)| *out += self.scale * value),
        }
    }
}

/// One operand seen from the product: lanes (rows of the left one, columns of the right one) by inner elements.
#[derive(Clone, Copy)]
struct Side<'a> {
    data: Elements<'a>,
    lanes: usize,
    inner: usize,
    lane_stride: usize,
    inner_stride: usize,
}

impl Side<'_> {
    /// Tiles of `width` lanes, each `[pairs, width]`: element `p, l` holds inner elements `2p` (low half) and
    /// `2p + 1` of lane `l`. Missing lanes and an odd last element are zeros.
    fn pack(self, lanes: std::ops::Range<usize>, width: usize) -> Vec<u32> {
        debug_assert!(lanes.end <= self.lanes);
        let pairs = self.inner.div_ceil(2);
        let mut packed = vec![0; lanes.len().div_ceil(width) * pairs * width];
        if pairs == 0 {
            return packed;
        }
        packed.par_chunks_mut(pairs * width).enumerate().for_each(|(tile, packed)| {
            let first = lanes.start + tile * width;
            let lanes = first..lanes.end.min(first + width);
            simd(
                #[inline(always)]
                || match self.data {
                    Elements::F32(data) => self.pack_tile(data, lanes, packed, width, round),
                    Elements::Bf16(data) => {
                        self.pack_tile(data, lanes, packed, width, |value| u32::from(value.to_bits()));
                    }
                },
            );
        });
        packed
    }

    #[inline(always)]
    fn pack_tile<T: Copy>(
        self,
        data: &[T],
        lanes: std::ops::Range<usize>,
        packed: &mut [u32],
        width: usize,
        bits: impl Fn(T) -> u32,
    ) {
        let len = lanes.len();
        if self.lane_stride == 1 {
            for (pair, out) in packed.chunks_exact_mut(width).enumerate() {
                let at = lanes.start + 2 * pair * self.inner_stride;
                let low = &data[at..][..len];
                if 2 * pair + 1 < self.inner {
                    let high = &data[at + self.inner_stride..][..len];
                    for ((out, &low), &high) in out.iter_mut().zip(low).zip(high) {
                        *out = bits(low) | bits(high) << 16;
                    }
                } else {
                    for (out, &low) in out.iter_mut().zip(low) {
                        *out = bits(low);
                    }
                }
            }
            return;
        }
        for (lane, at) in lanes.enumerate() {
            let at = at * self.lane_stride;
            for pair in 0..self.inner / 2 {
                let low = data[at + 2 * pair * self.inner_stride];
                let high = data[at + (2 * pair + 1) * self.inner_stride];
                packed[pair * width + lane] = bits(low) | bits(high) << 16;
            }
            if self.inner % 2 == 1 {
                let last = data[at + (self.inner - 1) * self.inner_stride];
                packed[self.inner / 2 * width + lane] = bits(last);
            }
        }
    }
}

/// The bits of `value` rounded to bf16, to nearest even; NaN stays NaN.
#[inline(always)]
pub(super) fn round(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    if value.is_nan() { 0x7fc0 } else { rounded }
}

#[cfg(test)]
mod tests {
    use half::bf16;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{assert_close, random};

    fn rounded(values: &[f32]) -> Vec<f64> {
        values.iter().map(|&value| bf16::from_f32(value).to_f64()).collect()
    }

    /// The product in f64 of the operands rounded to bf16, `[m, n]`.
    fn reference(lhs: &[f64], rhs: &[f64], (m, n, k): (usize, usize, usize)) -> Vec<f64> {
        let dot = |row: usize, col: usize| (0..k).map(|i| lhs[row * k + i] * rhs[i * n + col]).sum();
        (0..m * n).map(|at| dot(at / n, at % n)).collect()
    }

    fn transposed<T: Copy>(data: &[T], rows: usize, cols: usize) -> Vec<T> {
        (0..rows * cols).map(|at| data[at % rows * cols + at / rows]).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn the_product_is_that_of_rounded_operands_in_every_layout(
            m in 1_usize..30, n in 1_usize..80, k in 0_usize..70, lhs_transposed: bool, rhs_transposed: bool,
            rhs_stored_in_bf16: bool, add: bool,
        ) {
            let (a, b, before) = (random(1, m * k), random(2, k * n), random(3, m * n));
            let product = reference(&rounded(&a), &rounded(&b), (m, n, k));
            let (a_t, b_t) = (transposed(&a, m, k), transposed(&b, k, n));
            let lhs = if lhs_transposed { View::new(a_t.as_slice(), k, m).transposed() } else { View::new(a.as_slice(), m, k) };
            let stored = if rhs_transposed { &b_t } else { &b };
            let half: Vec<bf16> = stored.iter().map(|&value| bf16::from_f32(value)).collect();
            let data = if rhs_stored_in_bf16 { Elements::Bf16(&half) } else { Elements::F32(stored) };
            let rhs = if rhs_transposed { View::new(data, n, k).transposed() } else { View::new(data, k, n) };
            let mut out = before.clone();
            let write = if add { Write::Add } else { Write::Set };
            multiply(ViewMut::new(&mut out, m, n), write, 0.5, lhs, rhs);
            let expected: Vec<f64> = product
                .iter()
                .zip(&before)
                .map(|(product, &before)| 0.5 * product + if add { f64::from(before) } else { 0.0 })
                .collect();
            assert_close(&out, &expected, 1e-5);
        }
    }

    #[test]
    fn blocks_and_groups_of_tiles_cover_a_large_product() {
        let (m, n, k) = (ROWS * ROW_TILES * 2 + 5, 560, 8000);
        let (a, b) = (random(1, m * k), random(2, k * n));
        let mut out = vec![f32::NAN; m * n];
        multiply(
            ViewMut::new(&mut out, m, n),
            Write::Set,
            1.0,
            View::new(a.as_slice(), m, k),
            View::new(b.as_slice(), k, n),
        );
        assert!(PACKED_PAIRS / (k / 2) < n, "more than one block");
        assert_close(&out, &reference(&rounded(&a), &rounded(&b), (m, n, k)), 1e-4);
    }

    #[test]
    fn rounding_is_that_of_the_format_and_keeps_what_is_not_finite() {
        for value in [0.0, -0.0, 1.0, 1.003_906_2, 1.011_718_7, -3.4e38, 1e-40, f32::MAX, f32::INFINITY] {
            assert_eq!(round(value), u32::from(bf16::from_f32(value).to_bits()), "{value}");
        }
        assert!(bf16::from_bits(round(f32::NAN) as u16).is_nan());
        assert!(bf16::from_bits(round(f32::from_bits(0x7fff_ffff)) as u16).is_nan());
    }
}
