//! Agreement with math-verify on the model solutions of RealCritic and on made-up pairs, and with RealCritic's own
//! marks: the disagreements are exactly those that `docs/verifiers.md` lists and judges.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeSet;

use burnish_verify::Verifier;
use serde_json::Value;

/// (index, whether burnish accepts): math-verify's verdict is the opposite. Judged one by one in `docs/verifiers.md`.
const MATH: &[(usize, bool)] = &[];
const GSM8K: &[(usize, bool)] = &[];

#[test]
fn disagreements_with_math_verify_are_those_that_are_judged_in_the_docs() {
    let Some(data) = common::shared("realcritic") else { return };
    let golden: Value = serde_json::from_str(include_str!("golden/math_verify.json")).unwrap();
    let mut all_found = Vec::new();
    for (name, verifier, expected) in [("math", Verifier::Math, MATH), ("gsm8k", Verifier::Number, GSM8K)] {
        let rows = common::lines(&data.join(format!("{name}.jsonl")));
        let theirs: Vec<bool> =
            golden["verdicts"][name].as_str().unwrap().chars().map(|mark| mark == '1').collect();
        assert_eq!(rows.len(), theirs.len(), "the golden file is of other data");
        let mut found = BTreeSet::new();
        for (index, (row, theirs)) in rows.iter().zip(theirs).enumerate() {
            let gold = verifier.gold(row["gt"].as_str().unwrap()).unwrap();
            let judgement = gold.judge(row["reasoning"].as_str().unwrap());
            if judgement.is_correct != theirs {
                println!("{name} {index}: reference {}, ours {judgement:?}", row["gt"]);
                found.insert((index, judgement.is_correct));
            }
        }
        println!("{name}: {} of {} agree", rows.len() - found.len(), rows.len());
        all_found.push((name, found, expected.iter().copied().collect::<BTreeSet<_>>()));
    }
    for (name, found, expected) in all_found {
        assert_eq!(found, expected, "{name}");
    }
}

/// Indices of pairs where math-verify says the opposite of ours; `docs/verifiers.md` has them in a table.
const PAIRS: &[usize] =
    &[3, 8, 15, 26, 28, 34, 41, 42, 43, 46, 47, 52, 55, 71, 93, 94, 96, 100, 103, 110, 113, 115, 128];

#[test]
fn made_up_pairs_differ_from_math_verify_only_where_the_docs_say() {
    let golden: Value = serde_json::from_str(include_str!("golden/math_verify.json")).unwrap();
    let pairs: Vec<(String, String)> = serde_json::from_str(include_str!("peers/pairs.json")).unwrap();
    let theirs = golden["pairs"].as_str().unwrap();
    assert_eq!(pairs.len(), theirs.len(), "the golden file is of other pairs");
    let mut found = Vec::new();
    for (index, ((reference, response), theirs)) in pairs.iter().zip(theirs.chars()).enumerate() {
        let judgement = Verifier::Math.gold(reference).unwrap().judge(response);
        if judgement.is_correct != (theirs == '1') {
            println!(
                "{index}: {reference} | {response} | ours {} {:?}",
                judgement.is_correct, judgement.reason
            );
            found.push(index);
        }
    }
    assert_eq!(found, PAIRS);
}

/// Rows where RealCritic's own mark of the solution differs from ours, all judged in `docs/verifiers.md`.
const LABELS: &[(&str, Verifier, &[usize])] = &[
    ("math", Verifier::Math, &[245]),
    ("gsm8k", Verifier::Number, &[]),
    ("arc-challenge", Verifier::Choice, &[9, 27, 121]),
    (
        "mmlu_stem",
        Verifier::Choice,
        &[12, 13, 16, 19, 24, 41, 65, 67, 75, 83, 87, 96, 111, 117, 135, 139, 181, 263, 269, 289, 291],
    ),
];

#[test]
fn the_marks_of_realcritic_differ_only_where_the_docs_say() {
    let Some(data) = common::shared("realcritic") else { return };
    let mut all_found = Vec::new();
    for (name, verifier, expected) in LABELS {
        let mut found = Vec::new();
        for (index, row) in common::lines(&data.join(format!("{name}.jsonl"))).iter().enumerate() {
            let judgement =
                verifier.gold(row["gt"].as_str().unwrap()).unwrap().judge(row["reasoning"].as_str().unwrap());
            if judgement.is_correct != row["previous_score"][0].as_bool().unwrap() {
                println!(
                    "{name} {index}: reference {}, theirs {}, ours {judgement:?}",
                    row["gt"], row["pred"]
                );
                found.push(index);
            }
        }
        all_found.push((name, found, *expected));
    }
    for (name, found, expected) in all_found {
        assert_eq!(found, expected, "{name}");
    }
}
