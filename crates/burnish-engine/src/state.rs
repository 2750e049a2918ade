//! What layers of the delta rule remember of a sequence: a fixed number of values, however long it is.

use burnish_model::{LayerKind, ModelConfig};
use burnish_tensor::{Params, RecurrentState};

use crate::pages::Room;

/// Sizes of the state of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StateShape {
    /// Layers with a state.
    pub(crate) layers: usize,
    /// Values that the convolution of a layer remembers: its last inputs.
    pub(crate) inputs: usize,
    /// Values in the matrices of a layer's heads.
    pub(crate) matrices: usize,
}

impl StateShape {
    pub(crate) fn of(config: &ModelConfig) -> Self {
        let Some(delta) = config.delta_rule else { return StateShape::default() };
        StateShape {
            layers: config.layers_of(LayerKind::DeltaRule),
            inputs: (delta.conv_kernel - 1) * delta.conv_columns(),
            matrices: delta.shape().state_len(),
        }
    }

    /// The state before the first token, on the GPU that holds `params`; `None` if they are on the host, or there are no
    /// such layers.
    pub(crate) fn beside(self, params: &Params) -> Option<RecurrentState> {
        if self.layers == 0 {
            return None;
        }
        RecurrentState::beside(params, self.layers, self.inputs, self.matrices)
    }

    /// Bytes of a state, in f32.
    pub(crate) fn bytes(self) -> usize {
        4 * self.layers * (self.inputs + self.matrices)
    }
}

/// The state of a sequence after the tokens that it has read.
#[derive(Debug)]
pub(crate) struct State {
    /// On the host; empty if the state is on a GPU.
    pub(crate) layers: Vec<LayerState>,
    pub(crate) on_gpu: Option<RecurrentState>,
    /// Its share of the cache's memory.
    room: Room,
}

/// The state of a sequence at one layer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerState {
    /// The last inputs of the convolution, `[kernel - 1, C]`, the newest last; zeros before the first token.
    pub(crate) inputs: Vec<f32>,
    /// `[value_heads, key_dim, value_dim]`.
    pub(crate) matrices: Vec<f32>,
}

impl State {
    /// The state before the first token: a copy of `first`, or on the host.
    pub(crate) fn new(shape: StateShape, first: Option<&RecurrentState>, room: Room) -> Self {
        let on_gpu = first.map(RecurrentState::copied);
        let layer = || LayerState { inputs: vec![0.0; shape.inputs], matrices: vec![0.0; shape.matrices] };
        let layers = if on_gpu.is_some() { 0 } else { shape.layers };
        State { layers: std::iter::repeat_with(layer).take(layers).collect(), on_gpu, room }
    }

    /// Number of pages' worth of memory that it takes.
    pub(crate) fn pages(&self) -> usize {
        self.room.pages()
    }

    /// Becomes the state that `other` is in.
    pub(crate) fn copy(&mut self, other: &State) {
        self.layers.clone_from(&other.layers);
        self.on_gpu = other.on_gpu.as_ref().map(RecurrentState::copied);
    }
}
