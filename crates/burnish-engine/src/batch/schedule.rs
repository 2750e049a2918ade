//! Who is in the batch: requests join in their order where there is room for them, and the youngest leave where
//! there is none.

use burnish_model::Packed;
use burnish_tensor::{Layout, Tape, Workers};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::round::ROUND_STEPS;
use super::{Batch, Prefilled, Sequence};
use crate::EngineError;
use crate::answer::Answer;
use crate::cache::{Cache, Prefill};
use crate::generate::answer_rows_max;
use crate::pages::{Block, pages_of};

impl Batch<'_> {
    /// Lets waiting requests take the free places, until none waits, none is free, or the cache has no room.
    pub(crate) fn join(&mut self) -> Result<(), EngineError> {
        loop {
            let joining = self.joining();
            if joining.is_empty() {
                return Ok(());
            }
            // A request may end with its first token, which frees its place again.
            self.admit(&joining)?;
        }
    }

    /// Requests that can join now, none before those that wait longer.
    fn joining(&mut self) -> Vec<usize> {
        let places = self.limits.batch_max - self.active.len();
        let unused = self.prefilled.values().filter(|prefilled| prefilled.is_unused());
        // Pages that are free, or held only by prompts that are read and wait.
        let mut room = self.pool.free() + unused.map(|prefilled| prefilled.block.pages()).sum::<usize>();
        let mut prompts = BTreeSet::new();
        let mut joining = Vec::new();
        let mut recomputed = 0;
        let waiting = self.preempted.keys().copied().chain(self.waiting_from..self.requests.len());
        for request in waiting.take(places) {
            let index = self.prompt_of[request];
            let is_held = self.prefilled.get(&index).is_some_and(|prefilled| !prefilled.is_unused());
            let prompt_pages =
                if is_held || prompts.contains(&index) { 0 } else { pages_of(self.prompts[index].ids.len()) };
            let pages = prompt_pages + self.first_pages(request);
            // With a page left for each that goes on, so that a newcomer is not driven out at once.
            if pages + self.active.len() + joining.len() > room {
                if self.stalled.replace(request) != Some(request) {
                    self.stats.waits += 1;
                }
                break;
            }
            recomputed += self.preempted.get(&request).map_or(0, |answer| answer.ids.len());
            if recomputed > self.limits.prefill_tokens_max && !joining.is_empty() {
                break;
            }
            room -= pages;
            prompts.insert(index);
            joining.push(request);
        }
        joining
    }

    /// Pages for the tokens of its answer that a request reads in its first step.
    fn first_pages(&self, request: usize) -> usize {
        let sampled = self.preempted.get(&request).map_or(1, |answer| answer.ids.len());
        pages_of(sampled.min(answer_rows_max(&self.requests[request], self.context_tokens_max)))
    }

    /// Reads the prompts of `joining`, lets those that left go on, and samples the first token of each other
    /// answer.
    fn admit(&mut self, joining: &[usize]) -> Result<(), EngineError> {
        let fresh_until =
            self.waiting_from + joining.iter().filter(|&&request| request >= self.waiting_from).count();
        for (at, &request) in joining.iter().enumerate() {
            if !self.prefilled.contains_key(&self.prompt_of[request]) {
                self.prefill(joining, at, fresh_until)?;
            }
        }
        let mut hidden = Vec::new();
        let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
        let mut picks = Vec::new();
        let mut fresh = Vec::new();
        for &request in joining {
            let index = self.prompt_of[request];
            self.prompts[index].waiting -= 1;
            let prefilled = &self.prefilled[&index];
            let cache = Cache::after(Arc::clone(&prefilled.block));
            if let Some(answer) = self.preempted.remove(&request) {
                self.active.push(Sequence { answer, cache });
                continue;
            }
            let next = rows.len();
            picks.push(*rows.entry(index).or_insert_with(|| {
                hidden.extend_from_slice(&prefilled.hidden);
                next
            }));
            let answer = Answer::new(request, &self.requests[request], self.tokenizer);
            fresh.push(Sequence { answer, cache });
        }
        self.waiting_from = fresh_until;
        self.stalled = self.stalled.filter(|request| !joining.contains(request));
        if !fresh.is_empty() {
            let mut tape = Tape::decoding(&self.model.params, &self.prepacked, Workers::Pool);
            let hidden = tape.external(rows.len(), hidden.len() / rows.len(), hidden);
            let logits = self.model.logits(&mut tape, &hidden);
            drop(tape);
            let choices = self.choose(&fresh, logits, &picks)?;
            self.extend(fresh, choices)?;
        }
        let prompts = &self.prompts;
        self.prefilled.retain(|&index, _| prompts[index].waiting > 0);
        Ok(())
    }

    /// One pass over the prompts that are needed next: those of `joining[at..]` and, while there is room to
    /// spare, those of the requests from `fresh_until` on, within the token budget.
    fn prefill(&mut self, joining: &[usize], at: usize, fresh_until: usize) -> Result<(), EngineError> {
        let pinned: BTreeSet<usize> = joining.iter().map(|&request| self.prompt_of[request]).collect();
        // What those that go on and those that join take next.
        let spoken_for =
            self.active.len() + joining.iter().map(|&request| 1 + self.first_pages(request)).sum::<usize>();
        let mut pack: Vec<usize> = Vec::new();
        let mut blocks: Vec<Block> = Vec::new();
        let mut tokens = 0;
        for request in joining[at..].iter().copied().chain(fresh_until..self.requests.len()) {
            let index = self.prompt_of[request];
            if self.prefilled.contains_key(&index) || pack.contains(&index) {
                continue;
            }
            let len = self.prompts[index].ids.len();
            let is_full =
                tokens + len > self.limits.prefill_tokens_max || pack.len() == self.limits.batch_max;
            let is_crowded = !pinned.contains(&index) && pages_of(len) + spoken_for > self.pool.free();
            if (is_full && !pack.is_empty()) || is_crowded {
                break;
            }
            let mut block = Block::default();
            while !block.reserve(len, &self.pool) && self.evict(&pinned) {}
            pack.push(index);
            blocks.push(block);
            tokens += len;
        }

        let lens: Vec<usize> = pack.iter().map(|&index| self.prompts[index].ids.len()).collect();
        let ids: Vec<u32> = pack.iter().flat_map(|&index| self.prompts[index].ids).copied().collect();
        let positions: Arc<[u32]> = lens.iter().flat_map(|&len| 0..len as u32).collect();
        let layout = Arc::new(Layout::causal(&lens));
        let mut mixer = Prefill::new(Packed { layout, shape: self.shape }, blocks);
        let mut tape = Tape::inference(&self.model.params).with_prepacked(&self.prepacked);
        let hidden = self.model.forward(&mut tape, &ids, &positions, &mut mixer);
        let mut end = 0;
        let last = lens.iter().map(|&len| {
            end += len as u32;
            end - 1
        });
        let hidden = tape.gather(&hidden, &last.collect::<Vec<u32>>());
        let hidden_rows = self.landing.read(&hidden)?.chunks_exact(hidden.cols());
        for ((index, hidden), block) in pack.into_iter().zip(hidden_rows).zip(mixer.into_blocks()) {
            self.prefilled.insert(index, Prefilled { block: Arc::new(block), hidden: hidden.to_vec() });
        }
        self.stats.prefill_tokens += tokens;
        Ok(())
    }

    /// Forgets the prompt that is needed last of those that no active sequence goes by. `false` if there is
    /// none but those that are `pinned`.
    fn evict(&mut self, pinned: &BTreeSet<usize>) -> bool {
        let unused = self.prefilled.iter().rev();
        let mut unused = unused.filter(|(index, prefilled)| prefilled.is_unused() && !pinned.contains(index));
        let Some((&index, _)) = unused.next() else { return false };
        self.prefilled.remove(&index);
        true
    }

    /// Sees that every active sequence has room for what it reads next; where the cache has none, the youngest
    /// leave. The oldest never does: it was checked that each request has room alone.
    pub(super) fn make_room(&mut self) {
        let mut at = 0;
        while at < self.active.len() {
            let sequence = &mut self.active[at];
            if sequence.cache.reserve(sequence.answer.ids.len(), &self.pool) {
                at += 1;
            } else if !self.evict(&BTreeSet::new()) {
                let youngest = (0..self.active.len())
                    .max_by_key(|&index| self.active[index].answer.request)
                    .unwrap_or(at);
                self.preempt(youngest);
                at -= usize::from(youngest < at);
            }
        }
    }

    /// How many steps can be done before it must be looked again who is in the batch. Where requests wait it is one, so
    /// that they take a place as soon as it is free; else as many as the cache now makes room for. It follows from the
    /// requests and the limits, and not from how sequences are shared out to threads.
    pub(super) fn look_ahead(&mut self) -> usize {
        if !self.preempted.is_empty() || self.waiting_from < self.requests.len() {
            return 1;
        }
        let rows = |sequence: &Sequence<'_>| {
            let Answer { request, ids, .. } = &sequence.answer;
            answer_rows_max(&self.requests[*request], self.context_tokens_max)
                .min(ids.len() - 1 + ROUND_STEPS)
        };
        let missing =
            |sequence: &Sequence<'_>| pages_of(rows(sequence)).saturating_sub(sequence.cache.answer_pages());
        let rows: Vec<usize> = self.active.iter().map(rows).collect();
        if self.active.iter().map(missing).sum::<usize>() > self.pool.free() {
            return 1;
        }
        for (sequence, rows) in self.active.iter_mut().zip(rows) {
            sequence.cache.reserve(rows, &self.pool);
        }
        ROUND_STEPS
    }

    /// Takes the pages of an active answer, which then waits.
    fn preempt(&mut self, at: usize) {
        let Sequence { answer, cache } = self.active.remove(at);
        let index = self.prompt_of[answer.request];
        self.prompts[index].waiting += 1;
        // Its prompt stays while there is room for it.
        let block = cache.into_prompt();
        self.prefilled.entry(index).or_insert(Prefilled { block, hidden: Vec::new() });
        self.preempted.insert(answer.request, answer);
        self.stats.preemptions += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::page_shape;
    use crate::{Limits, Request};
    use burnish_core::Sampling;
    use burnish_model::Model;
    use std::path::Path;

    /// Bytes of the buffers that hold keys and values, each counted once.
    fn bytes_held(batch: &Batch<'_>) -> usize {
        let prefilled = batch.prefilled.values().map(|prefilled| &prefilled.block);
        let prompts = prefilled.chain(batch.active.iter().map(|sequence| sequence.cache.prompt()));
        let prompts: BTreeMap<*const Block, &Arc<Block>> =
            prompts.map(|block| (Arc::as_ptr(block), block)).collect();
        let answers = batch.active.iter().map(|sequence| sequence.cache.answer());
        prompts.values().map(|block| &***block).chain(answers).map(Block::bytes).sum()
    }

    #[test]
    fn the_buffers_never_hold_more_than_the_limit_and_are_what_is_accounted_for() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-model/tests/golden/qwen3");
        let model = Model::load(&dir).unwrap();
        let page_bytes = page_shape(&model).bytes();
        let requests: Vec<Request> = (0..24)
            .map(|i| Request {
                prompt: (0..1 + (i * 5) % 20).map(|at| ((i / 4 * 3 + at) % 50) as u32).collect(),
                sampling: Sampling::at(1.0, 40 + (i * 7) % 41),
                seed: i as u64,
                end_ids: Arc::from([]),
            })
            .collect();
        let limits = Limits { cache_bytes: 9 * page_bytes + 1, ..Limits::default() };
        let mut batch = Batch::new(&model, None, &requests, &limits);
        let mut greatest = 0;
        loop {
            batch.join().unwrap();
            let held = bytes_held(&batch);
            assert_eq!(held, 9 * page_bytes - batch.pool.free() * page_bytes);
            greatest = greatest.max(held);
            if batch.is_empty() {
                break;
            }
            batch.advance().unwrap();
            let held = bytes_held(&batch);
            assert_eq!(held, 9 * page_bytes - batch.pool.free() * page_bytes);
            greatest = greatest.max(held);
        }
        assert_eq!((bytes_held(&batch), batch.pool.free()), (0, 9));
        let (answers, stats) = batch.finish();
        assert_eq!((answers.len(), stats.cache_bytes, greatest), (24, 9 * page_bytes, 9 * page_bytes));
        assert!(stats.preemptions > 0 && stats.waits > 0, "{stats:?}");
    }
}
