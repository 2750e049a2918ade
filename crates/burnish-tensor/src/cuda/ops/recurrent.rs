//! Recurrent layers on the states of a batch's sequences, for sampling.

use std::sync::Arc;

use crate::{
    DeltaShape,
    cuda::{
        Buffer, Cuda, Slice, int,
        launch_shape::LaunchShape,
        long,
        modules::Program::Recurrent,
        ops::delta,
        values::{Elements, Values},
    },
};

/// What all recurrent layers remember of a sequence: per layer the last inputs of its convolution, and its matrices.
#[derive(Clone, Debug)]
pub(crate) struct State {
    layers: usize,
    inputs: Buffer<f32>,
    matrices: Buffer<f32>,
}

impl State {
    /// The state before the first token.
    pub(crate) fn zeros(cuda: &Arc<Cuda>, layers: usize, inputs: usize, matrices: usize) -> Self {
        let [inputs, matrices] = [inputs, matrices].map(|each| Buffer::zeros(cuda, layers * each));
        State { layers, inputs, matrices }
    }
}

/// The sequences of a batch: their states, which live as long as this, and their rows. Every layer uses the same.
#[derive(Debug)]
pub(crate) struct Sequences {
    states: Vec<Arc<State>>,
    inputs: Buffer<u64>,
    matrices: Buffer<u64>,
    firsts: Buffer<i32>,
    rows: usize,
}

/// Where the inputs and the matrices of states are.
fn addresses(states: &[Arc<State>]) -> [Vec<u64>; 2] {
    let of: [fn(&State) -> &Buffer<f32>; 2] = [|state| &state.inputs, |state| &state.matrices];
    of.map(|of| states.iter().map(|state| of(state).all().address()).collect())
}

impl Sequences {
    /// Sequence `i` has `lens[i]` rows, which lie one after the other.
    pub(crate) fn upload(cuda: &Arc<Cuda>, states: Vec<Arc<State>>, lens: &[usize]) -> Self {
        assert_eq!(states.len(), lens.len(), "one state for each sequence");
        let mut firsts = vec![0_i32];
        let mut rows = 0;
        for len in lens {
            rows += len;
            firsts.push(rows as i32);
        }
        let [inputs, matrices] = addresses(&states).map(|list| Buffer::upload(cuda, &list));
        Sequences { inputs, matrices, firsts: Buffer::upload(cuda, &firsts), rows, states }
    }

    /// Room for this many sequences of one row each.
    pub(crate) fn with_room(cuda: &Arc<Cuda>, rows: usize) -> Self {
        let [inputs, matrices] = [(); 2].map(|()| Buffer::uninit(cuda, rows));
        Sequences { states: Vec::new(), inputs, matrices, firsts: Buffer::uninit(cuda, rows + 1), rows }
    }

    /// Uploads the states of the first sequences; the others have none, and their results are 0.
    ///
    /// # Panics
    /// If there is no room.
    pub(crate) fn fill(&mut self, states: Vec<Arc<State>>) {
        let [inputs, matrices] = addresses(&states);
        self.inputs.fill(inputs, 0);
        self.matrices.fill(matrices, 0);
        self.firsts.fill((0..=self.rows as i32).collect(), 0);
        self.states = states;
    }

    /// Where a layer's part begins, of `each` elements.
    ///
    /// # Panics
    /// If a state has no such part.
    fn offset(&self, layer: usize, each: usize, of: fn(&State) -> &Buffer<f32>) -> usize {
        let fits = |state: &Arc<State>| layer < state.layers && of(state).len() == state.layers * each;
        assert!(self.states.iter().all(fits), "a state of {each} numbers at layer {layer}");
        layer * each
    }

    fn by_columns(&self, cols: usize) -> LaunchShape {
        LaunchShape::blocks(self.inputs.len(), cols.div_ceil(256), 256)
    }

    /// The last `width` rows of `x` become the states of a convolution.
    pub(crate) fn keep_inputs(
        &self,
        cuda: &Arc<Cuda>,
        layer: usize,
        x: Elements<'_>,
        cols: usize,
        width: usize,
    ) {
        assert_eq!(x.len(), self.rows * cols, "inputs of a convolution");
        let offset = self.offset(layer, width * cols, |state| &state.inputs);
        let arguments = &mut [
            self.inputs.all().into(),
            long(offset),
            x.into(),
            self.firsts.all().into(),
            int(width),
            int(cols),
        ];
        let name = x.kernel(["keep_inputs_f32", "keep_inputs_bf16"]);
        cuda.launch(Recurrent, name, self.by_columns(cols), arguments);
    }

    /// A short convolution of the rows that follow on the states.
    pub(crate) fn convolve(
        &self,
        cuda: &Arc<Cuda>,
        layer: usize,
        x: Elements<'_>,
        weight: Slice<'_, f32>,
        taps: usize,
    ) -> Values {
        let cols = weight.len() / taps;
        assert_eq!(x.len(), self.rows * cols, "inputs of a convolution");
        let offset = self.offset(layer, (taps - 1) * cols, |state| &state.inputs);
        let mut y = Values::uninit(cuda, x.precision(), x.len());
        let arguments = &mut [
            y.all_mut().into(),
            self.inputs.all().into(),
            long(offset),
            x.into(),
            weight.into(),
            self.firsts.all().into(),
            int(cols),
            int(taps),
        ];
        let name = x.kernel(["step_inputs_f32", "step_inputs_bf16"]);
        cuda.launch(Recurrent, name, self.by_columns(cols), arguments);
        y
    }

    /// State `ends[i]` of `states`, or zeros, becomes the matrices of sequence `i`.
    pub(crate) fn keep_states(
        &self,
        cuda: &Arc<Cuda>,
        layer: usize,
        shape: DeltaShape,
        states: &Buffer<f32>,
        ends: &[Option<usize>],
    ) {
        let len = shape.state_len();
        let offset = self.offset(layer, len, |state| &state.matrices);
        assert_eq!(ends.len(), self.states.len(), "one state for each sequence");
        assert!(ends.iter().flatten().all(|&end| (end + 1) * len <= states.len()), "a state of no chunk");
        let ends: Vec<i32> = ends.iter().map(|end| end.map_or(-1, |end| end as i32)).collect();
        let ends = Buffer::upload(cuda, &ends);
        let arguments =
            &mut [self.matrices.all().into(), long(offset), states.all().into(), ends.all().into(), int(len)];
        cuda.launch(Recurrent, "keep_states", self.by_columns(len), arguments);
    }

    /// A delta rule of the rows that follow on the states.
    pub(crate) fn recur(&self, cuda: &Arc<Cuda>, layer: usize, x: delta::Operands<'_>) -> Values {
        let channels = x.channels(self.rows);
        let DeltaShape { key_heads, value_heads, key_dim, value_dim } = x.shape;
        let offset = self.offset(layer, x.shape.state_len(), |state| &state.matrices);
        let mut out = Values::uninit(cuda, x.v.precision(), x.v.len());
        let arguments = &mut [
            out.all_mut().into(),
            self.matrices.all().into(),
            long(offset),
            x.q.into(),
            x.k.into(),
            x.v.into(),
            x.log_decay.into(),
            x.beta.into(),
            self.firsts.all().into(),
            int(value_heads),
            int(value_heads / key_heads),
            int(key_dim),
            int(value_dim),
            int(channels),
        ];
        let name = x.q.kernel(["step_states_f32", "step_states_bf16"]);
        let plan = LaunchShape::blocks(self.inputs.len(), value_heads * value_dim.div_ceil(32), 256);
        // A row's keys, queries and decays.
        let plan = plan.with_shared(3 * size_of::<f32>() * key_dim);
        cuda.launch(Recurrent, name, plan, arguments);
        out
    }
}
