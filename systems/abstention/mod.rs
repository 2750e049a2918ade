//! Abstention: a policy that learns when not to answer.

use burnish_rl::Family;

use crate::{Evidence, PartRef, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "abstention",
    title: "Abstention: a policy that learns when not to answer",
    paper: "When Silence Is Golden, ICLR 2026, arXiv:2602.04755; code: Blackzxy/AbstentionTemporalQA",
    evidence: Evidence::Paper,
    reconstructed: &[],
    parts: &[
        PartRef { family: Family::Advantage, id: "grpo" },
        PartRef { family: Family::Objective, id: "ppo_clip" },
    ],
    uses: &["env.config.reward"],
    environments: &["timed_facts", "timeqa"],
    recipe: Some("systems/abstention/recipe.toml"),
    set: &[],
    study: Some("systems/abstention/study.toml"),
    results: &["systems/abstention/results.md"],
    reduces_to: &["Dr. GRPO, always: it is a setting and a reward, and has no code of its own"],
    run: None,
    status: Status::Runs,
};
