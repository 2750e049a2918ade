//! Sessions over streamable HTTP with a server that can do everything wrong (`stand_in.py`).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use burnish_mcp::{Address, Broken, Client, Limits, Reply};
use common::{Background, LIMITS, SCRIPT, call, has_python, next_of_a_long_integer, text, url};
use serde_json::json;

/// The stand-in, and its port. `None` without Python.
fn stand_in(how: &str) -> Option<(Background, String)> {
    if !has_python() {
        return None;
    }
    let mut server = Background::start(Command::new("python3").args([SCRIPT, "http", how]));
    let port = server.lines.next().unwrap().unwrap();
    Some((server, port))
}

#[test]
fn a_session_goes_over_events_and_over_plain_json() {
    for how in ["", "json"] {
        let Some((mut server, port)) = stand_in(how) else { return };
        let mut client = Client::start(&url(&port), &LIMITS).unwrap();
        let mut other = Client::start(&url(&port), &LIMITS).unwrap();
        assert_eq!(client.tools()[0].name, "echo");
        assert_eq!(text(&mut client, "echo", json!({ "text": "ä\n\"b\"" })), "ä\n\"b\"");
        assert_eq!(text(&mut client, "count", json!({ "by": 2 })), "2");
        assert_eq!(text(&mut client, "count", json!({ "by": 3 })), "5");
        assert_eq!(text(&mut other, "count", json!({ "by": 1 })), "1", "a session of its own");
        next_of_a_long_integer(&mut client);
        let refuse = call(&mut client, "refuse", json!({})).unwrap();
        assert_eq!(refuse, Reply { text: "Error: not like this ({\"at\":1})".into(), is_error: true });
        assert!(client.is_running());
        client.end();
        assert_eq!(
            server.lines.next().unwrap().unwrap(),
            "deleted",
            "the server is told that the session is over"
        );
    }
}

#[test]
fn whatever_a_server_does_ends_its_session_with_the_reason() {
    let Some((_server, port)) = stand_in("") else { return };
    for (tool, arguments, reason) in [
        ("hang", json!({}), "gave no result within 1 s"),
        ("flood", json!({}), "wrote more than 1000000 bytes in one episode"),
        ("huge", json!({ "bytes": 200_000 }), "wrote a message of more than 100000 bytes"),
        ("garbage", json!({}), "wrote something that is no message of the protocol"),
        ("malformed", json!({}), "wrote something that is no message of the protocol"),
        ("odd", json!({}), "answered something else than was asked for (called `odd`)"),
    ] {
        let call_seconds = if tool == "hang" { 1 } else { 20 };
        let limits = Limits { call: Duration::from_secs(call_seconds), ..LIMITS };
        let mut client = Client::start(&url(&port), &limits).unwrap();
        let problem = call(&mut client, tool, arguments).unwrap_err();
        let Broken(said) = client.stop(problem);
        assert!(said.starts_with(reason), "{tool}: {said}");
    }
    // A session that the server has forgotten is not begun anew: its state is lost.
    let mut client = Client::start(&url(&port), &LIMITS).unwrap();
    assert_eq!(text(&mut client, "forget", json!({})), "forgotten");
    let Broken(said) = call(&mut client, "count", json!({ "by": 1 })).unwrap_err();
    assert_eq!(said, "has forgotten the session (status 404) (called `count`)");
    // A server that is gone.
    let mut client = Client::start(&url(&port), &LIMITS).unwrap();
    let Broken(said) = call(&mut client, "crash", json!({})).unwrap_err();
    assert!(said.contains("called `crash`"), "{said}");
    let Broken(said) = Client::start(&url(&port), &LIMITS).unwrap_err();
    assert!(said.contains("no answer"), "{said}");
}

#[test]
fn a_key_and_headers_are_sent() {
    let Some((_server, port)) = stand_in("key") else { return };
    let with = |key: Option<&str>, headers: &[(&str, &str)]| Address::Url {
        url: format!("http://127.0.0.1:{port}/mcp"),
        key: key.map(str::to_owned),
        headers: headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    };
    let refused = |address: Address| Client::start(&address, &LIMITS).unwrap_err().0;
    assert!(refused(with(None, &[])).contains("401"), "{}", refused(with(None, &[])));
    assert!(refused(with(Some("open sesame"), &[])).contains("403"));
    let mut client = Client::start(&with(Some("open sesame"), &[("x-team", "seven")]), &LIMITS).unwrap();
    assert_eq!(text(&mut client, "echo", json!({ "text": "in" })), "in");
    let bad = Address::Url { url: "localhost/mcp".into(), key: None, headers: BTreeMap::new() };
    assert!(refused(bad).contains("localhost/mcp: it is no address"));
    assert!(refused(with(None, &[("x team", "seven")])).contains("the header `x team`"));
}
