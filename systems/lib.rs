//! Published systems, a folder each: whoever asks what a system is opens one folder.
//!
//! A folder has the system's part with its card (`mod.rs`) and its tests (`tests.rs`). [`PLANS`] are async functions over the
//! group of a task ([`burnish_rl::plan`]), which is learned from; [`MAKERS`] are async functions over tasks and their episodes
//! ([`burnish_reason::Maker`]), which make rows, pairs, tasks or a strategy for later runs; [`OBJECTIVES`] are losses of tokens.

#[cfg(doctest)]
#[doc = include_str!("../docs/programs.md")]
mod programs {}

pub mod adas;
pub mod demonstrations;
pub mod dgpo;
pub mod from_failures;
pub mod heavyskill;
pub mod lang;
pub mod skpo;
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

/// How rollouts are sampled: `plan.plan`.
pub const PLANS: &[Entry<dyn RolloutPlan>] = entries![
    demonstrations::Demonstrations,
    dgpo::Dgpo,
    heavyskill::Heavyskill,
    lang::Lang,
    skpo::Skpo,
    vl_rethinker::VlRethinker
];

/// How a run makes rows, pairs, tasks or a strategy of its episodes: `make.program`.
pub const MAKERS: &[Entry<dyn Maker>] = entries![adas::Adas, from_failures::FromFailures];

/// Losses of tokens: `loss.objective`, beside those of [`burnish_rl::catalogue::OBJECTIVES`].
pub const OBJECTIVES: &[Entry<dyn TokenLoss>] = entries![thinkless::Degrpo];

/// What `[loss]` can name of these.
pub const FURTHER: Further = Further { objectives: OBJECTIVES };

/// The cards of all of them, in the order of the lists.
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
        let files: Vec<String> = folders.iter().map(|folder| format!("systems/{folder}/mod.rs")).collect();
        let mut named: Vec<&str> = cards().iter().map(|card| card.file).collect();
        named.sort_unstable();
        assert_eq!(files, named);
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
