//! Answers of masked diffusion models: all tokens of an answer begin as masks, and in every step the model, which reads
//! in both directions, predicts them all, of which the surest stay (LLaDA, Nie et al. 2025, arXiv:2502.09992,
//! algorithm 5 with low-confidence remasking).
//!
//! Nothing of a step can be kept for the next one, because every token sees what has become known; so there is no cache.

use std::collections::BTreeMap;
use std::sync::Arc;

use burnish_core::{Sampling, SamplingError, StopReason, rng};
use burnish_model::{Generated, Model, Packed};
use burnish_tensor::{Buffer, HostReadback, Layout, Tape, Visibility, in_pool};
use rayon::prelude::*;

use crate::{Choice, Chooser, Ended, EngineError, Limits, Past, Request, RequestId, Stats};

/// Most numbers of logits that are held at once.
const LOGITS_MAX: usize = 1 << 24;

/// An open batch of answers that are denoised together: requests come and go between steps. An answer depends on its own
/// request alone.
pub struct Denoiser {
    model: Arc<Model>,
    limits: Limits,
    under_way: BTreeMap<RequestId, Canvas>,
    next_id: u64,
    readback: HostReadback,
    stats: Stats,
}

/// An answer under way.
struct Canvas {
    request: Request,
    /// The prompt, then the answer with masks.
    ids: Vec<u32>,
    /// Which tokens of the answer are known, with the log-prob that each was chosen with.
    known: Vec<Option<f32>>,
    /// Tokens that become known in a step.
    per_step: usize,
    steps: u64,
    /// Whether the context window made the answer shorter than was asked for.
    is_cut: bool,
}

impl Denoiser {
    /// An empty batch of `model`, which must be one of masked diffusion.
    ///
    /// # Errors
    /// If a limit is 0, or the model is causal.
    pub fn new(model: Arc<Model>, limits: Limits) -> Result<Self, EngineError> {
        limits.check()?;
        if model.visibility() != Visibility::Bidirectional {
            return Err(EngineError::Causal);
        }
        Ok(Denoiser {
            model,
            limits,
            under_way: BTreeMap::new(),
            next_id: 0,
            readback: HostReadback::default(),
            stats: Stats::default(),
        })
    }

    /// Submits a request, which joins with the next step if there is room. Of its sampling parameters, `temperature`,
    /// `tokens_max` (the length of the canvas) and `denoising_steps` are used.
    ///
    /// # Errors
    /// If it is out of range: an empty or overlong prompt, an unknown id, sampling parameters.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, EngineError> {
        let id = RequestId(self.next_id);
        let canvas = self.canvas(id.index(), request)?;
        self.next_id += 1;
        self.stats.prompt_tokens += canvas.prompt_tokens();
        self.under_way.insert(id, canvas);
        Ok(id)
    }

    fn canvas(&self, request: usize, asked: Request) -> Result<Canvas, EngineError> {
        let Request { prompt, sampling, .. } = &asked;
        asked.check(request, &self.model, self.limits.context_tokens_max(&self.model))?;
        let room = self.limits.context_tokens_max(&self.model) - prompt.len();
        let length = sampling.tokens_max.min(room);
        let steps = sampling.denoising_steps.unwrap_or(length).clamp(1, length);
        let mask = self.model.config.mask_token_id.unwrap_or_default();
        let mut ids = prompt.clone();
        ids.resize(prompt.len() + length, mask);
        let (known, is_cut) = (vec![None; length], room < sampling.tokens_max);
        Ok(Canvas { ids, known, per_step: length.div_ceil(steps), steps: 0, is_cut, request: asked })
    }

    /// Cancels a request. `false` if it has ended or never existed.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        self.under_way.remove(&id).is_some()
    }

    /// Is nothing left to do?
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Statistics of all requests so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Does one step of the oldest requests, as many as fit into a batch and into a pass
    /// ([`Limits::prefill_tokens_max`]). Returns those that ended.
    ///
    /// # Errors
    /// If a GPU fails; all requests are then lost. An error of one request is that request's result.
    pub fn advance(&mut self) -> Result<Vec<Ended>, EngineError> {
        let done = in_pool(|| self.step());
        if done.is_err() {
            self.under_way.clear();
        }
        done
    }

    fn step(&mut self) -> Result<Vec<Ended>, EngineError> {
        let (mut active, mut tokens) = (Vec::new(), 0);
        for (id, canvas) in self.under_way.iter().take(self.limits.batch_max) {
            tokens += canvas.ids.len();
            if tokens > self.limits.prefill_tokens_max && !active.is_empty() {
                break;
            }
            active.push(*id);
        }
        if active.is_empty() {
            return Ok(Vec::new());
        }
        let canvases: Vec<&Canvas> = active.iter().filter_map(|id| self.under_way.get(id)).collect();
        let chosen = choose(&self.model, &canvases, &mut self.readback)?;
        self.stats.steps += 1;
        let mut ended = Vec::new();
        for (id, choices) in active.into_iter().zip(chosen) {
            let Some(canvas) = self.under_way.get_mut(&id) else { continue };
            self.stats.prompt_tokens_read += canvas.prompt_tokens();
            let over = match choices {
                Some(choices) => canvas.keep(choices).map(Ok),
                None => Some(Err(EngineError::NotFinite { request: id.index(), position: 0 })),
            };
            if let Some(answer) = over {
                self.under_way.remove(&id);
                self.stats.sampled_tokens += answer.as_ref().map_or(0, |answer| answer.ids.len());
                ended.push((id, answer));
            }
        }
        Ok(ended)
    }
}

impl Canvas {
    fn prompt_tokens(&self) -> usize {
        self.ids.len() - self.known.len()
    }

    /// The tokens of the answer that are not known.
    fn unknown(&self) -> impl Iterator<Item = usize> + '_ {
        self.known.iter().enumerate().filter_map(|(at, known)| known.is_none().then_some(at))
    }

    /// Keeps the surest of what was predicted; of equally sure ones the first. Returns the answer when it is complete.
    fn keep(&mut self, mut choices: Vec<(usize, Choice)>) -> Option<Generated> {
        choices
            .sort_by(|(a, one), (b, other)| other.model_logprob.total_cmp(&one.model_logprob).then(a.cmp(b)));
        let prompt = self.prompt_tokens();
        for (at, choice) in choices.into_iter().take(self.per_step) {
            self.ids[prompt + at] = choice.id;
            self.known[at] = Some(choice.model_logprob);
        }
        self.steps += 1;
        // What is behind an end token is no part of the answer.
        let unknown = self.unknown().next().unwrap_or(self.known.len());
        let answer = &self.ids[prompt..][..unknown];
        let end = answer.iter().position(|id| self.request.end_ids.contains(id));
        let (tokens, stop) = match end {
            Some(end) => (end + 1, StopReason::EndToken),
            None if unknown < self.known.len() => return None,
            None if self.is_cut => (unknown, StopReason::ContextFull),
            None => (unknown, StopReason::TokensMax),
        };
        Some(Generated {
            ids: answer[..tokens].to_vec(),
            sources: None,
            latents: Vec::new(),
            model_logprobs: self.known[..tokens].iter().map(|known| known.unwrap_or_default()).collect(),
            sampled_logprobs: None,
            stop,
            text: None,
            details: Vec::new(),
            aside: 0,
        })
    }
}

/// The tokens that the model predicts for the unknown places of an answer, each with its place; `None` where logits can't
/// be normalised.
type Predicted = Option<Vec<(usize, Choice)>>;

/// What the model predicts for each answer.
fn choose(
    model: &Model,
    canvases: &[&Canvas],
    readback: &mut HostReadback,
) -> Result<Vec<Predicted>, EngineError> {
    let lens: Vec<usize> = canvases.iter().map(|canvas| canvas.ids.len()).collect();
    let ids: Vec<u32> = canvases.iter().flat_map(|canvas| &canvas.ids).copied().collect();
    let positions: Arc<[u32]> = lens.iter().flat_map(|&len| 0..len as u32).collect();
    // Of each row that is predicted: whose it is, and which token of the answer.
    let (mut rows, mut places, mut start) = (Vec::new(), Vec::new(), 0);
    for (of, canvas) in canvases.iter().enumerate() {
        for at in canvas.unknown() {
            rows.push((start + canvas.prompt_tokens() + at) as u32);
            places.push((of, at));
        }
        start += canvas.ids.len();
    }
    let mut tape = Tape::inference(&model.params);
    let mut mixer = Packed { layout: Arc::new(Layout::bidirectional(&lens)), shape: model.head_shape() };
    let hidden = model.forward(&mut tape, &ids, &positions, &mut mixer);
    let hidden = tape.gather(&hidden, &rows);
    let width = hidden.cols();
    let hidden = readback.read(&hidden)?.to_vec();
    let mut chosen: Vec<Predicted> = canvases.iter().map(|_| Some(Vec::new())).collect();
    let at_once = (LOGITS_MAX / model.vocab().len()).max(1);
    for (hidden, places) in hidden.chunks(at_once * width).zip(places.chunks(at_once)) {
        let mut tape = Tape::inference(&model.params);
        let hidden = tape.external(places.len(), width, Buffer::from(hidden.to_vec()));
        let logits = model.logits(&mut tape, &hidden);
        let logits = readback.read(&logits)?;
        let choices: Vec<Option<Choice>> = logits
            .par_chunks(model.vocab().len())
            .zip(places)
            .map_init(Chooser::default, |chooser, (logits, (of, at))| {
                let Canvas { request, steps, .. } = canvases[*of];
                let uniform = rng::uniform(rng::bits(request.seed, *steps), *at as u64);
                predict(chooser, logits, model, &request.sampling, uniform)
            })
            .collect();
        for (choice, (of, at)) in choices.into_iter().zip(places) {
            match (choice, &mut chosen[*of]) {
                (Some(choice), Some(choices)) => choices.push((*at, choice)),
                (_, choices) => *choices = None,
            }
        }
    }
    Ok(chosen)
}

/// The token for one place: the likeliest, or one drawn at the temperature. How sure it is, is its probability at
/// temperature 1.
fn predict(
    chooser: &mut Chooser,
    logits: &[f32],
    model: &Model,
    sampling: &Sampling,
    uniform: f64,
) -> Option<Choice> {
    let choice = chooser.choose(logits, model.vocab(), sampling, Past::default(), uniform)?;
    if sampling.temperature == 0.0 || sampling.temperature == 1.0 {
        return Some(choice);
    }
    chooser.force(logits, model.vocab(), &Sampling::at(1.0, 1), choice.id)
}

impl Request {
    /// Checks a request to a model that denoises.
    fn check(&self, request: usize, model: &Model, context_tokens_max: usize) -> Result<(), EngineError> {
        let (tokens, tokens_max) = (self.prompt.len(), context_tokens_max.saturating_sub(1));
        if tokens == 0 {
            return Err(EngineError::EmptyPrompt { request });
        }
        if tokens > tokens_max {
            return Err(EngineError::PromptTooLong { request, tokens, tokens_max });
        }
        let vocab_size = model.vocab().len();
        if let Some(position) = self.prompt.iter().position(|&id| id as usize >= vocab_size) {
            return Err(EngineError::UnknownId { request, position, id: self.prompt[position], vocab_size });
        }
        let checked = self.sampling.check().and_then(|()| {
            let is_filtered = self.sampling.is_truncating() || self.sampling.is_penalising();
            let field = if is_filtered { "top_k" } else { "stop" };
            let has_stops = !self.sampling.stop.is_empty() || !self.sampling.stop_token_ids.is_empty();
            let range = "left out: a model of masked diffusion neither filters nor penalises, and stops at its end tokens";
            if is_filtered || has_stops { Err(SamplingError { field, range }) } else { Ok(()) }
        });
        checked.map_err(|source| EngineError::Sampling { request, source })
    }
}
