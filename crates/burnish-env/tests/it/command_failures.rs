//! What a failure of a program that is an environment costs: its own episode, with a reason.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Ending, Episode, Task};
use burnish_env::build;
use burnish_env::rollout::replay;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use crate::commanded::{Fixture, played, reason, spawns, spec};

/// Does what the task orders, in the request that it names; `PROTOCOL` and `HELLO` stand for what hello says. Writes its
/// process's number down when it starts.
const ORDERED: &str = r#"
import json, os, sys, time
print(os.getpid(), file=open("started", "a"))
ORDERS = ["fine", "step crash", "fine", "step hang", "step flood", "fine", "step long", "step nonsense",
          "step latin", "step other", "step error", "step many", "verify crash", "reset crash", "close crash", "fine",
          "step deaf", "step bare", "verify nan", "verify none", "step typo", "fine"]
out, order = sys.stdout, "fine"
def say(line):
    out.write(line + "\n")
    out.flush()
for line in sys.stdin:
    request = json.loads(line)
    do, answer = request["do"], {"id": request["id"]}
    if do == "hello":
        answer.update({"protocol": PROTOCOL, "tasks": len(ORDERS)})
        HELLO
    if do == "task":
        answer.update(id=request["id"], prompt=ORDERS[request["index"]])
        answer["data"] = request["index"]
    if do == "reset":
        order = request["task"]["prompt"][0]["content"]
    if do == "step":
        answer["done"] = True
        if order != "verify crash":
            print("of an episode that is over", file=sys.stderr, flush=True)
    if do == "verify":
        answer["reward"] = request["id"]
    when, _, what = order.partition(" ")
    if do == when:
        if what == "crash":
            print("Traceback: it went wrong", file=sys.stderr)
            os._exit(3)
        if what == "hang":
            time.sleep(600)
        while what == "flood":
            out.write("x" * 1000)
        if what == "long":
            say(json.dumps({**answer, "messages": "x" * 5000}))
        if what == "nonsense":
            say("step 1 of 3")
        if what == "latin":
            out.buffer.write(b'{"id": 1, "messages": "caf\xe9"}\n')
        if what == "other":
            answer["id"] += 1
        if what == "error":
            answer["error"] = "the game is broken"
        if what == "many":
            say(json.dumps(answer))
        if what == "deaf":
            os.close(1)
            time.sleep(600)
        if what == "bare":
            del answer["done"]
        if what == "nan":
            answer["reward"] = float("nan")
        if what == "none":
            del answer["reward"]
        if what == "typo":
            answer["dome"] = answer.pop("done")
    say(json.dumps(answer))
"#;

/// What the reason of an episode says that is ordered to do this.
fn expected(order: &str) -> &'static str {
    match order {
        "step crash" | "verify crash" | "reset crash" => "ended without an answer",
        "step hang" => "gave no answer within 1 s (asked to `step`); raise timeout_seconds",
        "step flood" | "step long" => "a line is longer than 2048 bytes",
        "step nonsense" => "is not JSON",
        "step latin" => "a line is not UTF-8",
        "step other" | "step many" => "answers request",
        "step error" => "the environment says: the game is broken",
        "step deaf" => "ended without an answer",
        "step bare" => "needs `messages` for the policy",
        "verify nan" => "not finite",
        "verify none" => "neither `reward` nor `rewards`",
        "step typo" => "unknown field `dome`",
        _ => "",
    }
}

fn ordered(hello: &str, protocol: &str) -> String {
    ORDERED.replace("HELLO", hello).replace("PROTOCOL", protocol)
}

fn quick() -> Value {
    json!({"timeout_seconds": 1.0, "startup_seconds": 20.0, "line_bytes": 2048})
}

#[test]
fn a_failure_ends_its_own_episode_with_a_reason_and_no_other() {
    let Some(fixture) = Fixture::new(&ordered("pass", "1")) else { return };
    for workers in [1, 4] {
        let mut keys = quick();
        keys["workers"] = json!(workers);
        let generator = fixture.generator(keys);
        let mut tasks = generator.tasks(1, 22).unwrap().tasks;
        tasks.sort_by_key(|task| task.truth.as_u64());
        let episodes = played(&*generator, &tasks, &["go"]);
        for (episode, task) in episodes.iter().zip(&tasks) {
            assert_failed_as_ordered(episode, task);
        }
        // A failure on the record is not waited for again.
        let begun = Instant::now();
        for (episode, task) in episodes.iter().zip(&tasks) {
            let tasks = [task.clone()];
            assert_eq!(replay(&spec(&*generator, &[]), &spawns(&tasks, 1)[0], episode).unwrap(), *episode);
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        let crashed = tasks.iter().position(|task| task.prompt[0].content == "verify crash").unwrap();
        let said = reason(&episodes[crashed]);
        assert!(said.ends_with("its stderr ends:\nTraceback: it went wrong"), "{said}");
    }
}

fn assert_failed_as_ordered(episode: &Episode, task: &Task) {
    let order = &*task.prompt[0].content;
    let (said, expected) = (reason(episode), expected(order));
    assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{order}: {said}");
    let ending = match (expected, order) {
        ("", _) | (_, "verify none") => Ending::Completed,
        _ => Ending::EnvironmentError,
    };
    // What a line said before the one too many counts.
    if order != "step many" {
        assert_eq!(episode.ending, ending, "{order}: {said}");
    }
}

#[test]
fn output_of_an_episode_is_bounded_and_that_of_others_is_not_counted() {
    let program =
        ordered("pass", "1").replace("answer[\"done\"] = True", "answer[\"messages\"] = \"x\" * 900");
    let Some(fixture) = Fixture::new(&program) else { return };
    let generator = |bytes: u64| {
        let mut keys = quick();
        (keys["episode_bytes"], keys["workers"]) = (json!(bytes), json!(1));
        fixture.generator(keys)
    };
    let tasks = |generator: &dyn burnish_env::Generator| {
        let mut tasks = generator.tasks(1, 22).unwrap().tasks;
        tasks.retain(|task| task.prompt[0].content == "fine");
        tasks
    };
    // Six steps of about 930 bytes each.
    let generous = generator(6000);
    let episodes = played(&*generous, &tasks(&*generous), &["go"]);
    assert!(episodes.len() > 2 && episodes.iter().all(|episode| reason(episode).is_empty()));
    let strict = generator(4000);
    for episode in played(&*strict, &tasks(&*strict), &["go"]) {
        let said = reason(&episode);
        assert!(said.contains("wrote more than 4000 bytes in one episode"), "{said}");
        assert!(said.contains("episode_bytes is the limit"), "{said}");
    }
}

#[test]
fn a_program_that_is_no_environment_is_refused_before_anything_is_played() {
    let cases = [
        ("pass", "2", "speaks version 2 of the protocol, and this burnish speaks 1"),
        ("sys.exit('no module named x')", "1", "no module named x"),
        ("time.sleep(600)", "1", "gave no answer within"),
        ("answer['tolls'] = []", "1", "unknown field `tolls`"),
        ("print('loading ...', flush=True)", "1", "is not JSON"),
        ("answer['error'] = 'no licence'", "1", "the environment says: no licence"),
    ];
    for (hello, protocol, expected) in cases {
        let Some(fixture) = Fixture::new(&ordered(hello, protocol)) else { return };
        let generator = fixture.generator(json!({"timeout_seconds": 0.5, "startup_seconds": 1.5}));
        for error in [generator.ready().unwrap_err(), generator.tasks(1, 1).unwrap_err()] {
            let error = error.to_string();
            assert!(error.contains(expected) && error.contains("python3 env.py"), "{error}");
        }
    }
}

#[test]
fn processes_that_say_something_else_than_the_first_are_not_played_with() {
    let hello = "answer['tasks'] = 22 if sum(1 for _ in open('started')) == 1 else 21";
    let Some(fixture) = Fixture::new(&ordered(hello, "1")) else { return };
    let mut keys = quick();
    keys["workers"] = json!(1);
    let generator = fixture.generator(keys);
    let mut tasks = generator.tasks(1, 22).unwrap().tasks;
    tasks.sort_by_key(|task| task.truth.as_u64());
    // The first process crashes in the second episode.
    let episodes = played(&*generator, &tasks[..5], &["go"]);
    assert_eq!(reason(&episodes[0]), "");
    assert!(reason(&episodes[1]).contains("ended without an answer"));
    assert!(episodes[2..].iter().all(|episode| reason(episode).contains("as its first process did")));
}

#[test]
fn processes_are_used_again_and_never_more_than_allowed() {
    let Some(fixture) = Fixture::new(&ordered("time.sleep(0.05)", "1")) else { return };
    let mut keys = quick();
    keys["workers"] = json!(3);
    let generator = fixture.generator(keys);
    let mut tasks = generator.tasks(1, 220).unwrap().tasks;
    tasks.retain(|task| task.prompt[0].content == "fine");
    assert_eq!(tasks.len(), 50);
    assert!(played(&*generator, &tasks, &["go"]).iter().all(|episode| reason(episode).is_empty()));
    assert_eq!(fixture.written("started").len(), 3);
}

#[test]
fn a_program_that_is_not_there_is_named_with_its_key() {
    let refused = |config: Value| build("command", &config).err().unwrap().to_string();
    let error = refused(json!({"command": ["no-such-program-7", "x"]}));
    assert!(error.starts_with("command: `no-such-program-7 x` can't be started: "), "{error}");
    let error = refused(json!({"command": ["./env"], "base_dir": "/no/such/folder"}));
    assert!(error.starts_with("command: `./env` can't be started in /no/such/folder: "), "{error}");
    assert!(refused(json!({})).starts_with("command: name the program"), "{}", refused(json!({})));
    for (key, value) in [
        ("workers", json!(0)),
        ("timeout_seconds", json!(0)),
        ("line_bytes", json!(17 << 20)),
        ("episode_bytes", json!(1)),
    ] {
        let error = refused(json!({"command": ["true"], key: value}));
        assert!(error.starts_with(&format!("{key}: ")) && error.contains("is out of range"), "{error}");
    }
    assert!(refused(json!({"command": ["true"], "timeout": 3})).starts_with("timeout: unknown field"));
}

/// Whether a process exists and is not a zombie.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

#[test]
fn no_process_outlives_the_generator() {
    if !std::path::Path::new("/proc/self/stat").exists() {
        println!("skipped: there is no /proc to see processes in");
        return;
    }
    let Some(fixture) = Fixture::new(&ordered("pass", "1")) else { return };
    let generator = fixture.generator(quick());
    let tasks = generator.tasks(1, 4).unwrap().tasks;
    played(&*generator, &tasks, &["go"]);
    drop(generator);
    let end = Instant::now() + Duration::from_secs(10);
    while fixture.written("started").iter().any(|pid| is_running(pid)) {
        assert!(Instant::now() < end, "a process is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}
