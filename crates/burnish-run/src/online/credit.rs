//! Turns the rewards of a step into the advantages of its members.

use std::ops::Range;

use burnish_core::Episode;
use burnish_rl::advantage::{Advantage, Estimator, Phase, Rollout, Rollouts};

use super::groups::{Group, Groups, Member};
use crate::RunError;
use burnish_recipe::Recipe;

/// The members of the trained groups, as an estimator sees them.
pub(super) struct EstimatorInput {
    all: Vec<Rollout>,
    groups: Vec<Range<usize>>,
}

impl EstimatorInput {
    pub(super) fn of(groups: &Groups) -> Self {
        let mut compared = EstimatorInput { all: Vec::new(), groups: Vec::new() };
        for group in groups.kept() {
            let start = compared.all.len();
            compared.all.extend(group.members.iter().map(|member| rollout(group, member)));
            compared.groups.push(start..compared.all.len());
        }
        compared
    }

    pub(super) fn rollouts(&self) -> Rollouts<'_> {
        Rollouts { all: &self.all, groups: &self.groups }
    }

    /// Its rollouts, in the order of the members.
    pub(super) fn each(&self) -> impl Iterator<Item = &Rollout> {
        self.all.iter()
    }
}

fn rollout(group: &Group, member: &Member) -> Rollout {
    let nodes = member.episode.traces.iter().flat_map(|trace| trace.nodes());
    let turns: Vec<usize> = nodes.filter(|node| node.sampled.is_some()).map(|node| node.ids.len()).collect();
    Rollout {
        reward: member.reward.filter(|_| member.phase() == Phase::Downstream),
        phase: member.phase(),
        task: group.task.id.0.clone(),
        facts: member.facts.clone(),
        ..Rollout::default().with_turns(&turns)
    }
}

/// Gives every member its advantage; none if it has no reward, or its group is not trained on.
///
/// # Errors
/// If the estimator distinguishes turns or tokens, and an episode has several branches.
pub(super) fn credit(
    recipe: &Recipe,
    estimator: &dyn Estimator,
    groups: &mut Groups,
    compared: &EstimatorInput,
) -> Result<(), RunError> {
    let credit = estimator.advantages(&compared.rollouts());
    let members = groups.kept_mut().flat_map(|group| &mut group.members);
    for (member, advantage) in members.zip(credit) {
        if !matches!(advantage, None | Some(Advantage::Whole(_))) {
            refuse_branches(recipe, &member.episode)?;
        }
        member.advantage = advantage;
    }
    Ok(())
}

/// Turns and tokens of an episode are distinguished along its only branch.
///
/// # Errors
/// If it has several branches.
pub(super) fn refuse_branches(recipe: &Recipe, episode: &Episode) -> Result<(), RunError> {
    let branches: usize = episode.traces.iter().map(|trace| trace.branches().len()).sum();
    if branches <= 1 {
        return Ok(());
    }
    Err(RunError::Refused(format!(
        "advantage.estimator, loss.objective: `{}` or `{}` tells the turns or tokens of an episode apart, and an episode of \
         task {} has {branches} branches; take an estimator that gives an episode one advantage, and an objective that \
         asks for no facts about tokens",
        recipe.advantage.estimator, recipe.loss.objective, episode.task.0
    )))
}
