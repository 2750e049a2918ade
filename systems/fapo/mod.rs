//! FAPO: right answers with wrong steps earn less.

use burnish_rl::Family;

use crate::{Evidence, PartRef, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "fapo",
    title: "FAPO: right answers with wrong steps earn less",
    paper: "FAPO: Flawed-Aware Policy Optimization, arXiv:2510.22543; code: fapo-rl.github.io",
    evidence: Evidence::Notes,
    reconstructed: &[],
    parts: &[PartRef { family: Family::Advantage, id: "fapo" }],
    uses: &[],
    environments: &["chains"],
    recipe: Some("systems/fapo/recipe.toml"),
    set: &[],
    study: None,
    results: &[],
    reduces_to: &["GRPO of rewards of ±1, for lambda = 0, to the bit"],
    run: None,
    status: Status::Runs,
};
