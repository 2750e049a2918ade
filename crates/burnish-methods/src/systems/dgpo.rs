//! DGPO: groups of forward and reverse answers, preferred by coherence.

use burnish_rl::Family;

use super::{Evidence, PartRef, Status, System};

pub(super) const SYSTEM: System = System {
    id: "dgpo",
    title: "DGPO: groups of forward and reverse answers, preferred by coherence",
    paper: "Directional-Groupwise Preference Optimization, arXiv:2605.10863",
    evidence: Evidence::Abstract,
    reconstructed: &["the loss, from SimPO's margin and InfoNCE", "how reverse instances are made"],
    parts: &[
        PartRef { family: Family::Plan, id: "dgpo" },
        PartRef { family: Family::Preference, id: "dgpo" },
    ],
    uses: &[],
    environments: &["chains"],
    recipe: Some("recipes/dgpo.toml"),
    set: &[],
    study: Some("recipes/studies/dgpo.toml"),
    results: &["docs/results/dgpo.md"],
    reduces_to: &[
        "SimPO, for one right and one wrong answer of one direction",
        "DPO, with log-ratios, a temperature of 1 and no margin",
    ],
    run: None,
    status: Status::Runs,
};
