//! Tiles of a product: up to [`ROWS`] rows by [`COLS`] columns, whose sums stay in registers.
//!
//! Operands come in *units* of 32 bits along the inner dimension: one f32, or two neighbouring bf16, the form that the
//! processor's dot-product instruction takes (AVX-512 BF16). The right operand is a panel `[units, COLS]`; the left one
//! is read by rows, or from a packed tile `[units, ROWS]`.
//!
//! An element of the output is one running sum over the units in order, with one rounding per unit. So it does not
//! depend on the tile that contains it nor, in f32, on which of the instruction sets below computed it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::Write;
use crate::{Precision, vector::simd};

/// Most rows in a tile: with four vectors of sums each they fill the registers of AVX-512.
pub(super) const ROWS: usize = 6;
/// Units in a line of the cache.
pub(super) const LINE: usize = 16;
/// Columns of a tile: four vectors of AVX-512.
pub(super) const COLS: usize = 64;

/// The instructions that compute a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isa {
    /// AVX-512, with its BF16 extension for bf16.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Plain loops, as the compiler translates them.
    Portable,
}

impl Isa {
    /// The best of this machine.
    pub(super) fn of_machine(precision: Precision) -> Isa {
        Isa::all(precision)[0]
    }

    /// All that this machine has, the best first.
    pub(super) fn all(precision: Precision) -> Vec<Isa> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let has_pairs = precision == Precision::F32 || is_x86_feature_detected!("avx512bf16");
            if is_x86_feature_detected!("avx512f") && has_pairs {
                all.push(Isa::Avx512);
            }
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && precision == Precision::F32
            {
                all.push(Isa::Avx2);
            }
        }
        all.push(Isa::Portable);
        all
    }
}

/// The left operand of a tile.
#[derive(Clone, Copy)]
pub(super) enum Left {
    /// Unit `p` of row `r` is at `r · stride + p`.
    Rows(*const u32, usize),
    /// Unit `p` of row `r` is at `p · stride + r`.
    Turned(*const u32, usize),
}

/// The right operand of a tile.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    /// `[units, COLS]`.
    pub(super) data: *const u32,
    /// What is read soon: meanwhile one line of it per unit is brought into the second-level cache. It need not exist.
    pub(super) soon: *const u32,
}

/// Where a tile's sums go.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) data: *mut f32,
    pub(super) row_stride: usize,
    /// Number of columns that are written, the first ones of the panel.
    pub(super) cols: usize,
    pub(super) write: Write,
    pub(super) scale: f32,
}

/// Computes `out = scale · left · panel` for `rows` rows, or adds that to `out`.
///
/// # Safety
/// The machine must have `isa`. `left` and `panel` must be valid for reading `units` units of `rows` rows and of
/// [`COLS`] columns, `out` for writing (and reading) `rows` rows of `out.cols` elements that nobody else uses
/// meanwhile.
pub(super) unsafe fn tile(
    isa: Isa,
    precision: Precision,
    rows: usize,
    units: usize,
    left: Left,
    panel: Panel,
    out: Place,
) {
    debug_assert!((1..=ROWS).contains(&rows) && out.cols <= COLS);
    // SAFETY: each of them requires what the caller guarantees.
    unsafe {
        match (isa, precision) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, Precision::F32) => avx512_f32::tile(rows, units, left, panel, out),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, Precision::Bf16) => avx512_bf16::tile(rows, units, left, panel, out),
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2, Precision::F32) => avx2::tile(rows, units, left, panel, out),
            (_, Precision::F32) => portable(rows, units, left, panel, out, |sum, a, b| {
                f32::from_bits(a).mul_add(f32::from_bits(b), sum)
            }),
            (_, Precision::Bf16) => portable(rows, units, left, panel, out, |sum, a, b| {
                let (a_low, a_high) = (f32::from_bits(a << 16), f32::from_bits(a & 0xffff_0000));
                let (b_low, b_high) = (f32::from_bits(b << 16), f32::from_bits(b & 0xffff_0000));
                a_high.mul_add(b_high, a_low.mul_add(b_low, sum))
            }),
        }
    }
}

/// Calls `$tile::<R, V, TURNED>` with the numbers of rows and vectors as constants.
#[cfg(target_arch = "x86_64")]
macro_rules! by_rows {
    ($rows:expr, $left:expr, $tile:ident::<$vectors:tt>($units:expr, $panel:expr, $out:expr), $($n:literal)*) => {
        match ($rows, $left) {
            $(
                ($n, Left::Rows(data, stride)) => $tile::<$n, $vectors, false>(data, stride, $units, $panel, $out),
                ($n, Left::Turned(data, stride)) => $tile::<$n, $vectors, true>(data, stride, $units, $panel, $out),
            )*
            _ => unreachable!("a tile has at most {ROWS} rows"),
        }
    };
}

#[cfg(target_arch = "x86_64")]
macro_rules! avx512 {
    ($name:ident, $features:literal, $multiply_add:expr) => {
        mod $name {
            use super::*;

            /// # Safety
            /// As [`super::tile`].
            #[target_feature(enable = $features)]
            pub(super) unsafe fn tile(rows: usize, units: usize, left: Left, panel: Panel, out: Place) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    match out.cols.div_ceil(16) {
                        1 => by_rows!(rows, left, of_rows::<1>(units, panel, out), 1 2 3 4 5 6),
                        2 => by_rows!(rows, left, of_rows::<2>(units, panel, out), 1 2 3 4 5 6),
                        3 => by_rows!(rows, left, of_rows::<3>(units, panel, out), 1 2 3 4 5 6),
                        _ => by_rows!(rows, left, of_rows::<4>(units, panel, out), 1 2 3 4 5 6),
                    }
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn of_rows<const R: usize, const V: usize, const TURNED: bool>(
                left: *const u32,
                stride: usize,
                units: usize,
                panel: Panel,
                out: Place,
            ) {
                // SAFETY: the caller guarantees the units that are read.
                unsafe {
                    for row in 0..R {
                        // Prefetches the output, so that it is there when the sums are.
                        let at: *const i8 = out.data.wrapping_add(row * out.row_stride).cast();
                        for line in 0..V {
                            _mm_prefetch::<_MM_HINT_ET0>(at.wrapping_add(64 * line));
                        }
                    }
                    let mut sums = [[_mm512_setzero_ps(); V]; R];
                    for unit in 0..units {
                        let right = panel.data.add(unit * COLS);
                        _mm_prefetch::<_MM_HINT_T1>(panel.soon.wrapping_add(unit * LINE).cast());
                        let right: [__m512i; V] =
                            std::array::from_fn(|vector| _mm512_loadu_si512(right.add(16 * vector).cast()));
                        for (row, sums) in sums.iter_mut().enumerate() {
                            let at = if TURNED { unit * stride + row } else { row * stride + unit };
                            let a = _mm512_set1_epi32(left.add(at).read() as i32);
                            for (sum, &b) in sums.iter_mut().zip(&right) {
                                *sum = $multiply_add(*sum, a, b);
                            }
                        }
                    }
                    let scale = _mm512_set1_ps(out.scale);
                    for (row, sums) in sums.iter().enumerate() {
                        for (vector, &sum) in sums.iter().enumerate() {
                            let cols = out.cols - 16 * vector;
                            let mask = if cols < 16 { (1 << cols) - 1 } else { 0xffff };
                            let at = out.data.wrapping_add(row * out.row_stride + 16 * vector);
                            let value = match out.write {
                                Write::Set => _mm512_mul_ps(sum, scale),
                                Write::Add => _mm512_fmadd_ps(sum, scale, _mm512_maskz_loadu_ps(mask, at)),
                            };
                            _mm512_mask_storeu_ps(at, mask, value);
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
avx512!(avx512_f32, "avx512f", |sum, a, b| _mm512_fmadd_ps(
    _mm512_castsi512_ps(a),
    _mm512_castsi512_ps(b),
    sum
));
// Vectors of bits of the same width are reinterpreted.
#[cfg(target_arch = "x86_64")]
avx512!(avx512_bf16, "avx512f,avx512bf16", |sum, a, b| _mm512_dpbf16_ps(
    sum,
    std::mem::transmute::<__m512i, __m512bh>(a),
    std::mem::transmute::<__m512i, __m512bh>(b)
));

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;

    /// Columns whose sums fill the 16 registers.
    const SUB_COLS: usize = 16;

    /// # Safety
    /// As [`super::tile`].
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn tile(rows: usize, units: usize, left: Left, panel: Panel, out: Place) {
        for col in (0..out.cols).step_by(SUB_COLS) {
            // SAFETY: parts of what the caller guarantees.
            unsafe {
                let out = Place { data: out.data.add(col), cols: SUB_COLS.min(out.cols - col), ..out };
                by_rows!(rows, left, of_rows::<2>(units, Panel { data: panel.data.add(col), ..panel }, out), 1 2 3 4 5 6);
            }
        }
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn of_rows<const R: usize, const V: usize, const TURNED: bool>(
        left: *const u32,
        stride: usize,
        units: usize,
        panel: Panel,
        out: Place,
    ) {
        let mut values = [[0.0_f32; SUB_COLS]; R];
        // SAFETY: the caller guarantees the units that are read.
        unsafe {
            let mut sums = [[_mm256_setzero_ps(); V]; R];
            for unit in 0..units {
                let right = panel.data.add(unit * COLS).cast::<f32>();
                let right: [__m256; V] = std::array::from_fn(|vector| _mm256_loadu_ps(right.add(8 * vector)));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let at = if TURNED { unit * stride + row } else { row * stride + unit };
                    let a = _mm256_set1_ps(f32::from_bits(left.add(at).read()));
                    for (sum, &b) in sums.iter_mut().zip(&right) {
                        *sum = _mm256_fmadd_ps(a, b, *sum);
                    }
                }
            }
            for (values, sums) in values.iter_mut().zip(sums) {
                for (values, sum) in values.chunks_exact_mut(8).zip(sums) {
                    _mm256_storeu_ps(values.as_mut_ptr(), sum);
                }
            }
        }
        for (row, values) in values.iter().enumerate() {
            // SAFETY: the caller guarantees `out`.
            unsafe { write(values, row, out) };
        }
    }
}

/// For any machine.
///
/// # Safety
/// As [`tile`].
unsafe fn portable(
    rows: usize,
    units: usize,
    left: Left,
    panel: Panel,
    out: Place,
    multiply_add: impl Fn(f32, u32, u32) -> f32,
) {
    for row in 0..rows {
        let mut sums = [0.0_f32; COLS];
        simd(
            #[inline(always)]
            || {
                for unit in 0..units {
                    // SAFETY: the caller guarantees the units that are read.
                    let (a, right) = unsafe {
                        let a = match left {
                            Left::Rows(data, stride) => data.add(row * stride + unit),
                            Left::Turned(data, stride) => data.add(unit * stride + row),
                        };
                        (a.read(), std::slice::from_raw_parts(panel.data.add(unit * COLS), COLS))
                    };
                    for (sum, &b) in sums.iter_mut().zip(right) {
                        *sum = multiply_add(*sum, a, b);
                    }
                }
            },
        );
        // SAFETY: the caller guarantees `out`.
        unsafe { write(&sums, row, out) };
    }
}

/// Writes the first `out.cols` sums of a row.
///
/// # Safety
/// As [`tile`].
unsafe fn write(sums: &[f32], row: usize, out: Place) {
    // SAFETY: guaranteed by the caller.
    let to = unsafe { std::slice::from_raw_parts_mut(out.data.add(row * out.row_stride), out.cols) };
    for (to, &sum) in to.iter_mut().zip(sums) {
        *to = match out.write {
            Write::Set => sum * out.scale,
            Write::Add => sum.mul_add(out.scale, *to),
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::random;

    fn bits(precision: Precision, seed: u64, len: usize) -> Vec<u32> {
        let random = random(seed, 2 * len);
        let half = |value: f32| u32::from(half::bf16::from_f32(value).to_bits());
        match precision {
            Precision::F32 => random[..len].iter().map(|value| value.to_bits()).collect(),
            Precision::Bf16 => random.chunks(2).map(|pair| half(pair[0]) | half(pair[1]) << 16).collect(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn instruction_sets_and_tile_heights_agree(
            rows in 1_usize..=ROWS, cols in 1_usize..=COLS, units in 0_usize..40, is_bf16: bool, adds: bool,
        ) {
            let precision = if is_bf16 { Precision::Bf16 } else { Precision::F32 };
            let (left, panel) = (bits(precision, 1, rows * units), bits(precision, 2, units * COLS));
            let mut turned = vec![0; units * ROWS];
            for row in 0..rows {
                for unit in 0..units {
                    turned[unit * ROWS + row] = left[row * units + unit];
                }
            }
            let before = random(3, rows * COLS);
            let write = if adds { Write::Add } else { Write::Set };
            let run = |isa: Isa, is_turned: bool, one_by_one: bool| {
                let mut out = before.clone();
                for (first, len) in if one_by_one { (0..rows).map(|row| (row, 1)).collect() } else { vec![(0, rows)] } {
                    let place = Place { data: out[first * COLS..].as_mut_ptr(), row_stride: COLS, cols, write, scale: 0.5 };
                    let left = match is_turned {
                        true => Left::Turned(turned.as_ptr().wrapping_add(first), ROWS),
                        false => Left::Rows(left.as_ptr().wrapping_add(first * units), units),
                    };
                    // SAFETY: the operands and the output have the given sizes.
                    unsafe { tile(isa, precision, len, units, left, Panel { data: panel.as_ptr(), soon: panel.as_ptr() }, place) };
                }
                out
            };
            let expected = run(Isa::Portable, false, false);
            for isa in Isa::all(precision) {
                for (is_turned, one_by_one) in [(false, false), (true, false), (false, true), (true, true)] {
                    let ours = run(isa, is_turned, one_by_one);
                    match precision {
                        Precision::F32 => prop_assert_eq!(&ours, &expected),
                        // The dot-product instruction rounds once per pair.
                        Precision::Bf16 => for (ours, expected) in ours.iter().zip(&expected) {
                            prop_assert!((ours - expected).abs() < 1e-5);
                        },
                    }
                }
            }
            for (row, values) in expected.chunks(COLS).enumerate() {
                prop_assert_eq!(&values[cols..], &before[row * COLS + cols..(row + 1) * COLS]);
            }
        }
    }
}
