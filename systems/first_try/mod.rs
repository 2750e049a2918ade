//! First Try Matters: what reflections after the first try are worth, and thoughts that end with it where the question does not
//! promise that they pay.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "first_try",
    title: "First Try Matters: thoughts end after a try, and reflections are told apart",
    paper: "First Try Matters, arXiv:2510.08308",
    evidence: Evidence::Notes,
    reconstructed: &[
        "tries are found by the words before them, not by a model",
        "the controller is a logistic regression on hashed words of the question (`burnish fit-thoughts`)",
    ],
    parts: &[],
    uses: &["eval.thoughts", "env.config.thoughts"],
    environments: &["countdown"],
    recipe: Some("recipes/reflections.toml"),
    set: &[],
    study: None,
    results: &[],
    reduces_to: &[
        "free thoughts, with more tries than they have, to the bit",
        "an end after `tries` tries, without a controller or with a threshold of 1, to the bit",
    ],
    run: None,
    status: Status::Runs,
};
