//! LLM-as-Environment-Engineer: the environment is redesigned between rounds of training.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "redesign",
    title: "LLM-as-Environment-Engineer: an engineer redesigns the environment between rounds of GRPO",
    paper: "From Trainee to Trainer, arXiv:2606.17682",
    evidence: Evidence::Notes,
    reconstructed: &[
        "MAPF-FrozenLake: the cost of a plan (sum of costs), the rewards (0, 0.5, 1), when a board needs a WAIT",
        "the wording of what an engineer is told and asked",
        "the rule of `failure_guided`; the constrained choice of `checkpoint`, which for tiny policies only tests the interface",
    ],
    parts: &[],
    uses: &["redesign"],
    environments: &["mapf-frozenlake", "countdown"],
    recipe: Some("systems/redesign/recipe.toml"),
    set: &[],
    study: Some("systems/redesign/study.toml"),
    results: &["systems/redesign/results.md"],
    reduces_to: &["GRPO in a fixed environment, round after round, for engineer = \"identity\""],
    run: None,
    status: Status::Runs,
};
