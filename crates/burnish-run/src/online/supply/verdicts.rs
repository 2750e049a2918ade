//! Facts that verdicts and traces contain: reward components, rewards of turns, and the states in which turns were
//! taken.

use std::collections::BTreeMap;

use burnish_core::names::nearest;
use burnish_core::rng::fold_bytes;
use burnish_core::{Episode, Node, Trace};
use burnish_rl::fact::{COMPONENTS, Need, TURN_REWARDS};
use serde_json::{Value, json};

use super::{Groups, Kind, Made, Making, Provider, Step};
use crate::RunError;
use crate::online::part;
use burnish_recipe::Recipe;
use burnish_recipe::supply::OF_VERDICTS;
use burnish_rundir::metrics::Values;

pub(super) const KIND: Kind = Kind { supply: &OF_VERDICTS, make };

fn make(making: &Making<'_>) -> Result<Made, RunError> {
    Ok(Some(Box::new(Verdicts { names: part(&making.state["components"])? })))
}

/// Reads verdicts and traces.
struct Verdicts {
    /// The reward components seen so far. Their order never changes during a run, because what an estimator has
    /// learnt refers to positions in it.
    names: Vec<String>,
}

impl Provider for Verdicts {
    fn supply(&mut self, needs: &[&Need], step: Step<'_>, groups: &mut Groups) -> Result<Values, RunError> {
        let mut states = BTreeMap::new();
        for member in groups.kept_mut().flat_map(|group| &mut group.members) {
            for need in needs {
                let numbers = match need.fact {
                    fact if *fact == COMPONENTS => components(step.recipe, &self.names, &member.episode),
                    fact if *fact == TURN_REWARDS => {
                        let turns = turns(&member.episode).count();
                        match member.reward {
                            Some(reward) => {
                                member.episode.verdict.by_turn(&step.recipe.reward.weights, turns, reward)
                            }
                            None => vec![0.0; turns],
                        }
                    }
                    _ => turns(&member.episode).map(|said| number_of(&mut states, said)).collect(),
                };
                member.facts.set(need.fact, numbers);
            }
        }
        Ok(Values::new())
    }

    fn see(&mut self, recipe: &Recipe, groups: &Groups) -> Result<(), RunError> {
        let episodes = groups.downstream().map(|member| &*member.episode);
        let found: std::collections::BTreeSet<&String> =
            episodes.flat_map(|episode| episode.verdict.rewards.keys()).collect();
        let new: Vec<String> = found.into_iter().filter(|name| !self.names.contains(name)).cloned().collect();
        self.names.extend(new);
        check_weights(recipe, &self.names)
    }

    fn state(&self) -> Option<(&'static str, Value)> {
        Some(("components", json!(self.names)))
    }
}

/// The weighted components of a reward. A component that is not a number is left out of comparisons.
fn components(recipe: &Recipe, names: &[String], episode: &Episode) -> Vec<f64> {
    let weighted = |name: &String| {
        let weight = recipe.reward.weights.get(name).copied().unwrap_or(1.0);
        weight * episode.verdict.rewards.get(name).copied().unwrap_or(f64::NAN)
    };
    names.iter().map(weighted).collect()
}

/// The turns of an episode, each identified by what was said to the policy just before. Two turns with the same
/// identity are in the same state.
fn turns(episode: &Episode) -> impl Iterator<Item = u64> {
    let said = |node: &Node| fold_bytes(0, node.text.as_bytes());
    let before =
        move |trace: &Trace, node: &Node| node.parent.map_or(0, |parent| said(&trace.nodes()[parent.0]));
    episode.traces.iter().flat_map(move |trace| {
        let sampled = trace.nodes().iter().filter(|node| node.sampled.is_some());
        sampled.map(move |node| before(trace, node))
    })
}

/// A small number for each state, because a fact can't hold all bits of a digest.
fn number_of(states: &mut BTreeMap<u64, f64>, said: u64) -> f64 {
    let next = states.len() as f64;
    *states.entry(said).or_insert(next)
}

/// Refuses a weight for a component that no reward has had so far, once any reward had components. If the environment
/// knows its components, the recipe was checked before; an external judge may name its own.
///
/// # Errors
/// Names the existing components, and suggests the nearest.
fn check_weights(recipe: &Recipe, names: &[String]) -> Result<(), RunError> {
    // The environment of an extra evaluation may have other components.
    if names.is_empty() || recipe.eval.extra.iter().any(|also| also.env.is_some()) {
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
