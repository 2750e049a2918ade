//! The state of a batch, and one step of decoding.

mod schedule;

use burnish_core::{TokenLogprobs, rng};
use burnish_model::{Model, Tokenizer};
use burnish_tensor::{HeadShape, Tape};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::answer::Answer;
use crate::cache::{Cache, Decode, Run};
use crate::generate::page_shape;
use crate::pages::{Block, Pool};
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
        let mut tape = Tape::decoding(&self.model.params);
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
