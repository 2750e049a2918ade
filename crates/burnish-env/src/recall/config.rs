//! The configuration of the environment.

use std::fmt::Display;

use super::kind::{Form, RecallTask, Surroundings};
use super::needles::{Name, capacities, shortest_needle};
use super::wording::{PromptStyle, bytes_without_haystack};
use super::words::{ADJECTIVES, NOUNS, PEOPLE};
use crate::EnvError;
use crate::family::configuration;
use crate::settings::{at_most, config_error};

configuration! {
    /// Numbers of needles, of the tasks that have several.
    #[derive(Copy, Eq)]
    pub struct Needles {
        /// One of them is asked for.
        keys: usize = 4, in 1..=64, "needles of niah_multikey_1";
        values: usize = 4, in 1..=16, "needles under the key of niah_multivalue";
        queries: usize = 4, in 1..=16, "keys that niah_multiquery asks for";
        /// At most `keys`. One question is RULER's, and the only number in configurations from before there were more.
        #[serde(default = "one")]
        turns: usize = 1, in 1..=64, "keys that niah_multikey_1 asks for, one per turn";
    }
}

fn one() -> usize {
    1
}

configuration! {
    /// Keys that are words: an adjective and a noun.
    #[derive(Copy, Eq)]
    pub struct Words {
        adjectives: usize = ADJECTIVES.len(), in 0..=ADJECTIVES.len(), "adjectives of keys; 0 for nouns alone";
        nouns: usize = NOUNS.len(), in 1..=NOUNS.len(), "nouns of keys";
    }
}

configuration! {
    /// Values that are numbers.
    #[derive(Copy, Eq)]
    pub struct Numbers {
        /// The first is not 0.
        digits: usize = 7, in 1..=18, "digits of a number";
    }
}

configuration! {
    /// Keys and values that are UUIDs.
    #[derive(Copy, Eq)]
    pub struct Uuids {
        /// The first ones of a UUID, which has 32.
        digits: usize = 32, in 2..=32, "hexadecimal digits of a UUID";
    }
}

configuration! {
    /// Chains of variables (`vt`).
    #[derive(Copy, Eq)]
    pub struct Variables {
        /// The first is asked for.
        chains: usize = 1, in 1..=8, "chains of assignments";
        hops: usize = 4, in 0..=16, "assignments of a variable to another in a chain";
        letters: usize = 5, in 2..=8, "letters of a variable's name";
        digits: usize = 5, in 1..=18, "digits of a variable's value";
    }
}

configuration! {
    /// The configuration of recall. The defaults are RULER's sizes, at lengths that play fast.
    pub struct Config {
        tasks: Vec<RecallTask> = RecallTask::ALL.to_vec(), "tasks, as often as each other";
        lengths: Vec<usize> = vec![2048, 4096, 8192], "lengths of a prompt in bytes of UTF-8, as often as each other";
        depths: Vec<f64> = vec![0.0, 0.25, 0.5, 0.75, 1.0], "share of the text before the needle, as often as each other";
        path: String = String::new(), "a file of text for the haystacks; empty for generated sentences";
        vocabulary: usize = PEOPLE.len(), in 1..=PEOPLE.len(), "words of each kind in generated sentences";
        needles: Needles, "numbers of needles";
        words: Words, "keys that are words";
        numbers: Numbers, "values that are numbers";
        uuids: Uuids, "keys and values that are UUIDs";
        variables: Variables, "chains of variables";
        prompt: PromptStyle = PromptStyle::Full, "wording";
    }
}

/// Longest prompt, in bytes.
const LENGTH_MAX: usize = 1 << 24;
/// Most entries of a list.
const LIST_MAX: usize = 64;

impl Config {
    /// Checks what bounds do not express.
    ///
    /// # Errors
    /// Names the first key that contradicts another.
    pub(super) fn check(&self) -> Result<(), EnvError> {
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
        at_most("needles.turns", turns, keys, "needles.keys")?;
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
    use serde_json::{Value, json};

    fn checked(given: &Value) -> Result<(), String> {
        crate::build("recall", given).map(drop).map_err(|error| error.to_string())
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
