//! The facts that parts need, and their providers. A provider is one file and one line of [`PROVIDERS`]. The step
//! knows no provider by name, and no provider knows who needs its facts.

mod agreement;
mod continuations;
mod critic;
mod drift;
mod flaws;
mod greedy;
mod judge;
mod reference;
mod skills;
mod teacher;
mod tokens;
mod verdicts;
mod worth;

use std::path::Path;

use burnish_core::Trace;
use burnish_recipe::supply::{OF_ENVIRONMENT, Supply};
use burnish_rl::advantage::{Estimator, Rollout};
use burnish_rl::fact::{Need, Per};
use burnish_train::TrainerConfig;
use burnish_train::checkpoint::{BoxError, Checkpoint};
use burnish_train::schedule::Schedule;
use serde_json::Value;

pub(crate) use skills::{saved as saved_library, share as share_library};

use super::groups::Groups;
use super::lag::Behavior;
use crate::RunError;
use crate::learner::Learner;
use crate::tasks::Tasks;
use burnish_recipe::Recipe;
use burnish_rundir::metrics::Values;

/// Supplies facts about the members of a step.
pub(super) trait Provider {
    /// Determines `needs`, which are all among its [`Kind`]'s facts, for every member of the trained groups. Returns
    /// metrics of the work; metrics with the same name are summed.
    ///
    /// # Errors
    /// If a policy or a judge fails, or an episode has a form that the provider can't handle.
    fn supply(&mut self, needs: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError>;

    /// Readies environments for the episodes that come next: before the first step, and after each.
    fn prepare(&mut self, _tasks: &Tasks) {}

    /// Takes note of the episodes of a step, whether or not any fact is needed.
    ///
    /// # Errors
    /// If they do not fit the recipe.
    fn see(&mut self, _recipe: &Recipe, _groups: &Groups) -> Result<(), RunError> {
        Ok(())
    }

    /// Learns from the credit that its facts led to: `rollouts` are those that `estimator` saw, one per member.
    ///
    /// # Errors
    /// If a number is not finite.
    fn learn(
        &mut self,
        _recipe: &Recipe,
        _groups: &Groups,
        _rollouts: &[&Rollout],
        _estimator: &dyn Estimator,
        _step: u64,
    ) -> Result<Values, RunError> {
        Ok(Values::new())
    }

    /// Whether the policy waits in step number `step`, until the provider has learnt more.
    fn is_warming_up(&self, _step: u64) -> bool {
        false
    }

    /// What it has learnt, with its key in the state of a checkpoint; `None` if it learns nothing.
    fn state(&self) -> Option<(&'static str, Value)> {
        None
    }

    /// Writes whatever else it has learnt into the directory of a checkpoint.
    ///
    /// # Errors
    /// If a file can't be written.
    fn save(&self, _checkpoint: &Path, _step: u64) -> Result<(), BoxError> {
        Ok(())
    }
}

/// A step, as providers see it.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) tasks: &'a Tasks,
    /// Its number, counted from 0.
    pub(super) number: u64,
    pub(super) learner: &'a Learner,
    /// The weights that sampled.
    pub(super) behavior: &'a Behavior,
}

/// Everything that providers are built from.
pub(super) struct Making<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) learner: &'a Learner,
    /// How models other than the policy are trained.
    pub(super) schedule: Schedule,
    pub(super) trainer: &'a TrainerConfig,
    /// The checkpoint from which a run is resumed.
    pub(super) checkpoint: Option<&'a Checkpoint>,
    pub(super) state: &'a Value,
}

/// A kind of provider.
struct Kind {
    /// Its facts, and what a recipe must say to have them.
    supply: &'static Supply,
    /// Builds the provider; `None` if the environment supplies its facts, or the recipe does not use it.
    make: fn(&Making<'_>) -> Result<Made, RunError>,
}

/// A provider; `None` if the recipe does not use it.
type Made = Option<Box<dyn Provider>>;

/// Every kind, in the order in which they are asked.
const PROVIDERS: &[Kind] = &[
    reference::KIND,
    teacher::KIND,
    verdicts::KIND,
    critic::KIND,
    drift::KIND,
    flaws::KIND,
    tokens::KIND,
    greedy::KIND,
    judge::KIND,
    continuations::KIND,
    worth::KIND,
    skills::KIND,
    // Environments themselves supply what they know about their tasks, when asked.
    Kind { supply: &OF_ENVIRONMENT, make: |_| Ok(None) },
];

/// The providers of a run, each with its supply.
pub(super) struct Providers(Vec<(&'static Supply, Box<dyn Provider>)>);

impl Providers {
    /// The providers that the recipe uses.
    ///
    /// # Errors
    /// If a model can't be loaded, or the state fits none of them.
    pub(super) fn new(making: &Making<'_>) -> Result<Self, RunError> {
        let make = |kind: &Kind| Ok((kind.make)(making)?.map(|provider| (kind.supply, provider)));
        let made = PROVIDERS.iter().map(make).collect::<Result<Vec<_>, RunError>>()?;
        Ok(Providers(made.into_iter().flatten().collect()))
    }

    /// Supplies `needs`. Returns metrics of the work.
    ///
    /// # Errors
    /// If one of them can't be met.
    pub(super) fn supply(
        &mut self,
        needs: &[Need],
        step: Step<'_>,
        groups: &mut Groups,
    ) -> Result<Values, RunError> {
        let mut metrics = Values::new();
        for (supply, provider) in &mut self.0 {
            let own: Vec<&Need> = needs.iter().filter(|need| supply.facts.contains(&need.fact)).collect();
            if !own.is_empty() {
                add(&mut metrics, provider.supply(&own, step, groups)?);
                check_counts(&own, groups)?;
            }
        }
        Ok(metrics)
    }

    /// Lets every provider ready environments.
    pub(super) fn prepare(&mut self, tasks: &Tasks) {
        self.0.iter_mut().for_each(|(_, provider)| provider.prepare(tasks));
    }

    /// Lets every provider take note of the episodes.
    ///
    /// # Errors
    /// As [`Provider::see`].
    pub(super) fn see(&mut self, recipe: &Recipe, groups: &Groups) -> Result<(), RunError> {
        self.0.iter_mut().try_for_each(|(_, provider)| provider.see(recipe, groups))
    }

    /// Lets every provider learn.
    ///
    /// # Errors
    /// As [`Provider::learn`].
    pub(super) fn learn(
        &mut self,
        recipe: &Recipe,
        groups: &Groups,
        rollouts: &[&Rollout],
        estimator: &dyn Estimator,
        step: u64,
    ) -> Result<Values, RunError> {
        let mut metrics = Values::new();
        for (_, provider) in &mut self.0 {
            metrics.extend(provider.learn(recipe, groups, rollouts, estimator, step)?);
        }
        Ok(metrics)
    }

    /// Whether any of them makes the policy wait in step number `step`.
    pub(super) fn is_warming_up(&self, step: u64) -> bool {
        self.0.iter().any(|(_, provider)| provider.is_warming_up(step))
    }

    /// What they have learnt.
    pub(super) fn state(&self) -> impl Iterator<Item = (&'static str, Value)> {
        self.0.iter().filter_map(|(_, provider)| provider.state())
    }

    /// Writes whatever else they have learnt into the directory of a checkpoint.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(super) fn save(&self, checkpoint: &Path, step: u64) -> Result<(), BoxError> {
        self.0.iter().try_for_each(|(_, provider)| provider.save(checkpoint, step))
    }
}

/// Checks that every member has as many numbers of each fact as that says, or none.
///
/// # Errors
/// Names the fact and the task: the provider or the fact's [`Per`] is wrong.
fn check_counts(needs: &[&Need], groups: &Groups) -> Result<(), RunError> {
    for group in groups.kept() {
        for member in &group.members {
            let turns = || {
                member.episode.traces.iter().flat_map(Trace::nodes).filter_map(|node| node.sampled.as_ref())
            };
            for Need { fact, .. } in needs {
                let wanted = match fact.per {
                    Per::Rollout => 1,
                    Per::Sibling => group.members.len(),
                    Per::Turn => turns().count(),
                    Per::Token => turns().map(|turn| turn.model_logprobs.len()).sum(),
                    Per::Entry | Per::Stream | Per::Task => continue,
                };
                let found = member.facts.of(fact).len();
                if found != 0 && found != wanted {
                    return Err(RunError::Refused(format!(
                        "`{}` ({}) has {found} numbers for an episode of task {}, which has {wanted} to be told apart",
                        fact.id, fact.about, group.task.id
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Adds up numbers of one name.
pub(super) fn add(metrics: &mut Values, more: Values) {
    for (name, value) in more {
        *metrics.entry(name).or_default() += value;
    }
}

#[cfg(test)]
mod tests {
    use burnish_recipe::supply::SUPPLIES;

    use super::*;

    #[test]
    fn whatever_a_recipe_may_count_on_has_a_provider() {
        let kinds: Vec<*const Supply> =
            PROVIDERS.iter().map(|kind| std::ptr::from_ref(kind.supply)).collect();
        let counted_on: Vec<*const Supply> =
            SUPPLIES.iter().map(|supply| std::ptr::from_ref(*supply)).collect();
        assert_eq!(kinds, counted_on);
    }
}
