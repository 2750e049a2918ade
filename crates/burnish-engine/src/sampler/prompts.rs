//! Prompts that requests wait to follow: each is read once for all that wait for it at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::RequestId;
use crate::answer::Answer;
use crate::pages::Block;

/// What reading a prompt left behind.
pub(super) struct Prefilled {
    pub(super) block: Arc<Block>,
    /// Final hidden state of the last token `[D]`; empty where no first token is to be chosen from it.
    pub(super) hidden: Vec<f32>,
}

impl Prefilled {
    /// Does no active sequence go by it?
    pub(super) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.block) == 1
    }
}

/// A prompt, and how it stands.
struct Prompt {
    ids: Arc<[u32]>,
    /// The first request that waited for it.
    since: RequestId,
    /// Requests that wait to join, or to join again.
    waiting: usize,
    /// There from the prefill until no request waits for it, unless room is needed.
    prefilled: Option<Prefilled>,
}

/// The prompts of all requests that wait, by their tokens.
#[derive(Default)]
pub(super) struct Prompts {
    prompts: BTreeMap<Arc<[u32]>, Prompt>,
}

impl Prompts {
    /// Request `id` waits for `ids`: gives the one copy of them that all who wait share.
    pub(super) fn wait(&mut self, ids: Arc<[u32]>, id: RequestId) -> Arc<[u32]> {
        let new = || Prompt { ids: Arc::clone(&ids), since: id, waiting: 0, prefilled: None };
        let prompt = self.prompts.entry(Arc::clone(&ids)).or_insert_with(new);
        prompt.waiting += 1;
        Arc::clone(&prompt.ids)
    }

    /// One request less waits for `ids`. What nobody waits for is forgotten with [`Prompts::forget`].
    pub(super) fn leave(&mut self, ids: &[u32]) {
        if let Some(prompt) = self.prompts.get_mut(ids) {
            prompt.waiting -= 1;
        }
    }

    /// Forgets the prompts that nobody waits for.
    pub(super) fn forget(&mut self) {
        self.prompts.retain(|_, prompt| prompt.waiting > 0);
    }

    /// What reading the prompt of an answer left behind, if that is enough to go on: where it has no token yet, the last
    /// hidden state too.
    pub(super) fn ready_for(&self, answer: &Answer) -> Option<&Prefilled> {
        let prefilled = self.prompts.get(&answer.prompt)?.prefilled.as_ref()?;
        (!answer.ids.is_empty() || !prefilled.hidden.is_empty()).then_some(prefilled)
    }

    /// Keeps what reading `ids` left behind while a request waits for them.
    pub(super) fn keep(&mut self, ids: &[u32], prefilled: Prefilled) {
        let Some(prompt) = self.prompts.get_mut(ids) else { return };
        if prompt.prefilled.as_ref().is_none_or(|known| known.hidden.is_empty()) {
            prompt.prefilled = Some(prefilled);
        }
    }

    /// Drops what was read of all prompts.
    pub(super) fn drop_all(&mut self) {
        self.prompts.values_mut().for_each(|prompt| prompt.prefilled = None);
    }

    /// What was read of prompts that are still waited for.
    pub(super) fn all_prefilled(&self) -> impl Iterator<Item = &Prefilled> {
        self.prompts.values().filter_map(|prompt| prompt.prefilled.as_ref())
    }

    /// Drops what was read of the prompt that is needed last, of those that no active sequence goes by and that are not
    /// `pinned`. `false` if there is none.
    pub(super) fn evict(&mut self, pinned: &BTreeSet<Arc<[u32]>>) -> bool {
        let is_unused = |prompt: &&mut Prompt| {
            prompt.prefilled.as_ref().is_some_and(Prefilled::is_unused) && !pinned.contains(&prompt.ids)
        };
        let last = self.prompts.values_mut().filter(is_unused).max_by_key(|prompt| prompt.since);
        last.map(|prompt| prompt.prefilled = None).is_some()
    }
}
