//! What recurrent layers remember of sequences on a GPU, as the sampler uses it. On the host the sampler has states of
//! its own, which [`delta_step`](crate::delta_step) and [`short_conv_step`](crate::short_conv_step) take.

use std::sync::Arc;

use crate::{
    DeltaInputs, DeltaShape, Layout, Param, Params, Tape, Var,
    cuda::ops::{
        delta,
        recurrent::{Sequences, State},
    },
    cuda::tape::Gpu,
    data::Data,
};

/// The state of a sequence at all recurrent layers, in the memory of the parameters' GPU.
#[derive(Debug)]
pub struct RecurrentState {
    pub(crate) state: Arc<State>,
}

/// The states of a batch's sequences, and which rows they have. Every layer uses the same.
#[derive(Debug)]
pub struct RecurrentRows {
    pub(crate) sequences: Sequences,
}

impl RecurrentState {
    /// The state before the first token, beside `params`: at each of `layers` layers `inputs` numbers of the convolution
    /// and `matrices` of the rule. `None` if the parameters are on the host.
    #[must_use]
    pub fn beside(params: &Params, layers: usize, inputs: usize, matrices: usize) -> Option<Self> {
        let cuda = params.device().gpu()?;
        Some(RecurrentState { state: Arc::new(State::zeros(cuda, layers, inputs, matrices)) })
    }

    /// Another state that is the same.
    #[must_use]
    pub fn copied(&self) -> Self {
        RecurrentState { state: Arc::new(State::clone(&self.state)) }
    }
}

impl<'p> Tape<'p> {
    #[expect(clippy::expect_used, reason = "a mistake of the program: it has states beside other parameters")]
    fn beside_states(&self) -> &Gpu<'p> {
        self.gpu().expect("states on a GPU beside parameters on the host")
    }

    /// Uploads which states the rows of a batch go on from, or end in: sequence `i` has `lens[i]` rows, which lie one after
    /// the other.
    ///
    /// # Panics
    /// If there is not one state for each sequence.
    #[must_use]
    pub fn recurrent_rows(&self, states: &[&RecurrentState], lens: &[usize]) -> RecurrentRows {
        let states = states.iter().map(|state| Arc::clone(&state.state)).collect();
        RecurrentRows { sequences: Sequences::upload(self.beside_states().cuda, states, lens) }
    }

    /// [`Tape::short_conv`] of whole sequences, after which `layer` of their states has their last rows.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn short_conv_kept(
        &mut self,
        x: &Var,
        weight: Param,
        layout: &Arc<Layout>,
        rows: &RecurrentRows,
        layer: usize,
    ) -> Var {
        let cuda = self.beside_states().cuda;
        rows.sequences.keep_inputs(cuda, layer, x.data.device().all(), x.cols, weight.cols - 1);
        self.short_conv(x, weight, layout)
    }

    /// [`Tape::delta_rule`] of whole sequences, the roots of `layout`, after which `layer` of their states has the states
    /// that they end in.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn delta_rule_kept(
        &mut self,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
        layout: &Arc<Layout>,
        rows: &RecurrentRows,
        layer: usize,
    ) -> Var {
        let gpu = self.beside_states();
        let chunks = gpu.chunks(layout, true);
        let out = delta::Operands::with(gpu.cuda, inputs, shape, |operands| {
            let (out, states) = delta::forward(gpu.cuda, delta::Inputs { operands, chunks: &chunks });
            rows.sequences.keep_states(gpu.cuda, layer, shape, &states, chunks.ends());
            out
        });
        self.value(inputs.v.rows, inputs.v.cols, Data::Device(out))
    }

    /// [`Tape::short_conv`] of rows that go on from their sequences' states, which move on, with the bits of one pass over
    /// everything.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn short_conv_continued(
        &mut self,
        x: &Var,
        weight: Param,
        rows: &RecurrentRows,
        layer: usize,
    ) -> Var {
        let out = {
            let gpu = self.beside_states();
            let (x_data, values) = (x.data.device().all(), gpu.widened(weight));
            rows.sequences.convolve(gpu.cuda, layer, x_data, values.all(), weight.cols)
        };
        self.value(x.rows, x.cols, Data::Device(out))
    }

    /// [`Tape::delta_rule`] of rows that go on from their sequences' states, which move on: the recurrence itself, row by
    /// row. A sequence's result does not depend on the others.
    ///
    /// # Panics
    /// If sizes do not fit.
    pub fn delta_rule_continued(
        &mut self,
        inputs: DeltaInputs<'_>,
        shape: DeltaShape,
        rows: &RecurrentRows,
        layer: usize,
    ) -> Var {
        let cuda = self.beside_states().cuda;
        let recur = |operands: delta::Operands<'_>| rows.sequences.recur(cuda, layer, operands);
        let out = delta::Operands::with(cuda, inputs, shape, recur);
        self.value(inputs.v.rows, inputs.v.cols, Data::Device(out))
    }
}

#[cfg(test)]
mod tests;
