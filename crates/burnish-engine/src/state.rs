//! What layers of the delta rule remember of a sequence: a fixed number of values, however long it is.

use burnish_model::{LayerKind, ModelConfig};

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

    /// Bytes of a state, in f32.
    pub(crate) fn bytes(self) -> usize {
        4 * self.layers * (self.inputs + self.matrices)
    }
}

/// The state of a sequence after the tokens that it has read.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) layers: Vec<LayerState>,
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
    /// The state before the first token.
    pub(crate) fn new(shape: StateShape, room: Room) -> Self {
        let layer = LayerState { inputs: vec![0.0; shape.inputs], matrices: vec![0.0; shape.matrices] };
        State { layers: vec![layer; shape.layers], room }
    }

    /// Number of pages' worth of memory that it takes.
    pub(crate) fn pages(&self) -> usize {
        self.room.pages()
    }

    /// Becomes the state that `other` is in.
    pub(crate) fn copy(&mut self, other: &State) {
        self.layers.clone_from(&other.layers);
    }
}
