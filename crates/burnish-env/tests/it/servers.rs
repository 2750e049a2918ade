//! Rows whose policy has the tools of servers, played with a server that can do everything wrong.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;

use burnish_core::{Ending, Episode, FunctionCall, Message, Role, Task, ToolCall, Turn};
use burnish_env::rollout::{Start, play, replay};
use burnish_env::{Generator, build};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::commanded::{answers_by, reason, spawns, spec};

/// A folder with rows. A prompt is what the policy says, one turn after the other, separated by `;`.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// `None`, saying so, without Python.
    fn new(prompts: &[&str]) -> Option<Self> {
        let python = std::process::Command::new("python3").arg("-c").arg("").status();
        if !python.is_ok_and(|status| status.success()) {
            println!("skipped: python3 can't be run");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let row = |prompt: &&str| json!({ "prompt": prompt, "answer": "done" }).to_string() + "\n";
        std::fs::write(folder.path().join("rows.jsonl"), prompts.iter().map(row).collect::<String>())
            .unwrap();
        Some(Fixture { folder })
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Rows with these servers, which are judged by their last word.
    fn rows(&self, servers: Value, more: Value) -> Result<Box<dyn Generator>, String> {
        let mut config = json!({
            "path": "rows.jsonl", "base_dir": self.folder.path(), "verifier": "exact", "servers": servers,
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        build("rows", &config).map_err(|error| error.to_string())
    }
}

/// The stand-in, which starts in this way.
fn stand_in(how: &str, repeating: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-mcp/tests/stand_in.py");
    json!({ "command": ["python3", script, how], "repeating": repeating })
}

fn with(mut server: Value, more: Value) -> Value {
    server.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    server
}

/// Says what the prompt says; `NAME {ARGUMENTS}` is a call.
fn obey(turn: &Turn) -> Message {
    let said = turn.messages.iter().filter(|message| message.role == Role::Assistant).count();
    let line = turn.messages[0].content.split(';').map(str::trim).nth(said).unwrap_or("done");
    let Some((name, arguments)) = line.split_once(" {") else { return Message::assistant(line) };
    let arguments = serde_json::from_str(&format!("{{{arguments}")).unwrap();
    let function = FunctionCall { name: name.to_owned(), arguments };
    Message { tool_calls: vec![ToolCall { id: None, function }], ..Message::assistant("") }
}

fn in_order(generator: &dyn Generator, count: usize) -> Vec<Task> {
    let mut tasks = generator.tasks(0, count).unwrap().tasks;
    tasks.sort_by_key(|task| task.prompt[0].content.clone());
    tasks
}

fn played(generator: &dyn Generator, tasks: &[Task]) -> Vec<Episode> {
    play(&mut answers_by(obey), &spec(generator, &spawns(tasks, 1))).unwrap()
}

/// What tools said in an episode: the answers of its record's calls.
fn results(generator: &dyn Generator, task: &Task) -> (Episode, Vec<String>) {
    let mut heard = Vec::new();
    let tasks = [task.clone()];
    let mut policy = answers_by(|turn: &Turn| {
        heard =
            turn.messages.iter().filter(|it| it.role == Role::Tool).map(|it| it.content.clone()).collect();
        obey(turn)
    });
    let episode = play(&mut policy, &spec(generator, &spawns(&tasks, 1))).unwrap().remove(0);
    drop(policy);
    (episode, heard)
}

#[test]
fn calls_are_run_by_the_server_that_has_the_tool_and_the_verifier_judges_the_last_answer() {
    let prompt = "count {\"by\": 2}; count {\"by\": 5}; echo {\"text\": \"hi\"}; done";
    let Some(fixture) = Fixture::new(&[prompt]) else { return };
    let servers = json!({
        "counter": with(stand_in("", "rebuilt"), json!({ "tools": ["count", "where"], "env": { "STAND_IN": "x" } })),
        "echo": with(stand_in("", "repeatable"), json!({ "tools": ["echo"] })),
    });
    let generator = fixture.rows(servers, json!({})).unwrap();
    generator.ready().unwrap();
    let task = &in_order(&*generator, 1)[0];
    for _ in 0..2 {
        // State is the episode's.
        let (episode, said) = results(&*generator, task);
        assert_eq!(said, ["2", "7", "hi"]);
        assert_eq!((episode.ending, reason(&episode)), (Ending::Completed, ""));
        assert!(episode.verdict.success);
        assert_eq!((episode.record.calls.made, episode.record.calls.failed), (3, 0));
    }
    let shown = generator.draw(task, None);
    assert!(shown.contains("tool: where (Stand-in tool where.)"), "{shown}");
    assert!(generator.files().iter().any(|file| file.ends_with("stand_in.py")), "{:?}", generator.files());
}

#[test]
fn calls_that_do_not_fit_never_reach_the_server_and_refusals_are_read_by_the_policy() {
    let prompt = "count {\"by\": \"two\"}; cuont {}; refuse {}; fail {}; done";
    let Some(fixture) = Fixture::new(&[prompt]) else { return };
    let generator = fixture.rows(json!({ "it": stand_in("", "rebuilt") }), json!({})).unwrap();
    let (episode, said) = results(&*generator, &in_order(&*generator, 1)[0]);
    assert_eq!(
        said,
        [
            "`count`: the argument `by`: \"two\" is not of type \"integer\"",
            "there is no tool `cuont`; did you mean `count`?",
            "Error: not like this ({\"at\":1})",
            "no such thing",
        ]
    );
    assert_eq!((episode.record.calls.made, episode.record.calls.failed), (4, 2));
    assert!(episode.verdict.success);
}

#[test]
fn an_episode_comes_back_on_its_record_as_its_server_says() {
    let Some(fixture) = Fixture::new(&["count {\"by\": 2}; count {\"by\": 5}; done"]) else { return };
    let make = |how: &str, repeating: &str| {
        fixture.rows(json!({ "it": stand_in(how, repeating) }), json!({})).unwrap()
    };
    let rebuilt = make("", "rebuilt");
    let task = in_order(&*rebuilt, 1).remove(0);
    let tasks = [task];
    let spawn = &spawns(&tasks, 1)[0];
    let episode = played(&*rebuilt, &tasks).remove(0);
    assert!(episode.verdict.success, "{}", reason(&episode));
    assert_eq!(replay(&spec(&*rebuilt, &[]), spawn, &episode).unwrap(), episode);

    // In sessions that episodes share, what is rebuilt is not what it was; the record says so.
    let shared = make("", "repeatable");
    let first = played(&*shared, &tasks).remove(0);
    assert_eq!(replay(&spec(&*shared, &[]), spawn, &first).unwrap(), first, "taken from the record");
    // A server that does something else is noticed.
    let mut other = episode.clone();
    for contact in &mut other.record.contacts {
        let text = serde_json::to_string(&contact.answer).unwrap().replace("\"7\"", "\"8\"");
        contact.answer = serde_json::from_str(&text).unwrap();
    }
    assert_ne!(other, episode);
    let lost = replay(&spec(&*rebuilt, &[]), spawn, &other).unwrap();
    assert_eq!(lost.ending, Ending::Lost, "{}", reason(&lost));
    // What changes the world is taken from the record.
    let outside = make("", "outside");
    let taken = replay(&spec(&*outside, &[]), spawn, &played(&*outside, &tasks).remove(0)).unwrap();
    assert_eq!(taken.ending, Ending::Completed, "{}", reason(&taken));
}

#[test]
fn an_episode_may_start_within_another_one_whose_calls_are_rebuilt() {
    let Some(fixture) = Fixture::new(&["count {\"by\": 2}; count {\"by\": 5}; done"]) else { return };
    let generator = fixture.rows(json!({ "it": stand_in("", "rebuilt") }), json!({})).unwrap();
    let tasks = in_order(&*generator, 1);
    let whole = played(&*generator, &tasks).remove(0);
    let mut spawn = spawns(&tasks, 1);
    spawn[0].start = Start::Within { episode: &whole, turn: 1 };
    let mut heard = Vec::new();
    let mut policy = answers_by(|turn: &Turn| {
        heard.push(turn.messages.last().unwrap().content.clone());
        obey(turn)
    });
    let further = play(&mut policy, &spec(&*generator, &spawn)).unwrap().remove(0);
    drop(policy);
    assert_eq!(heard, ["2", "7"], "the first call was made again, and the count went on from there");
    assert!(further.verdict.success, "{}", reason(&further));
}

#[test]
fn what_a_server_does_wrong_costs_its_episode_alone() {
    let wrong = [
        ("crash {}", "the server `it` ended without an answer (called `crash`); its stderr ends:\nit broke"),
        ("flood {}", "the server `it` wrote more than 300000 bytes in one episode (called `flood`)"),
        ("garbage {}", "the server `it` wrote a line that is no message of the protocol"),
        ("hang {}", "the server `it` gave no result within 2 s"),
        (
            "huge {\"bytes\": 5000}",
            "the server `it` wrote output that can't be read: a line is longer than 4000 bytes",
        ),
        ("malformed {}", "the server `it` wrote a line that is no message of the protocol"),
        ("odd {}", "the server `it` answered something else than was asked for"),
    ];
    let mut prompts: Vec<&str> = wrong.iter().map(|(prompt, _)| *prompt).collect();
    prompts.push("zero; none");
    let Some(fixture) = Fixture::new(&prompts) else { return };
    let limits = json!({ "timeout_seconds": 2.0, "message_bytes": 4000, "episode_bytes": 300_000, "result_bytes": 100 });
    for repeating in ["rebuilt", "repeatable"] {
        let server = with(stand_in("", repeating), limits.clone());
        let generator = fixture.rows(json!({ "it": server }), json!({})).unwrap();
        let tasks = in_order(&*generator, prompts.len());
        let episodes = played(&*generator, &tasks);
        for ((episode, task), (prompt, expected)) in episodes.iter().zip(&tasks).zip(wrong) {
            assert_eq!(task.prompt[0].content, prompt);
            assert_eq!(episode.ending, Ending::EnvironmentError, "{prompt}");
            assert!(reason(episode).contains(expected), "{prompt}: {}", reason(episode));
        }
        let fine = episodes.last().unwrap();
        assert_eq!((fine.ending, reason(fine)), (Ending::Completed, ""), "{repeating}");
    }
}

#[test]
fn a_server_that_can_not_be_used_stops_the_run_before_it_begins() {
    let Some(fixture) = Fixture::new(&["done"]) else { return };
    let ready = |servers: Value| -> String {
        let made = fixture.rows(servers, json!({}));
        made.and_then(|generator| generator.ready().map_err(|error| error.to_string())).unwrap_err()
    };
    let slow = json!({ "timeout_seconds": 0.5, "startup_seconds": 0.5 });
    for (server, said) in [
        (stand_in("no_tools", "rebuilt"), "the server `it` has no tools"),
        (
            stand_in("crash", "rebuilt"),
            "the server `it` ended before it said that it is a server; its stderr ends:\nno",
        ),
        (stand_in("refuse", "rebuilt"), "the server `it` refuses to begin: not today"),
        (
            with(stand_in("hang", "rebuilt"), slow),
            "the server `it` did not say which tools it has within 1 s",
        ),
        (
            with(stand_in("", "rebuilt"), json!({ "tools": ["cuont"] })),
            "the server `it` has no tool `cuont`, which `servers.it.tools` names; it has `echo`, `next`, `count`",
        ),
        (
            json!({ "command": ["no-such-server"], "repeating": "outside" }),
            "servers.it.command: `no-such-server` can't be",
        ),
        (json!({ "repeating": "outside" }), "servers.it.command: name the program that is the server"),
        (
            json!({ "url": "http://localhost:1/mcp", "repeating": "outside" }),
            "the server `it` can't be reached: POST http://localhost:1/mcp: no answer",
        ),
        (
            json!({ "url": "http://localhost:1/mcp", "repeating": "outside", "api_key_env": "NO_SUCH_VARIABLE_7" }),
            "the server `it`: the environment variable `NO_SUCH_VARIABLE_7` must hold the key",
        ),
        (json!({ "command": ["python3"] }), "servers.it.repeating: say what repeating a call means"),
        (
            json!({ "command": ["python3"], "repeating": "outside", "timeout_seconds": 0 }),
            "servers.it.timeout_seconds: 0 is out of range",
        ),
        (
            json!({ "command": ["python3"], "repeating": "rebuilt", "workspace": "." }),
            "servers.it.workspace: has no effect: say where it goes",
        ),
        (json!({ "command": ["python3"], "comand": 1 }), "unknown field `comand`"),
    ] {
        let problem = ready(json!({ "it": server }));
        assert!(problem.contains(said), "{problem}");
    }
    let twice = ready(json!({ "one": stand_in("", "rebuilt"), "two": stand_in("", "outside") }));
    assert_eq!(
        twice,
        "the servers `one` and `two` both have a tool `echo`: leave it out of one of them, by naming the others in \
         `servers.two.tools`"
    );
}

#[test]
fn a_server_that_changes_between_sessions_is_noticed() {
    let Some(fixture) = Fixture::new(&["count {\"by\": 1}; done"]) else { return };
    let generator = fixture.rows(json!({ "it": stand_in("drift", "rebuilt") }), json!({})).unwrap();
    generator.ready().unwrap();
    let episode = played(&*generator, &in_order(&*generator, 1)).remove(0);
    assert_eq!(episode.ending, Ending::EnvironmentError);
    assert!(
        reason(&episode).contains("does not have the tools that it had at first"),
        "{}",
        reason(&episode)
    );
}

/// Judges by the conversation and by the episode's folder.
const JUDGE: &str = r#"
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    roles = [message["role"] for message in request["messages"]]
    called = [call["function"]["name"] for message in request["messages"] for call in message.get("tool_calls", [])]
    there = sorted(os.listdir(request["workspaces"]["it"]))
    print(json.dumps({"id": request["id"], "reward": 1, "success": True, "feedback": f"{roles} {called} {there}"}), flush=True)
"#;

#[test]
fn an_episode_has_a_folder_of_its_own_and_the_verifier_sees_what_became_of_it() {
    let Some(fixture) = Fixture::new(&["where {}; echo {\"text\": \"/workspace/a\"}; done", "done; x"])
    else {
        return;
    };
    std::fs::create_dir(fixture.path("files")).unwrap();
    std::fs::write(fixture.path("files/note.txt"), "n").unwrap();
    std::fs::write(fixture.path("judge.py"), JUDGE).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-mcp/tests/stand_in.py");
    let server = json!({
        "command": ["sh", "-c", "cd \"$1\" && touch made && exec python3 \"$2\"", "sh", "{workspace}", script],
        "env": { "STAND_IN": "{workspace}/note.txt" },
        "repeating": "rebuilt", "workspace": "files",
    });
    let judge = json!({ "verifier": { "command": ["python3", "judge.py"] } });
    let generator = fixture.rows(json!({ "it": server }), judge).unwrap();
    assert!(generator.files().contains(&fixture.path("files/note.txt")));
    let tasks = in_order(&*generator, 2);
    let (idle, busy) = (&tasks[0], &tasks[1]);
    let (episode, said) = results(&*generator, busy);
    assert_eq!(said, ["/workspace /workspace/note.txt", "/workspace/a"], "{}", reason(&episode));
    let feedback = "['user', 'assistant', 'tool', 'assistant', 'tool', 'assistant'] ['where', 'echo'] ['made', 'note.txt']";
    assert_eq!(episode.verdict.feedback.as_deref(), Some(feedback), "{}", reason(&episode));
    assert!(!fixture.path("files/made").exists(), "the original stays as it is");
    // An episode without a call has one too.
    let (episode, _) = results(&*generator, idle);
    assert_eq!(episode.verdict.feedback.as_deref(), Some("['user', 'assistant'] [] ['note.txt']"));
}
