//! Servers that others wrote: npm's `@modelcontextprotocol/server-filesystem`, `-memory`, `-everything`, and PyPI's
//! `mcp-server-time`, `mcp-server-git`. `BURNISH_MCP` names a folder with `node_modules` and a virtual environment `venv`
//! that have them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use burnish_mcp::{Broken, Client, Limits};
use common::{Background, LIMITS, call, program, text, url};
use serde_json::json;

/// The path of a file in the folder with servers; `None`, saying so, without one.
fn server(path: &str) -> Option<String> {
    let folder = std::env::var_os("BURNISH_MCP").map(PathBuf::from);
    let found = folder.map(|folder| folder.join(path)).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: {path} is not in the folder BURNISH_MCP");
    }
    found.map(|path| path.display().to_string())
}

const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";

#[test]
fn files_are_written_and_read() {
    let Some(server) = server("node_modules/.bin/mcp-server-filesystem") else { return };
    let folder = tempfile::tempdir().unwrap();
    let address = program(&["node", &server, "."], &[], Some(folder.path()));
    let mut client = Client::start(&address, &LIMITS).unwrap();
    text(&mut client, "write_file", json!({ "path": "a.txt", "content": "one\ntwo\n" }));
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt")).unwrap(), "one\ntwo\n");
    assert_eq!(text(&mut client, "read_text_file", json!({ "path": "a.txt", "head": 1 })), "one");
    assert!(text(&mut client, "list_directory", json!({ "path": "." })).contains("[FILE] a.txt"));
    let outside = call(&mut client, "read_text_file", json!({ "path": "/etc/passwd" })).unwrap();
    assert!(outside.is_error && outside.text.contains("denied"), "{outside:?}");
    // What its schema does not allow, too.
    assert!(call(&mut client, "read_text_file", json!({ "path": 7 })).unwrap().is_error);
    client.end();
}

#[test]
fn a_graph_is_kept_in_a_file() {
    let Some(server) = server("node_modules/.bin/mcp-server-memory") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("graph.jsonl").display().to_string();
    let address = program(&["node", &server], &[("MEMORY_FILE_PATH", &file)], None);
    let mut client = Client::start(&address, &LIMITS).unwrap();
    let rose =
        json!({ "entities": [{ "name": "rose", "entityType": "flower", "observations": ["is red"] }] });
    text(&mut client, "create_entities", rose);
    client.end();
    let mut client = Client::start(&address, &LIMITS).unwrap();
    assert!(text(&mut client, "search_nodes", json!({ "query": "red" })).contains("rose"));
}

#[test]
fn everything_over_lines_and_over_http() {
    let Some(server) = server(EVERYTHING) else { return };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut http = Command::new("node");
    http.args([&server, "streamableHttp"]).env("PORT", &port).stderr(Stdio::null());
    let _http = Background::start(&mut http);
    let begun = Instant::now();
    let over_http = loop {
        match Client::start(&url(&port), &LIMITS) {
            Ok(client) => break client,
            Err(Broken(problem)) => assert!(begun.elapsed() < Duration::from_secs(30), "{problem}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let over_lines = Client::start(&program(&["node", &server], &[], None), &LIMITS).unwrap();
    let names = |client: &Client| client.tools().iter().map(|tool| tool.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&over_lines), names(&over_http));
    for mut client in [over_lines, over_http] {
        assert_eq!(text(&mut client, "echo", json!({ "message": "hi" })), "Echo: hi");
        assert!(text(&mut client, "get-sum", json!({ "a": 20, "b": 22 })).contains("42"));
        assert!(text(&mut client, "get-tiny-image", json!({})).contains("[image: image/png]"));
        let weather = text(&mut client, "get-structured-content", json!({ "location": "Chicago" }));
        assert!(weather.contains("temperature"), "{weather}");
        let long = json!({ "duration": 1, "steps": 2 });
        assert!(text(&mut client, "trigger-long-running-operation", long).contains("completed"));
        assert!(call(&mut client, "get-sum", json!({ "a": "x" })).unwrap().is_error);
        client.end();
    }
    // The clock runs out, and the session with it.
    let limits = Limits { call: Duration::from_millis(500), ..LIMITS };
    for address in [program(&["node", &server], &[], None), url(&port)] {
        let mut client = Client::start(&address, &limits).unwrap();
        let long = json!({ "duration": 20, "steps": 2 });
        let Broken(problem) = call(&mut client, "trigger-long-running-operation", long).unwrap_err();
        assert!(problem.starts_with("gave no result within 0.5 s"), "{problem}");
    }
}

#[test]
fn the_time_is_told_and_a_repository_is_read() {
    let (Some(clock), Some(git)) = (server("venv/bin/mcp-server-time"), server("venv/bin/mcp-server-git"))
    else {
        return;
    };
    let mut client =
        Client::start(&program(&[&clock, "--local-timezone", "UTC"], &[], None), &LIMITS).unwrap();
    let asked = json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    assert!(text(&mut client, "convert_time", asked).contains("T21:00:00"));
    assert!(call(&mut client, "get_current_time", json!({ "timezone": "Mars/Olympus" })).unwrap().is_error);
    client.end();

    let folder = tempfile::tempdir().unwrap();
    let made =
        Command::new("git").args(["init", "-q", "-b", "main", "."]).current_dir(folder.path()).status();
    assert!(made.unwrap().success());
    std::fs::write(folder.path().join("new.txt"), "x").unwrap();
    let path = folder.path().display().to_string();
    let mut client = Client::start(&program(&[&git, "--repository", &path], &[], None), &LIMITS).unwrap();
    assert!(text(&mut client, "git_status", json!({ "repo_path": path })).contains("new.txt"));
    client.end();
}
