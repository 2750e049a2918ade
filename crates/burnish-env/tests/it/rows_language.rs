//! Rows in natural languages: the additional check, LANG's reward, levels and hints.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Message, Task, Validity, Verdict};
use burnish_env::rows::Component;
use burnish_env::{Generator, build};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::TempDir;

/// A question in a language, with its work in two sentences.
const ROWS: [(&str, &str, &str); 4] = [
    (
        "bn",
        "রিনার ৫টি বই ছিল, সে আরও ৩টি কিনল। এখন কয়টি?",
        "রিনার কাছে প্রথমে পাঁচটি বই ছিল। পরে সে আরও তিনটি বই কিনেছে।",
    ),
    (
        "en",
        "Rina had 5 books and bought 3. How many now?",
        "Rina has five books at first. Then she buys three of them.",
    ),
    (
        "sw",
        "Rina alikuwa na vitabu 5, akanunua 3. Sasa ana vingapi?",
        "Rina alikuwa na vitabu vitano kwanza. Kisha alinunua vitabu vitatu zaidi.",
    ),
    ("zh", "丽娜有5本书，又买了3本。现在有几本？", "丽娜一开始有五本书。后来她又买了三本书。"),
];

fn rows() -> String {
    let row = |(code, question, work): (&str, &str, &str)| {
        let work = format!("{work} 5 + 3 = 8. #### 8");
        json!({"question": question, "answer": 8, "language": code, "work": work}).to_string() + "\n"
    };
    ROWS.into_iter().map(row).collect()
}

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn new(rows: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rows.jsonl"), rows).unwrap();
        Fixture { folder }
    }

    fn build(&self, changes: Value) -> Result<Box<dyn Generator>, String> {
        let mut config = json!({
            "path": "rows.jsonl", "base_dir": self.folder.path(), "verifier": "number",
            "columns": {"prompt": "question", "answer": "answer"},
        });
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let folder = self.folder.path().display().to_string();
        build("rows", &config).map_err(|error| error.to_string().replace(&folder, "DIR"))
    }

    /// The generator, and its tasks by language.
    fn spoken(&self, changes: Value) -> (Box<dyn Generator>, BTreeMap<String, Task>) {
        let mut config = json!({"language_key": "language"});
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let generator = self.build(config).unwrap();
        let tasks = generator.tasks(1, ROWS.len()).unwrap().tasks.into_iter();
        let tasks = tasks.map(|task| (task.truth["language"].as_str().unwrap().to_owned(), task)).collect();
        (generator, tasks)
    }
}

fn judge(generator: &dyn Generator, task: &Task, answer: Message) -> Verdict {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    environment.step(&answer).unwrap();
    environment.verify().unwrap()
}

fn work(code: &str) -> &'static str {
    ROWS.iter().find(|(of, ..)| *of == code).unwrap().2
}

#[test]
fn all_is_the_product_of_correct_format_and_language() {
    let fixture = Fixture::new(&rows());
    let components = ["correct", "format", "language", "all"];
    let (generator, tasks) = fixture.spoken(json!({"rewards": components}));
    let (only, _) = fixture.spoken(json!({"rewards": ["all"]}));
    for (code, task) in &tasks {
        for row in 0..8_u8 {
            let [correct, format, language] = [row & 1 == 1, row & 2 == 2, row & 4 == 4];
            let said = work(if language {
                code
            } else if code == "en" {
                "sw"
            } else {
                "en"
            });
            let number = if correct { 8 } else { 9 };
            let text =
                if format { format!("{said} \\boxed{{{number}}}") } else { format!("{said} = {number}") };
            let verdict = judge(&*generator, task, Message::assistant(&text));
            let expected =
                [("correct", correct), ("format", format), ("language", language), ("all", row == 7)];
            for (name, holds) in expected {
                assert_eq!(verdict.rewards[name], f64::from(u8::from(holds)), "{name} in row {row}: {text}");
            }
            assert_eq!(verdict.success, correct);
            let flags = ["format", "language", "all"].map(|name| verdict.flags[name]);
            assert_eq!(flags, [format, language, row == 7]);
            assert_eq!(verdict.flags["language_drift"], !language);
            let alone = judge(&*only, task, Message::assistant(&text));
            assert_eq!(alone.rewards, BTreeMap::from([("all".to_owned(), f64::from(u8::from(row == 7)))]));
        }
    }
}

#[test]
fn an_answer_without_words_keeps_to_no_language_and_has_not_drifted() {
    let (generator, tasks) = Fixture::new(&rows()).spoken(json!({}));
    let verdict = judge(&*generator, &tasks["bn"], Message::assistant("5 + 3 = \\boxed{8}"));
    assert_eq!(verdict.rewards, BTreeMap::from([("correct".to_owned(), 1.0), ("language".to_owned(), 0.0)]));
    assert!(!verdict.flags["language"] && !verdict.flags["language_drift"] && !verdict.flags["all"]);
    assert_eq!(verdict.feedback.as_deref(), Some("read as 8; 0 % is in bn; the language is undecided"));
}

#[test]
fn thoughts_that_are_kept_apart_have_a_language_too() {
    let (generator, tasks) = Fixture::new(&rows()).spoken(json!({}));
    for (thoughts, is_in) in [("bn", true), ("en", false)] {
        let answer = Message {
            reasoning_content: Some(work(thoughts).to_owned()),
            ..Message::assistant(format!("{} \\boxed{{8}}", work("bn")))
        };
        let verdict = judge(&*generator, &tasks["bn"], answer);
        assert!(verdict.success && verdict.flags["language"] == is_in, "{:?}", verdict.feedback);
    }
}

#[test]
fn rows_have_the_labels_that_the_plan_lang_reads() {
    let fixture = Fixture::new(&rows());
    let (_, tasks) = fixture.spoken(json!({}));
    for (code, resource) in [("bn", "low"), ("en", "high"), ("sw", "low"), ("zh", "mid")] {
        assert_eq!((&*tasks[code].labels["language"], &*tasks[code].labels["resource"]), (code, resource));
    }
    // One language for all rows, whatever language they are in.
    let german = fixture.build(json!({"language": "de"})).unwrap();
    let task = &german.tasks(1, 1).unwrap().tasks[0];
    assert_eq!((&*task.labels["language"], &*task.labels["resource"]), ("de", "high"));
    assert_eq!(german.config()["language"], "de");
    // The user's own column takes precedence over ours.
    let rows = rows().replace("{\"question\"", "{\"resource\":\"mine\",\"question\"");
    let (_, tasks) = Fixture::new(&rows).spoken(json!({"label_keys": ["resource"]}));
    assert_eq!(tasks["bn"].labels["resource"], "mine");
}

#[test]
fn without_a_language_verdicts_are_what_they_were() {
    let generator = Fixture::new(&rows()).build(json!({})).unwrap();
    let task = &generator.tasks(1, 1).unwrap().tasks[0];
    let verdict = judge(&*generator, task, Message::assistant("8"));
    let mut expected = Verdict::scored("correct", 1.0, true);
    expected.flags.insert("parse_error".into(), false);
    expected.feedback = Some("read as 8".into());
    assert_eq!(verdict, expected);
    assert!(task.labels.is_empty() && generator.hints().is_none());
}

#[test]
fn reasoning_is_the_column_up_to_the_final_answer() {
    let fixture = Fixture::new(&rows());
    let (generator, tasks) = fixture.spoken(json!({"reasoning_key": "work"}));
    for (code, task) in &tasks {
        assert_eq!(
            generator.hints().unwrap().reasoning(task).unwrap(),
            format!("{} 5 + 3 = 8. ", work(code))
        );
    }
    let said = |text: &str| {
        let row = json!({"question": "5+3?", "answer": 8, "work": text}).to_string();
        let generator = Fixture::new(&row).build(json!({"language": "en", "reasoning_key": "work"}));
        let generator = generator.unwrap();
        generator.hints().unwrap().reasoning(&generator.tasks(1, 1).unwrap().tasks[0])
    };
    for (text, expected) in [
        ("So it is 8.\nThe answer is 8.", Some("So it is 8.\nThe ")),
        ("So \\boxed{8}. Or \\boxed{8}, the answer: 8", Some("So ")),
        ("5 + 3 = 8 <answer>8</answer>", Some("5 + 3 = 8 ")),
        ("It is 8 in all.", Some("It is 8 in all.")),
        ("#### 8", None),
        (" ", None),
    ] {
        assert_eq!(said(text).as_deref(), expected, "{text}");
    }
    let null =
        rows().replace("\"work\":", "\"other\":").replace("{\"question\"", "{\"work\":null,\"question\"");
    let (generator, tasks) = Fixture::new(&null).spoken(json!({"reasoning_key": "work"}));
    assert!(tasks.values().all(|task| generator.hints().unwrap().reasoning(task).is_none()));
}

#[test]
fn rows_and_settings_that_do_not_fit_are_refused_by_line_or_key() {
    let refuse = |rows: &str, changes: Value, expected: &str| {
        let error = Fixture::new(rows).build(changes).err().unwrap();
        assert!(error.contains(expected), "{error}");
    };
    let by_column = || json!({"language_key": "language"});
    let portuguese = rows().replace("\"language\":\"sw\"", "\"language\":\"pt\"");
    refuse(
        &portuguese,
        by_column(),
        "DIR/rows.jsonl, line 3: column `language`: `pt` is no language that can be",
    );
    refuse(&rows(), json!({"language_key": "lang"}), "line 1: has no column `lang`; the columns are: ");
    let drifted = rows().replace(work("sw"), work("en"));
    let hints = json!({"language_key": "language", "reasoning_key": "work"});
    refuse(
        &drifted,
        hints,
        "line 3: column `work`: a hint must be in the row's language, sw, and this is en",
    );
    refuse(&rows(), json!({"reasoning_key": "answer"}), "line 1: column `answer`: must be a text, not 8");
    refuse(&rows(), json!({"reasoning_key": "hint"}), "line 1: has no column `hint`");

    refuse(&rows(), json!({"language": "pt"}), "language: unknown variant `pt`, expected one of `bn`, `de`");
    refuse(
        &rows(),
        json!({"language": "en", "language_key": "language"}),
        "language_key: can't be combined with `language`",
    );
    refuse(&rows(), json!({"rewards": ["all"]}), "rewards: `all` needs the language of the rows");
    refuse(&rows(), json!({"rewards": []}), "rewards: name at least one of \"correct\", \"format\"");
    refuse(&rows(), json!({"language": "en", "rewards": ["all", "all"]}), "none twice");
    let command = || json!({"command": ["true"], "timeout_seconds": 1.0, "startup_seconds": 1.0});
    refuse(
        &rows(),
        json!({"verifier": command(), "language": "en"}),
        "language: goes with the verifiers number, math",
    );
    refuse(
        &rows(),
        json!({"verifier": command(), "rewards": ["correct"]}),
        "rewards: goes with the verifiers",
    );
    refuse(&rows(), json!({"verifier": "abstention", "language_key": "language"}), "language_key: goes with");
    let format = Fixture::new(&rows()).build(json!({"rewards": ["format", "correct"]})).unwrap();
    let task = &format.tasks(1, 1).unwrap().tasks[0];
    let rewards = judge(&*format, task, Message::assistant("\\boxed{9}")).rewards;
    assert_eq!(rewards, BTreeMap::from([("correct".to_owned(), 0.0), ("format".to_owned(), 1.0)]));
    assert_eq!(Component::All.name(), "all");
}

#[test]
fn a_task_whose_row_names_no_language_is_unscored() {
    let (generator, tasks) = Fixture::new(&rows()).spoken(json!({}));
    let mut task = tasks["en"].clone();
    task.truth["language"] = json!("pt");
    let verdict = judge(&*generator, &task, Message::assistant("8"));
    assert!(
        matches!(verdict.validity, Validity::Unscored { reason } if reason.contains("`pt` is no language"))
    );
}
