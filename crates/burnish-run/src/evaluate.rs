//! Evaluation: episodes on held-out tasks, summed up with an interval.

use std::ops::Range;

use burnish_core::rng::{Address, Purpose};
use burnish_core::{Episode, Policy};
use burnish_env::rollout::{self, Overlong, Plan, SeedPlace, Spawn};
use burnish_eval::Summary;

use crate::RunError;
use crate::eval_set::EvalSet;
use crate::grpo::{cycle, drafts_of_evaluation};
use crate::policy::LoadedPolicy;
use crate::recipe::Recipe;

/// Stage number in addresses of random numbers: evaluation never shares numbers with training.
const EVALUATION_STAGE: u64 = 1 << 32;

/// What an evaluation found.
pub struct Evaluation {
    /// The episodes, task by task.
    pub episodes: Vec<Episode>,
    /// Rates and intervals.
    pub summary: Summary,
}

/// The seed with which a run's evaluations are resampled.
pub(crate) fn bootstrap_seed(recipe: &Recipe) -> u64 {
    Address::new(recipe.eval.seed, Purpose::Bootstrap).seed()
}

/// Plays every task of a set and sums up. The same policy gives the same evaluation, whatever the step.
///
/// # Errors
/// If episodes can't be played.
pub(crate) fn evaluate(
    recipe: &Recipe,
    policy: &LoadedPolicy,
    version: u64,
    set: &EvalSet,
) -> Result<Evaluation, RunError> {
    let mut local = policy.sampler(version, recipe.rollout.limits());
    let episodes = play(recipe, &mut local, set, 0..set.tasks.len())?;
    let summary = Summary::of(&set.tasks, &episodes, &recipe.reward.weights, bootstrap_seed(recipe));
    Ok(Evaluation { episodes, summary })
}

/// Plays some tasks of a set, task by task. What is played of a task does not depend on which others are.
///
/// # Errors
/// If episodes can't be played.
pub(crate) fn play(
    recipe: &Recipe,
    policy: &mut dyn Policy,
    set: &EvalSet,
    tasks: Range<usize>,
) -> Result<Vec<Episode>, RunError> {
    let seeds = SeedPlace {
        run: recipe.eval.seed,
        stage: EVALUATION_STAGE,
        step: set.place(),
        task_offset: tasks.start as u64,
    };
    let mut spawns = Spawn::of_tasks(&set.tasks[tasks], set.rollouts, &set.sampling, seeds);
    // A held-out task that does not fit counts as a failure; it does not end a long run.
    let turns_max = recipe.rollout.turns_max;
    let (generator, partners) = (&*set.generator, set.partners.as_deref());
    let plan = Plan { generator, partners, spawns: &[], turns_max, overlong: Overlong::Drop };
    let drafts = drafts_of_evaluation(recipe, &plan, &mut spawns, policy)?;
    let plan = Plan { spawns: &spawns, ..plan };
    let mut episodes = rollout::play(policy, &plan)?;
    // What a draft took belongs to the first answer that reads it.
    for (episode, draft) in episodes.chunks_mut(set.rollouts).zip(drafts) {
        episode[0].traces.extend(draft.traces);
    }
    if recipe.eval.cycle && set.can_be_turned() {
        episodes = cycle::mark(policy, &plan, episodes)?;
    }
    Ok(episodes)
}
