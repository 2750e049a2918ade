//! What an engineer is told: statistics in modules that can be switched off, never tasks.

use std::collections::BTreeMap;
use std::fmt::Write;

use burnish_env::redesign::{Harder, Knob, KnobKind};
use burnish_recipe::{ContextModule, RedesignSection};
use burnish_rundir::metrics::{self, Row};
use serde::{Deserialize, Serialize};

use super::Breakdown;
use super::breakdown::{Labels, Part, Rates};

/// Parts with the least and the greatest success that a summary names.
const NAMED: usize = 3;

/// What an engineer is told after a round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Context {
    /// The round that is over, from 1.
    pub(crate) round: usize,
    /// Rounds in all.
    pub(crate) rounds: usize,
    /// Id of the environment.
    pub(crate) environment: String,
    /// The keys that may change.
    pub(crate) knobs: Vec<Knob>,
    /// Their present values, where the configuration has them.
    pub(crate) values: BTreeMap<String, f64>,
    pub(crate) breakdown: Option<Breakdown>,
    pub(crate) guideline: Option<String>,
    /// The rounds before this one.
    pub(crate) history: Option<Vec<Past>>,
    pub(crate) summary: Option<String>,
    pub(crate) training: Option<Training>,
}

/// An earlier round.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Past {
    pub(crate) round: usize,
    pub(crate) values: BTreeMap<String, f64>,
    pub(crate) rates: Rates,
}

/// How numbers of the training steps changed over a round: the means over its first and its last fifth.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Steps.
    pub steps: usize,
    /// By the name of the number: the mean at first, and at last.
    pub numbers: BTreeMap<String, [f64; 2]>,
}

/// The numbers that are told.
const NUMBERS: [&str; 6] =
    ["reward", "reward_std", "frac_reward_zero_std", "success", "entropy", "completions/mean_length"];

impl Training {
    /// Of the rows of a run.
    pub(crate) fn of(rows: &[Row]) -> Self {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.event == metrics::TRAIN).collect();
        let part = rows.len().div_ceil(5);
        let mean = |rows: &[&Row], name: &str| {
            let found: Vec<f64> = rows
                .iter()
                .filter_map(|row| row.values.get(name).copied())
                .filter(|number| number.is_finite())
                .collect();
            (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
        };
        let both = |name: &&str| {
            let (first, last) = (mean(&rows[..part], name)?, mean(&rows[rows.len() - part..], name)?);
            Some(((*name).to_owned(), [first, last]))
        };
        Training { steps: rows.len(), numbers: NUMBERS.iter().filter_map(both).collect() }
    }
}

impl Context {
    /// Leaves out what the recipe switches off.
    #[must_use]
    pub(crate) fn restricted(mut self, redesign: &RedesignSection) -> Self {
        let tells = |module| redesign.tells(module);
        self.breakdown = self.breakdown.filter(|_| tells(ContextModule::Breakdown));
        self.guideline = self.guideline.filter(|_| tells(ContextModule::Guideline));
        self.history = self.history.filter(|_| tells(ContextModule::History));
        self.summary = self.summary.filter(|_| tells(ContextModule::Summary));
        self.training = self.training.filter(|_| tells(ContextModule::Training));
        self
    }

    /// The present value of each key that the configuration has; shares as parts of one.
    pub(crate) fn present(&self) -> Vec<(&Knob, f64)> {
        let value = |knob: &Knob| self.values.get(&knob.key).copied();
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

    /// The context as a text.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "Round {} of {} in the environment {} is over.\n\nThe keys that may change, with their present values:\n",
            self.round, self.rounds, self.environment
        );
        for knob in &self.knobs {
            push(&mut text, &key_line(knob, self.values.get(&knob.key).copied()));
        }
        if let Some(breakdown) = &self.breakdown {
            push(&mut text, "\nResults on the tasks that are held out:");
            push(&mut text, &rates_line("all tasks", &breakdown.all));
            for Part { labels, rates } in &breakdown.parts {
                push(&mut text, &rates_line(&name(labels), rates));
            }
        }
        if let Some(guideline) = &self.guideline {
            push(&mut text, &format!("\nWhat is worth knowing:\n  {guideline}"));
        }
        if let Some(history) = &self.history {
            push(&mut text, "\nThe rounds before:");
            for Past { round, values, rates } in history {
                let values: Vec<String> =
                    values.iter().map(|(key, value)| format!("{key} = {}", short(*value))).collect();
                push(&mut text, &rates_line(&format!("round {round} with {}", values.join(", ")), rates));
            }
            if history.is_empty() {
                push(&mut text, "  none");
            }
        }
        if let Some(summary) = &self.summary {
            push(&mut text, &format!("\nSummary:\n  {summary}"));
        }
        if let Some(training) = &self.training {
            push(&mut text, &format!("\nTraining, {} steps, at first and at last:", training.steps));
            for (name, [first, last]) in &training.numbers {
                push(&mut text, &format!("  {name}: {} to {}", short(*first), short(*last)));
            }
        }
        text
    }
}

fn push(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn key_line(knob: &Knob, value: Option<f64>) -> String {
    let mut line = format!("  {} = {}", knob.key, value.map_or_else(|| "none".to_owned(), short));
    let kind = match knob.kind {
        KnobKind::Number => "a number".to_owned(),
        KnobKind::Whole => "a whole number".to_owned(),
        KnobKind::Share => format!("a share of {}; all of them sum to 1", knob.of),
    };
    // A text takes whatever is written to it.
    let _ = write!(line, " ({kind}, {} to {}", short(knob.min), short(knob.max));
    match (knob.kind, knob.harder) {
        (KnobKind::Share, _) | (_, Harder::Unknown) => {}
        (_, Harder::Up) => line.push_str("; more is harder"),
        (_, Harder::Down) => line.push_str("; less is harder"),
    }
    let _ = write!(line, "): {}", knob.help);
    line
}

fn rates_line(what: &str, rates: &Rates) -> String {
    let mut parts = vec![format!("{} tasks", rates.tasks)];
    parts.extend(rates.success.map(|success| format!("success {}", short(success))));
    parts.extend(rates.reward.map(|reward| format!("reward {}", short(reward))));
    parts.extend(rates.flags.iter().map(|(flag, rate)| format!("{flag} {}", short(*rate))));
    format!("  {what}: {}", parts.join(", "))
}

fn name(labels: &Labels) -> String {
    labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// A number to three decimals, without zeros at its end.
pub(crate) fn short(number: f64) -> String {
    let text = format!("{number:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// What a breakdown says, in two sentences. It is made by a rule, not by a model.
pub(crate) fn summary(breakdown: &Breakdown) -> String {
    let mut solved: Vec<(f64, String)> =
        breakdown.parts.iter().filter_map(|part| Some((part.rates.solved()?, name(&part.labels)))).collect();
    solved.sort_by(|one, other| one.0.total_cmp(&other.0));
    let named = |parts: &mut dyn Iterator<Item = &(f64, String)>| -> String {
        parts
            .take(NAMED)
            .map(|(rate, name)| format!("{name} ({})", short(*rate)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut told = Vec::new();
    if !solved.is_empty() {
        told.push(format!(
            "The policy is worst at {} and best at {}.",
            named(&mut solved.iter()),
            named(&mut solved.iter().rev())
        ));
    }
    let mut flags: Vec<(&String, f64)> =
        breakdown.all.flags.iter().map(|(flag, rate)| (flag, *rate)).collect();
    flags.sort_by(|one, other| other.1.total_cmp(&one.1));
    let often: Vec<String> = flags
        .iter()
        .filter(|(_, rate)| *rate > 0.0)
        .take(NAMED)
        .map(|(flag, rate)| format!("{flag} ({})", short(*rate)))
        .collect();
    if !often.is_empty() {
        told.push(format!("What is found most often: {}.", often.join(", ")));
    }
    told.join(" ")
}
