//! VL-Rethinker, for text: forced rethinking, and a replay of the members that had an advantage.

use burnish_rl::Family;

use super::{Evidence, PartRef, Status, System};

pub(super) const SYSTEM: System = System {
    id: "vl_rethinker",
    title: "VL-Rethinker: forced rethinking, and selective sample replay",
    paper: "VL-Rethinker, NeurIPS 2025, arXiv:2504.08837; code: TIGER-AI-Lab/VL-Rethinker",
    evidence: Evidence::Notes,
    reconstructed: &["how many members are replayed: as many as have no advantage in the step"],
    parts: &[
        PartRef { family: Family::Plan, id: "vl_rethinker" },
        PartRef { family: Family::Replay, id: "ssr" },
    ],
    uses: &[],
    environments: &["chains"],
    recipe: Some("recipes/vl-rethinker.toml"),
    set: &[],
    study: None,
    results: &[],
    reduces_to: &["GRPO, for share = 0 and an empty queue, to the bit"],
    run: None,
    status: Status::Runs,
};
