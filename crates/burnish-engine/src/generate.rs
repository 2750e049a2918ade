use burnish_model::{Model, Tokenizer};
use std::sync::Arc;

use crate::{EngineError, Generated, Limits, Request, Sampler, Stats};

/// Answers all requests, in order, with a new [`Sampler`]. Stop strings need a `tokenizer`.
///
/// # Errors
/// Before sampling: if a limit is 0, a request is out of range (empty or overlong prompt, unknown id, sampling
/// parameters) or could never fit into the cache. During sampling: if the model's logits are not finite, or a GPU
/// fails.
pub fn generate(
    model: &Arc<Model>,
    tokenizer: Option<&Arc<Tokenizer>>,
    requests: &[Request],
    limits: &Limits,
) -> Result<(Vec<Generated>, Stats), EngineError> {
    let mut sampler = Sampler::new(Arc::clone(model), tokenizer.cloned(), limits.clone())?;
    for request in requests {
        sampler.submit(request.clone())?;
    }
    let mut ended = Vec::with_capacity(requests.len());
    while !sampler.is_idle() {
        ended.extend(sampler.advance()?);
    }
    ended.sort_unstable_by_key(|(id, _)| *id);
    let answers = ended.into_iter().map(|(_, answer)| answer).collect::<Result<_, _>>()?;
    Ok((answers, sampler.stats()))
}
