//! Attention of one query row against cached keys and values: the step of autoregressive decoding.

use rayon::prelude::*;

use crate::{
    HeadShape, Workers,
    vector::{self, simd},
};

/// Rows of a block of the cache: the lanes of a vector, so that scores of a block are computed side by side.
pub const KV_ROWS: usize = 16;

/// Some cached rows of a sequence at one layer. Sequences may share blocks.
#[derive(Clone, Copy, Debug)]
pub struct KvBlock<'a> {
    /// Keys, turned: `[kv_heads · head_dim, KV_ROWS]`.
    pub k: &'a [f32],
    /// Values, `[KV_ROWS, kv_heads · head_dim]`.
    pub v: &'a [f32],
    /// Number of rows that are there, at most [`KV_ROWS`].
    pub rows: usize,
}

/// The same, to be filled.
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
    pub fn write(&mut self, row: usize, k: &[f32], v: &[f32]) {
        assert!(row < KV_ROWS && self.k.len() == k.len() * KV_ROWS, "a block of other columns, or no row of it");
        for (keys, &k) in self.k.chunks_exact_mut(KV_ROWS).zip(k) {
            keys[row] = k;
        }
        self.v[row * v.len()..][..v.len()].copy_from_slice(v);
    }
}

/// Attention of query row `i` of `q` `[rows, heads · head_dim]` over all rows of `caches[i]`, written to `out`, shaped
/// like `q`. A row's result does not depend on which other rows are in the batch.
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
            || Head { shape, kv_head, cache: &caches[row] }.attend(q, scores, out),
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
}

impl Head<'_> {
    /// The query heads of this key/value head: `q` and `out` are `[group, head_dim]`. Several at a time share what is
    /// loaded; what a head is given does not depend on which others are beside it.
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
        let (dim, stride) = (self.shape.head_dim, self.cache.len() * KV_ROWS);
        scores.clear();
        scores.resize(H * stride, 0.0);
        let (blocks, rest) = self.cache.as_chunks::<2>();
        for (index, pair) in blocks.iter().enumerate() {
            self.scores::<H, 2>(q, pair, stride, &mut scores[2 * index * KV_ROWS..]);
        }
        if let [last] = rest {
            self.scores::<H, 1>(q, &[*last], stride, &mut scores[2 * blocks.len() * KV_ROWS..]);
        }
        let mut inverse = [0.0; H];
        for (scores, inverse) in scores.chunks_exact_mut(stride).zip(&mut inverse) {
            // Blocks of a prompt may end before they are full: what is there moves together.
            let mut seen = 0;
            for (index, block) in self.cache.iter().enumerate() {
                if seen != index * KV_ROWS {
                    scores.copy_within(index * KV_ROWS..index * KV_ROWS + block.rows, seen);
                }
                seen += block.rows;
            }
            let scores = &mut scores[..seen];
            vector::scale(scores, self.shape.scale());
            let maximum = vector::max(scores);
            *inverse = 1.0 / vector::exp_shifted(scores, maximum);
        }
        let mut column = 0;
        while column < dim {
            match dim - column {
                64.. => self.mix::<H, 64>(scores, stride, column, &inverse, out),
                32.. => self.mix::<H, 32>(scores, stride, column, &inverse, out),
                16.. => self.mix::<H, 16>(scores, stride, column, &inverse, out),
                _ => self.mix::<H, 1>(scores, stride, column, &inverse, out),
            }
            column += match dim - column {
                64.. => 64,
                32.. => 32,
                16.. => 16,
                _ => 1,
            };
        }
    }

    /// Unscaled scores of `B` blocks, the first at the beginning of `scores`, those of the next head `stride` further.
    #[inline(always)]
    fn scores<const H: usize, const B: usize>(
        self,
        q: &[f32],
        blocks: &[KvBlock<'_>; B],
        stride: usize,
        scores: &mut [f32],
    ) {
        let dim = self.shape.head_dim;
        let rows = self.kv_head * dim * KV_ROWS..(self.kv_head + 1) * dim * KV_ROWS;
        let keys: [&[[f32; KV_ROWS]]; B] = std::array::from_fn(|b| blocks[b].k[rows.clone()].as_chunks().0);
        let mut sums = [[[0.0_f32; KV_ROWS]; B]; H];
        for i in 0..dim {
            for h in 0..H {
                let q = q[h * dim + i];
                for b in 0..B {
                    for lane in 0..KV_ROWS {
                        sums[h][b][lane] = q.mul_add(keys[b][i][lane], sums[h][b][lane]);
                    }
                }
            }
        }
        for h in 0..H {
            for b in 0..B {
                scores[h * stride + b * KV_ROWS..][..KV_ROWS].copy_from_slice(&sums[h][b]);
            }
        }
    }

    /// `W` columns of the weighted sum of values.
    #[inline(always)]
    fn mix<const H: usize, const W: usize>(
        self,
        weights: &[f32],
        stride: usize,
        column: usize,
        inverse: &[f32; H],
        out: &mut [f32],
    ) {
        let (dim, width) = (self.shape.head_dim, self.shape.kv_width());
        let first = self.kv_head * dim + column;
        let mut sums = [[0.0_f32; W]; H];
        let mut seen = 0;
        for block in self.cache {
            for v in block.v.chunks_exact(width).take(block.rows) {
                let v: &[f32; W] = v[first..].first_chunk().unwrap_or(&[0.0; W]);
                for h in 0..H {
                    let weight = weights[h * stride + seen];
                    for lane in 0..W {
                        sums[h][lane] = weight.mul_add(v[lane], sums[h][lane]);
                    }
                }
                seen += 1;
            }
        }
        for h in 0..H {
            for lane in 0..W {
                out[h * dim + column + lane] = sums[h][lane] * inverse[h];
            }
        }
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

    /// Keys and values of a sequence in blocks, some of which end early, as the last block of a prompt does.
    struct Filled(Vec<(Vec<f32>, Vec<f32>, usize)>);

    impl Filled {
        /// `k` and `v` are `[rows, width]`; the first `cut` rows are in blocks of their own.
        fn new(k: &[f32], v: &[f32], width: usize, cut: usize) -> Self {
            let rows = k.len() / width;
            let mut blocks = Vec::new();
            for part in [0..cut, cut..rows] {
                let end = part.end;
                for first in part.step_by(KV_ROWS) {
                    // What was there before, a NaN say, must not matter.
                    let mut block =
                        (vec![f32::NAN; KV_ROWS * width], vec![f32::NAN; KV_ROWS * width], 0);
                    for row in first..end.min(first + KV_ROWS) {
                        let row = row * width..(row + 1) * width;
                        let mut to = KvBlockMut { k: &mut block.0, v: &mut block.1 };
                        to.write(block.2, &k[row.clone()], &v[row]);
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
                Filled::new(&k[rows.clone()], &v[rows], width, cut % (segment.len + 1))
            }).collect();
            let caches: Vec<_> = filled.iter().map(Filled::blocks).collect();
            let last_rows = |data: &[f32]| -> Vec<f32> {
                let last = layout.segments().iter().map(|segment| segment.rows().end - 1);
                last.flat_map(|row| data[row * shape.width()..][..shape.width()].to_vec()).collect()
            };
            let mut out = vec![f32::NAN; lens.len() * shape.width()];
            cached_attention(&last_rows(&q), shape, &caches, &mut out, Workers::Pool);
            assert_close(&out, &wide(&last_rows(&packed)), 2e-6);

            // A row, and a head, is given the same alone.
            let mut alone = vec![f32::NAN; shape.width()];
            cached_attention(&last_rows(&q)[..shape.width()], shape, &caches[..1], &mut alone, Workers::One);
            prop_assert_eq!(&alone[..], &out[..shape.width()]);
        }
    }
}
