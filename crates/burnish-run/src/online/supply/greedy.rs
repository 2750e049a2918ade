//! The reward of a greedy answer to each task.

use burnish_core::{Sampling, Task};
use burnish_env::rollout::{RolloutSpec, Spawn};
use burnish_rl::fact::{GREEDY_REWARD, Need};

use super::{Groups, Kind, Provider, Step};
use crate::RunError;
use crate::online::{latent, overlong};
use crate::seeds::Draws;
use burnish_recipe::supply::OF_GREEDY;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_GREEDY, make: |_| Ok(Some(Box::new(Greedy))) };

struct Greedy;

impl Provider for Greedy {
    fn supply(&mut self, _: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let Step { recipe, tasks, behavior, .. } = step;
        let rollout = &recipe.rollout;
        let sampling = Sampling { temperature: 0.0, ..recipe.rollout_sampling() };
        let own: Vec<Task> = groups.kept().map(|group| group.task.clone()).collect();
        let seeds = Draws::Greedy.place(recipe.run.seed, step.number, 0);
        let mut spawns = Spawn::of_tasks(&own, 1, &sampling, seeds);
        spawns.iter_mut().for_each(|spawn| spawn.role = "greedy rollout");
        let spec = RolloutSpec::new(tasks.generator()?, &spawns, rollout.turns_max, rollout.overlong);
        let mut sampler = behavior.sampler()?;
        let mut episodes = tasks.others.play(sampler.policy(), &spec)?;
        sampler.finish()?;
        let (mut sum, mut scored) = (0.0, 0_usize);
        for (group, episode) in groups.kept_mut().zip(&mut episodes) {
            if recipe.reward.overlong_buffer.is_on() {
                overlong::punish(episode, &recipe.reward.overlong_buffer, rollout.tokens_max)?;
            }
            latent::reward(episode, recipe, &behavior.chat.tokenizer)?;
            let Some(reward) = episode.verdict.total(&recipe.reward.weights) else { continue };
            group.members.iter_mut().for_each(|member| member.facts.set(&GREEDY_REWARD, [reward]));
            sum += reward;
            scored += 1;
        }
        let mean = (scored > 0).then(|| ("greedy_reward".to_owned(), sum / scored as f64));
        Ok(mean.into_iter().collect())
    }
}
