//! An open batch: requests come and go while it decodes.

mod captured;
mod choose;
mod inside;
mod probe;
mod prompts;
mod round;
mod schedule;
mod under_way;

use burnish_core::{SamplingError, Source, StopReason};
use burnish_model::{LayerKind, Model, Tokenizer};
use burnish_tensor::{
    HeadShape, HostReadback, PagedCache, Prepacked, Steps, Tape, Var, Visibility, Workers, in_pool,
};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::answer::{Answer, Next, read_ahead};
use crate::cache::{Cache, Decode, Run};
use crate::control::Control;
use crate::need::pass_bytes;
use crate::pages::{PageShape, Pool, pages_of};
use crate::request::answer_rows_max;
use crate::state::StateShape;
use crate::tree::Tree;
use crate::{Chooser, EngineError, Generated, Limits, Request, RequestId, Stats};
use inside::Taps;
use prompts::Prompts;
use round::{Round, weight_bytes};

/// Fewest sequences in a shard. For fewer, it is faster that each thread reads only half of the weights.
const SHARD_ROWS_MIN: usize = 4;

/// A finished request, with its result.
pub type Ended = (RequestId, Result<Generated, EngineError>);

/// An active answer.
struct Sequence {
    answer: Answer,
    cache: Cache,
}

impl Sequence {
    /// Tokens of the answer to read next: the newest, or all of them after a preemption.
    fn unread(&self) -> &[u32] {
        &self.answer.ids[self.cache.answer_rows()..]
    }
}

/// Samples from one snapshot of a model's weights, for requests that come and go.
///
/// It works only when called ([`Sampler::advance`]) and has no thread of its own, so that its user decides what else is
/// done in between, and nothing depends on clocks. Prompts that are not cached are packed without padding and read once
/// each. Sequences decode together; one that ends leaves at once, and the next waiting request takes its place. A
/// request waits if the cache has no room for it. If the cache has no room for all active sequences, the youngest leave
/// and go to the front of the queue; later they read their prompt and what they sampled again. Their tokens and
/// recorded log-probs stay.
///
/// Full pages of prompts stay in a tree after their requests have ended, as many as were ever in use at once, so that
/// for a later prompt with the same beginning only the rest is read. Its answer is the same to the bit. On a GPU, and
/// by a model with layers of the delta rule, prompts are always read whole; requests that wait at the same time share
/// them all the same.
///
/// If the model is on a GPU, the cache is there too, in one piece. A step waits for the GPU only once, for its tokens, and
/// is launched from a CUDA graph once a step of its shape has been captured.
pub struct Sampler {
    model: Arc<Model>,
    tokenizer: Option<Arc<Tokenizer>>,
    limits: Limits,
    /// Most bytes of keys and values that are held at once.
    cache_bytes: usize,
    /// Made when it is first needed, and kept.
    prepacked: Option<Prepacked>,
    /// Approximate number of bytes of weights that a step reads.
    weight_bytes: usize,
    shape: HeadShape,
    context_tokens_max: usize,
    pool: Arc<Pool>,
    tree: Tree,
    /// Steps over the pool's pages on a GPU.
    steps: Steps,
    /// Most pages that were in use at once.
    pages_used_max: usize,
    prompts: Prompts,
    /// Requests that have not joined yet, or had to leave. The latter come first, since they joined before.
    waiting: BTreeMap<RequestId, Answer>,
    /// The first request in the queue, if it was found to have no room.
    stalled: Option<RequestId>,
    active: Vec<Sequence>,
    /// Number of steps for which all active sequences have room, and before which no request joins.
    steps_ahead: usize,
    ended: Vec<Ended>,
    /// One per thread.
    choosers: Vec<Chooser>,
    /// Receives what a GPU computed.
    readback: HostReadback,
    next_id: u64,
    stats: Stats,
}

impl Sampler {
    /// A sampler of a model. Stop strings need a `tokenizer`.
    ///
    /// # Errors
    /// If a limit is 0, the model reads in both directions, or the device has failed.
    pub fn new(
        model: Arc<Model>,
        tokenizer: Option<Arc<Tokenizer>>,
        limits: Limits,
    ) -> Result<Self, EngineError> {
        limits.check()?;
        if model.visibility() != Visibility::Causal {
            return Err(EngineError::NotCausal);
        }
        let shape = page_shape(&model);
        let pass_bytes = pass_bytes(&model.config, &limits, limits.batch_max, shape.element_bytes);
        let cache_bytes = limits.cache_bytes_on(model.params.device(), pass_bytes)?;
        let pool = Pool::new(shape, cache_bytes);
        Ok(Sampler {
            tokenizer,
            prepacked: None,
            weight_bytes: weight_bytes(&model),
            shape: model.head_shape(),
            context_tokens_max: limits.context_tokens_max(&model),
            pool: Arc::new(pool),
            tree: Tree::default(),
            steps: Steps::default(),
            pages_used_max: 0,
            prompts: Prompts::default(),
            waiting: BTreeMap::new(),
            stalled: None,
            active: Vec::new(),
            steps_ahead: 0,
            ended: Vec::new(),
            choosers: Vec::new(),
            readback: HostReadback::default(),
            next_id: 0,
            stats: Stats::default(),
            model,
            cache_bytes,
            limits,
        })
    }

    /// Submits a request, which joins with the next [`Sampler::advance`] if there is room.
    ///
    /// # Errors
    /// If it is out of range (empty or overlong prompt, unknown id, sampling parameters) or could never fit into the
    /// cache.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, EngineError> {
        self.submit_under(request, Vec::new())
    }

    /// Submits a request whose answer is decided over by controls, in this order.
    ///
    /// # Errors
    /// As [`Sampler::submit`]; the cache must also have room for the longest probe.
    pub fn submit_under(
        &mut self,
        request: Request,
        controls: Vec<Box<dyn Control>>,
    ) -> Result<RequestId, EngineError> {
        let id = RequestId(self.next_id);
        self.check(id.index(), &request, &controls)?;
        self.next_id += 1;
        self.stats.prompt_tokens += request.prompt.len();
        let prompt = self.prompts.wait(Arc::from(read_ahead(&request.prompt, &controls)), id);
        self.waiting.insert(id, Answer::new(id, request, prompt, self.tokenizer.as_ref(), controls));
        Ok(id)
    }

    /// Cancels a request. `false` if it has ended or never existed.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        self.take(id).is_some()
    }

    /// Is nothing left to do?
    pub fn is_idle(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty() && self.ended.is_empty()
    }

    /// Statistics of all requests so far.
    pub fn stats(&self) -> Stats {
        Stats { cache_bytes: self.stats.cache_bytes.max(self.pool.bytes_made()), ..self.stats }
    }

    /// Lets requests join where there is room, and samples the next tokens of every active one: one token, or several
    /// if no request waits. Returns the requests that ended, in no particular order; none if there is nothing to do.
    ///
    /// # Errors
    /// If a GPU fails; all requests are then lost. An error of one request is that request's result.
    pub fn advance(&mut self) -> Result<Vec<Ended>, EngineError> {
        let done = in_pool(|| {
            self.join()?;
            if self.active.is_empty() { Ok(()) } else { self.step() }
        });
        if let Err(error) = done {
            self.active.clear();
            self.waiting.clear();
            self.ended.clear();
            self.prompts = Prompts::default();
            return Err(error);
        }
        Ok(std::mem::take(&mut self.ended))
    }

    fn check(
        &self,
        request: usize,
        asked: &Request,
        controls: &[Box<dyn Control>],
    ) -> Result<(), EngineError> {
        let Request { prompt, sampling, .. } = asked;
        let vocab_size = self.model.vocab().len();
        let tokens_max = self.context_tokens_max.saturating_sub(1);
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
        if sampling.denoising_steps.is_some() {
            let range = "left out: the policy answers token by token";
            let source = SamplingError { field: "denoising_steps", range };
            return Err(EngineError::Sampling { request, source });
        }
        if sampling.stop_token_ids.iter().any(|&id| id as usize >= vocab_size) {
            let source = SamplingError { field: "stop_token_ids", range: "ids that the model knows" };
            return Err(EngineError::Sampling { request, source });
        }
        if self.tokenizer.is_none() && !sampling.stop.is_empty() {
            return Err(EngineError::NoTokenizer { request });
        }
        self.check_looking(request, tokens, controls)?;
        self.check_latent(request, prompt, controls)?;
        let later = tokens - read_ahead(prompt, controls).len();
        let tokens = tokens - later;
        let answer_rows = later + answer_rows_max(sampling, tokens + later, self.context_tokens_max);
        let probe_rows = controls.iter().map(|control| control.probe_tokens_max()).max().unwrap_or(0);
        let state_pages = self.pool.state_pages();
        let probe_pages = if probe_rows > 0 { pages_of(answer_rows + probe_rows) + state_pages } else { 0 };
        let pages = pages_of(tokens) + pages_of(answer_rows) + 2 * state_pages + probe_pages;
        let page_bytes = self.pool.shape.bytes();
        if pages > self.cache_bytes / page_bytes {
            return Err(EngineError::CacheTooSmall {
                request,
                tokens,
                answer_tokens: answer_rows + 1,
                least_bytes: pages * page_bytes,
                cache_bytes: self.cache_bytes,
            });
        }
        Ok(())
    }

    /// Samples the next tokens of every active sequence: one, or several if no request waits for a place.
    fn step(&mut self) -> Result<(), EngineError> {
        self.make_room();
        if self.steps_ahead == 0 {
            self.steps_ahead = self.look_ahead();
        }
        let sequences = std::mem::take(&mut self.active);
        self.stats.recomputed_tokens +=
            sequences.iter().map(|sequence| sequence.unread().len() - 1).sum::<usize>();
        let share = sequences.len().div_ceil(self.choosers.len());
        let is_probing = sequences.iter().any(|sequence| sequence.answer.probe_tokens_max() > 0);
        if share < SHARD_ROWS_MIN || is_probing || !self.model.params.device().is_cpu() {
            return self.step_together(sequences);
        }
        // Each thread reads all weights for its own sequences, so that no thread waits for another until the end of the
        // round.
        let mut sequences = sequences.into_iter();
        let shards: Vec<Vec<Sequence>> = std::iter::repeat_with(|| sequences.by_ref().take(share).collect())
            .take_while(|shard: &Vec<_>| !shard.is_empty())
            .collect();
        let mut choosers = std::mem::take(&mut self.choosers);
        let shards = shards.into_par_iter().zip(&mut choosers);
        let rounds: Vec<Round> = shards.map(|(shard, chooser)| self.round(shard, chooser)).collect();
        self.choosers = choosers;
        self.steps_ahead = 0;
        let Round { sequences, ended, steps, sampled_tokens } =
            rounds.into_iter().fold(Round::default(), Round::with);
        self.active = sequences;
        self.ended.extend(ended);
        self.stats.steps += steps;
        self.stats.sampled_tokens += sampled_tokens;
        Ok(())
    }

    /// One step of all sequences; all threads share each operation.
    fn step_together(&mut self, mut sequences: Vec<Sequence>) -> Result<(), EngineError> {
        let (hidden, logits) = match self.captured(&mut sequences) {
            Some(hidden) => {
                let logits = self.model.logits(&mut self.decoding(Workers::Pool), &hidden);
                (hidden, logits)
            }
            None => self.forward(&mut sequences, Workers::Pool),
        };
        let rows: Vec<usize> = (0..sequences.len()).collect();
        let choices = self.choose(&mut sequences, logits, &rows)?;
        self.stats.steps += 1;
        self.steps_ahead -= 1;
        self.extend(sequences, choices, &hidden, &rows)
    }

    /// Reads the unread tokens of each sequence; returns the hidden states after the last of them, `[sequences, D]`, and
    /// the logits of what follows, `[sequences, V]`.
    fn forward(&self, sequences: &mut [Sequence], workers: Workers) -> (Var, Var) {
        let ids: Vec<u32> = sequences.iter().flat_map(Sequence::unread).copied().collect();
        let lens: Vec<usize> = sequences.iter().map(|sequence| sequence.unread().len()).collect();
        let positions: Arc<[u32]> = sequences
            .iter()
            .flat_map(|sequence| {
                let end = sequence.answer.prompt.len() + sequence.answer.ids.len();
                (end - sequence.unread().len()) as u32..end as u32
            })
            .collect();
        let mut taps = Taps::of(sequences, &lens);
        let caches = sequences.iter_mut().map(|sequence| &mut sequence.cache);
        let runs = caches.zip(&lens).map(|(cache, &rows)| Run { cache, rows }).collect();
        let mut mixer = Decode::new(self.shape, runs);
        let mut tape = self.decoding(workers);
        let mut hidden = self.model.forward_tapped(&mut tape, &ids, &positions, &mut mixer, &mut taps);
        mixer.commit();
        if let Some(look) = taps.look {
            self.show(look, sequences, &mut tape);
        }
        // Each sequence's next token follows from the last token that it read.
        if ids.len() != lens.len() {
            let mut end = 0;
            let last = lens.iter().map(|&len| {
                end += len as u32;
                end - 1
            });
            hidden = tape.gather(&hidden, &last.collect::<Vec<u32>>());
        }
        let logits = self.model.logits(&mut tape, &hidden);
        (hidden, logits)
    }

    /// A tape for products with few rows.
    fn decoding(&self, workers: Workers) -> Tape<'_> {
        let params = &self.model.params;
        match &self.prepacked {
            Some(prepacked) => Tape::decoding(params, prepacked, workers),
            None => Tape::inference(params),
        }
    }

    /// Appends its choice to each of `sequences`, made from its row of `hidden` `[_, D]`; those that have not ended stay
    /// active.
    fn extend(
        &mut self,
        sequences: Vec<Sequence>,
        choices: Vec<Next>,
        hidden: &Var,
        rows: &[usize],
    ) -> Result<(), EngineError> {
        self.stats.sampled_tokens += sequences.len();
        let width = hidden.cols();
        let are_read = sequences.iter().any(|sequence| sequence.answer.reads_hidden());
        let hidden = if are_read { hidden.on_host()? } else { Cow::Borrowed(&[][..]) };
        for ((sequence, next), &row) in sequences.into_iter().zip(choices).zip(rows) {
            let own = if are_read { &hidden[row * width..][..width] } else { &[] };
            match self.push(sequence, next, own) {
                ControlFlow::Continue(sequence) => self.active.push(sequence),
                ControlFlow::Break(ended) => self.ended.push(ended),
            }
        }
        Ok(())
    }

    /// Appends the next token to a sequence, which may end it. It was decided from `hidden` `[D]`, which only latent steps
    /// read.
    fn push(&self, mut sequence: Sequence, next: Next, hidden: &[f32]) -> ControlFlow<Ended, Sequence> {
        let answer = &mut sequence.answer;
        let id = answer.id;
        let most = self.context_tokens_max;
        let pushed = match next {
            Next::Token(choice, details) => answer.push(choice, details, Source::Policy, most),
            Next::Put(choice) => answer.push(choice, None, Source::Patch, most),
            Next::Latent(step) => answer.push_latent(step, hidden, most),
            Next::Stop => return ControlFlow::Break((id, Ok(answer.end(StopReason::Control, None)))),
            Next::Failed(error) => return ControlFlow::Break((id, Err(error))),
            Next::Probe(_) => {
                let problem = "it asked for a probe without having said so (`probe_tokens_max`)".into();
                let (request, position) = (id.index(), answer.sampled());
                return ControlFlow::Break((id, Err(EngineError::Control { request, position, problem })));
            }
        };
        match pushed {
            Ok(ControlFlow::Continue(())) => ControlFlow::Continue(sequence),
            Ok(ControlFlow::Break(generated)) => ControlFlow::Break((id, Ok(generated))),
            Err(error) => ControlFlow::Break((id, Err(error))),
        }
    }
}

/// Shape of the pages that hold a model's keys and values.
fn page_shape(model: &Model) -> PageShape {
    let HeadShape { kv_heads, head_dim, .. } = model.head_shape();
    PageShape {
        layers: model.config.layers_of(LayerKind::Attention),
        width: kv_heads * head_dim,
        head_dim,
        element_bytes: PagedCache::element_bytes(&model.params),
        state: StateShape::of(&model.config),
    }
}
