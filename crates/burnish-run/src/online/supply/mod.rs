//! Facts that parts ask for, and who supplies them. A provider is one file and one line of [`PROVIDERS`]; the step knows none by
//! name, and no provider knows who asks.

mod continuations;
mod critic;
mod drift;
mod flaws;
mod greedy;
mod judge;
mod reference;
mod teacher;
mod tokens;
mod verdicts;

use std::path::Path;

use burnish_core::Trace;
use burnish_recipe::supply::{OF_ENVIRONMENT, Supply};
use burnish_rl::advantage::{Estimator, Rollout};
use burnish_rl::fact::{Need, Per};
use burnish_train::TrainerConfig;
use burnish_train::checkpoint::{BoxError, Checkpoint};
use burnish_train::schedule::Schedule;
use serde_json::Value;

use super::groups::Groups;
use super::lag::Sampler;
use crate::RunError;
use crate::policy::LoadedPolicy;
use crate::tasks::Tasks;
use burnish_recipe::Recipe;
use burnish_rundir::metrics::Values;

/// Supplies facts of the members of a step.
pub(super) trait Provider {
    /// Finds out `needs`, which are all of its [`Kind`]'s facts, of every member of the groups that are trained on. Gives metrics of what that
    /// took; those of one name add up.
    ///
    /// # Errors
    /// If a policy or a judge fails, or an episode has a form that it can't work with.
    fn supply(&mut self, needs: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError>;

    /// Takes note of what was played in a step, whether or not anything is asked of it.
    ///
    /// # Errors
    /// If it does not fit the recipe.
    fn see(&mut self, _recipe: &Recipe, _groups: &Groups) -> Result<(), RunError> {
        Ok(())
    }

    /// Learns from the credit that came of its facts: `rollouts` are those that `estimator` saw, one per member.
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

    /// Does the policy wait in step number `step`, until the provider knows more?
    fn is_warming_up(&self, _step: u64) -> bool {
        false
    }

    /// What it has learned, with its key in the state of a checkpoint; none where it learns nothing.
    fn state(&self) -> Option<(&'static str, Value)> {
        None
    }

    /// Writes what it has learned beside the state into the directory of a checkpoint.
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
    pub(super) policy: &'a LoadedPolicy,
    /// Whose weights sampled.
    pub(super) sampler: &'a Sampler,
}

/// What providers are made of.
pub(super) struct Making<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) policy: &'a LoadedPolicy,
    /// How what is trained beside the policy is trained.
    pub(super) schedule: Schedule,
    pub(super) trainer: &'a TrainerConfig,
    /// What a resumed run goes on from.
    pub(super) checkpoint: Option<&'a Checkpoint>,
    pub(super) state: &'a Value,
}

/// A kind of provider.
struct Kind {
    /// What it supplies, and what a recipe has to say to have it.
    supply: &'static Supply,
    /// Makes one; none where the environment supplies its facts, or the recipe has no use for it.
    make: fn(&Making<'_>) -> Result<Made, RunError>,
}

/// A provider; none where the recipe has no use for it.
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
    // What environments know of their tasks they say themselves, where it is asked for.
    Kind { supply: &OF_ENVIRONMENT, make: |_| Ok(None) },
];

/// The providers of a run, with what each supplies.
pub(super) struct Providers(Vec<(&'static Supply, Box<dyn Provider>)>);

impl Providers {
    /// Those that the recipe has.
    ///
    /// # Errors
    /// If a model can't be loaded, or the state is none of theirs.
    pub(super) fn new(making: &Making<'_>) -> Result<Self, RunError> {
        let make = |kind: &Kind| Ok((kind.make)(making)?.map(|provider| (kind.supply, provider)));
        let made = PROVIDERS.iter().map(make).collect::<Result<Vec<_>, RunError>>()?;
        Ok(Providers(made.into_iter().flatten().collect()))
    }

    /// Supplies `needs`. Gives metrics of what that took.
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

    /// Lets every provider take note of what was played.
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

    /// Does the policy wait in step number `step` for any of them?
    pub(super) fn is_warming_up(&self, step: u64) -> bool {
        self.0.iter().any(|(_, provider)| provider.is_warming_up(step))
    }

    /// What they have learned.
    pub(super) fn state(&self) -> impl Iterator<Item = (&'static str, Value)> {
        self.0.iter().filter_map(|(_, provider)| provider.state())
    }

    /// Writes what they have learned beside their state.
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
