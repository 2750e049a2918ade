//! From the rewards of a step to the advantage of every episode.

use std::collections::BTreeSet;
use std::ops::Range;

use burnish_core::names::nearest;
use burnish_core::rng::fold_bytes;
use burnish_core::{Episode, Node, Trace};
use burnish_model::Model;
use burnish_rl::advantage::{
    Advantage, AdvantageNeeds, Estimator, Phase, Rollout, Rollouts, Step, TokenStatistics,
};
use burnish_train::score_squares;

use super::batch::Batch;
use super::critic::Estimates;
use super::groups::Groups;
use crate::RunError;
use crate::recipe::Recipe;

/// What the estimator is told about everything that was played ([`Groups::played`]); nothing of those whose group is left
/// out.
///
/// # Errors
/// If it asks for tokens, and an episode has several branches.
pub(super) fn rollouts(
    recipe: &Recipe,
    needs: AdvantageNeeds,
    names: &[String],
    groups: &Groups,
    rewards: &[Option<f64>],
    batch: &Batch,
    estimates: Option<&Estimates>,
) -> Result<Vec<Option<Rollout>>, RunError> {
    let told = |(at, episode): (usize, &Episode)| {
        let group = groups.group_of(at);
        groups.is_kept[group].then(|| {
            let reward = rewards.get(at).copied().flatten();
            let phase = if at < groups.episodes.len() { Phase::Downstream } else { Phase::Upstream };
            let task = if needs.tasks { groups.tasks[group].id.0.clone() } else { String::new() };
            Rollout { phase, task, ..rollout(recipe, needs, names, episode, reward) }
        })
    };
    let mut rollouts: Vec<Option<Rollout>> = groups.played().enumerate().map(told).collect();
    for (at, sample) in batch.samples.iter().enumerate().filter(|_| estimates.is_some()) {
        refuse_branches(recipe, groups.played().nth(batch.episode(at)))?;
        if let (Some(rollout), Some(estimates)) = (&mut rollouts[batch.episode(at)], estimates) {
            (rollout.token_statistics, rollout.bootstrap) = estimates.of(at, sample);
        }
    }
    Ok(rollouts)
}

/// Tells every rollout how likely its tokens were: their log-probs at the start of the update, and how concentrated the
/// distributions were, under `model`, which those log-probs are of.
///
/// # Errors
/// If a sample does not fit the model, or an episode has several branches.
pub(super) fn tell_statistics(
    rollouts: &mut [Option<Rollout>],
    recipe: &Recipe,
    model: &Model,
    groups: &Groups,
    batch: &Batch,
) -> Result<(), RunError> {
    let squares = score_squares(model, &batch.samples, recipe.train.micro_batch_tokens)?;
    for (at, (sample, squares)) in batch.samples.iter().zip(squares).enumerate() {
        let place = batch.episode(at);
        refuse_branches(recipe, groups.played().nth(place))?;
        let of_token = |(token, squares): (usize, f32)| TokenStatistics {
            logprob: f64::from(sample.old(token)),
            squares: f64::from(squares),
            value: 0.0,
        };
        if let Some(rollout) = &mut rollouts[place] {
            rollout.token_statistics = sample.scored().zip(squares).map(of_token).collect();
        }
    }
    Ok(())
}

/// Tells every rollout what is known of its group.
pub(super) fn tell<T: Copy>(
    rollouts: &mut [Option<Rollout>],
    groups: &Groups,
    known: &[T],
    tell: impl Fn(&mut Rollout, T),
) {
    for (at, rollout) in rollouts.iter_mut().enumerate() {
        if let Some(rollout) = rollout {
            tell(rollout, known[groups.group_of(at)]);
        }
    }
}

/// Rollouts as an estimator sees them: those of the groups that are trained on, group by group, a draft behind the
/// answers that follow it.
pub(super) struct Compared {
    all: Vec<Rollout>,
    groups: Vec<Range<usize>>,
    /// Where each of them stands among all that was played.
    places: Vec<usize>,
}

impl Compared {
    pub(super) fn of(groups: &Groups, rollouts: &[Option<Rollout>]) -> Self {
        let (size, episodes) = (groups.size, groups.episodes.len());
        let mut compared = Compared { all: Vec::new(), groups: Vec::new(), places: Vec::new() };
        for group in (0..groups.tasks.len()).filter(|group| groups.is_kept[*group]) {
            let start = compared.all.len();
            let draft = groups.drafts.get(group).map(|_| episodes + group);
            for place in (group * size..(group + 1) * size).chain(draft) {
                compared.all.extend(rollouts[place].clone());
                compared.places.push(place);
            }
            compared.groups.push(start..compared.all.len());
        }
        compared
    }

    pub(super) fn rollouts(&self) -> Rollouts<'_> {
        Rollouts { all: &self.all, groups: &self.groups }
    }
}

/// Advantage of everything that was played; none where it has no reward, or its group is left out.
///
/// # Errors
/// If the estimator tells turns or tokens apart, and an episode has several branches.
pub(super) fn advantages(
    recipe: &Recipe,
    estimator: &dyn Estimator,
    groups: &Groups,
    compared: &Compared,
) -> Result<Vec<Option<Advantage>>, RunError> {
    let credit = estimator.advantages(&compared.rollouts());
    let mut advantages = vec![None; groups.played().count()];
    for (&at, advantage) in compared.places.iter().zip(credit) {
        if !matches!(advantage, None | Some(Advantage::Whole(_))) {
            refuse_branches(recipe, groups.played().nth(at))?;
        }
        advantages[at] = advantage;
    }
    Ok(advantages)
}

/// Turns and tokens of an episode are told apart along its only branch.
fn refuse_branches(recipe: &Recipe, episode: Option<&Episode>) -> Result<(), RunError> {
    let Some(episode) = episode else { return Ok(()) };
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

/// Adds the reward components of a step that are new to `names`, whose order stays what it is for the whole run: what an
/// estimator has learned is about places in it.
pub(super) fn name_components(names: &mut Vec<String>, episodes: &[Episode]) {
    let found: BTreeSet<&String> =
        episodes.iter().flat_map(|episode| episode.verdict.rewards.keys()).collect();
    names.extend(found.into_iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>());
}

/// Refuses a weight that is of none of the components that rewards had so far, once any had one. Where an environment
/// knows its components, the recipe was refused before; what judges may name its own.
///
/// # Errors
/// Names the components that there are, and the nearest.
pub(super) fn check_weights(recipe: &Recipe, names: &[String]) -> Result<(), RunError> {
    // An evaluation elsewhere may have other components.
    if names.is_empty() || recipe.eval.also.iter().any(|also| also.env.is_some()) {
        return Ok(());
    }
    let Some(unknown) = recipe.reward.weights.keys().find(|name| !names.contains(name)) else {
        return Ok(());
    };
    let meant = nearest(unknown, names.iter().map(String::as_str));
    let meant = meant.map(|name| format!(" (did you mean `reward.weights.{name}`?)")).unwrap_or_default();
    Err(RunError::Refused(format!(
        "`reward.weights.{unknown}` weighs a component that no reward has had; they have: {}{meant}. Where only some answers \
         have it, let the others have it too, as 0",
        names.join(", ")
    )))
}

fn rollout(
    recipe: &Recipe,
    needs: AdvantageNeeds,
    names: &[String],
    episode: &Episode,
    reward: Option<f64>,
) -> Rollout {
    let mut rollout = Rollout { tokens: episode.sampled_tokens(), ..Rollout::of_reward(reward) };
    if needs.components {
        let weighted = |name: &String| {
            let weight = recipe.reward.weights.get(name).copied().unwrap_or(1.0);
            // One that is not a number is left out of what it is compared with.
            weight * episode.verdict.rewards.get(name).copied().unwrap_or(f64::NAN)
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
