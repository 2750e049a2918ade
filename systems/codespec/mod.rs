//! CodeSpecBench: specifications that a policy writes, judged by running them.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "codespec",
    title: "CodeSpecBench: pre- and postconditions judged by execution",
    paper: "CodeSpecBench, github.com/SparksofAGI/CodeSpecBench",
    evidence: Evidence::Paper,
    reconstructed: &[
        "functions of EvalPlus and generated ones in place of the benchmark's; five small repositories in place of SWE-bench's",
        "a case that takes too long is neither accepted nor rejected, where the authors' code counts it as rejected",
    ],
    parts: &[],
    uses: &["env.config.track", "env.config.rejects"],
    environments: &["specs"],
    recipe: Some("systems/codespec/recipe.toml"),
    set: &[],
    study: Some("systems/codespec/study.toml"),
    results: &["systems/codespec/results.md"],
    reduces_to: &[
        "an accepted case for every valid input alone, for `correct`; a rejected one for every invalid input alone, for `complete`",
    ],
    run: Some("burnish eval codespec --policy POLICY"),
    status: Status::Runs,
};
