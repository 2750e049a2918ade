//! The configuration of the environment.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::kind::{Form, RecallTask, Surroundings};
use super::needles::{Name, capacities, shortest_needle};
use super::wording::{PromptStyle, bytes_without_haystack};
use super::words::{ADJECTIVES, NOUNS, PEOPLE};
use crate::settings::{check_bounds, config_error};
use crate::{BoundRow, EnvError};

/// Numbers of needles, of the tasks that have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Needles {
    /// Needles of `niah_multikey_1`, of which one is asked for.
    pub keys: usize,
    /// Needles under the key of `niah_multivalue`.
    pub values: usize,
    /// Keys that `niah_multiquery` asks for.
    pub queries: usize,
    /// Keys that `niah_multikey_1` asks for one after the other, each in a turn of its own; at most `keys`.
    #[serde(default = "one")]
    pub turns: usize,
}

/// One question, as in RULER: what tasks had before there were more.
fn one() -> usize {
    1
}

/// Keys that are words: an adjective and a noun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// Number of adjectives; 0 for nouns alone.
    pub adjectives: usize,
    /// Number of nouns.
    pub nouns: usize,
}

/// Values that are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// Digits of a number; the first is not 0.
    pub digits: usize,
}

/// Keys and values that are UUIDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uuids {
    /// Hexadecimal digits: the first of a UUID, which has 32.
    pub digits: usize,
}

/// Chains of variables (`vt`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variables {
    /// Number of chains; the first is asked for.
    pub chains: usize,
    /// Assignments of a variable to another one in each chain.
    pub hops: usize,
    /// Letters of a name.
    pub letters: usize,
    /// Digits of a value.
    pub digits: usize,
}

/// The configuration of recall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The tasks, as often as each other.
    pub tasks: Vec<RecallTask>,
    /// Lengths of a prompt in bytes of UTF-8, as often as each other.
    pub lengths: Vec<usize>,
    /// Where the needle is: the share of the text before it, as often as each other.
    pub depths: Vec<f64>,
    /// A file of text for the haystacks; empty for generated sentences.
    pub path: String,
    /// Number of words of each kind in generated sentences.
    pub vocabulary: usize,
    /// Numbers of needles.
    pub needles: Needles,
    /// Keys that are words.
    pub words: Words,
    /// Values that are numbers.
    pub numbers: Numbers,
    /// Keys and values that are UUIDs.
    pub uuids: Uuids,
    /// Chains of variables.
    pub variables: Variables,
    /// The wording.
    pub prompt: PromptStyle,
}

impl Default for Config {
    /// RULER's sizes, at lengths that play fast.
    fn default() -> Self {
        Config {
            tasks: RecallTask::ALL.to_vec(),
            lengths: vec![2048, 4096, 8192],
            depths: vec![0.0, 0.25, 0.5, 0.75, 1.0],
            path: String::new(),
            vocabulary: PEOPLE.len(),
            needles: Needles { keys: 4, values: 4, queries: 4, turns: 1 },
            words: Words { adjectives: ADJECTIVES.len(), nouns: NOUNS.len() },
            numbers: Numbers { digits: 7 },
            uuids: Uuids { digits: 32 },
            variables: Variables { chains: 1, hops: 4, letters: 5, digits: 5 },
            prompt: PromptStyle::Full,
        }
    }
}

/// Longest prompt, in bytes.
const LENGTH_MAX: usize = 1 << 24;
/// Most entries of a list.
const LIST_MAX: usize = 64;

/// The bounds of the numeric keys that may be changed.
pub(super) const BOUNDS: &[BoundRow] = &[
    ("vocabulary", 1.0, PEOPLE.len() as f64, "words of each kind in generated sentences"),
    ("needles.keys", 1.0, 64.0, "needles of niah_multikey_1"),
    ("needles.values", 1.0, 16.0, "needles under the key of niah_multivalue"),
    ("needles.queries", 1.0, 16.0, "keys that niah_multiquery asks for"),
    ("needles.turns", 1.0, 64.0, "keys that niah_multikey_1 asks for, one per turn"),
    ("words.adjectives", 0.0, ADJECTIVES.len() as f64, "adjectives of keys; 0 for nouns alone"),
    ("words.nouns", 1.0, NOUNS.len() as f64, "nouns of keys"),
    ("numbers.digits", 1.0, 18.0, "digits of a number"),
    ("uuids.digits", 2.0, 32.0, "hexadecimal digits of a UUID"),
    ("variables.chains", 1.0, 8.0, "chains of assignments"),
    ("variables.hops", 0.0, 16.0, "assignments of a variable to another in a chain"),
    ("variables.letters", 2.0, 8.0, "letters of a variable's name"),
    ("variables.digits", 1.0, 18.0, "digits of a variable's value"),
];

impl Config {
    /// Checks what the types do not express.
    ///
    /// # Errors
    /// Names the first key that is out of its bounds or contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
        check_bounds(self, BOUNDS)?;
        let names: Vec<&str> = self.tasks.iter().map(|task| task.name()).collect();
        check_list("tasks", &names)?;
        check_list("lengths", &self.lengths)?;
        check_list("depths", &self.depths)?;
        if let Some(depth) = self.depths.iter().find(|depth| !(0.0..=1.0).contains(*depth)) {
            let nearest = if depth.is_nan() { 0.5 } else { depth.clamp(0.0, 1.0) };
            let problem = format!("{depth} is out of range: 0 to 1 are allowed; nearest: {nearest}");
            return Err(config_error("depths", &problem));
        }
        let Needles { keys, turns, .. } = self.needles;
        if turns > keys {
            let problem = format!("{turns} is above needles.keys, which is {keys}; nearest: {keys}");
            return Err(config_error("needles.turns", &problem));
        }
        for &task in &self.tasks {
            self.check_names(task)?;
            self.check_lengths(task)?;
        }
        Ok(())
    }

    /// Are there enough different keys and values?
    fn check_names(&self, task: RecallTask) -> Result<(), EnvError> {
        let few = |key: &str, what: &str, there: u64, needed: usize, more: &str| {
            let problem =
                format!("{there} {what} are too few for {}, which needs {needed}: {more}", task.name());
            Err(config_error(key, &problem))
        };
        let Some(shape) = task.shape(self) else {
            let values = Name::Number(self.variables.digits).capacity(self);
            if values < self.variables.chains as u64 {
                return few("variables.digits", "values", values, self.variables.chains, "nearest: 2");
            }
            return Ok(());
        };
        let [keys, values] = capacities(self, shape);
        let longest = self.lengths.iter().copied().max().unwrap_or(0);
        let in_text = match shape.surroundings {
            Surroundings::Needles => longest / (shortest_needle(self, shape) + 1),
            Surroundings::Noise | Surroundings::Text => 0,
        };
        let needed = shape.keys_count + in_text;
        // Half of them are left over, so that drawing different ones ends soon.
        if keys < 2 * needed as u64 && needed > 1 {
            let (key, more) = match shape.keys {
                Form::Uuids => ("uuids.digits", "take more digits"),
                _ => ("words.nouns", "take more nouns or adjectives, shorter `lengths`, or niah_multikey_3"),
            };
            return few(key, "keys", keys, 2 * needed, more);
        }
        let (key, digits) = match shape.values {
            Form::Uuids => ("uuids.digits", self.uuids.digits),
            _ => ("numbers.digits", self.numbers.digits),
        };
        let needed = shape.keys_count * shape.values_count + 1;
        if values < needed as u64 {
            return few(key, "values", values, needed, &format!("nearest: {}", digits + 1));
        }
        Ok(())
    }

    /// Does everything but the haystack fit?
    fn check_lengths(&self, task: RecallTask) -> Result<(), EnvError> {
        let least = bytes_without_haystack(self, task);
        for &length in &self.lengths {
            if !(least..=LENGTH_MAX).contains(&length) {
                let nearest = length.clamp(least, LENGTH_MAX);
                let problem = format!(
                    "{length} is out of range for {}: its question and needles take {least} bytes, and {LENGTH_MAX} are the \
                     most; nearest: {nearest}",
                    task.name()
                );
                return Err(config_error("lengths", &problem));
            }
        }
        Ok(())
    }
}

/// Lists have entries, not too many, and none twice.
fn check_list<T: PartialEq + Display>(key: &str, items: &[T]) -> Result<(), EnvError> {
    if items.is_empty() || items.len() > LIST_MAX {
        let problem = format!("has {} entries: 1 to {LIST_MAX} are allowed", items.len());
        return Err(config_error(key, &problem));
    }
    match items.iter().enumerate().find(|(at, item)| items[..*at].contains(item)) {
        Some((_, twice)) => Err(config_error(key, &format!("{twice} is listed twice"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::read;
    use serde_json::{Value, json};

    fn checked(given: &Value) -> Result<(), String> {
        read::<Config>(given).and_then(|config| config.check()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_cant_be_met_is_named_with_a_value_that_would_do() {
        for (given, expected) in [
            (json!({"tasks": []}), "tasks: has 0 entries: 1 to 64 are allowed"),
            (json!({"tasks": ["vt", "vt"]}), "tasks: vt is listed twice"),
            (json!({"tasks": ["niah"]}), "tasks: unknown variant `niah`"),
            (json!({"depths": [0.5, 1.5]}), "depths: 1.5 is out of range: 0 to 1 are allowed; nearest: 1"),
            (
                json!({"lengths": [10], "tasks": ["niah_single_1"]}),
                "lengths: 10 is out of range for niah_single_1: its question and needles take",
            ),
            (
                json!({"words": {"nouns": 0}}),
                "words.nouns: 0 is out of range: 1 to 96 are allowed; nearest: 1",
            ),
            (
                json!({"words": {"nouns": 2, "adjectives": 0}, "tasks": ["niah_multikey_1"]}),
                "words.nouns: 2 keys are too few for niah_multikey_1, which needs 8: take more nouns",
            ),
            (
                json!({"words": {"nouns": 8, "adjectives": 2}, "tasks": ["niah_multikey_2"], "lengths": [4096]}),
                "words.nouns: 16 keys are too few for niah_multikey_2",
            ),
            (
                json!({"numbers": {"digits": 1}, "needles": {"values": 9}, "tasks": ["niah_multivalue"]}),
                "numbers.digits: 9 values are too few for niah_multivalue, which needs 10: nearest: 2",
            ),
            (
                json!({"variables": {"digits": 20}}),
                "variables.digits: 20 is out of range: 1 to 18 are allowed; nearest: 18",
            ),
            (
                json!({"needles": {"keys": 3, "turns": 4}}),
                "needles.turns: 4 is above needles.keys, which is 3; nearest: 3",
            ),
            (json!({"lenghts": [512]}), "lenghts: unknown field"),
            (json!({"prompt": "long"}), "prompt: unknown variant `long`"),
        ] {
            let found = checked(&given).unwrap_err();
            assert!(found.starts_with(expected), "{given}: {found}");
        }
    }

    #[test]
    fn a_length_that_is_named_as_the_nearest_is_allowed() {
        for task in RecallTask::ALL {
            let error = checked(&json!({"tasks": [task], "lengths": [1]})).unwrap_err();
            let nearest: usize = error.rsplit(' ').next().unwrap().parse().unwrap();
            assert_eq!(checked(&json!({"tasks": [task], "lengths": [nearest]})), Ok(()), "{task:?}");
            assert!(checked(&json!({"tasks": [task], "lengths": [nearest - 1]})).is_err(), "{task:?}");
        }
    }
}
