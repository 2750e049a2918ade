use std::collections::BTreeMap;

use burnish_core::{Message, Task, TaskId, Verdict};
use burnish_episode::{Handle, Waited};
use burnish_reason::{Made, MakeKind, Outcome, StrategyConfig, World};
use serde_json::json;

use super::{FromFailures, Like};
use crate::MAKERS;
use crate::testing::{NOWHERE, make, task};

/// Draws tasks of sizes 1 to 4 in turn, each in two colours; the first one drawn is called `x`, as the failed task is.
struct Sizes;

fn of_size(id: &str, size: usize, colour: &str) -> Task {
    let labels = [("size", size.to_string()), ("colour", colour.to_owned())];
    let labels = BTreeMap::from(labels.map(|(label, value)| (label.to_owned(), value)));
    Task { id: TaskId(id.into()), labels, ..task() }
}

impl World for Sizes {
    fn fresh(&self, _: u64, skip: usize, count: usize) -> Result<Vec<Task>, String> {
        let all = (0..40).map(|at| match at {
            0 => of_size("x", 3, "red"),
            at => of_size(&format!("task {at}"), at % 4 + 1, if at % 8 < 4 { "red" } else { "blue" }),
        });
        Ok(all.skip(skip).take(count).collect())
    }

    fn judge(&self, _: &Task, _: &[Message]) -> Result<Verdict, String> {
        Err(NOWHERE.into())
    }

    fn play<'a>(
        &'a self,
        _: &'a Handle,
        _: &'a Task,
        _: &'a StrategyConfig,
    ) -> Waited<'a, Result<Outcome, String>> {
        Box::pin(async { Err(NOWHERE.into()) })
    }
}

/// What is made of a task of size 3 at which this many of four answers succeed: sizes and colours.
fn made(maker: &FromFailures, successes: usize) -> Result<Vec<String>, String> {
    let own = of_size("x", 3, "red");
    let made = make(maker, MakeKind::Tasks, &own, &[0, 1, 2, 3].map(|at| at < successes), &Sizes)?;
    let each = made.into_iter().map(|made| match made {
        Made::Task(fresh) => {
            assert_ne!(fresh.id, own.id, "the failed task itself is never made");
            format!("{} {}", fresh.labels["size"], fresh.labels["colour"])
        }
        other => format!("{other:?}"),
    });
    Ok(each.collect())
}

#[test]
fn a_task_that_fails_gives_others_with_its_labels() {
    let plain = FromFailures::default();
    assert_eq!(made(&plain, 0).unwrap(), ["3 red", "3 red"]);
    assert_eq!(made(&plain, 1).unwrap().len(), 2);
    assert!(made(&plain, 2).unwrap().is_empty(), "it did not fail");
    let by_size = FromFailures { label: vec!["size".into()], per_failure: 3, ..plain.clone() };
    assert_eq!(made(&by_size, 0).unwrap(), ["3 red", "3 blue", "3 red"]);
    // Where too few of those that are looked at are like it, fewer are made.
    assert_eq!(made(&FromFailures { draws: 4, ..plain.clone() }, 0).unwrap(), ["3 red"]);
    let unknown = FromFailures { label: vec!["sise".into()], ..plain };
    assert!(made(&unknown, 0).unwrap_err().contains("no label `sise`; it has: colour, size"));
}

#[test]
fn the_control_makes_as_many_of_any_labels() {
    let control = FromFailures { from: Like::All, ..FromFailures::default() };
    assert_eq!(made(&control, 0).unwrap(), ["2 red", "3 red"]);
    assert!(made(&control, 4).unwrap().is_empty());
}

#[test]
fn settings_out_of_range_are_named() {
    let entry = MAKERS.iter().find(|entry| entry.card.id == "from_failures").unwrap();
    for (config, key) in [
        (json!({ "per_failure": 0 }), "per_failure"),
        (json!({ "draws": 0 }), "draws"),
        (json!({ "success_rate_max": 1.5 }), "success_rate_max"),
        (json!({ "from": "some" }), "from"),
    ] {
        assert_eq!((entry.build)(&config).err().unwrap().key, key);
    }
}
