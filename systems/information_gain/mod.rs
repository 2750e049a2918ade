//! Information-gain clarifier: questions before an agent acts, paid for what their answers tell about the goal.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "information_gain",
    title: "Information-gain clarifier: a question is worth what its answer tells about the goal",
    paper: "Information-Gain Reward for clarifying questions, ICML 2026, arXiv:2606.03135",
    evidence: Evidence::Notes,
    reconstructed: &[
        "a world of slots whose belief is exact; a language model that scores the goal's text may take its place (`reward.goal`)",
        "its log-probs are averaged over the goal's tokens, or summed",
        "the whole conversation is rewarded, whose questions' rewards telescope; `asked` and `questions = 1` make single steps",
        "the agent does what is likeliest by the exact belief",
        "of tau-bench's tasks single calls of the shop (`env.config.shop`), said and asked for in slots",
    ],
    parts: &[],
    uses: &[
        "env.config.rewards",
        "env.config.asked",
        "env.config.questions",
        "env.config.shop",
        "reward.goal",
    ],
    environments: &["clarify"],
    recipe: Some("systems/information_gain/recipe.toml"),
    set: &[],
    study: Some("systems/information_gain/study.toml"),
    results: &["systems/information_gain/results.md"],
    reduces_to: &["a reward of 0 for acting without a question, and for one that tells nothing"],
    run: None,
    status: Status::Runs,
};
