//! Activation checkpointing: parts of a forward pass that the backward pass runs again (Chen et al. 2016,
//! arXiv:1604.06174).

use std::{collections::VecDeque, sync::Arc};

use crate::{Tape, Var, backward::Op, data::Data};

/// Part of a forward pass that can be run again.
pub(crate) type Run<'p> = Box<dyn Fn(&mut Tape<'p>, &Var) -> Var + 'p>;

/// Outputs of attention with the log sums of their rows, in the order of the calls.
pub(crate) type Attended = VecDeque<(Arc<Data>, Data)>;

/// What a checkpoint keeps for the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Its input.
    Input,
    /// Also what attention computes, so that running it again skips attention.
    InputAndAttention,
}

/// A checkpoint that was run again.
pub(crate) struct Rerun<'p> {
    /// The recording of it.
    pub(crate) tape: Tape<'p>,
    /// The slot of its input.
    pub(crate) input: usize,
    /// The slot of its output.
    pub(crate) out: usize,
}

impl<'p> Tape<'p> {
    /// `run(x)`, of which only `keep` is kept: the backward pass runs it again. `run` must compute the same every time,
    /// and gradients are then the same, bit for bit, as without a checkpoint.
    pub fn checkpoint(&mut self, x: &Var, keep: Keep, run: impl Fn(&mut Tape<'p>, &Var) -> Var + 'p) -> Var {
        let mut part = self.part(false);
        part.keeps_attention = self.is_recording && keep == Keep::InputAndAttention;
        let out = run(&mut part, x);
        let attended = part.attended;
        let data = Arc::unwrap_or_clone(out.data);
        self.push(out.rows, out.cols, data, || Op::Checkpoint { x: x.clone(), run: Box::new(run), attended })
    }

    /// Runs a checkpoint of this tape again, for its backward pass.
    pub(crate) fn rerun(&self, x: &Var, run: &Run<'p>, attended: Attended) -> Rerun<'p> {
        let mut tape = self.part(true);
        tape.attended = attended;
        let input = tape.share(x);
        let out = run(&mut tape, &input).slot;
        Rerun { tape, input: input.slot, out }
    }

    /// A tape for a part of this one's work, recording or not.
    fn part(&self, is_recording: bool) -> Tape<'p> {
        Tape {
            is_recording,
            prepacked: self.prepacked,
            joins: self.joins,
            reads_once: self.reads_once,
            workers: self.workers,
            has_adapters: self.has_adapters,
            dropout_keys: self.dropout_keys.clone(),
            gpu: self.gpu.clone(),
            ..Tape::recording(self.params)
        }
    }
}
