//! Attention of one query row over cached keys and values: the step of autoregressive decoding.

mod lanes;

use rayon::prelude::*;

use crate::{
    HeadShape, Workers,
    vector::{self, simd},
};

/// Rows in a block of the cache: as many as a vector has lanes, so that the scores of a block are computed side by
/// side.
pub const KV_ROWS: usize = 16;

/// Some cached rows of a sequence at one layer. Sequences may share blocks.
#[derive(Clone, Copy, Debug)]
pub struct KvBlock<'a> {
    /// Keys, transposed: `[kv_heads · head_dim, KV_ROWS]`.
    pub k: &'a [f32],
    /// Values, `[kv_heads, KV_ROWS, head_dim]`.
    pub v: &'a [f32],
    /// Number of rows present, at most [`KV_ROWS`].
    pub rows: usize,
}

impl KvBlock<'_> {
    /// Copies its rows out as they were written: keys and values `[rows, kv_heads · head_dim]`.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn read(&self, head_dim: usize, k: &mut [f32], v: &mut [f32]) {
        let width = self.k.len() / KV_ROWS;
        assert!(k.len() == self.rows * width && v.len() == k.len(), "room for other rows than the block has");
        for (row, (k, v)) in k.chunks_exact_mut(width).zip(v.chunks_exact_mut(width)).enumerate() {
            for (k, keys) in k.iter_mut().zip(self.k.chunks_exact(KV_ROWS)) {
                *k = keys[row];
            }
            let values = self.v.chunks_exact(KV_ROWS * head_dim);
            for (v, values) in v.chunks_exact_mut(head_dim).zip(values) {
                v.copy_from_slice(&values[row * head_dim..][..head_dim]);
            }
        }
    }
}

/// The same, writable.
#[derive(Debug)]
pub struct KvBlockMut<'a> {
    /// Keys.
    pub k: &'a mut [f32],
    /// Values.
    pub v: &'a mut [f32],
}

impl KvBlockMut<'_> {
    /// Sets one row to a key and a value, `[kv_heads · head_dim]` each.
    ///
    /// # Panics
    /// If there is no such row, or sizes do not fit.
    pub fn write(&mut self, row: usize, head_dim: usize, k: &[f32], v: &[f32]) {
        assert!(
            row < KV_ROWS && self.k.len() == k.len() * KV_ROWS,
            "a block of other columns, or no row of it"
        );
        for (keys, &k) in self.k.chunks_exact_mut(KV_ROWS).zip(k) {
            keys[row] = k;
        }
        for (values, v) in self.v.chunks_exact_mut(KV_ROWS * head_dim).zip(v.chunks_exact(head_dim)) {
            values[row * head_dim..][..head_dim].copy_from_slice(v);
        }
    }
}

/// Attention of query row `i` of `q` `[rows, heads · head_dim]` over all rows of `caches[i]`, written to `out`, shaped
/// like `q`. The result of a row does not depend on the other rows in the batch.
///
/// # Panics
/// If sizes do not fit.
pub fn cached_attention(
    q: &[f32],
    shape: HeadShape,
    caches: &[Vec<KvBlock<'_>>],
    out: &mut [f32],
    workers: Workers,
) {
    let group_width = shape.group() * shape.head_dim;
    assert_eq!(q.len(), caches.len() * shape.width(), "queries are not [rows, heads * head_dim]");
    assert_eq!(out.len(), q.len(), "the output is shaped like the queries");
    let head = |scores: &mut Vec<f32>, (task, (out, q)): (usize, (&mut [f32], &[f32]))| {
        let (row, kv_head) = (task / shape.kv_heads, task % shape.kv_heads);
        simd(
            #[inline(always)]
            || {
                let (next_row, next_head) = ((task + 1) / shape.kv_heads, (task + 1) % shape.kv_heads);
                let soon = (&**caches.get(next_row).unwrap_or(&caches[row]), next_head);
                Head { shape, kv_head, cache: &caches[row], soon }.attend(q, scores, out);
            },
        );
    };
    match workers {
        Workers::One => {
            let mut scores = Vec::new();
            let tasks = out.chunks_mut(group_width).zip(q.chunks(group_width)).enumerate();
            tasks.for_each(|task| head(&mut scores, task));
        }
        Workers::Pool => {
            let tasks = out.par_chunks_mut(group_width).zip(q.par_chunks(group_width)).enumerate();
            tasks.for_each_init(Vec::new, head);
        }
    }
}

/// One key/value head of one sequence.
#[derive(Clone, Copy)]
struct Head<'a> {
    shape: HeadShape,
    kv_head: usize,
    cache: &'a [KvBlock<'a>],
    /// The blocks and the head that are read next, for prefetching.
    soon: (&'a [KvBlock<'a>], usize),
}

impl Head<'_> {
    /// Computes the query heads of this key/value head: `q` and `out` are `[group, head_dim]`. Several heads at a time
    /// share what is loaded; the result of a head does not depend on the others beside it.
    #[inline(always)]
    fn attend(self, mut q: &[f32], scores: &mut Vec<f32>, mut out: &mut [f32]) {
        let dim = self.shape.head_dim;
        while !q.is_empty() {
            let heads = match q.len() / dim {
                1 => 1,
                2 | 3 => 2,
                _ => 4,
            };
            let (own_q, rest_q) = q.split_at(heads * dim);
            let (own_out, rest_out) = out.split_at_mut(heads * dim);
            match heads {
                1 => self.heads::<1>(own_q, scores, own_out),
                2 => self.heads::<2>(own_q, scores, own_out),
                _ => self.heads::<4>(own_q, scores, own_out),
            }
            (q, out) = (rest_q, rest_out);
        }
    }

    #[inline(always)]
    fn heads<const H: usize>(self, q: &[f32], scores: &mut Vec<f32>, out: &mut [f32]) {
        let dim = self.shape.head_dim;
        // Whole vectors, so that no loop over scores has a remainder.
        let stride = (self.cache.len() * KV_ROWS).next_multiple_of(vector::LANES);
        if scores.len() < H * stride {
            scores.resize(H * stride, 0.0);
        }
        let scores = &mut scores[..H * stride];
        let first = self.kv_head * dim * KV_ROWS;
        lanes::scores::<H>(q, dim, self.cache, first, stride, scores);
        let mut inverse = [0.0; H];
        for (scores, inverse) in scores.chunks_exact_mut(stride).zip(&mut inverse) {
            // Blocks of a prompt may end before they are full: the scores of existing rows are moved together.
            let mut seen = 0;
            for (index, block) in self.cache.iter().enumerate() {
                if seen != index * KV_ROWS {
                    scores.copy_within(index * KV_ROWS..index * KV_ROWS + block.rows, seen);
                }
                seen += block.rows;
            }
            // Missing rows have weight 0.
            scores[seen..].fill(f32::NEG_INFINITY);
            *inverse = 1.0 / vector::exp_scaled(scores, self.shape.scale());
        }
        let values =
            lanes::Values { cache: self.cache, first, dim, soon: (self.soon.0, self.soon.1 * dim * KV_ROWS) };
        lanes::mix::<H>(scores, stride, values, &inverse, out);
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

    /// Keys and values of a sequence in blocks, some of which are not full, like the last block of a prompt.
    struct Filled(Vec<(Vec<f32>, Vec<f32>, usize)>);

    impl Filled {
        /// `k` and `v` are `[rows, width]`; the first `cut` rows are in blocks of their own.
        fn new(k: &[f32], v: &[f32], shape: HeadShape, cut: usize) -> Self {
            let width = shape.kv_width();
            let rows = k.len() / width;
            let mut blocks = Vec::new();
            for part in [0..cut, cut..rows] {
                let end = part.end;
                for first in part.step_by(KV_ROWS) {
                    // Earlier content, such as a NaN, must not matter.
                    let mut block = (vec![f32::NAN; KV_ROWS * width], vec![f32::NAN; KV_ROWS * width], 0);
                    for row in first..end.min(first + KV_ROWS) {
                        let row = row * width..(row + 1) * width;
                        let mut to = KvBlockMut { k: &mut block.0, v: &mut block.1 };
                        to.write(block.2, shape.head_dim, &k[row.clone()], &v[row]);
                        block.2 += 1;
                    }
                    blocks.push(block);
                }
            }
            Filled(blocks)
        }

        fn blocks(&self) -> Vec<KvBlock<'_>> {
            self.0.iter().map(|(k, v, rows)| KvBlock { k, v, rows: *rows }).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn a_cached_step_equals_the_last_row_of_packed_attention(
            lens in prop::collection::vec(1_usize..90, 1..5), kv_heads in 1_usize..3, group in 1_usize..8,
            head_dim in 1_usize..130, cut in 0_usize..90,
        ) {
            let shape = HeadShape { heads: kv_heads * group, kv_heads, head_dim };
            let layout = Layout::causal(&lens);
            let rows = layout.rows();
            let q = random(1, rows * shape.width());
            let [k, v] = [2, 3].map(|seed| random(seed, rows * shape.kv_width()));
            let (packed, _) = forward(Inputs { q: &q, k: &k, v: &v, shape, layout: &layout });

            let width = shape.kv_width();
            let filled: Vec<Filled> = layout.segments().iter().map(|segment| {
                let rows = segment.rows().start * width..segment.rows().end * width;
                Filled::new(&k[rows.clone()], &v[rows], shape, cut % (segment.len + 1))
            }).collect();
            let caches: Vec<_> = filled.iter().map(Filled::blocks).collect();
            let last_rows = |data: &[f32]| -> Vec<f32> {
                let last = layout.segments().iter().map(|segment| segment.rows().end - 1);
                last.flat_map(|row| data[row * shape.width()..][..shape.width()].to_vec()).collect()
            };
            let mut out = vec![f32::NAN; lens.len() * shape.width()];
            cached_attention(&last_rows(&q), shape, &caches, &mut out, Workers::Pool);
            assert_close(&out, &wide(&last_rows(&packed)), 2e-6);

            // What was written can be read back.
            for (filled, segment) in filled.iter().zip(layout.segments()) {
                let mut read = (Vec::new(), Vec::new());
                for block in filled.blocks() {
                    let (mut k, mut v) = (vec![0.0; block.rows * width], vec![0.0; block.rows * width]);
                    block.read(shape.head_dim, &mut k, &mut v);
                    read.0.extend(k);
                    read.1.extend(v);
                }
                let rows = segment.rows().start * width..segment.rows().end * width;
                prop_assert_eq!((&read.0[..], &read.1[..]), (&k[rows.clone()], &v[rows]));
            }

            // A row or a head alone has the same result.
            let mut alone = vec![f32::NAN; shape.width()];
            cached_attention(&last_rows(&q)[..shape.width()], shape, &caches[..1], &mut alone, Workers::One);
            prop_assert_eq!(&alone[..], &out[..shape.width()]);
        }
    }
}
