//! What a run has used and done, in a few words.

use std::path::Path;

use crate::RunError;
use crate::stored::{Session, sessions};
use burnish_recipe::Recipe;
use burnish_rundir::journal::{EpisodeKind, Journal};
use burnish_rundir::metrics::{self, Row};
use burnish_rundir::text::{duration, utc};

/// Names and values, in the order in which they are shown.
pub(super) fn of(
    dir: &Path,
    recipe: &Recipe,
    journal: &Journal,
    rows: &[Row],
) -> Result<Vec<(String, String)>, RunError> {
    let sessions = sessions(dir)?;
    let mut facts = vec![("Time", time(&sessions, rows)), ("Tokens", tokens(rows))];
    if recipe.plays() {
        let (mut trained, mut held_out) = (0, 0);
        for entry in journal.steps()? {
            *(if entry.kind == EpisodeKind::Train { &mut trained } else { &mut held_out }) += entry.episodes;
        }
        facts.push((
            "Episodes",
            Some(format!("{} to learn from, {} to evaluate", grouped(trained), grouped(held_out))),
        ));
    }
    // The latest is where the run is now. Those before it are named only where they differ.
    let last = |of: fn(&Session) -> String| {
        let now = of(sessions.last()?);
        let others: std::collections::BTreeSet<String> =
            sessions.iter().map(of).filter(|other| *other != now).collect();
        let others: String = others.into_iter().map(|other| format!("; before: {other}")).collect();
        Some(now + &others)
    };
    facts.push(("Machine", last(|session| session.machine.told())));
    facts.push(("burnish", last(|session| session.burnish.clone())));
    facts.push(("Begun", sessions.first().map(|session| utc(session.began))));
    Ok(facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// How long processes worked on the run. Runs of earlier versions say only how long their steps took.
fn time(sessions: &[Session], rows: &[Row]) -> Option<String> {
    let steps = total(rows, "step_time");
    // A session that began in the middle of an older run does not know how long the part before took.
    if sessions.first().is_none_or(|first| first.step > 0) {
        return steps.map(|seconds| format!("{} in training steps", duration(seconds)));
    }
    let all = duration(sessions.iter().map(|session| session.seconds).sum());
    let often = if sessions.len() > 1 { format!(" in {} sessions", sessions.len()) } else { String::new() };
    let steps = steps.map(|seconds| format!(", {} of it in training steps", duration(seconds)));
    Some(format!("{all}{often}{}", steps.unwrap_or_default()))
}

fn tokens(rows: &[Row]) -> Option<String> {
    let parts = [("tokens/sampled", "sampled"), ("tokens/trained", "trained on")];
    let told: Vec<String> = parts
        .iter()
        .filter_map(|(name, what)| Some(format!("{} {what}", short(total(rows, name)?))))
        .collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// The sum of a number over all training steps; `None` if none has it.
fn total(rows: &[Row], name: &str) -> Option<f64> {
    let trained = rows.iter().filter(|row| row.event == metrics::TRAIN);
    let numbers = trained.filter_map(|row| row.values.get(name).copied().filter(|number| number.is_finite()));
    numbers.reduce(|sum, number| sum + number)
}

/// A count to three digits: `812`, `34.5 k`, `1.2 M`.
fn short(count: f64) -> String {
    let (number, unit) = match count {
        count if count < 1e4 => return grouped(count as usize),
        count if count < 1e6 => (count / 1e3, "k"),
        count if count < 1e9 => (count / 1e6, "M"),
        count => (count / 1e9, "G"),
    };
    let decimals = if number < 10.0 { 2 } else { usize::from(number < 100.0) };
    format!("{number:.decimals$} {unit}")
}

/// A count with a comma before every three digits.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let first = digits.len() % 3;
    let mut parts: Vec<&str> = (first..digits.len()).step_by(3).map(|at| &digits[at..at + 3]).collect();
    if first > 0 {
        parts.insert(0, &digits[..first]);
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::Machine;

    #[test]
    fn counts_are_short() {
        for (count, text) in [
            (7, "7"),
            (812, "812"),
            (1234, "1,234"),
            (34_567, "34.6 k"),
            (345_678, "346 k"),
            (1_234_567, "1.23 M"),
        ] {
            assert_eq!(short(f64::from(count)), text);
        }
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn time_is_told_over_all_sessions_where_all_are_known() {
        let session = |step, seconds| Session {
            began: 0,
            step,
            seconds,
            burnish: "0".into(),
            machine: Machine::default(),
        };
        let values = [("step_time".to_owned(), 30.0)].into();
        let rows = [Row { step: 1, event: metrics::TRAIN.into(), values }];
        let told = |sessions: &[Session]| time(sessions, &rows).unwrap_or_default();
        assert_eq!(told(&[session(0, 40.0)]), "40 s, 30 s of it in training steps");
        assert_eq!(
            told(&[session(0, 40.0), session(1, 30.0)]),
            "1 min 10 s in 2 sessions, 30 s of it in training steps"
        );
        assert_eq!(told(&[session(5, 40.0)]), "30 s in training steps");
        assert_eq!(told(&[]), "30 s in training steps");
    }
}
