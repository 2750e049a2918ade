//! SKPO: credit upstream and downstream of a draft, with a skip connection.

use burnish_rl::Family;

use super::{Evidence, PartRef, Status, System};

pub(super) const SYSTEM: System = System {
    id: "skpo",
    title: "SKPO: credit upstream and downstream of a draft, with a skip connection",
    paper: "Skip-Connected Policy Optimization, arXiv:2604.08690",
    evidence: Evidence::Abstract,
    reconstructed: &[
        "all formulas, from the abstract and SPO (arXiv:2509.13232)",
        "the skip prompt, its length and where a draft ends",
    ],
    parts: &[PartRef { family: Family::Plan, id: "skpo" }, PartRef { family: Family::Advantage, id: "skpo" }],
    uses: &[],
    environments: &["chains", "countdown"],
    recipe: Some("recipes/skpo.toml"),
    set: &[],
    study: Some("recipes/studies/skpo.toml"),
    results: &["docs/results/skpo.md", "docs/results/skpo-diagnostic.md"],
    reduces_to: &[
        "GRPO, for draft_tokens = 0, to the bit",
        "plain continuation of the draft, for skip = false",
    ],
    run: None,
    status: Status::Runs,
};
