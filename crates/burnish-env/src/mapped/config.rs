//! The configuration of the environment.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::notes::GAP;
use crate::mapping::{Explorer, Section};
use crate::settings::{check_bounds, config_error};
use crate::skilled::Inner;
use crate::{BoundRow, EnvError};

/// The configuration of text games that are mapped before they are played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappedConfig {
    /// The environment whose tasks are explored and played.
    pub of: Inner,
    /// Who explores.
    pub explorer: Explorer,
    /// Most steps of exploring, B; 0 for none.
    pub explore_max: usize,
    /// Exploring ends when the means of both rewards over the last `window` steps are below `converged`.
    pub window: usize,
    /// See `window`.
    pub converged: f64,
    /// Where a text lists the possible commands, with a gap for the list.
    pub commands: String,
    /// What stands between two commands of that list.
    pub separator: String,
    /// Where a text names the place, with a gap for the name.
    pub place: String,
    /// Texts by which an answer says that a command did nothing.
    pub nothing: Vec<String>,
    /// Texts that make a sentence worth a place on the map, wherever it stands.
    pub remarks: Vec<String>,
    /// Parts of the map that are shown.
    pub sections: Vec<Section>,
    /// Most lines of the map.
    pub map_max: usize,
}

impl Default for MappedConfig {
    fn default() -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        MappedConfig {
            of: Inner { id: "household".to_owned(), config: Value::Object(Map::new()) },
            explorer: Explorer::Policy,
            explore_max: 10,
            window: 3,
            converged: 0.4,
            commands: "Possible: {}".to_owned(),
            separator: ", ".to_owned(),
            place: "-= {} =-".to_owned(),
            nothing: texts(&["nothing happens", "You can't", "That's not", "That is no command"]),
            remarks: texts(&["score"]),
            sections: Section::ALL.to_vec(),
            map_max: 40,
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("explore_max", 0.0, 200.0, "most steps of exploring"),
    ("window", 1.0, 50.0, "steps over which exploring has to be dull"),
    ("converged", 0.0, 10.0, "mean reward below which exploring is dull"),
    ("map_max", 1.0, 1000.0, "most lines of the map"),
];

/// Environments that explore, or are played with something, by themselves.
const WRAPPERS: [&str; 3] = [super::ID, "mapping", "skilled"];

impl MappedConfig {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or says nothing.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        if WRAPPERS.contains(&&*self.of.id) {
            let problem = format!("`{}` can't be explored; name an environment that is a game", self.of.id);
            return Err(config_error("of.id", &problem));
        }
        for (key, pattern) in [("commands", &self.commands), ("place", &self.place)] {
            if pattern.matches(GAP).count() != 1 || pattern.trim() == GAP {
                let problem = format!(
                    "`{pattern}` has to be a text with one gap {GAP}, as `-= {GAP} =-`; it is looked for in each line"
                );
                return Err(config_error(key, &problem));
            }
        }
        if self.separator.is_empty() {
            return Err(config_error("separator", "nothing can't separate commands; take \", \""));
        }
        for (key, texts) in [("nothing", &self.nothing), ("remarks", &self.remarks)] {
            if texts.iter().any(String::is_empty) {
                return Err(config_error(key, "an empty text is in every answer; leave it out"));
            }
        }
        Ok(())
    }

    /// Whether the policy explores by itself.
    pub(super) fn policy_explores(&self) -> bool {
        self.explorer == Explorer::Policy && self.explore_max > 0
    }
}
