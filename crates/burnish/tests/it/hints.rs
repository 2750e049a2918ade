//! Commands that the program suggests work when pasted: they name the program as it was called, and a shell reads
//! their paths and overrides as intended.

#![cfg(unix)]

use crate::common;
use std::process::{Command, Output, Stdio};

use crate::common::{Scratch, TINY_GRPO, wait_until};

/// Without quotes, a shell would read this name as several words, or as another one.
const NAME: &str = "my run's $HOME {a,b}";

/// A scratch directory with the tiny policy, in which the program is `bin/burnish`.
fn scratch() -> Scratch {
    let scratch = Scratch::with_policy();
    std::fs::create_dir(scratch.path("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_burnish"), scratch.path("bin/burnish")).unwrap();
    scratch
}

/// The program, called as `bin/burnish`.
fn called(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(r#"exec bin/burnish "$@""#).arg("sh").args(arguments);
    command.current_dir(scratch.path(".")).env_remove("CARGO").stdin(Stdio::null());
    command
}

fn run(scratch: &Scratch, arguments: &[&str]) -> Output {
    called(scratch, arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat()
}

/// The commands in an output: up to a backtick, several blanks, or the end of the line.
fn hints(output: &Output) -> Vec<String> {
    let said = said(output);
    let begins = said.match_indices("bin/burnish ").map(|(at, _)| &said[at..]);
    begins
        .map(|rest| rest.split(['`', '\n']).next().unwrap().split("   ").next().unwrap().to_owned())
        .collect()
}

/// Pastes the only hint, followed by `more`.
#[track_caller]
fn paste(scratch: &Scratch, output: &Output, more: &str) -> String {
    let hints = hints(output);
    assert_eq!(hints.len(), 1, "{hints:?} in {}", said(output));
    let pasted = format!("{}{more}", hints[0]);
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(&pasted).current_dir(scratch.path(".")).env_remove("CARGO").stdin(Stdio::null());
    let output = shell.output().unwrap();
    assert!(output.status.success(), "{pasted}: {}", said(&output));
    said(&output)
}

#[test]
fn hints_of_a_run_can_be_pasted() {
    let scratch = scratch();
    let dir = format!("run.dir={NAME}");
    let done = run(&scratch, &["train", "grpo.toml", &dir, "train.max_steps=2", "eval.tasks=2"]);
    assert!(paste(&scratch, &done, "").contains("--- drawn"));

    let again = run(&scratch, &["train", "grpo.toml", &dir]);
    assert_eq!(again.status.code(), Some(1));
    assert!(paste(&scratch, &again, "").contains("the trained policy"));

    // The report of a run is read where the program may have another name.
    let report = String::from_utf8(scratch.read(&format!("{NAME}/report.html"))).unwrap();
    assert!(report.contains(
        "<code>burnish rollout --from &#39;my run&#39;\\&#39;&#39;s $HOME {a,b}&#39; --step N</code>"
    ));
}

#[test]
fn the_hint_of_an_interrupted_run_goes_on_with_it() {
    let scratch = scratch();
    let dir = format!("run.dir={NAME}");
    let mut command = called(&scratch, &["train", "grpo.toml", &dir, "train.max_steps=60", "eval.tasks=2"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let metrics = scratch.path(&format!("{NAME}/metrics.jsonl"));
    wait_until("the run has come that far", || {
        std::fs::read_to_string(&metrics).is_ok_and(|text| text.lines().count() >= 3)
    });
    common::interrupt(&child);
    let stopped = child.wait_with_output().unwrap();
    assert!(said(&stopped).contains("stopped after step"), "{}", said(&stopped));
    assert!(paste(&scratch, &stopped, "").contains("the trained policy"));
}

#[test]
fn the_hint_of_a_policy_that_is_not_made_yet_makes_it() {
    let scratch = scratch();
    let from = TINY_GRPO.replace("path = \"tiny/checkpoints/step_120\"", "from = { recipe = \"sft.toml\" }");
    scratch.write("it's from.toml", from);
    let missing = run(&scratch, &["eval", "it's from.toml", "policy.lora={rank=4, alpha=8}"]);
    assert!(said(&missing).contains("is not there yet"), "{}", said(&missing));
    assert!(paste(&scratch, &missing, " --dry-run").contains("rank = 4"));
}

#[test]
fn the_hint_of_a_study_without_runs_makes_them() {
    let scratch = scratch();
    scratch.write(
        "my study.toml",
        "[study]\nid = \"s\"\ntitle = \"S\"\nquestion = \"C?\"\nrecipe = \"grpo.toml\"\nset = [\"train.max_steps=1\"]\n\
         dir = \"runs\"\nresults = \"results\"\nseeds = 1\n[[arms]]\nname = \"a\"\nrole = \"baseline\"\n[[arms]]\nname = \"b\"\n",
    );
    let dir = format!("study.dir={NAME}");
    let none = run(&scratch, &["study", "my study.toml", "--draft", "--report-only", &dir]);
    assert!(said(&none).contains("no finished run"), "{}", said(&none));
    assert!(paste(&scratch, &none, " --dry-run").contains(&format!("{NAME}/a/seed-1")));
}

#[test]
fn commands_of_published_systems_can_be_pasted() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = env!("CARGO_BIN_EXE_burnish");
    let at_root = |command: &str| {
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(command).current_dir(&root).env_remove("CARGO").output().unwrap()
    };
    let list = said(&at_root(&format!("{program} methods")));
    let systems = list.lines().skip(1).take_while(|line| !line.is_empty());
    let mut tried = 0;
    for id in systems.filter_map(|line| line.split_whitespace().next()) {
        let shown = said(&at_root(&format!("{program} methods show {id}")));
        for label in ["command  ", "study  "] {
            let Some(line) = shown.lines().find(|line| line.starts_with(label)) else { continue };
            let command = line.trim_start_matches(label).trim();
            assert!(command.starts_with(program), "{command}");
            let output = at_root(&format!("{command} --dry-run"));
            // What another file makes, and data files from elsewhere, need not exist here.
            let is_absent = said(&output).contains("can't be read: No such file");
            assert!(output.status.success() || is_absent, "{command}: {}", said(&output));
            tried += 1;
        }
    }
    assert!(tried > 8, "{tried}");
}

/// A new user has no installed `burnish` yet, only cargo or a path.
#[test]
fn the_program_is_named_as_it_was_called() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_burnish"));
    let hint = |mut command: Command| {
        let said = said(&command.arg("methods").stdin(Stdio::null()).output().unwrap());
        said.lines().last().unwrap().to_owned()
    };
    let mut plain = Command::new(program);
    plain.env_remove("CARGO");
    assert!(hint(plain).starts_with(&format!("{} methods show ID ", program.display())));

    let mut on_path = Command::new("/bin/sh");
    on_path.args(["-c", "burnish methods", "sh"]).env_remove("CARGO").env("PATH", program.parent().unwrap());
    assert!(hint(on_path).starts_with("burnish methods show ID "));

    // What cargo passes to a program that it runs at the root of the workspace.
    let mut by_cargo = Command::new(program);
    by_cargo.current_dir(&root).env("CARGO", "cargo").env("CARGO_PKG_NAME", "burnish");
    by_cargo.env("CARGO_MANIFEST_DIR", root.join("crates/burnish"));
    let advised = hint(by_cargo);
    let profile = program.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let option = if profile == "release" { " --release" } else { "" };
    assert!(advised.starts_with(&format!("cargo run{option} -- methods show ID ")), "{advised}");
}
