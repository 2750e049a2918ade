//! Prompts of waiting requests: each is read once for all that wait for it at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::RequestId;
use crate::answer::Answer;
use crate::pages::Block;

/// The result of reading a prompt.
pub(super) struct Prefilled {
    pub(super) block: Arc<Block>,
    /// Final hidden state of the last token `[D]`; empty if no first token will be chosen from it.
    pub(super) hidden: Vec<f32>,
}

impl Prefilled {
    /// Is it used by no active sequence?
    pub(super) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.block) == 1
    }
}

/// A prompt and its state.
struct Prompt {
    ids: Arc<[u32]>,
    /// The first request that waits for it.
    since: RequestId,
    /// Number of requests that wait to join, or to join again.
    waiting: usize,
    /// Present from the prefill until no request waits for it, unless the room is needed.
    prefilled: Option<Prefilled>,
}

/// The prompts of all waiting requests, by their tokens.
#[derive(Default)]
pub(super) struct Prompts {
    prompts: BTreeMap<Arc<[u32]>, Prompt>,
}

impl Prompts {
    /// Notes that request `id` waits for `ids`; returns the one copy of them that all waiting requests share.
    pub(super) fn wait(&mut self, ids: Arc<[u32]>, id: RequestId) -> Arc<[u32]> {
        let new = || Prompt { ids: Arc::clone(&ids), since: id, waiting: 0, prefilled: None };
        let prompt = self.prompts.entry(Arc::clone(&ids)).or_insert_with(new);
        prompt.waiting += 1;
        Arc::clone(&prompt.ids)
    }

    /// Notes that one request fewer waits for `ids`. Prompts that no request waits for are removed by
    /// [`Prompts::forget`].
    pub(super) fn leave(&mut self, ids: &[u32]) {
        if let Some(prompt) = self.prompts.get_mut(ids) {
            prompt.waiting -= 1;
        }
    }

    /// Removes the prompts that no request waits for.
    pub(super) fn forget(&mut self) {
        self.prompts.retain(|_, prompt| prompt.waiting > 0);
    }

    /// The result of reading an answer's prompt, if it is enough to continue: an answer without tokens needs the last
    /// hidden state too.
    pub(super) fn ready_for(&self, answer: &Answer) -> Option<&Prefilled> {
        let prefilled = self.prompts.get(&answer.prompt)?.prefilled.as_ref()?;
        (!answer.ids.is_empty() || !prefilled.hidden.is_empty()).then_some(prefilled)
    }

    /// Keeps the result of reading `ids` as long as a request waits for them.
    pub(super) fn keep(&mut self, ids: &[u32], prefilled: Prefilled) {
        let Some(prompt) = self.prompts.get_mut(ids) else { return };
        if prompt.prefilled.as_ref().is_none_or(|known| known.hidden.is_empty()) {
            prompt.prefilled = Some(prefilled);
        }
    }

    /// Drops the results of reading all prompts.
    pub(super) fn drop_all(&mut self) {
        self.prompts.values_mut().for_each(|prompt| prompt.prefilled = None);
    }

    /// The results of reading the prompts that are still waited for.
    pub(super) fn all_prefilled(&self) -> impl Iterator<Item = &Prefilled> {
        self.prompts.values().filter_map(|prompt| prompt.prefilled.as_ref())
    }

    /// Of the prompts that no active sequence uses and that are not `pinned`, drops the result of the one that is
    /// needed last. `false` if there is none.
    pub(super) fn evict(&mut self, pinned: &BTreeSet<Arc<[u32]>>) -> bool {
        let is_unused = |prompt: &&mut Prompt| {
            prompt.prefilled.as_ref().is_some_and(Prefilled::is_unused) && !pinned.contains(&prompt.ids)
        };
        let last = self.prompts.values_mut().filter(is_unused).max_by_key(|prompt| prompt.since);
        last.map(|prompt| prompt.prefilled = None).is_some()
    }
}
