//! Grouped-query attention over a forest of segments: `softmax(q kᵀ / sqrt(head_dim)) v` for every head, without
//! ever holding a whole matrix of scores (Dao et al. 2022; online softmax of Milakov & Gimelshein 2018).

use std::ops::Range;

use rayon::prelude::*;

use crate::{
    Buffer, Layout,
    gemm::{View, ViewMut, Workers, Write, multiply},
    vector::{self, simd},
};

/// Query rows worked on at once. Under a causal mask half of a diagonal block is wasted, so it is kept small.
pub(crate) const QUERY_ROWS: usize = 64;
/// Key rows worked on at once: a block of scores then takes 128 KiB.
pub(crate) const KEY_ROWS: usize = 512;

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

    /// What scores are multiplied by.
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
    let rows = layout.segments()[segment].rows();
    let end = rows.end;
    rows.step_by(QUERY_ROWS)
        .map(move |start| QueryBlock { segment, rows: start..end.min(start + QUERY_ROWS) })
}

/// Key rows that some of a block's queries see.
#[derive(Clone)]
pub(crate) struct KeyBlock {
    /// Rows of the batch.
    pub(crate) rows: Range<usize>,
    /// Whether they are of the queries' own segment, where row `i` sees rows up to `i` only.
    pub(crate) is_causal: bool,
}

impl KeyBlock {
    /// How many of these keys query row `row` sees: the first ones.
    #[inline(always)]
    pub(crate) fn visible(&self, row: usize) -> usize {
        if self.is_causal {
            (row + 1).clamp(self.rows.start, self.rows.end) - self.rows.start
        } else {
            self.rows.len()
        }
    }
}

/// What the queries of `block` see: the ancestors root first, then their own segment up to the last query.
pub(crate) fn key_blocks(layout: &Layout, block: &QueryBlock) -> Vec<KeyBlock> {
    let mut blocks = Vec::new();
    let mut cut = |rows: Range<usize>, is_causal| {
        let end = rows.end;
        blocks.extend(
            rows.step_by(KEY_ROWS)
                .map(|start| KeyBlock { rows: start..end.min(start + KEY_ROWS), is_causal }),
        );
    };
    for rows in layout.ancestors(block.segment) {
        cut(rows, false);
    }
    cut(layout.segments()[block.segment].start..block.rows.end, true);
    blocks
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
    let Inputs { q, k, v, shape, layout } = inputs;
    let rows = layout.rows();
    assert!(
        shape.heads.is_multiple_of(shape.kv_heads),
        "{} heads over {} key heads",
        shape.heads,
        shape.kv_heads
    );
    assert_eq!(q.len(), rows * shape.width(), "queries are not [rows, heads * head_dim]");
    assert_eq!(k.len(), rows * shape.kv_width(), "keys are not [rows, kv_heads * head_dim]");
    assert_eq!(v.len(), rows * shape.kv_width(), "values are not [rows, kv_heads * head_dim]");
    let mut out = Buffer::scratch(q.len());
    let mut log_sums = Buffer::scratch(rows * shape.heads);
    tasks(layout, shape, &mut out, &mut log_sums).into_par_iter().for_each_init(
        || Buffer::scratch(QUERY_ROWS * KEY_ROWS),
        |scores, (block, out, log_sums)| {
            let keys = key_blocks(layout, &block);
            for head in 0..shape.heads {
                forward_head(inputs, head, &block, &keys, scores, out, log_sums);
            }
        },
    );
    (out, log_sums)
}

type Task<'a> = (QueryBlock, &'a mut [f32], &'a mut [f32]);

/// The query blocks of all segments with their rows of the outputs.
fn tasks<'a>(
    layout: &Layout,
    shape: HeadShape,
    mut out: &'a mut [f32],
    mut log_sums: &'a mut [f32],
) -> Vec<Task<'a>> {
    let mut tasks = Vec::new();
    for block in (0..layout.segments().len()).flat_map(|segment| query_blocks(layout, segment)) {
        let (own_out, rest_out) = out.split_at_mut(block.rows.len() * shape.width());
        let (own_sums, rest_sums) = log_sums.split_at_mut(block.rows.len() * shape.heads);
        tasks.push((block, own_out, own_sums));
        (out, log_sums) = (rest_out, rest_sums);
    }
    tasks
}

/// One head of one query block. `out` and `log_sums` hold the block's rows, all heads.
fn forward_head(
    inputs: Inputs<'_>,
    head: usize,
    block: &QueryBlock,
    keys: &[KeyBlock],
    scores: &mut [f32],
    out: &mut [f32],
    log_sums: &mut [f32],
) {
    let Inputs { q, k, v, shape, .. } = inputs;
    let (dim, width, kv_width) = (shape.head_dim, shape.width(), shape.kv_width());
    let kv_head = head / shape.group();
    let q = head_rows(q, &block.rows, head, dim, width);
    let len = block.rows.len();
    let mut softmax = OnlineSoftmax::new();
    for (index, key) in keys.iter().enumerate() {
        let n = key.rows.len();
        let k = head_rows(k, &key.rows, kv_head, dim, kv_width);
        let v = head_rows(v, &key.rows, kv_head, dim, kv_width);
        let scores = &mut scores[..len * n];
        multiply(ViewMut::new(scores, len, n), Write::Set, shape.scale(), q, k.transposed(), Workers::One);
        simd(
            #[inline(always)]
            || softmax.update(scores, block, key, index > 0, &mut out[head * dim..], dim, width),
        );
        let out = ViewMut::strided(&mut out[head * dim..], len, dim, width);
        let write = if index == 0 { Write::Set } else { Write::Add };
        multiply(out, write, 1.0, View::new(&*scores, len, n), v, Workers::One);
    }
    simd(
        #[inline(always)]
        || {
            for row in 0..len {
                let out = &mut out[row * width + head * dim..][..dim];
                let inverse = 1.0 / softmax.sums[row];
                vector::scale(out, inverse);
                log_sums[row * shape.heads + head] = softmax.maxima[row] + softmax.sums[row].ln();
            }
        },
    );
}

/// Maximum and sum of exponentials of each query row over the keys seen so far.
struct OnlineSoftmax {
    maxima: [f32; QUERY_ROWS],
    sums: [f32; QUERY_ROWS],
}

impl OnlineSoftmax {
    fn new() -> Self {
        OnlineSoftmax { maxima: [f32::NEG_INFINITY; QUERY_ROWS], sums: [0.0; QUERY_ROWS] }
    }

    /// Turns the scores of one key block into unnormalised probabilities; where the maximum rises, scales down what
    /// `out` (first row's head, rows `width` apart) already holds.
    #[inline(always)]
    fn update(
        &mut self,
        scores: &mut [f32],
        block: &QueryBlock,
        key: &KeyBlock,
        rescale: bool,
        out: &mut [f32],
        dim: usize,
        width: usize,
    ) {
        for (row, scores) in scores.chunks_exact_mut(key.rows.len()).enumerate() {
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
