//! SDAR: gated self-distillation from privileged context.

use burnish_rl::Family;

use crate::{Evidence, PartRef, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "sdar",
    title: "SDAR: gated self-distillation from privileged context",
    paper: "SDAR, arXiv:2605.15155; code: ZJU-REAL/SDAR",
    evidence: Evidence::Paper,
    reconstructed: &[],
    parts: &[PartRef { family: Family::Objective, id: "sdar" }],
    uses: &["teacher.context"],
    environments: &["chains", "household"],
    recipe: Some("systems/sdar/recipe.toml"),
    set: &[],
    study: Some("systems/sdar/study.toml"),
    results: &["systems/sdar/results.md", "systems/sdar/results-household.md"],
    reduces_to: &["GRPO, for sdar_coef = 0", "the ungated loss at half its weight, for gate_beta = 0"],
    run: None,
    status: Status::Runs,
};
