//! Attention of one query row against cached keys and values: the step of autoregressive decoding.

use rayon::prelude::*;

use crate::{
    HeadShape,
    vector::{self, simd},
};

/// Some cached rows of a sequence, `[rows, kv_heads · head_dim]` each. Sequences may share blocks.
#[derive(Clone, Copy, Debug)]
pub struct KvBlock<'a> {
    /// Keys.
    pub k: &'a [f32],
    /// Values.
    pub v: &'a [f32],
    /// Number of rows.
    pub rows: usize,
}

/// Attention of query row `i` of `q` `[rows, heads · head_dim]` over all rows of `caches[i]`, written to `out`, shaped
/// like `q`. A row's result does not depend on which other rows are in the batch.
///
/// # Panics
/// If sizes do not fit.
pub fn cached_attention(q: &[f32], shape: HeadShape, caches: &[Vec<KvBlock<'_>>], out: &mut [f32]) {
    let group_width = shape.group() * shape.head_dim;
    assert_eq!(q.len(), caches.len() * shape.width(), "queries are not [rows, heads * head_dim]");
    assert_eq!(out.len(), q.len(), "the output is shaped like the queries");
    let tasks = out.par_chunks_mut(group_width).zip(q.par_chunks(group_width)).enumerate();
    tasks.for_each_init(Vec::new, |scores, (task, (out, q))| {
        let (row, kv_head) = (task / shape.kv_heads, task % shape.kv_heads);
        simd(
            #[inline(always)]
            || attend(q, shape, kv_head, &caches[row], scores, out),
        );
    });
}

/// The query heads of one key/value head: `q` and `out` are `[group, head_dim]`.
#[inline(always)]
fn attend(
    q: &[f32],
    shape: HeadShape,
    kv_head: usize,
    cache: &[KvBlock<'_>],
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let (dim, width) = (shape.head_dim, shape.kv_width());
    let columns = kv_head * dim..(kv_head + 1) * dim;
    for (q, out) in q.chunks_exact(dim).zip(out.chunks_exact_mut(dim)) {
        scores.clear();
        for block in cache {
            for k in block.k[..block.rows * width].chunks_exact(width) {
                scores.push(vector::dot(q, &k[columns.clone()]) * shape.scale());
            }
        }
        let maximum = vector::max(scores);
        let sum = vector::exp_shifted(scores, maximum);
        out.fill(0.0);
        let mut seen = scores.as_slice();
        for block in cache {
            let (weights, rest) = seen.split_at(block.rows);
            for (&weight, v) in weights.iter().zip(block.v.chunks_exact(width)) {
                vector::add_scaled(out, weight, &v[columns.clone()]);
            }
            seen = rest;
        }
        vector::scale(out, 1.0 / sum);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Layout,
        ops::attention::{Inputs, forward},
        testing::{assert_close, random, wide},
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn a_cached_step_equals_the_last_row_of_packed_attention(
            lens in prop::collection::vec(1_usize..90, 1..5), kv_heads in 1_usize..3, group in 1_usize..4, cut in 0_usize..90,
        ) {
            let shape = HeadShape { heads: kv_heads * group, kv_heads, head_dim: 16 };
            let layout = Layout::causal(&lens);
            let rows = layout.rows();
            let q = random(1, rows * shape.width());
            let [k, v] = [2, 3].map(|seed| random(seed, rows * shape.kv_width()));
            let (packed, _) = forward(Inputs { q: &q, k: &k, v: &v, shape, layout: &layout });

            let width = shape.kv_width();
            let block = |rows: std::ops::Range<usize>| KvBlock {
                k: &k[rows.start * width..rows.end * width],
                v: &v[rows.start * width..rows.end * width],
                rows: rows.len(),
            };
            let cache = |rows: std::ops::Range<usize>| {
                let middle = rows.start + cut % (rows.len() + 1);
                vec![block(rows.start..middle), block(middle..rows.end)]
            };
            let caches: Vec<_> = layout.segments().iter().map(|segment| cache(segment.rows())).collect();
            let last_rows = |data: &[f32]| -> Vec<f32> {
                let last = layout.segments().iter().map(|segment| segment.rows().end - 1);
                last.flat_map(|row| data[row * shape.width()..][..shape.width()].to_vec()).collect()
            };
            let mut out = vec![f32::NAN; lens.len() * shape.width()];
            cached_attention(&last_rows(&q), shape, &caches, &mut out);
            assert_close(&out, &wide(&last_rows(&packed)), 1e-6);
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_batch() {
        let shape = HeadShape { heads: 2, kv_heads: 1, head_dim: 8 };
        let q = random(1, 3 * shape.width());
        let [k, v] = [2, 3].map(|seed| random(seed, 50 * shape.kv_width()));
        let cache = vec![KvBlock { k: &k, v: &v, rows: 50 }];
        let mut together = vec![0.0; q.len()];
        cached_attention(&q, shape, &vec![cache.clone(); 3], &mut together);
        let mut alone = vec![0.0; shape.width()];
        cached_attention(&q[shape.width()..2 * shape.width()], shape, &[cache], &mut alone);
        assert_eq!(alone, together[shape.width()..2 * shape.width()]);
    }
}
