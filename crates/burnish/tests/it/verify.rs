//! `burnish verify` on pairs from the command line and from files.

use crate::common::Scratch;
use serde_json::Value;

#[test]
fn a_pair_is_judged_with_its_reading_of_both_sides() {
    let scratch = Scratch::new();
    let said = scratch
        .burnish(&[
            "verify",
            "math",
            "--gold",
            r"\frac12",
            "The answer is therefore 0.5.",
            "at least 1/2",
            "-0.5",
        ])
        .succeeds()
        .stdout();
    for expected in [
        "response 1: correct",
        "reference  1/2",
        "answer     0.5",
        "the sentence that names the answer",
        "response 2: unreadable",
        "no single answer",
        "response 3: different",
        "1 of 3 correct, 1 different, 1 unreadable, 0 without an answer",
    ] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
}

#[test]
fn a_file_is_judged_row_by_row() {
    let scratch = Scratch::new();
    let rows = [
        r#"{"response": "So she makes $18.", "answer": "9 * 2 = 18\n#### 18"}"#,
        r#"{"response": [{"role": "assistant", "content": "It is not 18."}], "answer": 18}"#,
        r#"{"response": "", "answer": "18"}"#,
        r#"{"response": "7 dozen", "answer": "84"}"#,
    ];
    scratch.write("rows.jsonl", rows.join("\n"));
    let said = scratch.burnish(&["verify", "number", "--data", "rows.jsonl"]).succeeds().stdout();
    assert!(said.contains("line 1: correct") && said.contains("line 2: unreadable"), "{said}");
    assert!(said.contains("2 of 4 correct, 0 different, 1 unreadable, 1 without an answer"), "{said}");
    let said = scratch.burnish(&["verify", "number", "--data", "rows.jsonl", "--json"]).succeeds().stdout();
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[0]["reason"], "correct");
    assert_eq!((&lines[0]["reference"], &lines[0]["answer"]), (&Value::from("18"), &Value::from("18")));
    assert_eq!(lines[4]["summary"]["correct"], 2);
}

#[test]
fn columns_can_be_named_and_errors_say_where() {
    let scratch = Scratch::new();
    scratch.write("rows.jsonl", "{\"said\": {\"text\": \"B\"}, \"right\": \"B\"}\n{\"said\": {\"text\": \"B\"}, \"right\": \"no letter\"}");
    scratch.burnish(&["verify", "choice", "--data", "rows.jsonl"]).fails_with(&[
        "rows.jsonl, line 1",
        "--response-column",
        "`said`",
    ]);
    let named =
        ["verify", "choice", "--data", "rows.jsonl", "--response-column", "said.text", "--gold-column"];
    let with = |gold: &'static str| named.iter().copied().chain([gold]).collect::<Vec<_>>();
    scratch.burnish(&with("right")).fails_with(&["rows.jsonl, line 2", "no letter", "use `text`"]);
    scratch.burnish(&with("wrong")).fails_with(&["line 1", "`wrong`", "`right`"]);
    scratch.burnish(&["verify", "number", "--gold", "x", "1"]).fails_with(&["not one number"]);
}
