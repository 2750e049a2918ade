//! The exact reward: its invariants, and where a first fit differs from a matching.

use burnish_worlds::reward::{GoldCall, MadeCall, matched, reward};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

fn gold(name: &str, arguments: Value, masked: &[&str]) -> GoldCall {
    let masked = masked.iter().map(|&name| name.to_owned()).collect();
    GoldCall { name: name.to_owned(), arguments: object(arguments), masked }
}

fn made(name: &str, arguments: Value) -> MadeCall {
    MadeCall { name: name.to_owned(), arguments: object(arguments) }
}

#[test]
fn a_masked_gold_call_does_not_take_the_call_that_a_stricter_one_needs() {
    let gold = [gold("note", json!({ "text": "a" }), &["text"]), gold("note", json!({ "text": "b" }), &[])];
    let made = [made("note", json!({ "text": "b" })), made("note", json!({ "text": "c" }))];
    // The first gold call fits the first call made, so a first fit leaves nothing for the second.
    let first_fit = {
        let mut free = vec![true; made.len()];
        let fits = |gold: &GoldCall, made: &MadeCall| {
            matched(std::slice::from_ref(gold), std::slice::from_ref(made)) == 1
        };
        gold.iter()
            .filter(|gold| {
                let found = (0..made.len()).find(|&at| free[at] && fits(gold, &made[at]));
                found.is_some_and(|at| std::mem::replace(&mut free[at], false))
            })
            .count()
    };
    assert_eq!(first_fit, 1);
    assert_eq!(matched(&gold, &made), 2);
    assert_eq!(reward(&gold, &made, 1.0, 0, 0.5).score, 1.0);
}

#[test]
fn parts_count_as_the_formula_says() {
    let calls = [gold("pay", json!({ "amount": 3, "to": "Bo" }), &[])];
    let right = made("pay", json!({ "to": "Bo", "amount": 3.000_000_1, "memo": "x" }));
    let wrong = made("pay", json!({ "to": "Bo", "amount": 4 }));
    assert_eq!(reward(&calls, std::slice::from_ref(&right), 1.0, 0, 0.5).score, 1.0);
    assert_eq!(reward(&calls, &[right.clone(), wrong.clone()], 1.0, 0, 0.5).score, 0.95);
    assert_eq!(reward(&calls, std::slice::from_ref(&right), 0.0, 0, 0.7).score, 0.7);
    assert_eq!(reward(&calls, &[wrong], 1.0, 0, 0.7).trace, 0.0);
    assert_eq!(reward(&calls, std::slice::from_ref(&right), 1.0, 3, 0.5).score, 1.0 - 0.05 * 3.0);
    // Nothing made: no trace, and no penalty for length.
    assert_eq!(reward(&calls, &[], 1.0, 0, 0.5).score, 0.5);
    // Gold that asks for nothing is still not done by doing nothing, as in the published code.
    assert_eq!(reward(&[], &[], 1.0, 0, 0.5).trace, 0.0);
    let many: Vec<MadeCall> = std::iter::repeat_n(right, 40).collect();
    let capped = reward(&calls, &many, 1.0, 99, 0.5);
    assert_eq!((capped.length, capped.format, capped.score), (0.5, 0.5, 0.0));
}

/// Few names and values, so that calls often fit each other.
fn any_calls() -> impl Strategy<Value = Vec<(u8, u8, u8, bool)>> {
    prop::collection::vec((0..2u8, 0..3u8, 0..3u8, any::<bool>()), 0..6)
}

fn as_gold(calls: &[(u8, u8, u8, bool)]) -> Vec<GoldCall> {
    let call = |&(name, a, b, is_masked): &(u8, u8, u8, bool)| {
        gold(&format!("tool{name}"), json!({ "a": a, "b": b }), if is_masked { &["b"] } else { &[] })
    };
    calls.iter().map(call).collect()
}

fn as_made(calls: &[(u8, u8, u8, bool)]) -> Vec<MadeCall> {
    calls.iter().map(|&(name, a, b, _)| made(&format!("tool{name}"), json!({ "a": a, "b": b }))).collect()
}

/// Whether a call does what a gold call asks for, written down once more.
fn does(gold: &GoldCall, made: &MadeCall) -> bool {
    let mut asked = gold.arguments.iter().filter(|(name, _)| !gold.masked.contains(name));
    gold.name == made.name && asked.all(|(name, value)| made.arguments.get(name) == Some(value))
}

/// The largest number of gold calls with calls of their own, by trying everything.
fn most(gold: &[GoldCall], made: &[MadeCall], taken: &mut Vec<bool>) -> usize {
    let Some((first, rest)) = gold.split_first() else { return 0 };
    let mut best = most(rest, made, taken);
    for at in 0..made.len() {
        if !taken[at] && does(first, &made[at]) {
            taken[at] = true;
            best = best.max(1 + most(rest, made, taken));
            taken[at] = false;
        }
    }
    best
}

/// What a policy may write where an argument is masked; `None` leaves it out.
fn anything() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        Just(None::<Value>),
        Just(Some(Value::Null)),
        any::<bool>().prop_map(|it| Some(json!(it))),
        any::<i64>().prop_map(|it| Some(json!(it))),
        any::<u8>().prop_map(|it| Some(json!(it.to_string()))),
        any::<u8>().prop_map(|it| Some(json!([it]))),
        any::<u8>().prop_map(|it| Some(json!({ "b": it }))),
    ]
}

/// Calls with few names and first arguments, and anything for the second.
fn any_second() -> impl Strategy<Value = Vec<(u8, u8, Option<Value>)>> {
    prop::collection::vec((0..2u8, 0..3u8, anything()), 0..6)
}

fn with_second(calls: &[(u8, u8, Option<Value>)]) -> Vec<MadeCall> {
    let call = |(name, a, b): &(u8, u8, Option<Value>)| {
        let mut call = made(&format!("tool{name}"), json!({ "a": a }));
        call.arguments.extend(b.iter().map(|b| ("b".to_owned(), b.clone())));
        call
    };
    calls.iter().map(call).collect()
}

/// Gold calls whose second argument is masked.
fn masking_second(calls: &[(u8, u8, u8, bool)]) -> Vec<GoldCall> {
    let call = |&(name, a, b, _): &(u8, u8, u8, bool)| {
        gold(&format!("tool{name}"), json!({ "a": a, "b": b }), &["b"])
    };
    calls.iter().map(call).collect()
}

proptest! {
    /// But for the masked argument, two calls do the same or have nothing in common. So all is done if of each kind as many
    /// calls were made as were asked for, or more.
    #[test]
    fn a_masked_argument_may_be_anything_or_be_left_out(asked in any_calls(), calls in any_second()) {
        let of_kind = |kind: (u8, u8)| calls.iter().filter(|&&(name, a, _)| (name, a) == kind).count();
        let is_done = asked.iter().all(|&(name, a, ..)| {
            let as_many = asked.iter().filter(|&&(other, first, ..)| (other, first) == (name, a)).count();
            of_kind((name, a)) >= as_many
        });
        let found = reward(&masking_second(&asked), &with_second(&calls), 1.0, 0, 1.0);
        prop_assert_eq!(found.trace == 1.0, is_done && !calls.is_empty());
    }

    #[test]
    fn gold_calls_are_right_whatever_is_given_for_what_is_masked(
        asked in prop::collection::vec((0..2u8, 0..3u8, 0..3u8, Just(true)), 1..6),
        given in prop::collection::vec(anything(), 6),
    ) {
        let calls: Vec<(u8, u8, Option<Value>)> =
            asked.iter().zip(given).map(|(&(name, a, ..), b)| (name, a, b)).collect();
        let found = reward(&masking_second(&asked), &with_second(&calls), 1.0, 0, 0.5);
        prop_assert_eq!((found.trace, found.score), (1.0, 1.0));
    }

    #[test]
    fn the_matching_is_a_largest_one(gold in any_calls(), made in any_calls()) {
        let (gold, made) = (as_gold(&gold), as_made(&made));
        prop_assert_eq!(matched(&gold, &made), most(&gold, &made, &mut vec![false; made.len()]));
    }

    #[test]
    fn the_order_of_calls_does_not_matter(gold in any_calls(), made in any_calls(), turn in 0..6usize, tau in 0.0..1.0) {
        let (gold, made) = (as_gold(&gold), as_made(&made));
        let mut turned = made.clone();
        if !made.is_empty() {
            turned.rotate_left(turn % made.len());
            turned.reverse();
        }
        prop_assert_eq!(reward(&gold, &made, 0.5, 0, tau), reward(&gold, &turned, 0.5, 0, tau));
    }

    #[test]
    fn scores_are_between_0_and_1_and_gold_is_worth_1(
        gold in any_calls(),
        made in any_calls(),
        state in 0.0..=1.0,
        unreadable in 0..30usize,
        tau in 0.0..=1.0,
    ) {
        let (calls, made) = (as_gold(&gold), as_made(&made));
        let score = reward(&calls, &made, state, unreadable, tau).score;
        prop_assert!((0.0..=1.0).contains(&score));
        if !gold.is_empty() {
            let whole = reward(&calls, &as_made(&gold), 1.0, 0, tau);
            prop_assert!((whole.score - 1.0).abs() < 1e-12);
        }
    }
}
