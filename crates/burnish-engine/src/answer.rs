mod next;

use burnish_core::{Latent, Sampling, Source, StopReason, TokenLogprobs};
use burnish_model::{PutInputs, Tokenizer};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::control::{Control, Inside, NotBefore, Probe, Probed, Steer};
use crate::latent;
use crate::pages::pages_of;
use crate::past::Seen;
use crate::text::StopStrings;
use crate::{Choice, EngineError, Generated, Request, RequestId};

/// What comes next in an answer.
pub(crate) enum Next {
    /// A token, with the details of its distribution that were asked for.
    Token(Choice, Option<TokenLogprobs>),
    /// A token that a limit put there.
    Put(Choice),
    /// A latent step with this id, which reads the hidden state that this was decided from.
    Latent(u32),
    /// Nothing: the answer ends here.
    Stop,
    /// A probe, which must be answered before the next token is known.
    Probe(Box<Probe>),
    Failed(EngineError),
}

/// An answer in progress, whether its sequence is active or waits for room.
pub(crate) struct Answer {
    pub(crate) id: RequestId,
    /// The prompt that it follows, as it is read before its first step.
    pub(crate) prompt: Arc<[u32]>,
    /// The whole prompt. Of an answer whose control looks inside, the last token is not in `prompt`, but the first of
    /// `ids`: what the control sees of it is what it sees of every other token, in a decoding step.
    question: Arc<[u32]>,
    pub(crate) sampling: Sampling,
    pub(crate) seed: u64,
    pub(crate) ids: Vec<u32>,
    /// How many of the first tokens it did not sample itself: those of a probe, or the last one of the prompt.
    given: usize,
    model_logprobs: Vec<f32>,
    /// Kept only if a token may be drawn from a distribution other than the model's.
    sampled_logprobs: Option<Vec<f32>>,
    details: Vec<TokenLogprobs>,
    /// What the penalties need, if there are any.
    seen: Option<Seen>,
    /// The policy's own end tokens.
    end_ids: Arc<[u32]>,
    stop_strings: Option<StopStrings>,
    /// The controls that decide over it, in order.
    controls: Vec<Box<dyn Control>>,
    /// Their changes to the next token's logits.
    steer: Steer,
    /// The id that they decided on, if any.
    forced: Option<u32>,
    /// Did a limit put it there?
    is_put: bool,
    /// The result of the last probe, and the index of the control that asked for it.
    probed: Option<(usize, Probed)>,
    /// Tokens that its probes read and sampled.
    pub(crate) aside: usize,
    looker: Option<Looker>,
    /// Whose each token of the answer is; kept with latent steps, and from the first token on that a control put.
    sources: Option<Vec<Source>>,
    latents: Latents,
}

/// The latent steps of an answer.
#[derive(Default)]
struct Latents {
    /// How they go, if a control decides on them.
    rule: Option<Latent>,
    /// Where among the ids they read a hidden state, and what they read, one row after the other.
    at: Vec<usize>,
    inputs: Vec<f32>,
}

/// A control that looks inside the model.
struct Looker {
    /// Its index.
    at: usize,
    marked: Arc<[bool]>,
    /// What it sees before the next token.
    inside: Inside,
    /// Why it can't be shown what it asked for.
    problem: Option<String>,
}

/// The part of a prompt that is read before the first step, for an answer with these controls.
pub(crate) fn read_ahead<'p>(prompt: &'p [u32], controls: &[Box<dyn Control>]) -> &'p [u32] {
    let is_looking = controls.iter().any(|control| control.marked().is_some());
    &prompt[..prompt.len() - usize::from(is_looking)]
}

impl Answer {
    /// An answer before its first token. `prompt` holds the request's ids, or those of [`read_ahead`]; stop strings need
    /// a tokenizer.
    pub(crate) fn new(
        id: RequestId,
        request: Request,
        prompt: Arc<[u32]>,
        tokenizer: Option<&Arc<Tokenizer>>,
        mut controls: Vec<Box<dyn Control>>,
    ) -> Self {
        let Request { sampling, seed, end_ids, prompt: question, .. } = request;
        let given = question[prompt.len()..].to_vec();
        let question = if given.is_empty() { Arc::clone(&prompt) } else { Arc::from(question) };
        let looker = controls.iter().enumerate().find_map(|(at, control)| {
            let marked = control.marked()?;
            Some(Looker { at, marked, inside: Inside::default(), problem: None })
        });
        let rule = controls.iter().find_map(|control| control.latent()).map(|(_, rule)| rule.clone());
        let ids = [&*end_ids, &sampling.stop_token_ids].concat();
        if sampling.min_tokens > 0 && !ids.is_empty() {
            controls.push(Box::new(NotBefore { tokens: sampling.min_tokens, ids }));
        }
        let stop_strings = tokenizer.filter(|_| !sampling.stop.is_empty()).map(|tokenizer| {
            StopStrings::new(
                Arc::clone(tokenizer),
                &sampling.stop,
                sampling.include_stop,
                sampling.min_tokens,
            )
        });
        Answer {
            id,
            given: given.len(),
            ids: given,
            model_logprobs: Vec::new(),
            sampled_logprobs: (is_altering(&sampling) || !controls.is_empty()).then(Vec::new),
            details: Vec::new(),
            seen: sampling.is_penalising().then(|| Seen::in_prompt(&question)),
            prompt,
            question,
            sampling,
            seed,
            end_ids,
            stop_strings,
            controls,
            steer: Steer::default(),
            forced: None,
            is_put: false,
            probed: None,
            aside: 0,
            looker,
            sources: rule.as_ref().map(|_| Vec::new()),
            latents: Latents { rule, ..Latents::default() },
        }
    }

    /// The answer to a probe of this answer.
    pub(crate) fn beside(&self, probe: Probe) -> Self {
        let (prompt, ids) = match &probe.instead {
            None => (Arc::clone(&self.prompt), [&self.ids[..], &probe.ids].concat()),
            // Nothing of it is cached, so all of it is to be read.
            Some(prompt) => (Arc::default(), [prompt, self.sampled_ids(), &probe.ids].concat()),
        };
        Answer {
            id: self.id,
            given: ids.len(),
            model_logprobs: Vec::new(),
            sampled_logprobs: is_altering(&probe.sampling).then(Vec::new),
            details: Vec::new(),
            seen: probe.sampling.is_penalising().then(|| Seen::in_prompt(&[&prompt, &ids[..]].concat())),
            ids,
            prompt,
            question: Arc::clone(&self.question),
            sampling: probe.sampling,
            seed: probe.seed,
            end_ids: Arc::clone(&self.end_ids),
            stop_strings: None,
            controls: Vec::new(),
            steer: Steer::default(),
            forced: None,
            is_put: false,
            probed: None,
            aside: 0,
            looker: None,
            sources: None,
            latents: Latents::default(),
        }
    }

    /// Number of tokens that it has sampled.
    pub(crate) fn sampled(&self) -> usize {
        self.ids.len() - self.given
    }

    /// The tokens that it has sampled.
    pub(crate) fn sampled_ids(&self) -> &[u32] {
        &self.ids[self.given..]
    }

    /// The tokens of the prompt whose share of the attention a control wants to know; `None` if none looks inside.
    pub(crate) fn marked(&self) -> Option<&Arc<[bool]>> {
        self.looker.as_ref().map(|looker| &looker.marked)
    }

    /// Shows the control that looks inside the attention to the marked tokens; returns the layers whose logits it wants
    /// to see.
    pub(crate) fn show_attention(&mut self, attention: Vec<Option<f32>>) -> Vec<usize> {
        let Some(looker) = &mut self.looker else { return Vec::new() };
        let (count, mut layers) = (attention.len(), self.controls[looker.at].layers(&attention));
        looker.problem = layers.iter().find(|&&layer| layer >= count).map(|layer| {
            format!("its control (`contrast`) asks for the logits of layer {layer}, but the model has {count}, counted from 0")
        });
        layers.retain(|&layer| layer < count);
        looker.inside = Inside { attention, logits: Vec::with_capacity(layers.len()) };
        layers
    }

    /// Shows it the logits of the next layer that it asked for.
    pub(crate) fn show_logits(&mut self, logits: Vec<f32>) {
        if let Some(looker) = &mut self.looker {
            looker.inside.logits.push(logits);
        }
    }

    /// Most tokens that one of its probes reads and samples.
    pub(crate) fn probe_tokens_max(&self) -> usize {
        self.controls.iter().map(|control| control.probe_tokens_max()).max().unwrap_or(0)
    }

    /// Most pages that its next probe needs.
    pub(crate) fn probe_pages(&self) -> usize {
        match self.probe_tokens_max() {
            0 => 0,
            tokens => pages_of(self.ids.len() + tokens),
        }
    }

    /// Receives the result of the probe that it asked for.
    pub(crate) fn hear(&mut self, probed: Probed) {
        if let Some((_, waited)) = &mut self.probed {
            *waited = probed;
        }
    }

    /// What its latent steps among the ids from `read` on read, as rows of a batch in which these ids begin at row
    /// `start`.
    pub(crate) fn latent_inputs(&self, read: usize, start: usize, put: &mut PutInputs) {
        let Latents { at, inputs, .. } = &self.latents;
        let first = at.partition_point(|&at| at < read);
        let width = inputs.len().checked_div(at.len()).unwrap_or(0);
        put.rows.extend(at[first..].iter().map(|at| (start + at - read) as u32));
        put.inputs.extend_from_slice(&inputs[first * width..]);
    }

    /// Does it look into the model, or put something there?
    pub(crate) fn is_tapped(&self) -> bool {
        self.looker.is_some() || self.latents.rule.is_some()
    }

    /// Do its latent steps read hidden states?
    pub(crate) fn reads_hidden(&self) -> bool {
        self.latents.rule.as_ref().is_some_and(Latent::is_recurrent)
    }

    /// Appends a latent step, decided from `hidden` `[D]`. If that ends the answer, returns the finished answer.
    pub(crate) fn push_latent(
        &mut self,
        id: u32,
        hidden: &[f32],
        context_tokens_max: usize,
    ) -> Result<ControlFlow<Generated>, EngineError> {
        if let Some(rule) = &self.latents.rule {
            let input = latent::input(rule, hidden, self.seed, self.sampled());
            if !input.is_empty() {
                self.latents.at.push(self.ids.len());
                self.latents.inputs.extend_from_slice(&input);
            }
        }
        // It was not drawn, so it has no probability.
        let choice = Choice { id, model_logprob: 0.0, sampled_logprob: 0.0 };
        self.push(choice, None, Source::Latent, context_tokens_max)
    }

    /// Most of its tokens that are ever in the cache, for a context window of this many tokens: the last token is never
    /// read.
    pub(crate) fn rows_max(&self, context_tokens_max: usize) -> usize {
        let read = self.prompt.len() + self.given;
        self.given + crate::request::answer_rows_max(&self.sampling, read, context_tokens_max)
    }

    /// Appends a token, which is `source`'s. If that ends the answer, returns the finished answer.
    pub(crate) fn push(
        &mut self,
        choice: Choice,
        details: Option<TokenLogprobs>,
        source: Source,
        context_tokens_max: usize,
    ) -> Result<ControlFlow<Generated>, EngineError> {
        let tokens_left = context_tokens_max - self.prompt.len() - self.ids.len();
        self.ids.push(choice.id);
        self.model_logprobs.push(choice.model_logprob);
        match &mut self.sampled_logprobs {
            Some(sampled_logprobs) => sampled_logprobs.push(choice.sampled_logprob),
            // Sampled log-probs that are not kept are taken to be the model's.
            None => debug_assert_eq!(choice.sampled_logprob, choice.model_logprob),
        }
        self.details.extend(details);
        if self.sources.is_none() && source != Source::Policy {
            self.sources = Some(vec![Source::Policy; self.sampled() - 1]);
        }
        if let Some(sources) = &mut self.sources {
            sources.push(source);
        }
        if let Some(seen) = &mut self.seen {
            seen.push(choice.id);
        }
        let is_end = !self.sampling.ignore_eos && self.end_ids.contains(&choice.id);
        if is_end || self.sampling.stop_token_ids.contains(&choice.id) {
            return Ok(ControlFlow::Break(self.end(StopReason::EndToken, None)));
        }
        if let Some(stop_strings) = &mut self.stop_strings {
            let text = stop_strings.push(choice.id).map_err(|error| EngineError::Text {
                request: self.id.index(),
                problem: error.to_string(),
            })?;
            if text.is_some() {
                return Ok(ControlFlow::Break(self.end(StopReason::StopString, text)));
            }
        }
        if self.sampled() >= self.sampling.tokens_max {
            return Ok(ControlFlow::Break(self.end(StopReason::TokensMax, None)));
        }
        if tokens_left <= 1 {
            return Ok(ControlFlow::Break(self.end(StopReason::ContextFull, None)));
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the answer as it is.
    pub(crate) fn end(&mut self, stop: StopReason, text: Option<String>) -> Generated {
        Generated {
            ids: self.ids.split_off(self.given),
            sources: self.sources.take(),
            latents: std::mem::take(&mut self.latents.inputs),
            model_logprobs: std::mem::take(&mut self.model_logprobs),
            sampled_logprobs: self.sampled_logprobs.take(),
            stop,
            text,
            details: std::mem::take(&mut self.details),
            aside: self.aside,
        }
    }
}

/// Can a token be drawn from a distribution other than the model's at the temperature, even without controls?
fn is_altering(sampling: &Sampling) -> bool {
    sampling.temperature == 0.0 || sampling.is_truncating() || sampling.is_penalising()
}
