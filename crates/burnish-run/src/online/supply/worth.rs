//! What beginnings are worth: many answers that go on from each, and as many to its task.

use std::sync::Arc;

use burnish_core::{Episode, Task};
use burnish_env::rollout::SeedPlace;
use burnish_rl::advantage::Phase;
use burnish_rl::fact::{Need, WORTH, Worths};
use burnish_rl::plan::{RolloutPlan, Spawned};
use serde::Deserialize;

use super::{Groups, Kind, Made, Making, Provider, Step};
use crate::RunError;
use crate::online::groups::Group;
use crate::online::plan_of;
use crate::online::scene::{Played, Scene};
use crate::seeds::{COPIES, Draws};
use burnish_recipe::Recipe;
use burnish_recipe::supply::OF_WORTH;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_WORTH, make };

fn make(making: &Making<'_>) -> Result<Made, RunError> {
    Ok(Some(Box::new(Worth { plan: plan_of(making.recipe)? })))
}

/// Plays as the recipe's plan does, before it has learnt anything.
struct Worth {
    plan: Box<dyn RolloutPlan>,
}

impl Provider for Worth {
    /// In every so many steps, lets the policy go on from each beginning, and play each task from other beginnings. What
    /// is played is only measured: it is not in `tokens/sampled`.
    fn supply(&mut self, needs: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let Step { recipe, tasks, behavior, .. } = step;
        let Some(ask) = needs.iter().find_map(|need| Worths::deserialize(&need.settings).ok()) else {
            return Err(RunError::Refused(
                "advantage.estimator: does not say how beginnings are measured".into(),
            ));
        };
        let begun: Vec<(Task, Played)> = groups.kept().filter_map(begun).collect();
        if begun.is_empty() || !(step.number + 1).is_multiple_of(ask.every) {
            return Ok(Values::new());
        }
        let (own, begun): (Vec<Task>, Vec<Played>) = begun.into_iter().unzip();
        let copies: Vec<Task> =
            own.iter().flat_map(|task| std::iter::repeat_n(task, ask.answers)).cloned().collect();
        let generator = tasks.generator()?;
        let scene = |rollouts: usize, seeds: SeedPlace| Scene {
            generator,
            others: &tasks.others,
            turns_max: recipe.rollout.turns_max,
            overlong: recipe.rollout.overlong,
            sampling: recipe.rollout_sampling(),
            rollouts,
            chat: Some(&behavior.chat),
            seeds,
            progress: step.number as f64 / recipe.train.max_steps as f64,
            program: None,
        };
        let place = |offset: u64| Draws::Worth.place(recipe.run.seed, step.number, offset);
        let mut sampler = behavior.sampler()?;
        let beginnings = scene(ask.answers, place(0));
        let from_beginnings = beginnings.go_on(sampler.policy(), &*self.plan, &own, begun)?;
        let from_tasks = scene(1, place(COPIES)).play(sampler.policy(), &*self.plan, &copies)?;
        sampler.finish()?;
        let worths = from_beginnings.iter().zip(from_tasks.chunks(ask.answers)).map(|(own, of_task)| {
            [mean_reward(recipe, std::slice::from_ref(own)), mean_reward(recipe, of_task)]
        });
        let members = groups.kept_mut().flat_map(|group| &mut group.members);
        let upstream = members.filter(|member| member.phase() == Phase::Upstream);
        upstream.zip(worths).for_each(|(member, worth)| member.facts.set(&WORTH, worth));
        Ok(Values::new())
    }
}

/// The task of a group with its beginning alone; `None` if it has none.
fn begun(group: &Group) -> Option<(Task, Played)> {
    let draft = group.members.iter().find(|member| member.phase() == Phase::Upstream)?;
    let draft =
        Spawned { role: draft.role, task: None, episode: Arc::clone(&draft.episode), weight: draft.weight };
    Some((group.task.clone(), vec![draft]))
}

/// The mean reward of what was played without its beginnings; NaN if nothing has one.
fn mean_reward(recipe: &Recipe, played: &[Played]) -> f64 {
    let answers = played.iter().flatten();
    let answers = answers.filter(|own| own.role.phase() == Phase::Downstream);
    let reward = |episode: &Episode| episode.verdict.total(&recipe.reward.weights);
    let earned: Vec<f64> =
        answers.filter_map(|own| reward(&own.episode)).filter(|reward| reward.is_finite()).collect();
    earned.iter().sum::<f64>() / earned.len() as f64
}
