//! InSight: tasks chosen by expected information.

use burnish_rl::Family;

use crate::{Evidence, PartRef, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "insight",
    title: "InSight: tasks chosen by expected information",
    paper: "InSight, arXiv:2603.01907",
    evidence: Evidence::Notes,
    reconstructed: &["the weight of a task's expected success rate"],
    parts: &[PartRef { family: Family::Selector, id: "insight" }],
    uses: &[],
    environments: &["countdown"],
    recipe: Some("recipes/countdown.toml"),
    set: &["selection={selector=\"insight\"}"],
    study: Some("systems/insight/study.toml"),
    results: &["systems/insight/results-simulation.md", "systems/insight/results.md"],
    reduces_to: &["the order of difficulty alone, with weight = none, one rollout and equal evidence"],
    run: None,
    status: Status::Runs,
};
