//! Users' own rewards in real runs.
#![cfg(unix)]

use std::path::Path;
use std::process::Command;

use crate::common::{Scratch, wait_until};

/// A run on rows whose verifier is `reward.py`. `None`, with a printed line, if there is no Python.
fn scratch(reward: &str, rows: &str) -> Option<Scratch> {
    if !Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
        println!("skipped: python3 can't be run");
        return None;
    }
    let scratch = Scratch::new();
    let policy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/starter");
    scratch.write("reward.py", reward);
    scratch.write("rows.jsonl", rows);
    let recipe = format!(
        "[run]\ndir = \"run\"\nthreads = 2\n[policy]\npath = {policy:?}\n[env]\nid = \"rows\"\ntasks = 4\n\
         [env.config]\npath = \"rows.jsonl\"\nverifier.command = [\"python3\", \"reward.py\"]\n[train]\nmethod = \"grpo\"\n\
         max_steps = 1\n[rollout]\ntasks_per_step = 2\ngroup_size = 2\ntokens_max = 4\n[eval]\ntasks = 0\n"
    );
    scratch.write("recipe.toml", recipe);
    Some(scratch)
}

/// Whether the process exists and is not a zombie.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

/// A verifier that answers once, when it is tried, and never again, with a child that behaves the same.
const HANGING: &str = "import json, os, subprocess, sys, time\n\
    if not os.path.exists('tried'):\n    \
    open('tried', 'w').close()\n    \
    print(json.dumps({'id': json.loads(sys.stdin.readline())['id'], 'reward': 1.0}), flush=True)\n\
    child = subprocess.Popen(['sleep', '1000'])\n\
    with open('pids', 'a') as log:\n    \
    print(os.getpid(), child.pid, file=log, flush=True)\n\
    time.sleep(1000)\n";

#[test]
fn a_hanging_reward_and_its_children_end_when_the_run_is_killed() {
    if !Path::new("/proc/self/stat").exists() {
        println!("skipped: there is no /proc to see processes in");
        return;
    }
    let rows: String =
        (0..8).map(|at| format!("{{\"prompt\": \"{at}?\", \"answer\": \"{at}\"}}\n")).collect();
    let Some(scratch) = scratch(HANGING, &rows) else { return };
    let mut run = scratch.command(&["train", "recipe.toml"]).spawn().unwrap();
    let pids = || std::fs::read_to_string(scratch.path("pids")).unwrap_or_default();
    // Four answers are judged in parallel.
    wait_until("the rewards hang", || pids().lines().count() == 4 || run.try_wait().unwrap().is_some());
    let pids: Vec<String> = pids().split_whitespace().map(str::to_owned).collect();
    assert!(pids.len() == 8 && pids.iter().all(|pid| is_running(pid)), "{pids:?}");
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("the rewards have ended", || !pids.iter().any(|pid| is_running(pid)));
}
