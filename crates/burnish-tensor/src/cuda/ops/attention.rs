//! Grouped-query attention over a forest of segments, forward and backward.

use std::sync::Arc;

use half::bf16;

use super::{
    decode::mma_decode_bytes,
    forest::{AttentionKernel, Forest, MmaTiles, Uploaded},
};
use crate::{
    HeadShape, Layout, Precision,
    cuda::{
        Argument, Buffer, Cuda, Slice, int,
        launch_shape::LaunchShape,
        long,
        modules::Program,
        tensor_map::boxes_of,
        values::{Converted, Elements, Values, to_bf16, to_f32},
    },
};

/// Threads of a block of the f32 kernels.
const THREADS: usize = 256;

/// Tiles of the kernels on tensor cores, the faster first. With heads of 128 the first takes 103 KiB, which cards of
/// 8.0, 9.0 and 10.0 have, the last two for two blocks at once; the second takes 68 KiB, because those of 8.6, 8.9 and 12.0
/// have 99. Tiles of 128 rows were slower (`bench/RESULTS.md`).
pub(crate) const MMA_TILES: [MmaTiles; 2] =
    [MmaTiles { rows: 64, columns: 64 }, MmaTiles { rows: 64, columns: 32 }];

/// The same for larger heads than [`SMALL_HEAD`]. With heads of 256 they take 198 and 132 KiB, so that a block has a
/// multiprocessor to itself: the first has eight warps there.
pub(crate) const LARGE_MMA_TILES: [MmaTiles; 2] =
    [MmaTiles { rows: 128, columns: 32 }, MmaTiles { rows: 64, columns: 32 }];

/// Most columns of a head whose gradients of keys and values one block of `kernels/attention_mma.cu` makes; those of a
/// larger one are made by two, of half the columns each.
const SMALL_HEAD: usize = 128;

/// Bytes of shared memory for `tiles` tiles of rows and one of weights, in the layout of `kernels/attention.cu`.
fn fma_bytes(head_dim: usize, tile: usize, tiles: usize) -> usize {
    let stride = head_dim.next_multiple_of(16) + 4;
    size_of::<f32>() * (tiles * tile * stride + tile * (tile + 4))
}

/// The same for `kernels/attention_mma.cu`: `fixed` tiles for a task's rows, and two for each of the two matrices that
/// it walks over.
fn mma_bytes(head_dim: usize, tiles: MmaTiles, fixed: usize) -> usize {
    let MmaTiles { rows, columns } = tiles;
    let stride = head_dim + 8;
    size_of::<bf16>() * (fixed * rows + 4 * columns) * stride + size_of::<f32>() * 2 * columns
}

/// Columns of the tiles that queries and keys walk over in `kernels/attention_wgmma.cu`, and how many it has under way.
const WGMMA_COLUMNS: [usize; 2] = [128, 64];
const WGMMA_STAGES: usize = 2;
/// Threads of its blocks: one group asks for copies, two compute.
const WGMMA_THREADS: usize = 3 * 128;

/// Bytes of shared memory there: `fixed` tiles for a task's rows, tiles of keys and values, or of queries and gradients with two
/// numbers for each query, what is told of them, barriers, and what aligns all to 1024.
fn wgmma_bytes(head_dim: usize, fixed: usize, walks: Side) -> usize {
    let columns = WGMMA_COLUMNS[walks as usize];
    let tiles = size_of::<bf16>() * head_dim * (fixed * 128 + 2 * WGMMA_STAGES * columns);
    let numbers = match walks {
        Side::Queries => 0,
        Side::Keys => size_of::<f32>() * 2 * columns * WGMMA_STAGES,
    };
    1024 + tiles + numbers + 16 * (WGMMA_STAGES + 1) + 8 * (4 * WGMMA_STAGES + 2)
}

/// Whose rows are a task's: they walk over the other's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Queries,
    Keys,
}

/// The method for whole batches: as [`method_of`], but on a card of 9.0 by its own instructions where there are kernels.
fn batch_method_of(
    head_dim: usize,
    precision: Precision,
    capability: (i32, i32),
    shared_bytes_max: usize,
) -> AttentionKernel {
    match method_of(head_dim, precision, capability, shared_bytes_max) {
        // Later cards have others.
        AttentionKernel::Mma(_) if capability == (9, 0) && [64, 128].contains(&head_dim) => {
            AttentionKernel::Wgmma
        }
        method => method,
    }
}

/// The method of attention for a card of this compute capability with this much shared memory per block. Tensor cores,
/// if operands may be rounded to bf16 and the kernels fit; otherwise f32. The tiles are the largest for which the backward
/// pass fits; in f32, if none does, the smallest.
pub(crate) fn method_of(
    head_dim: usize,
    precision: Precision,
    capability: (i32, i32),
    shared_bytes_max: usize,
) -> AttentionKernel {
    let (tiles, multiple) = if head_dim <= SMALL_HEAD { (MMA_TILES, 16) } else { (LARGE_MMA_TILES, 32) };
    let has_mma = capability.0 >= 8 && head_dim.is_multiple_of(multiple) && head_dim <= 2 * SMALL_HEAD;
    let bytes = |tiles| mma_bytes(head_dim, tiles, 2).max(mma_decode_bytes(head_dim));
    let fits = |tiles: &MmaTiles| bytes(*tiles) <= shared_bytes_max;
    if precision == Precision::Bf16
        && has_mma
        && let Some(tiles) = tiles.into_iter().find(fits)
    {
        return AttentionKernel::Mma(tiles);
    }
    let fits = |tile: &usize| fma_bytes(head_dim, *tile, 4) <= shared_bytes_max;
    AttentionKernel::Fma { tile: [64, 32].into_iter().find(fits).unwrap_or(16) }
}

/// A layout prepared for attention with heads of `head_dim` columns, where the first `pasts[i]` rows of segment `i` are only
/// seen; none without `pasts`.
pub(crate) fn forest(
    cuda: &Arc<Cuda>,
    layout: &Layout,
    pasts: &[usize],
    head_dim: usize,
    precision: Precision,
) -> Forest {
    let method = batch_method_of(head_dim, precision, cuda.capability(), cuda.shared_bytes_max());
    Forest::upload(cuda, layout, pasts, method)
}

/// Queries, keys and values of a packed batch: `[rows, heads · head_dim]`, twice `[rows, kv_heads · head_dim]`.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) q: Elements<'a>,
    pub(crate) k: Elements<'a>,
    pub(crate) v: Elements<'a>,
    pub(crate) shape: HeadShape,
    pub(crate) forest: &'a Forest,
}

/// A matrix in the type that a method's kernels take and return.
enum Operand<'a> {
    F32(Converted<'a, f32>),
    Bf16(Converted<'a, bf16>),
}

/// One pass of a method over a walk.
struct Pass<'a> {
    /// Its kernel for each method: f32, `mma`, `wgmma`.
    kernels: [&'static str; 3],
    walk: &'a Uploaded,
    walks: Side,
    /// Tiles of a task's rows, and in f32 those that it walks over.
    tiles: [usize; 2],
}

impl Inputs<'_> {
    fn check(&self) {
        let (rows, shape) = (self.forest.rows, self.shape);
        assert!(shape.heads.is_multiple_of(shape.kv_heads), "{shape:?}");
        assert_eq!(self.q.len(), rows * shape.width(), "queries are not [rows, heads * head_dim]");
        assert_eq!(self.k.len(), rows * shape.kv_width(), "keys are not [rows, kv_heads * head_dim]");
        assert_eq!(self.v.len(), rows * shape.kv_width(), "values are not [rows, kv_heads * head_dim]");
    }

    fn operand<'a>(&self, cuda: &Arc<Cuda>, x: Elements<'a>) -> Operand<'a> {
        match self.forest.method {
            AttentionKernel::Fma { .. } => Operand::F32(x.in_f32(cuda)),
            AttentionKernel::Mma(_) | AttentionKernel::Wgmma => Operand::Bf16(x.in_bf16(cuda)),
        }
    }

    /// A buffer for a result of the kernels.
    fn result(&self, cuda: &Arc<Cuda>, len: usize) -> Values {
        let precision = match self.forest.method {
            AttentionKernel::Fma { .. } => Precision::F32,
            AttentionKernel::Mma(_) | AttentionKernel::Wgmma => Precision::Bf16,
        };
        Values::uninit(cuda, precision, len)
    }

    /// Converts a result to the type of the queries.
    fn like_queries(&self, cuda: &Arc<Cuda>, result: Values) -> Values {
        match (self.q, result) {
            (Elements::Bf16(_), Values::F32(wide)) => to_bf16(cuda, wide.all()).into(),
            (Elements::F32(_), Values::Bf16(short)) => to_f32(cuda, short.all()).into(),
            (_, result) => result,
        }
    }

    /// A matrix of this width, as a method's kernels take it.
    fn argument(&self, cuda: &Arc<Cuda>, operand: &Operand<'_>, width: usize) -> Argument {
        match (operand, self.forest.method) {
            (Operand::F32(numbers), _) => numbers.all().into(),
            (Operand::Bf16(numbers), AttentionKernel::Wgmma) => boxes_of(cuda, numbers.all(), width),
            (Operand::Bf16(numbers), _) => numbers.all().into(),
        }
    }

    /// Launches a pass; `arguments` are those before the tasks.
    fn launch(&self, cuda: &Cuda, pass: &Pass<'_>, mut arguments: Vec<Argument>) {
        let HeadShape { heads, kv_heads, head_dim } = self.shape;
        let Pass { kernels: [fma, mma, wgmma], walk, walks, tiles: [fixed, walked] } = *pass;
        let mut heads_of_task = if walks == Side::Queries { heads } else { kv_heads };
        arguments.extend([walk.tasks.all(), walk.ranges.all()].map(Argument::from));
        let (program, name, plan) = match self.forest.method {
            AttentionKernel::Fma { tile } => {
                let plan = LaunchShape::blocks(walk.count, heads_of_task, THREADS);
                let plan = plan.with_shared(fma_bytes(head_dim, tile, fixed + walked));
                (Program::Attention { head_dim, tile }, fma, plan)
            }
            AttentionKernel::Mma(tiles) => {
                if walks == Side::Keys && head_dim > SMALL_HEAD {
                    heads_of_task *= 2;
                }
                // A warp for each 16 rows.
                let plan = LaunchShape::blocks(walk.count, heads_of_task, 2 * tiles.rows);
                (
                    Program::AttentionMma { head_dim, tiles },
                    mma,
                    plan.with_shared(mma_bytes(head_dim, tiles, fixed)),
                )
            }
            AttentionKernel::Wgmma => {
                let items = walk.count * heads_of_task;
                arguments.push(int(items));
                let plan = LaunchShape::blocks(items.min(cuda.multiprocessors()), 1, WGMMA_THREADS);
                (
                    Program::AttentionWgmma { head_dim },
                    wgmma,
                    plan.with_shared(wgmma_bytes(head_dim, fixed, walks)),
                )
            }
        };
        arguments.extend([int(heads), int(kv_heads), self.shape.scale().into()]);
        cuda.launch(program, name, plan, &mut arguments);
    }
}

/// The output `[rows, heads · head_dim]`, and what the backward pass needs: the base-2 logarithms of the sums of
/// exponentials `[rows, heads]`.
pub(crate) fn forward(cuda: &Arc<Cuda>, inputs: Inputs<'_>) -> (Values, Buffer<f32>) {
    inputs.check();
    let mut out = inputs.result(cuda, inputs.q.len());
    let mut log_sums = Buffer::uninit(cuda, inputs.forest.rows * inputs.shape.heads);
    let operands = [inputs.q, inputs.k, inputs.v].map(|x| inputs.operand(cuda, x));
    let (width, kv_width) = (inputs.shape.width(), inputs.shape.kv_width());
    let mut arguments = vec![out.all_mut().into(), log_sums.all_mut().into()];
    let widths = [width, kv_width, kv_width];
    arguments.extend(operands.iter().zip(widths).map(|(x, width)| inputs.argument(cuda, x, width)));
    let pass = Pass {
        kernels: ["attention_forward", "attention_mma_forward", "attention_wgmma_forward"],
        walk: &inputs.forest.queries,
        walks: Side::Queries,
        // In f32, keys and values share one tile in turn.
        tiles: [1, 1],
    };
    inputs.launch(cuda, &pass, arguments);
    (inputs.like_queries(cuda, out), log_sums)
}

/// The results of the forward pass, and the gradient of its output.
#[derive(Clone, Copy)]
pub(crate) struct Outputs<'a> {
    /// `[rows, heads · head_dim]`.
    pub(crate) out: Elements<'a>,
    /// `[rows, heads]`.
    pub(crate) log_sums: Slice<'a, f32>,
    /// `[rows, heads · head_dim]`.
    pub(crate) d_out: Elements<'a>,
}

/// Gradients of queries, keys and values.
pub(crate) struct Gradients {
    pub(crate) d_q: Values,
    pub(crate) d_k: Values,
    pub(crate) d_v: Values,
}

/// The gradients; probabilities are computed again.
pub(crate) fn backward(cuda: &Arc<Cuda>, inputs: Inputs<'_>, outputs: Outputs<'_>) -> Gradients {
    inputs.check();
    let Inputs { q, k, v, shape, forest } = inputs;
    let Outputs { out, log_sums, d_out } = outputs;
    let n = forest.rows * shape.heads;
    assert_eq!((out.len(), d_out.len()), (q.len(), q.len()), "outputs are shaped like queries");
    assert_eq!(log_sums.len(), n, "one sum for each row and head");
    let row_sums = row_sums(cuda, shape, out, d_out);
    let operands = [q, k, v, d_out].map(|x| inputs.operand(cuda, x));
    let saved = [log_sums, row_sums.all()].map(Argument::from);

    let [mut d_q, mut d_k, mut d_v] = [q, k, v].map(|x| inputs.result(cuda, x.len()));
    let widths = [shape.width(), shape.kv_width(), shape.kv_width(), shape.width()];
    let given = operands.iter().zip(widths).map(|(x, width)| inputs.argument(cuda, x, width));
    let given: Vec<Argument> = given.chain(saved).collect();
    let run = |kernels, walk, walks, gradients: &[Argument]| {
        let arguments = [gradients, &given].concat();
        inputs.launch(cuda, &Pass { kernels, walk, walks, tiles: [2, 2] }, arguments);
    };
    let kernels =
        ["attention_backward_queries", "attention_mma_backward_queries", "attention_wgmma_backward_queries"];
    run(kernels, &forest.queries, Side::Queries, &[d_q.all_mut().into()]);
    let kernels = ["attention_backward_keys", "attention_mma_backward_keys", "attention_wgmma_backward_keys"];
    run(kernels, &forest.keys, Side::Keys, &[d_k.all_mut().into(), d_v.all_mut().into()]);
    let [d_q, d_k, d_v] = [d_q, d_k, d_v].map(|d| inputs.like_queries(cuda, d));
    Gradients { d_q, d_k, d_v }
}

/// `Σ_columns d_out ⊙ out` of each row and head.
fn row_sums(cuda: &Arc<Cuda>, shape: HeadShape, out: Elements<'_>, d_out: Elements<'_>) -> Buffer<f32> {
    let n = out.len() / shape.head_dim;
    let mut sums = Buffer::uninit(cuda, n);
    let arguments = &mut [sums.all_mut().into(), out.into(), d_out.into(), long(n), int(shape.head_dim)];
    let plan = LaunchShape::blocks(n.div_ceil(THREADS / 32), 1, THREADS);
    cuda.launch(Program::Norm, out.kernel(["dot_rows_f32", "dot_rows_bf16"]), plan, arguments);
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Segment, Visibility,
        cuda::testing::{ATTENTION, ATTENTION_MMA, attention_mma, attention_wgmma, device, is_real},
        ops, reference,
        testing::{assert_close, random, wide},
    };

    #[test]
    fn kernels_fit_the_shared_memory_of_cards() {
        use Precision::{Bf16, F32};
        let [h100, a100, ada, turing] =
            [((9, 0), 227 << 10), ((8, 0), 163 << 10), ((8, 9), 99 << 10), ((7, 5), 64 << 10)];
        let method = |dim, precision, (capability, bytes)| method_of(dim, precision, capability, bytes);
        let fma = |tile| AttentionKernel::Fma { tile };
        assert_eq!([32, 128, 256].map(|dim| method(dim, F32, h100)), [fma(64), fma(64), fma(32)]);
        assert_eq!([64, 128, 256].map(|dim| method(dim, F32, ada)), [fma(64), fma(32), fma(16)]);
        let [large, small] = MMA_TILES.map(AttentionKernel::Mma);
        assert_eq!([64, 128].map(|dim| method(dim, Bf16, h100)), [large; 2]);
        assert_eq!([64, 128].map(|dim| method(dim, Bf16, a100)), [large; 2]);
        assert_eq!([64, 96, 128].map(|dim| method(dim, Bf16, ada)), [large, large, small]);
        let mut tiles = MMA_TILES.iter().chain(&LARGE_MMA_TILES);
        assert!(tiles.all(|tiles| tiles.columns <= tiles.rows), "threads load numbers of columns");
        let [large_head, on_a100] = LARGE_MMA_TILES.map(AttentionKernel::Mma);
        assert_eq!([160, 256].map(|dim| method(dim, Bf16, h100)), [large_head; 2]);
        assert_eq!([160, 256].map(|dim| method(dim, Bf16, a100)), [large_head, on_a100]);
        assert_eq!([40, 144, 288].map(|dim| method(dim, Bf16, h100)), [fma(64), fma(64), fma(32)]);
        assert_eq!(method(256, Bf16, ada), fma(16));
        assert_eq!(method(64, Bf16, turing), fma(32));
        let batch = |dim, (capability, bytes)| batch_method_of(dim, Bf16, capability, bytes);
        assert_eq!([64, 128].map(|dim| batch(dim, h100)), [AttentionKernel::Wgmma; 2]);
        assert_eq!([96, 80, 256].map(|dim| batch(dim, h100)), [large, large, large_head]);
        assert_eq!([a100, ((10, 0), h100.1)].map(|card| batch(128, card)), [large; 2]);
        assert!([Side::Queries, Side::Keys].iter().all(|&walks| wgmma_bytes(128, 2, walks) <= h100.1));
        for dim in [1, 17, 64, 96, 128, 256] {
            for (capability, bytes) in [h100, a100, ada] {
                let AttentionKernel::Fma { tile } = method_of(dim, F32, capability, bytes) else {
                    unreachable!()
                };
                assert!(fma_bytes(dim, tile, 4) <= bytes);
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
        method: AttentionKernel,
        /// Precision of the values; kernels may take other operands.
        precision: Precision,
        tolerance: f64,
    }

    impl Case {
        fn new(
            head_dim: usize,
            method: AttentionKernel,
            (kv_heads, group): (usize, usize),
            layout: Layout,
        ) -> Self {
            let shape = HeadShape { heads: kv_heads * group, kv_heads, head_dim };
            let rows = layout.rows();
            // Operands that are exact in bf16; intermediate results are off by up to 2⁻⁸.
            let rounded = |x: Vec<f32>| x.iter().map(|&x| bf16::from_f32(x).to_f32()).collect::<Vec<_>>();
            let q = rounded(random(1, rows * shape.width()).iter().map(|q| 3.0 * q).collect());
            let [k, v] = [2, 3].map(|seed| rounded(random(seed, rows * shape.kv_width())));
            let d_out = rounded(random(4, rows * shape.width()));
            let (precision, tolerance) = match method {
                AttentionKernel::Mma(_) | AttentionKernel::Wgmma => (Precision::Bf16, 1e-2),
                AttentionKernel::Fma { .. } => (Precision::F32, 2e-5),
            };
            Case { q, k, v, d_out, shape, layout, method, precision, tolerance }
        }

        /// The output and the gradients, for values in the case's precision.
        fn run(&self, cuda: &Arc<Cuda>) -> [Vec<f32>; 4] {
            let forest = Forest::upload(cuda, &self.layout, &[], self.method);
            let inputs = [&self.q, &self.k, &self.v, &self.d_out];
            let [q, k, v, d_out] = inputs.map(|x| Values::upload(cuda, self.precision, x));
            let inputs = Inputs { q: q.all(), k: k.all(), v: v.all(), shape: self.shape, forest: &forest };
            let (out, log_sums) = forward(cuda, inputs);
            let outputs = Outputs { out: out.all(), log_sums: log_sums.all(), d_out: d_out.all() };
            let Gradients { d_q, d_k, d_v } = backward(cuda, inputs, outputs);
            [out, d_q, d_k, d_v].map(|x| {
                assert_eq!(x.all().precision(), self.precision);
                x.download().unwrap()
            })
        }

        /// Compares with the reference, and for the gradients with the CPU's, which are tested against the reference.
        fn check(&self, cuda: &Arc<Cuda>) {
            let [out, d_q, d_k, d_v] = self.run(cuda);
            let expected = reference::attention(
                &wide(&self.q),
                &wide(&self.k),
                &wide(&self.v),
                self.shape,
                &self.layout,
            );
            assert_close(&out, &expected, self.tolerance / 4.0);
            let (q, k, v, shape, layout) = (&self.q, &self.k, &self.v, self.shape, &self.layout);
            let inputs = ops::attention::Inputs { q, k, v, shape, layout };
            let (out, log_sums) = ops::attention::forward(inputs);
            let outputs =
                ops::attention_backward::Outputs { out: &out, log_sums: &log_sums, d_out: &self.d_out };
            let gradients = ops::attention_backward::backward(inputs, outputs);
            assert_close(&d_q, &wide(&gradients.d_q), self.tolerance);
            assert_close(&d_k, &wide(&gradients.d_k), self.tolerance);
            assert_close(&d_v, &wide(&gradients.d_v), self.tolerance);
        }
    }

    fn forest(parts: &[(usize, Option<usize>)]) -> Layout {
        let mut start = 0;
        let segments = parts.iter().map(|&(len, parent)| {
            start += len;
            Segment::causal(start - len, len, parent)
        });
        Layout::new(segments.collect()).unwrap()
    }

    /// Lengths around multiples of the tile; a tree of depth 3 with an empty segment; one row.
    fn check_layouts(cuda: &Arc<Cuda>, head_dim: usize, method: AttentionKernel) {
        let tile = method.tile();
        if tile * head_dim > 1 << 14 && !is_real() {
            // The emulation would take minutes.
            let tree = forest(&[(tile + 5, None), (3, Some(0)), (0, Some(1)), (7, Some(2))]);
            return Case::new(head_dim, method, (1, 2), tree).check(cuda);
        }
        Case::new(head_dim, method, (1, 2), Layout::causal(&[1, tile, 2 * tile + 3])).check(cuda);
        let tree = [
            (tile + 5, None),
            (3, Some(0)),
            (0, Some(1)),
            (7, Some(2)),
            (tile + 1, Some(0)),
            (2, None),
            (4, Some(5)),
        ];
        Case::new(head_dim, method, (2, 2), forest(&tree)).check(cuda);
        // Some of its segments see all of themselves, longer ones than a tile among them.
        let mut segments = forest(&tree).segments().to_vec();
        for at in [0, 3, 4] {
            segments[at].visibility = Visibility::Bidirectional;
        }
        Case::new(head_dim, method, (2, 2), Layout::new(segments).unwrap()).check(cuda);
        Case::new(head_dim, method, (2, 1), forest(&[(1, None), (1, Some(0))])).check(cuda);
        Case::new(head_dim, method, (1, 1), Layout::causal(&[])).check(cuda);
    }

    #[test]
    fn outputs_and_gradients_are_those_of_the_cpu_for_every_tile() {
        let Some(cuda) = device() else { return };
        for (head_dim, tile) in ATTENTION {
            check_layouts(&cuda, head_dim, AttentionKernel::Fma { tile });
        }
    }

    #[test]
    fn values_of_the_other_type_than_the_kernels_take_are_converted() {
        let Some(cuda) = device() else { return };
        let layout = || forest(&[(9, None), (20, Some(0)), (5, Some(0))]);
        for (dim, method) in methods(&cuda) {
            let mut case = Case::new(dim, method, (1, 2), layout());
            case.precision = match case.precision {
                Precision::F32 => Precision::Bf16,
                Precision::Bf16 => Precision::F32,
            };
            case.tolerance = 1e-2;
            case.check(&cuda);
        }
    }

    #[test]
    fn outputs_and_gradients_of_tensor_cores_are_those_of_the_cpu() {
        let Some(cuda) = device() else { return };
        for (head_dim, tiles) in attention_mma() {
            check_layouts(&cuda, head_dim, AttentionKernel::Mma(tiles));
        }
    }

    #[test]
    fn outputs_and_gradients_by_the_instructions_of_9_0_are_those_of_the_cpu() {
        let Some(cuda) = device() else { return };
        for head_dim in attention_wgmma(&cuda) {
            check_layouts(&cuda, head_dim, AttentionKernel::Wgmma);
            // So many tiles that those under way are copied over.
            Case::new(head_dim, AttentionKernel::Wgmma, (1, 1), Layout::causal(&[600])).check(&cuda);
        }
    }

    const METHODS: [(usize, AttentionKernel); 2] = [
        (ATTENTION[0].0, AttentionKernel::Fma { tile: ATTENTION[0].1 }),
        (ATTENTION_MMA[0].0, AttentionKernel::Mma(ATTENTION_MMA[0].1)),
    ];

    /// [`METHODS`], and the one of 9.0 if the device has it.
    fn methods(cuda: &Cuda) -> Vec<(usize, AttentionKernel)> {
        let of_9_0 = attention_wgmma(cuda).first().map(|&dim| (dim, AttentionKernel::Wgmma));
        METHODS.into_iter().chain(of_9_0).collect()
    }

    #[test]
    fn scores_far_from_zero_neither_overflow_nor_vanish() {
        let Some(cuda) = device() else { return };
        for (dim, method) in methods(&cuda) {
            let mut case = Case::new(dim, method, (1, 1), Layout::causal(&[140]));
            // Scores that rise to thousands: every tile of keys raises the maximum.
            case.q.fill(40.0);
            case.k.iter_mut().enumerate().for_each(|(index, k)| *k = (index / dim) as f32);
            let [out, d_q, d_k, d_v] = case.run(&cuda);
            assert_close(&out[139 * dim..], &wide(&case.v[139 * dim..]), 1e-5);
            assert!(out.iter().chain(&d_q).chain(&d_k).chain(&d_v).all(|x| x.is_finite()));
        }
    }

    #[test]
    fn rows_after_those_that_were_read_before_see_them() {
        let Some(cuda) = device() else { return };
        let layout = || Layout::causal(&[200, 140]);
        for (dim, method) in methods(&cuda) {
            let case = Case::new(dim, method, (1, 2), layout());
            let forest = Forest::upload(&cuda, &case.layout, &[70, 139], method);
            let [q, k, v] = [&case.q, &case.k, &case.v].map(|x| Values::upload(&cuda, case.precision, x));
            let inputs = Inputs { q: q.all(), k: k.all(), v: v.all(), shape: case.shape, forest: &forest };
            let out = forward(&cuda, inputs).0.download().unwrap();
            let [q, k, v] = [&case.q, &case.k, &case.v].map(|x| wide(x));
            let expected = reference::attention(&q, &k, &v, case.shape, &case.layout);
            let width = case.shape.width();
            for rows in [70..200, 339..340] {
                let part = rows.start * width..rows.end * width;
                assert_close(&out[part.clone()], &expected[part], case.tolerance / 4.0);
            }
        }
    }

    #[test]
    fn what_a_row_cannot_see_changes_nothing() {
        let Some(cuda) = device() else { return };
        let layout = || forest(&[(9, None), (20, Some(0)), (20, Some(0))]);
        for (dim, method) in methods(&cuda) {
            let mut case = Case::new(dim, method, (1, 2), layout());
            let [before, ..] = case.run(&cuda);
            let width = case.shape.kv_width();
            // A key in the middle of the second segment: the rows after it in that segment see it, the third segment
            // does not.
            case.k[19 * width..20 * width].fill(f32::NAN);
            let [after, ..] = case.run(&cuda);
            let width = case.shape.width();
            assert_eq!(before[..19 * width], after[..19 * width]);
            assert_eq!(before[29 * width..], after[29 * width..]);
            assert!(after[19 * width..29 * width].iter().all(|x| x.is_nan()));
        }
    }
}
