//! The next tokens of a step's sequences: chosen on the host, or drawn on the GPU that has the logits.

use burnish_tensor::{Draw, Var};
use rayon::prelude::*;
use std::sync::Arc;

use super::{Sampler, Sequence};
use crate::answer::{Answer, Next};
use crate::control::Probe;
use crate::{Chooser, EngineError};

impl Sampler {
    /// Chooses the next token of each sequence, from its row of `logits` `[_, V]`.
    pub(super) fn choose(
        &mut self,
        sequences: &mut [Sequence],
        logits: Var,
        rows: &[usize],
    ) -> Result<Vec<Next>, EngineError> {
        let model = Arc::clone(&self.model);
        let (vocab, size, is_cpu) = (model.vocab(), logits.cols(), model.params.device().is_cpu());
        // Only the rows that a control reads leave a GPU.
        let read;
        let own: Vec<&[f32]> = if is_cpu {
            rows.iter().map(|row| &logits.data()[row * size..][..size]).collect()
        } else {
            let are_read: Vec<bool> = sequences.iter().map(|it| it.answer.reads_logits()).collect();
            let wanted = rows.iter().zip(&are_read).filter_map(|(&row, &is_read)| is_read.then_some(row));
            read = self.readback.read_rows(&logits, wanted)?;
            let mut read = read.chunks_exact(size);
            let next = |&is_read: &bool| is_read.then(|| read.next()).flatten().unwrap_or_default();
            are_read.iter().map(next).collect()
        };
        // Without logits, controls can decide, but nothing can be chosen.
        let come = |answer: &mut Answer, logits: &[f32], chooser: &mut Chooser| match logits {
            [] => answer.decide(logits, vocab),
            _ => Some(answer.next(logits, vocab, chooser)),
        };
        let share = sequences.len().div_ceil(self.choosers.len()).max(1);
        let mut choosers = std::mem::take(&mut self.choosers);
        let parts = sequences.par_chunks_mut(share).zip(own.par_chunks(share)).zip(&mut choosers);
        let coming: Vec<Vec<_>> = parts
            .map(|((sequences, own), chooser)| {
                let pairs = sequences.iter_mut().zip(own);
                pairs.map(|(sequence, logits)| come(&mut sequence.answer, logits, chooser)).collect()
            })
            .collect();
        let mut coming: Vec<Option<Next>> = coming.into_iter().flatten().collect();
        for ((sequence, logits), next) in sequences.iter_mut().zip(&own).zip(&mut coming) {
            while let Some(Next::Probe(probe)) = next {
                let anew = probe.instead.as_ref().map_or(0, |ids| ids.len() + sequence.answer.sampled());
                let read = anew + probe.ids.len();
                *next = match self.probe(sequence, Probe::clone(probe), &mut choosers[0])? {
                    Ok(probed) => {
                        sequence.answer.aside += read + probed.ids.len();
                        sequence.answer.hear(probed);
                        come(&mut sequence.answer, logits, &mut choosers[0])
                    }
                    Err(error) => Some(Next::Failed(error)),
                };
            }
        }
        self.choosers = choosers;
        if coming.iter().any(Option::is_none) {
            let undecided = sequences.iter().zip(rows).zip(&coming).filter(|(_, next)| next.is_none());
            let draws: Vec<Draw<'_>> = undecided.map(|((it, &row), _)| it.answer.draw(row)).collect();
            let mut drawn = burnish_tensor::draw(logits, vocab, &draws)?.into_iter();
            for (sequence, next) in sequences.iter().zip(&mut coming).filter(|(_, next)| next.is_none()) {
                *next = drawn.next().map(|drawn| sequence.answer.drawn(drawn));
            }
        }
        Ok(coming.into_iter().flatten().collect())
    }
}
