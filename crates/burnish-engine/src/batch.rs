//! Which sequences are active, which requests wait, and one step of decoding.

use burnish_core::{TokenLogprobs, rng};
use burnish_model::{Model, Packed, Tokenizer};
use burnish_tensor::{HeadShape, Layout, Tape};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::answer::Answer;
use crate::cache::{Cache, Decode, Prefill, Run};
use crate::generate::{answer_rows_max, page_shape};
use crate::pages::{Block, Pool, pages_of};
use crate::{Choice, Chooser, EngineError, Generated, Limits, Request, Stats};

/// A prompt that is read once for all requests that have it.
struct Prompt<'a> {
    ids: &'a [u32],
    /// Requests that wait to join, or to join again.
    waiting: usize,
}

/// What reading a prompt left behind.
struct Prefilled {
    block: Arc<Block>,
    /// Final hidden state of the last token `[D]`; empty where no first token is to be chosen from it.
    hidden: Vec<f32>,
}

impl Prefilled {
    /// Does no active sequence go by it?
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.block) == 1
    }
}

/// An active answer.
struct Sequence<'a> {
    answer: Answer<'a>,
    cache: Cache,
}

impl Sequence<'_> {
    /// Tokens of the answer that are to be read next: the newest, or all of them after a preemption.
    fn unread(&self) -> &[u32] {
        &self.answer.ids[self.cache.answer_rows()..]
    }
}

pub(crate) struct Batch<'a> {
    model: &'a Model,
    tokenizer: Option<&'a Tokenizer>,
    requests: &'a [Request],
    limits: &'a Limits,
    shape: HeadShape,
    context_tokens_max: usize,
    pool: Arc<Pool>,
    /// Unique prompts in the order of first use.
    prompts: Vec<Prompt<'a>>,
    /// Index into `prompts`, for each request.
    prompt_of: Vec<usize>,
    /// By index into `prompts`: there from the prefill until no request waits for it, unless room is needed.
    prefilled: BTreeMap<usize, Prefilled>,
    /// By request: answers that had to leave. They come before those that have not joined yet.
    preempted: BTreeMap<usize, Answer<'a>>,
    /// Requests from here on have not joined yet.
    waiting_from: usize,
    /// The request that is first in the queue and was found to have no room.
    stalled: Option<usize>,
    active: Vec<Sequence<'a>>,
    answers: Vec<Option<Generated>>,
    /// One a thread.
    choosers: Vec<Chooser>,
    stats: Stats,
}

impl<'a> Batch<'a> {
    /// The requests have been checked.
    pub(crate) fn new(
        model: &'a Model,
        tokenizer: Option<&'a Tokenizer>,
        requests: &'a [Request],
        limits: &'a Limits,
    ) -> Self {
        let mut prompts: Vec<Prompt<'a>> = Vec::new();
        let mut index_of: BTreeMap<&[u32], usize> = BTreeMap::new();
        let mut prompt_of = Vec::with_capacity(requests.len());
        for request in requests {
            let index = *index_of.entry(&request.prompt).or_insert_with(|| {
                prompts.push(Prompt { ids: &request.prompt, waiting: 0 });
                prompts.len() - 1
            });
            prompts[index].waiting += 1;
            prompt_of.push(index);
        }
        Batch {
            model,
            tokenizer,
            requests,
            limits,
            shape: model.head_shape(),
            context_tokens_max: limits.context_tokens_max(model),
            pool: Arc::new(Pool::new(page_shape(model), limits.cache_bytes)),
            prompts,
            prompt_of,
            prefilled: BTreeMap::new(),
            preempted: BTreeMap::new(),
            waiting_from: 0,
            stalled: None,
            active: Vec::new(),
            answers: requests.iter().map(|_| None).collect(),
            choosers: (0..rayon::current_num_threads()).map(|_| Chooser::default()).collect(),
            stats: Stats::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// The answers, in the order of the requests.
    pub(crate) fn finish(mut self) -> (Vec<Generated>, Stats) {
        self.stats.cache_bytes = self.pool.bytes_made();
        (self.answers.into_iter().flatten().collect(), self.stats)
    }

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
                self.prefill(joining, at, fresh_until);
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
            let logits = self.model.logits(&hidden);
            self.extend(fresh, &logits, &picks)?;
        }
        let prompts = &self.prompts;
        self.prefilled.retain(|&index, _| prompts[index].waiting > 0);
        Ok(())
    }

    /// One pass over the prompts that are needed next: those of `joining[at..]` and, while there is room to
    /// spare, those of the requests from `fresh_until` on, within the token budget.
    fn prefill(&mut self, joining: &[usize], at: usize, fresh_until: usize) {
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
        let mut tape = Tape::inference(&self.model.params);
        let hidden = self.model.forward(&mut tape, &ids, &positions, &mut mixer);
        let mut end = 0;
        for ((index, len), block) in pack.into_iter().zip(lens).zip(mixer.into_blocks()) {
            end += len * hidden.cols();
            let hidden = hidden.data()[end - hidden.cols()..end].to_vec();
            self.prefilled.insert(index, Prefilled { block: Arc::new(block), hidden });
        }
        self.stats.prefill_tokens += tokens;
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
    fn make_room(&mut self) {
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

    /// Samples one token of every active sequence.
    pub(crate) fn step(&mut self) -> Result<(), EngineError> {
        self.make_room();
        let ids: Vec<u32> = self.active.iter().flat_map(Sequence::unread).copied().collect();
        let lens: Vec<usize> = self.active.iter().map(|sequence| sequence.unread().len()).collect();
        let positions: Arc<[u32]> = self
            .active
            .iter()
            .flat_map(|sequence| {
                let end = self.requests[sequence.answer.request].prompt.len() + sequence.answer.ids.len();
                (end - sequence.unread().len()) as u32..end as u32
            })
            .collect();
        let caches = self.active.iter_mut().map(|sequence| &mut sequence.cache);
        let runs = caches.zip(&lens).map(|(cache, &rows)| Run { cache, rows }).collect();
        let mut mixer = Decode { shape: self.shape, runs };
        let mut tape = Tape::inference(&self.model.params);
        let hidden = self.model.forward(&mut tape, &ids, &positions, &mut mixer);
        mixer.commit();
        // The next token of each follows from the last that it read.
        let logits = if ids.len() == lens.len() {
            self.model.logits(hidden.data())
        } else {
            let mut last = Vec::with_capacity(lens.len() * hidden.cols());
            let mut end = 0;
            for len in &lens {
                end += len * hidden.cols();
                last.extend_from_slice(&hidden.data()[end - hidden.cols()..end]);
            }
            self.model.logits(&last)
        };
        self.stats.recomputed_tokens += ids.len() - lens.len();
        self.stats.steps += 1;
        let sequences = std::mem::take(&mut self.active);
        let rows: Vec<usize> = (0..sequences.len()).collect();
        self.extend(sequences, &logits, &rows)
    }

    /// Appends a token to each of `sequences`, chosen from its row of `logits` `[_, V]`; those that have not
    /// ended then are active.
    fn extend(
        &mut self,
        sequences: Vec<Sequence<'a>>,
        logits: &[f32],
        rows: &[usize],
    ) -> Result<(), EngineError> {
        let choices = self.choose(&sequences, logits, rows);
        for (Sequence { answer, cache }, choice) in sequences.into_iter().zip(choices) {
            let request = answer.request;
            let asked = &self.requests[request];
            let (choice, details) =
                choice.ok_or(EngineError::NotFinite { request, position: answer.ids.len() })?;
            let tokens_left = self.context_tokens_max - asked.prompt.len() - answer.ids.len();
            self.stats.sampled_tokens += 1;
            match answer.push(asked, choice, details, tokens_left)? {
                ControlFlow::Continue(answer) => self.active.push(Sequence { answer, cache }),
                ControlFlow::Break(generated) => self.answers[request] = Some(generated),
            }
        }
        Ok(())
    }

    /// Chooses the next token of each sequence; none where its logits are no distribution.
    fn choose(
        &mut self,
        sequences: &[Sequence<'a>],
        logits: &[f32],
        rows: &[usize],
    ) -> Vec<Option<(Choice, Option<TokenLogprobs>)>> {
        let (requests, vocab) = (self.requests, self.model.vocab());
        let share = sequences.len().div_ceil(self.choosers.len()).max(1);
        let parts = sequences.par_chunks(share).zip(rows.par_chunks(share)).zip(&mut self.choosers);
        let chosen: Vec<Vec<_>> = parts
            .map(|((sequences, rows), chooser)| {
                let pairs = sequences.iter().zip(rows);
                let choose = pairs.map(|(Sequence { answer, .. }, row)| {
                    let Request { sampling, seed, .. } = &requests[answer.request];
                    let logits = &logits[row * vocab.len()..][..vocab.len()];
                    let uniform = rng::uniform(*seed, answer.ids.len() as u64);
                    let choice = chooser.choose(logits, vocab, sampling, answer.past(), uniform)?;
                    Some((choice, sampling.logprobs.map(|n| chooser.details(logits, choice, n))))
                });
                choose.collect()
            })
            .collect();
        chosen.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::page_shape;
    use burnish_core::Sampling;
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
            batch.step().unwrap();
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
