use burnish_core::{Sampling, StopReason, rng};
use burnish_model::{Model, Packed};
use burnish_tensor::{HeadShape, Layout, Tape};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
use std::sync::Arc;

use crate::cache::{Block, Cache, Decode, Prefill};
use crate::{Choice, Chooser, EngineError};

/// One answer that is wanted.
#[derive(Debug, Clone)]
pub struct Request {
    /// Ids to continue. Requests with equal prompts share one prefill.
    pub prompt: Vec<u32>,
    /// How to choose tokens.
    pub sampling: Sampling,
    /// The token at position `i` of the answer is chosen with `rng::uniform(seed, i)`.
    pub seed: u64,
    /// Ids that end the answer; the one that did is part of it.
    pub stop_ids: Arc<[u32]>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// What was sampled, the end token included.
    pub ids: Vec<u32>,
    /// Log-probability of each id in nats; see [`Choice::logprob`].
    pub logprobs: Vec<f32>,
    /// Why it ended.
    pub stop: StopReason,
}

/// How much is done at once, and how long a sequence may become. The first two change speed and memory, not
/// what is sampled (up to rounding).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most sequences that decode together.
    pub batch_max: usize,
    /// Most prompt tokens read in one pass; a longer prompt has a pass of its own.
    pub prefill_tokens_max: usize,
    /// Most tokens of prompt and answer together; the model's own bound holds in any case.
    pub context_tokens_max: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { batch_max: 256, prefill_tokens_max: 4096, context_tokens_max: None }
    }
}

impl Limits {
    /// The longest context under these limits and the model's own.
    pub(crate) fn context_tokens_max(&self, model: &Model) -> usize {
        self.context_tokens_max.unwrap_or(usize::MAX).min(model.context_tokens_max())
    }
}

/// What a batch took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Prompt tokens read; a prompt that several requests share counts once.
    pub prefill_tokens: usize,
    /// Tokens sampled.
    pub sampled_tokens: usize,
    /// Decoding steps, each one pass over the sequences that were active.
    pub steps: usize,
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.prefill_tokens += other.prefill_tokens;
        self.sampled_tokens += other.sampled_tokens;
        self.steps += other.steps;
    }
}

/// Answers every request, in their order.
///
/// Prompts are packed without padding and read once each. Sequences decode together; one that ends leaves at
/// once and the next waiting request takes its place.
///
/// # Errors
/// If a limit is 0, a request is out of range (empty or overlong prompt, unknown id, sampling parameters), or
/// the model's logits are not finite.
pub fn generate(
    model: &Model,
    requests: &[Request],
    limits: &Limits,
) -> Result<(Vec<Generated>, Stats), EngineError> {
    check(model, requests, limits)?;
    let mut batch = Batch::new(model, requests, limits);
    loop {
        batch.join()?;
        if batch.active.is_empty() {
            break;
        }
        batch.step()?;
    }
    Ok((batch.answers.into_iter().flatten().collect(), batch.stats))
}

fn check(model: &Model, requests: &[Request], limits: &Limits) -> Result<(), EngineError> {
    for (field, limit) in [("batch_max", limits.batch_max), ("prefill_tokens_max", limits.prefill_tokens_max)]
    {
        if limit == 0 {
            return Err(EngineError::Limit { field });
        }
    }
    let vocab_size = model.vocab().len();
    let tokens_max = limits.context_tokens_max(model).saturating_sub(1);
    for (request, Request { prompt, sampling, .. }) in requests.iter().enumerate() {
        let tokens = prompt.len();
        if tokens == 0 {
            return Err(EngineError::EmptyPrompt { request });
        }
        if tokens > tokens_max {
            return Err(EngineError::PromptTooLong { request, tokens, tokens_max });
        }
        if let Some(position) = prompt.iter().position(|&id| id as usize >= vocab_size) {
            return Err(EngineError::UnknownId { request, position, id: prompt[position], vocab_size });
        }
        sampling.check().map_err(|source| EngineError::Sampling { request, source })?;
    }
    Ok(())
}

/// A prompt that is read once for all requests that have it.
struct Prompt<'a> {
    ids: &'a [u32],
    /// Requests that have not joined yet.
    waiting: usize,
}

/// What reading a prompt left behind.
struct Prefilled {
    block: Arc<Block>,
    /// Final hidden state of the last token. `[D]`
    hidden: Vec<f32>,
}

/// An answer in the making.
struct Sequence {
    request: usize,
    ids: Vec<u32>,
    logprobs: Vec<f32>,
    cache: Cache,
}

/// A token to be chosen: for which request, where in its answer, from which row of logits.
struct Pick {
    request: usize,
    position: usize,
    row: usize,
}

struct Batch<'a> {
    model: &'a Model,
    requests: &'a [Request],
    limits: &'a Limits,
    shape: HeadShape,
    context_tokens_max: usize,
    /// Unique prompts in the order of first use.
    prompts: Vec<Prompt<'a>>,
    /// Index into `prompts`, for each request.
    prompt_of: Vec<usize>,
    /// By index into `prompts`: there from the prefill until the last request has joined.
    prefilled: BTreeMap<usize, Prefilled>,
    /// Requests from here on wait.
    waiting_from: usize,
    active: Vec<Sequence>,
    answers: Vec<Option<Generated>>,
    stats: Stats,
}

impl<'a> Batch<'a> {
    fn new(model: &'a Model, requests: &'a [Request], limits: &'a Limits) -> Self {
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
            requests,
            limits,
            shape: model.head_shape(),
            context_tokens_max: limits.context_tokens_max(model),
            prompts,
            prompt_of,
            prefilled: BTreeMap::new(),
            waiting_from: 0,
            active: Vec::new(),
            answers: requests.iter().map(|_| None).collect(),
            stats: Stats::default(),
        }
    }

    /// Lets waiting requests take the free places, until none waits or none is free.
    fn join(&mut self) -> Result<(), EngineError> {
        loop {
            let free = self.limits.batch_max - self.active.len();
            let until = self.requests.len().min(self.waiting_from + free);
            if self.waiting_from == until {
                return Ok(());
            }
            // A request may end with its first token, which frees its place again.
            self.admit(self.waiting_from..until)?;
            self.waiting_from = until;
        }
    }

    /// Reads the prompts of `joining` and samples the first token of each answer.
    fn admit(&mut self, joining: Range<usize>) -> Result<(), EngineError> {
        for request in joining.clone() {
            if !self.prefilled.contains_key(&self.prompt_of[request]) {
                self.prefill(request);
            }
        }
        let (picks, hidden) = self.first_picks(joining);
        let logits = self.model.logits(&hidden);
        let choices = self.choose(&logits, &picks)?;
        for (pick, choice) in picks.iter().zip(choices) {
            let index = self.prompt_of[pick.request];
            self.prompts[index].waiting -= 1;
            let sequence = Sequence {
                request: pick.request,
                ids: Vec::new(),
                logprobs: Vec::new(),
                cache: Cache::after(Arc::clone(&self.prefilled[&index].block)),
            };
            self.append(sequence, choice);
        }
        let prompts = &self.prompts;
        self.prefilled.retain(|&index, _| prompts[index].waiting > 0);
        Ok(())
    }

    /// One pass over the prompts that are needed next, from that of request `first` on, within the token budget.
    fn prefill(&mut self, first: usize) {
        let mut pack: Vec<usize> = Vec::new();
        let mut tokens = 0;
        for &index in &self.prompt_of[first..] {
            if self.prefilled.contains_key(&index) || pack.contains(&index) {
                continue;
            }
            let len = self.prompts[index].ids.len();
            let is_full =
                tokens + len > self.limits.prefill_tokens_max || pack.len() == self.limits.batch_max;
            if is_full && !pack.is_empty() {
                break;
            }
            tokens += len;
            pack.push(index);
        }
        let lens: Vec<usize> = pack.iter().map(|&index| self.prompts[index].ids.len()).collect();
        let ids: Vec<u32> = pack.iter().flat_map(|&index| self.prompts[index].ids).copied().collect();
        let positions: Arc<[u32]> = lens.iter().flat_map(|&len| 0..len as u32).collect();
        let layout = Arc::new(Layout::causal(&lens));
        let mut mixer = Prefill::new(Packed { layout, shape: self.shape });
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

    /// The first token of each answer, and the hidden states to choose it from: one row a prompt.
    fn first_picks(&self, joining: Range<usize>) -> (Vec<Pick>, Vec<f32>) {
        let mut hidden = Vec::new();
        let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
        let picks = joining
            .map(|request| {
                let index = self.prompt_of[request];
                let next = rows.len();
                let row = *rows.entry(index).or_insert_with(|| {
                    hidden.extend_from_slice(&self.prefilled[&index].hidden);
                    next
                });
                Pick { request, position: 0, row }
            })
            .collect();
        (picks, hidden)
    }

    /// Samples one token of every active sequence.
    fn step(&mut self) -> Result<(), EngineError> {
        let newest: Vec<u32> = self.active.iter().filter_map(|s| s.ids.last().copied()).collect();
        let positions: Arc<[u32]> = self
            .active
            .iter()
            .map(|sequence| (self.prompt_len(sequence.request) + sequence.ids.len() - 1) as u32)
            .collect();
        let caches = self.active.iter_mut().map(|sequence| &mut sequence.cache).collect();
        let mut mixer = Decode { shape: self.shape, caches };
        let mut tape = Tape::decoding(&self.model.params);
        let hidden = self.model.forward(&mut tape, &newest, &positions, &mut mixer);
        let logits = self.model.logits(hidden.data());
        let picks: Vec<Pick> = self
            .active
            .iter()
            .enumerate()
            .map(|(row, sequence)| Pick { request: sequence.request, position: sequence.ids.len(), row })
            .collect();
        let choices = self.choose(&logits, &picks)?;
        for (sequence, choice) in std::mem::take(&mut self.active).into_iter().zip(choices) {
            self.append(sequence, choice);
        }
        self.stats.steps += 1;
        Ok(())
    }

    /// Chooses every pick from its row of `logits` `[rows, V]`.
    fn choose(&self, logits: &[f32], picks: &[Pick]) -> Result<Vec<Choice>, EngineError> {
        let vocab = self.model.vocab();
        let choices: Vec<Option<Choice>> = picks
            .par_iter()
            .map_init(Chooser::default, |chooser, pick| {
                let Request { sampling, seed, .. } = &self.requests[pick.request];
                let row = &logits[pick.row * vocab.len()..][..vocab.len()];
                chooser.choose(row, vocab, sampling, rng::uniform(*seed, pick.position as u64))
            })
            .collect();
        choices
            .into_iter()
            .zip(picks)
            .map(|(choice, &Pick { request, position, .. })| {
                choice.ok_or(EngineError::NotFinite { request, position })
            })
            .collect()
    }

    /// Appends a token to an answer, which then ends or is active.
    fn append(&mut self, mut sequence: Sequence, choice: Choice) {
        sequence.ids.push(choice.id);
        sequence.logprobs.push(choice.logprob);
        self.stats.sampled_tokens += 1;
        match self.stop(&sequence, choice.id) {
            None => self.active.push(sequence),
            Some(stop) => {
                let Sequence { request, ids, logprobs, .. } = sequence;
                self.answers[request] = Some(Generated { ids, logprobs, stop });
            }
        }
    }

    fn stop(&self, sequence: &Sequence, newest: u32) -> Option<StopReason> {
        let request = &self.requests[sequence.request];
        if request.stop_ids.contains(&newest) {
            Some(StopReason::EndToken)
        } else if sequence.ids.len() >= request.sampling.tokens_max {
            Some(StopReason::TokensMax)
        } else if self.prompt_len(sequence.request) + sequence.ids.len() >= self.context_tokens_max {
            Some(StopReason::ContextFull)
        } else {
            None
        }
    }

    fn prompt_len(&self, request: usize) -> usize {
        self.requests[request].prompt.len()
    }
}
