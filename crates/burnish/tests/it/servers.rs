//! Policies with tools of MCP servers, in real runs.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Scratch;
use burnish_core::{Ending, Role};
use burnish_rundir::journal::{EpisodeKind, Journal};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page's command of its server.
const PAGES: &str = r#"["npx", "-y", "@modelcontextprotocol/server-filesystem", "{workspace}"]"#;

/// The recipe of the page, with its rows and files, and another command of its server.
fn scratch(server: &str) -> Scratch {
    let scratch = Scratch::new();
    let page = std::fs::read_to_string(root().join("docs/environments/mcp.md")).unwrap();
    let block = |start: &str| page.split(start).nth(1).unwrap().split("```").next().unwrap().to_owned();
    let recipe = block("```toml\n# files.toml\n");
    assert!(recipe.contains(PAGES), "{recipe}");
    scratch.write("files.toml", recipe.replace(PAGES, server));
    scratch.write("tasks.jsonl", block("```json\n"));
    std::fs::create_dir(scratch.path("project")).unwrap();
    scratch.write("project/a.txt", "red");
    scratch.write("project/b.txt", "blue");
    for folder in ["models", "recipes"] {
        std::os::unix::fs::symlink(root().join(folder).canonicalize().unwrap(), scratch.path(folder))
            .unwrap();
    }
    scratch
}

/// Trains the page's recipe. The policy reads what is in the files, and every episode comes back on its record.
fn is_played(server: &str) {
    let scratch = scratch(server);
    let servers = format!("servers.files={{command={server}, workspace=\"project\", repeating=\"rebuilt\"}}");
    let shown = ["env", "show", "rows", "path=tasks.jsonl", "verifier=exact", &servers];
    let shown = scratch.burnish(&shown).succeeds().stdout();
    assert!(shown.contains("tool: read_text_file"), "{shown}");
    scratch.burnish(&["train", "files.toml"]).succeeds();
    let journal = Journal::open_to_read(&scratch.path("runs/files/run.db")).unwrap();
    let (mut called, mut answered) = (0, 0);
    for step in [1, 2] {
        for stored in journal.episodes(step, EpisodeKind::Train).unwrap() {
            let episode = stored.episode;
            assert!(episode.verdict.is_scored(), "{:?}", episode.verdict);
            assert!(matches!(episode.ending, Ending::Completed | Ending::TurnsMax), "{:?}", episode.ending);
            assert_eq!(episode.record.calls.failed, 0);
            called += episode.record.calls.made;
            answered += usize::from(episode.ending == Ending::Completed);
            assert!(episode.answers.iter().all(|answer| answer.role == Role::Assistant));
        }
    }
    assert!(called > 0 && answered > 0, "{called} {answered}");
    let told = scratch.burnish(&["rollout", "--from", "runs/files", "--json"]).succeeds().stdout();
    assert!(told.contains("red") || told.contains("blue"), "{told}");
    scratch.burnish(&["rollout", "--from", "runs/files", "--replay"]).succeeds();
    // How a server is started may change in a run that goes on; what its tools are may not.
    let resume = ["train", "--resume", "runs/files", "train.max_steps=3"];
    let changed = [&resume[..], &["env.config.servers.files.workers=2"]].concat();
    let said = scratch.burnish(&changed).succeeds().stdout();
    assert!(said.contains("`env.config.servers.files.workers`"), "{said}");
    let refused = [&resume[..], &["env.config.servers.files.result_bytes=100"]].concat();
    scratch.burnish(&refused).fails_with(&["env.config.servers.files.result_bytes"]);
    // Files that are others are noticed.
    scratch.write("project/a.txt", "green");
    scratch.write("project/b.txt", "green");
    scratch.burnish(&["rollout", "--from", "runs/files", "--replay"]).fails_with(&["is not what it was"]);
}

#[test]
fn the_recipe_of_the_page_is_trained_and_replayed_with_a_stand_in() {
    if !Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
        println!("skipped: python3 can't be run");
        return;
    }
    let script = root().join("crates/burnish-mcp/tests/stand_in.py").canonicalize().unwrap();
    is_played(&format!("[\"python3\", {script:?}, \"files\", \"{{workspace}}\"]"));
}

#[test]
fn the_recipe_of_the_page_is_trained_and_replayed_with_the_real_server() {
    let folder = std::env::var_os("BURNISH_MCP").map(PathBuf::from);
    let server = folder.map(|folder| folder.join("node_modules/.bin/mcp-server-filesystem"));
    let Some(server) = server.filter(|server| server.exists()) else {
        println!("skipped: mcp-server-filesystem is not in the folder BURNISH_MCP");
        return;
    };
    is_played(&format!("[\"node\", {server:?}, \"{{workspace}}\"]"));
}

#[test]
fn a_server_that_is_none_stops_the_run_before_it_begins() {
    if !Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
        println!("skipped: python3 can't be run");
        return;
    }
    let scratch = scratch(r#"["python3", "-c", "raise SystemExit('no licence')", "{workspace}"]"#);
    scratch.burnish(&["train", "files.toml"]).fails_with(&["the server `files` ended before", "no licence"]);
    let unknown = ["train", "files.toml", "env.config.servers.files.repeating=\"sometimes\""];
    scratch.burnish(&unknown).fails_with(&["servers", "sometimes"]);
    assert!(!scratch.path("runs/files/metrics.jsonl").exists());
}
