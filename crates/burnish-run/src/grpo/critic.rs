//! PPO's critic: a model of its own that learns what is earned from each token on.

use std::path::Path;

use burnish_core::rng::{Address, Purpose};
use burnish_model::{Loading, Model};
use burnish_rl::ValueLoss;
use burnish_rl::advantage::{Estimator, Rollout, TokenStatistics};
use burnish_train::checkpoint::{self, BoxError, Checkpoint};
use burnish_train::schedule::Schedule;
use burnish_train::{Proximal, Sample, Trainer, TrainerConfig, minibatches, score, totals};

use super::batch::Batch;
use crate::RunError;
use crate::metrics::Values;
use crate::recipe::{CriticSection, Recipe};

/// Directory of the critic in a checkpoint: a model directory, with the trainer's files.
const DIR: &str = "value_model";

/// The critic of a run.
pub(super) struct Critic {
    model: Model,
    trainer: Trainer,
    schedule: Schedule,
    config: CriticSection,
}

/// What the critic says of the samples of a step.
pub(super) struct Estimates {
    /// One entry a sample and token: the value of the state before it, 0 where nothing was sampled.
    values: Vec<Vec<f32>>,
    /// Value of the state after the last token of a sample that was cut off.
    bootstraps: Vec<Option<f64>>,
}

impl Critic {
    /// The critic of a recipe that has one, where the policy lies: from `checkpoint`, the directory of the recipe, or the
    /// policy with a head of zeros.
    ///
    /// # Errors
    /// If it can't be loaded.
    pub(super) fn new(
        recipe: &Recipe,
        policy: &Model,
        schedule: Schedule,
        trainer: TrainerConfig,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<Option<Self>, RunError> {
        let Some(config) = recipe.critic.clone() else { return Ok(None) };
        let loading = Loading { precision: policy.params.precision(), ..Loading::default() };
        let saved =
            checkpoint.map(|checkpoint| Checkpoint::open(&checkpoint.path().join(DIR))).transpose()?;
        let model = match (&saved, &config.path) {
            (Some(saved), _) => load(saved.path(), &loading)?,
            (None, Some(path)) => load(path, &loading)?,
            (None, None) => policy.to_value_model()?,
        };
        let model = model.on(policy.params.device());
        let mut critic = Critic {
            trainer: Trainer::new(&model, trainer),
            model,
            schedule: Schedule { peak: config.learning_rate, ..schedule },
            config,
        };
        if let Some(saved) = saved {
            saved.restore(&mut critic.model, &mut critic.trainer)?;
        }
        Ok(Some(critic))
    }

    /// Writes the critic into the directory of a checkpoint.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(super) fn save(&self, checkpoint: &Path, step: u64) -> Result<(), BoxError> {
        checkpoint::write_part(&checkpoint.join(DIR), step, &self.model, &self.trainer)
    }

    /// Does the policy wait in this step, until the critic knows more?
    pub(super) fn is_warming_up(&self, step: u64) -> bool {
        step < self.config.warmup_steps
    }

    /// The values of all sampled tokens of a batch.
    ///
    /// # Errors
    /// If a sample does not fit the model.
    pub(super) fn estimate(&self, recipe: &Recipe, batch: &Batch) -> Result<Estimates, RunError> {
        let tokens_max = recipe.train.micro_batch_tokens;
        let values = score(&self.model, &batch.samples, tokens_max)?;
        // The state after the last token is what a further token would be read in.
        let context = self.model.context_tokens_max();
        let cut: Vec<usize> = (0..batch.samples.len())
            .filter(|at| batch.is_truncated(*at) && batch.samples[*at].ids.len() <= context)
            .collect();
        let extended: Vec<Sample> = cut.iter().map(|at| with_one_token_more(&batch.samples[*at])).collect();
        let after = score(&self.model, &extended, tokens_max)?;
        let mut bootstraps = vec![None; batch.samples.len()];
        for (at, values) in cut.into_iter().zip(after) {
            bootstraps[at] = values.last().map(|value| f64::from(*value));
        }
        Ok(Estimates { values, bootstraps })
    }

    /// Draws the values of a batch to the returns of its tokens.
    ///
    /// # Errors
    /// If a sample does not fit the model, or a number is not finite.
    pub(super) fn learn(
        &mut self,
        recipe: &Recipe,
        batch: &Batch,
        estimates: &Estimates,
        rollouts: &[Option<Rollout>],
        estimator: &dyn Estimator,
        step: u64,
    ) -> Result<Values, RunError> {
        let (mut samples, mut spread) = (Vec::with_capacity(batch.samples.len()), Spread::default());
        for (at, sample) in batch.samples.iter().enumerate() {
            let returns = rollouts[batch.episode(at)].as_ref().and_then(|rollout| estimator.returns(rollout));
            let mut targets = vec![0.0; sample.ids.len()];
            for (token, earned) in sample.scored().zip(returns.into_iter().flatten()) {
                targets[token] = earned as f32;
                spread.add(earned, f64::from(estimates.values[at][token]));
            }
            let values = estimates.values[at].clone();
            samples.push(Sample {
                advantages: targets,
                model_logprobs: values.clone(),
                proximal: Proximal::Known(values),
                reference: None,
                ..sample.clone()
            });
        }
        let objective = ValueLoss { clip_range: self.config.clip_range };
        let seed = Address { step, turn: 1, ..Address::new(recipe.run.seed, Purpose::Shuffle) }.seed();
        let (mut found, mut updates) = (Values::new(), 0.0);
        for epoch in 0..recipe.train.epochs as u64 {
            for indices in minibatches(&batch.group_sizes, recipe.train.minibatches, seed, epoch) {
                let minibatch: Vec<&Sample> = indices.iter().map(|at| &samples[*at]).collect();
                let totals = totals(&minibatch, &samples, 1, recipe.rollout.tokens_max, 0);
                let lr = self.schedule.lr(self.trainer.updates());
                let update = self.trainer.update(&mut self.model, &minibatch, &objective, &totals, lr)?;
                for (name, value) in update.metrics {
                    *found.entry(name).or_default() += value;
                }
                *found.entry("critic/grad_norm".into()).or_default() += update.grad_norm;
                *found.entry("critic/lr".into()).or_default() += lr;
                updates += 1.0;
            }
        }
        found.values_mut().for_each(|value| *value /= updates);
        found.extend(spread.explained().map(|share| ("critic/vf_explained_var".to_owned(), share)));
        Ok(found)
    }
}

impl Estimates {
    /// What is known of the sampled tokens of sample number `at`, and of the state after them.
    pub(super) fn of(&self, at: usize, sample: &Sample) -> (Vec<TokenStatistics>, Option<f64>) {
        let statistics = sample.scored().map(|token| TokenStatistics {
            logprob: f64::from(sample.old(token)),
            value: f64::from(self.values[at][token]),
            ..TokenStatistics::default()
        });
        (statistics.collect(), self.bootstraps[at])
    }
}

fn load(dir: &Path, loading: &Loading) -> Result<Model, RunError> {
    let model = Model::load_as(dir, loading)?;
    if model.is_value_model() {
        return Ok(model);
    }
    Err(RunError::Refused(format!(
        "critic.path: {} is a model with logits; give one of values (a `...ForSequenceClassification` with one label), or \
         leave the key out to begin with the policy's weights",
        dir.display()
    )))
}

/// The same sample with only the state after its last token scored.
fn with_one_token_more(sample: &Sample) -> Sample {
    let mut more = sample.clone();
    more.loss_mask.fill(false);
    // Which token it is plays no part: its value is that of the state before it.
    more.ids.push(more.ids.first().copied().unwrap_or_default());
    more.loss_mask.push(true);
    more.model_logprobs.push(0.0);
    more.sampled_logprobs.push(0.0);
    more.temperatures.push(1.0);
    more.advantages.push(0.0);
    more.reference = None;
    more.proximal = Proximal::Sampling;
    more
}

/// How much of the returns the values explain.
#[derive(Default)]
struct Spread {
    returns: Vec<f64>,
    errors: Vec<f64>,
}

impl Spread {
    fn add(&mut self, earned: f64, value: f64) {
        self.returns.push(earned);
        self.errors.push(earned - value);
    }

    /// `1 - Var(R - V) / Var(R)`, as in verl; none where all returns are equal.
    fn explained(&self) -> Option<f64> {
        let spread = variance(&self.returns);
        (spread > 0.0).then(|| 1.0 - variance(&self.errors) / spread)
    }
}

fn variance(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count
}
