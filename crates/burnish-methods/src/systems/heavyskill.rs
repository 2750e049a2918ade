//! HeavySkill: think in parallel, then deliberate.

use burnish_rl::Family;

use super::{Evidence, PartRef, Status, System};

pub(super) const SYSTEM: System = System {
    id: "heavyskill",
    title: "HeavySkill: parallel thinking, then deliberation, as a strategy and as what is learned",
    paper: "HeavySkill, arXiv:2605.02396",
    evidence: Evidence::Notes,
    reconstructed: &[
        "the rules of selection from a pool beyond their names",
        "what is kept of a draft that does not fit the cache",
        "the wording of the skill file",
        "the majority of the deliberations as the answer of a turn",
        "training on drafts of the policy at that step",
    ],
    parts: &[PartRef { family: Family::Plan, id: "heavyskill" }],
    uses: &["eval.draft"],
    environments: &["chains", "countdown"],
    recipe: Some("recipes/heavyskill.toml"),
    set: &[],
    study: Some("recipes/studies/heavyskill.toml"),
    results: &["docs/results/heavyskill.md"],
    reduces_to: &[
        "the plain answer, for drafts = 0 and deliberations = 1, to the bit",
        "self-refinement, for drafts = 1 and deliberations = 1, to the bit",
        "GRPO, for plan.config.drafts = 0, to the bit",
    ],
    run: None,
    status: Status::Runs,
};
