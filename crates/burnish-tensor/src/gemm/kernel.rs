//! The innermost loops of bf16 products: with AVX-512 BF16 where the machine has it, else widened to f32.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use half::bf16;

use crate::{Elements, vector::simd};

/// Rows of a tile.
pub(super) const ROWS: usize = 12;
/// Columns of a tile: two vectors.
pub(super) const COLS: usize = 32;
/// Elements that [`dots`] takes at once.
pub(super) const STRIDE: usize = 32;

/// Sums of a tile, `[ROWS, COLS]`.
pub(super) struct Tile(pub(super) [f32; ROWS * COLS]);

/// `Σ_p a[p, row] · b[p, col]` with `a` `[pairs, ROWS]` and `b` `[pairs, COLS]` of pairs of bf16.
pub(super) fn tile(a: &[u32], b: &[u32]) -> Tile {
    assert_eq!(a.len() / ROWS, b.len() / COLS, "pairs of both operands");
    #[cfg(target_arch = "x86_64")]
    if has_bf16() {
        // SAFETY: the instructions are there.
        return unsafe { tile_avx512(a, b) };
    }
    tile_widened(a, b)
}

/// `sums[row] = Σ x[row] · w`, with the rows of `x` `padded` elements apart, zeros after the elements of `w`.
pub(super) fn dots(x: &[bf16], padded: usize, w: Elements<'_>, sums: &mut [f32]) {
    assert!(padded.is_multiple_of(STRIDE) && padded >= w.len() && x.len() == padded * sums.len());
    #[cfg(target_arch = "x86_64")]
    if has_bf16() {
        let mut x = x;
        let mut sums = sums;
        while !sums.is_empty() {
            // SAFETY: the instructions are there, and `x` holds at least as many rows as the count asks for.
            let done = unsafe {
                match sums.len() {
                    1 => dots_avx512::<1>(x, padded, w, sums),
                    2 | 3 => dots_avx512::<2>(x, padded, w, sums),
                    4..8 => dots_avx512::<4>(x, padded, w, sums),
                    _ => dots_avx512::<8>(x, padded, w, sums),
                }
            };
            x = &x[done * padded..];
            sums = &mut sums[done..];
        }
        return;
    }
    dots_widened(x, padded, w, sums);
}

#[cfg(target_arch = "x86_64")]
fn has_bf16() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16")
}

/// # Safety
/// The machine must have AVX-512 BF16. `a` and `b` hold equally many pairs.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn tile_avx512(a: &[u32], b: &[u32]) -> Tile {
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    for (a, b) in a.chunks_exact(ROWS).zip(b.chunks_exact(COLS)) {
        // SAFETY: `b` holds 32 elements, two vectors; vectors of bits of the same width are reinterpreted.
        let b = unsafe {
            let load =
                |at| std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(b.as_ptr().add(at).cast()));
            [load(0), load(16)]
        };
        for (sums, &a) in sums.iter_mut().zip(a) {
            // SAFETY: as above.
            let a = unsafe { std::mem::transmute::<__m512i, __m512bh>(_mm512_set1_epi32(a as i32)) };
            sums[0] = _mm512_dpbf16_ps(sums[0], a, b[0]);
            sums[1] = _mm512_dpbf16_ps(sums[1], a, b[1]);
        }
    }
    let mut tile = Tile([0.0; ROWS * COLS]);
    for (out, sums) in tile.0.chunks_exact_mut(COLS).zip(sums) {
        // SAFETY: `out` holds 32 elements, two vectors.
        unsafe {
            _mm512_storeu_ps(out.as_mut_ptr(), sums[0]);
            _mm512_storeu_ps(out.as_mut_ptr().add(16), sums[1]);
        }
    }
    tile
}

/// The first `M` of the rows; gives `M`.
///
/// # Safety
/// The machine must have AVX-512 BF16; `x` holds `M` rows of `padded` elements, a multiple of [`STRIDE`] and no
/// fewer than `w`; `sums` has `M` elements.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn dots_avx512<const M: usize>(x: &[bf16], padded: usize, w: Elements<'_>, sums: &mut [f32]) -> usize {
    let mut vectors = [_mm512_setzero_ps(); M];
    let mut add = |at: usize, w: __m512bh| {
        for (row, sum) in vectors.iter_mut().enumerate() {
            // SAFETY: `at + 32` is at most `padded`.
            let x = unsafe { _mm512_loadu_si512(x.as_ptr().add(row * padded + at).cast()) };
            // SAFETY: bits of the same width.
            *sum = _mm512_dpbf16_ps(*sum, unsafe { std::mem::transmute::<__m512i, __m512bh>(x) }, w);
        }
    };
    let whole = w.len() / STRIDE * STRIDE;
    match w {
        Elements::Bf16(w) => {
            for at in (0..whole).step_by(STRIDE) {
                // SAFETY: 32 elements from `at` on; bits of the same width.
                add(at, unsafe { std::mem::transmute(_mm512_loadu_si512(w.as_ptr().add(at).cast())) });
            }
            if whole < w.len() {
                let mut tail = [bf16::ZERO; STRIDE];
                tail[..w.len() - whole].copy_from_slice(&w[whole..]);
                // SAFETY: as above.
                add(whole, unsafe { std::mem::transmute::<[bf16; STRIDE], __m512bh>(tail) });
            }
        }
        Elements::F32(w) => {
            // SAFETY: 32 elements from the pointer on.
            let narrow = |w: *const f32| unsafe {
                _mm512_cvtne2ps_pbh(_mm512_loadu_ps(w.add(16)), _mm512_loadu_ps(w))
            };
            for at in (0..whole).step_by(STRIDE) {
                add(at, narrow(w[at..].as_ptr()));
            }
            if whole < w.len() {
                let mut tail = [0.0; STRIDE];
                tail[..w.len() - whole].copy_from_slice(&w[whole..]);
                add(whole, narrow(tail.as_ptr()));
            }
        }
    }
    for (out, sum) in sums.iter_mut().zip(vectors) {
        *out = _mm512_reduce_add_ps(sum);
    }
    M
}

fn tile_widened(a: &[u32], b: &[u32]) -> Tile {
    let mut tile = Tile([0.0; ROWS * COLS]);
    simd(
        #[inline(always)]
        || {
            for (a, b) in a.chunks_exact(ROWS).zip(b.chunks_exact(COLS)) {
                for (&a, sums) in a.iter().zip(tile.0.chunks_exact_mut(COLS)) {
                    let (a_low, a_high) = (f32::from_bits(a << 16), f32::from_bits(a & 0xffff_0000));
                    for (&b, sum) in b.iter().zip(sums) {
                        let (b_low, b_high) = (f32::from_bits(b << 16), f32::from_bits(b & 0xffff_0000));
                        *sum = a_high.mul_add(b_high, a_low.mul_add(b_low, *sum));
                    }
                }
            }
        },
    );
    tile
}

fn dots_widened(x: &[bf16], padded: usize, w: Elements<'_>, sums: &mut [f32]) {
    let mut wide = vec![0.0; w.len()];
    match w {
        Elements::F32(w) => wide.iter_mut().zip(w).for_each(|(wide, &w)| *wide = bf16::from_f32(w).to_f32()),
        Elements::Bf16(w) => wide.iter_mut().zip(w).for_each(|(wide, &w)| *wide = w.to_f32()),
    }
    for (sum, x) in sums.iter_mut().zip(x.chunks_exact(padded)) {
        *sum = x.iter().zip(&wide).fold(0.0, |sum: f32, (x, &w)| x.to_f32().mul_add(w, sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random;

    fn bf16s(seed: u64, len: usize) -> Vec<bf16> {
        random(seed, len).into_iter().map(bf16::from_f32).collect()
    }

    #[test]
    fn machines_with_and_without_the_instruction_agree() {
        let pairs = 37;
        let pack = |seed, len: usize| -> Vec<u32> {
            let halves = bf16s(seed, 2 * len);
            halves.chunks(2).map(|p| u32::from(p[0].to_bits()) | u32::from(p[1].to_bits()) << 16).collect()
        };
        let (a, b) = (pack(1, pairs * ROWS), pack(2, pairs * COLS));
        for (ours, wide) in tile(&a, &b).0.iter().zip(tile_widened(&a, &b).0) {
            assert!((ours - wide).abs() < 1e-5, "{ours} {wide}");
        }
    }

    #[test]
    fn dots_of_any_number_of_rows_agree() {
        for (rows, len) in [(1, 5_usize), (3, 64), (7, 70), (8, 33)] {
            let padded = len.next_multiple_of(STRIDE);
            let mut x = bf16s(1, rows * padded);
            x.chunks_exact_mut(padded).for_each(|row| row[len..].fill(bf16::ZERO));
            let (wide, half) = (random(2, len), bf16s(2, len));
            for w in [Elements::F32(&wide), Elements::Bf16(&half)] {
                let (mut ours, mut widened) = (vec![f32::NAN; rows], vec![f32::NAN; rows]);
                dots(&x, padded, w, &mut ours);
                dots_widened(&x, padded, w, &mut widened);
                for (ours, widened) in ours.iter().zip(widened) {
                    assert!((ours - widened).abs() < 1e-5, "{rows} rows of {len}: {ours} {widened}");
                }
            }
        }
    }
}
