//! The state of a batch, and one step of decoding.

mod round;
mod schedule;

use burnish_core::{TokenLogprobs, rng};
use burnish_model::{Model, Tokenizer};
use burnish_tensor::{Draw, Drawn, HeadShape, Landing, Prepacked, Tape, Var, Workers};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::answer::Answer;
use crate::cache::{Cache, Decode, Run};
use crate::generate::{page_shape, pages_max};
use crate::pages::{Block, Pool};
use crate::{Choice, Chooser, EngineError, Generated, Limits, Request, Stats};
use round::{Failed, Round, weight_bytes};

/// Sequences of a shard at least: a thread that reads all weights for fewer had better read half of them.
const SHARD_ROWS_MIN: usize = 4;

/// A token, and what was asked about its distribution.
type Chosen = (Choice, Option<TokenLogprobs>);

/// The index of a request, and its answer.
type Ended = (usize, Generated);

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
    prepacked: Prepacked,
    /// Bytes of weights that a step reads, about.
    weight_bytes: usize,
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
    /// Steps for which all active sequences have room, and before which nobody joins.
    steps_ahead: usize,
    answers: Vec<Option<Generated>>,
    /// One a thread.
    choosers: Vec<Chooser>,
    /// Where what a GPU computed arrives.
    landing: Landing,
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
        let context_tokens_max = limits.context_tokens_max(model);
        let pages = requests.iter().map(|request| pages_max(request, context_tokens_max)).sum();
        let pool = Pool::new(page_shape(model), limits.cache_bytes);
        Batch {
            model,
            prepacked: model.prepacked(),
            weight_bytes: weight_bytes(model),
            tokenizer,
            requests,
            limits,
            shape: model.head_shape(),
            context_tokens_max,
            pool: Arc::new(pool.beside(&model.params, pages)),
            prompts,
            prompt_of,
            prefilled: BTreeMap::new(),
            preempted: BTreeMap::new(),
            waiting_from: 0,
            stalled: None,
            active: Vec::new(),
            steps_ahead: 0,
            answers: requests.iter().map(|_| None).collect(),
            landing: Landing::default(),
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

    /// Samples the next tokens of every active sequence: one, or several where nobody waits for its place.
    pub(crate) fn advance(&mut self) -> Result<(), EngineError> {
        self.make_room();
        if self.steps_ahead == 0 {
            self.steps_ahead = self.look_ahead();
        }
        let sequences = std::mem::take(&mut self.active);
        self.stats.recomputed_tokens +=
            sequences.iter().map(|sequence| sequence.unread().len() - 1).sum::<usize>();
        let share = sequences.len().div_ceil(self.choosers.len());
        if share < SHARD_ROWS_MIN || !self.model.params.device().is_cpu() {
            return self.step_together(sequences);
        }
        // Each thread reads all weights for its own sequences: nobody waits for anybody until the end of the round.
        let mut sequences = sequences.into_iter();
        let shards: Vec<Vec<Sequence<'a>>> =
            std::iter::repeat_with(|| sequences.by_ref().take(share).collect())
                .take_while(|shard: &Vec<_>| !shard.is_empty())
                .collect();
        let mut choosers = std::mem::take(&mut self.choosers);
        let shards = shards.into_par_iter().zip(&mut choosers);
        let rounds: Vec<Round<'a>> = shards.map(|(shard, chooser)| self.round(shard, chooser)).collect();
        self.choosers = choosers;
        self.steps_ahead = 0;
        let Round { sequences, ended, steps, sampled_tokens, failed } =
            rounds.into_iter().fold(Round::default(), Round::with);
        if let Some(Failed { error, .. }) = failed {
            return Err(error);
        }
        self.active = sequences;
        self.end(ended);
        self.stats.steps += steps;
        self.stats.sampled_tokens += sampled_tokens;
        Ok(())
    }

    /// One step of all sequences, each operation of which all threads share.
    fn step_together(&mut self, mut sequences: Vec<Sequence<'a>>) -> Result<(), EngineError> {
        let logits = self.forward(&mut sequences, Workers::Pool);
        let rows: Vec<usize> = (0..sequences.len()).collect();
        let choices = self.choose(&sequences, logits, &rows)?;
        self.stats.steps += 1;
        self.steps_ahead -= 1;
        self.extend(sequences, choices)
    }

    /// Reads the unread tokens of each sequence; gives the logits of what follows, `[sequences, V]`.
    fn forward(&self, sequences: &mut [Sequence<'a>], workers: Workers) -> Var {
        let ids: Vec<u32> = sequences.iter().flat_map(Sequence::unread).copied().collect();
        let lens: Vec<usize> = sequences.iter().map(|sequence| sequence.unread().len()).collect();
        let positions: Arc<[u32]> = sequences
            .iter()
            .flat_map(|sequence| {
                let end = self.requests[sequence.answer.request].prompt.len() + sequence.answer.ids.len();
                (end - sequence.unread().len()) as u32..end as u32
            })
            .collect();
        let caches = sequences.iter_mut().map(|sequence| &mut sequence.cache);
        let runs = caches.zip(&lens).map(|(cache, &rows)| Run { cache, rows }).collect();
        let mut mixer = Decode::new(self.shape, runs);
        let mut tape = Tape::decoding(&self.model.params, &self.prepacked, workers);
        let mut hidden = self.model.forward(&mut tape, &ids, &positions, &mut mixer);
        mixer.commit();
        // The next token of each follows from the last that it read.
        if ids.len() != lens.len() {
            let mut end = 0;
            let last = lens.iter().map(|&len| {
                end += len as u32;
                end - 1
            });
            hidden = tape.gather(&hidden, &last.collect::<Vec<u32>>());
        }
        self.model.logits(&mut tape, &hidden)
    }

    /// Appends its choice to each of `sequences`; those that have not ended then are active.
    fn extend(
        &mut self,
        sequences: Vec<Sequence<'a>>,
        choices: Vec<Option<Chosen>>,
    ) -> Result<(), EngineError> {
        self.stats.sampled_tokens += sequences.len();
        for (sequence, choice) in sequences.into_iter().zip(choices) {
            match self.push(sequence, choice)? {
                ControlFlow::Continue(sequence) => self.active.push(sequence),
                ControlFlow::Break(ended) => self.end([ended]),
            }
        }
        Ok(())
    }

    /// Appends a choice to a sequence, with which it may end. `None` stands for logits that are no distribution.
    fn push(
        &self,
        Sequence { answer, cache }: Sequence<'a>,
        choice: Option<Chosen>,
    ) -> Result<ControlFlow<Ended, Sequence<'a>>, EngineError> {
        let request = answer.request;
        let asked = &self.requests[request];
        let (choice, details) =
            choice.ok_or(EngineError::NotFinite { request, position: answer.ids.len() })?;
        let tokens_left = self.context_tokens_max - asked.prompt.len() - answer.ids.len();
        Ok(match answer.push(asked, choice, details, tokens_left)? {
            ControlFlow::Continue(answer) => ControlFlow::Continue(Sequence { answer, cache }),
            ControlFlow::Break(generated) => ControlFlow::Break((request, generated)),
        })
    }

    fn end(&mut self, ended: impl IntoIterator<Item = Ended>) {
        for (request, generated) in ended {
            self.answers[request] = Some(generated);
        }
    }

    /// Chooses the next token of each sequence, from its row of `logits` `[_, V]`.
    fn choose(
        &mut self,
        sequences: &[Sequence<'a>],
        logits: Var,
        rows: &[usize],
    ) -> Result<Vec<Option<Chosen>>, EngineError> {
        if let Some(draws) = self.draws(sequences, rows) {
            let drawn = burnish_tensor::draw(logits, self.model.vocab(), &draws)?;
            let choice = |(draw, drawn): (&Draw, Option<Drawn>)| {
                let Drawn { id, logprob } = drawn?;
                let behavior_logprob = if draw.temperature == 0.0 { 0.0 } else { logprob };
                Some((Choice { id, logprob, behavior_logprob }, None))
            };
            return Ok(draws.iter().zip(drawn).map(choice).collect());
        }
        let mut landing = std::mem::take(&mut self.landing);
        let logits = landing.read(&logits)?;
        let vocab_size = self.model.vocab().len();
        let share = sequences.len().div_ceil(self.choosers.len()).max(1);
        let mut choosers = std::mem::take(&mut self.choosers);
        let parts = sequences.par_chunks(share).zip(rows.par_chunks(share)).zip(&mut choosers);
        let chosen: Vec<Vec<_>> = parts
            .map(|((sequences, rows), chooser)| {
                let row = |row: usize| &logits[row * vocab_size..][..vocab_size];
                let pairs = sequences.iter().zip(rows);
                pairs.map(|(sequence, &at)| self.choose_one(sequence, row(at), chooser)).collect()
            })
            .collect();
        self.choosers = choosers;
        self.landing = landing;
        Ok(chosen.into_iter().flatten().collect())
    }

    /// What a GPU is asked, if it has the logits and can choose by itself: at a temperature, from the whole vocabulary.
    fn draws(&self, sequences: &[Sequence<'a>], rows: &[usize]) -> Option<Vec<Draw>> {
        if self.model.params.device().is_cpu() {
            return None;
        }
        let draw = |(sequence, &row): (&Sequence<'a>, &usize)| {
            let answer = &sequence.answer;
            let Request { sampling, seed, .. } = &self.requests[answer.request];
            let is_plain = !sampling.is_truncating()
                && !answer.past().is_altering(sampling)
                && sampling.logprobs.is_none();
            let uniform = rng::uniform(*seed, answer.ids.len() as u64);
            is_plain.then_some(Draw { row, temperature: sampling.temperature, uniform })
        };
        sequences.iter().zip(rows).map(draw).collect()
    }

    fn choose_one(&self, sequence: &Sequence<'a>, logits: &[f32], chooser: &mut Chooser) -> Option<Chosen> {
        let answer = &sequence.answer;
        let Request { sampling, seed, .. } = &self.requests[answer.request];
        let uniform = rng::uniform(*seed, answer.ids.len() as u64);
        let choice = chooser.choose(logits, self.model.vocab(), sampling, answer.past(), uniform)?;
        Some((choice, sampling.logprobs.map(|n| chooser.details(logits, choice, n))))
    }
}
