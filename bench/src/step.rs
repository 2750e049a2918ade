//! A training step: forward, next-token loss, backward, AdamW, on random sequences.

use std::path::Path;
use std::time::Instant;

use burnish_core::rng::Stream;
use burnish_model::{Loading, Model, Outline, Trains};
use burnish_rl::nll::Nll;
use burnish_tensor::Device;
use burnish_train::adamw::{AdamwConfig, MomentType};
use burnish_train::{Checkpointing, PassConfig, Place, Sample, Trainer, TrainerConfig, UpdateNeed, totals};
use serde_json::{Value, json};

use crate::flops::{Costs, Extent};
use crate::worker::{Arguments, Work};
use crate::{Done, policy};

/// Rows of a micro-batch: the default of `train.micro_batch_tokens`.
pub(crate) const MICRO_BATCH_TOKENS: usize = 8192;

/// Learning rate of the steps, as in the peer's.
const LEARNING_RATE: f64 = 3e-4;

/// Training steps, one after the other.
pub(crate) struct Steps {
    model: Model,
    /// Made with the first step: gradients and moments belong to the memory of training, as PyTorch's do.
    trainer: Option<Trainer>,
    batch: usize,
    length: usize,
    pass: PassConfig,
    moments: MomentType,
    planned_bytes: usize,
    ids: Stream,
}

/// What the backward pass computes again, by name.
pub(crate) fn checkpointing(name: &str) -> Result<Checkpointing, String> {
    match name {
        "off" => Ok(Checkpointing::Off),
        "selective" => Ok(Checkpointing::Selective),
        "full" => Ok(Checkpointing::Full),
        _ => Err("it is off, selective or full".to_owned()),
    }
}

impl Steps {
    pub(crate) fn load(arguments: &Arguments, device: &Device) -> Done<Self> {
        let Arguments { model: dir, bf16, length, micro_batch, .. } = arguments;
        let model = match arguments.random {
            true => policy::random_on(device, dir, *bf16)?,
            false => policy::load_on(device, dir, *bf16, Trains::All)?,
        };
        let steps = Steps::of(model, arguments.batch.unwrap_or(16), *length);
        let checkpointing = arguments.checkpointing;
        let moments = if arguments.eight_bit { MomentType::EightBit } else { MomentType::F32 };
        let pass = PassConfig { checkpointing: checkpointing.always(), ..PassConfig::new(*micro_batch) };
        let planned_bytes = steps.planned_bytes(device, moments, checkpointing, *micro_batch)?;
        Ok(Steps { pass, moments, planned_bytes, ..steps })
    }

    /// What the model and a step are planned to take.
    fn planned_bytes(
        &self,
        device: &Device,
        moments: MomentType,
        checkpointing: Checkpointing,
        micro_batch: usize,
    ) -> Done<usize> {
        let loading = Loading { precision: self.model.params.precision(), ..Loading::default() };
        let outline = Outline::of_config(self.model.config.clone(), &loading, Path::new("the model"))?;
        let rows = micro_batch.min(self.batch * self.length).max(self.length);
        let place = if device.is_cpu() { Place::Cpu } else { Place::Gpu };
        let need = UpdateNeed::new(&outline, moments, checkpointing, rows, place);
        let UpdateNeed { gradient, moments, shadow, kept, passing } = need;
        Ok(outline.parameter_bytes() + gradient + moments + shadow + kept + passing)
    }

    /// Steps of `batch` sequences of `length` tokens.
    pub(crate) fn of(model: Model, batch: usize, length: usize) -> Self {
        let pass = PassConfig::new(MICRO_BATCH_TOKENS);
        let (moments, planned_bytes) = (MomentType::F32, 0);
        Steps { model, trainer: None, batch, length, pass, moments, planned_bytes, ids: Stream::new(0) }
    }

    /// One step; its loss.
    pub(crate) fn step(&mut self) -> Done<f64> {
        let vocab = self.model.config.vocab_size;
        let sequences: Vec<Vec<u32>> = (0..self.batch)
            .map(|_| (0..self.length).map(|_| self.ids.index(vocab) as u32).collect())
            .collect();
        let samples: Vec<Sample> = sequences.into_iter().map(imitated).collect();
        let trainer =
            self.trainer.get_or_insert_with(|| Trainer::new(&self.model, config(self.pass, self.moments)));
        let totals = totals(&samples, &samples, 1, self.length, 0);
        let update = trainer.update(&mut self.model, &samples, &Nll, &totals, LEARNING_RATE)?;
        Ok(update.loss)
    }
}

impl Work for Steps {
    fn unit(&mut self) -> Done<Value> {
        let start = Instant::now();
        let loss = self.step()?;
        self.model.params.device().synchronize()?;
        let seconds = start.elapsed().as_secs_f64();
        let one = Extent::of_group(1, [self.length - 1]);
        let extent = (0..self.batch).fold(Extent::default(), |all, _| all.and(one));
        let flops = Costs::of(&self.model.config).training(extent);
        Ok(json!({
            "seconds": seconds, "tokens": self.batch * self.length, "flops": flops, "loss": loss,
            "planned_bytes": self.planned_bytes,
        }))
    }
}

/// As `torch.optim.AdamW`: its weight decay, and no clipping.
fn config(pass: PassConfig, moments: MomentType) -> TrainerConfig {
    TrainerConfig {
        adamw: AdamwConfig { weight_decay: 0.01, moments, ..AdamwConfig::default() },
        grad_norm_max: None,
        pass,
    }
}

/// A sequence of which every token but the first is scored.
pub(crate) fn imitated(ids: Vec<u32>) -> Sample {
    let tokens = ids.len();
    Sample {
        loss_mask: (0..tokens).map(|at| at > 0).collect(),
        model_logprobs: vec![0.0; tokens],
        sampled_logprobs: vec![0.0; tokens],
        temperatures: vec![1.0; tokens],
        advantages: vec![1.0; tokens],
        ids,
        ..Sample::default()
    }
}
