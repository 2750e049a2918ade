//! Thoughts that are had, and that have a budget (budget forcing, s1, arXiv:2501.19393).

use std::sync::Arc;

use super::{Act, Part, Said, Stage};
use crate::control::{Now, Steer};

/// Begins an answer with thoughts.
#[derive(Debug)]
pub(super) struct Forced {
    pub(super) opening: Arc<[u32]>,
}

impl Part for Forced {
    fn decide(&mut self, now: &Now<'_>, said: &Said, _: &mut Steer) -> Result<Act, String> {
        match said.stage == Stage::Before && now.answer.is_empty() {
            true => Ok(Act::Put(Arc::clone(&self.opening))),
            false => Ok(Act::Pass),
        }
    }
}

/// Closes thoughts at `most` tokens, and lets the model go on before `least`.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) most: Option<usize>,
    pub(super) least: usize,
    pub(super) again: Arc<[u32]>,
    pub(super) ending: Arc<[u32]>,
    pub(super) close: Arc<[u32]>,
    pub(super) end_ids: Arc<[u32]>,
}

impl Part for Budget {
    fn decide(&mut self, now: &Now<'_>, said: &Said, steer: &mut Steer) -> Result<Act, String> {
        let Some(thought) = said.thought() else { return Ok(Act::Pass) };
        if self.most.is_some_and(|most| thought >= most) {
            return Ok(Act::Put(Arc::clone(&self.ending)));
        }
        if thought >= self.least {
            return Ok(Act::Pass);
        }
        let ends: Vec<u32> = self.close.iter().chain(self.end_ids.iter()).copied().collect();
        let logit = |id: u32| now.logits.get(id as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let greatest = (0..now.logits.len() as u32).filter(|id| now.vocab.contains(*id)).map(logit);
        let greatest = greatest.fold(f32::NEG_INFINITY, f32::max);
        // Where ending the thoughts is the likeliest of all, the model is made to go on; elsewhere ending is forbidden.
        if ends.iter().any(|id| logit(*id) >= greatest) {
            return Ok(Act::Put(Arc::clone(&self.again)));
        }
        steer.forbid(ends);
        Ok(Act::Pass)
    }

    fn reads_logits(&self) -> bool {
        self.least > 0
    }
}
