//! `x Wᵀ` for decoding: few rows against weights that are read once, in place, without packing.
//!
//! Each element is a dot product along the inner dimension, with the same order of summation whatever the other rows: a
//! sequence's result does not depend on the batch that it is decoded in.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use half::bf16;
use rayon::prelude::*;

use super::{Workers, pack::round};
use crate::{
    Buffer, Elements, Precision,
    vector::{self, simd},
};

/// Columns that one tile takes at once, and rows.
const COLS: usize = 6;
const ROWS: usize = 4;
/// Columns of one task.
const TASK_COLS: usize = 8 * COLS;
/// Elements of bf16 in a vector: rows are padded to a multiple of it.
const STRIDE: usize = 32;

/// `[m, n]` from `x` `[m, k]` and `weight` `[n, k]`.
pub(crate) fn product(
    precision: Precision,
    x: &[f32],
    weight: Elements<'_>,
    k: usize,
    workers: Workers,
) -> Buffer {
    let (m, n) = (x.len() / k, weight.len() / k);
    let mut columns = Buffer::scratch(m * n);
    // Column by column, so that each task writes a contiguous part; transposed at the end.
    match precision {
        Precision::F32 => {
            for_tasks(&mut columns, m, workers, |first, out| {
                let cols = out.len() / m;
                let w = weight.slice(first * k..(first + cols) * k).widened();
                tiles(out, m, cols, |rows, cols, sums| {
                    dots_f32(&x[rows.start * k..rows.end * k], &w[cols.start * k..cols.end * k], k, sums);
                });
            });
        }
        Precision::Bf16 => {
            let padded = k.next_multiple_of(STRIDE);
            let x = narrowed(Elements::F32(x), k, padded);
            for_tasks(&mut columns, m, workers, |first, out| {
                let cols = out.len() / m;
                let w = weight.slice(first * k..(first + cols) * k);
                let copy;
                let w = match w {
                    Elements::Bf16(w) if padded == k => w,
                    w => {
                        copy = narrowed(w, k, padded);
                        &copy
                    }
                };
                tiles(out, m, cols, |rows, cols, sums| {
                    let x = &x[rows.start * padded..rows.end * padded];
                    dots_bf16(x, &w[cols.start * padded..cols.end * padded], padded, sums);
                });
            });
        }
    }
    if m == 1 { columns } else { turned(&columns, m, n, workers) }
}

/// Calls `body(first_column, columns)` on pieces of an output `[n, m]`.
fn for_tasks(columns: &mut [f32], m: usize, workers: Workers, body: impl Fn(usize, &mut [f32]) + Sync) {
    let body = |(task, out): (usize, &mut [f32])| body(task * TASK_COLS, out);
    match workers {
        Workers::One => columns.chunks_mut(TASK_COLS * m).enumerate().for_each(body),
        Workers::Pool => columns.par_chunks_mut(TASK_COLS * m).enumerate().for_each(body),
    }
}

/// Transposes `[n, m]` to `[m, n]`.
fn turned(columns: &[f32], m: usize, n: usize, workers: Workers) -> Buffer {
    let mut out = Buffer::scratch(m * n);
    let turn = |(row, out): (usize, &mut [f32])| {
        for (out, column) in out.iter_mut().zip(columns.chunks_exact(m)) {
            *out = column[row];
        }
    };
    match workers {
        Workers::One => out.chunks_mut(n).enumerate().for_each(turn),
        Workers::Pool => out.par_chunks_mut(n).enumerate().for_each(turn),
    }
    out
}

/// Rows of `k` elements rounded to bf16, each followed by zeros up to `padded`.
fn narrowed(values: Elements<'_>, k: usize, padded: usize) -> Vec<bf16> {
    let mut out = vec![bf16::ZERO; values.len() / k * padded];
    match values {
        Elements::F32(values) => simd(
            #[inline(always)]
            || {
                for (out, values) in out.chunks_exact_mut(padded).zip(values.chunks_exact(k)) {
                    for (out, &value) in out.iter_mut().zip(values) {
                        *out = bf16::from_bits(round(value) as u16);
                    }
                }
            },
        ),
        Elements::Bf16(values) => {
            for (out, values) in out.chunks_exact_mut(padded).zip(values.chunks_exact(k)) {
                out[..k].copy_from_slice(values);
            }
        }
    }
    out
}

type Sums = [[f32; COLS]; ROWS];

/// Calls `dots(rows, cols, sums)` for every tile of an output `[cols, m]`.
fn tiles(
    out: &mut [f32],
    m: usize,
    cols: usize,
    dots: impl Fn(std::ops::Range<usize>, std::ops::Range<usize>, &mut Sums),
) {
    for col in (0..cols).step_by(COLS) {
        let cols = col..cols.min(col + COLS);
        for row in (0..m).step_by(ROWS) {
            let rows = row..m.min(row + ROWS);
            let mut sums = [[0.0; COLS]; ROWS];
            dots(rows.clone(), cols.clone(), &mut sums);
            for (row, sums) in rows.zip(&sums) {
                for (col, sum) in cols.clone().zip(sums) {
                    out[col * m + row] = *sum;
                }
            }
        }
    }
}

/// Calls `$tile::<R, C>` for whole tiles, and for what is left over element by element, with the same sums.
#[cfg(target_arch = "x86_64")]
macro_rules! by_size {
    ($tile:ident, $x:expr, $w:expr, $k:expr, $sums:expr) => {
        match ($x.len() / $k, $w.len() / $k) {
            (4, 6) => $tile::<4, 6>($x, $w, $k, $sums),
            (3, 6) => $tile::<3, 6>($x, $w, $k, $sums),
            (2, 6) => $tile::<2, 6>($x, $w, $k, $sums),
            (1, 6) => $tile::<1, 6>($x, $w, $k, $sums),
            (rows, cols) => singles(rows, cols, |r, c| {
                let mut sum = [[0.0; COLS]; ROWS];
                $tile::<1, 1>(&$x[r * $k..][..$k], &$w[c * $k..][..$k], $k, &mut sum);
                $sums[r][c] = sum[0][0];
            }),
        }
    };
}

/// `sums[r][c] = x[r] · w[c]` for up to [`ROWS`] rows and [`COLS`] columns.
fn dots_f32(x: &[f32], w: &[f32], k: usize, sums: &mut Sums) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has the instructions; both operands hold whole rows of `k` elements.
        return unsafe { by_size!(tile_f32, x, w, k, sums) };
    }
    singles(x.len() / k, w.len() / k, |r, c| {
        sums[r][c] = simd(
            #[inline(always)]
            || vector::dot(&x[r * k..][..k], &w[c * k..][..k]),
        );
    });
}

/// As [`dots_f32`], for rows of `padded` elements, a multiple of [`STRIDE`].
fn dots_bf16(x: &[bf16], w: &[bf16], padded: usize, sums: &mut Sums) {
    #[cfg(target_arch = "x86_64")]
    if has_bf16() {
        // SAFETY: the machine has the instructions; both operands hold whole rows of `padded` elements.
        return unsafe { by_size!(tile_bf16, x, w, padded, sums) };
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: as above.
        return unsafe { by_size!(tile_bf16_avx2, x, w, padded, sums) };
    }
    singles(x.len() / padded, w.len() / padded, |r, c| {
        let (x, w) = (&x[r * padded..][..padded], &w[c * padded..][..padded]);
        sums[r][c] = x.iter().zip(w).fold(0.0, |sum: f32, (x, w)| x.to_f32().mul_add(w.to_f32(), sum));
    });
}

fn singles(rows: usize, cols: usize, mut each: impl FnMut(usize, usize)) {
    for row in 0..rows {
        for col in 0..cols {
            each(row, col);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_bf16() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16")
}

/// # Safety
/// The machine must have AVX-512; `x` holds `R` rows and `w` `C` rows of `k` elements.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn tile_f32<const R: usize, const C: usize>(x: &[f32], w: &[f32], k: usize, sums: &mut Sums) {
    debug_assert!(x.len() >= R * k && w.len() >= C * k);
    let mut vectors = [[_mm512_setzero_ps(); C]; R];
    let (x, w) = (x.as_ptr(), w.as_ptr());
    let mut step = |at: usize, mask: __mmask16| {
        // SAFETY: rows have `k` elements, and only those that the mask selects are touched.
        unsafe {
            let x: [__m512; R] = std::array::from_fn(|r| _mm512_maskz_loadu_ps(mask, x.add(r * k + at)));
            let w: [__m512; C] = std::array::from_fn(|c| _mm512_maskz_loadu_ps(mask, w.add(c * k + at)));
            for (sums, x) in vectors.iter_mut().zip(x) {
                for (sum, w) in sums.iter_mut().zip(w) {
                    *sum = _mm512_fmadd_ps(x, w, *sum);
                }
            }
        }
    };
    let whole = k / 16 * 16;
    for at in (0..whole).step_by(16) {
        step(at, 0xffff);
    }
    if whole < k {
        step(whole, (1 << (k - whole)) - 1);
    }
    for (sums, vectors) in sums.iter_mut().zip(vectors) {
        for (sum, vector) in sums.iter_mut().zip(vectors) {
            *sum = _mm512_reduce_add_ps(vector);
        }
    }
}

/// # Safety
/// The machine must have AVX-512 BF16; `x` holds `R` rows and `w` `C` rows of `padded` elements, a multiple of
/// [`STRIDE`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn tile_bf16<const R: usize, const C: usize>(x: &[bf16], w: &[bf16], padded: usize, sums: &mut Sums) {
    debug_assert!(x.len() >= R * padded && w.len() >= C * padded && padded.is_multiple_of(STRIDE));
    let mut vectors = [[_mm512_setzero_ps(); C]; R];
    for at in (0..padded).step_by(STRIDE) {
        // SAFETY: rows have `padded` elements; vectors of bits of the same width are reinterpreted.
        unsafe {
            let load = |values: &[bf16], row: usize| {
                let bits = _mm512_loadu_si512(values.as_ptr().add(row * padded + at).cast());
                std::mem::transmute::<__m512i, __m512bh>(bits)
            };
            let x: [__m512bh; R] = std::array::from_fn(|r| load(x, r));
            let w: [__m512bh; C] = std::array::from_fn(|c| load(w, c));
            for (sums, x) in vectors.iter_mut().zip(x) {
                for (sum, w) in sums.iter_mut().zip(w) {
                    *sum = _mm512_dpbf16_ps(*sum, x, w);
                }
            }
        }
    }
    for (sums, vectors) in sums.iter_mut().zip(vectors) {
        for (sum, vector) in sums.iter_mut().zip(vectors) {
            *sum = _mm512_reduce_add_ps(vector);
        }
    }
}

/// The same products in f32, whose low 16 bits are 0: even elements and odd ones one after the other.
///
/// # Safety
/// The machine must have AVX2 and FMA; otherwise as [`tile_bf16`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn tile_bf16_avx2<const R: usize, const C: usize>(
    x: &[bf16],
    w: &[bf16],
    padded: usize,
    sums: &mut Sums,
) {
    debug_assert!(x.len() >= R * padded && w.len() >= C * padded && padded.is_multiple_of(STRIDE));
    let mut vectors = [[_mm256_setzero_ps(); C]; R];
    let odd = _mm256_set1_epi32(0xffff_0000_u32 as i32);
    for at in (0..padded).step_by(STRIDE / 2) {
        let load = |values: &[bf16], row: usize| {
            // SAFETY: rows have `padded` elements, a multiple of what is read at once.
            let bits = unsafe { _mm256_loadu_si256(values.as_ptr().add(row * padded + at).cast()) };
            [_mm256_slli_epi32::<16>(bits), _mm256_and_si256(bits, odd)].map(|bits| _mm256_castsi256_ps(bits))
        };
        let x: [[__m256; 2]; R] = std::array::from_fn(|r| load(x, r));
        for c in 0..C {
            let [even, odd] = load(w, c);
            for (sums, x) in vectors.iter_mut().zip(&x) {
                sums[c] = _mm256_fmadd_ps(x[1], odd, _mm256_fmadd_ps(x[0], even, sums[c]));
            }
        }
    }
    for (sums, vectors) in sums.iter_mut().zip(vectors) {
        for (sum, vector) in sums.iter_mut().zip(vectors) {
            let mut lanes = [0.0_f32; 8];
            // SAFETY: there is room for eight.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), vector) };
            *sum = lanes.iter().sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        reference,
        testing::{assert_close, random, wide},
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn products_are_those_of_the_reference_and_rows_do_not_see_each_other(
            m in 1_usize..12, n in 1_usize..120, k in 1_usize..90, is_bf16: bool, stored_in_bf16: bool,
        ) {
            let (x, w) = (random(1, m * k), random(2, n * k));
            let half: Vec<bf16> = w.iter().map(|&value| bf16::from_f32(value)).collect();
            let rounded: Vec<f32> = half.iter().map(|value| value.to_f32()).collect();
            let weight = if stored_in_bf16 { Elements::Bf16(&half) } else { Elements::F32(&w) };
            let precision = if is_bf16 { Precision::Bf16 } else { Precision::F32 };
            let round = |values: &[f32]| -> Vec<f64> {
                values.iter().map(|&value| bf16::from_f32(value).to_f64()).collect()
            };
            let expected_x = if is_bf16 { round(&x) } else { wide(&x) };
            let expected_w = wide(if is_bf16 || stored_in_bf16 { &rounded } else { &w });
            let together = product(precision, &x, weight, k, Workers::Pool);
            assert_close(&together, &reference::linear(&expected_x, &expected_w, None, k), 1e-5);
            for row in 0..m {
                let alone = product(precision, &x[row * k..][..k], weight, k, Workers::One);
                assert_eq!(*alone, together[row * n..][..n]);
            }
        }
    }
}
