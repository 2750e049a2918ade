//! A reader of the program's output may go away at any time (`| head`, a closed terminal): nothing panics, and the
//! work is done.

#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::common::{Scratch, TINY_GRPO, TINY_SFT};

const STUDY: &str = r#"
[study]
id = "tiny-study"
title = "A tiny study"
claim = "One arm is one arm."
recipe = "grpo.toml"
set = ["train.max_steps=1", "eval.tasks=2", "eval.every=1"]
baseline = "only"
dir = "NEW"
results = "results"
seeds = 1

[[arms]]
name = "only"
"#;

/// Commands with options that make them print the most. `NEW` is a path that does not exist yet. Every command that
/// the help lists must begin at least one line.
const LINES: [&str; 48] = [
    "train grpo.toml run.dir=NEW train.max_steps=2",
    "train grpo.toml --dry-run",
    "train --resume tiny",
    "sft sft.toml run.dir=NEW train.max_steps=2",
    "study NEW.toml",
    "study NEW.toml --dry-run",
    "eval tiny",
    "eval tiny --json",
    "eval --list",
    "fit-thoughts items.jsonl NEW.json --folds 2",
    "rollout grpo.toml --count 3",
    "rollout --from tiny --eval",
    "rollout --from tiny --json",
    "generate tiny hello --max-tokens 8",
    "generate tiny --file rows.jsonl --max-tokens 2",
    "chat tiny --load rows.jsonl --max-tokens 2",
    "serve tiny --address nowhere",
    "env serve chains --address nowhere",
    "metrics tiny",
    "report tiny",
    "merge adapter NEW",
    "methods",
    "methods --json",
    "methods --page methods",
    "methods show grpo",
    "methods new objective new_one",
    "env list",
    "env show chains --tasks 5",
    "world check NEW.toml",
    "world build tiny --about till --out NEW --attempts 1 --max-tokens 4",
    "data show rows.jsonl",
    "data dialogues NEW.toml --out NEW",
    "data audit rows.jsonl",
    "data check rows.jsonl --against rows.jsonl",
    "data check rows.jsonl --against rows.jsonl --json",
    "verify number --gold 7 seven 7",
    "verify math --gold 7 --json x 7",
    "weights merge --method wise_ft --base tiny/checkpoints/step_40 --model tiny/checkpoints/step_120 --set alpha=0.5 NEW",
    "probe tiny --tasks 4",
    "weights methods",
    "weights methods --json",
    "weights diff tiny/checkpoints/step_40 tiny/checkpoints/step_120 --rank --all",
    "weights inspect tiny/checkpoints/step_40 --check",
    "weights inspect tiny/checkpoints/step_40 --json",
    "weights extract tiny/checkpoints/step_40 tiny/checkpoints/step_120 NEW --rank 2",
    "completions zsh",
    "man",
    "train absent.toml",
];

/// Items of an evaluation, in half of which reflection paid.
fn reflected(count: usize) -> String {
    let item = |at: usize| {
        let paid = at.is_multiple_of(2);
        format!(
            "{{\"id\": \"{at}\", \"labels\": {{}}, \"prompt\": [{{\"role\": \"user\", \"content\": \"task {at}\"}}], \
             \"samples\": [{{\"answers\": [], \"outcome\": \"success\", \"reward\": 1.0, \"verdict\": {}, \
             \"ending\": \"completed\", \"is_cut_short\": false, \"tokens\": 1, \"surprisal\": 0.5}}]}}\n",
            serde_json::json!({
                "validity": "scored", "has_success": true, "success": true, "rewards": {"valid": 1.0},
                "flags": {"first_try": !paid, "reflected": paid}
            })
        )
    };
    (0..count).map(item).collect()
}

/// A pipe that nobody reads.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// The commands below `above` that its help lists, recursively, without `help` itself.
fn listed(scratch: &Scratch, above: &[String]) -> Vec<Vec<String>> {
    let words: Vec<&str> = above.iter().map(String::as_str).chain(["--help"]).collect();
    let help = scratch.burnish(&words).succeeds().stdout();
    let Some((_, commands)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    let names = commands.lines().take_while(|line| line.starts_with("  "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let mut all = Vec::new();
    for name in names {
        let command = [above, &[name.to_owned()]].concat();
        all.extend(listed(scratch, &command));
        all.push(command);
    }
    all
}

#[test]
fn a_reader_that_is_gone_ends_no_command() {
    let scratch = Scratch::with_policy();
    scratch.write("rows.jsonl", "{\"prompt\": \"How much is 1 + 1?\", \"answer\": \"2\"}\n".repeat(200));
    scratch.write("items.jsonl", reflected(8));
    let adapter =
        ["train", "grpo.toml", "policy.lora={rank=2, alpha=4}", "train.max_steps=1", "run.dir=adapter"];
    scratch.burnish(&adapter).succeeds();
    let commands = listed(&scratch, &[]);
    assert!(commands.len() > 12, "{commands:?}");
    for command in &commands {
        let has_commands = commands.iter().any(|other| other.starts_with(command) && other != command);
        let is_tried = LINES.iter().any(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words.len() >= command.len() && words.iter().zip(command).all(|(one, other)| one == other)
        });
        assert!(is_tried || has_commands, "which line of LINES tries `burnish {}`?", command.join(" "));
    }
    let helps = commands.iter().map(|command| format!("{} --help", command.join(" ")));
    let wrong = commands.iter().map(|command| format!("{} --nope", command.join(" ")));
    let lines: Vec<String> = LINES.iter().map(|line| (*line).to_owned()).chain(helps).chain(wrong).collect();
    for (at, line) in lines.iter().enumerate() {
        let mut codes = Vec::new();
        for (run, (is_out_read, is_error_read)) in
            [(true, true), (false, true), (true, false), (false, false)].into_iter().enumerate()
        {
            let new = format!("new-{at}-{run}");
            scratch.write(&format!("{new}.toml"), STUDY.replace("NEW", &new));
            let line = line.replace("NEW", &new);
            let mut command = scratch.command(&line.split(' ').collect::<Vec<_>>());
            command.stdout(if is_out_read { Stdio::piped() } else { unread() });
            command.stderr(if is_error_read { Stdio::piped() } else { unread() });
            let output = command.output().unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(!error.contains("panicked") && !error.contains("pipe"), "burnish {line}: {error}");
            codes.push(output.status.code());
            if line.contains("train.max_steps=2") {
                let saved = scratch.path(&new).join("checkpoints/step_2/model.safetensors");
                assert!(saved.exists() && scratch.path(&new).join("report.html").exists(), "burnish {line}");
            }
        }
        assert!(codes.iter().all(|code| *code == codes[0] && code.is_some()), "burnish {line}: {codes:?}");
        assert_eq!(codes[0] == Some(2), line.ends_with("--nope"), "burnish {line}: {codes:?}");
    }
}

#[test]
fn a_run_goes_on_when_its_reader_has_seen_enough() {
    let scratch = Scratch::with_policy();
    let mut child = scratch
        .command(&["train", "grpo.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(!first.is_empty());
    drop(child.stderr.take());
    assert!(child.wait().unwrap().success());
    assert!(scratch.path("grpo/checkpoints/step_6/model.safetensors").exists());
}

/// Output is lost although the reader did not stop reading: this is reported after the work is done.
#[test]
fn a_full_disk_under_stdout_is_an_error_but_not_the_end_of_a_run() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("grpo.toml", TINY_GRPO);
    scratch.write("sft.toml", TINY_SFT);
    let into_full = |mut command: Command| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("stdout") && error.contains("space"), "{error}");
    };
    into_full(scratch.command(&["methods"]));
    into_full(scratch.command(&["--help"]));
    into_full(scratch.command(&["sft", "sft.toml", "train.max_steps=1"]));
    assert!(scratch.path("tiny/checkpoints/step_1/model.safetensors").exists());
}

/// The standard library's macros panic when nobody reads; `out.rs` has this crate's own. Crates below the command
/// line print nothing.
#[test]
fn no_source_prints_past_the_door() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        collect(&entry.unwrap().path().join("src"), &mut sources);
    }
    assert!(sources.len() > 300, "{}", sources.len());
    let this = crates.join("burnish/src");
    let words = ["print!(", "println!(", "eprint!(", "eprintln!(", "dbg!("];
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        // Tests print what they skip.
        let is_test = path
            .components()
            .any(|part| ["tests", "tests.rs", "testing.rs"].contains(&&*part.as_os_str().to_string_lossy()));
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let prints = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let prints: Vec<&str> = prints.filter(|line| words.iter().any(|word| line.contains(word))).collect();
        assert!(is_test || path.starts_with(&this) || prints.is_empty(), "{}: {prints:?}", path.display());
        let past = ["std::println!", "std::eprintln!", "std::print!", "std::eprint!"];
        assert!(!past.iter().any(|word| code.contains(word)), "{}", path.display());
    }
    let main = std::fs::read_to_string(this.join("main.rs")).unwrap();
    assert!(main.contains("#![warn(clippy::print_stdout, clippy::print_stderr)]"));
}

fn collect(dir: &std::path::Path, into: &mut Vec<std::path::PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
}
