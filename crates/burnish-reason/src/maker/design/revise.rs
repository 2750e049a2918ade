//! What becomes of a proposal: numbers in their ranges, shares that sum to one, and a record of everything.

use burnish_core::knob::{Knob, KnobKind};
use burnish_core::names::nearest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Proposal;

/// A configuration after a proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    /// The configuration; the one before, to the bit, where nothing was changed.
    pub config: Value,
    /// The keys whose values were changed or asked for.
    pub changes: Vec<Change>,
    /// What could not be taken over.
    pub rejected: Vec<Rejected>,
}

/// The value of a key before and after a proposal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The key.
    pub key: String,
    /// Its value before; `None` if the configuration did not have the key.
    pub was: Option<f64>,
    /// The value that was asked for; `None` for a share that only follows from the others.
    pub asked: Option<f64>,
    /// Its value after.
    pub is: f64,
    /// Why it is not the value that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A part of a proposal that was not taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The key, as it was written.
    pub key: String,
    /// Why.
    pub problem: String,
}

/// `config` with the values of `proposal`: a value out of range becomes the nearest that is in it, a number is rounded
/// where only whole ones make sense, and shares of which one was asked for are scaled to the sum one. Unknown keys, and
/// values that are no finite numbers, are rejected by name; the others count all the same.
pub fn revise(config: &Value, knobs: &[Knob], proposal: &Proposal) -> Revision {
    let mut rejected = Vec::new();
    // The value of each knob that was asked for, and what it became.
    let mut asked: Vec<Option<(f64, f64)>> = vec![None; knobs.len()];
    for (key, value) in &proposal.values {
        match wanted(knobs, key, value) {
            Ok((at, number)) => asked[at] = Some((number, within(&knobs[at], number))),
            Err(problem) => rejected.push(Rejected { key: key.clone(), problem }),
        }
    }
    let mut revised: Vec<Option<f64>> = asked.iter().map(|asked| asked.map(|(_, is)| is)).collect();
    for whole in wholes(knobs, &asked) {
        let share = |at: usize| revised[at].or_else(|| knobs[at].value(config)).unwrap_or(0.0);
        let shares: Vec<(usize, f64)> = whole.iter().map(|&at| (at, share(at))).collect();
        let sum: f64 = shares.iter().map(|(_, share)| share).sum();
        if sum > 0.0 {
            shares.into_iter().for_each(|(at, share)| revised[at] = Some(share / sum));
            continue;
        }
        let of = knobs[whole[0]].of.clone();
        rejected.push(Rejected { key: of, problem: "all shares would be 0".to_owned() });
        whole.iter().for_each(|&at| (revised[at], asked[at]) = (None, None));
    }
    let mut config_after = config.clone();
    let mut changes = Vec::new();
    for (at, knob) in knobs.iter().enumerate() {
        let Some(is) = revised[at] else { continue };
        let was = knob.value(config);
        if was != Some(is) {
            set(&mut config_after, &knob.key, number(knob, is));
        }
        let asked = asked[at];
        if was != Some(is) || asked.is_some() {
            let note = asked.and_then(|(wanted, allowed)| note(knob, wanted, allowed, is));
            let asked = asked.map(|(wanted, _)| wanted);
            changes.push(Change { key: knob.key.clone(), was, asked, is, note });
        }
    }
    Revision { config: config_after, changes, rejected }
}

/// The knob that a key of a proposal means, and the number that is asked for.
fn wanted(knobs: &[Knob], key: &str, value: &Value) -> Result<(usize, f64), String> {
    let Some(at) = knobs.iter().position(|knob| knob.key == key) else {
        let meant = nearest(key, knobs.iter().map(|knob| knob.key.as_str()));
        let meant = meant.map(|key| format!("; did you mean `{key}`?")).unwrap_or_default();
        return Err(format!("no such key can be changed{meant}"));
    };
    match value.as_f64() {
        Some(number) if number.is_finite() => Ok((at, number)),
        _ => Err(format!("{value} is no finite number")),
    }
}

fn within(knob: &Knob, number: f64) -> f64 {
    let number = number.clamp(knob.min, knob.max);
    if knob.kind == KnobKind::Whole { number.round() } else { number }
}

/// The knobs of each whole of which a share was asked for.
fn wholes(knobs: &[Knob], asked: &[Option<(f64, f64)>]) -> Vec<Vec<usize>> {
    let mut wholes: Vec<Vec<usize>> = Vec::new();
    for (at, knob) in knobs.iter().enumerate().filter(|(_, knob)| knob.kind == KnobKind::Share) {
        match wholes.iter_mut().find(|whole| knobs[whole[0]].of == knob.of) {
            Some(whole) => whole.push(at),
            None => wholes.push(vec![at]),
        }
    }
    wholes.retain(|whole| whole.iter().any(|&at| asked[at].is_some()));
    wholes
}

fn note(knob: &Knob, wanted: f64, allowed: f64, is: f64) -> Option<String> {
    if wanted.clamp(knob.min, knob.max) != wanted {
        return Some(format!("out of range: {} to {} are allowed", knob.min, knob.max));
    }
    if allowed != wanted {
        return Some("rounded: a whole number is wanted".to_owned());
    }
    (is != wanted).then(|| "scaled: shares sum to 1".to_owned())
}

fn number(knob: &Knob, value: f64) -> Value {
    match knob.kind {
        KnobKind::Whole => Value::from(value as i64),
        KnobKind::Number | KnobKind::Share => Value::from(value),
    }
}

fn set(config: &mut Value, key: &str, value: Value) {
    let mut place = config;
    for part in key.split('.') {
        if !place.is_object() {
            *place = Value::Object(serde_json::Map::new());
        }
        let Some(table) = place.as_object_mut() else { return };
        place = table.entry(part).or_insert(Value::Null);
    }
    *place = value;
}
