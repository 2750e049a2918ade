//! From the rewards of a step to the advantage of every episode.

use std::collections::BTreeSet;

use burnish_core::rng::fold_bytes;
use burnish_core::{Episode, Node, Trace};
use burnish_rl::advantage::{Advantage, AdvantageNeeds, Estimator, Rollout, Rollouts, Step};

use super::batch::Batch;
use super::critic::Estimates;
use super::groups::Groups;
use crate::RunError;
use crate::recipe::Recipe;

/// What the estimator is told about every episode; none of those whose group is left out.
///
/// # Errors
/// If it asks for tokens, and an episode has several branches.
pub(super) fn rollouts(
    recipe: &Recipe,
    needs: AdvantageNeeds,
    groups: &Groups,
    rewards: &[Option<f64>],
    batch: &Batch,
    estimates: Option<&Estimates>,
) -> Result<Vec<Option<Rollout>>, RunError> {
    let group_size = recipe.rollout.group_size;
    let names = component_names(&groups.episodes);
    let mut rollouts: Vec<Option<Rollout>> = groups
        .episodes
        .iter()
        .zip(rewards)
        .enumerate()
        .map(|(at, (episode, reward))| {
            groups.is_kept[at / group_size].then(|| rollout(recipe, needs, &names, episode, *reward))
        })
        .collect();
    for (at, sample) in batch.samples.iter().enumerate().filter(|_| estimates.is_some()) {
        refuse_branches(recipe, &groups.episodes[batch.episode(at)])?;
        if let (Some(rollout), Some(estimates)) = (&mut rollouts[batch.episode(at)], estimates) {
            (rollout.token_statistics, rollout.bootstrap) = estimates.of(at, sample);
        }
    }
    Ok(rollouts)
}

/// Advantage of every episode; none where it has no reward, or its group is left out.
///
/// # Errors
/// If the estimator tells turns or tokens apart, and an episode has several branches.
pub(super) fn advantages(
    recipe: &Recipe,
    estimator: &dyn Estimator,
    groups: &Groups,
    rollouts: &[Option<Rollout>],
) -> Result<Vec<Option<Advantage>>, RunError> {
    let group_size = recipe.rollout.group_size;
    let kept: Vec<usize> = (0..rollouts.len()).filter(|at| rollouts[*at].is_some()).collect();
    let all: Vec<Rollout> = rollouts.iter().flatten().cloned().collect();
    let whole: Vec<_> =
        (0..kept.len() / group_size).map(|group| group * group_size..(group + 1) * group_size).collect();
    let credit = estimator.advantages(&Rollouts { all: &all, groups: &whole });
    let mut advantages = vec![None; rollouts.len()];
    for (at, advantage) in kept.into_iter().zip(credit) {
        if !matches!(advantage, None | Some(Advantage::Whole(_))) {
            refuse_branches(recipe, &groups.episodes[at])?;
        }
        advantages[at] = advantage;
    }
    Ok(advantages)
}

/// Turns and tokens of an episode are told apart along its only branch.
fn refuse_branches(recipe: &Recipe, episode: &Episode) -> Result<(), RunError> {
    let branches: usize = episode.traces.iter().map(|trace| trace.branches().len()).sum();
    if branches <= 1 {
        return Ok(());
    }
    Err(RunError::Refused(format!(
        "advantage.estimator: `{}` tells the turns or tokens of an episode apart, and an episode of task {} has \
         {branches} branches; take an estimator that gives an episode one advantage",
        recipe.advantage.estimator, episode.task.0
    )))
}

/// What a run can tell an estimator, values if it has a critic. What it can't is refused before it starts.
pub(crate) const SUPPLIED: AdvantageNeeds = AdvantageNeeds {
    components: true,
    steps: true,
    greedy_reward: true,
    wins: false,
    token_statistics: false,
    values: true,
};

/// The reward components of a step, in an order that all episodes share.
fn component_names(episodes: &[Episode]) -> BTreeSet<&str> {
    episodes.iter().flat_map(|episode| episode.verdict.rewards.keys().map(String::as_str)).collect()
}

fn rollout(
    recipe: &Recipe,
    needs: AdvantageNeeds,
    names: &BTreeSet<&str>,
    episode: &Episode,
    reward: Option<f64>,
) -> Rollout {
    let mut rollout = Rollout { tokens: episode.sampled_tokens(), ..Rollout::of_reward(reward) };
    if needs.components {
        let weighted = |name: &&str| {
            let weight = recipe.reward.weights.get(*name).copied().unwrap_or(1.0);
            // One that is not a number is left out of what it is compared with.
            weight * episode.verdict.rewards.get(*name).copied().unwrap_or(f64::NAN)
        };
        rollout.components = names.iter().map(weighted).collect();
    }
    if needs.steps {
        rollout.steps = episode.traces.iter().flat_map(steps).collect();
        // An environment judges the whole episode: its last turn earns the reward.
        if let (Some(last), Some(reward)) = (rollout.steps.last_mut(), reward) {
            last.reward = reward;
        }
    }
    rollout
}

/// The turns of a trace. Two stand in the same state where the same was said to the policy just before.
fn steps(trace: &Trace) -> Vec<Step> {
    let said = |node: &Node| fold_bytes(0, node.text.as_bytes());
    let before = |node: &Node| node.parent.map_or(0, |parent| said(&trace.nodes()[parent.0]));
    let sampled = trace.nodes().iter().filter(|node| node.sampled.is_some());
    sampled.map(|node| Step { reward: 0.0, state: before(node), tokens: node.ids.len() }).collect()
}
