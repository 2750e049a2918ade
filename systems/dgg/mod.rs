//! DGG: reuse of a batch until the head's gradient jumps.

use burnish_rl::Family;

use crate::{Evidence, PartRef, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "dgg",
    title: "DGG: reuse of a batch until the head's gradient jumps",
    paper: "When to Stop Reusing, arXiv:2605.19425",
    evidence: Evidence::Notes,
    reconstructed: &[
        "form and decay of the statistics, the warm-up, what a batch's first use is compared with",
    ],
    parts: &[PartRef { family: Family::Gate, id: "dgg" }],
    uses: &["metrics.weight_divergence"],
    environments: &["mapf-frozenlake"],
    recipe: Some("recipes/quickstart.toml"),
    set: &["gate={gate=\"dgg\"}", "train.epochs=4"],
    study: Some("systems/dgg/study.toml"),
    results: &["systems/dgg/results.md"],
    reduces_to: &[
        "every use of a batch, for tau = inf",
        "a single use of a batch, for tau = -inf without warm-up, or train.epochs = 1",
    ],
    run: None,
    status: Status::Runs,
};
