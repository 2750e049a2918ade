//! Every strategy by name. One that is not in this list can't be reached.

use std::sync::Arc;

use burnish_core::names;
use burnish_core::settings::{SettingError, read, to_value};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::card::{Card, Part};
use crate::strategy::Strategy;
use crate::{Beam, BestOfN, Controlled, Heavyskill, Majority, Recall, SelfRefine, WeightedVote};

/// A strategy; its own type is erased.
pub struct Entry {
    /// What is known about it.
    pub card: Card,
    /// Its complete settings as JSON: those given, and the defaults for the rest.
    pub complete: fn(&Value) -> Result<Value, SettingError>,
    /// The strategy with these settings; absent ones take their defaults.
    pub build: fn(&Value) -> Result<Arc<dyn Strategy>, SettingError>,
}

/// Every strategy.
pub const STRATEGIES: &[Entry] = &[
    entry::<Beam>(),
    entry::<BestOfN>(),
    entry::<Majority>(),
    entry::<WeightedVote>(),
    entry::<SelfRefine>(),
    entry::<Heavyskill>(),
    entry::<Controlled>(),
    entry::<Recall>(),
];

/// The cards, in the order of the list.
pub fn cards() -> Vec<&'static Card> {
    STRATEGIES.iter().map(|entry| &entry.card).collect()
}

/// Which strategy, and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrategyConfig {
    /// Its id.
    pub strategy: String,
    /// Its own settings.
    #[serde(default = "no_settings")]
    pub config: Value,
}

fn no_settings() -> Value {
    Value::Object(Map::new())
}

impl StrategyConfig {
    /// A strategy with its default settings.
    pub fn new(id: impl Into<String>) -> Self {
        StrategyConfig { strategy: id.into(), config: no_settings() }
    }

    /// The same, with every setting written out.
    ///
    /// # Errors
    /// If there is no such strategy, or a setting is unknown, of the wrong type or out of range.
    pub fn complete(mut self) -> Result<Self, SettingError> {
        self.config = (self.entry()?.complete)(&self.config).map_err(in_config)?;
        Ok(self)
    }

    /// The strategy.
    ///
    /// # Errors
    /// As [`StrategyConfig::complete`].
    pub fn build(&self) -> Result<Arc<dyn Strategy>, SettingError> {
        (self.entry()?.build)(&self.config).map_err(in_config)
    }

    fn entry(&self) -> Result<&'static Entry, SettingError> {
        let id = self.strategy.as_str();
        STRATEGIES.iter().find(|entry| entry.card.id == id).ok_or_else(|| {
            let ids = || STRATEGIES.iter().map(|entry| entry.card.id);
            let hint = match names::nearest(id, ids()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are: {}", ids().collect::<Vec<_>>().join(", ")),
            };
            SettingError::new("strategy", format!("`{id}` is no strategy; {hint}"))
        })
    }
}

/// An error about a key of a strategy's own table.
fn in_config(error: SettingError) -> SettingError {
    SettingError { key: format!("config.{}", error.key), ..error }
}

const fn entry<P: Part + Strategy>() -> Entry {
    Entry {
        card: P::CARD,
        complete: |given| to_value(&checked::<P>(given)?),
        build: |given| Ok(Arc::new(checked::<P>(given)?)),
    }
}

fn checked<P: Part>(given: &Value) -> Result<P, SettingError> {
    let part: P = read(given)?;
    part.check()?;
    Ok(part)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    #[test]
    fn every_card_is_whole_and_names_its_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for card in cards() {
            let text = std::fs::read_to_string(root.join(card.file)).unwrap();
            assert!(text.contains(&format!("id: \"{}\"", card.id)), "{}", card.id);
            for heading in ["**What it does.**", "**Reduces to.**", "**References.**"] {
                assert!(text.contains(heading), "{} has no {heading}", card.file);
            }
            assert!(!card.equation.is_empty() && !card.reads.is_empty() && !card.reduces_to.is_empty());
        }
    }

    #[test]
    fn settings_are_completed_and_wrong_ones_are_named() {
        let complete = StrategyConfig::new("majority").complete().unwrap();
        assert_eq!(complete.config["samples"], json!(8));
        assert_eq!(complete.clone().complete().unwrap(), complete);
        let wrong = [
            ("majorty", json!({}), "did you mean `majority`"),
            ("majority", json!({"sampels": 3}), "config.sampels"),
            ("majority", json!({"samples": 0}), "config.samples: must be 1 to"),
            ("majority", json!({"equality": "maths"}), "config.equality"),
            ("best_of_n", json!({"score": {"by": "gold"}}), "config.score.by"),
            ("best_of_n", json!({"score": {"prompt": "no places"}}), "{task}"),
            ("best_of_n", json!({"score": {"by": "reward_model"}}), "config.score.path"),
            ("weighted_vote", json!({"score": {"path": "rm"}}), "config.score.path"),
            ("weighted_vote", json!({"temperature": -1.0}), "config.temperature"),
            ("self_refine", json!({"rounds": 0}), "config.rounds"),
            ("heavyskill", json!({"drafts": 8, "pool": 4}), "config.pool"),
            ("heavyskill", json!({"selection": "best"}), "config.selection"),
            ("heavyskill", json!({"template": "{prompt}"}), "{drafts}"),
            ("heavyskill", json!({"deliberations": 0}), "config.deliberations"),
            ("controlled", json!({"controls": [{"certainty": {"threshold": 2.0}}]}), "config.controls"),
            ("controlled", json!({"controls": [{"budgets": {}}]}), "config.controls"),
            ("recall", json!({"count": 0}), "config.count: must be 1 to"),
            ("recall", json!({"template": "{prompt}"}), "config.template: must have {notes}"),
            ("recall", json!({"note": "{about}"}), "config.note: must have {text}"),
        ];
        for (strategy, config, part) in wrong {
            let given = StrategyConfig { strategy: strategy.into(), config };
            let error = given.build().err().unwrap().to_string();
            assert!(error.contains(part), "{given:?}: {error}");
            assert_eq!(given.clone().complete().unwrap_err().to_string(), error);
        }
    }
}
