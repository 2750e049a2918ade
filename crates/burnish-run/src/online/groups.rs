//! The groups of a step. A group is a task with all its episodes that are learnt from.

use std::collections::BTreeSet;
use std::sync::Arc;

use burnish_core::{Episode, Policy, Task};
use burnish_env::Generator;
use burnish_env::rollout::{self, Opened};
use burnish_model::Chat;
use burnish_rl::advantage::{self, Advantage, Phase};
use burnish_rl::fact::Facts;
use burnish_rl::plan::{Outcome, Role, RolloutPlan};

use super::samples::OwnSample;
use super::scene::{Played, Scene, tokens_aside, turned};
use super::selection::{Chosen, Selection};
use super::{latent, overlong};
use crate::RunError;
use crate::seeds::Draws;
use crate::tasks::Tasks;
use burnish_recipe::{FilterMetric, Recipe};
use burnish_rundir::metrics::Values;

/// Everything that was sampled in a step, over all rounds.
#[derive(Default)]
pub(super) struct Groups {
    pub(super) all: Vec<Group>,
    /// The plan's counts.
    tally: Vec<(String, f64)>,
    /// Tokens sampled in episodes that are no members.
    tokens_aside: usize,
    rounds: usize,
    chosen: Chosen,
}

/// A task, and its episodes.
pub(super) struct Group {
    pub(super) task: Task,
    /// The reversed task, if some members play it.
    pub(super) turned: Option<Arc<Task>>,
    /// Whether it is trained on.
    pub(super) is_kept: bool,
    /// First the members that earn a reward, then those that get their credit from later ones.
    pub(super) members: Vec<Member>,
}

/// An episode that is compared with others of its group.
pub(super) struct Member {
    pub(super) role: Role,
    pub(super) episode: Arc<Episode>,
    /// Its reward; `None` if it was not scored, or earns nothing itself.
    pub(super) reward: Option<f64>,
    /// Other facts about it that parts need.
    pub(super) facts: Facts,
    /// `None` if it has no reward, or its group is not trained on.
    pub(super) advantage: Option<Advantage>,
    /// What its advantage is multiplied by in the loss.
    pub(super) weight: f64,
    /// Its branches, if it is learnt from.
    pub(super) samples: Vec<OwnSample>,
}

impl Member {
    /// The part of an answer that it is.
    pub(super) fn phase(&self) -> Phase {
        self.role.phase()
    }

    /// The direction of the group's task that it plays: 1 if reversed.
    pub(super) fn direction(&self) -> u8 {
        u8::from(self.role == Role::Turned)
    }
}

impl Group {
    fn of(task: Task, played: Played, is_kept: bool) -> Self {
        let turned = turned(&played);
        let members = played.into_iter().filter(|spawned| spawned.role.is_member());
        let mut members: Vec<Member> = members
            .map(|spawned| Member {
                role: spawned.role,
                episode: spawned.episode,
                reward: None,
                facts: Facts::default(),
                advantage: None,
                weight: spawned.weight,
                samples: Vec::new(),
            })
            .collect();
        members.sort_by_key(|member| member.phase() == Phase::Upstream);
        Group { task, turned, is_kept, members }
    }

    /// The members that earn a reward.
    pub(super) fn downstream(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.phase() == Phase::Downstream)
    }

    /// The task that a member plays.
    pub(super) fn task_of(&self, member: &Member) -> &Task {
        self.turned.as_deref().filter(|_| member.direction() == 1).unwrap_or(&self.task)
    }
}

impl Groups {
    /// Groups that were sampled elsewhere.
    #[cfg(test)]
    pub(super) fn of(all: Vec<Group>) -> Self {
        Groups { all, ..Groups::default() }
    }

    /// Samples the groups of step number `step` as `plan` requests: once, or with dynamic sampling until enough of
    /// them vary. `selection` chooses their tasks, and learns from every round.
    ///
    /// # Errors
    /// If the policy fails, a prompt does not fit, or the environment lacks something that the plan needs.
    pub(super) fn sample(
        recipe: &Recipe,
        tasks: &Tasks,
        selection: &mut Selection,
        plan: &dyn RolloutPlan,
        policy: &mut dyn Policy,
        chat: &Chat,
        step: u64,
    ) -> Result<Self, RunError> {
        policy.abilities().check_trainable().map_err(|error| RunError::Refused(error.to_string()))?;
        let (rollout, dynamic) = (&recipe.rollout, &recipe.rollout.dynamic_sampling);
        let mut groups = Groups::default();
        // The plan counts over all rounds.
        let mut rounds: Vec<(Vec<Task>, Vec<Played>)> = Vec::new();
        let mut used = BTreeSet::new();
        let generator = tasks.generator()?;
        let scene = |task_offset: usize| Scene {
            generator,
            others: &tasks.others,
            turns_max: rollout.turns_max,
            overlong: rollout.overlong,
            sampling: recipe.rollout_sampling(),
            rollouts: rollout.group_size,
            chat: Some(chat),
            // Later rounds get places after the earlier ones, so they share no random numbers.
            seeds: Draws::Training.place(recipe.run.seed, step, task_offset as u64),
            progress: step as f64 / recipe.train.max_steps as f64,
            program: None,
        };
        let (mut kept, mut offset) = (0, 0);
        while groups.rounds < dynamic.max_rounds.max(1)
            && (groups.rounds == 0 || kept < rollout.tasks_per_step)
        {
            let (missing, place) = (rollout.tasks_per_step - kept, (step, groups.rounds as u64));
            let batch = selection.choose(recipe, tasks, place, missing, &mut used, &mut groups.chosen);
            if batch.is_empty() {
                break;
            }
            let mut played = scene(offset).play(policy, plan, &batch)?;
            if recipe.reward.overlong_buffer.is_on() {
                let members = played.iter_mut().flatten();
                let mut members = members.filter(|spawned| spawned.role.is_member());
                let (buffer, tokens_max) = (&recipe.reward.overlong_buffer, rollout.tokens_max);
                members.try_for_each(|own| {
                    overlong::punish(Arc::make_mut(&mut own.episode), buffer, tokens_max)
                })?;
            }
            if recipe.latent.is_some() {
                let members = played.iter_mut().flatten();
                let mut members = members.filter(|spawned| spawned.role.is_member());
                members.try_for_each(|own| {
                    latent::reward(Arc::make_mut(&mut own.episode), recipe, &chat.tokenizer)
                })?;
            }
            for (task, own) in batch.iter().zip(&played) {
                let scored = || sampled(own).filter(|episode| episode.verdict.is_scored());
                let successes = scored().filter(|episode| episode.verdict.success).count();
                selection.observe(task, scored().count(), successes);
                kept += usize::from(!dynamic.is_on() || varies(recipe, downstream(own)));
            }
            offset += batch.len();
            rounds.push((batch, played));
            groups.rounds += 1;
        }
        let seen = rounds.iter().flat_map(|(_, played)| played);
        groups.tally = plan.tally(&seen.map(|own| &own[..]).collect::<Vec<_>>());
        for (task, own) in rounds.into_iter().flat_map(|(batch, played)| batch.into_iter().zip(played)) {
            groups.tokens_aside += tokens_aside(&own);
            let is_kept = !dynamic.is_on() || varies(recipe, downstream(&own));
            groups.all.push(Group::of(task, own, is_kept));
        }
        Ok(groups)
    }

    /// The groups that are trained on.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Group> {
        self.all.iter().filter(|group| group.is_kept)
    }

    /// As [`Groups::kept`], mutable.
    pub(super) fn kept_mut(&mut self) -> impl Iterator<Item = &mut Group> {
        self.all.iter_mut().filter(|group| group.is_kept)
    }

    /// The members that earn a reward, group by group.
    pub(super) fn downstream(&self) -> impl Iterator<Item = &Member> {
        self.all.iter().flat_map(Group::downstream)
    }

    /// Number of members per group that earn a reward.
    pub(super) fn size(&self) -> usize {
        self.all.first().map_or(0, |group| group.downstream().count())
    }

    /// Gives every member that earns a reward its reward.
    pub(super) fn reward(&mut self, recipe: &Recipe) {
        for member in self.all.iter_mut().flat_map(|group| &mut group.members) {
            let earns = member.phase() == Phase::Downstream;
            member.reward = member.episode.verdict.total(&recipe.reward.weights).filter(|_| earns);
        }
    }

    /// The rewards of [`Groups::downstream`].
    pub(super) fn rewards(&self) -> Vec<Option<f64>> {
        self.downstream().map(|member| member.reward).collect()
    }

    /// Replaces these rewards.
    pub(super) fn set_rewards(&mut self, rewards: &[Option<f64>]) {
        let members = self.all.iter_mut().flat_map(|group| &mut group.members);
        let members = members.filter(|member| member.phase() == Phase::Downstream);
        members.zip(rewards).for_each(|(member, reward)| member.reward = *reward);
    }

    /// The environment's opening of the episodes of group number `group` in step number `step`.
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
        let seeds = Draws::Training.place(recipe.run.seed, step, 0);
        Ok(rollout::opened(generator, &self.all[group].task, seeds.address(group))?)
    }

    /// The results of the trained groups, for the plan.
    pub(super) fn outcomes(&self) -> Vec<Outcome<'_>> {
        let is_positive = |group: &Group| {
            let mut advantages = group.downstream().filter_map(|member| member.advantage.as_ref());
            advantages.any(|advantage| advantage.mean() > 0.0)
        };
        self.kept()
            .map(|group| Outcome { labels: &group.task.labels, is_positive: is_positive(group) })
            .collect()
    }

    /// Tokens sampled outside the members that earn a reward.
    pub(super) fn tokens_beside(&self) -> usize {
        let members = self.all.iter().flat_map(|group| &group.members);
        let upstream = members.filter(|member| member.phase() == Phase::Upstream);
        self.tokens_aside + upstream.map(|member| member.episode.sampled_tokens()).sum::<usize>()
    }

    /// Metrics of selection, the plan and dynamic sampling, if they are on.
    pub(super) fn metrics(&self, recipe: &Recipe) -> Values {
        let mut values = self.chosen.metrics();
        values.extend(self.tally.iter().cloned());
        if recipe.rollout.dynamic_sampling.is_on() {
            values.insert("dynamic_sampling/rounds".into(), self.rounds as f64);
            let dropped = self.all.len() - self.kept().count();
            values.insert("dynamic_sampling/dropped_groups".into(), dropped as f64);
        }
        values
    }

    /// What to tell a person if fewer groups are left than the step asks for.
    pub(super) fn shortfall(&self, recipe: &Recipe) -> Option<String> {
        let rollout = &recipe.rollout;
        let (kept, wanted) = (self.kept().count(), rollout.tasks_per_step);
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

/// The episodes of the policy that earn a reward.
fn sampled(own: &Played) -> impl Iterator<Item = &Episode> {
    let own = own.iter().filter(|own| own.role.is_member() && own.role != Role::Expert);
    own.filter(|own| own.role.phase() == Phase::Downstream).map(|own| &*own.episode)
}

/// The episodes that earn a reward.
fn downstream(own: &Played) -> impl Iterator<Item = &Episode> {
    let members = own.iter().filter(|own| own.role.is_member());
    members.filter(|own| own.role.phase() == Phase::Downstream).map(|own| &*own.episode)
}

/// Whether the episodes of a group differ in what dynamic sampling looks at. They don't if fewer than two were
/// scored.
fn varies<'a>(recipe: &Recipe, group: impl Iterator<Item = &'a Episode>) -> bool {
    let value = |episode: &Episode| match recipe.rollout.dynamic_sampling.metric {
        FilterMetric::Reward => episode.verdict.total(&recipe.reward.weights),
        FilterMetric::Success => episode.verdict.is_scored().then_some(f64::from(episode.verdict.success)),
    };
    advantage::has_variance(&group.map(value).collect::<Vec<_>>())
}
