//! Gradient of attention: probabilities are recomputed from the saved log-sum-exp (Dao et al. 2022).
//!
//! With `P = exp(q kᵀ s - lse)`, `s` the scale, and `D = Σ_columns(d_out ⊙ out)` of a row:
//! `d_v = Pᵀ d_out`, `d_S = P ⊙ (d_out vᵀ - D) s`, `d_q = d_S k`, `d_k = d_Sᵀ q`.

use std::ops::Range;

use rayon::prelude::*;

use super::attention::{
    HeadShape, Inputs, KEY_ROWS, KeyBlock, QUERY_ROWS, QueryBlock, head_rows, own_key_blocks, query_blocks,
};
use crate::{
    Buffer, Precision,
    gemm::{Panels, View, ViewMut, Workers, Write, multiply, multiply_packed},
    parallel,
    vector::{self, simd},
};

/// The results of the forward pass, and the gradient of its output.
#[derive(Clone, Copy)]
pub(crate) struct Outputs<'a> {
    /// `[rows, heads · head_dim]`.
    pub(crate) out: &'a [f32],
    /// `[rows, heads]`.
    pub(crate) log_sums: &'a [f32],
    /// `[rows, heads · head_dim]`.
    pub(crate) d_out: &'a [f32],
}

/// Gradients of queries, keys and values.
pub(crate) struct Gradients {
    pub(crate) d_q: Buffer,
    pub(crate) d_k: Buffer,
    pub(crate) d_v: Buffer,
}

/// Gradients of one key/value head and its query heads in an island, each as a matrix without gaps.
struct Part {
    /// `[rows, group · head_dim]`.
    d_q: Buffer,
    /// `[rows, head_dim]`.
    d_k: Buffer,
    /// `[rows, head_dim]`.
    d_v: Buffer,
}

/// The gradients. A task is one key/value head in one island, because gradients of keys are sums over query heads and
/// descendant segments; these sums stay within a task.
pub(crate) fn backward(inputs: Inputs<'_>, outputs: Outputs<'_>) -> Gradients {
    let Inputs { shape, layout, .. } = inputs;
    let tasks: Vec<(Range<usize>, usize)> = layout
        .islands()
        .iter()
        .flat_map(|island| (0..shape.kv_heads).map(|kv_head| (island.clone(), kv_head)))
        .collect();
    let parts: Vec<Part> =
        tasks.par_iter().map(|(island, kv_head)| part(inputs, outputs, island.clone(), *kv_head)).collect();
    let group_dim = shape.group() * shape.head_dim;
    Gradients {
        d_q: join(inputs, &parts, |part| &part.d_q, group_dim),
        d_k: join(inputs, &parts, |part| &part.d_k, shape.head_dim),
        d_v: join(inputs, &parts, |part| &part.d_v, shape.head_dim),
    }
}

/// Puts the heads' matrices of `dim` columns side by side.
fn join(inputs: Inputs<'_>, parts: &[Part], of: impl Fn(&Part) -> &Buffer + Sync, dim: usize) -> Buffer {
    let Inputs { shape, layout, .. } = inputs;
    let width = shape.kv_heads * dim;
    let mut joined = Buffer::scratch(layout.rows() * width);
    let mut rest = &mut joined[..];
    for (island, parts) in layout.islands().iter().zip(parts.chunks_exact(shape.kv_heads)) {
        let rows = island_rows(inputs, island);
        let (own, after) = rest.split_at_mut(rows.len() * width);
        parallel::for_rows(own, width, |first, own| {
            for (row, own) in own.chunks_exact_mut(width).enumerate() {
                for (head, part) in own.chunks_exact_mut(dim).zip(parts) {
                    head.copy_from_slice(&of(part)[(first + row) * dim..][..dim]);
                }
            }
        });
        rest = after;
    }
    joined
}

fn island_rows(inputs: Inputs<'_>, island: &Range<usize>) -> Range<usize> {
    let segments = &inputs.layout.segments()[island.clone()];
    let start = segments.first().map_or(0, |segment| segment.start);
    start..segments.last().map_or(start, |segment| segment.rows().end)
}

fn part(inputs: Inputs<'_>, outputs: Outputs<'_>, island: Range<usize>, kv_head: usize) -> Part {
    let HeadShape { head_dim: dim, .. } = inputs.shape;
    let group = inputs.shape.group();
    let rows = island_rows(inputs, &island);
    let mut part = Part {
        d_q: Buffer::zeros(rows.len() * group * dim),
        d_k: Buffer::zeros(rows.len() * dim),
        d_v: Buffer::zeros(rows.len() * dim),
    };
    let mut scratch =
        Scratch { p: Buffer::scratch(QUERY_ROWS * KEY_ROWS), d_s: Buffer::scratch(QUERY_ROWS * KEY_ROWS) };
    let heads: Vec<Head> = (0..group)
        .map(|member| Head { member, head: kv_head * group + member, first_row: rows.start })
        .collect();
    let layout = inputs.layout;
    let blocks: Vec<QueryBlock> = island.clone().flat_map(|segment| query_blocks(layout, segment)).collect();
    let sums = |block: &QueryBlock| -> Vec<_> {
        heads.iter().map(|head| row_sums(inputs.shape, outputs, block, head.head)).collect()
    };
    let sums: Vec<Vec<[f32; QUERY_ROWS]>> = blocks.iter().map(sums).collect();
    for segment in island {
        for key in own_key_blocks(layout, segment) {
            let packed = PackedKeys::new(inputs, &key, kv_head);
            for (block, sums) in blocks.iter().zip(&sums) {
                let Some(key) = key.seen_from(layout, segment, block) else { continue };
                for (head, sums) in heads.iter().zip(sums) {
                    block_pair(inputs, outputs, head, block, &key, &packed, sums, &mut scratch, &mut part);
                }
            }
        }
    }
    part
}

/// Keys and values of a block, packed for all products in which they are the right operand.
struct PackedKeys {
    /// `[dim, rows]`.
    k_turned: Panels,
    v_turned: Panels,
    /// `[rows, dim]`.
    k: Panels,
}

impl PackedKeys {
    fn new(inputs: Inputs<'_>, key: &KeyBlock, kv_head: usize) -> Self {
        let (dim, kv_width) = (inputs.shape.head_dim, inputs.shape.kv_width());
        let k = head_rows(inputs.k, &key.rows, kv_head, dim, kv_width);
        let v = head_rows(inputs.v, &key.rows, kv_head, dim, kv_width);
        let pack = |view| Panels::of(Precision::F32, view, Workers::One);
        PackedKeys { k_turned: pack(k.transposed()), v_turned: pack(v.transposed()), k: pack(k) }
    }
}

/// The head that a task is working on.
struct Head {
    /// Index within the group of the key/value head.
    member: usize,
    head: usize,
    /// First row of the island.
    first_row: usize,
}

/// Two blocks of scores.
struct Scratch {
    p: Buffer,
    d_s: Buffer,
}

/// `Σ_columns(d_out ⊙ out)` of the block's rows.
fn row_sums(shape: HeadShape, outputs: Outputs<'_>, block: &QueryBlock, head: usize) -> [f32; QUERY_ROWS] {
    let mut sums = [0.0; QUERY_ROWS];
    simd(
        #[inline(always)]
        || {
            for (sum, row) in sums.iter_mut().zip(block.rows.clone()) {
                let at = row * shape.width() + head * shape.head_dim;
                *sum =
                    vector::dot(&outputs.out[at..][..shape.head_dim], &outputs.d_out[at..][..shape.head_dim]);
            }
        },
    );
    sums
}

/// Adds the contribution of one block of queries and one of keys.
fn block_pair(
    inputs: Inputs<'_>,
    outputs: Outputs<'_>,
    head: &Head,
    block: &QueryBlock,
    key: &KeyBlock,
    packed: &PackedKeys,
    sums: &[f32; QUERY_ROWS],
    scratch: &mut Scratch,
    part: &mut Part,
) {
    let shape = inputs.shape;
    let (dim, width) = (shape.head_dim, shape.width());
    let (len, n) = (block.rows.len(), key.rows.len());
    let q = head_rows(inputs.q, &block.rows, head.head, dim, width);
    let d_out = head_rows(outputs.d_out, &block.rows, head.head, dim, width);
    let p = &mut scratch.p[..len * n];
    let d_s = &mut scratch.d_s[..len * n];

    let (k_turned, v_turned) = (packed.k_turned.first(dim, n), packed.v_turned.first(dim, n));
    multiply_packed(ViewMut::new(p, len, n), Write::Set, shape.scale(), q, k_turned, Workers::One);
    multiply_packed(ViewMut::new(d_s, len, n), Write::Set, 1.0, d_out, v_turned, Workers::One);
    simd(
        #[inline(always)]
        || probabilities(p, d_s, outputs, head.head, shape, block, key, sums),
    );

    let p = View::new(&*p, len, n);
    let d_s = View::new(&*d_s, len, n);
    let d_k = &mut part.d_k[(key.rows.start - head.first_row) * dim..];
    let d_v = &mut part.d_v[(key.rows.start - head.first_row) * dim..];
    let group_dim = shape.group() * dim;
    let d_q = &mut part.d_q[(block.rows.start - head.first_row) * group_dim + head.member * dim..];
    multiply(ViewMut::new(d_v, n, dim), Write::Add, 1.0, p.transposed(), d_out, Workers::One);
    multiply(ViewMut::new(d_k, n, dim), Write::Add, 1.0, d_s.transposed(), q, Workers::One);
    let d_q = ViewMut::strided(d_q, len, dim, group_dim);
    multiply_packed(d_q, Write::Add, 1.0, d_s, packed.k.first(n, dim), Workers::One);
}

/// Turns scores into probabilities, and `d_out vᵀ` into the gradient of the unscaled scores.
#[inline(always)]
fn probabilities(
    p: &mut [f32],
    d_s: &mut [f32],
    outputs: Outputs<'_>,
    head: usize,
    shape: HeadShape,
    block: &QueryBlock,
    key: &KeyBlock,
    sums: &[f32; QUERY_ROWS],
) {
    let n = key.rows.len();
    for (row, (p, d_s)) in p.chunks_exact_mut(n).zip(d_s.chunks_exact_mut(n)).enumerate() {
        let log_sum = outputs.log_sums[(block.rows.start + row) * shape.heads + head];
        let seen = key.visible(block.rows.start + row);
        p[seen..].fill(0.0);
        d_s[seen..].fill(0.0);
        for (p, d_s) in p[..seen].iter_mut().zip(&mut d_s[..seen]) {
            *p = vector::exp(*p - log_sum);
            *d_s = *p * (*d_s - sums[row]) * shape.scale();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Layout, Segment, Visibility,
        ops::attention::forward,
        reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    /// Random forests: for each segment a length, a number that picks its parent, and how its rows see each other.
    fn layouts(len_max: usize) -> impl Strategy<Value = Layout> {
        let visibility = prop::sample::select(vec![Visibility::Causal, Visibility::Bidirectional]);
        prop::collection::vec((0..=len_max, 0_usize..100, visibility), 1..6).prop_map(|draws| {
            let mut start = 0;
            let segment = |(index, (len, draw, visibility)): (usize, (usize, usize, Visibility))| {
                let parent = (draw % (index + 1) < index).then_some(draw % (index + 1));
                let segment = Segment { start, len, parent, visibility };
                start += len;
                segment
            };
            Layout::new(draws.into_iter().enumerate().map(segment).collect()).unwrap()
        })
    }

    fn shapes() -> impl Strategy<Value = HeadShape> {
        (1_usize..3, 1_usize..3, 1_usize..9).prop_map(|(kv_heads, group, head_dim)| HeadShape {
            heads: kv_heads * group,
            kv_heads,
            head_dim,
        })
    }

    struct Case {
        q: Vec<f32>,
        k: Vec<f32>,
        v: Vec<f32>,
        d_out: Vec<f32>,
        shape: HeadShape,
        layout: Layout,
    }

    impl Case {
        fn new(shape: HeadShape, layout: Layout) -> Self {
            let rows = layout.rows();
            let q = random(1, rows * shape.width()).iter().map(|q| 3.0 * q).collect();
            let [k, v] = [2, 3].map(|seed| random(seed, rows * shape.kv_width()));
            Case { q, k, v, d_out: random(4, rows * shape.width()), shape, layout }
        }

        fn inputs(&self) -> Inputs<'_> {
            Inputs { q: &self.q, k: &self.k, v: &self.v, shape: self.shape, layout: &self.layout }
        }

        fn reference(&self, q: &[f64], k: &[f64], v: &[f64]) -> Vec<f64> {
            reference::attention(q, k, v, self.shape, &self.layout)
        }

        fn gradients(&self) -> Gradients {
            let (out, log_sums) = forward(self.inputs());
            backward(self.inputs(), Outputs { out: &out, log_sums: &log_sums, d_out: &self.d_out })
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn outputs_are_those_of_the_reference(shape in shapes(), layout in layouts(150)) {
            let case = Case::new(shape, layout);
            let expected = case.reference(&wide(&case.q), &wide(&case.k), &wide(&case.v));
            assert_close(&forward(case.inputs()).0, &expected, 2e-6);
        }

        #[test]
        fn gradients_are_those_of_the_reference(shape in shapes(), layout in layouts(4)) {
            let case = Case::new(shape, layout);
            let (q, k, v) = (wide(&case.q), wide(&case.k), wide(&case.v));
            let gradients = case.gradients();
            assert_gradient(&gradients.d_q, &case.q, |q| weighted(&case.d_out, &case.reference(q, &k, &v)), 1e-5);
            assert_gradient(&gradients.d_k, &case.k, |k| weighted(&case.d_out, &case.reference(&q, k, &v)), 1e-5);
            assert_gradient(&gradients.d_v, &case.v, |v| weighted(&case.d_out, &case.reference(&q, &k, v)), 1e-5);
        }
    }

    /// Several blocks of queries and of keys, in an ancestor and in the own segment.
    fn long_case(visibility: Visibility) -> Case {
        let segments = vec![
            Segment { visibility, ..Segment::causal(0, KEY_ROWS + 9, None) },
            Segment { visibility, ..Segment::causal(KEY_ROWS + 9, KEY_ROWS + QUERY_ROWS + 5, Some(0)) },
        ];
        Case::new(HeadShape { heads: 2, kv_heads: 1, head_dim: 4 }, Layout::new(segments).unwrap())
    }

    #[test]
    fn outputs_over_many_blocks_are_those_of_the_reference() {
        for visibility in [Visibility::Causal, Visibility::Bidirectional] {
            let case = long_case(visibility);
            let expected = case.reference(&wide(&case.q), &wide(&case.k), &wide(&case.v));
            assert_close(&forward(case.inputs()).0, &expected, 2e-6);
        }
    }

    #[test]
    fn gradients_over_many_blocks_are_those_of_the_reference() {
        for visibility in [Visibility::Causal, Visibility::Bidirectional] {
            gradients_are_those_of_the_reference_along_directions(&long_case(visibility));
        }
    }

    fn gradients_are_those_of_the_reference_along_directions(case: &Case) {
        let (q, k, v) = (wide(&case.q), wide(&case.k), wide(&case.v));
        let gradients = case.gradients();
        // Along one random direction per input: the sum over all elements of gradient times direction.
        let check = |gradient: &[f32], loss: &dyn Fn(&[f64]) -> f64| {
            let direction = random(9, gradient.len());
            let along: f64 = weighted(gradient, &wide(&direction));
            let moved = |step: f64| loss(&direction.iter().map(|&d| step * f64::from(d)).collect::<Vec<_>>());
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!(
                (along - difference).abs() < 1e-4 * (1.0 + difference.abs()),
                "{along} is not {difference}"
            );
        };
        let plus = |x: &[f64], step: &[f64]| x.iter().zip(step).map(|(x, s)| x + s).collect::<Vec<_>>();
        check(&gradients.d_q, &|step| weighted(&case.d_out, &case.reference(&plus(&q, step), &k, &v)));
        check(&gradients.d_k, &|step| weighted(&case.d_out, &case.reference(&q, &plus(&k, step), &v)));
        check(&gradients.d_v, &|step| weighted(&case.d_out, &case.reference(&q, &k, &plus(&v, step))));
    }

    #[test]
    fn scores_far_from_zero_neither_overflow_nor_vanish() {
        let mut case = Case::new(HeadShape { heads: 1, kv_heads: 1, head_dim: 4 }, Layout::causal(&[600]));
        // Scores that rise to thousands: every block of keys raises the maximum.
        case.q.fill(40.0);
        case.k.iter_mut().enumerate().for_each(|(index, k)| *k = index as f32 * 0.02);
        let out = forward(case.inputs()).0;
        assert_close(&out[599 * 4..], &wide(&case.v[599 * 4..]), 0.25);
        assert!(out.iter().chain(case.gradients().d_k.iter()).all(|x| x.is_finite()));
    }
}
