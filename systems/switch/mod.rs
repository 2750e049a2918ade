//! SWITCH: thoughts between two tags that nobody writes, learned from written ones and then from the policy's own answers.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "switch",
    title: "SWITCH: latent recurrence between tags, a curriculum from visible thoughts, and Switch-GRPO",
    paper: "SWITCH, arXiv:2606.13106",
    evidence: Evidence::Paper,
    reconstructed: &[
        "weights of the rewards (1, 0.2 and 0.2): the paper says only that correctness dominates",
        "a unit of thought is a match of a regular expression; the paper finds spans by a model's entropy and replaces tokens",
        "a span is left where `</swi>` is the likeliest token, also where answers are sampled",
        "latent steps count among the tokens for which an answer earns its brevity",
    ],
    parts: &[],
    uses: &["latent"],
    environments: &["chains"],
    recipe: Some("systems/switch/recipe.toml"),
    set: &[],
    study: Some("systems/switch/study.toml"),
    results: &["systems/switch/results.md"],
    reduces_to: &[
        "GRPO, to the bit, where no answer has a span",
        "imitation of visible thoughts between tags, with `latent.stages = [0, 0]`",
        "Coconut with `latent.place = \"start\"`, pause tokens with `latent.input = \"filler\"` as well",
    ],
    run: None,
    status: Status::Runs,
};
