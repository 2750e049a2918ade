//! What a decoding step does between its projections and its attention, in one kernel.

use std::sync::Arc;

use super::{Cache, Slots};
use crate::{
    HeadShape,
    cuda::{
        Argument, Cuda, int,
        launch_shape::LaunchShape,
        long,
        modules::Program::Decode,
        ops::{norm::Factors, rope::Angles},
        values::{Elements, Values},
    },
};

/// Warps of a block.
const WARPS: usize = 8;

/// Projected rows, and how they become heads.
pub(crate) struct Heads<'a> {
    /// Queries, keys and values, each from its first element on, with the number of elements from one row to the next.
    pub(crate) projected: [(Elements<'a>, usize); 3],
    /// The norms of the heads of queries and keys.
    pub(crate) norms: Option<[Factors<'a>; 2]>,
    pub(crate) eps: f32,
    pub(crate) angles: &'a Angles,
    pub(crate) shape: HeadShape,
}

/// Norms and rotates queries and keys, and writes keys and values at `layer`; returns the queries
/// `[slots, heads · head_dim]`. To the bit what a norm, a rotation and [`super::write`] give.
pub(crate) fn place(
    cuda: &Arc<Cuda>,
    cache: &mut Cache,
    layer: usize,
    slots: &Slots,
    inputs: Heads<'_>,
) -> Values {
    let Heads { projected: [(q, q_stride), (k, kv_stride), (v, v_stride)], norms, eps, angles, shape } =
        inputs;
    let HeadShape { heads, kv_heads, head_dim } = shape;
    let (rows, pairs, page_len) =
        (slots.slots.len(), angles.pairs, Cache::page_len(cache.layers, cache.width));
    assert_eq!((cache.width, kv_stride), (shape.kv_width(), v_stride), "columns of keys and values");
    assert!(angles.rows.len() == rows && 2 * pairs <= head_dim, "angles of {rows} rows");
    for (x, stride, cols) in
        [(q, q_stride, shape.width()), (k, kv_stride, cache.width), (v, v_stride, cache.width)]
    {
        let needed = if rows == 0 { 0 } else { (rows - 1) * stride + cols };
        assert!(stride >= cols && x.len() >= needed, "{} elements for {rows} rows of {cols}", x.len());
    }
    let (weights, offset) = match norms {
        Some(norms) => {
            let [q, k] = norms.map(|norm| (norm.weight.len(), norm.offset));
            assert!(q == k && q.0 == head_dim, "norms of heads");
            (norms.map(|norm| norm.weight.into()), q.1)
        }
        None => ([Argument::null::<f32>(); 2], 0.0),
    };
    let mut out = Values::uninit(cuda, q.precision(), rows * shape.width());
    let [q_weight, k_weight] = weights;
    let name = q.kernel(["place_heads_f32", "place_heads_bf16"]);
    let arguments = &mut [
        out.all_mut().into(),
        cache.at_mut(layer).into(),
        q.into(),
        k.into(),
        v.into(),
        int(q_stride),
        int(kv_stride),
        q_weight,
        k_weight,
        offset.into(),
        eps.into(),
        angles.table.all().into(),
        angles.rows.all().into(),
        int(pairs),
        slots.slots.all().into(),
        long(page_len),
        long(rows),
        int(heads),
        int(kv_heads),
        int(head_dim),
    ];
    let blocks = (rows * (heads + 2 * kv_heads)).div_ceil(WARPS);
    let plan = LaunchShape::blocks(blocks, 1, 32 * WARPS).with_shared(size_of::<f32>() * WARPS * head_dim);
    cuda.launch(Decode, name, plan, arguments);
    out
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};
    use crate::{
        Rope,
        cuda::{
            ops::{norm, rope},
            testing::{PRECISIONS, device, rounded},
        },
        ops::rope::Turn,
        testing::{random, random_ids},
    };

    const EPS: f32 = 1e-5;

    /// Rows of `x` `[rows, of]` without the other columns.
    fn columns(x: &[f32], of: usize, columns: std::ops::Range<usize>) -> Vec<f32> {
        x.chunks_exact(of).flat_map(|row| row[columns.clone()].to_vec()).collect()
    }

    #[test]
    fn heads_are_those_of_norm_and_rotation_and_lie_where_they_are_written() {
        let Some(cuda) = device() else { return };
        for (shape, pairs, rows) in
            [((4, 2, 16), 8, 5), ((3, 1, 7), 2, 3), ((2, 2, 150), 75, 2), ((9, 3, 6), 0, 4)]
        {
            let (heads, kv_heads, head_dim) = shape;
            let shape = HeadShape { heads, kv_heads, head_dim };
            let (width, kv_width) = (shape.width(), shape.kv_width());
            let total = width + 2 * kv_width;
            let rope = Rope::new((0..pairs).map(|i| 0.7_f32.powi(i)).collect(), 1.1);
            let angles = Angles::upload(&cuda, &rope, &random_ids(1, rows, 900));
            let weights = [2, 3].map(|seed| Buffer::upload(&cuda, &random(seed, head_dim)));
            let norms = [0, 1].map(|at: usize| Factors { weight: weights[at].all(), offset: 0.25 });
            let places: Vec<usize> = (0..rows).map(|row| row * 7 % (2 * PAGE_ROWS)).collect();
            for ((precision, _), norms) in
                PRECISIONS.into_iter().flat_map(|of| [(of, Some(norms)), (of, None)])
            {
                let x = rounded(precision, random(4, rows * total));
                let ends = [0, width, width + kv_width, total];
                let own = [0, 1, 2].map(|at| columns(&x, total, ends[at]..ends[at + 1]));
                let [mut q, mut k, v] = [0, 1, 2].map(|at| Values::upload(&cuda, precision, &own[at]));
                let joined = Values::upload(&cuda, precision, &x);
                let caches = || Cache::new(&cuda, precision, 2, kv_width, 2);
                let slots = Slots::upload(&cuda, &caches(), &places);
                let ours = |projected| {
                    let mut cache = caches();
                    let inputs = Heads { projected, norms, eps: EPS, angles: &angles, shape };
                    let q = place(&cuda, &mut cache, 1, &slots, inputs);
                    let [k, v] = read(&cuda, &cache, 1, &slots);
                    [q, k, v].map(|x| x.download().unwrap())
                };
                let all = joined.all();
                let joined = ours([0, 1, 2].map(|at| (all.slice(ends[at]..all.len()), total)));
                let apart = ours([(q.all(), width), (k.all(), kv_width), (v.all(), kv_width)]);
                for (at, (x, cols)) in [(&mut q, width), (&mut k, kv_width)].into_iter().enumerate() {
                    if let Some(norms) = norms {
                        *x = norm::forward(&cuda, x.all(), norms[at], EPS).0;
                    }
                    rope::rotate(&cuda, x.all_mut(), cols, head_dim, &angles, Turn::Forward);
                }
                let expected = [q, k, v].map(|x| x.download().unwrap());
                assert_eq!(joined, expected, "{shape:?} in {precision:?}");
                assert_eq!(apart, expected, "{shape:?} in {precision:?}, apart");
            }
        }
    }

    #[test]
    fn rows_without_a_slot_are_written_nowhere() {
        let Some(cuda) = device() else { return };
        let shape = HeadShape { heads: 2, kv_heads: 1, head_dim: 8 };
        let mut cache = Cache::new(&cuda, Precision::F32, 1, 8, 1);
        cache.data.all_mut().fill_zero(&cuda);
        let mut slots = Slots::with_room(&cuda, 3);
        slots.fill(&cache, &[4]);
        let angles = Angles::upload(&cuda, &Rope::new(vec![1.0], 1.0), &[0, 0, 0]);
        let x = Values::upload(&cuda, Precision::F32, &[1.0; 3 * 16]);
        let projected = [(x.all(), 16), (x.all(), 8), (x.all(), 8)];
        let inputs = Heads { projected, norms: None, eps: EPS, angles: &angles, shape };
        let q = place(&cuda, &mut cache, 0, &slots, inputs).download().unwrap();
        assert_eq!(q, [1.0; 3 * 16]);
        let written = cache.data.download().unwrap();
        assert_eq!(written.iter().filter(|&&x| x == 1.0).count(), 16);
        assert_eq!(written[4 * 8..5 * 8], [1.0; 8]);
    }
}
