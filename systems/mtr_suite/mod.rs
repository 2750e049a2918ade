//! MTR-Suite: benchmarks of conversational retrieval, made from texts, audited, and scored.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "mtr_suite",
    title: "MTR-Suite: conversations for retrieval, an auditor, a benchmark",
    paper: "MTR-Suite, ACL 2026, arXiv:2605.20729, with its code",
    evidence: Evidence::Paper,
    reconstructed: &[
        "questions from templates, and a judge by words, where no model is given",
        "neighbours of passages by hashed words, not by a sentence encoder",
    ],
    parts: &[],
    uses: &["burnish-retrieval"],
    environments: &[],
    recipe: None,
    set: &[],
    study: None,
    results: &[],
    reduces_to: &["single-turn retrieval, for dialogues of one turn"],
    run: Some("burnish data dialogues TEXTS --out DIR && burnish eval retrieval --data DIR"),
    status: Status::Runs,
};
