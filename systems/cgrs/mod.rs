//! CGRS: reflection is suppressed the more, the surer the model is of its answer.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "cgrs",
    title: "CGRS: reflection is suppressed where the answer is certain",
    paper: "Certainty-Guided Reflection Suppression, arXiv:2508.05337",
    evidence: Evidence::Notes,
    reconstructed: &[],
    parts: &[],
    uses: &["eval.thoughts"],
    environments: &["countdown"],
    recipe: Some("recipes/reflections.toml"),
    set: &[],
    study: None,
    results: &[],
    reduces_to: &["free thoughts, with a threshold of 1, to the bit"],
    run: None,
    status: Status::Runs,
};
