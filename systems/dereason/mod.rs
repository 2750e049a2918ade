//! DeReason: easy data is imitated, hard data is played.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "dereason",
    title: "DeReason: easy data is imitated, hard data is played",
    paper: "DeReason, arXiv:2603.11193",
    evidence: Evidence::Notes,
    reconstructed: &[],
    parts: &[],
    uses: &["env.split", "data.demonstrations.split", "policy.from"],
    environments: &["countdown"],
    recipe: Some("systems/dereason/recipe.toml"),
    set: &[],
    study: Some("systems/dereason/study.toml"),
    results: &["systems/dereason/results.md"],
    reduces_to: &["reinforcement learning alone, without a first stage and with keep = \">= 0\""],
    run: None,
    status: Status::Runs,
};
