//! Requests that are looked at, or taken out, before they have ended.

use burnish_core::StopReason;

use super::{Sampler, Sequence};
use crate::answer::Answer;
use crate::{Generated, RequestId};

impl Sampler {
    /// The tokens that a request has sampled so far. `None` if it has ended or never existed.
    pub fn sampled(&self, id: RequestId) -> Option<&[u32]> {
        let active =
            || self.active.iter().map(|Sequence { answer, .. }| answer).find(|answer| answer.id == id);
        self.waiting.get(&id).or_else(active).map(Answer::sampled_ids)
    }

    /// Ends a request where it is, and returns its answer so far, whose [`StopReason`] is `Control`. `None` if the
    /// request has sampled nothing (it is then cancelled), has ended or never existed.
    pub fn stop(&mut self, id: RequestId) -> Option<Generated> {
        let mut answer = self.take(id)?;
        (answer.sampled() > 0).then(|| answer.end(StopReason::Control, None))
    }

    /// Takes out a request that has not ended.
    pub(super) fn take(&mut self, id: RequestId) -> Option<Answer> {
        if let Some(answer) = self.waiting.remove(&id) {
            self.prompts.leave(&answer.prompt);
            self.prompts.forget();
            self.stalled = self.stalled.filter(|stalled| *stalled != id);
            return Some(answer);
        }
        let at = self.active.iter().position(|sequence| sequence.answer.id == id)?;
        Some(self.active.remove(at).answer)
    }
}
