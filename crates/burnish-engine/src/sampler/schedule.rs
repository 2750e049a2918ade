//! Decides which sequences are in the batch: requests join in order where there is room, and the youngest leave where
//! there is none.

use burnish_tensor::{Steps, Tape, Workers};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::prompts::Prefilled;
use super::{Sampler, Sequence};
use crate::answer::Answer;
use crate::cache::{Cache, Prefill};
use crate::pages::{Block, PAGE_ROWS, Page, Pool, pages_of};
use crate::tree::Tree;
use crate::{Chooser, EngineError, RequestId};

/// Pages by their addresses.
type Pages = BTreeSet<*const Page>;

/// The waiting requests that can join now.
struct Joining {
    requests: Vec<RequestId>,
    /// The first request that has a place in the batch but no room in the cache.
    stalled: Option<RequestId>,
}

impl Sampler {
    /// Lets waiting requests take the free places, until no request waits, no place is free, or the cache has no room.
    pub(super) fn join(&mut self) -> Result<(), EngineError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.prepare();
        loop {
            let joining = self.joining();
            if joining.is_empty() {
                return Ok(());
            }
            // A request may end with its first token, which frees its place again.
            self.admit(&joining)?;
        }
    }

    /// Makes what sampling needs and does not have yet.
    fn prepare(&mut self) {
        let threads = rayon::current_num_threads();
        self.choosers.resize_with(threads, Chooser::default);
        self.prepacked.get_or_insert_with(|| self.model.prepacked());
        if self.model.params.device().is_cpu() || !self.active.is_empty() {
            return;
        }
        // On a GPU all pages are made at once: as many as the waiting requests can need.
        let pages = |answer: &Answer| {
            pages_of(answer.prompt.len()) + pages_of(answer.rows_max(self.context_tokens_max))
        };
        let needed = self.waiting.values().map(pages).sum();
        // States of recurrent layers, of a prompt and an answer each, get what the longest request leaves of the cache.
        let places = self.waiting.len().min(self.limits.batch_max);
        let states = 2 * places * self.pool.shape.state_pages();
        let longest = self.waiting.values().map(pages).max().unwrap_or(0);
        let most = self.cache_bytes / self.pool.shape.bytes();
        let most = most - states.min(most.saturating_sub(longest));
        if !self.pool.is_paged() || self.pool.pages_max() < most.min(needed) {
            // Their pages are in the pool that goes.
            self.prompts.drop_all();
            self.tree = Tree::default();
            self.steps = Steps::default();
            self.stats.cache_bytes = self.stats.cache_bytes.max(self.pool.bytes_made());
            let pool = Pool::new(self.pool.shape, most * self.pool.shape.bytes());
            // The pages before go first: there need not be room for both.
            self.pool = Arc::new(Pool::new(self.pool.shape, 0));
            self.pool = Arc::new(pool.beside(&self.model.params, needed));
        }
    }

    /// Requests that can join now; none joins before one that has waited longer.
    fn joining(&mut self) -> Vec<RequestId> {
        if self.waiting.is_empty() || self.active.len() == self.limits.batch_max {
            return Vec::new();
        }
        // Usually the free pages are enough; if not, unused pages can make room.
        let mut joining = self.fitting(None);
        if joining.stalled.is_some() {
            joining = self.fitting(Some(&self.pages_in_use()));
        }
        if let Some(stalled) = joining.stalled
            && self.stalled.replace(stalled) != Some(stalled)
        {
            self.stats.waits += 1;
        }
        joining.requests
    }

    /// Requests that fit into the free pages, or beside the pages that are `in_use`.
    fn fitting(&self, in_use: Option<&Pages>) -> Joining {
        let state_pages = self.pool.state_pages();
        let mut room = match in_use {
            Some(in_use) => self.pool.pages_max() - in_use.len() - self.room_in_use(),
            None => self.pool.free(),
        };
        let places = self.limits.batch_max - self.active.len();
        let mut prompts: BTreeSet<&Arc<[u32]>> = BTreeSet::new();
        let mut begun: BTreeSet<&[u32]> = BTreeSet::new();
        let mut joining = Joining { requests: Vec::new(), stalled: None };
        let mut recomputed = 0;
        let mut probe_pages = self.probe_pages();
        for (&id, answer) in self.waiting.iter().take(places) {
            let prompt = &answer.prompt;
            let prompt_pages =
                if prompts.contains(prompt) { 0 } else { self.prompt_pages(answer, in_use, &mut begun) };
            let pages = prompt_pages + pages_of(self.first_rows(answer)) + state_pages;
            let own = answer.probe_pages();
            probe_pages = probe_pages.max(if own > 0 { own + state_pages } else { 0 });
            // One page is left for each sequence that continues, so that a newcomer does not have to leave at once.
            if pages + self.active.len() + joining.requests.len() + probe_pages > room {
                joining.stalled = Some(id);
                break;
            }
            recomputed += answer.ids.len();
            if recomputed > self.limits.prefill_tokens_max && !joining.requests.is_empty() {
                break;
            }
            room -= pages;
            prompts.insert(prompt);
            joining.requests.push(id);
        }
        joining
    }

    /// Pages that the prompt of an answer needs beyond those that are `in_use` (or all that exist), and beyond the
    /// beginnings in `begun`, which other prompts need and to which its own are added.
    fn prompt_pages<'a>(
        &self,
        answer: &'a Answer,
        in_use: Option<&Pages>,
        begun: &mut BTreeSet<&'a [u32]>,
    ) -> usize {
        let is_there = |page: &Arc<Page>| in_use.is_none_or(|pages| pages.contains(&Arc::as_ptr(page)));
        if let Some(prefilled) = self.prompts.ready_for(answer) {
            let block = &prefilled.block;
            if in_use.is_none() || !prefilled.is_unused() {
                return 0;
            }
            let there = block.shared().iter().filter(|page| is_there(page)).count();
            return block.pages() + block.state_pages() - there;
        }
        let prompt = &answer.prompt;
        let pages_max = self.cached_pages_max(prompt);
        let cached = self.tree.find(prompt, pages_max);
        let there = cached.into_iter().take_while(|page| is_there(page)).count();
        let new = (there..pages_max).filter(|page| begun.insert(&prompt[..(page + 1) * PAGE_ROWS])).count();
        new + pages_of(prompt.len()) - pages_max + self.pool.state_pages()
    }

    /// Most pages of a prompt that need not be read if they are cached: its last token is always read, because what
    /// follows depends on it.
    fn cached_pages_max(&self, prompt: &[u32]) -> usize {
        if self.has_tree() { (prompt.len() - 1) / PAGE_ROWS } else { 0 }
    }

    /// Are beginnings of prompts kept for later ones? A recurrent model would have to keep a state, which is large, for
    /// every page.
    fn has_tree(&self) -> bool {
        !self.model.is_recurrent()
    }

    /// Pages' worth of memory that active sequences take beside the pages of their prompts.
    fn room_in_use(&self) -> usize {
        let answers: usize = self.active.iter().map(|sequence| sequence.cache.answer_room()).sum();
        let prompts: BTreeMap<*const Block, usize> = self
            .active
            .iter()
            .map(|sequence| sequence.cache.prompt())
            .map(|prompt| (Arc::as_ptr(prompt), prompt.state_pages()))
            .collect();
        answers + prompts.values().sum::<usize>()
    }

    /// The pages of prompts that active sequences use, without those of their answers.
    fn pages_in_use(&self) -> Pages {
        let mut blocks: BTreeSet<*const Block> = BTreeSet::new();
        let mut pages = Pages::new();
        for sequence in &self.active {
            let block = sequence.cache.prompt();
            if blocks.insert(Arc::as_ptr(block)) {
                pages.extend(block.all().map(std::ptr::from_ref));
            }
        }
        pages
    }

    /// Tokens of its answer that a request reads in its first step.
    fn first_rows(&self, answer: &Answer) -> usize {
        answer.ids.len().max(1).min(answer.rows_max(self.context_tokens_max))
    }

    /// Reads the prompts of `joining`, lets preempted requests continue, and samples the first token of every other
    /// answer.
    fn admit(&mut self, joining: &[RequestId]) -> Result<(), EngineError> {
        for (at, id) in joining.iter().enumerate() {
            if self.prompts.ready_for(&self.waiting[id]).is_none() {
                self.prefill(joining, at)?;
            }
        }
        let mut hidden = Vec::new();
        let mut rows: BTreeMap<Arc<[u32]>, usize> = BTreeMap::new();
        let mut picks = Vec::new();
        let mut fresh = Vec::new();
        for id in joining {
            let Some(answer) = self.waiting.remove(id) else { continue };
            let Some(prefilled) = self.prompts.ready_for(&answer) else { continue };
            let sequence = Sequence { cache: Cache::after(Arc::clone(&prefilled.block)), answer };
            let prompt = &sequence.answer.prompt;
            if sequence.answer.ids.is_empty() {
                let next = rows.len();
                picks.push(*rows.entry(Arc::clone(prompt)).or_insert_with(|| {
                    hidden.extend_from_slice(&prefilled.hidden);
                    next
                }));
                self.prompts.leave(prompt);
                fresh.push(sequence);
            } else {
                self.prompts.leave(prompt);
                self.active.push(sequence);
            }
        }
        self.stalled = self.stalled.filter(|request| !joining.contains(request));
        // Room was made only for the sequences that were active before.
        self.steps_ahead = 0;
        if !fresh.is_empty() {
            let mut tape = self.decoding(Workers::Pool);
            let hidden = tape.external(rows.len(), hidden.len() / rows.len(), hidden);
            let logits = self.model.logits(&mut tape, &hidden);
            drop(tape);
            let choices = self.choose(&mut fresh, logits, &picks)?;
            self.extend(fresh, choices, &hidden, &picks)?;
        }
        self.prompts.forget();
        self.trim();
        Ok(())
    }

    /// Drops unused pages in excess of the most that were ever in use at once.
    fn trim(&mut self) {
        let mut in_use = self.pages_in_use();
        self.pages_used_max = self.pages_used_max.max(in_use.len() + self.room_in_use());
        let waiting = self.prompts.all_prefilled().flat_map(|prefilled| prefilled.block.shared());
        in_use.extend(waiting.map(Arc::as_ptr));
        // A page in use is either in the tree or at the end of a prompt.
        while self.tree.len() > in_use.len() + self.pages_used_max && self.tree.evict() {}
    }

    /// One pass over the unread parts of the prompts that are needed next: those of `joining[at..]` and, while there is
    /// room to spare, those of the requests behind them, within the token budget.
    fn prefill(&mut self, joining: &[RequestId], at: usize) -> Result<(), EngineError> {
        let pinned: BTreeSet<Arc<[u32]>> =
            joining.iter().map(|id| Arc::clone(&self.waiting[id].prompt)).collect();
        // The pages that continuing and joining sequences need next.
        let state_pages = self.pool.state_pages();
        let first_pages = |id: &RequestId| 1 + pages_of(self.first_rows(&self.waiting[id])) + state_pages;
        let spoken_for = self.active.len() + joining.iter().map(first_pages).sum::<usize>();
        let behind = self
            .waiting
            .iter()
            .filter(|(id, answer)| answer.ids.is_empty() && joining.last().is_some_and(|last| *id > last));
        let candidates: Vec<Arc<[u32]>> = joining[at..]
            .iter()
            .map(|id| &self.waiting[id])
            .chain(behind.map(|(_, answer)| answer))
            .take(joining.len() + self.limits.batch_max)
            .filter(|answer| self.prompts.ready_for(answer).is_none())
            .map(|answer| Arc::clone(&answer.prompt))
            .collect();
        let mut pack: Vec<Arc<[u32]>> = Vec::new();
        let mut blocks: Vec<Block> = Vec::new();
        let mut tokens = 0;
        // Beginnings that are read in this pass: a prompt that shares one waits until it is cached.
        let mut begun: BTreeSet<Arc<[u32]>> = BTreeSet::new();
        for prompt in candidates {
            if pack.contains(&prompt) {
                continue;
            }
            let pages_max = self.cached_pages_max(&prompt);
            let cached = self.tree.find(&prompt, pages_max).len();
            if cached < pages_max && begun.contains(&prompt[..(cached + 1) * PAGE_ROWS]) {
                continue;
            }
            let len = prompt.len();
            let unread = len - cached * PAGE_ROWS;
            let is_full =
                tokens + unread > self.limits.prefill_tokens_max || pack.len() == self.limits.batch_max;
            let is_crowded =
                !pinned.contains(&prompt) && pages_of(len) + state_pages + spoken_for > self.pool.free();
            if (is_full && !pack.is_empty()) || is_crowded {
                break;
            }
            let mut block = Block::after(self.tree.take(&prompt, pages_max));
            while !block.reserve(len, &self.pool) && self.evict(&pinned) {}
            begun.extend((cached + 1..=pages_max).map(|pages| Arc::from(&prompt[..pages * PAGE_ROWS])));
            tokens += unread;
            blocks.push(block);
            pack.push(prompt);
        }

        let lens: Vec<usize> = pack.iter().map(|prompt| prompt.len()).collect();
        let unread = || pack.iter().zip(&blocks).map(|(prompt, block)| block.rows..prompt.len());
        let ids: Vec<u32> =
            pack.iter().zip(unread()).flat_map(|(prompt, rows)| &prompt[rows]).copied().collect();
        let positions: Arc<[u32]> = unread().flat_map(|rows| rows.start as u32..rows.end as u32).collect();
        let mut end = 0;
        let last: Vec<u32> = unread()
            .map(|rows| {
                end += rows.len() as u32;
                end - 1
            })
            .collect();
        let mut mixer = Prefill::new(&lens, self.shape, blocks);
        let mut tape = Tape::inference(&self.model.params);
        if let Some(prepacked) = &self.prepacked {
            tape = tape.with_prepacked(prepacked);
        }
        let hidden = self.model.forward(&mut tape, &ids, &positions, &mut mixer);
        let hidden = tape.gather(&hidden, &last);
        let has_tree = self.has_tree();
        let hidden_rows = self.readback.read(&hidden)?.chunks_exact(hidden.cols());
        for ((prompt, hidden), mut block) in pack.iter().zip(hidden_rows).zip(mixer.into_blocks()) {
            if has_tree {
                self.tree.keep(prompt, &mut block);
            }
            self.prompts.keep(prompt, Prefilled { block: Arc::new(block), hidden: hidden.to_vec() });
        }
        self.stats.prompt_tokens_read += tokens;
        Ok(())
    }

    /// Makes room: drops an unused page; if there is none, drops the prompt that is needed last of those that no active
    /// sequence uses. `false` if only `pinned` ones are left.
    pub(super) fn evict(&mut self, pinned: &BTreeSet<Arc<[u32]>>) -> bool {
        self.tree.evict() || self.prompts.evict(pinned)
    }

    /// Makes sure that every active sequence has room for what it reads next. If the cache has none, the youngest
    /// leave. The oldest never does: each request was checked to have room alone. The pages that a probe needs are left
    /// free.
    pub(super) fn make_room(&mut self) {
        let mut at = 0;
        while at < self.active.len() {
            let sequence = &mut self.active[at];
            if sequence.cache.reserve(sequence.answer.ids.len(), &self.pool) {
                at += 1;
            } else if !self.evict(&BTreeSet::new()) {
                at -= usize::from(self.preempt_youngest() < at);
            }
        }
        while self.probe_pages() > self.pool.free() {
            if self.evict(&BTreeSet::new()) {
                continue;
            }
            if self.active.len() == 1 {
                break;
            }
            self.preempt_youngest();
        }
    }

    /// Most pages that a probe of an active sequence needs. Probes are answered one after the other.
    fn probe_pages(&self) -> usize {
        let pages = self.active.iter().map(|sequence| sequence.answer.probe_pages()).max().unwrap_or(0);
        if pages > 0 { pages + self.pool.state_pages() } else { 0 }
    }

    /// Removes the youngest active sequence; returns its index.
    fn preempt_youngest(&mut self) -> usize {
        let youngest = (0..self.active.len()).max_by_key(|&index| self.active[index].answer.id).unwrap_or(0);
        self.preempt(youngest);
        youngest
    }

    /// Number of steps until the batch must be looked at again. If requests wait it is one, so that they take a place
    /// as soon as it is free; otherwise as many as the cache now makes room for. It depends on the requests and the
    /// limits, not on how sequences are distributed to threads.
    pub(super) fn look_ahead(&mut self) -> usize {
        if !self.waiting.is_empty() || self.probe_pages() > 0 {
            return 1;
        }
        let steps = self.limits.round_steps_max;
        let rows = |Sequence { answer, .. }: &Sequence| {
            answer.rows_max(self.context_tokens_max).min(answer.ids.len() - 1 + steps)
        };
        let missing =
            |sequence: &Sequence| pages_of(rows(sequence)).saturating_sub(sequence.cache.answer_pages());
        let rows: Vec<usize> = self.active.iter().map(rows).collect();
        let missing = self.active.iter().map(missing).sum::<usize>();
        while missing > self.pool.free() {
            if !self.tree.evict() {
                return 1;
            }
        }
        for (sequence, rows) in self.active.iter_mut().zip(rows) {
            sequence.cache.reserve(rows, &self.pool);
        }
        steps
    }

    /// Takes the pages of an active answer, which then waits.
    fn preempt(&mut self, at: usize) {
        let Sequence { answer, cache } = self.active.remove(at);
        let prompt = self.prompts.wait(Arc::clone(&answer.prompt), answer.id);
        // Its prompt stays as long as there is room for it.
        self.prompts.keep(&prompt, Prefilled { block: cache.into_prompt(), hidden: Vec::new() });
        self.waiting.insert(answer.id, answer);
        self.stats.preemptions += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Request};
    use burnish_core::Sampling;
    use burnish_model::Model;
    use std::path::Path;

    /// Pages that hold keys and values, each counted once.
    fn pages_held(sampler: &Sampler) -> usize {
        let read = sampler.prompts.all_prefilled().flat_map(|prefilled| prefilled.block.all());
        let prompts = sampler.active.iter().flat_map(|sequence| sequence.cache.prompt().all());
        let answers = sampler.active.iter().map(|sequence| sequence.cache.answer_pages()).sum::<usize>();
        let pages: Pages = sampler.tree.pages().chain(read).chain(prompts).map(std::ptr::from_ref).collect();
        pages.len() + answers
    }

    #[test]
    fn never_more_pages_are_held_than_the_limit_and_all_are_accounted_for() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-model/tests/golden/qwen3");
        let model = Arc::new(Model::load(&dir).unwrap());
        let page_bytes = crate::sampler::page_shape(&model).bytes();
        let limits = Limits { cache_bytes: Some(9 * page_bytes + 1), ..Limits::default() };
        let mut sampler = Sampler::new(model, None, limits).unwrap();
        let mut greatest = 0;
        for round in 0..2 {
            for i in 0..24 {
                let request = Request {
                    prompt: (0..1 + (i * 5) % 20).map(|at| ((i / 4 * 3 + at) % 50) as u32).collect(),
                    sampling: Sampling::at(1.0, 40 + (i * 7) % 41),
                    seed: i as u64,
                    end_ids: Arc::from([]),
                };
                sampler.submit(request).unwrap();
            }
            let mut ended = 0;
            while !sampler.is_idle() {
                ended += sampler.advance().unwrap().len();
                let held = pages_held(&sampler);
                assert_eq!(held, 9 - sampler.pool.free());
                greatest = greatest.max(held);
            }
            assert_eq!(ended, 24, "{round}");
            assert_eq!(pages_held(&sampler), sampler.tree.len());
        }
        let stats = sampler.stats();
        assert_eq!((stats.cache_bytes, greatest), (9 * page_bytes, 9));
        assert!(stats.preemptions > 0 && stats.waits > 0, "{stats:?}");
    }
}
