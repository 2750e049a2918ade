//! Grouped-query attention over a forest of segments, forward and backward.

use std::sync::Arc;

use super::forest::{Forest, Uploaded};
use crate::{
    HeadShape,
    cuda::{Argument, Buffer, Cuda, Slice, int, long, modules::Program, plan::Plan},
};

/// Threads of a block.
const THREADS: usize = 256;

/// Bytes of shared memory for `tiles` tiles of rows and one of weights, as `kernels/attention.cu` lays them out.
fn shared_bytes(head_dim: usize, tile: usize, tiles: usize) -> usize {
    let stride = head_dim.next_multiple_of(16) + 4;
    size_of::<f32>() * (tiles * tile * stride + tile * (tile + 4))
}

/// The largest tile for which the backward pass fits into `shared_bytes_max`; the smallest if none does.
pub(crate) fn tile_of(head_dim: usize, shared_bytes_max: usize) -> usize {
    let fits = |tile: &usize| shared_bytes(head_dim, *tile, 4) <= shared_bytes_max;
    [64, 32].into_iter().find(fits).unwrap_or(16)
}

/// Queries, keys and values of a packed batch: `[rows, heads · head_dim]`, twice `[rows, kv_heads · head_dim]`.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) q: Slice<'a, f32>,
    pub(crate) k: Slice<'a, f32>,
    pub(crate) v: Slice<'a, f32>,
    pub(crate) shape: HeadShape,
    pub(crate) forest: &'a Forest,
}

impl Inputs<'_> {
    fn check(&self) {
        let (rows, shape) = (self.forest.rows, self.shape);
        assert!(shape.heads.is_multiple_of(shape.kv_heads), "{shape:?}");
        assert_eq!(self.q.len(), rows * shape.width(), "queries are not [rows, heads * head_dim]");
        assert_eq!(self.k.len(), rows * shape.kv_width(), "keys are not [rows, kv_heads * head_dim]");
        assert_eq!(self.v.len(), rows * shape.kv_width(), "values are not [rows, kv_heads * head_dim]");
    }

    fn program(&self) -> Program {
        Program::Attention { head_dim: self.shape.head_dim, tile: self.forest.tile }
    }

    fn plan(&self, walk: &Uploaded, heads: usize, tiles: usize) -> Plan {
        let shared = shared_bytes(self.shape.head_dim, self.forest.tile, tiles);
        Plan::blocks(walk.count, heads, THREADS).with_shared(shared)
    }

    /// Launches one of the kernels over tiles; `outputs` and `saved` come before and after q, k, v.
    fn launch(
        &self,
        cuda: &Cuda,
        name: &str,
        (walk, heads, tiles): (&Uploaded, usize, usize),
        outputs: &[Argument],
        saved: &[Argument],
    ) {
        let mut arguments = outputs.to_vec();
        arguments.extend([self.q, self.k, self.v].map(Argument::from));
        arguments.extend_from_slice(saved);
        arguments.extend_from_slice(&[
            walk.tasks.all().into(),
            walk.ranges.all().into(),
            int(self.shape.heads),
            int(self.shape.kv_heads),
            self.shape.scale().into(),
        ]);
        cuda.launch(self.program(), name, self.plan(walk, heads, tiles), &mut arguments);
    }
}

/// The output `[rows, heads · head_dim]`, and what the backward pass needs: the logarithm to base 2 of the sums of
/// exponentials `[rows, heads]`.
pub(crate) fn forward(cuda: &Arc<Cuda>, inputs: Inputs<'_>) -> (Buffer<f32>, Buffer<f32>) {
    inputs.check();
    let mut out = Buffer::uninit(cuda, inputs.q.len());
    let mut log_sums = Buffer::uninit(cuda, inputs.forest.rows * inputs.shape.heads);
    let outputs = [out.all_mut().into(), log_sums.all_mut().into()];
    let work = (&inputs.forest.queries, inputs.shape.heads, 2);
    inputs.launch(cuda, "attention_forward", work, &outputs, &[]);
    (out, log_sums)
}

/// What the forward pass left behind, and the gradient of its output.
#[derive(Clone, Copy)]
pub(crate) struct Outputs<'a> {
    /// `[rows, heads · head_dim]`.
    pub(crate) out: Slice<'a, f32>,
    /// `[rows, heads]`.
    pub(crate) log_sums: Slice<'a, f32>,
    /// `[rows, heads · head_dim]`.
    pub(crate) d_out: Slice<'a, f32>,
}

/// Gradients of queries, keys and values.
pub(crate) struct Gradients {
    pub(crate) d_q: Buffer<f32>,
    pub(crate) d_k: Buffer<f32>,
    pub(crate) d_v: Buffer<f32>,
}

/// The gradients; probabilities are computed again.
pub(crate) fn backward(cuda: &Arc<Cuda>, inputs: Inputs<'_>, outputs: Outputs<'_>) -> Gradients {
    inputs.check();
    let Inputs { shape, forest, .. } = inputs;
    let Outputs { out, log_sums, d_out } = outputs;
    let n = forest.rows * shape.heads;
    assert_eq!((out.len(), d_out.len()), (inputs.q.len(), inputs.q.len()), "outputs are shaped like queries");
    assert_eq!(log_sums.len(), n, "one sum for each row and head");
    let mut row_sums = Buffer::<f32>::uninit(cuda, n);
    let arguments = &mut [row_sums.all_mut().into(), out.into(), d_out.into(), long(n)];
    let plan = Plan::blocks(n.div_ceil(THREADS / 32), 1, THREADS);
    cuda.launch(inputs.program(), "attention_row_sums", plan, arguments);

    let [mut d_q, mut d_k, mut d_v] =
        [inputs.q.len(), inputs.k.len(), inputs.v.len()].map(|len| Buffer::uninit(cuda, len));
    let saved = [d_out.into(), log_sums.into(), row_sums.all().into()];
    let work = (&forest.queries, shape.heads, 4);
    inputs.launch(cuda, "attention_backward_queries", work, &[d_q.all_mut().into()], &saved);
    let into = [d_k.all_mut().into(), d_v.all_mut().into()];
    let work = (&forest.keys, shape.kv_heads, 4);
    inputs.launch(cuda, "attention_backward_keys", work, &into, &saved);
    Gradients { d_q, d_k, d_v }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Layout, Segment,
        cuda::testing::{ATTENTION, device},
        ops, reference,
        testing::{assert_close, random, wide},
    };

    #[test]
    fn tiles_fit_the_shared_memory_of_cards() {
        let (h100, a100, ada) = (227 << 10, 163 << 10, 99 << 10);
        assert_eq!([32, 64, 80, 128, 256].map(|dim| tile_of(dim, h100)), [64, 64, 64, 64, 32]);
        assert_eq!([64, 128, 256].map(|dim| tile_of(dim, a100)), [64, 64, 32]);
        assert_eq!([64, 128, 256].map(|dim| tile_of(dim, ada)), [64, 32, 16]);
        for dim in [1, 17, 64, 96, 128, 256] {
            for bytes in [h100, a100, ada] {
                assert!(shared_bytes(dim, tile_of(dim, bytes), 4) <= bytes);
            }
        }
    }

    struct Case {
        q: Vec<f32>,
        k: Vec<f32>,
        v: Vec<f32>,
        d_out: Vec<f32>,
        shape: HeadShape,
        layout: Layout,
        tile: usize,
    }

    impl Case {
        fn new((head_dim, tile): (usize, usize), (kv_heads, group): (usize, usize), layout: Layout) -> Self {
            let shape = HeadShape { heads: kv_heads * group, kv_heads, head_dim };
            let rows = layout.rows();
            let q = random(1, rows * shape.width()).iter().map(|q| 3.0 * q).collect();
            let [k, v] = [2, 3].map(|seed| random(seed, rows * shape.kv_width()));
            Case { q, k, v, d_out: random(4, rows * shape.width()), shape, layout, tile }
        }

        /// The output and the gradients.
        fn run(&self, cuda: &Arc<Cuda>) -> [Vec<f32>; 4] {
            let forest = Forest::upload(cuda, &self.layout, self.tile);
            let [q, k, v, d_out] = [&self.q, &self.k, &self.v, &self.d_out].map(|x| Buffer::upload(cuda, x));
            let inputs = Inputs { q: q.all(), k: k.all(), v: v.all(), shape: self.shape, forest: &forest };
            let (out, log_sums) = forward(cuda, inputs);
            let outputs = Outputs { out: out.all(), log_sums: log_sums.all(), d_out: d_out.all() };
            let Gradients { d_q, d_k, d_v } = backward(cuda, inputs, outputs);
            [out, d_q, d_k, d_v].map(|x| x.download().unwrap())
        }

        /// Against the reference, and for the gradients against the CPU's, which are tested against the reference.
        fn check(&self, cuda: &Arc<Cuda>) {
            let [out, d_q, d_k, d_v] = self.run(cuda);
            let expected = reference::attention(
                &wide(&self.q),
                &wide(&self.k),
                &wide(&self.v),
                self.shape,
                &self.layout,
            );
            assert_close(&out, &expected, 5e-6);
            let (q, k, v, shape, layout) = (&self.q, &self.k, &self.v, self.shape, &self.layout);
            let inputs = ops::attention::Inputs { q, k, v, shape, layout };
            let (out, log_sums) = ops::attention::forward(inputs);
            let outputs =
                ops::attention_backward::Outputs { out: &out, log_sums: &log_sums, d_out: &self.d_out };
            let gradients = ops::attention_backward::backward(inputs, outputs);
            assert_close(&d_q, &wide(&gradients.d_q), 2e-5);
            assert_close(&d_k, &wide(&gradients.d_k), 2e-5);
            assert_close(&d_v, &wide(&gradients.d_v), 2e-5);
        }
    }

    fn forest(parts: &[(usize, Option<usize>)]) -> Layout {
        let mut start = 0;
        let segments = parts.iter().map(|&(len, parent)| {
            start += len;
            Segment { start: start - len, len, parent }
        });
        Layout::new(segments.collect()).unwrap()
    }

    #[test]
    fn outputs_and_gradients_are_those_of_the_cpu_for_every_tile() {
        let Some(cuda) = device() else { return };
        for kernels in ATTENTION {
            // Lengths around multiples of the tile; a tree of depth 3 with an empty segment; one row.
            let tile = kernels.1;
            Case::new(kernels, (1, 2), Layout::causal(&[1, tile, 2 * tile + 3])).check(&cuda);
            let tree = [
                (tile + 5, None),
                (3, Some(0)),
                (0, Some(1)),
                (7, Some(2)),
                (tile + 1, Some(0)),
                (2, None),
                (4, Some(5)),
            ];
            Case::new(kernels, (2, 2), forest(&tree)).check(&cuda);
            Case::new(kernels, (2, 1), forest(&[(1, None), (1, Some(0))])).check(&cuda);
        }
        Case::new(ATTENTION[0], (1, 1), Layout::causal(&[])).check(&cuda);
    }

    #[test]
    fn scores_far_from_zero_neither_overflow_nor_vanish() {
        let Some(cuda) = device() else { return };
        let mut case = Case::new(ATTENTION[0], (1, 1), Layout::causal(&[70]));
        // Rising scores up to thousands: every tile of keys raises the maximum.
        case.q.fill(40.0);
        case.k.iter_mut().enumerate().for_each(|(index, k)| *k = index as f32 * 0.1);
        let [out, d_q, d_k, d_v] = case.run(&cuda);
        assert_close(&out[69 * 6..], &wide(&case.v[69 * 6..]), 1e-5);
        assert!(out.iter().chain(&d_q).chain(&d_k).chain(&d_v).all(|x| x.is_finite()));
    }

    #[test]
    fn what_a_row_cannot_see_changes_nothing() {
        let Some(cuda) = device() else { return };
        let layout = || forest(&[(9, None), (20, Some(0)), (20, Some(0))]);
        let mut case = Case::new(ATTENTION[0], (1, 2), layout());
        let [before, ..] = case.run(&cuda);
        let width = case.shape.kv_width();
        // A key in the middle of the second segment: seen by the rows after it there, by nobody in the third.
        case.k[19 * width..20 * width].fill(f32::NAN);
        let [after, ..] = case.run(&cuda);
        let width = case.shape.width();
        assert_eq!(before[..19 * width], after[..19 * width]);
        assert_eq!(before[29 * width..], after[29 * width..]);
        assert!(after[19 * width..29 * width].iter().all(|x| x.is_nan()));
    }
}
