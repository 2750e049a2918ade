//! Environments that are programs, in real runs.
#![cfg(unix)]

use crate::common;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Scratch, timeless_metrics, wait_until};
use burnish_rundir::journal::{EpisodeKind, Journal};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page's program and recipe, with the helper beside them. `None`, with a printed line, if there is no Python.
fn scratch(change: impl Fn(String) -> String) -> Option<Scratch> {
    if !Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
        println!("skipped: python3 can't be run");
        return None;
    }
    let scratch = Scratch::new();
    let page = std::fs::read_to_string(root().join("docs/environments/command.md")).unwrap();
    for (language, name) in [("python", "guess.py"), ("toml", "guess.toml")] {
        let block = page.split(&format!("```{language}\n# {name}\n")).nth(1).unwrap();
        let block = block.split("```").next().unwrap().to_owned();
        assert!(
            language != "python" || block.lines().filter(|line| !line.is_empty()).count() <= 30,
            "{block}"
        );
        let block = block.replace("from burnish.environment import", "from environment import");
        scratch.write(name, if language == "python" { change(block) } else { block });
    }
    std::fs::copy(root().join("python/burnish/environment.py"), scratch.path("environment.py")).unwrap();
    std::fs::create_dir(scratch.path("models")).unwrap();
    std::os::unix::fs::symlink(
        root().join("models/starter").canonicalize().unwrap(),
        scratch.path("models/starter"),
    )
    .unwrap();
    Some(scratch)
}

#[test]
fn the_example_of_the_page_is_trained_evaluated_and_replayed() {
    let Some(scratch) = scratch(|program| program) else { return };
    let shown = scratch
        .burnish(&["env", "show", "command", "command=[\"python3\", \"guess.py\"]", "--tasks", "5"])
        .succeeds()
        .stdout();
    assert!(shown.contains("I think of a number from "), "{shown}");
    scratch.burnish(&["train", "guess.toml", "--dry-run"]).succeeds();
    scratch.burnish(&["train", "guess.toml"]).succeeds();
    let said = scratch.burnish(&["eval", "runs/guess", "--json"]).succeeds().stdout();
    assert!(said.contains("\"half\""), "{said}");
    for kind in [&[][..], &["--eval"]] {
        scratch.burnish(&[&["rollout", "--from", "runs/guess", "--replay"], kind].concat()).succeeds();
    }
    // The same seeds, the same run, however many processes play it.
    scratch.burnish(&["train", "guess.toml", "run.dir=again", "env.config.workers=2"]).succeeds();
    // How much of prompts was in the cache depends on which episode was first.
    let metrics = |dir: &str| {
        let lines = timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
        let without = |line: &String| {
            let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
            line.as_object_mut().unwrap().remove("sampling/prompt_tokens_read");
            line
        };
        lines.iter().map(without).collect::<Vec<_>>()
    };
    assert_eq!(metrics("runs/guess"), metrics("again"));
    // How it is started may change in a run that goes on.
    let changes =
        ["train.max_steps=3", "env.config.command=[\"python3\", \"./guess.py\"]", "env.config.workers=3"];
    let said = scratch.burnish(&[&["train", "--resume", "again"][..], &changes].concat()).succeeds().stdout();
    assert!(said.contains("`env.config.command`") && said.contains("`env.config.workers`"), "{said}");
    // A program that is another one is noticed.
    let program = String::from_utf8(scratch.read("guess.py")).unwrap();
    scratch.write("guess.py", program.replace("\"Lower.\"", "\"Less.\"").replace("\"Higher.\"", "\"More.\""));
    scratch
        .burnish(&["rollout", "--from", "runs/guess", "--replay"])
        .fails_with(&["its environment is not what it was"]);
}

#[test]
fn episodes_of_a_program_that_crashes_are_unscored_and_the_run_goes_on() {
    let change = |program: String| {
        program.replace(
            "        self.guess, self.guesses = None, 0\n",
            "        self.guess, self.guesses = None, 0\n        if self.data % 2:\n            __import__('os')._exit(9)\n",
        )
    };
    let Some(scratch) = scratch(change) else { return };
    scratch.burnish(&["train", "guess.toml", "eval.tasks=0"]).succeeds();
    let journal = Journal::open_to_read(&scratch.path("runs/guess/run.db")).unwrap();
    let (mut crashed, mut played) = (0, 0);
    for step in [1, 2] {
        for stored in journal.episodes(step, EpisodeKind::Train).unwrap() {
            let verdict = format!("{:?}", stored.episode.verdict);
            let is_odd = stored.task.truth.as_u64().unwrap() % 2 == 1;
            assert_eq!(stored.episode.verdict.is_scored(), !is_odd, "{verdict}");
            assert_eq!(verdict.contains("ended without an answer (asked to `reset`)"), is_odd, "{verdict}");
            if is_odd { crashed += 1 } else { played += 1 }
        }
    }
    assert!(crashed > 0 && played > 0, "{crashed} {played}");
}

#[test]
fn a_program_that_is_no_environment_stops_the_run_before_it_begins() {
    let Some(scratch) = scratch(|_| "import no_such_module_7".to_owned()) else { return };
    let stopped = |overrides: &[&str], parts: &[&str]| {
        scratch.burnish(&[&["train", "guess.toml"], overrides].concat()).fails_with(parts);
    };
    stopped(&[], &["`python3 guess.py`", "no_such_module_7"]);
    stopped(&["env.config.command=[\"no-such-program-7\"]"], &["env.config.command", "can't be started"]);
    stopped(&["env.config.workers=0"], &["env.config.workers", "out of range"]);
    assert!(!scratch.path("runs/guess/metrics.jsonl").exists());
}

#[test]
fn the_recipe_of_the_page_on_reasoning_gym_is_evaluated_and_replayed() {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import reasoning_gym"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no reasoning_gym; BURNISH_PYTHON can name one that has");
        return;
    }
    let Some(scratch) = scratch(|program| program) else { return };
    let page = std::fs::read_to_string(root().join("docs/environments/bridges.md")).unwrap();
    let recipe = page.split("```toml\n# gym.toml\n").nth(1).unwrap().split("```").next().unwrap();
    scratch.write("gym.toml", recipe.replace("\"python3\"", &format!("{python:?}")));
    let path = root().join("python").canonicalize().unwrap();
    let run = |arguments: &[&str]| {
        let output = scratch.command(arguments).env("PYTHONPATH", &path).output().unwrap();
        common::Finished::of(arguments, output).succeeds().stdout()
    };
    run(&["train", "gym.toml"]);
    let said = run(&["eval", "runs/gym"]);
    assert!(said.contains("dataset=gcd") && said.contains("scorer_failed"), "{said}");
    assert!(
        run(&["rollout", "--from", "runs/gym", "--replay", "--eval"]).contains("24 episodes played again")
    );
}

/// Whether the process exists and is not a zombie.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

#[test]
fn processes_and_their_children_end_when_the_run_is_killed() {
    if !Path::new("/proc/self/stat").exists() {
        println!("skipped: there is no /proc to see processes in");
        return;
    }
    let hang = "        import os, subprocess, time\n        \
        child = subprocess.Popen(['sleep', '1000'])\n        \
        print(os.getpid(), child.pid, file=open('pids', 'a'), flush=True)\n        time.sleep(1000)\n";
    let change = |program: String| program.replace("        self.guess, self.guesses = None, 0\n", hang);
    let Some(scratch) = scratch(change) else { return };
    let mut run = scratch.command(&["train", "guess.toml", "eval.tasks=0"]).spawn().unwrap();
    let pids = || std::fs::read_to_string(scratch.path("pids")).unwrap_or_default();
    wait_until("episodes hang", || pids().lines().count() == 16 || run.try_wait().unwrap().is_some());
    let pids: Vec<String> = pids().split_whitespace().map(str::to_owned).collect();
    assert!(pids.len() == 32 && pids.iter().all(|pid| is_running(pid)), "{pids:?}");
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("all have ended", || !pids.iter().any(|pid| is_running(pid)));
}
