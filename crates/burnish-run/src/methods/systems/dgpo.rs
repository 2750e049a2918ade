//! DGPO: groups of forward and reverse answers, preferred by coherence.

use super::{Evidence, Status, System};

pub(super) const SYSTEM: System = System {
    id: "dgpo",
    title: "DGPO: groups of forward and reverse answers, preferred by coherence",
    paper: "Directional-Groupwise Preference Optimization, arXiv:2605.10863",
    evidence: Evidence::Abstract,
    reconstructed: &["the loss, from SimPO's margin and InfoNCE", "how reverse instances are made"],
    parts: &[],
    uses: &[],
    environments: &["chains"],
    recipe: None,
    set: &[],
    study: None,
    results: &[],
    reduces_to: &[],
    status: Status::Planned,
};
