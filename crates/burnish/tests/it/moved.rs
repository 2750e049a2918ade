//! A run directory can be moved, renamed, shared and read-only. If files that decide the run have changed, this is
//! reported.

use std::path::{Path, PathBuf};

use crate::common::{Finished, Scratch, TINY_GRPO, as_before, timeless_metrics};

/// A reward that depends on every byte of an answer, computed by a program with a relative path.
const JUDGE: &str = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed 's/^{"id": *\([0-9]*\),.*/\1/')
  rest=${line#*,}
  echo "{\"id\": $id, \"reward\": 0.$((${#rest} % 7))}"
done
"#;

/// A project that trains on two files of rows, judged by its own program. `runs/whole` has 4 steps, and `runs/part`
/// looks as if it had been killed after the checkpoint of step 2.
fn project() -> Scratch {
    let scratch = Scratch::with_policy();
    scratch.write("judge.sh", JUDGE);
    std::fs::create_dir(scratch.path("data")).unwrap();
    for (file, from) in [("a", 0), ("b", 10)] {
        let row =
            |at: usize| format!("{{\"prompt\": \"What is {at} + {at}?\", \"answer\": \"{}\"}}\n", 2 * at);
        scratch.write(&format!("data/{file}.jsonl"), (from..from + 10).map(row).collect::<String>());
    }
    let env = "[env]\nid = \"rows\"\ntasks = 12\n\n[env.config]\npath = [\"data/a.jsonl\", \"data/b.jsonl\"]\n\
               verifier = { command = [\"sh\", \"judge.sh\"] }\n\n[train]";
    let (head, rest) = TINY_GRPO.split_once("[env]").unwrap();
    let (_, tail) = rest.split_once("[train]").unwrap();
    let recipe = format!("{head}{env}{tail}").replace("max_steps = 6", "max_steps = 4");
    scratch.write("rows.toml", recipe.replace("tasks = 8\nevery = 3", "tasks = 4\nevery = 2"));
    for dir in ["whole", "part"] {
        scratch.burnish(&["train", "rows.toml", &format!("run.dir=runs/{dir}")]).succeeds();
    }
    std::fs::remove_dir_all(scratch.path("runs/part/checkpoints/step_4")).unwrap();
    scratch
}

/// Runs the program in another directory.
fn from(dir: &Path, scratch: &Scratch, arguments: &[&str]) -> Finished {
    Finished::of(arguments, scratch.command(arguments).current_dir(dir).output().unwrap())
}

#[track_caller]
fn assert_same(part: &Path, whole: &Path, step: u64) {
    for file in ["model.safetensors", "trainer/trainer.safetensors"] {
        let of = |dir: &Path| std::fs::read(dir.join(format!("checkpoints/step_{step}/{file}"))).unwrap();
        assert!(of(part) == of(whole), "{file} differs");
    }
    let metrics = |dir: &Path| timeless_metrics(&dir.join("metrics.jsonl"));
    assert_eq!(metrics(part), metrics(whole));
}

#[test]
fn a_run_goes_on_from_anywhere_and_with_its_project_moved_to_the_same_bits() {
    let scratch = project();
    let elsewhere = tempfile::tempdir().unwrap();
    let whole = scratch.path("runs/whole");
    let part = scratch.path("runs/part");
    // From another folder, and under another name.
    let renamed = elsewhere.path().join("renamed");
    copy(&part, &renamed);
    for dir in [&part, &renamed] {
        from(elsewhere.path(), &scratch, &["train", "--resume", dir.to_str().unwrap()]).succeeds();
        assert_same(dir, &whole, 4);
        from(elsewhere.path(), &scratch, &["eval", dir.to_str().unwrap()]).succeeds();
    }
    // The project is somewhere else, and no longer at its old place.
    let moved = elsewhere.path().join("project");
    std::fs::create_dir(&moved).unwrap();
    for entry in std::fs::read_dir(scratch.path(".")).unwrap() {
        let entry = entry.unwrap();
        std::fs::rename(entry.path(), moved.join(entry.file_name())).unwrap();
    }
    let part = moved.join("runs/part");
    std::fs::remove_dir_all(part.join("checkpoints/step_4")).unwrap();
    let said = from(Path::new("/"), &scratch, &["train", "--resume", part.to_str().unwrap()]).succeeds();
    assert!(said.stdout().contains("`env.config.path[1]`: read from"), "{}", said.stdout());
    assert_same(&part, &moved.join("runs/whole"), 4);
    from(Path::new("/"), &scratch, &["eval", part.to_str().unwrap()]).succeeds();
}

#[test]
fn what_is_recorded_is_shown_without_data_and_without_models() {
    let scratch = project();
    let elsewhere = tempfile::tempdir().unwrap();
    let run = scratch.path("runs/whole");
    let run = run.to_str().unwrap();
    let shown = |scratch: &Scratch| {
        [&["rollout", "--from", run][..], &["rollout", "--from", run, "--eval"], &["metrics", run]]
            .map(|arguments| from(elsewhere.path(), scratch, arguments).succeeds().stdout())
    };
    let before = shown(&scratch);
    assert!(before[0].contains("What is") && before[0].contains("rewards: reward 0."), "{}", before[0]);
    for gone in ["data", "tiny"] {
        std::fs::remove_dir_all(scratch.path(gone)).unwrap();
    }
    std::fs::remove_file(scratch.path("judge.sh")).unwrap();
    assert_eq!(shown(&scratch), before);
}

#[test]
fn evaluating_a_policy_needs_the_data_of_evaluation_alone() {
    let scratch = project();
    let eval = "eval.config={path=\"data/b.jsonl\", verifier=\"number\"}";
    scratch.burnish(&["train", "rows.toml", "run.dir=own", eval, "train.max_steps=1"]).succeeds();
    for (at, gone) in ["data/a.jsonl", "judge.sh", "tiny"].into_iter().enumerate() {
        std::fs::rename(scratch.path(gone), scratch.path(&format!("gone_{at}"))).unwrap();
    }
    scratch.burnish(&["eval", "own"]).succeeds();
    scratch.burnish(&["train", "--resume", "own", "train.max_steps=2"]).fails_with(&["not there"]);
}

#[test]
fn a_file_that_is_not_what_it_was_is_named_and_one_that_was_moved_can_be() {
    let scratch = project();
    let (a, b) = (scratch.path("data/a.jsonl"), scratch.path("data/b.jsonl"));
    let rows = std::fs::read_to_string(&a).unwrap();
    let refused = |parts: &[&str]| {
        for command in [&["train", "--resume", "runs/part"][..], &["eval", "runs/part"]] {
            scratch.burnish(command).fails_with(parts);
        }
        assert!(!scratch.path("runs/part/checkpoints/step_4").exists());
    };
    // The same rows in another order, with the same file size and time.
    let time = std::fs::metadata(&a).unwrap().modified().unwrap();
    let mut lines: Vec<&str> = rows.lines().collect();
    lines.reverse();
    std::fs::write(&a, lines.join("\n") + "\n").unwrap();
    std::fs::File::options().append(true).open(&a).unwrap().set_modified(time).unwrap();
    refused(&["`env.config.path[0]`", "data/a.jsonl", "is not what it was", "env.config.path="]);
    std::fs::write(&a, &rows).unwrap();

    // A missing file is named by its recorded path, with the command that gives its new place.
    std::fs::create_dir(scratch.path("new place")).unwrap();
    std::fs::rename(&a, scratch.path("new place/a.jsonl")).unwrap();
    let command = "burnish train --resume runs/part env.config.path=";
    scratch.burnish(&["train", "--resume", "runs/part"]).fails_with(&[
        "`env.config.path[0]`",
        "data/a.jsonl",
        "not there",
        command,
    ]);
    let moved = |first: &str| format!("env.config.path=[\"{first}\", \"data/b.jsonl\"]");
    let resume = |paths: &str| scratch.burnish(&["train", "--resume", "runs/part", paths]);
    resume(&moved("data/b.jsonl")).fails_with(&["`env.config.path[0]`", "is not what it was"]);
    resume(&moved("data/c.jsonl")).fails_with(&["data/c.jsonl", "not there"]);
    resume("env.config.path=\"new place/a.jsonl\"").fails_with(&["`env.config.path`", "when the run began"]);
    scratch.burnish(&["eval", "runs/part", &moved("new place/a.jsonl")]).succeeds();
    let said = resume(&moved("new place/a.jsonl")).succeeds().stdout();
    assert!(said.contains("changed: `env.config.path`"), "{said}");
    assert_same(&scratch.path("runs/part"), &scratch.path("runs/whole"), 4);
    // From then on its place is known, from anywhere.
    std::fs::remove_dir_all(scratch.path("runs/part/checkpoints/step_4")).unwrap();
    let run = scratch.path("runs/part");
    from(Path::new("/"), &scratch, &["train", "--resume", run.to_str().unwrap()]).succeeds();
    assert_same(&run, &scratch.path("runs/whole"), 4);
    assert!(b.exists());
}

#[test]
fn a_model_that_is_not_what_it_was_is_named_where_it_is_needed() {
    let scratch = project();
    let weights = scratch.path("tiny/checkpoints/step_120/model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    let mut other = whole.clone();
    *other.last_mut().unwrap() ^= 1;
    std::fs::write(&weights, other).unwrap();
    // It is needed as the reference (`loss.beta`).
    let parts = ["`policy.path`", "step_120/model.safetensors", "is not what it was"];
    scratch.burnish(&["train", "--resume", "runs/part"]).fails_with(&parts);
    // It is not needed to evaluate what was trained.
    scratch.burnish(&["eval", "runs/part"]).succeeds();
    std::fs::write(&weights, whole).unwrap();
    std::fs::rename(scratch.path("tiny"), scratch.path("small")).unwrap();
    scratch.burnish(&["train", "--resume", "runs/part"]).fails_with(&["`policy.path`", "not there"]);
    let place = "policy.path=small/checkpoints/step_120";
    scratch.burnish(&["train", "--resume", "runs/part", place]).succeeds();
    assert_same(&scratch.path("runs/part"), &scratch.path("runs/whole"), 4);
}

#[test]
fn an_adapter_goes_on_where_its_base_was_moved() {
    let scratch = project();
    let lora = ["train", "rows.toml", "run.dir=runs/lora", "policy.lora={rank=2, alpha=4}"];
    scratch.burnish(&lora).succeeds();
    copy(&scratch.path("runs/lora"), &scratch.path("runs/lora_whole"));
    std::fs::remove_dir_all(scratch.path("runs/lora/checkpoints/step_4")).unwrap();
    let run = scratch.path("runs/lora");
    from(Path::new("/"), &scratch, &["eval", run.to_str().unwrap()]).succeeds();
    std::fs::rename(scratch.path("tiny"), scratch.path("small")).unwrap();
    scratch.burnish(&["eval", "runs/lora"]).fails_with(&["`policy.path`", "not there", "policy.path="]);
    let place = "policy.path=small/checkpoints/step_120";
    scratch.burnish(&["eval", "runs/lora", place]).succeeds();
    scratch.burnish(&["train", "--resume", "runs/lora", place]).succeeds();
    for file in ["adapter_model.safetensors", "trainer/trainer.safetensors"] {
        let of = |dir: &str| scratch.read(&format!("runs/{dir}/checkpoints/step_4/{file}"));
        assert!(of("lora") == of("lora_whole"), "{file}");
    }
}

#[cfg(unix)]
#[test]
fn reading_writes_nothing_into_a_run_directory() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = project();
    let run = scratch.path("runs/whole");
    // Like a copy from a machine on which the run was killed, and like a finished run.
    for dir in [&run, &scratch.path("runs/part")] {
        let protect = |mode: u32| {
            for path in paths(dir) {
                let mode = if path.is_dir() { mode | 0o111 } else { mode };
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            }
        };
        let state = || -> Vec<(PathBuf, std::time::SystemTime)> {
            paths(dir)
                .into_iter()
                .map(|path| (path.clone(), path.metadata().unwrap().modified().unwrap()))
                .collect()
        };
        let before = state();
        protect(0o444);
        let name = dir.to_str().unwrap();
        for command in [&["metrics", name][..], &["rollout", "--from", name], &["eval", name]] {
            scratch.burnish(command).succeeds();
        }
        assert_eq!(state(), before);
        protect(0o644);
    }
}

#[test]
fn runs_of_the_version_before_are_read_evaluated_and_gone_on_with() {
    let scratch = project();
    for run in ["part", "whole"] {
        for entry in std::fs::read_dir(scratch.path(&format!("runs/{run}/checkpoints"))).unwrap() {
            as_before(&entry.unwrap().path());
        }
        std::fs::remove_file(scratch.path(&format!("runs/{run}/run.json"))).unwrap();
    }
    for command in
        [&["metrics", "runs/part"][..], &["rollout", "--from", "runs/part"], &["eval", "runs/part"]]
    {
        scratch.burnish(command).succeeds();
    }
    assert!(!scratch.path("runs/part/run.json").exists());
    scratch
        .burnish(&["train", "--resume", "runs/part", "optimizer.learning_rate=0.1"])
        .fails_with(&["`optimizer"]);
    let said = scratch.burnish(&["train", "--resume", "runs/part"]).succeeds().stdout();
    assert!(said.contains("an earlier burnish began this run"), "{said}");
    for (new, old) in [("model", "model"), ("trainer/trainer", "trainer")] {
        let new = scratch.read(&format!("runs/part/checkpoints/step_4/{new}.safetensors"));
        assert!(new == scratch.read(&format!("runs/whole/checkpoints/step_4/{old}.safetensors")), "{old}");
    }
    // From now on, the content of its inputs is recorded.
    let said = scratch.burnish(&["train", "--resume", "runs/part"]).succeeds().stdout();
    assert!(!said.contains("an earlier burnish"), "{said}");
    scratch.write("data/a.jsonl", "{\"prompt\": \"Else?\", \"answer\": \"1\"}\n");
    scratch.burnish(&["train", "--resume", "runs/part"]).fails_with(&["data/a.jsonl", "is not what it was"]);
}

#[test]
fn a_tilde_is_the_home_directory_and_an_empty_path_none() {
    let scratch = Scratch::with_policy();
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = scratch.command(arguments).env("HOME", home.path()).output().unwrap();
        Finished::of(arguments, output)
    };
    let short = ["train.max_steps=1", "eval.tasks=0"];
    run(&[&["train", "grpo.toml", "run.dir=~/x"][..], &short].concat()).succeeds();
    assert!(home.path().join("x/recipe.toml").is_file() && !scratch.path("~").exists());
    run(&["rollout", "--from=~/x"]).succeeds();
    run(&["metrics", "~/x"]).succeeds();
    run(&["train", "--resume=~/x"]).succeeds();
    let policy = "policy.path=~/x/checkpoints/step_1";
    run(&[&["train", "grpo.toml", "run.dir=y", policy][..], &short].concat()).succeeds();
    for (arguments, part) in [
        (&["train", "grpo.toml", "run.dir=''"][..], "`run.dir` is empty"),
        (&["train", "grpo.toml", "run.dir=~eve/x"], "`eve`"),
        (&["train", "grpo.toml", "run.dir=$HOME/x"], "`$HOME`"),
        (&["train", "grpo.toml", "policy.path=''"], "`policy.path` is empty"),
        (&["train", "grpo.toml", "env.config={}", "env.id=rows", "env.config.path=~eve/a"], "`eve`"),
    ] {
        run(arguments).fails_with(&[part]);
    }
    let error = run(&["eval", "gsm8k", "--policy", "y", "--data=~eve/x"]).stderr();
    assert!(error.contains("`eve`"), "{error}");
    assert!(!scratch.path("recipe.toml").exists() && !scratch.path("$HOME").exists());
}

fn paths(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> = entries
        .flat_map(|path| if path.is_dir() { paths(&path) } else { vec![path] })
        .chain([dir.to_owned()])
        .collect();
    all.sort();
    all
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &place);
        } else {
            std::fs::copy(entry.path(), place).unwrap();
        }
    }
}
