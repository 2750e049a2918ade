//! Grouped-query attention over a forest of segments: `softmax(q kᵀ / sqrt(head_dim)) v` for every head, without ever
//! holding a full matrix of scores (Dao et al. 2022; online softmax of Milakov & Gimelshein 2018).

use std::ops::Range;

use rayon::prelude::*;

use crate::{
    Buffer, Layout, Precision,
    gemm::{Panels, View, ViewMut, Workers, Write, multiply_packed},
    vector::{self, simd},
};

/// Query rows processed at once. Under a causal mask half of a diagonal block is wasted, so this is small.
pub(crate) const QUERY_ROWS: usize = 64;
/// Key rows processed at once: a block of scores then takes 128 KiB.
pub(crate) const KEY_ROWS: usize = 512;
/// Most query blocks in a task: keys are packed once for all of them.
const TASK_BLOCKS: usize = 8;

/// Heads of an attention layer. Query head `h` reads key/value head `h / (heads / kv_heads)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    /// Query heads; a multiple of `kv_heads`.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Elements of each head.
    pub head_dim: usize,
}

impl HeadShape {
    /// Columns of queries and of the output.
    pub(crate) fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Columns of keys and of values.
    pub(crate) fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Query heads that share a key/value head.
    pub(crate) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// The factor of the scores.
    pub(crate) fn scale(&self) -> f32 {
        1.0 / (self.head_dim as f32).sqrt()
    }
}

/// Queries, keys and values of a packed batch: `[rows, heads · head_dim]`, twice `[rows, kv_heads · head_dim]`.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) q: &'a [f32],
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
    pub(crate) shape: HeadShape,
    pub(crate) layout: &'a Layout,
}

/// Some query rows of one segment.
#[derive(Clone)]
pub(crate) struct QueryBlock {
    pub(crate) segment: usize,
    /// Rows of the batch.
    pub(crate) rows: Range<usize>,
}

/// The query rows of `segment`, cut into blocks.
pub(crate) fn query_blocks(layout: &Layout, segment: usize) -> impl Iterator<Item = QueryBlock> {
    query_blocks_after(layout, segment, 0)
}

/// The query rows of `segment` after its first `past`. They are cut at the same places as with `past` 0, so that a row
/// meets the same blocks of keys.
fn query_blocks_after(layout: &Layout, segment: usize, past: usize) -> impl Iterator<Item = QueryBlock> {
    let rows = layout.segments()[segment].rows();
    let (first, end) = (rows.start + past, rows.end);
    (rows.start + past / QUERY_ROWS * QUERY_ROWS..end)
        .step_by(QUERY_ROWS)
        .map(move |start| QueryBlock { segment, rows: start.max(first)..end.min(start + QUERY_ROWS) })
        .filter(|block| !block.rows.is_empty())
}

/// Key rows that at least one query of a block sees.
#[derive(Clone)]
pub(crate) struct KeyBlock {
    /// Rows of the batch.
    pub(crate) rows: Range<usize>,
    /// Whether they belong to the queries' own segment, and row `i` sees only rows up to `i` there.
    pub(crate) is_causal: bool,
}

impl KeyBlock {
    /// The part of these keys of `segment` that the queries of `block` see; `None` if they see nothing.
    pub(crate) fn seen_from(&self, layout: &Layout, segment: usize, block: &QueryBlock) -> Option<KeyBlock> {
        if block.segment != segment {
            let is_seen = layout.is_ancestor(segment, block.segment);
            return is_seen.then(|| KeyBlock { rows: self.rows.clone(), is_causal: false });
        }
        let n = self.visible_to(block);
        (n > 0).then(|| KeyBlock { rows: self.rows.start..self.rows.start + n, ..*self })
    }

    /// How many of these keys, counted from the first, any query of `block` sees.
    pub(crate) fn visible_to(&self, block: &QueryBlock) -> usize {
        if self.is_causal {
            block.rows.end.clamp(self.rows.start, self.rows.end) - self.rows.start
        } else {
            self.rows.len()
        }
    }

    /// How many of these keys, counted from the first, query row `row` sees.
    #[inline(always)]
    pub(crate) fn visible(&self, row: usize) -> usize {
        if self.is_causal {
            (row + 1).clamp(self.rows.start, self.rows.end) - self.rows.start
        } else {
            self.rows.len()
        }
    }
}

fn cut(rows: Range<usize>, is_causal: bool) -> impl Iterator<Item = KeyBlock> {
    let end = rows.end;
    rows.step_by(KEY_ROWS).map(move |start| KeyBlock { rows: start..end.min(start + KEY_ROWS), is_causal })
}

/// What the queries of `block` see: the ancestors, root first, then their own segment, where it is causal up to the last
/// query.
fn key_blocks(layout: &Layout, block: &QueryBlock) -> Vec<KeyBlock> {
    let segment = layout.segments()[block.segment];
    let end = if segment.is_causal() { block.rows.end } else { segment.rows().end };
    let ancestors = layout.ancestors(block.segment).into_iter().flat_map(|rows| cut(rows, false));
    ancestors.chain(cut(segment.start..end, segment.is_causal())).collect()
}

/// The rows of a segment as its own queries see them.
pub(crate) fn own_key_blocks(layout: &Layout, segment: usize) -> impl Iterator<Item = KeyBlock> {
    let segment = layout.segments()[segment];
    cut(segment.rows(), segment.is_causal())
}

/// One head's columns in some rows of a batch.
pub(crate) fn head_rows<'a>(
    data: &'a [f32],
    rows: &Range<usize>,
    head: usize,
    head_dim: usize,
    width: usize,
) -> View<'a> {
    View::strided(&data[rows.start * width + head * head_dim..], rows.len(), head_dim, width)
}

/// The output `[rows, heads · head_dim]`, and the log-sum-exp of the scaled scores `[rows, heads]`, which the
/// backward pass needs.
pub(crate) fn forward(inputs: Inputs<'_>) -> (Buffer, Buffer) {
    forward_after(inputs, &[])
}

/// As [`forward`], where the first `pasts[i]` rows of segment `i` have keys and values but no queries: `q`, the output
/// and the log-sum-exp leave them out. The results of the other rows equal those of [`forward`] to the bit.
fn forward_after(inputs: Inputs<'_>, pasts: &[usize]) -> (Buffer, Buffer) {
    let Inputs { q, k, v, shape, layout } = inputs;
    let rows = layout.rows() - pasts.iter().sum::<usize>();
    assert!(
        shape.heads.is_multiple_of(shape.kv_heads),
        "{} heads over {} key heads",
        shape.heads,
        shape.kv_heads
    );
    assert_eq!(q.len(), rows * shape.width(), "queries are not [rows, heads * head_dim]");
    assert_eq!(k.len(), layout.rows() * shape.kv_width(), "keys are not [rows, kv_heads * head_dim]");
    assert_eq!(v.len(), layout.rows() * shape.kv_width(), "values are not [rows, kv_heads * head_dim]");
    let mut out = Buffer::scratch(q.len());
    let mut log_sums = Buffer::scratch(rows * shape.heads);
    tasks(layout, pasts, shape, &mut out, &mut log_sums).into_par_iter().for_each_init(
        || Buffer::scratch(QUERY_ROWS * KEY_ROWS),
        |scores, mut task| {
            for kv_head in 0..shape.kv_heads {
                task.run(inputs, kv_head, scores);
            }
        },
    );
    (out, log_sums)
}

/// Attention of sequences whose first rows were read before. Segment `i` of `layout`, which has no parents, has keys
/// and values `[rows, kv_heads · head_dim]` for all its rows, but queries `[rows, heads · head_dim]` only for those
/// after the first `pasts[i]`. Returns the attention output, shaped like `q`; it equals, to the bit, that of attention
/// over the whole segments.
///
/// # Panics
/// If sizes do not fit.
pub fn continued_attention(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    shape: HeadShape,
    layout: &Layout,
    pasts: &[usize],
) -> Buffer {
    assert_eq!(pasts.len(), layout.segments().len(), "one past for each segment");
    forward_after(Inputs { q, k, v, shape, layout }, pasts).0
}

/// Some query blocks of one segment, and their rows of the outputs, for all heads.
struct Task<'a> {
    blocks: Vec<QueryBlock>,
    /// Number of batch rows before these blocks that have no queries.
    skipped: usize,
    out: &'a mut [f32],
    log_sums: &'a mut [f32],
}

/// The query blocks of all segments, several per task; fewer per task if there would not be tasks for all threads.
fn tasks<'a>(
    layout: &Layout,
    pasts: &[usize],
    shape: HeadShape,
    mut out: &'a mut [f32],
    mut log_sums: &'a mut [f32],
) -> Vec<Task<'a>> {
    let past = |segment: usize| pasts.get(segment).copied().unwrap_or(0);
    let segments = 0..layout.segments().len();
    let blocks: Vec<Vec<QueryBlock>> =
        segments.map(|segment| query_blocks_after(layout, segment, past(segment)).collect()).collect();
    let all: usize = blocks.iter().map(Vec::len).sum();
    let each = (all / (4 * rayon::current_num_threads())).clamp(1, TASK_BLOCKS);
    let mut tasks = Vec::new();
    let mut skipped = 0;
    for (segment, blocks) in blocks.iter().enumerate() {
        skipped += past(segment);
        for blocks in blocks.chunks(each) {
            let rows: usize = blocks.iter().map(|block| block.rows.len()).sum();
            let (own_out, rest_out) = out.split_at_mut(rows * shape.width());
            let (own_sums, rest_sums) = log_sums.split_at_mut(rows * shape.heads);
            tasks.push(Task { blocks: blocks.to_vec(), skipped, out: own_out, log_sums: own_sums });
            (out, log_sums) = (rest_out, rest_sums);
        }
    }
    tasks
}

impl Task<'_> {
    /// Computes the query heads of one key/value head.
    fn run(&mut self, inputs: Inputs<'_>, kv_head: usize, scores: &mut [f32]) {
        let Inputs { q, k, v, shape, layout } = inputs;
        let (dim, width, kv_width, group) = (shape.head_dim, shape.width(), shape.kv_width(), shape.group());
        let [.., last] = &*self.blocks else { return };
        let first_row = self.blocks[0].rows.start;
        let mut softmaxes = vec![OnlineSoftmax::new(); self.blocks.len() * group];
        for (index, key) in key_blocks(layout, last).iter().enumerate() {
            let k = head_rows(k, &key.rows, kv_head, dim, kv_width);
            let v = head_rows(v, &key.rows, kv_head, dim, kv_width);
            let k = Panels::of(Precision::F32, k.transposed(), Workers::One);
            let v = Panels::of(Precision::F32, v, Workers::One);
            for (block, softmaxes) in self.blocks.iter().zip(softmaxes.chunks_exact_mut(group)) {
                let (len, n) = (block.rows.len(), key.visible_to(block));
                if n == 0 {
                    continue;
                }
                for (member, softmax) in softmaxes.iter_mut().enumerate() {
                    let head = kv_head * group + member;
                    let asking = block.rows.start - self.skipped..block.rows.end - self.skipped;
                    let q = head_rows(q, &asking, head, dim, width);
                    let scores = &mut scores[..len * n];
                    let to = ViewMut::new(scores, len, n);
                    multiply_packed(to, Write::Set, shape.scale(), q, k.first(dim, n), Workers::One);
                    let out = &mut self.out[(block.rows.start - first_row) * width + head * dim..];
                    simd(
                        #[inline(always)]
                        || softmax.update(scores, block, key, n, index > 0, out, dim, width),
                    );
                    let write = if index == 0 { Write::Set } else { Write::Add };
                    let (out, p) = (ViewMut::strided(out, len, dim, width), View::new(&*scores, len, n));
                    multiply_packed(out, write, 1.0, p, v.first(n, dim), Workers::One);
                }
            }
        }
        for (block, softmaxes) in self.blocks.iter().zip(softmaxes.chunks_exact(group)) {
            let first = block.rows.start - first_row;
            for (member, softmax) in softmaxes.iter().enumerate() {
                let head = kv_head * group + member;
                simd(
                    #[inline(always)]
                    || {
                        for row in 0..block.rows.len() {
                            let out = &mut self.out[(first + row) * width + head * dim..][..dim];
                            let inverse = 1.0 / softmax.sums[row];
                            vector::scale(out, inverse);
                            self.log_sums[(first + row) * shape.heads + head] =
                                softmax.maxima[row] + softmax.sums[row].ln();
                        }
                    },
                );
            }
        }
    }
}

/// Maximum and sum of exponentials of each query row over the keys seen so far.
#[derive(Clone)]
struct OnlineSoftmax {
    maxima: [f32; QUERY_ROWS],
    sums: [f32; QUERY_ROWS],
}

impl OnlineSoftmax {
    fn new() -> Self {
        OnlineSoftmax { maxima: [f32::NEG_INFINITY; QUERY_ROWS], sums: [0.0; QUERY_ROWS] }
    }

    /// Turns the scores of the first `n` keys of a block into unnormalised probabilities; if the maximum rises, scales
    /// down what `out` (the head's columns from the first row on, rows `width` apart) already holds.
    #[inline(always)]
    fn update(
        &mut self,
        scores: &mut [f32],
        block: &QueryBlock,
        key: &KeyBlock,
        n: usize,
        rescale: bool,
        out: &mut [f32],
        dim: usize,
        width: usize,
    ) {
        for (row, scores) in scores.chunks_exact_mut(n).enumerate() {
            let (seen, unseen) = scores.split_at_mut(key.visible(block.rows.start + row));
            unseen.fill(0.0);
            let maximum = vector::max(seen).max(self.maxima[row]);
            if rescale && maximum > self.maxima[row] {
                let factor = vector::exp(self.maxima[row] - maximum);
                self.sums[row] *= factor;
                vector::scale(&mut out[row * width..][..dim], factor);
            }
            self.sums[row] += vector::exp_shifted(seen, maximum);
            self.maxima[row] = maximum;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::random;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn rows_behind_a_past_are_given_the_bits_of_the_whole(
            lens in prop::collection::vec((1_usize..700, 0_usize..700), 1..4),
            kv_heads in 1_usize..3, group in 1_usize..4, head_dim in 1_usize..40,
        ) {
            let shape = HeadShape { heads: kv_heads * group, kv_heads, head_dim };
            let (lens, pasts): (Vec<usize>, Vec<usize>) =
                lens.into_iter().map(|(len, past)| (len, past % len)).unzip();
            let layout = Layout::causal(&lens);
            let q = random(1, layout.rows() * shape.width());
            let [k, v] = [2, 3].map(|seed| random(seed, layout.rows() * shape.kv_width()));
            let (whole, _) = forward(Inputs { q: &q, k: &k, v: &v, shape, layout: &layout });
            let behind = |data: &[f32]| -> Vec<f32> {
                let rows = layout.segments().iter().zip(&pasts);
                let rows = rows.flat_map(|(segment, past)| segment.start + past..segment.start + segment.len);
                rows.flat_map(|row| data[row * shape.width()..][..shape.width()].to_vec()).collect()
            };
            let continued = continued_attention(&behind(&q), &k, &v, shape, &layout, &pasts);
            let bits = |data: &[f32]| -> Vec<u32> { data.iter().map(|x| x.to_bits()).collect() };
            prop_assert_eq!(bits(&continued), bits(&behind(&whole)));
        }
    }
}
