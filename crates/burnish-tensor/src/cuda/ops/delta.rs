//! Gated delta rules by chunks; see [`crate::ops::delta`].

use std::sync::Arc;

use crate::{
    DELTA_CHUNK, DeltaInputs, DeltaShape, Layout, Precision,
    cuda::{
        Argument, Buffer, Cuda, CudaError, Slice, int,
        launch_shape::LaunchShape,
        modules::{DeltaKernel, Program},
        values::{Elements, Values},
    },
};

/// Elements of a tile in f32 and of an operand, with the gaps between its rows, and their bytes.
const WIDE_BYTES: usize = DELTA_CHUNK * 68 * 4;
const TENSOR_BYTES: usize = DELTA_CHUNK * 72 * 2;
/// Columns of values that a block has.
const COLUMNS: usize = 64;
/// Columns of keys up to which states stay in a block that goes from chunk to chunk, and of values up to which the kernel
/// of gradients reads them once.
const KEPT: usize = 128;

/// A layout cut into chunks, on the GPU. Every layer of a batch uses the same.
#[derive(Debug)]
pub(crate) struct Chunks {
    rows: usize,
    lists: Lists,
    chunks: Buffer<i32>,
    islands: Buffer<i32>,
}

/// [`Chunks`] on the host.
#[derive(Debug, PartialEq, Eq)]
struct Lists {
    /// (first row, rows, the state that it goes on from or -1, the state that it ends in or -1, is it the last that goes on
    /// from that state?).
    chunks: Vec<i32>,
    /// (first chunk, end).
    islands: Vec<i32>,
    /// The state that the path ends in which ends with each segment, if it is kept.
    ends: Vec<Option<usize>>,
    /// Number of states.
    states: usize,
}

impl Lists {
    /// Chunks end where positions are multiples of [`DELTA_CHUNK`], as on the CPU. States are kept where a chunk goes on
    /// from them; of all segments if `keeps_ends`.
    fn new(layout: &Layout, keeps_ends: bool) -> Self {
        let mut chunks: Vec<[i32; 5]> = Vec::new();
        let (mut islands, mut states) = (Vec::new(), 0);
        // The last chunk of the path that ends with each segment.
        let mut lasts: Vec<Option<usize>> = Vec::new();
        let mut positions: Vec<usize> = Vec::new();
        for island in layout.islands() {
            let first = chunks.len();
            for segment in &layout.segments()[island.clone()] {
                let mut before = segment.parent.and_then(|parent| lasts[parent]);
                let position = segment.parent.map_or(0, |parent| positions[parent]);
                let (mut at, end) = (0, segment.len);
                while at < end {
                    let rows = (DELTA_CHUNK - (position + at) % DELTA_CHUNK).min(end - at);
                    let from = before.map_or(-1, |before| keep(&mut chunks[before], &mut states));
                    before = Some(chunks.len());
                    chunks.push([(segment.start + at) as i32, rows as i32, from, -1, 0]);
                    at += rows;
                }
                positions.push(position + end);
                lasts.push(before);
            }
            islands.extend([first as i32, chunks.len() as i32]);
        }
        let kept = |last: Option<usize>| {
            last.filter(|_| keeps_ends).map(|last| keep(&mut chunks[last], &mut states) as usize)
        };
        let ends = lasts.into_iter().map(kept).collect();
        let mut is_read = vec![false; states];
        for chunk in chunks.iter_mut().rev() {
            if let Ok(before) = usize::try_from(chunk[2]) {
                chunk[4] = i32::from(!std::mem::replace(&mut is_read[before], true));
            }
        }
        Lists { chunks: chunks.concat(), islands, ends, states }
    }

    fn count(&self) -> usize {
        self.chunks.len() / 5
    }
}

/// The number of the state that a chunk ends in, from now on kept.
fn keep(chunk: &mut [i32; 5], states: &mut usize) -> i32 {
    if chunk[3] < 0 {
        chunk[3] = *states as i32;
        *states += 1;
    }
    chunk[3]
}

impl Chunks {
    /// See [`Lists::new`].
    pub(crate) fn upload(cuda: &Arc<Cuda>, layout: &Layout, keeps_ends: bool) -> Self {
        assert!(i32::try_from(layout.rows()).is_ok(), "{} rows in a batch", layout.rows());
        let lists = Lists::new(layout, keeps_ends);
        let [chunks, islands] = [&lists.chunks, &lists.islands].map(|list| Buffer::upload(cuda, list));
        Chunks { rows: layout.rows(), lists, chunks, islands }
    }

    /// The state that the path ends in which ends with each segment; `None` where that is zeros.
    pub(crate) fn ends(&self) -> &[Option<usize>] {
        &self.lists.ends
    }
}

fn needed(bytes: usize, capability: (i32, i32), max: usize) -> Result<(), CudaError> {
    if capability.0 < 8 || bytes > max {
        return Err(CudaError::DeltaRule { capability, bytes, max });
    }
    Ok(())
}

/// The operands; see [`DeltaInputs`].
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a> {
    pub(crate) q: Elements<'a>,
    pub(crate) k: Elements<'a>,
    pub(crate) v: Elements<'a>,
    pub(crate) log_decay: Slice<'a, f32>,
    pub(crate) beta: Elements<'a>,
    pub(crate) shape: DeltaShape,
}

impl Operands<'_> {
    /// `run` on values of a tape.
    pub(crate) fn with<R>(
        cuda: &Arc<Cuda>,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
        run: impl FnOnce(Operands<'_>) -> R,
    ) -> R {
        let DeltaInputs { q, k, v, log_decay, beta } = inputs;
        let [q, k, v, logs, beta] = [q, k, v, log_decay, beta].map(|x| x.data.device().all());
        let logs = logs.in_f32(cuda);
        run(Operands { q, k, v, log_decay: logs.all(), beta, shape })
    }

    /// Decays of each value head: 1 or `key_dim`.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub(crate) fn channels(&self, rows: usize) -> usize {
        let shape = self.shape;
        assert!(shape.value_heads.is_multiple_of(shape.key_heads), "value heads over key heads: {shape:?}");
        let keys = rows * shape.key_width();
        assert_eq!((self.q.len(), self.k.len()), (keys, keys), "queries and keys of {shape:?}");
        assert_eq!(self.v.len(), rows * shape.value_width(), "values of {shape:?}");
        assert_eq!(self.beta.len(), rows * shape.value_heads, "rates of {shape:?}");
        let channels = if self.log_decay.len() == self.beta.len() { 1 } else { shape.key_dim };
        assert_eq!(self.log_decay.len(), self.beta.len() * channels, "decays of {shape:?}");
        channels
    }
}

/// The operands of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) operands: Operands<'a>,
    pub(crate) chunks: &'a Chunks,
}

impl<'a> std::ops::Deref for Inputs<'a> {
    type Target = Operands<'a>;

    fn deref(&self) -> &Operands<'a> {
        &self.operands
    }
}

impl Inputs<'_> {
    fn channels(&self) -> usize {
        self.operands.channels(self.chunks.rows)
    }

    fn program(&self, of: fn(DeltaKernel) -> Program) -> Program {
        let is_tensor = self.q.precision() == Precision::Bf16;
        of(DeltaKernel { is_tensor, is_by_channel: self.channels() > 1 })
    }

    /// Bytes of shared memory for tiles in f32 and operands.
    fn shared(&self, wide: usize, operands: usize) -> usize {
        let each = if self.q.precision() == Precision::Bf16 { TENSOR_BYTES } else { WIDE_BYTES };
        wide * WIDE_BYTES + operands * each
    }

    /// The kernel for what goes from chunk to chunk, or is read once: that which keeps what heads have of `dim` columns in
    /// `kept` operands, or one of `others`, with shared memory for tiles in f32 and operands.
    fn keeping(
        &self,
        dim: usize,
        (name, kept): (&'static str, usize),
        others: [&'static str; 2],
        [wide, operands]: [usize; 2],
    ) -> (&'static str, usize) {
        if self.q.precision() == Precision::Bf16 && self.channels() == 1 && dim <= KEPT {
            return (name, self.shared(0, kept));
        }
        (self.q.kernel(others), self.shared(wide, operands))
    }

    fn states_kernel(&self) -> (&'static str, usize) {
        let others = ["delta_states_f32", "delta_states_bf16"];
        self.keeping(self.shape.key_dim, ("delta_states_kept_bf16", 7), others, [0, 3])
    }

    fn states_backward_kernel(&self) -> (&'static str, usize) {
        let others = ["delta_states_backward_f32", "delta_states_backward_bf16"];
        self.keeping(self.shape.key_dim, ("delta_states_backward_kept_bf16", 9), others, [0, 4])
    }

    fn gradients_kernel(&self) -> (&'static str, usize) {
        let others = ["delta_gradients_f32", "delta_gradients_bf16"];
        self.keeping(self.shape.value_dim, ("delta_gradients_kept_bf16", 10), others, [1, 4])
    }

    /// Can the card run the kernels? Otherwise notes an error.
    fn fits(&self, cuda: &Cuda) -> bool {
        let bytes = self.gradients_kernel().1.max(self.states_backward_kernel().1);
        let needed = needed(bytes, cuda.capability(), cuda.shared_bytes_max());
        let fits = needed.is_ok();
        cuda.note(needed);
        fits
    }

    /// One block per chunk and value head.
    fn by_chunk(&self, shared: usize) -> LaunchShape {
        LaunchShape::blocks(self.chunks.lists.count(), self.shape.value_heads, 256).with_shared(shared)
    }

    /// One block per island, columns of values and value head.
    fn by_island(&self, shared: usize) -> LaunchShape {
        let islands = self.chunks.lists.islands.len() / 2 * self.shape.value_dim.div_ceil(COLUMNS);
        LaunchShape::blocks(islands, self.shape.value_heads, 256).with_shared(shared)
    }

    fn sizes(&self) -> [Argument; 4] {
        let DeltaShape { key_heads, value_heads, key_dim, value_dim } = self.shape;
        [value_heads, value_heads / key_heads, key_dim, value_dim].map(int)
    }

    fn uninit(&self, cuda: &Arc<Cuda>, dim: usize) -> Values {
        Values::uninit(cuda, self.q.precision(), self.chunks.rows * self.shape.value_heads * dim)
    }

    /// States that are kept.
    fn states(&self, cuda: &Arc<Cuda>) -> Buffer<f32> {
        Buffer::uninit(cuda, self.chunks.lists.states * self.shape.state_len())
    }

    /// Decays from a chunk's first row to each row, and from behind it to the last.
    fn decays(&self, cuda: &Arc<Cuda>) -> [Buffer<f32>; 2] {
        let mut both = [(); 2].map(|()| Buffer::<f32>::uninit(cuda, self.log_decay.len()));
        let [inner, outer] = &mut both;
        let channels = self.channels();
        let arguments = &mut [
            inner.all_mut().into(),
            outer.all_mut().into(),
            self.log_decay.into(),
            self.chunks.chunks.all().into(),
            int(self.shape.value_heads),
            int(channels),
        ];
        let threads = channels.next_multiple_of(32).min(256);
        let plan = LaunchShape::blocks(self.chunks.lists.count(), self.shape.value_heads, threads);
        cuda.launch(self.program(Program::Delta), "delta_decays", plan, arguments);
        both
    }
}

/// The output, and the states that are kept: `[states, value_heads, key_dim, value_dim]`.
pub(crate) fn forward(cuda: &Arc<Cuda>, x: Inputs<'_>) -> (Values, Buffer<f32>) {
    let DeltaShape { key_dim, value_dim, .. } = x.shape;
    let (mut out, mut states) = (x.uninit(cuda, value_dim), x.states(cuda));
    if !x.fits(cuda) {
        return (out, states);
    }
    let (mut y, mut read, [inner, outer]) =
        (x.uninit(cuda, value_dim), x.uninit(cuda, key_dim), x.decays(cuda));
    let (program, chunks) = (x.program(Program::Delta), x.chunks.chunks.all());

    let mut arguments = vec![
        y.all_mut().into(),
        read.all_mut().into(),
        x.k.into(),
        x.v.into(),
        x.beta.into(),
        x.log_decay.into(),
        inner.all().into(),
        chunks.into(),
    ];
    arguments.extend(x.sizes());
    let name = x.q.kernel(["delta_prepare_f32", "delta_prepare_bf16"]);
    cuda.launch(program, name, x.by_chunk(x.shared(2, 1)), &mut arguments);

    let mut arguments = vec![
        states.all_mut().into(),
        y.all_mut().into(),
        read.all().into(),
        x.k.into(),
        x.beta.into(),
        inner.all().into(),
        outer.all().into(),
        chunks.into(),
        x.chunks.islands.all().into(),
    ];
    arguments.extend(x.sizes());
    let (name, shared) = x.states_kernel();
    cuda.launch(program, name, x.by_island(shared), &mut arguments);

    let mut arguments = vec![
        out.all_mut().into(),
        x.q.into(),
        x.k.into(),
        y.all().into(),
        x.beta.into(),
        x.log_decay.into(),
        inner.all().into(),
        states.all().into(),
        chunks.into(),
    ];
    arguments.extend(x.sizes());
    let name = x.q.kernel(["delta_output_f32", "delta_output_bf16"]);
    cuda.launch(program, name, x.by_chunk(x.shared(0, 3)), &mut arguments);
    (out, states)
}

/// The gradients of the operands, shaped like these; that of the logarithms is f32.
pub(crate) struct Gradients {
    pub(crate) q: Values,
    pub(crate) k: Values,
    pub(crate) v: Values,
    pub(crate) log_decay: Buffer<f32>,
    pub(crate) beta: Values,
}

/// The gradients, given that of the output and the states of [`forward`].
pub(crate) fn backward(
    cuda: &Arc<Cuda>,
    x: Inputs<'_>,
    states: Slice<'_, f32>,
    d_out: Elements<'_>,
) -> Gradients {
    let DeltaShape { key_dim, value_dim, .. } = x.shape;
    assert_eq!(d_out.len(), x.v.len(), "one derivative for each element");
    let mut gradients = Gradients {
        q: x.uninit(cuda, key_dim),
        k: x.uninit(cuda, key_dim),
        v: x.uninit(cuda, value_dim),
        log_decay: Buffer::uninit(cuda, x.log_decay.len()),
        beta: x.uninit(cuda, 1),
    };
    let [mut y, mut d_r] = [(); 2].map(|()| x.uninit(cuda, value_dim));
    let (mut from_state, mut d_states, [inner, outer]) =
        (x.uninit(cuda, key_dim), x.states(cuda), x.decays(cuda));
    let (program, chunks) = (x.program(Program::DeltaBackward), x.chunks.chunks.all());

    let mut arguments = vec![
        y.all_mut().into(),
        d_r.all_mut().into(),
        from_state.all_mut().into(),
        x.q.into(),
        x.k.into(),
        x.v.into(),
        x.beta.into(),
        x.log_decay.into(),
        inner.all().into(),
        outer.all().into(),
        states.into(),
        d_out.into(),
        chunks.into(),
    ];
    arguments.extend(x.sizes());
    let name = x.q.kernel(["delta_prepare_backward_f32", "delta_prepare_backward_bf16"]);
    cuda.launch(program, name, x.by_chunk(x.shared(2, 2)), &mut arguments);

    let mut arguments = vec![
        d_states.all_mut().into(),
        d_r.all_mut().into(),
        from_state.all().into(),
        x.q.into(),
        x.k.into(),
        x.beta.into(),
        inner.all().into(),
        d_out.into(),
        chunks.into(),
        x.chunks.islands.all().into(),
    ];
    arguments.extend(x.sizes());
    let (name, shared) = x.states_backward_kernel();
    cuda.launch(program, name, x.by_island(shared), &mut arguments);

    let mut arguments = vec![
        gradients.q.all_mut().into(),
        gradients.k.all_mut().into(),
        gradients.v.all_mut().into(),
        gradients.log_decay.all_mut().into(),
        gradients.beta.all_mut().into(),
        x.q.into(),
        x.k.into(),
        x.beta.into(),
        x.log_decay.into(),
        inner.all().into(),
        outer.all().into(),
        states.into(),
        d_states.all().into(),
        y.all().into(),
        d_r.all().into(),
        d_out.into(),
        chunks.into(),
    ];
    arguments.extend(x.sizes());
    let (name, shared) = x.gradients_kernel();
    cuda.launch(program, name, x.by_chunk(shared), &mut arguments);
    if x.shape.value_heads > x.shape.key_heads {
        gradients.q = sum_groups(cuda, x, &gradients.q);
        gradients.k = sum_groups(cuda, x, &gradients.k);
    }
    gradients
}

/// Of gradients for each value head the sums over those of a key head.
fn sum_groups(cuda: &Arc<Cuda>, x: Inputs<'_>, of_heads: &Values) -> Values {
    let mut out = Values::uninit(cuda, x.q.precision(), x.q.len());
    let DeltaShape { key_heads, value_heads, key_dim, .. } = x.shape;
    let arguments = &mut [
        out.all_mut().into(),
        of_heads.all().into(),
        int(value_heads),
        int(value_heads / key_heads),
        int(key_dim),
    ];
    let name = x.q.kernel(["delta_groups_f32", "delta_groups_bf16"]);
    let plan = LaunchShape::rows(x.chunks.rows, x.shape.key_width());
    cuda.launch(x.program(Program::DeltaBackward), name, plan, arguments);
    out
}

#[cfg(test)]
mod tests;
