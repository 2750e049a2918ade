//! Keys of a configuration that may be changed by numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A key of an environment's configuration that may change between rounds of training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// Path of the key, with dots: `sizes.3.share`.
    pub key: String,
    /// What its numbers are.
    #[serde(default)]
    pub kind: KnobKind,
    /// Of a share: what it is a share of. The shares of one whole sum to one; they are listed from the easiest tasks to
    /// the hardest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Values to choose from, in ascending order.
    pub menu: Vec<f64>,
    /// The direction in which tasks become harder.
    #[serde(default)]
    pub harder: Harder,
    /// The tasks on which it acts, by labels that all of them have; without labels, all tasks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, String>,
    /// What it does, in a sentence.
    #[serde(default)]
    pub help: String,
}

/// What the numbers of a key are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnobKind {
    /// Any number in the range.
    #[default]
    Number,
    /// A whole number.
    Whole,
    /// A share of [`Knob::of`].
    Share,
}

/// The direction in which tasks become harder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harder {
    /// With greater values; of shares, in the order in which they are listed.
    Up,
    /// With smaller values.
    Down,
    /// Nobody knows.
    #[default]
    Unknown,
}

impl Knob {
    /// Its value in a configuration, if that has the key.
    pub fn value(&self, config: &Value) -> Option<f64> {
        let mut parts = self.key.split('.');
        parts.try_fold(config, |table, part| table.get(part))?.as_f64()
    }

    /// The value of its menu that is `places` after the one nearest to `value`, in the direction of `harder`, or before
    /// it where `places` is negative; the first or last one where the menu ends. `None` if the direction is unknown.
    pub fn moved(&self, value: f64, places: i64) -> Option<f64> {
        let distance = |at: &usize| (self.menu[*at] - value).abs();
        let nearest = (0..self.menu.len()).min_by(|one, other| distance(one).total_cmp(&distance(other)))?;
        let places = match self.harder {
            Harder::Up => places,
            Harder::Down => -places,
            Harder::Unknown => return None,
        };
        let at = (nearest as i64).saturating_add(places).clamp(0, self.menu.len() as i64 - 1);
        Some(self.menu[at as usize])
    }

    /// What is wrong with it as a declaration; `None` if nothing is.
    pub fn problem(&self) -> Option<String> {
        let key = &self.key;
        if key.is_empty() {
            return Some("a key has no name".to_owned());
        }
        if !(self.min.is_finite() && self.max.is_finite() && self.min <= self.max) {
            return Some(format!("`{key}`: `min` must not exceed `max`"));
        }
        let ascends = self.menu.windows(2).all(|pair| pair[0] < pair[1]);
        if self.menu.is_empty() || !ascends {
            return Some(format!("`{key}`: `menu` must list values in ascending order, at least one"));
        }
        if let Some(value) = self.menu.iter().find(|value| !(self.min..=self.max).contains(*value)) {
            return Some(format!("`{key}`: `menu` has {value}, which is not from `min` to `max`"));
        }
        if let Some(value) =
            self.menu.iter().find(|value| self.kind == KnobKind::Whole && value.fract() != 0.0)
        {
            return Some(format!("`{key}`: `menu` has {value}, which is no whole number"));
        }
        (self.kind == KnobKind::Share && self.min < 0.0).then(|| format!("`{key}`: no share is below 0"))
    }
}
