//! A batch of answers to random prompts, at temperature 1, with log-probs over the whole vocabulary.

use std::sync::Arc;
use std::time::Instant;

use burnish_core::Sampling;
use burnish_core::rng::Stream;
use burnish_engine::{Generated, Limits, Request, generate};
use burnish_model::{LayerKind, Model, Trains};
use burnish_tensor::{Device, PagedCache};
use serde_json::{Value, json};

use crate::flops::{Costs, Extent, pairs};
use crate::worker::{Arguments, Work};
use crate::{Done, policy};

/// Ids of prompts lie below this, as in the peer's.
const PROMPT_IDS: usize = 95;

/// Batches, one after the other.
pub(crate) struct Batches {
    model: Arc<Model>,
    /// Of each request: tokens of its prompt, and of its answer.
    sizes: Vec<(usize, usize)>,
    sampling: Sampling,
    /// Bytes of a weight.
    weight_bytes: usize,
    ids: Stream,
    last: Option<(Vec<Request>, Vec<Generated>)>,
}

impl Batches {
    pub(crate) fn load(arguments: &Arguments, device: &Device) -> Done<Self> {
        let model = policy::load_on(device, &arguments.model, arguments.bf16, Trains::Nothing)?;
        let weight_bytes = if arguments.bf16 { 2 } else { 4 };
        let sizes = match &arguments.requests {
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?
            }
            None => vec![(arguments.prompt, arguments.new); arguments.batch.unwrap_or(64)],
        };
        let mut batches = Batches { weight_bytes, sizes, ..Batches::of(model, 0, 0, 0) };
        if arguments.filtered {
            let sampling = &mut batches.sampling;
            (sampling.top_k, sampling.top_p, sampling.repetition_penalty) = (20, 0.95, 1.05);
        }
        Ok(batches)
    }

    /// Batches of `batch` prompts of `prompt` tokens, each with an answer of exactly `new` tokens.
    pub(crate) fn of(model: Model, batch: usize, prompt: usize, new: usize) -> Self {
        Batches {
            model: Arc::new(model),
            sizes: vec![(prompt, new); batch],
            sampling: Sampling::at(1.0, new),
            weight_bytes: 4,
            ids: Stream::new(1),
            last: None,
        }
    }

    /// One batch.
    pub(crate) fn sample(&mut self) -> Done {
        let ids = PROMPT_IDS.min(self.model.config.vocab_size);
        let requests: Vec<Request> = self
            .sizes
            .iter()
            .map(|&(prompt, new)| Request {
                prompt: (0..prompt).map(|_| self.ids.index(ids) as u32).collect(),
                sampling: Sampling { tokens_max: new, ..self.sampling.clone() },
                seed: self.ids.bits(),
                // None: every answer goes on to its last token.
                end_ids: Arc::from([]),
            })
            .collect();
        let (answers, _) = generate(&self.model, None, &requests, &Limits::default())?;
        self.last = Some((requests, answers));
        Ok(())
    }
}

impl Work for Batches {
    fn unit(&mut self) -> Done<Value> {
        let start = Instant::now();
        self.sample()?;
        let seconds = start.elapsed().as_secs_f64();
        let config = &self.model.config;
        let costs = Costs::of(config);
        let of = |answers: fn(usize) -> usize| {
            let each = self.sizes.iter().map(|&(prompt, new)| Extent::of_group(prompt, [answers(new)]));
            costs.forward(each.fold(Extent::default(), Extent::and))
        };
        // Every step reads each weight once, whatever the batch, and keys and values of all tokens before.
        let steps = self.sizes.iter().map(|&(_, new)| new).max().unwrap_or(0);
        let token = 2 * config.layers_of(LayerKind::Attention) * config.num_key_value_heads * config.head_dim;
        let token = token * PagedCache::element_bytes(&self.model.params);
        let seen: f64 = self.sizes.iter().map(|&(prompt, new)| pairs(prompt, new.saturating_sub(1))).sum();
        Ok(json!({
            "seconds": seconds,
            "tokens": self.sizes.iter().map(|&(_, new)| new).sum::<usize>(),
            "flops": of(|new| new),
            "prompt_flops": of(|_| 1),
            "bytes": costs.weights() * (self.weight_bytes * steps) as f64,
            "kv_bytes": seen * token as f64,
        }))
    }

    fn dump(&self) -> Option<Value> {
        let (requests, answers) = self.last.as_ref()?;
        let pairs = || requests.iter().zip(answers);
        let sequences: Vec<Vec<u32>> =
            pairs().map(|(request, answer)| [&request.prompt[..], &answer.ids[..]].concat()).collect();
        let logprobs: Vec<&[f32]> = answers.iter().map(|answer| &answer.model_logprobs[..]).collect();
        Some(json!({ "sequences": sequences, "logprobs": logprobs }))
    }
}
