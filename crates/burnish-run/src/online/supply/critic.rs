//! PPO's critic: a separate model that learns the return from each token on.

use std::path::Path;

use burnish_core::rng::{Address, Purpose};
use burnish_model::{Loading, Model};
use burnish_rl::ValueLoss;
use burnish_rl::advantage::{Estimator, Rollout};
use burnish_rl::fact::{BOOTSTRAP, Need, VALUES};
use burnish_train::checkpoint::{self, BoxError, Checkpoint};
use burnish_train::schedule::Schedule;
use burnish_train::{Proximal, Sample, Trainer, minibatches, score, totals};

use super::{Groups, Kind, Made, Making, Provider, Step};
use crate::RunError;
use crate::online::credit::refuse_branches;
use burnish_recipe::supply::OF_CRITIC;
use burnish_recipe::{CriticSection, Recipe};
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_CRITIC, make: Critic::make };

/// Directory of the critic in a checkpoint: a model directory, with the trainer's files.
const DIR: &str = "value_model";

/// The critic of a run.
struct Critic {
    model: Model,
    trainer: Trainer,
    schedule: Schedule,
    config: CriticSection,
    /// Its values for the samples of the step: one entry per sample and token, the value of the state before the
    /// token; 0 if the token was not sampled.
    values: Vec<Vec<f32>>,
}

impl Critic {
    /// The critic of a recipe that has one, on the policy's device: from `checkpoint`, from the directory in the
    /// recipe, or the policy with a head of zeros.
    ///
    /// # Errors
    /// If it can't be loaded.
    fn make(making: &Making<'_>) -> Result<Made, RunError> {
        let Making { checkpoint, schedule, .. } = *making;
        let Some(config) = making.recipe.critic.clone() else { return Ok(None) };
        let policy = &making.learner.here()?.policy.model;
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
            trainer: Trainer::new(&model, *making.trainer),
            model,
            schedule: Schedule { peak: config.learning_rate, ..schedule },
            config,
            values: Vec::new(),
        };
        if let Some(saved) = saved {
            saved.restore(&mut critic.model, &mut critic.trainer)?;
        }
        Ok(Some(Box::new(critic)))
    }

    /// The value at every sampled token, and the value of the state after the last token of each sample that was cut
    /// off.
    fn estimate(&self, recipe: &Recipe, groups: &Groups) -> Result<Estimates, RunError> {
        let tokens_max = recipe.train.micro_batch_tokens;
        let samples = groups.bare_samples();
        let values = score(&self.model, &samples, tokens_max)?;
        // The state after the last token needs one more token of context.
        let context = self.model.context_tokens_max();
        let cut: Vec<usize> = groups
            .samples()
            .enumerate()
            .filter(|(_, (_, _, own))| own.is_truncated && own.sample.ids.len() <= context)
            .map(|(at, _)| at)
            .collect();
        let extended: Vec<Sample> = cut.iter().map(|at| samples[*at].ending()).collect();
        let after = score(&self.model, &extended, tokens_max)?;
        let mut bootstraps = vec![None; samples.len()];
        for (at, values) in cut.into_iter().zip(after) {
            bootstraps[at] = values.last().map(|value| f64::from(*value));
        }
        Ok(Estimates { values, bootstraps })
    }
}

/// The critic's values for the samples of a step.
struct Estimates {
    /// One entry per sample and token, as in [`Critic::values`].
    values: Vec<Vec<f32>>,
    /// Value of the state after the last token of a sample that was cut off.
    bootstraps: Vec<Option<f64>>,
}

impl Provider for Critic {
    fn supply(&mut self, _: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let Estimates { values, bootstraps } = self.estimate(step.recipe, groups)?;
        let mut estimates = values.iter().zip(bootstraps);
        for member in groups.kept_mut().flat_map(|group| &mut group.members) {
            for (own, (values, bootstrap)) in member.samples.iter().zip(estimates.by_ref()) {
                refuse_branches(step.recipe, &member.episode)?;
                let values: Vec<f64> = own.sample.scored().map(|at| f64::from(values[at])).collect();
                member.facts.set(&VALUES, values);
                member.facts.set(&BOOTSTRAP, bootstrap.into_iter().collect::<Vec<f64>>());
            }
        }
        self.values = values;
        Ok(Values::new())
    }

    /// Trains the values of the step's samples towards the returns of their tokens.
    fn learn(
        &mut self,
        recipe: &Recipe,
        groups: &Groups,
        rollouts: &[&Rollout],
        estimator: &dyn Estimator,
        step: u64,
    ) -> Result<Values, RunError> {
        let values = std::mem::take(&mut self.values);
        let (mut samples, mut spread) = (Vec::with_capacity(values.len()), Spread::default());
        let mut group_sizes = Vec::new();
        let (mut rollouts, mut values) = (rollouts.iter(), values.into_iter());
        for group in groups.kept() {
            let before = samples.len();
            for (member, rollout) in group.members.iter().zip(rollouts.by_ref()) {
                for (own, values) in member.samples.iter().zip(values.by_ref()) {
                    let sample = &own.sample;
                    let mut targets = vec![0.0; sample.ids.len()];
                    let returns = estimator.returns(rollout);
                    for (token, earned) in sample.scored().zip(returns.into_iter().flatten()) {
                        targets[token] = earned as f32;
                        spread.add(earned, f64::from(values[token]));
                    }
                    samples.push(Sample {
                        advantages: targets,
                        model_logprobs: values.clone(),
                        proximal: Proximal::Known(values),
                        reference: None,
                        ..sample.clone()
                    });
                }
            }
            group_sizes.push(samples.len() - before);
        }
        let objective = ValueLoss { clip_range: self.config.clip_range };
        let seed = Address { step, turn: 1, ..Address::new(recipe.run.seed, Purpose::Shuffle) }.seed();
        let (mut found, mut updates) = (Values::new(), 0.0);
        for epoch in 0..recipe.train.epochs as u64 {
            for indices in minibatches(&group_sizes, recipe.train.minibatches, seed, epoch) {
                let minibatch: Vec<&Sample> = indices.iter().map(|at| &samples[*at]).collect();
                let totals = totals(&minibatch, &samples, 1, recipe.rollout.tokens_max, 0);
                let lr = self.schedule.lr(self.trainer.updates());
                let update = self.trainer.update(&mut self.model, &minibatch, &objective, &totals, lr)?;
                for (name, value) in update.metrics {
                    *found.entry(name).or_default() += value;
                }
                *found.entry("critic/grad_norm".into()).or_default() += update.grad_norm.unwrap_or_default();
                *found.entry("critic/lr".into()).or_default() += lr;
                updates += 1.0;
            }
        }
        found.values_mut().for_each(|value| *value /= updates);
        found.extend(spread.explained().map(|share| ("critic/vf_explained_var".to_owned(), share)));
        Ok(found)
    }

    fn is_warming_up(&self, step: u64) -> bool {
        step < self.config.warmup_steps
    }

    fn save(&self, checkpoint: &Path, step: u64) -> Result<(), BoxError> {
        checkpoint::write_part(&checkpoint.join(DIR), step, &self.model, &self.trainer)
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

    /// `1 - Var(R - V) / Var(R)`, as in verl; `None` if all returns are equal.
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
