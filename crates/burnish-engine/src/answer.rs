use burnish_core::{StopReason, TokenLogprobs};
use burnish_model::Tokenizer;
use std::ops::ControlFlow;

use crate::past::{Past, Seen};
use crate::text::StopStrings;
use crate::{Choice, EngineError, Generated, Request};

/// An answer in the making, whether its sequence is active or waits for room.
pub(crate) struct Answer<'a> {
    /// Index of the request.
    pub(crate) request: usize,
    pub(crate) ids: Vec<u32>,
    logprobs: Vec<f32>,
    details: Vec<TokenLogprobs>,
    /// What penalties go by, where there are any.
    seen: Option<Seen>,
    /// Ids that must not come before `min_tokens`.
    end_ids: [&'a [u32]; 2],
    min_tokens: usize,
    stop_strings: Option<StopStrings<'a>>,
}

impl<'a> Answer<'a> {
    /// Before its first token. Stop strings need a tokenizer.
    pub(crate) fn new(request: usize, asked: &'a Request, tokenizer: Option<&'a Tokenizer>) -> Self {
        let sampling = &asked.sampling;
        Answer {
            request,
            ids: Vec::new(),
            logprobs: Vec::new(),
            details: Vec::new(),
            seen: sampling.is_penalising().then(|| Seen::in_prompt(&asked.prompt)),
            end_ids: [&asked.end_ids, &sampling.stop_token_ids],
            min_tokens: sampling.min_tokens,
            stop_strings: tokenizer.filter(|_| !sampling.stop.is_empty()).map(|tokenizer| {
                StopStrings::new(tokenizer, &sampling.stop, sampling.include_stop, sampling.min_tokens)
            }),
        }
    }

    /// What the choice of the next token goes by.
    pub(crate) fn past(&self) -> Past<'_> {
        let is_early = self.ids.len() < self.min_tokens;
        Past { seen: self.seen.as_ref(), forbidden: if is_early { &self.end_ids } else { &[] } }
    }

    /// Appends a token, with which the answer may end. `tokens_left` is the number that the context window had
    /// room for before.
    pub(crate) fn push(
        mut self,
        asked: &Request,
        choice: Choice,
        details: Option<TokenLogprobs>,
        tokens_left: usize,
    ) -> Result<ControlFlow<Generated, Self>, EngineError> {
        self.ids.push(choice.id);
        self.logprobs.push(choice.logprob);
        self.details.extend(details);
        if let Some(seen) = &mut self.seen {
            seen.push(choice.id);
        }
        let [end_ids, stop_token_ids] = self.end_ids;
        let is_end = !asked.sampling.ignore_eos && end_ids.contains(&choice.id);
        if is_end || stop_token_ids.contains(&choice.id) {
            return Ok(ControlFlow::Break(self.end(StopReason::EndToken, None)));
        }
        if let Some(stop_strings) = &mut self.stop_strings {
            let text = stop_strings
                .push(choice.id)
                .map_err(|error| EngineError::Text { request: self.request, problem: error.to_string() })?;
            if text.is_some() {
                return Ok(ControlFlow::Break(self.end(StopReason::StopString, text)));
            }
        }
        if self.ids.len() >= asked.sampling.tokens_max {
            return Ok(ControlFlow::Break(self.end(StopReason::TokensMax, None)));
        }
        if tokens_left <= 1 {
            return Ok(ControlFlow::Break(self.end(StopReason::ContextFull, None)));
        }
        Ok(ControlFlow::Continue(self))
    }

    fn end(self, stop: StopReason, text: Option<String>) -> Generated {
        Generated { ids: self.ids, logprobs: self.logprobs, stop, text, details: self.details }
    }
}
