//! CyclicReflex: a wave on the logits of words of reflection.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "cyclic_reflex",
    title: "CyclicReflex: words of reflection are made likelier and less likely in turns",
    paper: "CyclicReflex, ICLR 2026, arXiv:2506.11077, with its code",
    evidence: Evidence::Paper,
    reconstructed: &[
        "all tokens that are a word with blanks around it are changed, where the authors' code misses some",
    ],
    parts: &[],
    uses: &["eval.thoughts"],
    environments: &["countdown"],
    recipe: Some("recipes/reflections.toml"),
    set: &[],
    study: None,
    results: &[],
    reduces_to: &["free thoughts, with an amplitude of 0, to the bit"],
    run: None,
    status: Status::Runs,
};
