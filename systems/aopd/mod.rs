//! AOPD: asymmetric on-policy distillation.

use burnish_rl::Family;

use crate::{Evidence, PartRef, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "aopd",
    title: "AOPD: asymmetric on-policy distillation",
    paper: "Asymmetric On-Policy Distillation, arXiv:2605.06387",
    evidence: Evidence::Notes,
    reconstructed: &["the number of teacher tokens, 32, over which the student is not normalised"],
    parts: &[PartRef { family: Family::Distillation, id: "aopd" }],
    uses: &["teacher.from", "teacher.path", "teacher.context"],
    environments: &["chains"],
    recipe: Some("systems/aopd/recipe.toml"),
    set: &[],
    study: Some("systems/aopd/study.toml"),
    results: &["systems/aopd/results.md"],
    reduces_to: &[
        "on-policy distillation (opd), for tau = -1",
        "forward KL on sampled tokens (gkd, beta = 0), for tau = 1 and every token",
    ],
    run: None,
    status: Status::Runs,
};
