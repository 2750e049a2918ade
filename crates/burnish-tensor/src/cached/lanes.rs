//! The two inner loops of cached attention: scores of keys side by side, and the weighted sum of values.
//!
//! Each result is one running sum with one rounding per addend, whatever the instructions and whatever is computed
//! beside it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::{KV_ROWS, KvBlock};

/// Unscaled scores of `H` queries with the keys of some blocks.
///
/// `q` is `[H, dim]`; the head's keys begin at `first` in each block. Writes `KV_ROWS` scores per block to `scores`;
/// those of the next query start `stride` elements later.
#[inline(always)]
pub(super) fn scores<const H: usize>(
    q: &[f32],
    dim: usize,
    cache: &[KvBlock<'_>],
    first: usize,
    stride: usize,
    scores: &mut [f32],
) {
    assert!(q.len() == H * dim && scores.len() >= (H - 1) * stride + cache.len() * KV_ROWS);
    assert!(cache.iter().all(|block| block.k.len() >= first + dim * KV_ROWS), "blocks hold the head's keys");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        let (many, rest) = cache.as_chunks::<4>();
        for (index, blocks) in many.iter().enumerate() {
            // SAFETY: the machine has the instructions; sizes are asserted above.
            unsafe {
                scores_avx512::<H, 4>(q, dim, blocks, first, stride, &mut scores[4 * index * KV_ROWS..])
            };
        }
        for (index, block) in rest.iter().enumerate() {
            let at = (4 * many.len() + index) * KV_ROWS;
            // SAFETY: as above.
            unsafe { scores_avx512::<H, 1>(q, dim, &[*block], first, stride, &mut scores[at..]) };
        }
        return;
    }
    scores_portable::<H>(q, dim, cache, first, stride, scores);
}

#[inline(always)]
fn scores_portable<const H: usize>(
    q: &[f32],
    dim: usize,
    cache: &[KvBlock<'_>],
    first: usize,
    stride: usize,
    scores: &mut [f32],
) {
    for (index, block) in cache.iter().enumerate() {
        for (h, q) in q.chunks_exact(dim).enumerate() {
            let mut sums = [0.0_f32; KV_ROWS];
            for (&q, keys) in q.iter().zip(block.k[first..].as_chunks::<KV_ROWS>().0) {
                for (sum, &key) in sums.iter_mut().zip(keys) {
                    *sum = q.mul_add(key, *sum);
                }
            }
            scores[h * stride + index * KV_ROWS..][..KV_ROWS].copy_from_slice(&sums);
        }
    }
}

/// # Safety
/// The machine must have AVX-512. `q` holds `H · dim` elements, the keys of each block begin at `first`, and `scores`
/// has room for the `B` blocks of each of the `H` queries.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn scores_avx512<const H: usize, const B: usize>(
    q: &[f32],
    dim: usize,
    blocks: &[KvBlock<'_>; B],
    first: usize,
    stride: usize,
    scores: &mut [f32],
) {
    // SAFETY: the caller guarantees all that is read and written.
    unsafe {
        // The values of these keys are read next.
        let soon: [*const f32; B] = std::array::from_fn(|b| blocks[b].v.as_ptr().add(first));
        let keys: [*const f32; B] = std::array::from_fn(|b| blocks[b].k.as_ptr().add(first));
        let q = q.as_ptr();
        let mut sums = [[_mm512_setzero_ps(); B]; H];
        for i in 0..dim {
            let keys: [__m512; B] = std::array::from_fn(|b| _mm512_loadu_ps(keys[b].add(i * KV_ROWS)));
            for values in soon {
                _mm_prefetch::<_MM_HINT_T1>(values.wrapping_add(i * KV_ROWS).cast());
            }
            for (h, sums) in sums.iter_mut().enumerate() {
                let q = _mm512_set1_ps(*q.add(h * dim + i));
                for (sum, &key) in sums.iter_mut().zip(&keys) {
                    *sum = _mm512_fmadd_ps(q, key, *sum);
                }
            }
        }
        for (h, sums) in sums.iter().enumerate() {
            for (b, &sum) in sums.iter().enumerate() {
                _mm512_storeu_ps(scores.as_mut_ptr().add(h * stride + b * KV_ROWS), sum);
            }
        }
    }
}

/// Values of one head of a sequence: `[KV_ROWS, dim]`, from `first` on in each block.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) cache: &'a [KvBlock<'a>],
    pub(super) first: usize,
    pub(super) dim: usize,
    /// What is read next, for prefetching: the keys of another head, from `soon.1` on in each block.
    pub(super) soon: (&'a [KvBlock<'a>], usize),
}

/// `out[h] = inverse[h] · Σ weights[h][row] · values[row]`, `out` `[H, dim]`; the weights of the next query start
/// `stride` elements later.
#[inline(always)]
pub(super) fn mix<const H: usize>(
    weights: &[f32],
    stride: usize,
    values: Values<'_>,
    inverse: &[f32; H],
    out: &mut [f32],
) {
    let Values { cache, first, dim, .. } = values;
    let rows: usize = cache.iter().map(|block| block.rows).sum();
    assert!(weights.len() >= (H - 1) * stride + rows && out.len() == H * dim);
    assert!(cache.iter().all(|block| block.v.len() >= first + block.rows * dim), "blocks hold their rows");
    let mut column = 0;
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the machine has the instructions; sizes are asserted above.
        unsafe {
            while column + 64 <= dim {
                mix_avx512::<H, 4>(weights, stride, values, column, inverse, out);
                column += 64;
            }
            while column + 16 <= dim {
                let vectors = if column + 32 <= dim { 2 } else { 1 };
                match vectors {
                    2 => mix_avx512::<H, 2>(weights, stride, values, column, inverse, out),
                    _ => mix_avx512::<H, 1>(weights, stride, values, column, inverse, out),
                }
                column += 16 * vectors;
            }
        }
    }
    mix_portable::<H>(weights, stride, values, column, inverse, out);
}

/// The columns from `column` on.
#[inline(always)]
fn mix_portable<const H: usize>(
    weights: &[f32],
    stride: usize,
    values: Values<'_>,
    column: usize,
    inverse: &[f32; H],
    out: &mut [f32],
) {
    let Values { cache, first, dim, .. } = values;
    if column == dim {
        return;
    }
    for (h, (out, inverse)) in out.chunks_exact_mut(dim).zip(inverse).enumerate() {
        let out = &mut out[column..];
        out.fill(0.0);
        let mut weights = weights[h * stride..].iter();
        for block in cache {
            for (v, &weight) in block.v[first..].chunks_exact(dim).take(block.rows).zip(&mut weights) {
                for (out, &v) in out.iter_mut().zip(&v[column..]) {
                    *out = weight.mul_add(v, *out);
                }
            }
        }
        for out in out {
            *out *= inverse;
        }
    }
}

/// `16 V` columns from `column` on.
///
/// # Safety
/// The machine must have AVX-512. There are `16 V` columns from `column` on and as many weights as rows; `out` is `[H,
/// dim]`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn mix_avx512<const H: usize, const V: usize>(
    weights: &[f32],
    stride: usize,
    values: Values<'_>,
    column: usize,
    inverse: &[f32; H],
    out: &mut [f32],
) {
    let Values { cache, first, dim, soon } = values;
    // SAFETY: the caller guarantees all that is read and written.
    unsafe {
        let mut sums = [[_mm512_setzero_ps(); V]; H];
        let mut weights = weights.as_ptr();
        for (index, block) in cache.iter().enumerate() {
            let mut v = block.v.as_ptr().add(first + column);
            let mut keys =
                soon.0.get(index).unwrap_or(block).k.as_ptr().wrapping_add(soon.1 + column * KV_ROWS);
            for _ in 0..block.rows {
                for _ in 0..V {
                    _mm_prefetch::<_MM_HINT_T1>(keys.cast());
                    keys = keys.wrapping_add(KV_ROWS);
                }
                let row: [__m512; V] = std::array::from_fn(|at| _mm512_loadu_ps(v.add(16 * at)));
                for (h, sums) in sums.iter_mut().enumerate() {
                    let weight = _mm512_set1_ps(*weights.add(h * stride));
                    for (sum, &v) in sums.iter_mut().zip(&row) {
                        *sum = _mm512_fmadd_ps(weight, v, *sum);
                    }
                }
                v = v.wrapping_add(dim);
                weights = weights.wrapping_add(1);
            }
        }
        for (h, (sums, &inverse)) in sums.iter().zip(inverse).enumerate() {
            let inverse = _mm512_set1_ps(inverse);
            for (at, &sum) in sums.iter().enumerate() {
                let to = out.as_mut_ptr().add(h * dim + column + 16 * at);
                _mm512_storeu_ps(to, _mm512_mul_ps(sum, inverse));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random;

    #[test]
    fn machines_with_and_without_vectors_agree_to_the_bit() {
        for (dim, blocks) in [(16, 1), (32, 4), (64, 5), (128, 9), (20, 3), (80, 6)] {
            let width = 2 * dim;
            let filled: Vec<(Vec<f32>, Vec<f32>)> = (0..blocks as u64)
                .map(|seed| (random(seed, width * KV_ROWS), random(seed + 100, width * KV_ROWS)))
                .collect();
            let cache: Vec<KvBlock<'_>> = filled
                .iter()
                .enumerate()
                .map(|(index, (k, v))| KvBlock { k, v, rows: KV_ROWS - index % 3 })
                .collect();
            let stride = blocks * KV_ROWS;
            let q = random(7, 2 * dim);
            let mut ours = vec![f32::NAN; 2 * stride];
            let mut plain = ours.clone();
            scores::<2>(&q, dim, &cache, dim * KV_ROWS, stride, &mut ours);
            scores_portable::<2>(&q, dim, &cache, dim * KV_ROWS, stride, &mut plain);
            assert_eq!(ours, plain);

            let values = Values { cache: &cache, first: dim * KV_ROWS, dim, soon: (&cache, 0) };
            let mut ours = vec![f32::NAN; 2 * dim];
            let mut out = ours.clone();
            mix::<2>(&plain, stride, values, &[0.5, 0.25], &mut ours);
            mix_portable::<2>(&plain, stride, values, 0, &[0.5, 0.25], &mut out);
            assert_eq!(ours, out);
        }
    }
}
