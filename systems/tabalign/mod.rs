//! TABALIGN: plans over tables by masked diffusion, and a verifier that asks whether the cells of a plan are looked at.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "tabalign",
    title: "TABALIGN: masked diffusion plans over the cells of a table, and a verifier of attention",
    paper: "TABALIGN with TABATTN, arXiv:2605.14465",
    evidence: Evidence::Abstract,
    reconstructed: &[
        "training and decoding of the planner: those of LLaDA (arXiv:2502.09992), low-confidence remasking",
        "plans: an operation and a row set times a column set for each step",
        "attention to cells, the verifier (logistic regression over heads, L2 1e-3), its overlap, and what it decides over",
        "the reasoner is a fixed executor, so the attention is the planner's own",
    ],
    parts: &[],
    uses: &["policy.new.masked", "eval.denoising_steps"],
    environments: &["tables"],
    recipe: Some("systems/tabalign/recipe.toml"),
    set: &[],
    study: Some("systems/tabalign/study.toml"),
    results: &["systems/tabalign/results.md"],
    reduces_to: &[
        "one token a step in the order of confidence, with as many steps as tokens",
        "no verifier, with a bound of 0: each step is executed once",
    ],
    run: None,
    status: Status::Runs,
};
