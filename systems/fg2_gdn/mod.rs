//! FG²-GDN: rates of a delta rule for each channel.

use crate::{Evidence, Status, System};

/// The whole system.
pub(crate) const SYSTEM: System = System {
    id: "fg2_gdn",
    title: "FG²-GDN and FG²-GDN+: rates of a delta rule for each channel, for erasing and writing together or apart",
    paper: "FG²-GDN, arXiv:2604.19021; its parents DeltaNet (arXiv:2406.06484), Gated DeltaNet (arXiv:2412.06464) and \
            Kimi Delta Attention (arXiv:2510.26692)",
    evidence: Evidence::Notes,
    reconstructed: &[
        "the rank of the rates' projections, whose default is whole matrices",
        "the root and the logistic function are one operation with a finite derivative, instead of a rate of 1e-6 at least",
    ],
    parts: &[],
    uses: &["policy.new.architecture = \"hybrid\"", "policy.new.delta_rule.linear_rule"],
    environments: &["associative"],
    recipe: Some("systems/fg2_gdn/recipe.toml"),
    set: &[],
    study: Some("systems/fg2_gdn/study.toml"),
    results: &["systems/fg2_gdn/results.md", "systems/fg2_gdn/results-parts.md"],
    reduces_to: &[
        "`fg2_gdn`, for the same rates of erasing and writing, to the bit",
        "`kda`, for rates that are equal in all channels",
        "`gdn`, for decays that are equal in all channels as well",
        "`delta_net`, for no decay as well, to the bit",
    ],
    run: None,
    status: Status::Runs,
};
