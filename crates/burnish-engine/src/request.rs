use burnish_core::Sampling;
use burnish_model::Model;
use burnish_tensor::Device;
use std::ops::AddAssign;
use std::sync::Arc;

use crate::EngineError;

/// A request for one answer.
#[derive(Debug, Clone)]
pub struct Request {
    /// Ids to continue. Requests with equal prompts share one prefill.
    pub prompt: Vec<u32>,
    /// How to choose tokens, and when to stop.
    pub sampling: Sampling,
    /// The token at position `i` of the answer is chosen with `rng::uniform(seed, i)`.
    pub seed: u64,
    /// The policy's own end tokens, which end the answer unless [`Sampling::ignore_eos`] is set. The end token is part
    /// of the answer.
    pub end_ids: Arc<[u32]>,
}

/// Id of a request within a [`Sampler`](crate::Sampler), in the order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(crate) u64);

impl RequestId {
    /// Number of earlier requests.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Default of [`Limits::round_steps_max`]: enough that waking threads costs nothing, but few, since threads whose
/// sequences end have less to do than others.
const ROUND_STEPS: usize = 16;

/// Most tokens of an answer that are ever in the cache: the last token is never read.
pub(crate) fn answer_rows_max(sampling: &Sampling, prompt_tokens: usize, context_tokens_max: usize) -> usize {
    sampling.tokens_max.min(context_tokens_max - prompt_tokens) - 1
}

/// How much is done at once, how much memory that may take, and how long a sequence may become. Except for the context
/// length, they change only speed and memory, not what is sampled (up to rounding).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Most sequences that decode together.
    pub batch_max: usize,
    /// Most prompt tokens read in one pass; a longer prompt has a pass of its own.
    pub prefill_tokens_max: usize,
    /// Most tokens of prompt and answer together; the model's own limit always applies.
    pub context_tokens_max: Option<usize>,
    /// Most bytes of keys and values that are held at once; `None`: [`Limits::cache_bytes_on`] says. Requests that do not
    /// fit wait.
    pub cache_bytes: Option<usize>,
    /// Most tokens that an answer grows by in one [`Sampler::advance`](crate::Sampler::advance); with 1, an answer can
    /// be read token by token.
    pub round_steps_max: usize,
}

impl Limits {
    /// Default of [`Limits::cache_bytes`] on the CPU: 4 GiB. With the shape of Qwen3-0.6B, which takes 224 KiB per token,
    /// that holds 18,720 tokens.
    pub const CACHE_BYTES: usize = 4 << 30;

    /// [`Limits::cache_bytes`] for a model on `device` whose passes take `pass_bytes`. By default that is
    /// [`Limits::CACHE_BYTES`] on the CPU, and [`Limits::cache_bytes_of`] what a GPU has free at this moment.
    ///
    /// # Errors
    /// If a GPU can't say how much is free.
    pub fn cache_bytes_on(&self, device: &Device, pass_bytes: usize) -> Result<usize, EngineError> {
        match self.cache_bytes {
            Some(bytes) => Ok(bytes),
            None => Ok(device
                .memory_free_bytes()?
                .map_or(Limits::CACHE_BYTES, |free| Limits::cache_bytes_of(free, pass_bytes))),
        }
    }

    /// The default on a GPU that has `free` bytes free: seven eighths of what a pass leaves. The rest is for what is not
    /// counted, such as kernels that are loaded later.
    pub fn cache_bytes_of(free: usize, pass_bytes: usize) -> usize {
        free.saturating_sub(pass_bytes) / 8 * 7
    }

    /// # Errors
    /// If a limit is so small that no work can be done.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        let limits = [
            ("batch_max", self.batch_max),
            ("prefill_tokens_max", self.prefill_tokens_max),
            ("round_steps_max", self.round_steps_max),
        ];
        for (field, limit) in limits {
            if limit == 0 {
                return Err(EngineError::Limit { field });
            }
        }
        Ok(())
    }

    /// The longest context that these limits and the model allow.
    pub(crate) fn context_tokens_max(&self, model: &Model) -> usize {
        self.context_tokens_max.unwrap_or(usize::MAX).min(model.context_tokens_max())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            batch_max: 256,
            prefill_tokens_max: 4096,
            context_tokens_max: None,
            cache_bytes: None,
            round_steps_max: ROUND_STEPS,
        }
    }
}

/// Statistics of sampling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Tokens in the prompts of all requests that were answered or begun.
    pub prompt_tokens: usize,
    /// Those of them that were read. Not counted are beginnings that were in the cache, and prompts that were read for
    /// another waiting request.
    pub prompt_tokens_read: usize,
    /// Tokens sampled.
    pub sampled_tokens: usize,
    /// Tokens sampled in answers to probes.
    pub probe_tokens: usize,
    /// Decoding steps; each is one pass over the active sequences.
    pub steps: usize,
    /// How often a request had a place in the batch but no room in the cache, and waited.
    pub waits: usize,
    /// How often a sequence had to leave the batch so that older ones had room in the cache.
    pub preemptions: usize,
    /// Tokens of answers that were read again because of that.
    pub recomputed_tokens: usize,
    /// Most bytes of keys and values that were held at once.
    pub cache_bytes: usize,
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.prompt_tokens += other.prompt_tokens;
        self.prompt_tokens_read += other.prompt_tokens_read;
        self.sampled_tokens += other.sampled_tokens;
        self.probe_tokens += other.probe_tokens;
        self.steps += other.steps;
        self.waits += other.waits;
        self.preemptions += other.preemptions;
        self.recomputed_tokens += other.recomputed_tokens;
        self.cache_bytes = self.cache_bytes.max(other.cache_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_as_large_as_is_asked_or_as_the_device_has_it() {
        let limits = |cache_bytes| Limits { cache_bytes, ..Limits::default() };
        assert_eq!(limits(Some(7)).cache_bytes_on(&Device::cpu(), 3), Ok(7));
        assert_eq!(limits(None).cache_bytes_on(&Device::cpu(), 3), Ok(Limits::CACHE_BYTES));
        assert_eq!([83, 3, 2].map(|free| Limits::cache_bytes_of(free, 3)), [70, 0, 0]);
    }
}
