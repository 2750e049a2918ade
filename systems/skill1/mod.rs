//! Skill1: one policy selects, uses and writes down skills, from one outcome.

use burnish_rl::Family;

use crate::{Evidence, PartRef, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "skill1",
    title: "Skill1: a library of skills that is selected from, used and filled by one policy",
    paper: "Skill1, arXiv:2605.06130",
    evidence: Evidence::Notes,
    reconstructed: &[
        "eviction by U ln(1 + n)",
        "the utility of a new skill, and the form of the bonus for rare ones",
        "descriptions are compared by hashed three-letter pieces, not by a sentence encoder",
        "no reward for an order that no utility tells apart; no penalty for malformed answers",
    ],
    parts: &[PartRef { family: Family::Advantage, id: "skill1" }],
    uses: &["env.config.candidates", "env.config.select", "env.config.distil"],
    environments: &["skilled"],
    recipe: Some("systems/skill1/recipe.toml"),
    set: &[],
    study: Some("systems/skill1/study.toml"),
    results: &["systems/skill1/results.md"],
    reduces_to: &["GRPO on the inner environment, with candidates = 0"],
    run: None,
    status: Status::Runs,
};
