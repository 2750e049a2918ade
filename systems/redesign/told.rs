//! What an engineer is told: statistics in modules that can be left out, never tasks.

use std::fmt::Write;

use burnish_core::knob::{Harder, Knob, KnobKind};
use burnish_reason::design::{Breakdown, Design, Labels, Part, Rates, short};

use super::{Module, Redesign};

/// Parts with the least and the greatest success that a summary names.
const NAMED: usize = 3;

/// Everything that `redesign` tells of `design`.
pub(super) fn text(design: &Design, redesign: &Redesign) -> String {
    let tells = |module| redesign.tells(module);
    let (number, environment, round) = (design.number(), &design.environment, &design.round);
    let mut text = format!(
        "Round {number} in the environment {environment} is over.\n\nThe keys that may change, with their present values:\n"
    );
    for knob in &design.knobs {
        push(&mut text, &key_line(knob, round.values.get(&knob.key).copied()));
    }
    if tells(Module::Breakdown) {
        push(&mut text, "\nResults on the tasks that are held out:");
        push(&mut text, &rates_line("all tasks", &round.evaluation.all));
        for Part { labels, rates } in &round.evaluation.parts {
            push(&mut text, &rates_line(&name(labels), rates));
        }
    }
    if let Some(guideline) = design.guideline.as_ref().filter(|_| tells(Module::Guideline)) {
        push(&mut text, &format!("\nWhat is worth knowing:\n  {guideline}"));
    }
    if tells(Module::History) {
        push(&mut text, "\nThe rounds before:");
        for (at, round) in design.history.iter().enumerate() {
            let values: Vec<String> =
                round.values.iter().map(|(key, value)| format!("{key} = {}", short(*value))).collect();
            let what = format!("round {} with {}", at + 1, values.join(", "));
            push(&mut text, &rates_line(&what, &round.evaluation.all));
        }
        if design.history.is_empty() {
            push(&mut text, "  none");
        }
    }
    if tells(Module::Summary) {
        push(&mut text, &format!("\nSummary:\n  {}", summary(&round.evaluation)));
    }
    if tells(Module::Training) {
        push(&mut text, &format!("\nTraining, {} steps, at first and at last:", round.training.steps));
        for (name, [first, last]) in &round.training.numbers {
            push(&mut text, &format!("  {name}: {} to {}", short(*first), short(*last)));
        }
    }
    text
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

/// What a breakdown says, in two sentences. It is made by a rule, not by a model.
fn summary(breakdown: &Breakdown) -> String {
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
