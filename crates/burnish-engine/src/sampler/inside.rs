//! What controls see of the inside of the model, and what latent steps put there.

use std::sync::Arc;

use burnish_model::{Marked, PutInputs, Tap};
use burnish_tensor::{Tape, Var};

use super::{Sampler, Sequence};
use crate::EngineError;
use crate::control::Control;

/// What is done inside the model in a step.
pub(super) struct Taps {
    /// What latent steps read in place of embeddings.
    put: PutInputs,
    pub(super) look: Option<Look>,
}

impl Taps {
    /// For sequences that read `lens` tokens each.
    pub(super) fn of(sequences: &[Sequence], lens: &[usize]) -> Self {
        let mut put = PutInputs::default();
        let mut start = 0;
        for (Sequence { answer, cache }, &len) in sequences.iter().zip(lens) {
            answer.latent_inputs(cache.answer_rows(), start, &mut put);
            start += len;
        }
        Taps { put, look: Look::of(sequences, lens) }
    }
}

impl Tap for Taps {
    fn hidden(&mut self, tape: &mut Tape<'_>, layer: usize, hidden: Var) -> Var {
        let hidden = self.put.hidden(tape, layer, hidden);
        match &mut self.look {
            Some(look) => look.hidden(tape, layer, hidden),
            None => hidden,
        }
    }

    fn marked(&self) -> &[Marked] {
        self.look.as_ref().map_or(&[], Look::marked)
    }

    fn attention(&mut self, tape: &mut Tape<'_>, layer: usize, set: usize, share: Var) {
        if let Some(look) = &mut self.look {
            look.attention(tape, layer, set, share);
        }
    }
}

/// A tap for the sequences of a step whose controls look inside.
pub(super) struct Look {
    /// Of every sequence of the step; of those that do not look, none.
    marked: Marked,
    /// The sequences that look, and the row of the last token that each of them reads.
    sequences: Vec<usize>,
    last: Vec<u32>,
    /// Of each layer: the share of its attention, for each sequence that looks.
    attention: Vec<Option<Vec<f32>>>,
    /// Of each layer: the residual stream after it `[looking, D]`.
    hidden: Vec<Var>,
}

impl Look {
    /// For sequences that read `lens` tokens each; `None` if none looks.
    pub(super) fn of(sequences: &[Sequence], lens: &[usize]) -> Option<Self> {
        let is_looking = |at: &usize| sequences[*at].answer.marked().is_some();
        let looking: Vec<usize> = (0..sequences.len()).filter(is_looking).collect();
        if looking.is_empty() {
            return None;
        }
        let mut end = 0;
        let ends: Vec<u32> = lens
            .iter()
            .map(|&len| {
                end += len as u32;
                end - 1
            })
            .collect();
        let none: Arc<[bool]> = Arc::from([]);
        let flags = sequences.iter().map(|sequence| sequence.answer.marked().unwrap_or(&none));
        Some(Look {
            marked: Marked(flags.map(Arc::clone).collect()),
            last: looking.iter().map(|&at| ends[at]).collect(),
            sequences: looking,
            attention: Vec::new(),
            hidden: Vec::new(),
        })
    }
}

impl Tap for Look {
    fn hidden(&mut self, tape: &mut Tape<'_>, layer: usize, hidden: Var) -> Var {
        if layer > 0 {
            // A layer without attention has told nothing.
            self.attention.resize(layer, None);
            self.hidden.push(tape.gather(&hidden, &self.last));
        }
        hidden
    }

    fn marked(&self) -> &[Marked] {
        std::slice::from_ref(&self.marked)
    }

    fn attention(&mut self, _tape: &mut Tape<'_>, layer: usize, _set: usize, share: Var) {
        let heads = share.cols();
        let mean = |&row: &u32| {
            let shares = &share.data()[row as usize * heads..][..heads];
            shares.iter().sum::<f32>() / heads as f32
        };
        self.attention.resize(layer, None);
        self.attention.push(Some(self.last.iter().map(mean).collect()));
    }
}

impl Sampler {
    /// Shows the controls that look inside what they want to see before the next token.
    pub(super) fn show(&self, look: Look, sequences: &mut [Sequence], tape: &mut Tape<'_>) {
        let width = look.hidden.first().map_or(0, Var::cols);
        let mut rows = Vec::new();
        let mut shown = Vec::new();
        for (at, &sequence) in look.sequences.iter().enumerate() {
            let attention = look.attention.iter().map(|shares| shares.as_ref().map(|shares| shares[at]));
            for layer in sequences[sequence].answer.show_attention(attention.collect()) {
                rows.extend_from_slice(&look.hidden[layer].data()[at * width..][..width]);
                shown.push(sequence);
            }
        }
        if shown.is_empty() {
            return;
        }
        let hidden = tape.external(shown.len(), width, rows);
        let logits = self.model.exit_logits(tape, &hidden);
        for (&sequence, logits) in shown.iter().zip(logits.data().chunks_exact(logits.cols())) {
            sequences[sequence].answer.show_logits(logits.to_vec());
        }
    }

    /// Checks that an answer can go on in latent steps, if its controls decide on some.
    pub(super) fn check_latent(
        &self,
        request: usize,
        prompt: &[u32],
        controls: &[Box<dyn Control>],
    ) -> Result<(), EngineError> {
        let Some((step, rule)) = controls.iter().find_map(|control| control.latent()) else { return Ok(()) };
        let is_beside = |control: &dyn Control| control.marked().is_some() || control.probe_tokens_max() > 0;
        let problem = if controls.iter().filter(|control| control.latent().is_some()).count() > 1 {
            "two of its controls decide on latent steps; one can"
        } else if controls.iter().any(|control| is_beside(&**control)) {
            "beside latent steps, no other control can look inside the model or ask probes"
        } else if rule.is_recurrent() && prompt.contains(&step) {
            "its prompt has latent steps of an earlier answer, whose hidden states are gone; `latent` is for \
             conversations with one answer"
        } else {
            return Ok(());
        };
        Err(EngineError::Control { request, position: 0, problem: problem.into() })
    }

    /// Checks that the controls of a request can look inside, if they do.
    pub(super) fn check_looking(
        &self,
        request: usize,
        prompt_tokens: usize,
        controls: &[Box<dyn Control>],
    ) -> Result<(), EngineError> {
        let problem = match controls.iter().filter(|control| control.marked().is_some()).count() {
            0 => return Ok(()),
            1 if !self.model.params.device().is_cpu() => {
                "a model on a GPU can't be looked into (`contrast`); sample on the CPU"
            }
            1 if prompt_tokens < 2 => {
                "to look inside the model (`contrast`), its prompt must have two tokens or more"
            }
            1 => return Ok(()),
            _ => "two of its controls look inside the model; one can",
        };
        Err(EngineError::Control { request, position: 0, problem: problem.into() })
    }
}
