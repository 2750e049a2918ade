//! The configuration of the environment.

use serde::{Deserialize, Serialize};

use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// The configuration of tasks of associative recall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Keys that are bound.
    pub pairs: usize,
    /// Keys that are asked for, each in a turn of its own; at most `pairs`.
    pub queries: usize,
    /// Bindings of keys that are bound already; at most `pairs`, each of another key.
    pub rewrites: usize,
    /// Letters of a key. Keys of two letters share them with other keys.
    pub key_parts: usize,
    /// Different letters.
    pub letters: usize,
    /// Digits of a value.
    pub value_parts: usize,
    /// Different digits.
    pub digits: usize,
    /// Digits of a value that a rewrite keeps: they are written `-`. Below `value_parts`.
    pub parts_kept: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            pairs: 8,
            queries: 4,
            rewrites: 0,
            key_parts: 1,
            letters: 26,
            value_parts: 1,
            digits: 10,
            parts_kept: 0,
        }
    }
}

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("pairs", 1.0, 512.0, "keys that are bound"),
    ("queries", 1.0, 512.0, "keys that are asked for"),
    ("rewrites", 0.0, 512.0, "bindings of keys that are bound already"),
    ("key_parts", 1.0, 3.0, "letters of a key"),
    ("letters", 1.0, 26.0, "different letters"),
    ("value_parts", 1.0, 4.0, "digits of a value"),
    ("digits", 2.0, 10.0, "different digits"),
    ("parts_kept", 0.0, 3.0, "digits of a value that a rewrite keeps"),
];

impl Config {
    /// Different keys.
    pub(super) fn keys(&self) -> usize {
        // Bounds keep both small.
        self.letters.pow(self.key_parts as u32)
    }

    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        let at_most = |key: &str, value: usize, most: usize, of: &str| match value > most {
            true => {
                Err(config_error(key, &format!("{value} is above {of}, which is {most}; nearest: {most}")))
            }
            false => Ok(()),
        };
        at_most("pairs", self.pairs, self.keys(), "the number of keys, letters to the power of key_parts")?;
        at_most("queries", self.queries, self.pairs, "pairs")?;
        at_most("rewrites", self.rewrites, self.pairs, "pairs")?;
        at_most("parts_kept", self.parts_kept, self.value_parts - 1, "value_parts less one")
    }
}
