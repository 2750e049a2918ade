//! The processes of a verifier command: how requests are distributed to them, and what a failure costs.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{
    Abilities, Answered, Episode, Policy, Sampling, Script, StopReason, Task, Turn, TurnId, Validity, Verdict,
};
use burnish_env::rollout::{Overlong, RolloutSpec, SeedPlace, Spawn, play, replay};
use burnish_env::{Generator, build};
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Answers with what it reads.
fn echo() -> impl Policy {
    Script::new(|turn| Ok((turn.messages.last().unwrap().content.clone(), StopReason::EndToken)))
}

struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// A folder with a verifier and the rows `asked`; if there is no Python, prints that and returns `None`.
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

    /// `keys` are further keys of `verifier` besides its command.
    fn generator(&self, keys: Value) -> Box<dyn Generator> {
        let mut verifier = json!({"command": ["python3", "reward.py"], "timeout_seconds": 60.0});
        verifier.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let config = json!({"path": "rows.jsonl", "base_dir": self.folder.path(), "verifier": verifier});
        build("rows", &config).unwrap()
    }

    /// The tasks in the order of the rows.
    fn tasks(&self, generator: &dyn Generator) -> Vec<Task> {
        let lines = self.written("rows.jsonl").len();
        let mut tasks: Vec<Task> = generator.tasks(1, lines).unwrap().tasks;
        tasks.sort_by_key(|task| task.truth["answer"].as_u64());
        tasks
    }

    /// The verdicts of one step, task by task in the order of the rows.
    fn step(&self, generator: &dyn Generator, rollouts: usize) -> Vec<Verdict> {
        let tasks = self.tasks(generator);
        let episodes = play(&mut echo(), &spec(generator, &spawns(&tasks, rollouts))).unwrap();
        episodes.into_iter().map(|episode| episode.verdict).collect()
    }

    /// How many processes of [`MEETING`] were started since the last call.
    fn take_met(&self) -> usize {
        let files = std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap());
        let met = files.filter(|entry| entry.file_name().to_string_lossy().starts_with("met-"));
        met.map(|entry| std::fs::remove_file(entry.path()).unwrap()).count()
    }

    /// Lines of a file that the verifier wrote.
    fn written(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn spawns(tasks: &[Task], rollouts: usize) -> Vec<Spawn<'_>> {
    let seeds = SeedPlace { run: 1, stage: 0, step: 0, task_offset: 0 };
    Spawn::of_tasks(tasks, rollouts, &Sampling::greedy(1), seeds)
}

fn spec<'a>(generator: &'a dyn Generator, spawns: &'a [Spawn<'a>]) -> RolloutSpec<'a> {
    RolloutSpec::new(generator, spawns, 1, Overlong::Refuse)
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

/// Answers once as many processes hold a request as the environment variable says.
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
    assert!((1..=2).contains(&fixture.take_met()));
}

#[test]
fn an_episode_is_played_again_on_its_record_without_its_verifier() {
    let script = MEETING.replace("< 3", "< 1");
    let Some(fixture) = Fixture::new(&script, &["a", "b"]) else { return };
    let generator = fixture.generator(json!({}));
    let tasks = fixture.tasks(&*generator);
    let spawns = spawns(&tasks, 1);
    let episodes = play(&mut echo(), &spec(&*generator, &spawns)).unwrap();
    drop(generator);
    assert!(fixture.take_met() > 0);
    let again = fixture.generator(json!({}));
    for (episode, spawn) in episodes.iter().zip(&spawns) {
        // As it was when it was saved.
        let kept: Episode = serde_json::from_value(serde_json::to_value(episode).unwrap()).unwrap();
        assert_eq!(replay(&spec(&*again, &spawns), spawn, &kept).unwrap(), *episode);
        assert!(episode.verdict.is_scored());
    }
    assert_eq!(fixture.take_met(), 0, "the command was started");
}

/// Takes its time, and records when it is done with a request: with the first only when the policy has continued.
const SLOW: &str = r#"
import json, os, sys, time
for line in sys.stdin:
    request = json.loads(line)
    while request["completion"] == "a" and not os.path.exists("gone-on"):
        time.sleep(0.01)
    time.sleep(0.2)
    with open("judged", "a") as log:
        print(request["completion"], file=log)
    print(json.dumps({"id": request["id"], "reward": float(request["answer"]), "feedback": str(os.getpid())}))
"#;

/// Releases four answers, and each further one only when one more has been judged.
struct Held<'a, P> {
    policy: P,
    over: VecDeque<Answered>,
    out: usize,
    fixture: &'a Fixture,
    end: Instant,
}

impl<P: Policy> Policy for Held<'_, P> {
    fn abilities(&self) -> Abilities {
        self.policy.abilities()
    }
    fn version(&self) -> u64 {
        self.policy.version()
    }
    fn submit(&mut self, turn: Turn) -> TurnId {
        self.policy.submit(turn)
    }
    fn poll(&mut self) -> Vec<Answered> {
        self.over.extend(self.policy.poll());
        let ready = (4 + self.fixture.written("judged").len() - self.out).min(self.over.len());
        self.out += ready;
        if self.out > 4 {
            std::fs::write(self.fixture.folder.path().join("gone-on"), "").unwrap();
        }
        assert!(Instant::now() < self.end, "nothing is judged while episodes are still played");
        std::thread::sleep(Duration::from_millis(2));
        self.over.drain(..ready).collect()
    }
    fn wait(&mut self) -> Vec<Answered> {
        loop {
            let over = self.poll();
            if !over.is_empty() {
                return over;
            }
        }
    }
    fn cancel(&mut self, id: TurnId) -> bool {
        self.policy.cancel(id)
    }
}

#[test]
fn episodes_are_judged_while_others_are_still_played() {
    let asked = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let Some(fixture) = Fixture::new(SLOW, &asked) else { return };
    let generator = fixture.generator(json!({"workers": 4}));
    let tasks = fixture.tasks(&*generator);
    let spawns = spawns(&tasks, 1);
    let end = Instant::now() + Duration::from_secs(120);
    let mut held = Held { policy: echo(), over: VecDeque::new(), out: 0, fixture: &fixture, end };
    let episodes = play(&mut held, &spec(&*generator, &spawns)).unwrap();
    let rewards: Vec<f64> = episodes.iter().map(|episode| episode.verdict.rewards["reward"]).collect();
    assert_eq!(rewards, (0..12_u32).map(f64::from).collect::<Vec<f64>>());
    let pids: BTreeSet<_> = episodes.iter().map(|episode| &episode.verdict.feedback).collect();
    assert!(pids.len() <= 4, "{pids:?}");
    // The first was still being judged when the fifth was released, which was only after another had been judged.
    let judged = fixture.written("judged");
    assert!(!["a", "e"].contains(&judged[0].as_str()), "{judged:?}");
}

/// Does what the prompt orders, and records the requests.
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
    // Those already sent when the eighth timed out were asked, and no others.
    let hangs = reasons.iter().filter(is_hang).count();
    assert!((8..8 + 4).contains(&hangs), "{hangs}");
    let rest = "no answer in time to 8 requests one after the other";
    assert_eq!(reasons.iter().filter(|reason| reason.contains(rest)).count(), 40 - hangs);
    assert!(fixture.written("asked").len() <= hangs);
}

#[test]
fn a_command_that_was_broken_is_tried_again_in_the_next_step() {
    let script = ORDERED.replace("order == \"hang\"", "os.path.exists(\"dead\")");
    let asked = ["fine"; 30];
    let Some(fixture) = Fixture::new(&script, &asked) else { return };
    let dead = fixture.folder.path().join("dead");
    std::fs::write(&dead, "").unwrap();
    let keys = json!({"timeout_seconds": 3.0, "startup_seconds": 0.0, "workers": 4});
    let generator = fixture.generator(keys);
    assert!(fixture.step(&*generator, 1).iter().all(|verdict| !verdict.is_scored()));
    assert!(fixture.written("asked").len() < 8 + 4);
    std::fs::remove_file(dead).unwrap();
    assert!(fixture.step(&*generator, 1).iter().all(Verdict::is_scored));
}

#[test]
fn one_request_that_hangs_among_many_costs_its_own_episode() {
    let mut asked = ["fine"; 200];
    asked[100] = "hang";
    let Some(fixture) = Fixture::new(ORDERED, &asked) else { return };
    let keys = json!({"timeout_seconds": 3.0, "startup_seconds": 20.0, "workers": 4});
    let verdicts = fixture.step(&*fixture.generator(keys), 1);
    for (at, (verdict, reason)) in verdicts.iter().zip(reasons(&verdicts)).enumerate() {
        match at {
            100 => assert!(reason.starts_with("the verifier gave no answer within"), "{reason}"),
            _ => assert_eq!(verdict.rewards.get("reward"), Some(&(at as f64)), "{reason}"),
        }
    }
    assert_eq!(fixture.written("asked").len(), 200);
}

#[test]
fn a_row_on_which_the_command_hangs_does_not_take_the_others_with_it() {
    let asked = ["hang", "fine", "fine"];
    let Some(fixture) = Fixture::new(ORDERED, &asked) else { return };
    for workers in [4, 16] {
        let keys = json!({"timeout_seconds": 1.0, "startup_seconds": 4.0, "workers": workers});
        let verdicts = fixture.step(&*fixture.generator(keys), 10);
        assert!(verdicts[..10].iter().all(|verdict| !verdict.is_scored()));
        assert!(verdicts[10..].iter().all(Verdict::is_scored));
    }
}

#[test]
fn a_batch_goes_on_one_line_and_a_failure_in_it_costs_its_own_episode_alone() {
    let asked = ["fine", "skip", "fine", "crash", "fine", "fine", "fine"];
    let Some(fixture) = Fixture::new(ORDERED, &asked) else { return };
    let verdicts = fixture.step(&*fixture.generator(json!({"batch": 3, "workers": 1})), 1);
    // Each once; the requests of the batch that crashed were each asked again, alone, if the batch had more than one.
    let sizes: Vec<usize> = fixture.written("asked").iter().map(|size| size.parse().unwrap()).collect();
    assert!(sizes.iter().all(|size| (1..=3).contains(size)), "{sizes:?}");
    assert!((7..=7 + 3).contains(&sizes.iter().sum::<usize>()), "{sizes:?}");
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
