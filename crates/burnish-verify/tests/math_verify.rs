//! Agreement with math-verify on the model solutions of RealCritic: the disagreements are exactly those that
//! `docs/verifiers.md` lists and judges.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeSet;

use burnish_verify::Verifier;
use serde_json::Value;

/// (index, whether ours accepts): math-verify's verdict is the opposite. Judged one by one in `docs/verifiers.md`.
const MATH: &[(usize, bool)] = &[];
const GSM8K: &[(usize, bool)] = &[];

#[test]
fn disagreements_with_math_verify_are_those_that_are_judged_in_the_docs() {
    let Some(data) = common::shared("realcritic") else { return };
    let golden: Value = serde_json::from_str(include_str!("golden/math_verify.json")).unwrap();
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
        assert_eq!(found, expected.iter().copied().collect(), "{name}");
    }
}
