//! Agents that ask the policy at an address, in real runs.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Scratch;
use burnish_core::Episode;
use burnish_rundir::journal::{EpisodeKind, Journal};
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn with_models(scratch: &Scratch) {
    std::fs::create_dir(scratch.path("models")).unwrap();
    let starter = root().join("models/starter").canonicalize().unwrap();
    std::os::unix::fs::symlink(starter, scratch.path("models/starter")).unwrap();
}

/// The page's program and recipe, with the helper beside them. `None`, with a printed line, if there is no Python.
fn scratch() -> Option<Scratch> {
    if !Command::new("python3").arg("-c").arg("").status().is_ok_and(|status| status.success()) {
        println!("skipped: python3 can't be run");
        return None;
    }
    let scratch = Scratch::new();
    let page = std::fs::read_to_string(root().join("docs/environments/agent.md")).unwrap();
    for (language, name) in [("python", "double.py"), ("toml", "double.toml")] {
        let block = page.split(&format!("```{language}\n# {name}\n")).nth(1).unwrap();
        let block = block.split("```").next().unwrap();
        scratch.write(name, block.replace("from burnish.environment import", "from environment import"));
    }
    std::fs::copy(root().join("python/burnish/environment.py"), scratch.path("environment.py")).unwrap();
    with_models(&scratch);
    Some(scratch)
}

/// The lines of a run's metrics that are of training steps.
fn steps(scratch: &Scratch, run: &str) -> Vec<Value> {
    let text = String::from_utf8(scratch.read(&format!("{run}/metrics.jsonl"))).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line.get("tokens/trained").is_some()).collect()
}

/// Checks that each step trained the tokens that its episodes sampled, and that the trainer gives them the log-probs
/// with which they were sampled. Returns the episodes of the first step.
fn check_tokens(scratch: &Scratch, run: &str, count: usize) -> Vec<Episode> {
    let journal = Journal::open_to_read(&scratch.path(run).join("run.db")).unwrap();
    let steps = steps(scratch, run);
    assert_eq!(steps.len(), count);
    let mut first = Vec::new();
    for (step, line) in (1..).zip(&steps) {
        let stored = journal.episodes(step, EpisodeKind::Train).unwrap();
        let episodes: Vec<Episode> = stored.into_iter().map(|stored| stored.episode).collect();
        let scored = episodes.iter().filter(|episode| episode.verdict.is_scored());
        let branches = scored.flat_map(|episode| episode.traces.iter().flat_map(|trace| trace.branches()));
        let sampled: usize =
            branches.map(|branch| branch.sampled_mask.iter().filter(|is| **is).count()).sum();
        assert!(sampled > 0);
        assert_eq!(line["tokens/trained"].as_f64(), Some(sampled as f64), "{line}");
        let difference = line["sampling/sampling_logp_difference/max"].as_f64().unwrap();
        assert!(difference < 1e-4, "{line}");
        if step == 1 {
            first = episodes;
        }
    }
    first
}

#[test]
fn the_example_of_the_page_is_trained_evaluated_and_replayed() {
    let Some(scratch) = scratch() else { return };
    let shown = scratch
        .burnish(&["env", "show", "agent", "command=[\"python3\", \"double.py\"]", "--tasks", "5"])
        .succeeds()
        .stdout();
    assert!(shown.contains("What is "), "{shown}");
    scratch.burnish(&["train", "double.toml", "--dry-run"]).succeeds();
    scratch.burnish(&["train", "double.toml"]).succeeds();
    let episodes = check_tokens(&scratch, "runs/double", 2);
    assert_eq!(episodes.len(), 16);
    for episode in &episodes {
        assert!(episode.verdict.is_scored(), "{:?}", episode.verdict);
        assert_eq!(episode.verdict.metrics["tries"], episode.answers.len() as f64);
        // A conversation that only grows is one branch, token for token.
        assert_eq!(episode.traces.iter().map(|trace| trace.branches().len()).collect::<Vec<_>>(), [1]);
    }
    assert!(episodes.iter().any(|episode| episode.answers.len() == 2));
    let reported = steps(&scratch, "runs/double")[0]["environment/tries"].as_f64().unwrap();
    assert!((1.0..=2.0).contains(&reported));
    scratch.burnish(&["eval", "runs/double", "--json"]).succeeds();
    for kind in [&[][..], &["--eval"]] {
        scratch.burnish(&[&["rollout", "--from", "runs/double", "--replay"], kind].concat()).succeeds();
    }
    // What repeats is the same run.
    scratch.burnish(&["train", "double.toml", "run.dir=again", "env.config.workers=1"]).succeeds();
    let rewards =
        |run: &str| steps(&scratch, run).iter().map(|line| line["reward"].clone()).collect::<Vec<_>>();
    assert_eq!(rewards("runs/double"), rewards("again"));
}

const VERIFIERS: &str = r#"
[run]
dir = "vf"

[policy]
path = "models/starter"

[env]
id = "agent"

[env.config]
command = ["python3", "-m", "burnish.bridges.from_verifiers"]
timeout_seconds = 120
workers = 2
settings = { env = "vf_turns" }

[train]
method = "grpo"
max_steps = 2

[rollout]
turns_max = 4
tasks_per_step = 2
group_size = 2
tokens_max = 2
grammar = { regex = "[1-9]" }
allow_off_policy = true

[eval]
tasks = 0
"#;

#[test]
fn an_environment_of_verifiers_is_trained_on() {
    let python = std::env::var("BURNISH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = Command::new(&python).args(["-c", "import verifiers.v1"]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        println!("skipped: {python} has no verifiers 0.4; BURNISH_PYTHON can name one that has");
        return;
    }
    let scratch = Scratch::new();
    with_models(&scratch);
    let tests = root().join("crates/burnish-env/tests/verifiers").canonicalize().unwrap();
    let paths = format!("{}:{}", root().join("python").canonicalize().unwrap().display(), tests.display());
    // verifiers starts its programs by uv, which lies beside the Python that has it.
    let beside = Path::new(&python).parent().unwrap_or(Path::new(""));
    let path = format!("{}:{}", beside.display(), std::env::var("PATH").unwrap());
    let command = format!("command = [\"env\", \"PATH={path}\", \"PYTHONPATH={paths}\", \"{python}\"");
    scratch.write("vf.toml", VERIFIERS.replace("command = [\"python3\"", &command));
    scratch.burnish(&["train", "vf.toml"]).succeeds();
    let episodes = check_tokens(&scratch, "vf", 2);
    assert_eq!(episodes.len(), 4);
    for episode in episodes {
        assert!(episode.verdict.is_scored(), "{:?}", episode.verdict);
        let quick = episode.verdict.rewards["quick"];
        let expected = if quick > 0.0 { 1.0 / quick } else { 4.0 };
        assert_eq!(episode.answers.len() as f64, expected);
    }
}
