//! Configurations of an environment as something that a maker makes: what it knows when a run is over ([`Design`]), how a text
//! becomes a configuration ([`Proposal`], [`revise`]), and what later runs get ([`Configuration`]).
//!
//! ```text
//! Bench::design ─> Design ─> (a maker) ─> text ─> Proposal::read ─> revise ─> Bench::check_config ─> Configuration
//! ```

mod proposal;
mod revise;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests;

use std::collections::BTreeMap;

use burnish_core::knob::{Knob, KnobKind};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use proposal::Proposal;
pub use revise::{Change, Rejected, Revision, revise};

/// Labels with their values.
pub type Labels = BTreeMap<String, String>;

/// What is known of an environment when a run in it is over: statistics, and never a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// Id of the environment.
    pub environment: String,
    /// Its configuration, which the run had.
    pub config: Value,
    /// The keys that may change.
    pub knobs: Vec<Knob>,
    /// What is worth knowing about tasks of the environment, if it says so.
    pub guideline: Option<String>,
    /// What came of the run.
    pub round: Round,
    /// The rounds before it.
    pub history: Vec<Round>,
}

/// What came of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Round {
    /// The values of the keys that may change.
    pub values: BTreeMap<String, f64>,
    /// Why they were chosen; empty where the recipe has them.
    pub reason: String,
    /// Tasks that were played in its training steps, each as often as it was drawn.
    pub played: usize,
    /// What its last evaluation found.
    pub evaluation: Breakdown,
    /// How its training went.
    pub training: Training,
}

/// Rates over all tasks of an evaluation and over parts of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breakdown {
    /// Over all of them.
    pub all: Rates,
    /// By the labels that the tasks of a part share: each value of a label, and the tasks on which a key acts.
    pub parts: Vec<Part>,
}

/// Some tasks of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The labels that they share.
    pub labels: Labels,
    /// What was found.
    pub rates: Rates,
}

/// Rates over some tasks, as evaluations define them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// How many tasks.
    pub tasks: usize,
    /// Rate of success, if the environment reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success: Option<f64>,
    /// Mean reward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// Rate of each flag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: BTreeMap<String, f64>,
}

/// How numbers of the training steps changed over a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Steps.
    pub steps: usize,
    /// By the name of the number: the means over the first and the last fifth of the steps.
    pub numbers: BTreeMap<String, [f64; 2]>,
}

/// A configuration of the environment for later runs, and how it came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Id of the environment.
    pub environment: String,
    /// The configuration, with all of its keys.
    pub config: Value,
    /// Why.
    pub reason: String,
    /// What whoever chose it was told.
    pub told: String,
    /// What was tried, in order. The configuration stays as it was if the last attempt has a problem.
    pub attempts: Vec<Attempt>,
    /// The rounds before it, that of the run that made it last.
    pub history: Vec<Round>,
}

/// One answer of whoever chooses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The answer.
    pub said: String,
    /// The values that it changed or asked for.
    pub changes: Vec<Change>,
    /// What in it could not be taken over.
    pub rejected: Vec<Rejected>,
    /// Why none of it could; `None` if it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Design {
    /// The number of the round that is over, from 1.
    pub fn number(&self) -> usize {
        self.history.len() + 1
    }

    /// The present value of each key that the configuration has; shares as parts of one.
    pub fn present(&self) -> Vec<(&Knob, f64)> {
        let value = |knob: &Knob| self.round.values.get(&knob.key).copied();
        let sum_of = |of: &str| -> f64 {
            let own = self.knobs.iter().filter(|knob| knob.kind == KnobKind::Share && knob.of == of);
            own.filter_map(value).sum()
        };
        let one = |knob| {
            let value = value(knob)?;
            let sum = if knob.kind == KnobKind::Share { sum_of(&knob.of) } else { 1.0 };
            Some((knob, if sum > 0.0 { value / sum } else { value }))
        };
        self.knobs.iter().filter_map(one).collect()
    }
}

impl Breakdown {
    /// The rates of the tasks that have these labels in common; `None` if there are none.
    pub fn at(&self, labels: &Labels) -> Option<&Rates> {
        if labels.is_empty() {
            return Some(&self.all);
        }
        self.parts.iter().find(|part| part.labels == *labels).map(|part| &part.rates)
    }
}

impl Rates {
    /// How well these tasks are solved, from 0 to 1: the rate of success, or the reward.
    pub fn solved(&self) -> Option<f64> {
        self.success.or(self.reward).map(|rate| rate.clamp(0.0, 1.0))
    }
}

/// A number to three decimals, without zeros at its end.
pub fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}
