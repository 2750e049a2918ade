//! Exact match, F1 and ROUGE-L against rouge-score and the evaluation of SQuAD (`golden/qa.py`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use burnish_verify::qa::{Scores, normalised};
use serde_json::Value;

#[test]
fn scores_are_those_of_rouge_score_and_of_squad() {
    let pairs: Vec<Value> = serde_json::from_str(include_str!("golden/qa.json")).unwrap();
    let mut exact = 0;
    for pair in &pairs {
        let [prediction, gold, wanted] =
            ["prediction", "gold", "normalised"].map(|key| pair[key].as_str().unwrap());
        assert_eq!(normalised(prediction), wanted, "{prediction:?}");
        let Scores { exact: same, f1, rouge_l } = Scores::of(prediction, gold);
        for (ours, key) in [(same, "exact"), (f1, "f1"), (rouge_l, "rouge_l")] {
            let theirs = pair[key].as_f64().unwrap();
            assert!(
                (ours - theirs).abs() < 1e-12,
                "{key} of {prediction:?} and {gold:?}: {ours}, not {theirs}"
            );
        }
        exact += usize::from(same == 1.0);
    }
    assert!(pairs.len() == 400 && (50..350).contains(&exact), "{exact} of {} are exact", pairs.len());
}
