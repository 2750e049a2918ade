use burnish_core::{Sampling, StopReason, TokenLogprobs};
use burnish_model::Tokenizer;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::past::{Past, Seen};
use crate::text::StopStrings;
use crate::{Choice, EngineError, Generated, Request, RequestId};

/// An answer in the making, whether its sequence is active or waits for room.
pub(crate) struct Answer {
    pub(crate) id: RequestId,
    /// What it follows.
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) sampling: Sampling,
    pub(crate) seed: u64,
    pub(crate) ids: Vec<u32>,
    model_logprobs: Vec<f32>,
    /// Where a token may be drawn from another distribution than the model's.
    sampled_logprobs: Option<Vec<f32>>,
    details: Vec<TokenLogprobs>,
    /// What penalties go by, where there are any.
    seen: Option<Seen>,
    /// The policy's own end tokens.
    end_ids: Arc<[u32]>,
    stop_strings: Option<StopStrings>,
}

impl Answer {
    /// Before its first token. `prompt` holds the request's; stop strings need a tokenizer.
    pub(crate) fn new(
        id: RequestId,
        request: Request,
        prompt: Arc<[u32]>,
        tokenizer: Option<&Arc<Tokenizer>>,
    ) -> Self {
        let Request { sampling, seed, end_ids, .. } = request;
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
            ids: Vec::new(),
            model_logprobs: Vec::new(),
            sampled_logprobs: is_altering(&sampling, &end_ids).then(Vec::new),
            details: Vec::new(),
            seen: sampling.is_penalising().then(|| Seen::in_prompt(&prompt)),
            prompt,
            sampling,
            seed,
            end_ids,
            stop_strings,
        }
    }

    /// What the choice of the next token goes by.
    pub(crate) fn past(&self) -> Past<'_> {
        let is_early = self.ids.len() < self.sampling.min_tokens;
        let forbidden = if is_early { [&*self.end_ids, &self.sampling.stop_token_ids] } else { [&[][..]; 2] };
        Past { seen: self.seen.as_ref(), forbidden }
    }

    /// Most of its tokens that are ever in the cache, in a context window of so many tokens: the last is never read.
    pub(crate) fn rows_max(&self, context_tokens_max: usize) -> usize {
        crate::request::answer_rows_max(&self.sampling, self.prompt.len(), context_tokens_max)
    }

    /// Appends a token, with which the answer may end: then it is given back.
    pub(crate) fn push(
        &mut self,
        choice: Choice,
        details: Option<TokenLogprobs>,
        context_tokens_max: usize,
    ) -> Result<ControlFlow<Generated>, EngineError> {
        let tokens_left = context_tokens_max - self.prompt.len() - self.ids.len();
        self.ids.push(choice.id);
        self.model_logprobs.push(choice.model_logprob);
        match &mut self.sampled_logprobs {
            Some(sampled_logprobs) => sampled_logprobs.push(choice.sampled_logprob),
            // What is not kept is said to be the model's.
            None => debug_assert_eq!(choice.sampled_logprob, choice.model_logprob),
        }
        self.details.extend(details);
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
        if self.ids.len() >= self.sampling.tokens_max {
            return Ok(ControlFlow::Break(self.end(StopReason::TokensMax, None)));
        }
        if tokens_left <= 1 {
            return Ok(ControlFlow::Break(self.end(StopReason::ContextFull, None)));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn end(&mut self, stop: StopReason, text: Option<String>) -> Generated {
        Generated {
            ids: std::mem::take(&mut self.ids),
            model_logprobs: std::mem::take(&mut self.model_logprobs),
            sampled_logprobs: self.sampled_logprobs.take(),
            stop,
            text,
            details: std::mem::take(&mut self.details),
        }
    }
}

/// Can a token be drawn from another distribution than the model's at the temperature?
fn is_altering(sampling: &Sampling, end_ids: &[u32]) -> bool {
    let is_forbidding =
        sampling.min_tokens > 0 && !(end_ids.is_empty() && sampling.stop_token_ids.is_empty());
    sampling.temperature == 0.0 || sampling.is_truncating() || sampling.is_penalising() || is_forbidding
}
