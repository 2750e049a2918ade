//! Environments that are served over OpenEnv: by the `openenv` package, and by a server that misbehaves.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use burnish_core::{Ending, Episode, Message, Policy, Role, Task, Turn};
use burnish_env::rollout::{play, replay};
use burnish_env::{Generator, build};
use serde_json::{Value, json};

use crate::commanded::{answers_by, played, reason, says, spawns, spec};
use crate::stand_in::{Reply, StandIn};

/// A server of the package; it ends with the test.
struct Served {
    child: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves an environment of `openenv_server/main.py`. `None`, saying so, where the package is absent.
fn served(kind: &str, sessions: usize) -> Option<Served> {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = "import openenv.core, fastmcp, uvicorn";
    if !Command::new(&python).args(["-c", import]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no openenv-core; BURNISH_PYTHON can name one that has");
        return None;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let main = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openenv_server/main.py");
    let child = Command::new(&python)
        .args(["-W", "ignore"])
        .arg(main)
        .args([kind, &port.to_string(), &sessions.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let served = Served { child, url: format!("http://127.0.0.1:{port}") };
    for _ in 0..300 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Some(served);
        }
        sleep(Duration::from_millis(100));
    }
    panic!("the server does not start");
}

fn generator(url: &str, keys: Value) -> Box<dyn Generator> {
    let mut config = json!({"url": url, "timeout_seconds": 20.0});
    config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    build("openenv", &config).unwrap()
}

/// Plays one task, and returns what the policy had read before its last answer.
fn heard(generator: &dyn Generator, task: &Task, lines: &'static [&'static str]) -> (Episode, Vec<Message>) {
    let mut speaker = says(lines);
    let mut heard = Vec::new();
    let answer = |turn: &Turn| {
        heard = turn.messages.to_vec();
        speaker.submit(turn.clone());
        speaker.poll().remove(0).result.unwrap().message
    };
    let tasks = std::slice::from_ref(task);
    let episode = play(&mut answers_by(answer), &spec(generator, &spawns(tasks, 1))).unwrap().remove(0);
    (episode, heard)
}

fn reward(episode: &Episode) -> f64 {
    assert_eq!(reason(episode), "");
    episode.verdict.rewards["reward"]
}

#[test]
fn an_answer_is_an_action_and_its_seed_decides_the_episode() {
    let Some(served) = served("guess", 2) else { return };
    let keys =
        json!({"observation": "said", "prompt": "Guess.", "reset": {"width": 4}, "repeating": "rebuilt"});
    let generator = generator(&served.url, keys);
    generator.ready().unwrap();
    assert_eq!(generator.at_once(), Some(2), "the server allows two sessions, where 16 were asked for");
    let other = self::generator(&served.url, json!({"observation": "said", "sessions": 1}));
    let held_out = other.tasks(2, 2).unwrap().tasks;
    let elsewhere = played(&*other, &held_out, &["0"]);
    assert!(
        elsewhere.iter().all(|episode| reason(episode).is_empty()),
        "two configurations share the sessions"
    );
    assert_eq!(other.at_once(), Some(1));
    let tasks = generator.tasks(1, 6).unwrap().tasks;
    let episodes = played(&*generator, &tasks, &["0", "1", "2", "3"]);
    for (task, episode) in tasks.iter().zip(&episodes) {
        let number = task.truth.as_u64().unwrap() % 4;
        assert!((reward(episode) - (1.0 - 0.1 * number as f64)).abs() < 1e-12, "{episode:?}");
        assert_eq!(episode.verdict.success, number == 0);
        let turns = 1 + number as usize;
        assert_eq!(episode.answers.len(), turns);
        let earned = episode.verdict.by_turn(&BTreeMap::new(), turns, reward(episode));
        let expected = (0..turns).map(|turn| if turn + 1 == turns { 1.0 } else { -0.1 });
        assert!(earned.iter().zip(expected).all(|(own, other)| (own - other).abs() < 1e-12), "{earned:?}");
    }
    let task = tasks.iter().find(|task| task.truth.as_u64().unwrap() % 4 == 1).unwrap();
    let (_, read) = heard(&*generator, task, &["0", "1"]);
    let read: Vec<&str> = read.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(read, ["Guess.", "A number below 4.", "0", "No."]);
    let spawns = spawns(&tasks, 1);
    for (episode, spawn) in episodes.iter().zip(&spawns) {
        let again = replay(&spec(&*generator, &spawns), spawn, episode).unwrap();
        assert_eq!((&again.verdict, &again.answers), (&episode.verdict, &episode.answers));
    }
}

#[test]
fn an_environment_that_fails_ends_that_episode_alone() {
    let Some(served) = served("guess", 2) else { return };
    let generator = generator(&served.url, json!({"observation": "said"}));
    let tasks = generator.tasks(1, 3).unwrap().tasks;
    let crashed = played(&*generator, &tasks[..1], &["crash"]);
    assert_eq!(crashed[0].ending, Ending::EnvironmentError);
    assert!(
        reason(&crashed[0]).contains("the environment says: the guess crashed"),
        "{}",
        reason(&crashed[0])
    );
    let after = played(&*generator, &tasks, &["0"]);
    assert!(after.iter().all(|episode| reason(episode).is_empty()));
}

#[test]
fn several_fields_are_filled_by_a_call() {
    let Some(served) = served("place", 1) else { return };
    let generator = generator(&served.url, json!({}));
    let tasks = generator.tasks(1, 2).unwrap().tasks;
    for task in &tasks {
        let lines = &["act {\"row\": 1}", "act {\"row\": 1, \"column\": 1}"];
        let (episode, read) = heard(&*generator, task, lines);
        assert_eq!(reward(&episode), 1.0);
        let told = read.last().unwrap();
        assert!(
            told.role == Role::Tool && told.content.contains("the argument `column` is missing"),
            "{told:?}"
        );
    }
}

#[test]
fn tools_of_a_server_are_the_policys_tools() {
    let Some(served) = served("add", 2) else { return };
    let generator = generator(&served.url, json!({"observation": "said", "reward": "last"}));
    generator.ready().unwrap();
    let tasks = generator.tasks(1, 2).unwrap().tasks;
    let mut environment = generator.environment();
    environment.reset(&tasks[0], 0).unwrap();
    let names: Vec<String> = environment.tools().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["add"]);
    drop(environment);
    for task in &tasks {
        let (episode, read) = heard(&*generator, task, &["add {\"number\": 3}", "add {\"number\": 4}"]);
        assert_eq!(reward(&episode), 1.0);
        let told = read.last().unwrap();
        assert_eq!((told.content.as_str(), told.name.as_deref()), ("The total is 3.", Some("add")));
    }
    let given_up = played(&*generator, &tasks, &["add {\"number\": 1}", "I give up."]);
    assert!(given_up.iter().all(|episode| reward(episode) == 0.0));
}

fn observation(said: &str, reward: Value, done: bool) -> Reply {
    let data = json!({"observation": {"said": said}, "reward": reward, "done": done});
    Reply::Say(json!({"type": "observation", "data": data}).to_string())
}

#[test]
fn a_server_that_misbehaves_costs_its_episode_and_says_why() {
    let cases: [(&str, Reply, &str); 6] = [
        ("silent", Reply::Nothing, "no answer within 0.5 s; raise timeout_seconds"),
        ("gone", Reply::Close, "Connection reset"),
        ("broken", Reply::Say("{\"type\":".to_owned()), "the server's answer is none"),
        (
            "shapeless",
            Reply::Say(json!({"type": "observation", "data": {"done": 1}}).to_string()),
            "is no observation",
        ),
        ("flood", Reply::Say("x".repeat(5000)), "too long"),
        ("odd", observation("?", json!("many"), false), "is no number"),
    ];
    for (name, reply, expected) in cases {
        let server = StandIn::start(move |message| {
            match (message["type"].as_str(), message["data"]["message"].as_str()) {
                (Some("reset"), _) => observation("go", Value::Null, false),
                (Some("step"), Some("bad")) => reply.clone(),
                (Some("step"), _) => observation("ok", json!(1), true),
                _ => Reply::Say(json!({"type": "state", "data": {}}).to_string()),
            }
        });
        let keys = json!({"timeout_seconds": 0.5, "message_bytes": 1024});
        let generator = generator(&server.url, keys);
        let tasks = generator.tasks(1, 2).unwrap().tasks;
        let bad = play(&mut says(&["bad"]), &spec(&*generator, &spawns(&tasks[..1], 1))).unwrap();
        assert_eq!(bad[0].ending, Ending::EnvironmentError, "{name}");
        assert!(reason(&bad[0]).contains(expected), "{name}: {}", reason(&bad[0]));
        let good = played(&*generator, &tasks, &["good"]);
        assert!(good.iter().all(|episode| reward(episode) == 1.0), "{name}");
    }
}

#[test]
fn a_configuration_that_wants_few_sessions_leaves_others_as_many_as_they_want() {
    let server = StandIn::start(|_| Reply::Say(json!({"type": "state", "data": {}}).to_string()));
    let at_once = |sessions: usize| generator(&server.url, json!({"sessions": sessions})).at_once();
    let kept = generator(&server.url, json!({"sessions": 1}));
    assert_eq!((kept.at_once(), at_once(3), at_once(2)), (Some(1), Some(3), Some(2)));
}

#[test]
fn what_a_server_refuses_is_said_to_the_policy() {
    let server =
        StandIn::start(|message| match (message["type"].as_str(), message["data"]["message"].as_str()) {
            (Some("reset"), _) => observation("go", Value::Null, false),
            (Some("step"), Some("wrong")) => {
                let errors = json!([{"loc": ["message"], "msg": "no such move"}]);
                let data =
                    json!({"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": errors});
                Reply::Say(json!({"type": "error", "data": data}).to_string())
            }
            (Some("step"), _) => observation("ok", json!(true), true),
            _ => Reply::Say(json!({"type": "state", "data": {}}).to_string()),
        });
    let generator = generator(&server.url, json!({}));
    let tasks = generator.tasks(1, 1).unwrap().tasks;
    let (episode, read) = heard(&*generator, &tasks[0], &["wrong", "right"]);
    assert_eq!(read.last(), Some(&Message::user("`message`: no such move")));
    assert_eq!(reward(&episode), 1.0);
}

#[test]
fn a_session_that_was_closed_while_nobody_used_it_is_replaced() {
    let server = StandIn::start(|message| match message["type"].as_str() {
        Some("reset") => observation("go", Value::Null, false),
        Some("step") => Reply::SayAndClose(
            json!({"type": "observation", "data": {"observation": {}, "reward": 1, "done": true}})
                .to_string(),
        ),
        _ => Reply::Say(json!({"type": "state", "data": {}}).to_string()),
    });
    let generator = generator(&server.url, json!({"sessions": 1}));
    let tasks = generator.tasks(1, 3).unwrap().tasks;
    let episodes = played(&*generator, &tasks, &["x"]);
    assert!(episodes.iter().all(|episode| reward(episode) == 1.0));
}

#[test]
fn a_server_that_is_away_or_no_openenv_is_named_before_anything_is_played() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let away = generator(&url, json!({"timeout_seconds": 0.2}));
    let error = away.ready().unwrap_err().to_string();
    assert!(error.contains(&url) && error.contains("/schema"), "{error}");
    let other = StandIn::start(|_| Reply::Close);
    let named = generator(&other.url, json!({"answer": "move"})).ready().unwrap_err().to_string();
    assert!(named.contains("its actions have no field `move`, only `message`"), "{named}");
    for (keys, key) in [
        (json!({}), "url"),
        (json!({"url": "localhost:8000"}), "url"),
        (json!({"url": url, "api_key_env": "BURNISH_NO_SUCH_KEY"}), "BURNISH_NO_SUCH_KEY"),
        (json!({"url": url, "reset": {"seed": 1}}), "reset"),
        (json!({"url": url, "sessions": 0}), "sessions"),
        (json!({"url": url, "action": {"a": 1}, "answer": "a"}), "answer"),
    ] {
        let error = build("openenv", &keys).err().unwrap().to_string();
        assert!(error.contains(key), "{error}");
    }
}
