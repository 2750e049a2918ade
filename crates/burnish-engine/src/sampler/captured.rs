//! Decoding steps on a GPU that are launched from a graph.

use burnish_tensor::{StepRows, Var};

use super::{Sampler, Sequence};
use crate::cache::{Paged, Run};

impl Sampler {
    /// The hidden states of [`Sampler::forward`] from a captured step, followed by padding rows. `None` where a step can't
    /// be captured: the model is on the host, or a sequence reads several tokens or is tapped.
    pub(super) fn captured(&mut self, sequences: &mut [Sequence]) -> Option<Var> {
        let is_plain = |sequence: &Sequence| sequence.unread().len() == 1 && !sequence.answer.is_tapped();
        if !self.pool.is_paged() || !sequences.iter().all(is_plain) {
            return None;
        }
        let ids = sequences.iter().map(|sequence| sequence.unread()[0]).collect();
        let position =
            |Sequence { answer, .. }: &Sequence| (answer.prompt.len() + answer.ids.len() - 1) as u32;
        let positions = sequences.iter().map(position).collect();
        let runs: Vec<Run<'_>> =
            sequences.iter_mut().map(|sequence| Run { cache: &mut sequence.cache, rows: 1 }).collect();
        let cache = runs.iter().find_map(Run::paged)?;
        let slots = runs.iter().flat_map(Run::slots).collect();
        let mut rows = StepRows::new(cache, ids, positions, slots, runs.iter().flat_map(Run::seen));
        if self.model.is_recurrent() {
            rows = rows.with_states(runs.iter().filter_map(Run::state));
        }
        let (model, shape) = (&self.model, self.shape);
        let hidden = self.steps.run(&model.params, cache, rows, |tape, step| {
            model.forward(tape, &step.ids, &step.positions, &mut Paged { shape, cache, step })
        });
        runs.into_iter().for_each(Run::commit);
        Some(hidden)
    }
}
