//! One step of GRPO: sample groups, score, compare inside the group, update.

mod batch;
mod continued;
mod credit;
mod critic;
pub(crate) mod cycle;
mod divergence;
mod earlier;
mod groups;
mod inform;
mod judge;
mod moved;
mod plan;
mod selection;
mod teacher;

use std::path::Path;
use std::sync::Arc;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Episode, Task};
use burnish_model::Model;
use burnish_rl::advantage::{self, Advantage, Estimator};
use burnish_rl::gate::{Gate, GateConfig, Proposal, Ruling};
use burnish_rl::{LossConfig, Objective};
use burnish_train::checkpoint::{BoxError, Checkpoint};
use burnish_train::schedule::Schedule;
use burnish_train::{Sample, Trainer, TrainerConfig, minibatches, minibatches_of_groups, totals};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::RunError;
use crate::metrics::Values;
use crate::policy::LoadedPolicy;
use crate::recipe::Recipe;
use crate::reference::{Reference, mean_kl};
use crate::summary::{Metrics, Updates, episode_metrics};
use crate::tasks::Tasks;
use batch::Batch;
use credit::Compared;
use critic::Critic;
pub(crate) use cycle::COHERENT;
use divergence::Divergence;
use earlier::Earlier;
use groups::Groups;
pub(crate) use groups::OVERLONG;
use inform::{Played, Sampler};
use judge::PairJudge;
use moved::Moved;
use plan::Planned;
pub(crate) use plan::drafts_of_evaluation;
use selection::Selection;
use teacher::Teacher;

/// What a step did.
pub(crate) struct Stepped {
    /// The tasks, one a group, then each of them turned round, where that was played too.
    pub(crate) tasks: Vec<Task>,
    /// Which of them each episode plays.
    pub(crate) task_indices: Vec<usize>,
    /// The episodes, group by group.
    pub(crate) episodes: Vec<Episode>,
    /// The draft of each group, where the plan has drafts.
    pub(crate) drafts: Vec<Episode>,
    /// Advantage of each episode, then of each draft, a mean where it has several; none where it was unscored, or its group was left out.
    pub(crate) advantages: Vec<Option<f64>>,
    /// What a person should be told.
    pub(crate) note: Option<String>,
    /// Metrics under TRL's names.
    pub(crate) metrics: Metrics,
}

/// GRPO on a recipe.
pub(crate) struct GrpoStage {
    reference: Option<Reference>,
    teacher: Option<Teacher>,
    planned: Planned,
    critic: Option<Critic>,
    judge: Option<PairJudge>,
    estimator: Box<dyn Estimator>,
    /// The reward components that were seen, in the order in which the estimator knows them.
    components: Vec<String>,
    moved: Moved,
    selection: Selection,
    gate: Option<Box<dyn Gate>>,
    divergence: Option<Divergence>,
    earlier: Earlier,
    /// Weight of the KL divergence in the next step.
    kl_coef: f64,
    /// Weight of the entropy bonus in the next step, where it follows a target.
    entropy_coef: f64,
    /// Entropy of the step before; none before the first.
    entropy: Option<f64>,
}

impl GrpoStage {
    /// Keeps the policy before training where the recipe weighs the distance from it, and makes the critic where it
    /// has one, which learns as `schedule` and `trainer` say at its own rate. `state` is what [`GrpoStage::state`] said
    /// when the run was saved as `checkpoint`; null for a new run.
    ///
    /// # Errors
    /// If a model can't be loaded, or the state is not one of the recipe's selector.
    pub(crate) fn new(
        recipe: &Recipe,
        policy: &LoadedPolicy,
        schedule: Schedule,
        trainer: TrainerConfig,
        checkpoint: Option<&Checkpoint>,
        state: &Value,
    ) -> Result<Self, RunError> {
        let kl_coef = state["kl_coef"].as_f64().unwrap_or(recipe.loss.beta);
        let critic = Critic::new(recipe, &policy.model, schedule, trainer, checkpoint)?;
        let entropy_coef = state["entropy_coef"].as_f64().unwrap_or(recipe.loss.entropy_coef);
        let entropy = state["entropy"].as_f64();
        let planned = Planned::new(recipe, &state["plan"])?;
        let teacher = Teacher::new(recipe, policy)?;
        let reference = Reference::new(recipe, &policy.chat)?;
        let mut estimator = recipe.advantage.build()?;
        if !state["estimator"].is_null() {
            estimator.restore(&state["estimator"])?;
        }
        let selection = Selection::new(recipe, state.get("selection"))?;
        let mut gate = recipe.gate.as_ref().map(GateConfig::build).transpose()?;
        if let (Some(gate), Some(_)) = (&mut gate, checkpoint) {
            gate.restore(&state["gate"])?;
        }
        let divergence = Divergence::new(recipe, &policy.model)?;
        let lag = recipe.rollout.policy_lag;
        let earlier = Earlier::new(lag, &policy.model, checkpoint, &state["earlier"])?;
        let components = part(&state["components"])?;
        let moved = part(&state["moved"])?;
        Ok(GrpoStage {
            reference,
            teacher,
            planned,
            critic,
            judge: PairJudge::new(recipe)?,
            estimator,
            components,
            moved,
            selection,
            gate,
            divergence,
            earlier,
            kl_coef,
            entropy_coef,
            entropy,
        })
    }

    /// Writes what the stage has learned itself into the directory of a checkpoint.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(crate) fn save(&self, checkpoint: &Path, step: u64) -> Result<(), BoxError> {
        self.earlier.save(checkpoint)?;
        self.critic.as_ref().map_or(Ok(()), |critic| critic.save(checkpoint, step))
    }

    /// What a step depends on beside the recipe, the weights and the number of the step.
    pub(crate) fn state(&self) -> Value {
        let gate = self.gate.as_ref().map(|gate| gate.state());
        json!({
            "kl_coef": self.kl_coef,
            "entropy_coef": self.entropy_coef,
            "entropy": self.entropy,
            "plan": self.planned.state(),
            "estimator": self.estimator.state(),
            "components": self.components,
            "moved": self.moved,
            "selection": self.selection.state(),
            "gate": gate,
            "earlier": self.earlier.state(),
        })
    }

    /// Measures how far the policy is from the reference, where there is one: in the samples, and in the rewards where
    /// the recipe has it there. The weight of the next step follows.
    fn weigh_kl(
        &mut self,
        recipe: &Recipe,
        policy: &Model,
        groups: &Groups,
        batch: &mut Batch,
        rewards: &mut [Option<f64>],
    ) -> Result<Values, RunError> {
        let (Some(reference), loss, kl_coef) = (&self.reference, &recipe.loss, self.kl_coef) else {
            return Ok(Values::new());
        };
        reference.score(policy, &mut batch.samples, recipe.train.micro_batch_tokens)?;
        let kls = batch.kl(groups.played().count(), loss.kl_estimator);
        let (kl, measured) = mean_kl(&kls);
        let mut metrics = Values::from([("kl_coef".to_owned(), kl_coef)]);
        if loss.use_kl_in_reward {
            for (reward, kl) in rewards.iter_mut().zip(&kls) {
                *reward = reward.map(|reward| reward - kl_coef * kl.sum);
            }
            if measured > 0 {
                metrics.insert("reward_kl_penalty".to_owned(), kl);
            }
        }
        self.kl_coef = loss.adaptive_kl.next(kl_coef, kl, measured);
        Ok(metrics)
    }

    /// Step number `step`, counted from 0.
    pub(crate) fn step(
        &mut self,
        recipe: &Recipe,
        tasks: &Tasks,
        policy: &mut LoadedPolicy,
        trainer: &mut Trainer,
        lr: &dyn Fn(u64) -> f64,
        step: u64,
    ) -> Result<Stepped, RunError> {
        let (rollout, loss, seed) = (&recipe.rollout, &recipe.loss, recipe.run.seed);
        // 1. Sample a group of episodes for each task.
        let earlier = self.earlier.sampler(&policy.model, trainer.updates());
        let now = (&policy.model, trainer.updates());
        let (model, version) = earlier.as_ref().map_or(now, |earlier| (&earlier.model, earlier.version));
        let (model, chat) = (Arc::clone(model), Arc::clone(&policy.chat));
        let sampler = Sampler { model, chat, version, limits: rollout.limits() };
        let mut local = sampler.policy();
        let tokenizer = &policy.chat.tokenizer;
        let groups =
            Groups::sample(recipe, tasks, &mut self.selection, &self.planned, &mut local, tokenizer, step)?;
        let sampling = local.stats();
        drop(local);
        let episodes = &groups.episodes;
        // 2. One number each.
        let mut rewards: Vec<Option<f64>> =
            episodes.iter().map(|episode| episode.verdict.total(&recipe.reward.weights)).collect();
        if recipe.reward.shuffle_within_groups {
            let address = Address { step, ..Address::new(seed, Purpose::Perturb) };
            rewards = advantage::shuffle_within_groups(&rewards, groups.size, address.seed());
        }
        let mut metrics = episode_metrics(&groups.tasks, episodes, &recipe.reward.weights);
        let needs = self.estimator.needs();
        metrics.extend(advantage::reward_metrics(&rewards, groups.size, self.estimator.scale()));
        metrics.extend(groups.metrics(recipe));
        if !groups.drafts.is_empty() {
            let tokens: usize = groups.drafts.iter().map(Episode::sampled_tokens).sum();
            *metrics.entry("tokens/sampled".into()).or_default() += tokens as f64;
            metrics.insert("drafts/mean_length".into(), tokens as f64 / groups.drafts.len() as f64);
        }
        if let Some(tokens) = groups.follow_up_tokens() {
            *metrics.entry("tokens/sampled".into()).or_default() += tokens as f64;
        }
        metrics.insert("sampling/prompt_tokens".into(), sampling.prompt_tokens as f64);
        metrics.insert("sampling/prompt_tokens_read".into(), sampling.prompt_tokens_read as f64);
        if sampling.waits > 0 {
            metrics.insert("sampling/cache_waits".into(), sampling.waits as f64);
            metrics.insert("sampling/cache_preemptions".into(), sampling.preemptions as f64);
        }
        // 3. Every branch of every scored episode of a group that is kept is a sample.
        let mut batch = Batch::of(&groups, &rewards, step);
        metrics.extend(batch.find_proximal(recipe, &policy.model, trainer.updates())?);
        let kl_coef = self.kl_coef;
        metrics.extend(self.weigh_kl(recipe, &policy.model, &groups, &mut batch, &mut rewards)?);
        // 4. Compared with each other, or with what the critic expected; the critic learns from the same numbers.
        let estimates = self.critic.as_ref().map(|critic| critic.estimate(recipe, &batch)).transpose()?;
        credit::name_components(&mut self.components, episodes);
        credit::check_weights(recipe, &self.components)?;
        let names = &self.components;
        let mut rollouts =
            credit::rollouts(recipe, needs, names, &groups, &rewards, &batch, estimates.as_ref())?;
        let played = Played { recipe, tasks, step, groups: &groups, batch: &batch };
        for (name, value) in self.inform(&mut rollouts, played, policy, &sampler)? {
            // Tokens are sampled by more than one.
            *metrics.entry(name).or_default() += value;
        }
        drop(sampler);
        let compared = Compared::of(&groups, &rollouts);
        let advantages = credit::advantages(recipe, &*self.estimator, &groups, &compared)?;
        self.estimator.learn(&compared.rollouts());
        batch.give(&advantages);
        self.planned.observe(groups.outcomes(&advantages));
        metrics.extend(self.planned.metrics());
        let mut is_learning = true;
        if let (Some(critic), Some(estimates)) = (&mut self.critic, &estimates) {
            metrics.extend(critic.learn(recipe, &batch, estimates, &rollouts, &*self.estimator, step)?);
            is_learning = !critic.is_warming_up(step);
        }
        if loss.mask_truncated_completions {
            batch.mask_truncated();
        }
        let entropy_before = self.entropy.unwrap_or(f64::INFINITY);
        let entropy_coef = loss.adaptive_entropy.applied(self.entropy_coef, entropy_before);
        if loss.adaptive_entropy.is_on() {
            metrics.insert("entropy_coef".into(), entropy_coef);
        }
        let objective = LossConfig { beta: kl_coef, entropy_coef, ..loss.clone() }.build()?;
        let needs = objective.needs();
        if needs.pairs {
            batch.pair(&advantages);
        }
        if let Some(teacher) = self.teacher.as_ref().filter(|_| is_learning) {
            teacher.score(recipe, needs, &*tasks.train_generator, policy, &groups, &mut batch)?;
        }
        // 5. Update.
        let mut updates = Updates::default();
        if is_learning {
            let gate = self.gate.as_deref_mut();
            update(recipe, &batch, &*objective, policy, trainer, lr, gate, &mut updates)?;
        }
        if let Some(divergence) = &self.divergence {
            metrics.extend(divergence.metrics(&policy.model)?);
        }
        if let Some(entropy) = updates.mean("entropy_top").or_else(|| updates.mean("entropy")) {
            self.entropy_coef = loss.adaptive_entropy.next(self.entropy_coef, entropy);
            self.entropy = Some(entropy);
        }
        // Before the first update the weights are those that sampled, where nothing lags: what differs is the arithmetic.
        if let Some(drift) = updates.first_drift {
            metrics.insert("sampling/sampling_logp_difference/mean".into(), drift.mean);
            metrics.insert("sampling/sampling_logp_difference/max".into(), drift.max);
        }
        let tokens: usize = batch.samples.iter().map(|sample| sample.ids.len()).sum();
        metrics.insert("tokens/total".into(), tokens as f64);
        let note = groups.shortfall(recipe);
        let (tasks, task_indices) = (groups.all_tasks(), groups.task_indices());
        let Groups { episodes, drafts, .. } = groups;
        let advantages = advantages.iter().map(|credit| credit.as_ref().map(Advantage::mean)).collect();
        Ok(Stepped {
            tasks,
            task_indices,
            episodes,
            drafts,
            advantages,
            note,
            metrics: updates.finish(metrics),
        })
    }
}

/// A part of a saved state; what it is for a new run where there is none.
///
/// # Errors
/// If it is something else.
fn part<T: DeserializeOwned + Default>(state: &Value) -> Result<T, RunError> {
    if state.is_null() {
        return Ok(T::default());
    }
    serde_json::from_value(state.clone()).map_err(|error| {
        RunError::Refused(format!("the checkpoint's state of the stage is damaged: {error}"))
    })
}

/// Updates the policy on the samples of a step: pass after pass, minibatch after minibatch, until a gate closes.
fn update(
    recipe: &Recipe,
    batch: &Batch,
    objective: &dyn Objective,
    policy: &mut LoadedPolicy,
    trainer: &mut Trainer,
    lr: &dyn Fn(u64) -> f64,
    mut gate: Option<&mut (dyn Gate + 'static)>,
    updates: &mut Updates,
) -> Result<(), RunError> {
    let (train, samples) = (&recipe.train, &batch.samples);
    let split = if objective.needs().groups { minibatches_of_groups } else { minibatches };
    let seed = |purpose, at| Address { step: at, ..Address::new(recipe.run.seed, purpose) }.seed();
    let order = seed(Purpose::Shuffle, batch.step);
    for epoch in 0..train.epochs as u64 {
        let parts = split(&batch.group_sizes, train.minibatches, order, epoch);
        for indices in &parts {
            let minibatch: Vec<&Sample> = indices.iter().map(|at| &samples[*at]).collect();
            let chance = seed(Purpose::Objective, trainer.updates());
            let totals = totals(&minibatch, samples, parts.len(), recipe.rollout.tokens_max, chance);
            let lr = lr(trainer.updates());
            let Some(gate) = gate.as_deref_mut() else {
                let update = trainer.update(policy.model_mut(), &minibatch, objective, &totals, lr)?;
                updates.add(&update, lr, None);
                continue;
            };
            let mut ruling = Ruling::default();
            let mut rule = |proposal: &Proposal| {
                ruling = gate.rule(epoch as usize + 1, proposal);
                ruling.is_open
            };
            let update =
                trainer.update_gated(policy.model_mut(), &minibatch, objective, &totals, lr, &mut rule)?;
            updates.add(&update, lr, Some(&ruling));
            if !update.is_made {
                return Ok(());
            }
        }
    }
    Ok(())
}
