//! The groups of a step: which tasks are played, and which of them can teach anything.

use std::collections::BTreeSet;

use burnish_core::{Episode, Policy, Sampling, Task};
use burnish_env::Generator;
use burnish_env::rollout::{self, Opened, Plan, SeedPlace, Spawn};
use burnish_model::Tokenizer;
use burnish_rl::advantage::{self, Advantage};
use burnish_rl::overlong::OverlongBuffer;

use super::cycle::{self, Tally};
use super::plan::Planned;
use super::selection::{Chosen, Selection};
use crate::RunError;
use crate::metrics::Values;
use crate::recipe::{FilterMetric, Recipe};
use crate::tasks::Tasks;

/// Stage number in addresses of random numbers: what happens in the environments of greedy episodes.
const GREEDY_STAGE: u64 = 1 << 34;

/// All that was sampled in a step, round after round.
#[derive(Default)]
pub(super) struct Groups {
    /// The tasks, one a group.
    pub(super) tasks: Vec<Task>,
    /// The episodes, group by group.
    pub(super) episodes: Vec<Episode>,
    /// Is the group trained on? One entry a group.
    pub(super) is_kept: Vec<bool>,
    /// The draft of each group, where the plan has drafts.
    pub(super) drafts: Vec<Episode>,
    /// Episodes of a group.
    pub(super) size: usize,
    /// The task of each group turned round, where the second half of a group plays it.
    pub(super) turned: Vec<Task>,
    /// What both directions came to, where the plan asks.
    tally: Option<Tally>,
    rounds: usize,
    chosen: Chosen,
}

impl Groups {
    /// Samples the groups of step number `step`: once, or with dynamic sampling until enough of them vary. Their tasks
    /// are those of `selection`, which learns from every round.
    ///
    /// # Errors
    /// If the policy fails, a prompt does not fit, or the environment has not what the plan needs.
    pub(super) fn sample(
        recipe: &Recipe,
        tasks: &Tasks,
        selection: &mut Selection,
        planned: &Planned,
        policy: &mut dyn Policy,
        tokenizer: &Tokenizer,
        step: u64,
    ) -> Result<Self, RunError> {
        policy.abilities().check_trainable().map_err(|error| RunError::Refused(error.to_string()))?;
        let (rollout, seed) = (&recipe.rollout, recipe.run.seed);
        let dynamic = &rollout.dynamic_sampling;
        let cycle = planned.cycle();
        let size = rollout.group_size * cycle.map_or(1, |cycle| cycle.directions());
        let tally = cycle.map(|_| Tally::default());
        let mut groups = Groups { size, tally, ..Groups::default() };
        let progress = step as f64 / recipe.train.max_steps as f64;
        let mut used = BTreeSet::new();
        while groups.rounds < dynamic.max_rounds.max(1) {
            let missing = rollout.tasks_per_step - groups.kept();
            let place = (step, groups.rounds as u64);
            let batch = selection.choose(recipe, tasks, place, missing, &mut used, &mut groups.chosen);
            if batch.is_empty() {
                break;
            }
            // A later round stands behind the earlier ones, so it shares no random number with them.
            let task_offset = groups.tasks.len() as u64;
            let seeds = SeedPlace { run: seed, stage: 0, step, task_offset };
            let mut spawns = Spawn::of_tasks(&batch, rollout.group_size, &rollout.sampling(), seeds);
            let (turns_max, overlong) = (rollout.turns_max, rollout.overlong);
            let (generator, partners) = (&*tasks.train_generator, tasks.partners.as_deref());
            let plan = Plan { generator, partners, spawns: &[], turns_max, overlong };
            groups.drafts.extend(planned.begin(&plan, &mut spawns, progress, policy, tokenizer)?);
            let plan = Plan { spawns: &spawns, ..plan };
            let mut episodes = rollout::play(policy, &plan)?;
            if let (Some(cycle), Some(tally)) = (cycle, &mut groups.tally) {
                let both = cycle::play(policy, &plan, cycle, episodes)?;
                tally.add(&both);
                groups.turned.extend(both.turned);
                episodes = both.episodes;
            }
            if recipe.reward.overlong_buffer.is_on() {
                punish_overlong(&mut episodes, &recipe.reward.overlong_buffer, rollout.tokens_max)?;
            }
            selection.observe(&batch, &episodes, size);
            let is_kept = |group: &[Episode]| !dynamic.is_on() || varies(recipe, group);
            groups.is_kept.extend(episodes.chunks(size).map(is_kept));
            groups.tasks.extend(batch);
            groups.episodes.extend(episodes);
            groups.rounds += 1;
            if groups.kept() == rollout.tasks_per_step {
                break;
            }
        }
        Ok(groups)
    }

    /// How the environment opened the episodes of group number `group` of step number `step`.
    ///
    /// # Errors
    /// If it can't play the task.
    pub(super) fn opened(
        &self,
        recipe: &Recipe,
        generator: &dyn Generator,
        group: usize,
        step: u64,
    ) -> Result<Opened, RunError> {
        let seeds = SeedPlace { run: recipe.run.seed, stage: 0, step, task_offset: 0 };
        Ok(rollout::opened(generator, &self.tasks[group], seeds.address(group))?)
    }

    /// The reward of a greedy answer to the task of each group that is trained on.
    ///
    /// # Errors
    /// If the policy fails, or a prompt does not fit.
    pub(super) fn greedy_rewards(
        &self,
        recipe: &Recipe,
        tasks: &Tasks,
        policy: &mut dyn Policy,
        step: u64,
    ) -> Result<Vec<Option<f64>>, RunError> {
        let rollout = &recipe.rollout;
        let sampling = Sampling { temperature: 0.0, ..rollout.sampling() };
        let kept: Vec<usize> = (0..self.tasks.len()).filter(|group| self.is_kept[*group]).collect();
        let (generator, partners) = (&*tasks.train_generator, tasks.partners.as_deref());
        let tasks: Vec<Task> = kept.iter().map(|group| self.tasks[*group].clone()).collect();
        let seeds = SeedPlace { run: recipe.run.seed, stage: GREEDY_STAGE, step, task_offset: 0 };
        let mut spawns = Spawn::of_tasks(&tasks, 1, &sampling, seeds);
        spawns.iter_mut().for_each(|spawn| spawn.role = "greedy rollout");
        let (turns_max, overlong) = (rollout.turns_max, rollout.overlong);
        let plan = Plan { generator, partners, spawns: &spawns, turns_max, overlong };
        let mut episodes = rollout::play(policy, &plan)?;
        if recipe.reward.overlong_buffer.is_on() {
            punish_overlong(&mut episodes, &recipe.reward.overlong_buffer, rollout.tokens_max)?;
        }
        let mut rewards = vec![None; self.tasks.len()];
        for (group, episode) in kept.into_iter().zip(&episodes) {
            rewards[group] = episode.verdict.total(&recipe.reward.weights);
        }
        Ok(rewards)
    }

    /// The tasks that are trained on, and whether any episode of each has an advantage above 0.
    pub(super) fn outcomes<'a>(
        &'a self,
        advantages: &'a [Option<Advantage>],
    ) -> impl Iterator<Item = (&'a Task, bool)> {
        let size = self.episodes.len() / self.tasks.len().max(1);
        let groups = self.tasks.iter().zip(advantages.chunks(size.max(1))).zip(&self.is_kept);
        groups.filter(|(_, is_kept)| **is_kept).map(|((task, advantages), _)| {
            (task, advantages.iter().flatten().any(|advantage| advantage.mean() > 0.0))
        })
    }

    /// Everything that was sampled to be trained on: the episodes, then the drafts.
    pub(super) fn played(&self) -> impl Iterator<Item = &Episode> {
        self.episodes.iter().chain(&self.drafts)
    }

    /// The group of number `at` of [`Groups::played`].
    pub(super) fn group_of(&self, at: usize) -> usize {
        at.checked_sub(self.episodes.len()).unwrap_or(at / self.size)
    }

    /// The direction of number `at` of [`Groups::played`]: 1 where its task was turned round.
    pub(super) fn direction_of(&self, at: usize) -> u8 {
        let is_second_half = at < self.episodes.len() && at % self.size >= self.size / 2;
        u8::from(!self.turned.is_empty() && is_second_half)
    }

    /// The tasks that were played: one a group, then each of them turned round, where that was played too.
    pub(super) fn all_tasks(&self) -> Vec<Task> {
        self.tasks.iter().chain(&self.turned).cloned().collect()
    }

    /// Where the task of each episode stands among [`Groups::all_tasks`].
    pub(super) fn task_indices(&self) -> Vec<usize> {
        let place = |at| self.group_of(at) + usize::from(self.direction_of(at)) * self.tasks.len();
        (0..self.episodes.len()).map(place).collect()
    }

    /// Tokens of the greedy answers of cycle checks, where the plan has them.
    pub(super) fn follow_up_tokens(&self) -> Option<usize> {
        self.tally.as_ref().map(Tally::tokens)
    }

    /// Number of groups that are trained on.
    pub(super) fn kept(&self) -> usize {
        self.is_kept.iter().filter(|is_kept| **is_kept).count()
    }

    /// What selection and dynamic sampling did, where they are on.
    pub(super) fn metrics(&self, recipe: &Recipe) -> Values {
        let mut values = self.chosen.metrics();
        values.extend(self.tally.iter().flat_map(Tally::metrics));
        if recipe.rollout.dynamic_sampling.is_on() {
            values.insert("dynamic_sampling/rounds".into(), self.rounds as f64);
            let dropped = self.is_kept.len() - self.kept();
            values.insert("dynamic_sampling/dropped_groups".into(), dropped as f64);
        }
        values
    }

    /// What to say where fewer groups are left than the step asks for.
    pub(super) fn shortfall(&self, recipe: &Recipe) -> Option<String> {
        let rollout = &recipe.rollout;
        let (kept, wanted) = (self.kept(), rollout.tasks_per_step);
        if !rollout.dynamic_sampling.is_on() || kept >= wanted {
            return None;
        }
        let why = if self.rounds < rollout.dynamic_sampling.max_rounds { ": no task is left" } else { "" };
        Some(format!(
            "{kept} of {wanted} groups differ in their rewards after {} rounds of dynamic sampling{why}; the step \
             trains on those",
            self.rounds
        ))
    }
}

/// Do the episodes of a group differ in what dynamic sampling looks at? Never where fewer than two were scored.
fn varies(recipe: &Recipe, group: &[Episode]) -> bool {
    let value = |episode: &Episode| match recipe.rollout.dynamic_sampling.metric {
        FilterMetric::Reward => episode.verdict.total(&recipe.reward.weights),
        FilterMetric::Success => episode.verdict.is_scored().then_some(f64::from(episode.verdict.success)),
    };
    advantage::has_variance(&group.iter().map(value).collect::<Vec<_>>())
}

/// The reward component that punishes overlong answers.
pub(crate) const OVERLONG: &str = "overlong";

/// Gives every scored episode the component, for its longest answer.
///
/// # Errors
/// If the environment has a component of that name.
fn punish_overlong(
    episodes: &mut [Episode],
    buffer: &OverlongBuffer,
    tokens_max: usize,
) -> Result<(), RunError> {
    for episode in episodes.iter_mut().filter(|episode| episode.verdict.is_scored()) {
        let reward = buffer.reward(longest_answer(episode), tokens_max);
        if episode.verdict.rewards.insert(OVERLONG.into(), reward).is_some() {
            return Err(RunError::Refused(format!(
                "reward.overlong_buffer: the environment gives a reward `{OVERLONG}` itself; leave one of them out"
            )));
        }
    }
    Ok(())
}

/// Tokens of the longest answer, its end token included.
fn longest_answer(episode: &Episode) -> usize {
    let nodes = episode.traces.iter().flat_map(|trace| trace.nodes());
    nodes.filter(|node| node.sampled.is_some()).map(|node| node.ids.len()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burnish_core::{Ending, Node, Record, Sampled, Source, StopReason, TaskId, Trace, Verdict};

    fn episode(answers: &[usize], verdict: Verdict) -> Episode {
        let mut trace = Trace::new();
        for tokens in answers {
            let sampled = Sampled {
                model_logprobs: vec![0.0; *tokens],
                sampled_logprobs: None,
                policy_version: 0,
                temperature: 1.0,
                stop: StopReason::EndToken,
            };
            let node = Node {
                parent: trace.head(),
                text: String::new(),
                ids: vec![1; *tokens],
                sources: vec![Source::Policy; *tokens],
                sampled: Some(sampled),
            };
            trace.push(node).unwrap();
        }
        Episode {
            task: TaskId("a".into()),
            rollout: 0,
            traces: vec![trace],
            verdict,
            ending: Ending::Completed,
            answers: Vec::new(),
            partners: Vec::new(),
            record: Record::default(),
        }
    }

    #[test]
    fn the_longest_answer_is_punished_and_an_unscored_episode_stays_unscored() {
        let buffer = OverlongBuffer { length: 4, penalty: 2.0 };
        let scored = || Verdict::scored("right", 1.0, true);
        let mut episodes = [
            episode(&[6, 6], scored()),
            episode(&[3, 8, 2], scored()),
            episode(&[10], Verdict::unscored("hung")),
        ];
        punish_overlong(&mut episodes, &buffer, 10).unwrap();
        let found = episodes.each_ref().map(|episode| episode.verdict.rewards.get(OVERLONG).copied());
        assert_eq!(found, [Some(0.0), Some(-1.0), None]);
        assert_eq!(episodes[1].verdict.total(&Default::default()), Some(0.0));
        let error = punish_overlong(&mut episodes, &buffer, 10).unwrap_err().to_string();
        assert!(error.contains("reward.overlong_buffer"), "{error}");
    }
}
