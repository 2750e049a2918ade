//! The catalogue of all parts that a recipe can name, and of the published systems composed of them: what
//! `burnish methods` prints, and the pages that are generated from it.

mod compare;
mod page;
mod preset;
mod scaffold;
mod systems;
mod systems_page;

use burnish_core::names;
use burnish_rl::catalogue;
use burnish_rl::catalogue::{
    ADVANTAGES, DISTILLATIONS, Entry, GATES, OBJECTIVES, PREFERENCES, REPLAYS, REWARD_MODELS, SELECTORS,
};
use burnish_rl::fact::Need;
use burnish_rl::{Card, Family, Needs};
use burnish_systems::{MAKERS, PLANS};
use serde::Serialize;
use serde_json::Value;

pub use burnish_rl::presets::PRESETS;
pub use burnish_systems::{Evidence, PartRef, SYSTEMS, Status, System};
pub use page::{compared, objectives};
pub use preset::preset;
pub use scaffold::{Scaffold, ScaffoldError};
pub use systems::{composition, needs, parts_of};
pub use systems_page::systems;

/// A part that a recipe can name.
#[derive(Debug, Serialize)]
pub struct Component {
    /// Its card.
    #[serde(flatten)]
    pub card: Card,
    /// What it needs besides log-probs and rewards.
    pub needs: Vec<&'static str>,
    /// Always `runs`: a recipe that names it can be run.
    pub status: &'static str,
    /// The line of a recipe that chooses it.
    pub recipe: String,
    /// Its settings with their defaults.
    pub defaults: Value,
}

/// All parts, family by family, in the order of the catalogue.
pub fn all() -> Vec<Component> {
    let advantages = ADVANTAGES.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        component(entry, facts(&needs), "advantage.estimator")
    });
    let objectives = OBJECTIVES.iter().chain(burnish_systems::OBJECTIVES).map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        component(entry, objective_needs(needs), "loss.objective")
    });
    let preferences = PREFERENCES.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        component(entry, objective_needs(needs), "loss.objective")
    });
    let reward_models = REWARD_MODELS.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        component(entry, objective_needs(needs), "loss.objective")
    });
    let distillations = DISTILLATIONS.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        component(entry, objective_needs(needs), "loss.objective")
    });
    let selectors = SELECTORS.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        component(entry, facts(&needs), "selection.selector")
    });
    let plans = PLANS.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        component(entry, facts(&needs), "plan.plan")
    });
    let gates = GATES.iter().map(|entry| {
        let needs = (entry.build)(&Value::Null).map(|built| built.needs()).unwrap_or_default();
        component(entry, facts(&needs), "gate.gate")
    });
    let replays = REPLAYS.iter().map(|entry| component(entry, Vec::new(), "replay.replay"));
    let makers = MAKERS.iter().map(|entry| component(entry, Vec::new(), "make.program"));
    let losses = objectives.chain(preferences).chain(reward_models).chain(distillations);
    advantages.chain(losses).chain(selectors).chain(plans).chain(gates).chain(replays).chain(makers).collect()
}

fn component<T: ?Sized>(entry: &Entry<T>, needs: Vec<&'static str>, key: &str) -> Component {
    Component {
        card: entry.card,
        needs,
        status: "runs",
        recipe: format!("{key} = \"{}\"", entry.card.id),
        defaults: (entry.complete)(&Value::Null).unwrap_or_default(),
    }
}

fn facts(needs: &[Need]) -> Vec<&'static str> {
    needs.iter().map(|need| need.fact.about).collect()
}

fn objective_needs(needs: Needs) -> Vec<&'static str> {
    named(&[
        (needs.reference, "a reference"),
        (needs.teacher || needs.head.is_some(), "a teacher"),
        (needs.batch_constants, "a look at the whole batch first"),
        (needs.mismatched, "answers to other prompts"),
        (needs.groups && !needs.pairs, "whole groups"),
        (needs.pairs, "pairs of a better and a worse answer"),
    ])
}

fn named(needs: &[(bool, &'static str)]) -> Vec<&'static str> {
    needs.iter().filter(|(is_needed, _)| *is_needed).map(|(_, name)| *name).collect()
}

/// The cards of all parts.
fn cards() -> Vec<&'static Card> {
    [catalogue::cards(), burnish_systems::cards()].concat()
}

/// The ids of all systems, parts and presets.
pub fn ids() -> Vec<&'static str> {
    let mut ids: Vec<&str> = SYSTEMS.iter().map(|system| system.id).collect();
    for id in cards().iter().map(|card| card.id).chain(PRESETS.iter().map(|preset| preset.id)) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids
}

/// The known id that was probably meant by the unknown `id`.
pub fn nearest(id: &str) -> Option<&'static str> {
    // People often leave out the framework's version, or give another.
    let of_preset =
        |known: &&str| known.split_once('/').is_some_and(|(_, name)| id.ends_with(&format!("/{name}")));
    let ids = ids();
    let (first, _) = id.split_once(['/', '-']).unwrap_or((id, ""));
    let preset = ids.iter().find(|known| id.contains('/') && of_preset(known) && known.starts_with(first));
    preset.copied().or_else(|| names::nearest(id, ids.iter().copied()))
}

/// The catalogue as JSON: `parts`, `systems` with what their parts need, and `presets`.
///
/// # Errors
/// If a card can't be written as JSON.
pub fn json() -> Result<Value, serde_json::Error> {
    let parts = all();
    let systems = SYSTEMS.iter().map(|system| {
        let mut card = serde_json::to_value(system)?;
        card["needs"] = needs(system, &parts).into();
        card["file"] = system.file().into();
        Ok(card)
    });
    let systems = systems.collect::<Result<Vec<Value>, serde_json::Error>>()?;
    let presets: Vec<Value> = PRESETS
        .iter()
        .map(|preset| {
            serde_json::json!({
                "id": preset.id,
                "origin": preset.origin,
                "settings": (preset.settings)(),
                "allows": preset.allows,
                "differs": preset.differs,
                "with_beta": preset.with_beta,
            })
        })
        .collect();
    Ok(serde_json::json!({ "parts": parts, "systems": systems, "presets": presets }))
}

/// How pages call one part of a family.
pub fn member(family: Family) -> &'static str {
    match family {
        Family::Advantage => "advantage",
        Family::Objective => "objective",
        Family::Preference => "preference objective",
        Family::RewardModel => "loss of reward models",
        Family::Distillation => "distillation",
        Family::Selector => "selector",
        Family::Gate => "gate",
        Family::Plan => "plan",
        Family::Replay => "replay",
        Family::Maker => "maker",
    }
}

/// How pages call a family.
pub fn family(family: Family) -> &'static str {
    match family {
        Family::Advantage => "Advantages",
        Family::Objective => "Objectives on rollouts",
        Family::Preference => "Preference objectives",
        Family::RewardModel => "Reward models",
        Family::Distillation => "Distillation",
        Family::Selector => "Selection of tasks",
        Family::Gate => "Gates of updates",
        Family::Plan => "Plans of rollouts",
        Family::Replay => "Replays of members",
        Family::Maker => "Makers of rows, pairs, tasks, strategies and configurations",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_nearly_right_leads_to_the_right_one_of_every_family() {
        for (given, meant) in [
            ("gpso", "gspo"),
            ("GSPO", "gspo"),
            ("rlo", "rloo"),
            ("insihgt", "insight"),
            ("mdp", "mdpo"),
            ("trl-1.16/gpso", "trl-1.16/gspo"),
            ("trl/gspo", "trl-1.16/gspo"),
            ("trl-1.17/dr_grpo", "trl-1.16/dr_grpo"),
            ("verl-0.9/geo-mean", "verl-0.9/geo_mean"),
            ("verl/cispo", "verl-0.9/cispo"),
        ] {
            assert_eq!(nearest(given), Some(meant), "{given}");
        }
        assert_eq!(nearest("zzz"), None);
        let ids = ids();
        let cards = super::cards().len();
        assert!(ids.len() > cards && ids.contains(&"trl-1.16/gspo") && ids.contains(&SYSTEMS[0].id));
    }
}
