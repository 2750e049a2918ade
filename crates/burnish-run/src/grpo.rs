//! One step of GRPO: sample groups, score, compare inside the group, update.

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Episode, Task, Trace};
use burnish_engine::LocalPolicy;
use burnish_env::rollout::{self, Plan, SeedPlace};
use burnish_model::Model;
use burnish_rl::{Objective, advantage, grpo::Grpo};
use burnish_train::{Sample, Trainer, minibatches, score, score_base, totals};

use crate::RunError;
use crate::policy::LoadedPolicy;
use crate::recipe::Recipe;
use crate::summary::{Metrics, Updates, episode_metrics};
use crate::tasks::Tasks;

/// What a step did.
pub(crate) struct Stepped {
    /// The tasks, one a group.
    pub(crate) tasks: Vec<Task>,
    /// The episodes, group by group.
    pub(crate) episodes: Vec<Episode>,
    /// Advantage of each episode; none where it was unscored.
    pub(crate) advantages: Vec<Option<f64>>,
    /// Metrics under TRL's names.
    pub(crate) metrics: Metrics,
}

/// GRPO on a recipe.
pub(crate) struct GrpoStage {
    objective: Grpo,
    reference: Option<Reference>,
}

/// The policy before training.
enum Reference {
    /// A frozen copy.
    Copy(Model),
    /// What is trained is an adapter: the policy without it.
    WithoutAdapter,
}

impl GrpoStage {
    /// Keeps the policy before training where the objective needs it.
    ///
    /// # Errors
    /// If it can't be loaded.
    pub(crate) fn new(recipe: &Recipe) -> Result<Self, RunError> {
        let objective = Grpo::new(recipe.loss.clone());
        let reference = match &recipe.policy.path {
            _ if !objective.needs().reference => None,
            None => return Err(RunError::Refused("policy: a reference needs `policy.path`".into())),
            // An adapter that training goes on with belongs to the reference.
            Some(path) if recipe.policy.lora.is_some() && Model::base_of(path)?.is_none() => {
                Some(Reference::WithoutAdapter)
            }
            Some(path) => Some(Reference::Copy(LoadedPolicy::load(path, &recipe.policy.sampling())?.model)),
        };
        Ok(GrpoStage { objective, reference })
    }

    /// Step number `step`, counted from 0.
    pub(crate) fn step(
        &self,
        recipe: &Recipe,
        tasks: &Tasks,
        policy: &mut LoadedPolicy,
        trainer: &mut Trainer,
        lr: &dyn Fn(u64) -> f64,
        step: u64,
    ) -> Result<Stepped, RunError> {
        let (rollout, seed) = (&recipe.rollout, recipe.run.seed);
        // 1. Which tasks.
        let batch = tasks.of_step(seed, step, rollout.tasks_per_step);
        // 2. Sample a group of episodes for each.
        let mut local =
            LocalPolicy::new(&policy.model, &policy.chat, trainer.updates()).with_limits(rollout.limits());
        if !rollout.allow_off_policy {
            local = local.for_training();
        }
        let episodes = rollout::play(
            &mut local,
            &Plan {
                generator: &*tasks.train_generator,
                tasks: &batch,
                rollouts: rollout.group_size,
                sampling: &rollout.sampling(),
                turns_max: rollout.turns_max,
                overlong: rollout.overlong,
                seeds: SeedPlace { run: seed, stage: 0, step, task_offset: 0 },
            },
        )?;
        // 3. One number each, compared inside the group.
        let mut rewards: Vec<Option<f64>> =
            episodes.iter().map(|episode| episode.verdict.total(&recipe.reward.weights)).collect();
        if recipe.reward.shuffle_within_groups {
            let address = Address { step, ..Address::new(seed, Purpose::Perturb) };
            rewards = advantage::shuffle_within_groups(&rewards, rollout.group_size, address.seed());
        }
        let credit = advantage::group_relative(&rewards, rollout.group_size, &recipe.advantage);
        // 4. Every branch of every scored episode is a sample.
        let mut samples: Vec<Sample> = Vec::new();
        let mut group_sizes = Vec::new();
        for (group, advantages) in
            episodes.chunks(rollout.group_size).zip(credit.advantages.chunks(rollout.group_size))
        {
            let before = samples.len();
            for (episode, advantage) in group.iter().zip(advantages) {
                let Some(advantage) = *advantage else { continue };
                let branches = episode.traces.iter().flat_map(Trace::branches);
                samples.extend(branches.map(|branch| Sample::from_rollout(&branch, advantage)));
            }
            group_sizes.push(samples.len() - before);
        }
        let mut metrics = episode_metrics(&batch, &episodes, &recipe.reward.weights);
        metrics.extend(credit.metrics);
        let sampling = local.stats();
        if sampling.waits > 0 {
            metrics.insert("sampling/cache_waits".into(), sampling.waits as f64);
            metrics.insert("sampling/cache_preemptions".into(), sampling.preemptions as f64);
        }
        // 5. Update.
        if let Some(reference) = &self.reference {
            let tokens_max = recipe.train.micro_batch_tokens;
            let logprobs = match reference {
                Reference::Copy(model) => score(model, &samples, tokens_max)?,
                Reference::WithoutAdapter => score_base(&policy.model, &samples, tokens_max)?,
            };
            for (sample, logprobs) in samples.iter_mut().zip(logprobs) {
                sample.reference = Some(logprobs);
            }
        }
        let address = Address { step, ..Address::new(seed, Purpose::Shuffle) };
        let mut updates = Updates::default();
        for epoch in 0..recipe.train.epochs as u64 {
            let parts = minibatches(&group_sizes, recipe.train.minibatches, address.seed(), epoch);
            for indices in &parts {
                let minibatch: Vec<&Sample> = indices.iter().map(|at| &samples[*at]).collect();
                let totals = totals(&minibatch, &samples, parts.len(), rollout.tokens_max);
                let lr = lr(trainer.updates());
                let update = trainer.update(&mut policy.model, &minibatch, &self.objective, &totals, lr)?;
                updates.add(&update, lr);
            }
        }
        // Before the first update the weights are those that sampled: what differs is the arithmetic.
        if let Some(drift) = updates.first_drift {
            metrics.insert("sampling/sampling_logp_difference/mean".into(), drift.mean);
            metrics.insert("sampling/sampling_logp_difference/max".into(), drift.max);
        }
        let tokens: usize = samples.iter().map(|sample| sample.ids.len()).sum();
        metrics.insert("tokens/total".into(), tokens as f64);
        let metrics = updates.finish(metrics);
        Ok(Stepped { tasks: batch, episodes, advantages: credit.advantages, metrics })
    }
}
