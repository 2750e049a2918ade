//! The configuration of the environment.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::library::Rules;
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// The configuration of tasks that are played with a library of skills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkilledConfig {
    /// The environment whose tasks are played.
    pub of: Inner,
    /// Skills that an episode is given, K; 0 for an episode without a library.
    pub candidates: usize,
    /// Whether the policy puts them in order and acts with the first; otherwise it acts with the one that was found first.
    pub select: bool,
    /// Whether the policy writes a skill down when an episode is over, which is kept if the episode succeeded.
    pub distil: bool,
    /// Most skills of the library.
    pub capacity: usize,
    /// How far one outcome moves the utility of a skill.
    pub rate: f64,
    /// The utility of a new skill.
    pub utility: f64,
    /// Weight of what rarely used skills are preferred by in training.
    pub bonus: f64,
    /// Skills that the library begins with: those that the environment knows of as many tasks, drawn apart from all others.
    pub start: usize,
}

/// An environment and its configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inner {
    /// Its id.
    pub id: String,
    /// Its own keys.
    #[serde(default = "no_keys")]
    pub config: Value,
}

fn no_keys() -> Value {
    Value::Object(Map::new())
}

impl Default for SkilledConfig {
    fn default() -> Self {
        SkilledConfig {
            of: Inner { id: "household".to_owned(), config: no_keys() },
            candidates: 3,
            select: true,
            distil: true,
            capacity: 200,
            rate: 0.05,
            utility: 0.5,
            bonus: 0.1,
            start: 0,
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("candidates", 0.0, 9.0, "skills that an episode is given"),
    ("capacity", 1.0, 5000.0, "most skills of the library"),
    ("rate", 0.0, 1.0, "how far one outcome moves the utility of a skill"),
    ("utility", 0.0, 1.0, "utility of a new skill"),
    ("bonus", 0.0, 10.0, "preference for rarely used skills in training"),
    ("start", 0.0, 1000.0, "skills that the library begins with"),
];

impl SkilledConfig {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        if self.of.id == super::ID {
            return Err(config_error(
                "of.id",
                "a library within a library; name the environment that is played",
            ));
        }
        Ok(())
    }

    /// How the library is used and kept.
    pub fn rules(&self) -> Rules {
        Rules {
            candidates: self.candidates,
            rate: self.rate,
            utility: self.utility,
            bonus: self.bonus,
            capacity: self.capacity,
        }
    }
}
