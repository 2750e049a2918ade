//! The catalogue of everything that a recipe can name, and of the systems that are composed of it: `burnish methods`, and the
//! pages made from both.

mod compare;
mod page;
mod scaffold;
mod systems;
mod systems_page;

use burnish_rl::advantage::AdvantageNeeds;
use burnish_rl::catalogue::{
    ADVANTAGES, DISTILLATIONS, Entry, GATES, OBJECTIVES, PLANS, PREFERENCES, SELECTORS,
};
use burnish_rl::{Card, Family, Needs};
use serde::Serialize;
use serde_json::Value;

pub use page::{compared, objectives};
pub use scaffold::{Scaffold, ScaffoldError};
pub use systems::{Evidence, PartRef, SYSTEMS, Status, System};
pub use systems_page::systems;

/// Something that a recipe can name.
#[derive(Debug, Serialize)]
pub struct Method {
    /// What is known about it.
    #[serde(flatten)]
    pub card: Card,
    /// What it has to be given beside log-probs and rewards.
    pub needs: Vec<&'static str>,
    /// `runs`: a recipe that names it can be run.
    pub status: &'static str,
    /// What chooses it in a recipe.
    pub recipe: String,
    /// Its settings with their defaults.
    pub defaults: Value,
}

/// Everything, family by family in the order of the catalogue.
pub fn all() -> Vec<Method> {
    let advantages = ADVANTAGES.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        method(entry, advantage_needs(needs), "advantage.estimator")
    });
    let objectives = OBJECTIVES.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        method(entry, objective_needs(needs), "loss.objective")
    });
    let preferences = PREFERENCES.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        method(entry, objective_needs(needs), "loss.objective")
    });
    let distillations = DISTILLATIONS.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        method(entry, objective_needs(needs), "loss.objective")
    });
    let selectors = SELECTORS.iter().map(|entry| method(entry, Vec::new(), "selection.selector"));
    let plans = PLANS.iter().map(|entry| method(entry, Vec::new(), "plan.plan"));
    let gates = GATES.iter().map(|entry| method(entry, Vec::new(), "gate.gate"));
    let losses = objectives.chain(preferences).chain(distillations);
    advantages.chain(losses).chain(selectors).chain(plans).chain(gates).collect()
}

fn method<T: ?Sized>(entry: &Entry<T>, needs: Vec<&'static str>, key: &str) -> Method {
    Method {
        card: entry.card,
        needs,
        status: "runs",
        recipe: format!("{key} = \"{}\"", entry.card.id),
        defaults: (entry.complete)(&Value::Null).unwrap_or_default(),
    }
}

fn advantage_needs(needs: AdvantageNeeds) -> Vec<&'static str> {
    named(&[
        (needs.components, "the components of rewards"),
        (needs.steps, "turns"),
        (needs.greedy_reward, "the reward of a greedy answer to each task"),
        (needs.wins, "a judge of pairs"),
        (needs.token_statistics, "the squared probabilities of each token's distribution"),
        (needs.values, "a critic"),
        (needs.tasks, "the task's name, and how far the policy has moved on it"),
        (needs.continuations.is_some(), "answers that go on from within each answer"),
    ])
}

fn objective_needs(needs: Needs) -> Vec<&'static str> {
    named(&[
        (needs.reference, "a reference"),
        (needs.teacher || needs.head.is_some(), "a teacher"),
        (needs.marks, "a look at the whole batch first"),
        (needs.groups && !needs.pairs, "whole groups"),
        (needs.pairs, "pairs of a better and a worse answer"),
    ])
}

fn named(needs: &[(bool, &'static str)]) -> Vec<&'static str> {
    needs.iter().filter(|(is_needed, _)| *is_needed).map(|(_, name)| *name).collect()
}

/// The catalogue as JSON: `parts`, and `systems` with what their parts need.
///
/// # Errors
/// If a card can't be written as JSON.
pub fn json() -> Result<Value, serde_json::Error> {
    let parts = all();
    let systems = SYSTEMS.iter().map(|system| {
        let mut card = serde_json::to_value(system)?;
        card["needs"] = system.needs(&parts).into();
        card["file"] = system.file().into();
        Ok(card)
    });
    let systems = systems.collect::<Result<Vec<Value>, serde_json::Error>>()?;
    Ok(serde_json::json!({ "parts": parts, "systems": systems }))
}

/// What a member of a family is called, for people.
pub fn member(family: Family) -> &'static str {
    match family {
        Family::Advantage => "advantage",
        Family::Objective => "objective",
        Family::Preference => "preference objective",
        Family::Distillation => "distillation",
        Family::Selector => "selector",
        Family::Gate => "gate",
        Family::Plan => "plan",
    }
}

/// The name of a family, for people.
pub fn family(family: Family) -> &'static str {
    match family {
        Family::Advantage => "Advantages",
        Family::Objective => "Objectives on rollouts",
        Family::Preference => "Preference objectives",
        Family::Distillation => "Distillation",
        Family::Selector => "Selection of tasks",
        Family::Gate => "Gates of updates",
        Family::Plan => "Plans of rollouts",
    }
}
