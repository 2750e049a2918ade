//! `burnish env serve`: other trainers play our environments over OpenEnv.

#![cfg(unix)]

use std::process::Command;

use crate::common::Scratch;
use crate::served::Served;

/// Plays an episode with the `openenv` package: its generic client, then its client of tools.
const CLIENT: &str = r#"
import asyncio, json, re, sys
from openenv.core.generic_client import GenericEnvClient

async def chains(url):
    async with GenericEnvClient(base_url=url) as env:
        seen = await env.reset(seed=3, episode_id="mine")
        assert not seen.done and seen.reward is None, seen
        text = seen.observation["text"]
        again = await env.reset(seed=3)
        assert again.observation["text"] == text
        other = await env.reset(seed=4)
        assert other.observation["text"] != text
        await env.reset(seed=3)
        over = await env.step({"message": "I do not know."})
        assert over.done and over.reward == 0.0 and over.observation["success"] is False, over
        state = await env.state()
        assert state["step_count"] == 1, state

async def accounts(url):
    async with GenericEnvClient(base_url=url) as env:
        await env.reset(seed=3)
        tools = (await env.step({"type": "list_tools"})).observation["tools"]
        assert tools and all(tool["input_schema"]["type"] == "object" for tool in tools), tools
        told = await env.step({"type": "call_tool", "tool_name": "no_such_tool", "arguments": {}})
        assert "no tool `no_such_tool`" in told.observation["result"], told
        over = await env.step({"message": "I give up."})
        assert over.done and over.observation["success"] is False, over

asyncio.run({"chains": chains, "accounts": accounts}[sys.argv[1]](sys.argv[2]))
print("played")
"#;

fn serve(scratch: &Scratch, id: &'static str) -> Served {
    Served::start("/health", &scratch.path(&format!("{id}.log")), move |port| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_burnish"));
        command.args(["env", "serve", id, "--address", &format!("127.0.0.1:{port}"), "--sessions", "2"]);
        command
    })
}

#[test]
fn a_run_learns_from_an_environment_that_another_program_serves() {
    let scratch = Scratch::with_policy();
    let server = serve(&scratch, "chains");
    let recipe = String::from_utf8(scratch.read("grpo.toml")).unwrap();
    let (before, after) = recipe.split_once("[env]").unwrap();
    let after = after.find("\n[train]").map_or("", |at| &after[at..]);
    let env = format!(
        "[env]\nid = \"openenv\"\n[env.config]\nurl = \"{}\"\nanswer = \"message\"\nobservation = \"text\"\n",
        server.url
    );
    scratch.write("served.toml", format!("{before}{env}{after}"));
    let run = ["train", "served.toml", "run.dir=served", "train.max_steps=2", "eval.tasks=4"];
    scratch.burnish(&run).succeeds();
    scratch.burnish(&["rollout", "--from", "served", "--replay"]).succeeds();
    let episodes = scratch.burnish(&["rollout", "--from", "served", "--json"]).succeeds().stdout();
    let episodes: Vec<serde_json::Value> =
        episodes.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!episodes.is_empty());
    for episode in &episodes {
        assert_eq!(episode["ending"], "completed", "{episode}");
        assert!(episode["rewards"]["reward"].is_f64(), "{episode}");
        // What it reads is what the server says, not what stands for it before the episode begins.
        let read = episode["text"].as_str().unwrap();
        assert!(!read.contains("begins with the seed"), "{episode}");
    }
}

#[test]
fn the_openenv_package_plays_our_environments() {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = "import openenv.core.generic_client";
    if !Command::new(&python).args(["-c", import]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no openenv-core; BURNISH_PYTHON can name one that has");
        return;
    }
    let scratch = Scratch::new();
    for id in ["chains", "accounts"] {
        let server = serve(&scratch, id);
        let played =
            Command::new(&python).args(["-W", "ignore", "-c", CLIENT, id, &server.url]).output().unwrap();
        let said = String::from_utf8_lossy(&played.stderr);
        assert!(played.status.success(), "{id}: {said}");
    }
}

/// Plays an episode with the `mcp` package.
const TOOLS_CLIENT: &str = r#"
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main(program):
    server = StdioServerParameters(command=program, args=["env", "serve", "accounts", "--mcp"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        assert names[:2] == ["reset", "answer"] and len(names) > 2, names
        opening = (await session.call_tool("reset", {"seed": 3})).content[0].text
        again = (await session.call_tool("reset", {"seed": 3})).content[0].text
        assert opening and opening == again
        over = (await session.call_tool("answer", {"text": "I give up."})).content[0].text
        assert '"success":false' in over, over
        late = await session.call_tool("answer", {"text": "more"})
        text = late.content[0].text
        assert getattr(late, "isError", None) or getattr(late, "is_error", None), late
        assert "the episode is over" in text, text

asyncio.run(main(sys.argv[1]))
"#;

#[test]
fn the_mcp_package_plays_our_environments() {
    let Some(folder) = std::env::var_os("BURNISH_MCP") else {
        println!("skipped: BURNISH_MCP names no folder with servers of MCP and a venv");
        return;
    };
    let python = std::path::Path::new(&folder).join("venv/bin/python");
    let program = env!("CARGO_BIN_EXE_burnish");
    let played = Command::new(python).args(["-W", "ignore", "-c", TOOLS_CLIENT, program]).output().unwrap();
    assert!(played.status.success(), "{}", String::from_utf8_lossy(&played.stderr));
}

#[test]
fn an_environment_of_ours_is_a_server_for_another() {
    let scratch = Scratch::new();
    scratch.write("rows.jsonl", "{\"prompt\": \"Which tools are there?\", \"answer\": \"x\"}\n");
    let server = format!(
        "servers.world={{command=[{:?}, \"env\", \"serve\", \"accounts\", \"--mcp\"], repeating=\"rebuilt\"}}",
        env!("CARGO_BIN_EXE_burnish")
    );
    let shown =
        scratch.burnish(&["env", "show", "rows", "path=rows.jsonl", "verifier=exact", &server]).succeeds();
    let text = shown.stdout();
    assert!(text.contains("reset") && text.contains("Begins an episode"), "{text}");
}
