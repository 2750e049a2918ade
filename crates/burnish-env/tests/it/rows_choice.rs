//! Rows that name their own verifier.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Message, Verdict};
use burnish_env::{Generator, build};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::Command;
use tempfile::TempDir;

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new(rows: &[Value]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text: String = rows.iter().map(|row| row.to_string() + "\n").collect();
        std::fs::write(folder.path().join("rows.jsonl"), text).unwrap();
        Fixture { folder }
    }

    fn build(&self, changes: Value) -> Result<Box<dyn Generator>, String> {
        let mut config = json!({"path": "rows.jsonl", "base_dir": self.folder.path()});
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let folder = self.folder.path().display().to_string();
        build("rows", &config).map_err(|error| error.to_string().replace(&folder, "DIR"))
    }
}

/// The verdict on `answer` for each row, by its prompt.
fn judged(generator: &dyn Generator, answer: &str) -> BTreeMap<String, Verdict> {
    let tasks = generator.tasks(1, 3).unwrap().tasks;
    let judged = tasks.iter().map(|task| {
        let mut environment = generator.environment();
        environment.reset(task, 0).unwrap();
        environment.step(&Message::assistant(answer)).unwrap();
        (task.prompt[0].content.clone(), environment.verify().unwrap())
    });
    judged.collect()
}

fn rows() -> [Value; 3] {
    [
        json!({"prompt": "sum", "answer": "18", "kind": "number"}),
        json!({"prompt": "word", "answer": "It makes 18.0 eggs", "kind": "exact"}),
        json!({"prompt": "own", "answer": null, "kind": "code"}),
    ]
}

#[test]
fn every_row_is_judged_by_the_verifier_that_its_column_names() {
    if !Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
        println!("skipped: python3 can't be run");
        return;
    }
    let script = "import json, sys\nfor line in sys.stdin:\n    request = json.loads(line)\n    \
        print(json.dumps({'id': request['id'], 'rewards': {'own': len(request['completion'])}}))\n";
    let fixture = Fixture::new(&rows());
    std::fs::write(fixture.folder.path().join("reward.py"), script).unwrap();
    let verifier = json!({"column": "kind", "map": {"code": {"command": ["python3", "reward.py"]}}});
    let generator = fixture.build(json!({"verifier": verifier})).unwrap();
    let verdicts = judged(&*generator, "It makes 18.0 eggs");
    assert_eq!(verdicts["sum"].rewards, BTreeMap::from([("correct".into(), 1.0)]));
    assert_eq!(verdicts["word"].rewards, BTreeMap::from([("correct".into(), 1.0)]));
    assert_eq!(verdicts["own"].rewards, BTreeMap::from([("own".into(), 18.0)]));
    let verdicts = judged(&*generator, "18");
    assert!(verdicts["sum"].success && !verdicts["word"].success);
    // The configuration kept in a recipe builds the same again.
    let again = build("rows", &generator.config()).unwrap();
    assert_eq!(again.config(), generator.config());
    assert_eq!(judged(&*again, "18")["sum"], verdicts["sum"]);
}

#[test]
fn a_value_may_stand_for_a_built_in_verifier() {
    let fixture = Fixture::new(&rows());
    let map = json!({"code": "abstention", "number": "exact"});
    let error = fixture.build(json!({"verifier": {"column": "kind", "map": map}})).err().unwrap();
    assert!(error.contains("line 3: has no ground truth for the verifier `abstention`"), "{error}");
    let mut rows = rows();
    rows[2]["answer"] = json!("x");
    let fixture = Fixture::new(&rows);
    let generator = fixture.build(json!({"verifier": {"column": "kind", "map": map}})).unwrap();
    assert!(!judged(&*generator, "It is 18.")["sum"].success, "exact, not number");
}

#[test]
fn a_row_without_a_verifier_is_named_and_so_is_a_key_that_cannot_be() {
    let fixture = Fixture::new(&rows());
    let refuse = |verifier: Value, expected: &str| {
        let error = fixture.build(json!({"verifier": verifier})).err().unwrap();
        assert!(error.starts_with(expected), "{error}");
    };
    let mut named = rows();
    named[2]["kind"] = json!("prose");
    let error = Fixture::new(&named).build(json!({"verifier": {"column": "kind"}})).err().unwrap();
    let unknown = "DIR/rows.jsonl, line 3: column `kind`: no verifier is called `prose`; possible is one of number, math";
    assert!(error.starts_with(unknown), "{error}");
    // A program is judged by tests, which these rows do not have.
    refuse(json!({"column": "kind"}), "DIR/rows.jsonl, line 3: has no column `tests`");
    let missing = "DIR/rows.jsonl, line 1: has no column `knd`; the columns are: prompt, answer, kind (`verifier.column`";
    refuse(json!({"column": "knd"}), missing);
    refuse(json!({"map": {}}), "verifier.column: name the column");
    refuse(
        json!({"column": "kind", "map": {"code": {"command": [""]}}}),
        "verifier.map.code.command: name the program",
    );
    refuse(
        json!({"column": "kind", "map": {"code": {"timeout_seconds": 1}}}),
        "verifier.map.code.command: name the",
    );
    let nowhere = json!({"code": {"command": ["no-such-program-anywhere"]}});
    refuse(
        json!({"column": "kind", "map": nowhere}),
        "verifier.map.code.command: `no-such-program-anywhere` can't be",
    );
    let slow = json!({"code": {"command": ["true"], "timeout_seconds": 0}});
    refuse(json!({"column": "kind", "map": slow}), "verifier.map.code.timeout_seconds: 0 is out of range");
    refuse(
        json!({"column": "kind", "map": {"code": "maths"}}),
        "verifier.map: no verifier is called `maths`",
    );
    refuse(
        json!({"column": "kind", "map": {"code": {"column": "a"}}}),
        "verifier.map.code: a column can't send",
    );
    refuse(
        json!({"column": "kind", "command": ["true"]}),
        "configuration: verifier: `column` goes with `map` alone",
    );
    refuse(
        json!({"column": "kind", "workers": 2}),
        "configuration: verifier: `column` goes with `map` alone",
    );
}

#[test]
fn without_a_mark_there_is_no_answer_where_marks_are_asked_for() {
    let rows = rows();
    let fixture = Fixture::new(&rows[..1]);
    let build = |reading: &str| fixture.build(json!({"verifier": "number", "reading": reading}));
    let (last, mark) = (build("last").unwrap(), build("mark").unwrap());
    for (said, by_last, by_mark) in [("It is 18.", true, false), ("<answer>18</answer> of 20", true, true)] {
        assert_eq!(judged(&*last, said)["sum"].success, by_last, "{said}");
        assert_eq!(judged(&*mark, said)["sum"].success, by_mark, "{said}");
    }
    assert!(judged(&*mark, "It is 18.")["sum"].flags["parse_error"]);
    assert_eq!(mark.config()["reading"], "mark");
    let refuse = |changes: Value, expected: &str| {
        let error = fixture.build(changes).err().unwrap();
        assert!(error.starts_with(expected), "{error}");
    };
    let names = "reading: `first` is no reading; there are \"mark\", \"last\" and \"judge\"";
    refuse(json!({"verifier": "number", "reading": "first"}), names);
    assert!(build("judge").unwrap().needs_extractor() && !mark.needs_extractor());
    refuse(
        json!({"verifier": {"command": ["true"]}, "reading": "mark"}),
        "reading: goes with the verifiers number",
    );
}
