//! MAP: explore a task and map it, then act in it afresh with the map.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "map_then_act",
    title: "MAP: map, then act",
    paper: "Map-then-Act Paradigm, arXiv:2605.13037",
    evidence: Evidence::Notes,
    reconstructed: &[
        "the dual intrinsic reward (new facts, rare states) and the stop when both are dull",
        "facts are taken from what actions did, not by a model that extracts them; global knowledge is what is true in all training games",
        "exploring by programs or by the policy, without a focus analyser and a reflector",
        "games of our own (a grid with hidden rules, a crafting graph, the house) and TextWorld Commonsense, not ALFWorld, ScienceWorld and ARC-AGI-3",
    ],
    parts: &[],
    uses: &["env.config.explorer", "env.config.explore_max", "env.config.sections", "env.config.global"],
    environments: &["mapping", "mapped"],
    recipe: Some("systems/map_then_act/recipe.toml"),
    set: &[],
    study: Some("systems/map_then_act/study.toml"),
    results: &["systems/map_then_act/results.md"],
    reduces_to: &["ReAct, with explore_max = 0 and global = 0: the same prompts and transcripts"],
    run: None,
    status: Status::Runs,
};
