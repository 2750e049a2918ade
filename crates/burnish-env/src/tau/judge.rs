//! The verdict, as tau2-bench gives it: the product of the parts that a task's basis names.

use std::collections::BTreeMap;

use burnish_core::{FunctionCall, Verdict};

use super::case::{Basis, Case, Gold};
use super::world::{World, writes};

/// Why an episode is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The user has nothing more to say, or is somebody else's.
    ByUser,
    /// The user was answered too often.
    Left,
}

/// What happened in an episode, beside the state of the database.
#[derive(Debug, Clone, Default)]
pub(super) struct Played {
    /// Every call, also those that were refused.
    pub(super) calls: Vec<FunctionCall>,
    /// Everything that the policy said.
    pub(super) said: Vec<String>,
    /// Number of messages to the user.
    pub(super) messages: usize,
    /// Number of those that ask something.
    pub(super) asked: usize,
    pub(super) refused: bool,
    pub(super) transferred: bool,
    pub(super) ended: Option<Ended>,
}

/// The database after the gold calls. One that a tool refuses changes nothing, as in the benchmark.
pub(super) fn gold_world(case: &Case, start: &World) -> World {
    let mut world = start.clone();
    for gold in &case.actions {
        let _refused = world.call(&gold.call()).is_err();
    }
    world
}

/// Whether a text is somewhere in what was said: letters of either size, and without the commas of numbers.
pub(super) fn is_said(info: &str, said: &[String]) -> bool {
    let info = info.to_lowercase();
    // What should be said may itself have commas, which tau-bench's rule would never find.
    let plain = info.replace(',', "");
    said.iter().any(|text| {
        let text = text.to_lowercase();
        text.replace(',', "").contains(&plain)
    })
}

/// The verdict on an episode; `differences` are the records that the gold calls leave otherwise.
pub(super) fn verdict(case: &Case, played: &Played, differences: &[String]) -> Verdict {
    let unsaid: Vec<&String> = case.communicate.iter().filter(|info| !is_said(info, &played.said)).collect();
    let is_made = |gold: &&Gold| played.calls.iter().any(|call| gold.is_made_by(call));
    let missing = case.actions.iter().find(|gold| !is_made(gold));
    let (db, communicate, action) = (differences.is_empty(), unsaid.is_empty(), missing.is_none());
    let parts = [
        (case.counts(Basis::Db), db),
        (case.counts_what_is_said(), communicate),
        (case.counts(Basis::Action), action),
    ];
    // An episode that did not come to its end by itself has failed, as in tau2-bench.
    let success =
        played.ended == Some(Ended::ByUser) && parts.iter().all(|(counts, holds)| !counts || *holds);
    let number = |holds: bool| f64::from(u8::from(holds));
    let mut verdict = Verdict::scored("score", number(success), success);
    for (name, holds) in [("db", db), ("communicate", communicate), ("action", action)] {
        verdict.rewards.insert(name.to_owned(), number(holds));
    }
    verdict.flags = BTreeMap::from([
        ("refused".to_owned(), played.refused),
        ("transferred".to_owned(), played.transferred),
        ("left".to_owned(), played.ended == Some(Ended::Left)),
        ("unfinished".to_owned(), played.ended.is_none()),
        ("unjudged_assertions".to_owned(), case.counts(Basis::Assertion) && case.assertions > 0),
    ]);
    let written = played.calls.iter().filter(|call| writes(case.domain, &call.name)).count();
    verdict.metrics = BTreeMap::from([
        ("calls".to_owned(), played.calls.len() as f64),
        ("writes".to_owned(), written as f64),
        ("messages".to_owned(), played.messages as f64),
        ("asked".to_owned(), played.asked as f64),
    ]);
    verdict.feedback = (!success).then(|| match (differences.first(), unsaid.first(), missing) {
        _ if played.ended.is_none() => "The user was still waiting.".to_owned(),
        _ if played.ended == Some(Ended::Left) => "The user was answered too often, and left.".to_owned(),
        (Some(record), _, _) if parts[0].0 => format!("{record} is not as it should be."),
        (_, Some(info), _) if parts[1].0 => format!("The user was not told `{info}`."),
        (_, _, Some(gold)) => format!("`{}` was not called as it should have been.", gold.name),
        _ => "It was not what the user wanted.".to_owned(),
    });
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_found_with_or_without_commas_and_in_any_case() {
        let said = ["Your total is $1,628.00.".to_owned(), "It is made of Polyester, and cotton".to_owned()];
        for (info, found) in
            [("1628", true), ("1,628", true), ("polyester", true), ("Polyester, and", true), ("1629", false)]
        {
            assert_eq!(is_said(info, &said), found, "{info}");
        }
        assert!(!is_said("x", &[]));
    }
}
