//! Published systems, a folder each: whoever asks what a system is opens one folder.
//!
//! A folder has the card of the system ([`SYSTEMS`]) and, where it has code of its own, its part in `mod.rs`; tests of the part
//! are in `tests.rs`. Its recipes are `recipe.toml` and those that this starts from, its studies `study*.toml`,
//! the pages with what they measured `results*.md`. Recipes that several systems share are in `recipes/`.
//!
//! [`PLANS`] are async functions over the group of a task ([`burnish_rl::plan`]), which is learned from;
//! [`MAKERS`] are async functions over tasks and their episodes ([`burnish_reason::Maker`]), which make rows,
//! pairs, tasks, notes, a strategy or a configuration for later runs; [`OBJECTIVES`] are losses of tokens.

#[cfg(doctest)]
#[doc = include_str!("../docs/programs.md")]
mod programs {}

pub mod abstention;
pub mod adas;
pub mod aopd;
pub mod arm;
pub mod cgrs;
pub mod codespec;
pub mod cyclic_reflex;
pub mod daid;
pub mod demonstrations;
pub mod dereason;
pub mod dgg;
pub mod dgpo;
pub mod env_factory;
pub mod fapo;
pub mod fg2_gdn;
pub mod first_try;
pub mod from_failures;
pub mod heavyskill;
pub mod information_gain;
pub mod insight;
pub mod lang;
pub mod map_then_act;
pub mod mtr_suite;
pub mod qk_restore;
pub mod rdpo;
pub mod recall;
pub mod redesign;
pub mod sdar;
pub mod skill1;
pub mod skpo;
pub mod switch;
mod system;
pub mod tabalign;
#[cfg(test)]
mod testing;
pub mod thinkless;
pub mod vl_rethinker;

use burnish_reason::Maker;
use burnish_rl::catalogue::{Entry, Further, no_settings};
use burnish_rl::plan::RolloutPlan;
use burnish_rl::{Card, TokenLoss, choice, entries};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use system::{Evidence, PartRef, Status, System};

/// How rollouts are sampled: `plan.plan`.
pub const PLANS: &[Entry<dyn RolloutPlan>] = entries![
    demonstrations::Demonstrations,
    dgpo::Dgpo,
    heavyskill::Heavyskill,
    lang::Lang,
    recall::Recall,
    skpo::Skpo,
    vl_rethinker::VlRethinker
];

/// How a run makes rows, pairs, tasks, notes, a strategy or a configuration of its episodes: `make.program`.
pub const MAKERS: &[Entry<dyn Maker>] =
    entries![adas::Adas, from_failures::FromFailures, recall::Cases, redesign::Redesign];

/// Losses of tokens: `loss.objective`, beside those of [`burnish_rl::catalogue::OBJECTIVES`].
pub const OBJECTIVES: &[Entry<dyn TokenLoss>] = entries![thinkless::Degrpo];

/// What `[loss]` can name of these.
pub const FURTHER: Further = Further { objectives: OBJECTIVES };

/// Every published system, sorted by id.
pub const SYSTEMS: &[System] = &[
    abstention::SYSTEM,
    adas::SYSTEM,
    aopd::SYSTEM,
    arm::SYSTEM,
    cgrs::SYSTEM,
    codespec::SYSTEM,
    cyclic_reflex::SYSTEM,
    daid::SYSTEM,
    dereason::SYSTEM,
    dgg::SYSTEM,
    dgpo::SYSTEM,
    env_factory::SYSTEM,
    fapo::SYSTEM,
    fg2_gdn::SYSTEM,
    first_try::SYSTEM,
    heavyskill::SYSTEM,
    information_gain::SYSTEM,
    insight::SYSTEM,
    lang::SYSTEM,
    map_then_act::SYSTEM,
    mtr_suite::SYSTEM,
    qk_restore::SYSTEM,
    rdpo::SYSTEM,
    redesign::SYSTEM,
    sdar::SYSTEM,
    skill1::SYSTEM,
    skpo::SYSTEM,
    switch::SYSTEM,
    tabalign::SYSTEM,
    thinkless::SYSTEM,
    vl_rethinker::SYSTEM,
];

/// The cards of all parts, in the order of the lists.
pub fn cards() -> Vec<&'static Card> {
    let plans = PLANS.iter().map(|entry| &entry.card);
    let makers = MAKERS.iter().map(|entry| &entry.card);
    plans.chain(makers).chain(OBJECTIVES.iter().map(|entry| &entry.card)).collect()
}

/// `[plan]`: which plan, and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanConfig {
    /// Id of the plan.
    pub plan: String,
    /// Its own settings.
    #[serde(default = "no_settings")]
    pub config: Value,
}

choice!(PlanConfig, plan, PLANS, dyn RolloutPlan);

/// `make.program` and `[make.config]`: which maker, and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MakerConfig {
    /// Id of the maker.
    pub program: String,
    /// Its own settings.
    #[serde(default = "no_settings")]
    pub config: Value,
}

choice!(MakerConfig, program, MAKERS, dyn Maker);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn a_folder_is_a_system_with_a_head_of_fixed_form() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders: Vec<String> = Vec::new();
        for entry in std::fs::read_dir(root).unwrap().map(Result::unwrap) {
            if entry.path().is_dir() {
                folders.push(entry.file_name().into_string().unwrap());
            }
        }
        folders.sort();
        let files: BTreeSet<String> =
            folders.iter().map(|folder| format!("systems/{folder}/mod.rs")).collect();
        let parts = cards().into_iter().map(|card| card.file.to_owned());
        assert_eq!(files, parts.chain(SYSTEMS.iter().map(System::file)).collect());
        for card in cards() {
            let source = std::fs::read_to_string(root.join("..").join(card.file)).unwrap();
            for section in ["What it does", "Formula", "Reduces to", "Differs", "References"] {
                assert!(source.contains(&format!("//! **{section}")), "{}: no {section}", card.file);
            }
            let is_reconstructed = source.contains("//! **Reconstructed.**");
            assert_eq!(is_reconstructed, card.reconstructed.is_some(), "{}", card.file);
        }
    }

    #[test]
    fn settings_read_back_as_they_are_written() {
        for entry in PLANS {
            let defaults = (entry.complete)(&Value::Null).unwrap();
            assert_eq!((entry.complete)(&defaults).unwrap(), defaults, "{}", entry.card.id);
            assert!((entry.complete)(&serde_json::json!({ "no_such_key": 1 })).is_err(), "{}", entry.card.id);
            let is_without_state = (entry.build)(&Value::Null).unwrap().state().is_null();
            assert!(is_without_state || entry.card.id == "lang", "{}", entry.card.id);
        }
        for entry in MAKERS {
            let defaults = (entry.complete)(&Value::Null).unwrap();
            assert_eq!((entry.complete)(&defaults).unwrap(), defaults, "{}", entry.card.id);
            assert!((entry.complete)(&serde_json::json!({ "no_such_key": 1 })).is_err(), "{}", entry.card.id);
            assert!(!(entry.build)(&Value::Null).unwrap().kinds().is_empty(), "{}", entry.card.id);
        }
        let unknown = PlanConfig { plan: "none".into(), config: Value::Null };
        assert_eq!(unknown.complete().unwrap_err().key, "plan");
        let unknown = MakerConfig { program: "none".into(), config: Value::Null };
        assert_eq!(unknown.complete().unwrap_err().key, "program");
    }
}
