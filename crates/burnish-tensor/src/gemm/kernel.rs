//! The innermost loops of bf16 products: with AVX-512 BF16 where the machine has it, else widened to f32.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use crate::vector::simd;

/// Rows of a tile.
pub(super) const ROWS: usize = 12;
/// Columns of a tile: two vectors.
pub(super) const COLS: usize = 32;

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

#[cfg(target_arch = "x86_64")]
pub(super) fn has_bf16() -> bool {
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

#[cfg(test)]
mod tests {
    use half::bf16;

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
}
