//! Sessions with a server that can do everything wrong (`stand_in.py`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use burnish_mcp::{Address, Broken, Client, Limits, Reply};
use common::{LIMITS, SCRIPT, call, has_python, next_of_a_long_integer, program, text};
use serde_json::json;

fn stand_in(how: &str, folder: Option<&Path>) -> Address {
    program(&["python3", SCRIPT, how], &[("STAND_IN", "set")], folder)
}

#[test]
fn tools_are_listed_and_called_and_state_stays_for_the_session() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::start(&stand_in("", Some(folder.path())), &LIMITS).unwrap();
    let echo = &client.tools()[0];
    assert_eq!(echo.name, "echo");
    assert_eq!(echo.description, "Stand-in tool echo.");
    assert_eq!(echo.parameters["required"], json!(["text"]));
    assert_eq!(text(&mut client, "echo", json!({ "text": "ä\n\"b\"" })), "ä\n\"b\"");
    assert_eq!(text(&mut client, "count", json!({ "by": 2 })), "2");
    assert_eq!(text(&mut client, "count", json!({ "by": 3 })), "5");
    assert_eq!(text(&mut client, "key", json!({})), "key-7");
    next_of_a_long_integer(&mut client);
    let place = folder.path().canonicalize().unwrap();
    assert_eq!(text(&mut client, "where", json!({})), format!("{} set", place.display()));
    // A server may ask for what this client does not do.
    assert_eq!(text(&mut client, "ask", json!({})), "refused");
    assert!(client.is_running());
    let mut other = Client::start(&stand_in("pages", None), &LIMITS).unwrap();
    assert_eq!(other.tools(), client.tools(), "the same on pages of one tool");
    assert_eq!(text(&mut other, "count", json!({ "by": 1 })), "1", "a session of its own");
    client.end();
    other.end();
}

#[test]
fn what_a_tool_refuses_is_a_result_and_a_long_one_is_cut() {
    if !has_python() {
        return;
    }
    let mut client = Client::start(&stand_in("", None), &LIMITS).unwrap();
    let fail = call(&mut client, "fail", json!({})).unwrap();
    assert_eq!(fail, Reply { text: "no such thing".into(), is_error: true });
    let refuse = call(&mut client, "refuse", json!({})).unwrap();
    assert_eq!(refuse, Reply { text: "Error: not like this ({\"at\":1})".into(), is_error: true });
    let huge = text(&mut client, "huge", json!({ "bytes": 5_000 }));
    assert_eq!(huge, format!("{}\n[cut: the first 1000 of 5000 bytes]", "x".repeat(1_000)));
    // A change of the list leaves the session as it was.
    assert_eq!(text(&mut client, "change", json!({})), "changed");
    assert_eq!(text(&mut client, "echo", json!({ "text": "on" })), "on");
    assert!(client.tools().iter().all(|tool| tool.name != "new"));
}

#[test]
fn whatever_a_server_does_ends_its_session_with_the_reason() {
    if !has_python() {
        return;
    }
    for (tool, arguments, reason) in [
        ("crash", json!({}), "ended without an answer (called `crash`); its stderr ends:\nit broke"),
        (
            "hang",
            json!({}),
            "gave no result within 1 s; raise timeout_seconds if it needs longer (called `hang`)",
        ),
        ("flood", json!({}), "wrote more than 1000000 bytes in one episode (called `flood`)"),
        ("garbage", json!({}), "wrote a line that is no message of the protocol"),
        ("malformed", json!({}), "wrote a line that is no message of the protocol"),
        ("odd", json!({}), "answered something else than was asked for (called `odd`)"),
        (
            "huge",
            json!({ "bytes": 200_000 }),
            "wrote output that can't be read: a line is longer than 100000 bytes (called `huge`)",
        ),
    ] {
        let limits = Limits { call: Duration::from_secs(if tool == "hang" { 1 } else { 20 }), ..LIMITS };
        let mut client = Client::start(&stand_in("", None), &limits).unwrap();
        let begun = Instant::now();
        let problem = call(&mut client, tool, arguments).unwrap_err();
        let Broken(said) = client.stop(problem);
        assert!(said.starts_with(reason), "{tool}: {said}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{tool}");
    }
}

#[test]
fn bytes_are_counted_anew_in_every_episode() {
    if !has_python() {
        return;
    }
    let limits = Limits { episode_bytes: 100_000, ..LIMITS };
    let mut client = Client::start(&stand_in("", None), &limits).unwrap();
    for _ in 0..3 {
        client.restart();
        text(&mut client, "huge", json!({ "bytes": 60_000 }));
    }
    let Broken(said) = call(&mut client, "huge", json!({ "bytes": 60_000 })).unwrap_err();
    assert_eq!(said, "wrote more than 100000 bytes in one episode (called `huge`)");
}

#[test]
fn a_server_that_does_not_begin_as_one_is_refused() {
    if !has_python() {
        return;
    }
    for (how, reason) in [
        ("crash", "ended before it said that it is a server; its stderr ends:\nno licence"),
        ("hang", "did not say which tools it has within 1 s (timeout_seconds and startup_seconds)"),
        ("endless", "did not say which tools it has within 1 s (timeout_seconds and startup_seconds)"),
        ("banner", "wrote a line that is no message of the protocol"),
        ("refuse", "refuses to begin: not today"),
    ] {
        let is_slow = matches!(how, "hang" | "endless");
        let start = Duration::from_secs(if is_slow { 1 } else { 20 });
        // A fast machine reads many pages of tools in a second.
        let limits = Limits { start, episode_bytes: u64::MAX, ..LIMITS };
        let Broken(said) = Client::start(&stand_in(how, None), &limits).unwrap_err();
        assert!(said.starts_with(reason), "{how}: {said}");
    }
    let nowhere = program(&["no-such-server"], &[], Some(Path::new("/tmp")));
    let Broken(said) = Client::start(&nowhere, &LIMITS).unwrap_err();
    assert!(said.starts_with("can't be started in /tmp: "), "{said}");
}
