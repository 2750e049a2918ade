//! The processes of a verifier command: how requests are shared out among them, and what a failure costs.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Policy, Sampling, Script, StopReason, Task, Validity, Verdict};
use burnish_env::rollout::{Overlong, Plan, SeedPlace, Spawn, play};
use burnish_env::{Generator, build};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use tempfile::TempDir;

/// Answers with what it reads.
fn echo() -> impl Policy {
    Script::new(|turn| Ok((turn.messages.last().unwrap().content.clone(), StopReason::EndToken)))
}

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// A folder with a verifier and the rows `asked`; `None`, with a line that says so, where there is no Python.
    fn new(script: &str, asked: &[&str]) -> Option<Self> {
        if !Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
            println!("skipped: python3 can't be run");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let row = |(at, asked): (usize, &&str)| json!({"prompt": asked, "answer": at}).to_string() + "\n";
        let rows: String = asked.iter().enumerate().map(row).collect();
        std::fs::write(folder.path().join("rows.jsonl"), rows).unwrap();
        std::fs::write(folder.path().join("reward.py"), script).unwrap();
        Some(Fixture { folder })
    }

    /// Tables of `verifier` beside its command.
    fn generator(&self, keys: Value) -> Box<dyn Generator> {
        let mut verifier = json!({"command": ["python3", "reward.py"], "timeout_seconds": 60.0});
        verifier.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let config = json!({"path": "rows.jsonl", "base_dir": self.folder.path(), "verifier": verifier});
        build("rows", &config).unwrap()
    }

    /// The verdicts of one step, task by task in the order of the rows.
    fn step(&self, generator: &dyn Generator, rollouts: usize) -> Vec<Verdict> {
        let lines = std::fs::read_to_string(self.folder.path().join("rows.jsonl")).unwrap().lines().count();
        let mut tasks: Vec<Task> = generator.tasks(1, lines).unwrap().tasks;
        tasks.sort_by_key(|task| task.truth["answer"].as_u64());
        let seeds = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
        let spawns = Spawn::of_tasks(&tasks, rollouts, &Sampling::greedy(1), seeds);
        let plan =
            Plan { generator, partners: None, spawns: &spawns, turns_max: 1, overlong: Overlong::Refuse };
        play(&mut echo(), &plan).unwrap().into_iter().map(|episode| episode.verdict).collect()
    }

    /// Lines of a file that the verifier wrote.
    fn written(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn reasons(verdicts: &[Verdict]) -> Vec<&str> {
    verdicts
        .iter()
        .map(|verdict| match &verdict.validity {
            Validity::Unscored { reason } => reason.as_str(),
            Validity::Scored => "",
        })
        .collect()
}

/// Answers once as many requests are held by as many processes as the environment variable says.
const MEETING: &str = r#"
import json, os, sys, time
open(f"met-{os.getpid()}", "w").close()
for line in sys.stdin:
    request = json.loads(line)
    while len([name for name in os.listdir(".") if name.startswith("met-")]) < 3:
        time.sleep(0.01)
    print(json.dumps({"id": request["id"], "reward": float(request["answer"]), "feedback": str(os.getpid())}))
"#;

#[test]
fn the_requests_of_a_step_are_judged_side_by_side_and_each_gets_its_own_answer() {
    let asked = ["a", "b", "c", "d", "e", "f", "g"];
    let Some(fixture) = Fixture::new(MEETING, &asked) else { return };
    let generator = fixture.generator(json!({"workers": 3}));
    let verdicts = fixture.step(&*generator, 2);
    let rewards: Vec<f64> = verdicts.iter().map(|verdict| verdict.rewards["reward"]).collect();
    let expected: Vec<f64> = (0..14_u32).map(|at| f64::from(at / 2)).collect();
    assert_eq!(rewards, expected);
    let pids: BTreeSet<&String> = verdicts.iter().map(|verdict| verdict.feedback.as_ref().unwrap()).collect();
    assert!(pids.len() == 3, "no more processes than are asked for: {pids:?}");
    let again = fixture.step(&*generator, 2);
    let later: BTreeSet<&String> = again.iter().map(|verdict| verdict.feedback.as_ref().unwrap()).collect();
    assert!(later.is_subset(&pids), "processes are kept");
}

#[test]
fn no_more_processes_are_started_than_there_are_requests() {
    let script = MEETING.replace("< 3", "< 1");
    let Some(fixture) = Fixture::new(&script, &["a", "b"]) else { return };
    let generator = fixture.generator(json!({"workers": 8}));
    fixture.step(&*generator, 1);
    let started = std::fs::read_dir(fixture.folder.path()).unwrap();
    let started =
        started.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("met-"));
    assert!((1..=2).contains(&started.count()));
}

/// Does what the prompt orders, and writes down what was asked.
const ORDERED: &str = r#"
import json, os, sys, time
for line in sys.stdin:
    given = json.loads(line)
    requests = given if isinstance(given, list) else [given]
    with open("asked", "a") as log:
        print(len(requests) if isinstance(given, list) else "one", file=log)
    answers = []
    for request in requests:
        order = request["completion"]
        if order == "hang":
            time.sleep(600)
        if order == "crash":
            os._exit(3)
        if order == "flood":
            while True:
                print("x" * 1000)
        if order == "long":
            sys.stdout.write("x" * (17 << 20))
        if order != "skip":
            answers.append({"id": request["id"], "reward": float(request["answer"])})
    print(json.dumps(answers[::-1] if isinstance(given, list) else answers[0]))
"#;

#[test]
fn a_failure_costs_its_own_episode_alone() {
    let asked = ["fine", "crash", "fine", "flood", "fine", "long", "fine", "hang", "fine"];
    let Some(fixture) = Fixture::new(ORDERED, &asked) else { return };
    let quick = json!({"timeout_seconds": 1.0, "startup_seconds": 8.0});
    for workers in [1, 3] {
        let mut keys = quick.clone();
        keys["workers"] = json!(workers);
        let verdicts = fixture.step(&*fixture.generator(keys), 1);
        let reasons = reasons(&verdicts);
        for (at, (reason, order)) in reasons.iter().zip(asked).enumerate() {
            let expected = match order {
                "crash" => "ended without an answer",
                "flood" => "only answers may go to stdout",
                "long" => "a line is longer than",
                "hang" => "gave no answer within",
                _ => "",
            };
            assert!(
                reason.contains(expected) && reason.is_empty() == expected.is_empty(),
                "{order}: {reason}"
            );
            if expected.is_empty() {
                assert_eq!(verdicts[at].rewards["reward"], at as f64);
            }
        }
    }
}

#[test]
fn a_command_that_hangs_on_everything_is_not_sent_the_whole_step() {
    let asked = ["hang"; 40];
    let Some(fixture) = Fixture::new(ORDERED, &asked) else { return };
    let keys = json!({"timeout_seconds": 0.3, "startup_seconds": 0.0, "workers": 4});
    let verdicts = fixture.step(&*fixture.generator(keys), 1);
    let reasons = reasons(&verdicts);
    let is_hang = |reason: &&&str| reason.starts_with("the verifier gave no answer within");
    assert_eq!(reasons.iter().filter(is_hang).count(), 8);
    let rest = "no answer in time to 8 requests one after the other";
    assert_eq!(reasons.iter().filter(|reason| reason.contains(rest)).count(), 32);
    // Those on their way when the eighth ran out were asked, and nobody else.
    assert!(fixture.written("asked").len() < 8 + 4);
}

#[test]
fn a_row_on_which_the_command_hangs_does_not_take_the_others_with_it() {
    let asked = ["hang", "fine", "fine"];
    let Some(fixture) = Fixture::new(ORDERED, &asked) else { return };
    let keys = json!({"timeout_seconds": 1.0, "startup_seconds": 8.0, "workers": 16});
    let verdicts = fixture.step(&*fixture.generator(keys), 10);
    assert!(verdicts[..10].iter().all(|verdict| !verdict.is_scored()));
    assert!(verdicts[10..].iter().all(Verdict::is_scored));
}

#[test]
fn a_batch_goes_on_one_line_and_a_failure_in_it_costs_its_own_episode_alone() {
    let asked = ["fine", "skip", "fine", "crash", "fine", "fine", "fine"];
    let Some(fixture) = Fixture::new(ORDERED, &asked) else { return };
    let verdicts = fixture.step(&*fixture.generator(json!({"batch": 3, "workers": 1})), 1);
    // Three and three and one; of the batch that crashed each was asked again, alone.
    assert_eq!(fixture.written("asked"), ["3", "3", "1", "1", "1", "1"]);
    let reasons = reasons(&verdicts);
    assert!(reasons[1].contains("has no answer to request"), "{}", reasons[1]);
    assert!(reasons[3].contains("ended without an answer"), "{}", reasons[3]);
    for at in [0, 2, 4, 5, 6] {
        assert_eq!(verdicts[at].rewards["reward"], at as f64, "{}", reasons[at]);
    }
}

#[test]
fn verdicts_do_not_depend_on_processes_and_batches() {
    let asked = ["fine", "crash", "fine", "crash", "fine", "fine", "skip", "fine", "fine", "fine", "fine"];
    let Some(fixture) = Fixture::new(ORDERED, &asked) else { return };
    let judged = |keys: Value| -> Vec<Option<f64>> {
        let verdicts = fixture.step(&*fixture.generator(keys), 2);
        verdicts.iter().map(|verdict| verdict.rewards.get("reward").copied()).collect()
    };
    let expected = judged(json!({"workers": 1, "batch": 1}));
    assert_eq!(expected.iter().filter(|reward| reward.is_none()).count(), 6);
    for keys in [
        json!({"workers": 4, "batch": 1}),
        json!({"workers": 1, "batch": 4}),
        json!({"workers": 3, "batch": 5}),
    ] {
        assert_eq!(judged(keys.clone()), expected, "{keys}");
    }
}

#[test]
fn counts_that_cannot_be_are_refused_by_key() {
    for (key, value) in [("workers", json!(0)), ("batch", json!(0)), ("workers", json!(100_000))] {
        let error = build("rows", &json!({"path": "x", "verifier": {"command": ["true"], key: value}}));
        let error = error.err().unwrap().to_string();
        assert!(error.starts_with(&format!("verifier.{key}: ")), "{error}");
        assert!(error.contains("is out of range: 1 to"), "{error}");
    }
}
