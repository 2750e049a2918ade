//! External verifiers: their answers, and every way in which they fail.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Message, Task, Validity, Verdict};
use burnish_env::{EnvError, Environment, Generator, build};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// A verifier that answers what each completion tells it to.
const ORDERED: &str = r#"
import json, os, sys, time
print("started", file=sys.stderr)
for line in sys.stdin:
    request = json.loads(line)
    order = request["completion"]
    answer = {"id": request["id"], "reward": 1.0}
    if order == "crash":
        raise ValueError("no such reward")
    elif order == "hang":
        time.sleep(600)
    elif order == "garbage":
        print("loading model ...")
    elif order == "wrong id":
        answer["id"] += 1
    elif order == "nan":
        answer["reward"] = float("nan")
    elif order == "nothing":
        del answer["reward"]
    elif order == "pid":
        answer["feedback"] = str(os.getpid())
    elif order == "echo":
        answer["feedback"] = json.dumps(request)
    elif order == "last":
        print(json.dumps(answer))
        sys.exit(0)
    elif order == "binary":
        sys.stdout.buffer.write(b"\xff\xfe\n")
    print(json.dumps(answer))
"#;

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// A folder with a data file and a verifier; if there is no Python, prints that and returns `None`.
    fn new(script: &str) -> Option<Self> {
        if Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
            let folder = tempfile::tempdir().unwrap();
            let rows: String =
                (0..5).map(|n| format!("{{\"prompt\": \"question {n}\", \"answer\": {n}}}\n")).collect();
            std::fs::write(folder.path().join("data.jsonl"), rows).unwrap();
            std::fs::write(folder.path().join("reward.py"), script).unwrap();
            Some(Fixture { folder })
        } else {
            println!("skipped: python3 can't be run");
            None
        }
    }

    fn config(&self) -> Value {
        json!({
            "path": "data.jsonl",
            "base_dir": self.folder.path(),
            "verifier": {"command": ["python3", "reward.py"], "timeout_seconds": 60.0},
        })
    }

    fn generator(&self) -> Box<dyn Generator> {
        build("rows", &self.config()).unwrap()
    }

    /// A generator whose verifier must be quick.
    fn impatient(&self) -> Box<dyn Generator> {
        let mut config = self.config();
        config["verifier"]["timeout_seconds"] = json!(0.3);
        build("rows", &config).unwrap()
    }
}

fn task(generator: &dyn Generator) -> Task {
    generator.tasks(0, 1).unwrap().tasks.remove(0)
}

fn play(environment: &mut dyn Environment, task: &Task, answer: &str) -> Verdict {
    environment.reset(task, 0).unwrap();
    environment.step(&Message::assistant(answer)).unwrap();
    environment.verify().unwrap()
}

fn judge(generator: &dyn Generator, answer: &str) -> Verdict {
    play(&mut *generator.environment(), &task(generator), answer)
}

fn unscored_reason(verdict: Verdict) -> String {
    match verdict.validity {
        Validity::Unscored { reason } => reason,
        Validity::Scored => panic!("the episode was scored"),
    }
}

#[test]
fn the_verifier_gets_the_row_and_the_conversation_and_its_reward_is_the_verdict() {
    let Some(fixture) = Fixture::new(ORDERED) else { return };
    let generator = fixture.generator();
    let verdict = judge(&*generator, "echo");
    assert!(verdict.is_scored() && verdict.success);
    assert_eq!(verdict.rewards["reward"], 1.0);
    let request: Value = serde_json::from_str(&verdict.feedback.unwrap()).unwrap();
    let task = task(&*generator);
    assert_eq!(request["task"], task.truth);
    assert_eq!(request["prompt"], json!([{"role": "user", "content": task.truth["prompt"]}]));
    assert_eq!(request["completion"], "echo");
    assert_eq!(request["answer"], task.truth["answer"].to_string());
    assert_eq!(request["messages"][1], json!({"role": "assistant", "content": "echo"}));
}

#[test]
fn all_environments_share_one_process() {
    let Some(fixture) = Fixture::new(ORDERED) else { return };
    let generator = fixture.generator();
    let pid = |generator: &dyn Generator| judge(generator, "pid").feedback.unwrap();
    assert_eq!(pid(&*generator), pid(&*generator));
}

#[test]
fn every_failure_is_unscored_with_its_reason_and_the_next_episode_is_judged() {
    let Some(fixture) = Fixture::new(ORDERED) else { return };
    let generator = fixture.generator();
    for (order, expected) in [
        ("crash", "ended without an answer; its stderr ends:\nstarted"),
        ("crash", "ValueError: no such reward"),
        ("garbage", "only answers may go to stdout: loading model"),
        ("garbage", "its stderr ends:\nstarted"),
        ("wrong id", "answers request"),
        ("nan", "not finite"),
        ("nothing", "has neither `reward` nor `rewards`"),
        ("binary", "is not UTF-8"),
    ] {
        let reason = unscored_reason(judge(&*generator, order));
        assert!(reason.contains(expected), "{order}: {reason}");
        assert!(judge(&*generator, "fine").is_scored(), "after {order}");
    }
}

#[test]
fn a_verifier_that_hangs_is_killed_after_its_time() {
    let Some(fixture) = Fixture::new(ORDERED) else { return };
    let generator = fixture.impatient();
    let pid = judge(&*generator, "pid").feedback.unwrap();
    let reason = unscored_reason(judge(&*generator, "hang"));
    assert!(reason.starts_with("the verifier gave no answer within 0.3 s"), "{reason}");
    assert!(!is_running(&pid));
    assert!(judge(&*generator, "fine").is_scored());
}

#[test]
fn a_verifier_that_never_reads_cannot_block_us() {
    let Some(fixture) = Fixture::new("import time\ntime.sleep(600)\n") else { return };
    let mut config = fixture.config();
    config["verifier"]["timeout_seconds"] = json!(0.2);
    config["verifier"]["startup_seconds"] = json!(0.0);
    let generator = build("rows", &config).unwrap();
    // More than a pipe can hold.
    let reason = unscored_reason(judge(&*generator, &"x".repeat(1 << 20)));
    assert!(reason.contains("no answer within 0.2 s"), "{reason}");
}

#[test]
fn a_verifier_that_ended_after_its_answer_is_started_again() {
    if !has_proc() {
        return;
    }
    let Some(fixture) = Fixture::new(ORDERED) else { return };
    let generator = fixture.generator();
    let pid = judge(&*generator, "pid").feedback.unwrap();
    assert!(judge(&*generator, "last").is_scored());
    while is_running(&pid) {
        std::thread::yield_now();
    }
    assert!(judge(&*generator, "fine").is_scored());
}

#[test]
fn the_process_and_its_children_end_with_the_generator() {
    if !has_proc() {
        return;
    }
    let script = "import json, subprocess, sys\n\
        child = subprocess.Popen(['sleep', '600'])\n\
        for line in sys.stdin:\n    \
        print(json.dumps({'id': json.loads(line)['id'], 'reward': 0, 'feedback': str(child.pid)}))\n";
    let Some(fixture) = Fixture::new(script) else { return };
    let generator = fixture.generator();
    let verdict = judge(&*generator, "");
    assert!(verdict.is_scored() && !verdict.success);
    let child = verdict.feedback.unwrap();
    assert!(is_running(&child));
    drop(generator);
    for _ in 0..1_000 {
        if !is_running(&child) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("the verifier's child {child} still runs");
}

fn has_proc() -> bool {
    let has_proc = Path::new("/proc/self/stat").exists();
    if !has_proc {
        println!("skipped: there is no /proc to see processes in");
    }
    has_proc
}

/// Is the process alive, and not just a zombie?
fn is_running(pid: &str) -> bool {
    let state = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    state
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next())
        .is_some_and(|s| s != "Z" && s != "X")
}

#[test]
fn a_command_that_cannot_be_started_is_an_error_at_once() {
    let Some(fixture) = Fixture::new(ORDERED) else { return };
    let mut config = fixture.config();
    config["verifier"]["command"] = json!(["no-such-program-anywhere", "reward.py"]);
    let error = build("rows", &config).err().unwrap();
    assert!(matches!(&error, EnvError::Config { key, .. } if key == "verifier.command"), "{error}");
    assert!(error.to_string().contains("`no-such-program-anywhere reward.py` can't be started"), "{error}");
}

#[test]
fn building_a_generator_starts_nothing() {
    let Some(fixture) = Fixture::new("open('started', 'w').close()\nprint('x')\n") else { return };
    let generator = fixture.generator();
    let task = task(&*generator);
    let started = fixture.folder.path().join("started");
    assert!(!started.exists());
    play(&mut *generator.environment(), &task, "");
    assert!(started.exists());
}

#[test]
fn several_files_of_all_kinds_are_one_set_of_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let row = |text: &str| json!({"prompt": text, "completion": "a"}).to_string();
    std::fs::write(folder.path().join("one.jsonl"), row("one")).unwrap();
    let parquet = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../burnish-data/tests/golden/datasets_preference.parquet");
    let config = |path: Value| json!({"path": path, "base_dir": folder.path()});
    let error = build("rows", &config(json!(["one.jsonl", parquet]))).err().unwrap().to_string();
    assert!(error.contains("preference.parquet, row 1: has no answer to imitate"), "{error}");
    std::fs::write(folder.path().join("two.jsonl"), row("two") + "\n" + &row("three")).unwrap();
    let generator = build("rows", &config(json!(["one.jsonl", "two.jsonl"]))).unwrap();
    let set = generator.tasks(0, 6).unwrap();
    assert_eq!(set.cells.iter().map(|cell| cell.made).collect::<Vec<_>>(), [2, 4]);
    let (file, row) = generator.rows().unwrap().row(&set.tasks[0]).unwrap();
    assert!(file == set.tasks[0].labels["file"] && row.prompt == set.tasks[0].prompt);
}

#[test]
fn a_program_beside_the_recipe_is_found_by_its_relative_path() {
    let Some(fixture) = Fixture::new(ORDERED) else { return };
    let program = fixture.folder.path().join("judge");
    std::fs::write(&program, format!("#!/usr/bin/env python3\n{ORDERED}")).unwrap();
    let mut config = fixture.config();
    config["verifier"]["command"] = json!(["./judge"]);
    // Not executable yet.
    assert!(build("rows", &config).err().unwrap().to_string().contains("can't be started"));
    assert!(Command::new("chmod").arg("+x").arg(&program).status().unwrap().success());
    assert!(judge(&*build("rows", &config).unwrap(), "fine").is_scored());
}

#[test]
fn rows_are_handed_out_shuffled_and_come_again_in_another_order() {
    let Some(fixture) = Fixture::new(ORDERED) else { return };
    let generator = fixture.generator();
    let answers = |seed, count| -> Vec<u64> {
        let set = generator.tasks(seed, count).unwrap();
        set.tasks.iter().map(|task| task.truth["answer"].as_u64().unwrap()).collect()
    };
    let twenty = answers(1, 20);
    assert_eq!(twenty[..7], answers(1, 7));
    assert_ne!(twenty, answers(2, 20));
    for epoch in twenty.chunks(5) {
        let mut sorted = epoch.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
    }
    assert!(twenty.chunks(5).any(|epoch| epoch != &twenty[..5]));
}

#[test]
fn rows_with_answers_to_imitate_need_no_verifier_and_are_unscored() {
    let folder = tempfile::tempdir().unwrap();
    let row = json!({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]});
    std::fs::write(folder.path().join("chat.jsonl"), row.to_string()).unwrap();
    let generator = build("rows", &json!({"path": folder.path().join("chat.jsonl")})).unwrap();
    assert_eq!(
        generator.demonstrations().unwrap().demonstrate(&task(&*generator)),
        Some(Message::assistant("a"))
    );
    assert!(unscored_reason(judge(&*generator, "x")).contains("no verifier is set"));
}

#[test]
fn a_configuration_that_cannot_work_is_refused_by_key() {
    let refuse = |config: Value, expected: &str| {
        let error = build("rows", &config).err().unwrap().to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    refuse(Value::Null, "path: name the file with the tasks");
    refuse(json!({"path": 3}), "path: invalid type: integer `3`, expected a path or a list of paths");
    let possible = "verifier: no verifier is called `oracle`; possible is one of number, math,";
    refuse(json!({"path": "x", "verifier": "oracle"}), possible);
    refuse(
        json!({"path": "x", "columns": {"promt": "q"}}),
        "columns: unknown field `promt`, expected one of",
    );
    refuse(json!({"path": "x", "verifier": {"command": [""]}}), "verifier.command: name the program");
    refuse(json!({"path": "x", "verifier": {"command": "python3"}}), "verifier.command: invalid type");
    refuse(json!({"path": "x", "verifier": {"timeout_seconds": 0}}), "verifier.timeout_seconds: 0 is out");
    refuse(json!({"path": "x", "verifier": {"timeout": 1}}), "verifier.timeout: unknown field");
}

#[test]
fn a_drawing_shows_the_conversation_and_the_judgement() {
    let Some(fixture) = Fixture::new(ORDERED) else { return };
    let generator = fixture.generator();
    let task = task(&*generator);
    assert!(generator.draw(&task, None).starts_with("user: question "));
    assert!(generator.draw(&task, Some("fine")).ends_with("assistant: fine\njudged: reward 1"));
    assert!(
        generator
            .draw(&task, Some("nothing"))
            .contains("judged: unscored (the verifier's answer has neither")
    );
}

#[test]
fn a_built_in_verifier_compares_with_the_ground_truth_of_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gsm.jsonl");
    std::fs::write(&path, "{\"question\": \"6 x 3?\", \"answer\": \"6 x 3 = 18 <<6*3=18>>\\n#### 18\"}\n")
        .unwrap();
    let config = json!({
        "path": path, "columns": {"prompt": "question", "answer": "answer"}, "verifier": "number"
    });
    let generator = build("rows", &config).unwrap();
    assert_eq!(generator.config()["verifier"], "number", "the name is kept");
    let right = judge(&*generator, "That makes 18 eggs.");
    assert_eq!((right.rewards["correct"], right.success), (1.0, true));
    assert_eq!(right.feedback.as_deref(), Some("read as 18"));
    let wrong = judge(&*generator, "17 or so");
    assert_eq!((wrong.rewards["correct"], wrong.success), (0.0, false));
    assert!(judge(&*generator, "").flags["parse_error"]);
}

#[test]
fn a_row_that_a_built_in_verifier_cannot_compare_with_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.jsonl");
    let refused = |text: &str, verifier: &str| {
        std::fs::write(&path, text).unwrap();
        let config = json!({"path": path, "verifier": verifier});
        build("rows", &config).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let good = "{\"prompt\": \"q\", \"answer\": \"3\"}\n";
    let error = refused(&format!("{good}{{\"prompt\": \"q\"}}\n"), "number");
    assert!(error.contains("line 2") && error.contains("`answer`"), "{error}");
    let error = refused(&format!("{good}{{\"prompt\": \"q\", \"answer\": \"three apples\"}}\n"), "number");
    assert!(error.contains("line 2"), "{error}");
    let error = refused(good, "maths");
    assert!(error.contains("`maths`") && error.contains("number, math, choice"), "{error}");
}

#[test]
fn rows_in_order_are_those_of_the_file_each_once() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..5)
        .map(|n| format!("{{\"prompt\": \"question {n}\", \"answer\": \"1 + {n}\\n#### {n}\"}}\n"))
        .collect();
    std::fs::write(folder.path().join("data.jsonl"), rows).unwrap();
    let config = json!({"path": folder.path().join("data.jsonl"), "verifier": "number"});
    let rows = burnish_env::rows::Rows::new(serde_json::from_value(full(config)).unwrap()).unwrap();
    let asked: Vec<String> =
        rows.in_order().unwrap().into_iter().map(|task| task.prompt[0].content.clone()).collect();
    assert_eq!(asked, ["question 0", "question 1", "question 2", "question 3", "question 4"]);
    let number = burnish_verify::Verifier::Number;
    assert_eq!(burnish_env::rows::reference(number, "1 + 3\n#### 4 "), "4");
}

/// A configuration completed with defaults.
fn full(config: Value) -> Value {
    let mut full = serde_json::to_value(burnish_env::rows::Config::default()).unwrap();
    full.as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
    full
}
