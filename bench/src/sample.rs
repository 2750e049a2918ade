//! A batch of answers to random prompts, at temperature 1, with log-probs over the whole vocabulary.

use std::sync::Arc;
use std::time::Instant;

use burnish_core::Sampling;
use burnish_core::rng::Stream;
use burnish_engine::{Generated, Limits, Request, generate};
use burnish_model::{Model, Trains};
use burnish_tensor::Device;
use serde_json::{Value, json};

use crate::flops::{Costs, Extent};
use crate::worker::{Arguments, Work};
use crate::{Done, policy};

/// Ids of prompts lie below this, as in the peer's.
const PROMPT_IDS: usize = 95;

/// Batches, one after the other.
pub(crate) struct Batches {
    model: Arc<Model>,
    batch: usize,
    prompt: usize,
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
        let batch = arguments.batch.unwrap_or(64);
        let mut batches =
            Batches { weight_bytes, ..Batches::of(model, batch, arguments.prompt, arguments.new) };
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
            batch,
            prompt,
            sampling: Sampling::at(1.0, new),
            weight_bytes: 4,
            ids: Stream::new(1),
            last: None,
        }
    }

    /// One batch.
    pub(crate) fn sample(&mut self) -> Done {
        let ids = PROMPT_IDS.min(self.model.config.vocab_size);
        let requests: Vec<Request> = (0..self.batch)
            .map(|_| Request {
                prompt: (0..self.prompt).map(|_| self.ids.index(ids) as u32).collect(),
                sampling: self.sampling.clone(),
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
        let new = self.sampling.tokens_max;
        let one = Extent::of_group(self.prompt, [new]);
        let extent = (0..self.batch).fold(Extent::default(), |all, _| all.and(one));
        let costs = Costs::of(&self.model.config);
        // Every step reads each weight once, whatever the batch.
        let bytes = costs.weights() * (self.weight_bytes * new) as f64;
        Ok(json!({
            "seconds": seconds,
            "tokens": self.batch * new,
            "flops": costs.forward(extent),
            "bytes": bytes,
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
