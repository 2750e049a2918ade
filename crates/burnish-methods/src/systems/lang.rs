//! LANG: hints in the language of the question, withdrawn by language.

use burnish_rl::Family;

use super::{Evidence, PartRef, Status, System};

pub(super) const SYSTEM: System = System {
    id: "lang",
    title: "LANG: hints in the language of the question, withdrawn by language",
    paper: "LANG, ACL 2026, arXiv:2605.22567",
    evidence: Evidence::Notes,
    reconstructed: &["alpha and tau of the switch, and the rate of the exponential decay"],
    parts: &[PartRef { family: Family::Plan, id: "lang" }],
    uses: &[],
    environments: &["chains", "rows"],
    recipe: Some("recipes/lang.toml"),
    set: &[],
    study: Some("recipes/studies/lang.toml"),
    results: &["docs/results/lang.md"],
    reduces_to: &["GRPO, for decay = off, to the bit"],
    run: None,
    status: Status::Runs,
};
