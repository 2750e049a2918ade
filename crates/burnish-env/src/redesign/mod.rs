//! Configurations that are redesigned between rounds of training: which keys may change ([`Knob`]), how a proposal is
//! read ([`Proposal`]), and what becomes of it ([`revise`]). A proposal changes numbers of a configuration, never tasks,
//! so that their labels stay exact.
//!
//! ```text
//! generator ─> knobs ─> (an engineer) ─> text ─> Proposal::read ─> revise ─> configuration, and what was changed
//! ```

mod proposal;
mod revise;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Bound, EnvError, Generator};

pub use proposal::Proposal;
pub use revise::{Change, Rejected, Revision, revise};

/// A key of a generator's configuration that an engineer may change.
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

/// The keys of a generator's configuration that may change, restricted to `only` where that names some. An environment
/// that declares no such keys has those of its bounds that `only` names: each with its present value, half of it and
/// twice as much for a menu.
///
/// # Errors
/// If a key of `only` is not there, none is left, or a program that should name them does not answer.
pub fn knobs(generator: &dyn Generator, only: &[String]) -> Result<Vec<Knob>, EnvError> {
    let config = generator.config();
    let (all, is_declared) = match generator.redesign() {
        Some(able) => (able.knobs()?, true),
        None => (of_bounds(&generator.bounds(), &config), false),
    };
    let id = generator.id();
    let names = || all.iter().map(|knob| knob.key.as_str()).collect::<Vec<_>>().join(", ");
    if all.is_empty() {
        return Err(EnvError::Failed(format!("the environment {id} has no key that can be redesigned")));
    }
    if !is_declared && only.is_empty() {
        return Err(EnvError::Failed(format!(
            "the environment {id} does not say which of its keys may be redesigned: name them, in `redesign.keys`; \
             there are: {}",
            names()
        )));
    }
    if let Some(unknown) = only.iter().find(|key| all.iter().all(|knob| knob.key != **key)) {
        return Err(EnvError::Failed(format!(
            "the environment {id} has no key `{unknown}` that can be redesigned; there are: {}",
            names()
        )));
    }
    if let Some(problem) = all.iter().find_map(Knob::problem) {
        return Err(EnvError::Failed(format!("the environment {id} declares a key wrongly: {problem}")));
    }
    Ok(all.into_iter().filter(|knob| only.is_empty() || only.contains(&knob.key)).collect())
}

/// Keys out of the bounds of an environment that says no more about them. Rewards are not among them: what is measured
/// must stay what it was.
fn of_bounds(bounds: &[Bound], config: &Value) -> Vec<Knob> {
    let knob = |Bound { key, min, max, help }: &Bound| {
        let mut knob = Knob {
            key: key.clone(),
            kind: KnobKind::Number,
            of: String::new(),
            min: *min,
            max: *max,
            menu: Vec::new(),
            harder: Harder::Unknown,
            tasks: BTreeMap::new(),
            help: help.clone(),
        };
        let value = knob.value(config)?;
        let is_whole = config.pointer(&format!("/{}", key.replace('.', "/")))?.is_u64();
        let near = [value / 2.0, value, value * 2.0].map(|value| value.clamp(*min, *max));
        knob.menu = near.map(|value| if is_whole { value.round() } else { value }).to_vec();
        knob.menu.sort_by(f64::total_cmp);
        knob.menu.dedup();
        knob.kind = if is_whole { KnobKind::Whole } else { KnobKind::Number };
        Some(knob)
    };
    bounds.iter().filter(|bound| !bound.key.starts_with("reward")).filter_map(knob).collect()
}
