//! What an estimator is told of the rollouts of a step beyond their rewards: what it asks for with `needs`, and nothing else.

use std::sync::Arc;

use burnish_engine::{Limits, LocalPolicy};
use burnish_model::{Chat, Model};
use burnish_rl::advantage::Rollout;
use burnish_rl::correction::ProximalSource;

use super::batch::Batch;
use super::continued::Continued;
use super::groups::Groups;
use super::{GrpoStage, credit};
use crate::RunError;
use crate::metrics::Values;
use crate::policy::LoadedPolicy;
use crate::recipe::Recipe;
use crate::tasks::Tasks;

/// Whose weights sample in a step: those that are trained, or as they were some steps ago.
pub(super) struct Sampler {
    pub(super) model: Arc<Model>,
    pub(super) chat: Arc<Chat>,
    /// Updates that its weights have had.
    pub(super) version: u64,
    pub(super) limits: Limits,
}

impl Sampler {
    /// What answers. It is dropped when what it was made for is done, and its packed weights and its cache with it: the
    /// passes that train need the room.
    pub(super) fn policy(&self) -> LocalPolicy {
        LocalPolicy::new(&self.model, &self.chat, self.version).with_limits(self.limits.clone())
    }
}

/// A step, as it was played.
#[derive(Clone, Copy)]
pub(super) struct Played<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) tasks: &'a Tasks,
    /// Its number, counted from 0.
    pub(super) step: u64,
    pub(super) groups: &'a Groups,
    pub(super) batch: &'a Batch,
}

impl GrpoStage {
    /// Tells each of `rollouts` what the estimator needs. Gives metrics of what that took.
    ///
    /// # Errors
    /// If a policy or a judge fails, or an episode has a form that the estimator can't work with.
    pub(super) fn inform(
        &mut self,
        rollouts: &mut [Option<Rollout>],
        played: Played<'_>,
        policy: &LoadedPolicy,
        sampler: &Sampler,
    ) -> Result<Values, RunError> {
        let Played { recipe, tasks, step, groups, batch } = played;
        let needs = self.estimator.needs();
        let mut metrics = Values::new();
        if needs.tasks {
            let moved = self.moved.since(recipe, &policy.model, groups)?;
            credit::tell(rollouts, groups, &moved, |told, kl| told.kl = kl);
            self.moved.keep(groups, batch);
        }
        if needs.token_statistics {
            let is_of_update = recipe.loss.correction.proximal == ProximalSource::Recompute;
            let model = if is_of_update { &policy.model } else { &sampler.model };
            credit::tell_statistics(rollouts, recipe, model, groups, batch)?;
        }
        if needs.greedy_reward {
            let greedy = groups.greedy_rewards(recipe, tasks, &mut sampler.policy(), step)?;
            let known: Vec<f64> = greedy.iter().copied().flatten().collect();
            if !known.is_empty() {
                let mean = known.iter().sum::<f64>() / known.len() as f64;
                metrics.insert("greedy_reward".to_owned(), mean);
            }
            credit::tell(rollouts, groups, &greedy, |told, reward| told.greedy_reward = reward);
        }
        if let Some(judge) = self.judge.as_mut().filter(|_| needs.wins) {
            let compared = judge.compare(recipe, groups, step)?;
            metrics.extend(compared.metrics());
            for (rollout, wins) in rollouts.iter_mut().zip(compared.wins) {
                rollout.iter_mut().for_each(|told| told.wins.clone_from(&wins));
            }
        }
        if let Some(ask) = needs.continuations {
            let (mut policy, tokenizer) = (sampler.policy(), &sampler.chat.tokenizer);
            let continued = Continued::sample(recipe, ask, groups, tasks, &mut policy, tokenizer, step)?;
            metrics.insert("continuations/answers".into(), continued.answers as f64);
            metrics.insert("tokens/sampled".into(), continued.tokens as f64);
            for (rollout, rewards) in rollouts.iter_mut().zip(continued.rewards) {
                rollout.iter_mut().for_each(|told| told.continued.clone_from(&rewards));
            }
        }
        Ok(metrics)
    }
}
