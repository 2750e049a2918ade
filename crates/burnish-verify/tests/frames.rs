//! Sentences around the references of GSM8K and MATH-500: right answers are accepted, others are not.
//!
//! `BURNISH_FRAMES=FILE cargo test --release -p burnish-verify --test frames` also writes the sentences with our
//! verdicts, for `peers/frames.py`, which adds those of math-verify.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeMap;

use burnish_verify::Verifier;
use common::Dice;
use common::frames::{self, Frame};
use serde_json::json;

/// How many references a sentence is tried with.
const GOLDS: usize = 4;
/// How many sentences are taken from the solutions of each set.
const SOLUTIONS: usize = 1_500;

/// References for when the data sets are missing.
const NUMBERS: &[&str] = &["18", "3", "70000", "540", "64", "2,125", "-5", "0.5", "160", "45"];
const FORMULAS: &[&str] =
    &[r"\frac{3}{4}", r"2\sqrt{3}", "14", r"\left( 3, \frac{\pi}{2} \right)", "x^2+1", "[1,2)", r"6\pi"];

fn references() -> (Vec<String>, Vec<String>) {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let numbers = common::shared("gsm8k").map(|data| {
        let rows = common::lines(&data.join("test.jsonl"));
        rows.iter()
            .map(|row| row["answer"].as_str().unwrap().rsplit("####").next().unwrap().trim().to_owned())
            .collect()
    });
    let formulas = common::shared("math500").map(|data| {
        let rows = common::lines(&data.join("math500.jsonl"));
        rows.iter().map(|row| row["answer"].as_str().unwrap().to_owned()).collect()
    });
    (numbers.unwrap_or_else(|| owned(NUMBERS)), formulas.unwrap_or_else(|| owned(FORMULAS)))
}

/// Whether a reference looks like a number: then words such as "minus 1" after it give another number.
fn is_scalar(reference: &str) -> bool {
    let bare = ["frac", "sqrt", "pi", "dfrac", "left", "right"]
        .iter()
        .fold(reference.to_owned(), |text, name| text.replace(&format!("\\{name}"), ""));
    !bare.contains(|c: char| c.is_alphabetic() || ",()[]=_%^".contains(c))
        && !["0", "1", "-1", "2"].contains(&reference)
}

/// One reference in one sentence.
struct Case {
    set: &'static str,
    verifier: Verifier,
    reference: String,
    response: String,
    is_right: bool,
}

fn cases() -> (usize, Vec<Case>) {
    let (numbers, formulas) = references();
    let mut all = frames::own();
    if let Some(data) = common::shared("gsm8k") {
        all.extend(frames::gsm8k(&data, SOLUTIONS));
    }
    if let Some(data) = common::shared("math") {
        all.extend(frames::math(&data, SOLUTIONS));
    }
    let mut cases = Vec::new();
    for (index, frame) in all.iter().enumerate() {
        let mut dice = Dice(index as u64);
        for turn in 0..GOLDS {
            // Numbers and formulas take turns.
            let is_number = frame.is_number || turn % 2 == 0;
            let list = if is_number { &numbers } else { &formulas };
            let reference = &list[dice.below(list.len() as u64) as usize];
            let other = other_than(reference, &mut dice);
            if frame.is_right || is_scalar(reference) {
                cases.push(case(frame, reference, reference, &other, is_number, frame.is_right));
            }
            // Any sentence is wrong with another number.
            if frame.is_right && turn == 0 {
                cases.push(case(frame, reference, &other, &format!("{other}7"), is_number, false));
            }
        }
    }
    (all.len(), cases)
}

/// A number with other digits than `reference`.
fn other_than(reference: &str, dice: &mut Dice) -> String {
    match reference.replace(',', "").parse::<i64>() {
        Ok(number) => (number + 3 + dice.below(9) as i64).to_string(),
        Err(_) => "97".to_owned(),
    }
}

fn case(frame: &Frame, reference: &str, answer: &str, other: &str, is_number: bool, is_right: bool) -> Case {
    let dressed = |text: &str| {
        let is_bare = is_number || frame.text.contains("\\boxed");
        if is_bare { text.to_owned() } else { format!("${text}$") }
    };
    let response = frame.text.replace("{V}", &dressed(answer)).replace("{N}", &dressed(other));
    let set = match (frame.is_right, is_right) {
        (true, false) if frame.set.starts_with("own") => "own, another number",
        (true, false) => "solutions, another number",
        _ => frame.set,
    };
    let verifier = if is_number { Verifier::Number } else { Verifier::Math };
    Case { set, verifier, reference: reference.to_owned(), response, is_right }
}

#[test]
fn right_sentences_are_accepted_and_wrong_ones_are_not() {
    let (frames, cases) = cases();
    let mut counts: BTreeMap<(bool, &str), (usize, usize)> = BTreeMap::new();
    let mut faults: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut written = String::new();
    for case in &cases {
        let Ok(gold) = case.verifier.gold(&case.reference) else { panic!("{}", case.reference) };
        let judgement = gold.judge(&case.response);
        let count = counts.entry((!case.is_right, case.set)).or_default();
        count.0 += 1;
        if judgement.is_correct != case.is_right {
            count.1 += 1;
            faults
                .entry(case.set)
                .or_default()
                .push(format!("{} | {} | {judgement:?}", case.reference, case.response));
        }
        written += &json!({"set": case.set, "reference": case.reference, "response": case.response,
            "is_right": case.is_right, "ours": judgement.is_correct})
        .to_string();
        written.push('\n');
    }
    if let Some(path) = std::env::var_os("BURNISH_FRAMES") {
        std::fs::write(path, written).unwrap();
    }
    println!("{frames} sentences, {} cases", cases.len());
    for ((is_wrong, set), (count, wrong)) in &counts {
        let share = 100.0 * *wrong as f64 / *count as f64;
        println!(
            "{set}: {wrong} of {count} {} ({share:.2} %)",
            if *is_wrong { "accepted" } else { "rejected" }
        );
    }
    for (set, faults) in &faults {
        for fault in faults.iter().take(12) {
            println!("  {set}: {fault}");
        }
    }
    assert!(frames >= 2_000, "{frames} sentences");
    let total = |is_wrong: bool| {
        let of = counts.iter().filter(|((wrong, _), _)| *wrong == is_wrong);
        of.fold((0, 0), |(count, faults), (_, more)| (count + more.0, faults + more.1))
    };
    for is_wrong in [false, true] {
        let (count, faults) = total(is_wrong);
        assert!(faults * 200 <= count, "{faults} of {count} are judged wrongly");
    }
}
