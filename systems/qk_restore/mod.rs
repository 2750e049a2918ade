//! QK-Restore: the routing of the model before tuning, in the model after it.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "qk_restore",
    title: "QK-Restore: the routing before tuning on short traces, in the model after it",
    paper: "Attention Amnesia in Hybrid LLMs, arXiv:2606.11052",
    evidence: Evidence::Notes,
    reconstructed: &[
        "λ of the projected variant is relative to the mean squared singular value of W_K",
        "which layers are softmax attention where config.json has no layer_types",
        "biases and gains of QK-norms stay those of the tuned model",
    ],
    parts: &[],
    uses: &["weights.method = \"qk_restore\"", "weights.parameters"],
    environments: &["recall", "chains"],
    recipe: Some("systems/qk_restore/recipe.toml"),
    set: &[],
    study: Some("systems/qk_restore/study.toml"),
    results: &["systems/qk_restore/results.md"],
    reduces_to: &[
        "the tuned model, byte for byte, where nothing was tuned",
        "full restoring, for mode = \"pro\" and lambda = 0",
    ],
    run: None,
    status: Status::Runs,
};
