//! DaID: decoding that sets the layer that looks most at an image against the one below it that looks least.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "daid",
    title: "DaID: decoding with a spotlight and a shadow among the layers",
    paper: "Dual-Anchor Introspective Decoding, ACL 2026 Findings, arXiv:2604.10071",
    evidence: Evidence::Notes,
    reconstructed: &["a spotlight in the first layer has no shadow, and beta is then 0"],
    parts: &[],
    uses: &["eval.contrast"],
    environments: &["scenes"],
    recipe: Some("systems/daid/recipe.toml"),
    set: &[],
    study: Some("systems/daid/study.toml"),
    results: &["systems/daid/results.md"],
    reduces_to: &[
        "greedy decoding, with alpha = beta = 0, with gamma = 1, and where a prompt has no marked tokens",
    ],
    run: None,
    status: Status::Runs,
};
