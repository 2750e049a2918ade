//! The exact reward of a trajectory of calls (EnvFactory, arXiv:2605.18703, its code):
//!
//! ```text
//! score = max(0, τ trace + (1 − τ) state − P_len − P_fmt)
//! ```
//!
//! `trace` is 1 if every gold call has a call of its own that does the same, `state` the share of the worlds that the gold
//! calls use whose state is the gold state in the end. Calls are matched by a maximum matching: the code takes the first
//! that fits, so that a gold call with masked arguments can take the only call that a stricter one could have had.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A call that should be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldCall {
    /// The tool.
    pub name: String,
    /// What it is given.
    pub arguments: Map<String, Value>,
    /// Arguments that may have any value, or be left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked: Vec<String>,
}

/// A call that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MadeCall {
    /// The tool.
    pub name: String,
    /// What it was given.
    pub arguments: Map<String, Value>,
}

/// What a trajectory is worth, part by part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reward {
    /// The whole, between 0 and 1.
    pub score: f64,
    /// Whether every gold call was made: 0 or 1.
    pub trace: f64,
    /// Share of the worlds used whose state is right.
    pub state: f64,
    /// Off for calls beyond the gold ones.
    pub length: f64,
    /// Off for calls that can't be read.
    pub format: f64,
}

/// Off for each call too many, and for each that can't be read.
const PENALTY: f64 = 0.05;
/// Most that is taken off for either.
const PENALTY_MAX: f64 = 0.5;
/// How far numbers may be apart, as a share of the greater one.
const TOLERANCE: f64 = 1e-6;

/// The reward of the calls in `made`. `state` is the share of the worlds used whose state is right, `unreadable` the number
/// of calls that can't be read, `tau` the weight of the trace.
pub fn reward(gold: &[GoldCall], made: &[MadeCall], state: f64, unreadable: usize, tau: f64) -> Reward {
    let all = !made.is_empty() && matched(gold, made) == gold.len();
    let trace = f64::from(u8::from(all));
    let extra = made.len().saturating_sub(gold.len());
    let length = (PENALTY * extra as f64).min(PENALTY_MAX);
    let format = (PENALTY * unreadable as f64).min(PENALTY_MAX);
    let score = (tau * trace + (1.0 - tau) * state - length - format).max(0.0);
    Reward { score, trace, state, length, format }
}

/// How many gold calls can each have a call of its own that does the same: the size of a maximum matching.
pub fn matched(gold: &[GoldCall], made: &[MadeCall]) -> usize {
    let mut taken = vec![None; made.len()];
    (0..gold.len()).filter(|&at| place(at, gold, made, &mut taken, &mut vec![false; made.len()])).count()
}

/// Finds a call for the gold call `at`, and others for those that have to give theirs up (an augmenting path).
fn place(
    at: usize,
    gold: &[GoldCall],
    made: &[MadeCall],
    taken: &mut [Option<usize>],
    tried: &mut Vec<bool>,
) -> bool {
    for other in 0..made.len() {
        if tried[other] || !fits(&gold[at], &made[other]) {
            continue;
        }
        tried[other] = true;
        let is_free = match taken[other] {
            None => true,
            Some(holder) => place(holder, gold, made, taken, tried),
        };
        if is_free {
            taken[other] = Some(at);
            return true;
        }
    }
    false
}

/// Whether a call does what a gold call does. Further arguments, in any order, are no harm.
fn fits(gold: &GoldCall, made: &MadeCall) -> bool {
    let is_right = |(name, value): (&String, &Value)| {
        gold.masked.contains(name) || made.arguments.get(name).is_some_and(|given| alike(value, given))
    };
    gold.name == made.name && gold.arguments.iter().all(is_right)
}

fn alike(gold: &Value, given: &Value) -> bool {
    match (gold, given) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()),
            _ => a == b,
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        (gold, given) => gold == given,
    }
}
