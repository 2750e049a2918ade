//! EnvFactory: tool environments that are generated and tested, and an exact reward.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "env_factory",
    title: "EnvFactory: generated tool worlds, chains along a graph of tools, an exact reward",
    paper: "EnvFactory, arXiv:2605.18703",
    evidence: Evidence::Paper,
    reconstructed: &[
        "worlds are files for an interpreter, not Python programs; nothing is searched on the web",
        "links by three-letter pieces of names and descriptions, without a model that refines them",
        "the user's words and their four refinements are templates; the user does not answer questions",
        "no selection among rollouts that masks arguments: the reward knows masks, generated tasks have none",
    ],
    parts: &[],
    uses: &["env.config.sampler", "env.config.refinement", "env.config.tau"],
    environments: &["worlds"],
    recipe: Some("recipes/worlds.toml"),
    set: &[],
    study: Some("systems/env_factory/study.toml"),
    results: &["systems/env_factory/results.md"],
    reduces_to: &["a reward for calls alone at tau = 1, and for the state alone at tau = 0"],
    run: None,
    status: Status::Runs,
};
