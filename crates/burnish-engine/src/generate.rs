use burnish_core::SamplingError;
use burnish_model::{Model, Tokenizer};
use burnish_tensor::{HeadShape, PagedCache, in_pool};

use crate::batch::Batch;
use crate::pages::{PageShape, pages_of};
use crate::{EngineError, Generated, Limits, Request, Stats};

/// Answers every request, in their order. Stop strings need a `tokenizer`.
///
/// Prompts are packed without padding and read once each. Sequences decode together; one that ends leaves at
/// once and the next waiting request takes its place. Where the cache has no room for it, it waits. Where it
/// has no room for all that are active, the youngest leave, wait before all others, and later read their
/// prompt and what they sampled once more; their tokens and recorded log-probs stay.
///
/// With the model on a GPU the cache is there, in one piece, and a step waits for the GPU once: for its logits.
///
/// # Errors
/// If a limit is 0, a request is out of range (empty or overlong prompt, unknown id, sampling parameters) or
/// could never fit into the cache, the model's logits are not finite, or a GPU fails.
pub fn generate(
    model: &Model,
    tokenizer: Option<&Tokenizer>,
    requests: &[Request],
    limits: &Limits,
) -> Result<(Vec<Generated>, Stats), EngineError> {
    check(model, tokenizer, requests, limits)?;
    in_pool(|| {
        let mut batch = Batch::new(model, tokenizer, requests, limits);
        loop {
            batch.join()?;
            if batch.is_empty() {
                return Ok(batch.finish());
            }
            batch.advance()?;
        }
    })
}

/// Shape of the pages that hold a model's keys and values.
pub(crate) fn page_shape(model: &Model) -> PageShape {
    let HeadShape { kv_heads, head_dim, .. } = model.head_shape();
    PageShape {
        layers: model.config.num_hidden_layers,
        width: kv_heads * head_dim,
        head_dim,
        element_bytes: PagedCache::element_bytes(&model.params),
    }
}

/// Most tokens of its answer that a request may have in the cache: the last is never read.
pub(crate) fn answer_rows_max(request: &Request, context_tokens_max: usize) -> usize {
    request.sampling.tokens_max.min(context_tokens_max - request.prompt.len()) - 1
}

/// Pages that a request takes in the cache at most.
pub(crate) fn pages_max(request: &Request, context_tokens_max: usize) -> usize {
    pages_of(request.prompt.len()) + pages_of(answer_rows_max(request, context_tokens_max))
}

fn check(
    model: &Model,
    tokenizer: Option<&Tokenizer>,
    requests: &[Request],
    limits: &Limits,
) -> Result<(), EngineError> {
    for (field, limit) in [("batch_max", limits.batch_max), ("prefill_tokens_max", limits.prefill_tokens_max)]
    {
        if limit == 0 {
            return Err(EngineError::Limit { field });
        }
    }
    let vocab_size = model.vocab().len();
    let context_tokens_max = limits.context_tokens_max(model);
    let tokens_max = context_tokens_max.saturating_sub(1);
    let page_bytes = page_shape(model).bytes();
    for (request, asked) in requests.iter().enumerate() {
        let Request { prompt, sampling, .. } = asked;
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
        if sampling.stop_token_ids.iter().any(|&id| id as usize >= vocab_size) {
            let source = SamplingError { field: "stop_token_ids", range: "ids that the model knows" };
            return Err(EngineError::Sampling { request, source });
        }
        if tokenizer.is_none() && !sampling.stop.is_empty() {
            return Err(EngineError::NoTokenizer { request });
        }
        let answer_rows = answer_rows_max(asked, context_tokens_max);
        let pages = pages_max(asked, context_tokens_max);
        if pages > limits.cache_bytes / page_bytes {
            return Err(EngineError::CacheTooSmall {
                request,
                tokens,
                answer_tokens: answer_rows + 1,
                least_bytes: pages * page_bytes,
                cache_bytes: limits.cache_bytes,
            });
        }
    }
    Ok(())
}
