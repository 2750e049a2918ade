//! Shares of right and wrong answers that the readings `mark` and `last` accept: references of GSM8K and MATH-500 in other
//! forms, the pairs that math-verify judged, and sentences.
//!
//! `BURNISH_READINGS=FILE cargo test --release -p burnish-verify --test readings -- --nocapture` also writes the responses
//! with our verdicts, for `peers/readings.py`, which prints the table of `docs/verifiers.md` with math-verify's.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeMap;

use burnish_verify::{Reading, Verifier};
use common::Dice;
use common::frames::{self, Frame};
use common::rewritings::{integer_perturbations, integer_rewritings, latex_perturbations, latex_rewritings};
use serde_json::{Value, json};

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

/// One response to a reference.
struct Case {
    set: &'static str,
    verifier: Verifier,
    reference: String,
    response: String,
    is_right: bool,
}

/// References in the sentences of `tests/frames/*.txt` and of the worked solutions of GSM8K and MATH.
fn sentences(numbers: &[String], formulas: &[String]) -> Vec<Case> {
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
            let list = if is_number { numbers } else { formulas };
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
    assert!(all.len() >= 2_000, "{} sentences", all.len());
    cases
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
    let verifier = if is_number { Verifier::Number } else { Verifier::Math };
    let set = if frame.is_right && !is_right { "another number" } else { frame.set };
    Case { set, verifier, reference: reference.to_owned(), response, is_right }
}

/// References in other forms, and answers that differ from them.
fn rewritten(
    set: &'static str,
    verifier: Verifier,
    references: &[String],
    forms: impl Fn(&str, &mut Dice) -> (Vec<String>, Vec<String>),
) -> Vec<Case> {
    let of = |(index, reference): (usize, &String)| {
        let (right, wrong) = forms(reference, &mut Dice(index as u64));
        let case =
            |response, is_right| Case { set, verifier, reference: reference.clone(), response, is_right };
        let right = right.into_iter().map(|response| case(response, true)).collect::<Vec<_>>();
        right.into_iter().chain(wrong.into_iter().map(|response| case(response, false))).collect::<Vec<_>>()
    };
    references.iter().enumerate().flat_map(of).collect()
}

/// Indices of pairs that math-verify 0.9.0 judges wrongly: those of the table of `docs/verifiers.md` in which ours is
/// right, and 120 and 129, where `last` is wrong as well.
const MISJUDGED: &[usize] =
    &[3, 15, 26, 34, 41, 42, 43, 46, 47, 52, 55, 71, 93, 94, 96, 100, 103, 110, 113, 120, 128, 129];

fn pairs() -> Vec<Case> {
    let golden: Value = serde_json::from_str(include_str!("golden/math_verify.json")).unwrap();
    let pairs: Vec<(String, String)> = serde_json::from_str(include_str!("peers/pairs.json")).unwrap();
    let theirs = golden["pairs"].as_str().unwrap().chars();
    let case = |(index, ((reference, response), theirs)): (usize, ((String, String), char))| {
        let is_right = (theirs == '1') != MISJUDGED.contains(&index);
        Case { set: "pairs", verifier: Verifier::Math, reference, response, is_right }
    };
    pairs.into_iter().zip(theirs).enumerate().map(case).collect()
}

fn cases() -> Vec<Case> {
    let (numbers, formulas) = references();
    let integers = |reference: &str, dice: &mut Dice| {
        let number = reference.replace(',', "").parse().unwrap();
        (integer_rewritings(number), integer_perturbations(number, dice))
    };
    let whole: Vec<String> =
        numbers.iter().filter(|number| number.replace(',', "").parse::<i64>().is_ok()).cloned().collect();
    let mut cases = rewritten("GSM8K, rewritten", Verifier::Number, &whole, integers);
    let latex = |reference: &str, dice: &mut Dice| {
        (latex_rewritings(reference), latex_perturbations(reference, dice))
    };
    cases.extend(rewritten("MATH-500, rewritten", Verifier::Math, &formulas, latex));
    cases.extend(pairs());
    cases.extend(sentences(&numbers, &formulas));
    cases
}

#[test]
fn readings_accept_the_shares_that_the_docs_give() {
    // Cases, and those accepted by `mark` and by `last`.
    let mut counts: BTreeMap<(&str, bool), [usize; 3]> = BTreeMap::new();
    let mut written = String::new();
    for case in cases() {
        let Ok(gold) = case.verifier.gold(&case.reference) else { panic!("{}", case.reference) };
        let last = gold.judge(&case.response).is_correct;
        let mark = gold.with_reading(Reading::Mark).judge(&case.response).is_correct;
        let count = counts.entry((case.set, case.is_right)).or_default();
        for (count, is_counted) in count.iter_mut().zip([true, mark, last]) {
            *count += usize::from(is_counted);
        }
        written += &json!({"set": case.set, "reference": case.reference, "response": case.response,
            "is_right": case.is_right, "mark": mark, "last": last})
        .to_string();
        written.push('\n');
    }
    if let Some(path) = std::env::var_os("BURNISH_READINGS") {
        std::fs::write(path, written).unwrap();
    }
    let share = |(set, is_right), reading: usize| {
        let [all, ..] = counts[&(set, is_right)];
        100.0 * counts[&(set, is_right)][reading] as f64 / all as f64
    };
    for (key @ (set, is_right), [all, ..]) in &counts {
        let kind = if *is_right { "right" } else { "wrong" };
        println!(
            "{set}: {all} {kind}, accepted by mark {:.1} %, last {:.1} %",
            share(*key, 1),
            share(*key, 2)
        );
    }
    assert!(share(("another number", false), 2) < 0.1);
    let sets = ["GSM8K, rewritten", "MATH-500, rewritten"];
    assert!(sets.iter().all(|set| share((*set, true), 2) > 99.9 && share((*set, false), 2) < 0.1));
    if let Some([all, ..]) = counts.get(&("GSM8K's solutions", true)) {
        assert!(*all > 5_000 && share(("GSM8K's solutions", true), 2) > 99.0);
    }
}
