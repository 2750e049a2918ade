//! Latent steps in training: tokens of a sample that read a hidden state in place of the embedding of their id.

use std::sync::Arc;

use burnish_model::{LatentGradient, Model, Packed, PutInputs};
use burnish_tensor::{Keep, Tape, Var};

use crate::{Checkpointing, MicroBatch, Sample, SampleError, TrainError};

/// The latent steps of a sample (SWITCH, arXiv:2606.13106, equation 1; Coconut, arXiv:2412.06769). No token is drawn
/// there, so none of them is scored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latents {
    /// Which tokens they are, in ascending order. Never the first one: nothing comes before it.
    pub at: Vec<usize>,
    /// What they read.
    pub inputs: LatentInputs,
}

/// What latent steps read.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum LatentInputs {
    /// The hidden state of the position before each, computed in the same pass under the weights that learn. The
    /// gradient flows through the whole recurrence.
    #[default]
    Computed,
    /// What they read when the answer was sampled, `[steps, D]`, as constants: the paper's replay. The gradient reaches
    /// the computation at latent steps through the later positions that attend to them, but not from step to step.
    Recorded(Vec<f32>),
}

impl Latents {
    /// Drops those from token `tokens` on.
    pub(crate) fn truncate(&mut self, tokens: usize) {
        let before = self.at.len();
        let kept = self.at.partition_point(|at| *at < tokens);
        self.at.truncate(kept);
        if let LatentInputs::Recorded(inputs) = &mut self.inputs {
            inputs.truncate(inputs.len() / before.max(1) * kept);
        }
    }

    /// The first of them.
    pub(crate) fn first(&self) -> Option<usize> {
        self.at.first().copied()
    }

    /// Checks that they fit to a sample with this loss mask.
    pub(crate) fn check(&self, loss_mask: &[bool]) -> Result<(), SampleError> {
        let is_ascending = self.at.windows(2).all(|pair| pair[0] < pair[1]);
        let is_wrong = |at: &&usize| **at == 0 || **at >= loss_mask.len() || loss_mask[**at];
        let problem = match (self.at.iter().find(is_wrong), &self.inputs) {
            (Some(&token), _) => {
                return Err(SampleError::LatentToken { token, tokens: loss_mask.len() });
            }
            (None, _) if !is_ascending => "their places are not in ascending order",
            (None, LatentInputs::Recorded(inputs)) if !is_rows(inputs.len(), self.at.len()) => {
                "what they read is not one row for each of them"
            }
            (None, LatentInputs::Recorded(inputs)) if inputs.iter().any(|x| !x.is_finite()) => {
                "what they read is not finite"
            }
            (None, _) => return Ok(()),
        };
        Err(SampleError::Latents { problem })
    }

    /// Numbers in what one of them reads, if that is recorded.
    pub(crate) fn width(&self) -> Option<usize> {
        match &self.inputs {
            LatentInputs::Recorded(inputs) if !self.at.is_empty() => Some(inputs.len() / self.at.len()),
            _ => None,
        }
    }
}

/// Checks that the latent steps of all `samples` are of one kind, and that what they read has the model's width.
pub(crate) fn check(samples: &[&Sample], hidden_size: usize) -> Result<(), TrainError> {
    let mut kind = None;
    for (sample, latents) in samples.iter().enumerate().filter_map(|(at, s)| Some((at, s.latents.as_ref()?)))
    {
        let width = latents.width();
        if let Some(width) = width.filter(|width| *width != hidden_size) {
            return Err(TrainError::LatentWidth { sample, width, hidden_size });
        }
        if *kind.get_or_insert(width.is_some()) != width.is_some() {
            return Err(TrainError::LatentKinds { sample });
        }
    }
    Ok(())
}

fn is_rows(numbers: usize, rows: usize) -> bool {
    if rows == 0 { numbers == 0 } else { numbers > 0 && numbers.is_multiple_of(rows) }
}

/// The latent steps of a micro-batch, by row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LatentRows {
    /// Those whose inputs are known.
    pub recorded: PutInputs,
    /// Those that read a hidden state of the same pass. A micro-batch has steps of one kind only.
    pub computed: Vec<u32>,
}

impl LatentRows {
    /// Adds the steps of a sample whose tokens are in the rows `row_of`; tokens beyond it are not read.
    pub(crate) fn extend(&mut self, latents: &Latents, row_of: &[usize]) {
        let read = latents.at.iter().enumerate().take_while(|(_, at)| **at < row_of.len());
        let rows = read.map(|(_, at)| row_of[*at] as u32);
        match (&latents.inputs, latents.width()) {
            (LatentInputs::Recorded(inputs), Some(width)) => {
                let before = self.recorded.rows.len();
                self.recorded.rows.extend(rows);
                let added = self.recorded.rows.len() - before;
                self.recorded.inputs.extend_from_slice(&inputs[..added * width]);
            }
            _ => self.computed.extend(rows),
        }
    }
}

impl MicroBatch {
    /// The hidden states `[T, D]` of its rows. `tape` keeps what `checkpointing` says, and everything where there are
    /// latent steps.
    pub(crate) fn forward<'p>(
        &self,
        tape: &mut Tape<'p>,
        model: &'p Model,
        checkpointing: Checkpointing,
    ) -> Var {
        let mut mixer = Packed { layout: Arc::clone(&self.layout), shape: model.head_shape() };
        let (ids, positions) = (&self.ids, &self.positions);
        let LatentRows { recorded, computed } = &self.latents;
        if !computed.is_empty() {
            return model.forward_latent(tape, ids, positions, &mixer, computed, LatentGradient::Flows);
        }
        if !recorded.rows.is_empty() {
            return model.forward_tapped(tape, ids, positions, &mut mixer, &mut recorded.clone());
        }
        let keep = match checkpointing {
            Checkpointing::Off => return model.forward(tape, ids, positions, &mut mixer),
            Checkpointing::Selective => Keep::InputAndAttention,
            Checkpointing::Full => Keep::Input,
        };
        model.forward_checkpointed(tape, ids, positions, &mixer, keep)
    }
}
