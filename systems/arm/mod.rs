//! ARM: merging early checkpoints of a run as an optimiser.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "arm",
    title: "ARM: early checkpoints merged one by one, their increments rotated",
    paper: "Streaming Merging, arXiv:2602.03237",
    evidence: Evidence::Abstract,
    reconstructed: &[
        "the rotation: the least one between subspaces of activations, on the side of the inputs",
        "increments between neighbouring checkpoints",
        "the rank: 90 % of the energy, at most 32",
        "eta is a number for each checkpoint; it is not searched for on held-out loss",
    ],
    parts: &[],
    uses: &["weights.method = \"arm\"", "weights.parameters", "weights.calibration"],
    environments: &["chains"],
    recipe: Some("systems/arm/recipe.toml"),
    set: &[],
    study: Some("systems/arm/study.toml"),
    results: &["systems/arm/results.md"],
    reduces_to: &[
        "task arithmetic on increments, without recorded activations or with rank = 0",
        "the last checkpoint, for eta = 1 at every step without rotation",
        "the base, byte for byte, for eta = 0",
    ],
    run: None,
    status: Status::Runs,
};
