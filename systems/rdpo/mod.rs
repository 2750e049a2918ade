//! RDPO: mixed rewards ranked and decorrelated.

use burnish_rl::Family;

use crate::{Evidence, PartRef, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "rdpo",
    title: "RDPO: mixed rewards ranked and decorrelated",
    paper: "Reward-Decorrelated Policy Optimization, arXiv:2605.13641",
    evidence: Evidence::Abstract,
    reconstructed: &["all formulas, from the abstract and a report that uses it"],
    parts: &[PartRef { family: Family::Advantage, id: "rdpo" }],
    uses: &[],
    environments: &["chains"],
    recipe: Some("recipes/chains.toml"),
    set: &[
        "advantage={estimator=\"rdpo\"}",
        "env.config.rewards=[\"answer\", \"format\", \"length\", \"style\"]",
    ],
    study: Some("systems/rdpo/study.toml"),
    results: &[
        "systems/rdpo/results.md",
        "systems/rdpo/results-independent.md",
        "systems/rdpo/results-simulation.md",
    ],
    reduces_to: &["GDPO, without whitening, quantiles, magnitudes and standardisation"],
    run: None,
    status: Status::Runs,
};
