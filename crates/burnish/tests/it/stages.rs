//! Stages: another recipe makes the starting policy of a run once. This survives interruptions, and the run keeps a
//! copy.

use crate::common;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use crate::common::{Scratch, TINY_GRPO, TINY_SFT, timeless_metrics, wait_until};

/// `sft.toml` makes a policy in `steps` steps, from which `grpo.toml` starts.
fn scratch(steps: u64) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("sft.toml", TINY_SFT.replace("max_steps = 120", &format!("max_steps = {steps}")));
    let from = TINY_GRPO.replace("path = \"tiny/checkpoints/step_120\"", "from = { recipe = \"sft.toml\" }");
    scratch.write("grpo.toml", from.replace("max_steps = 6", "max_steps = 2"));
    scratch
}

/// Run directories of stages called `name`, in the order of their hashes.
fn stages(scratch: &Scratch, cache: &str, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(scratch.path(cache)) else { return Vec::new() };
    let of_name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(name);
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(of_name).collect();
    found.sort();
    found
}

fn weights(scratch: &Scratch, dir: &str) -> Vec<u8> {
    scratch.read(&format!("{dir}/checkpoints/step_2/model.safetensors"))
}

fn spawn(scratch: &Scratch, arguments: &[&str]) -> Child {
    scratch.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Rows in the metrics of the only stage.
fn stage_rows(scratch: &Scratch, cache: &str) -> usize {
    let stage = stages(scratch, cache, "sft-").pop();
    let metrics = stage.and_then(|dir| std::fs::read_to_string(dir.join("metrics.jsonl")).ok());
    metrics.map_or(0, |text| text.lines().count())
}

#[test]
fn a_stage_is_made_once_and_another_setting_makes_another_and_a_run_needs_it_no_more() {
    let scratch = scratch(12);
    let said = scratch.burnish(&["train", "grpo.toml", "run.dir=one"]).succeeds().stdout();
    let [stage] = &stages(&scratch, "runs/cache", "sft-")[..] else { panic!("one stage: {said}") };
    assert!(said.contains("making the policy to start from") && said.contains("sft.toml"), "{said}");
    let made = std::fs::metadata(stage.join("run.db")).unwrap().modified().unwrap();
    let rows = stage_rows(&scratch, "runs/cache");

    let said = scratch.burnish(&["train", "grpo.toml", "run.dir=two"]).succeeds().stdout();
    assert!(!said.contains("making the policy") && said.contains("there"), "{said}");
    assert_eq!(std::fs::metadata(stage.join("run.db")).unwrap().modified().unwrap(), made);
    assert_eq!(stage_rows(&scratch, "runs/cache"), rows, "no step was made");
    assert!(weights(&scratch, "one") == weights(&scratch, "two"));
    assert!(weights(&scratch, "one") != scratch.read("one/start/model.safetensors"), "it has learnt");

    let other = "policy.from.set=[\"run.seed=9\"]";
    scratch.burnish(&["train", "grpo.toml", "run.dir=three", other]).succeeds();
    assert_eq!(stages(&scratch, "runs/cache", "sft-").len(), 2);
    assert!(weights(&scratch, "one") != weights(&scratch, "three"));

    // Without the cache, the runs continue from their last checkpoint and from the start, and so does the reference.
    std::fs::remove_dir_all(scratch.path("runs/cache")).unwrap();
    std::fs::remove_dir_all(scratch.path("two/checkpoints/step_2")).unwrap();
    scratch.burnish(&["train", "--resume", "two"]).succeeds();
    assert!(weights(&scratch, "one") == weights(&scratch, "two"));
    assert!(!scratch.path("runs/cache").exists());
    let text = String::from_utf8(scratch.read("one/recipe.toml")).unwrap();
    let hash = stage.file_name().unwrap().to_str().unwrap().strip_prefix("sft-").unwrap();
    assert!(text.contains(&format!("hash = \"{hash}\"")) && !text.contains("path = "), "{text}");

    // A resolved recipe says which policy it means.
    let pinned = format!("policy.from={{recipe=\"sft.toml\", set=[\"run.seed=8\"], hash=\"{hash}\"}}");
    scratch.burnish(&["train", "grpo.toml", "run.dir=four", &pinned]).fails_with(&[hash, "has changed"]);
    scratch.burnish(&["eval", "grpo.toml"]).fails_with(&["sft.toml", "is not there yet", "burnish train"]);
}

#[cfg(unix)]
#[test]
fn a_stage_that_was_interrupted_is_gone_on_with_and_one_that_another_process_makes_is_waited_for() {
    let scratch = scratch(120);
    // Stopped by a signal: the stage is saved, and this is reported.
    let child = spawn(&scratch, &["train", "grpo.toml", "run.dir=one"]);
    wait_until("the stage has begun", || stage_rows(&scratch, "runs/cache") >= 3);
    common::interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.code() == Some(130) && said.contains("stopped while"), "{said}");
    assert!(!scratch.path("one/recipe.toml").exists(), "the run itself has not begun");
    let done = stage_rows(&scratch, "runs/cache");
    assert!(done < 100, "{done} rows");

    // Killed while a second process waits, which then continues the stage itself.
    let mut first = spawn(&scratch, &["train", "grpo.toml", "run.dir=one"]);
    wait_until("it has gone on", || stage_rows(&scratch, "runs/cache") > done + 2);
    let mut second = spawn(&scratch, &["train", "grpo.toml", "run.dir=two"]);
    let mut said = BufReader::new(second.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("waiting for that")));
    first.kill().unwrap();
    first.wait().unwrap();
    let said: Vec<String> = said.collect();
    assert!(second.wait().unwrap().success(), "{said:?}");
    assert!(said.iter().any(|line| line.contains("resuming")), "{said:?}");

    // With the same weights and numbers as a stage that was never interrupted.
    scratch.burnish(&["train", "grpo.toml", "run.dir=whole", "run.cache=other"]).succeeds();
    assert!(weights(&scratch, "two") == weights(&scratch, "whole"));
    let metrics = |cache: &str| timeless_metrics(&stages(&scratch, cache, "sft-")[0].join("metrics.jsonl"));
    assert_eq!(metrics("runs/cache"), metrics("other"));
}

#[test]
fn stages_stand_on_stages_and_an_adapter_keeps_its_base() {
    let scratch = scratch(6);
    let recipe = String::from_utf8(scratch.read("grpo.toml")).unwrap();
    let adapter = recipe.replace("[policy]\n", "[policy]\nlora = { rank = 2, alpha = 4 }\n");
    scratch.write("adapter.toml", &adapter);
    scratch.write("last.toml", adapter.replace("sft.toml", "adapter.toml"));
    scratch.burnish(&["train", "last.toml", "run.dir=one"]).succeeds();
    assert_eq!(stages(&scratch, "runs/cache", "sft-").len(), 1);
    assert_eq!(stages(&scratch, "runs/cache", "adapter-").len(), 1);
    let adapter = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_2/adapter_model.safetensors"));
    let whole = adapter("one");
    std::fs::remove_dir_all(scratch.path("runs")).unwrap();
    std::fs::remove_dir_all(scratch.path("one/checkpoints/step_2")).unwrap();
    scratch.burnish(&["train", "--resume", "one"]).succeeds();
    assert!(adapter("one") == whole);
}

#[test]
fn a_teacher_is_made_by_its_recipe_and_kept_by_the_run() {
    let scratch = scratch(6);
    let opd = ["loss.objective=opd", "loss.beta=0", "train.epochs=1", "train.minibatches=1"];
    let train = |dir: &str, teacher: &str| {
        let dir = format!("run.dir={dir}");
        scratch.burnish(&[&["train", "grpo.toml", &dir, teacher][..], &opd].concat())
    };
    let longer = "teacher.from={recipe=\"sft.toml\", set=[\"train.max_steps=12\"]}";
    let said = train("one", longer).succeeds().stdout();
    assert!(
        said.contains("making the policy to start from") && said.contains("making the teacher"),
        "{said}"
    );
    let [first, second] = &stages(&scratch, "runs/cache", "sft-")[..] else { panic!("two stages: {said}") };
    let teacher = if first.join("checkpoints/step_12").is_dir() { first } else { second };
    let path = format!("teacher.path={}", teacher.join("checkpoints/step_12").display());
    train("two", &path).succeeds();
    assert!(weights(&scratch, "one") == weights(&scratch, "two"));
    train("three", "teacher.context=demonstration").succeeds();
    assert!(weights(&scratch, "one") != weights(&scratch, "three"), "the teacher counts");
    // The run needs neither the cache nor the recipe of its teacher.
    let whole = weights(&scratch, "one");
    std::fs::remove_dir_all(scratch.path("runs")).unwrap();
    std::fs::remove_file(scratch.path("sft.toml")).unwrap();
    std::fs::remove_dir_all(scratch.path("one/checkpoints/step_2")).unwrap();
    scratch.burnish(&["train", "--resume", "one"]).succeeds();
    assert!(weights(&scratch, "one") == whole);
}

#[test]
fn what_is_wrong_with_a_teacher_is_named_by_its_key() {
    let scratch = scratch(4);
    let train = [
        "train",
        "grpo.toml",
        "loss.objective=opd",
        "loss.beta=0",
        "policy={path=\"tiny/checkpoints/step_4\"}",
    ];
    scratch.burnish(&["sft", "sft.toml"]).succeeds();
    let from = "teacher.from=sft.toml";
    let fails =
        |more: &[&str], parts: &[&str]| scratch.burnish(&[&train[..], more].concat()).fails_with(parts);
    fails(&[from, "teacher.path=tiny/checkpoints/step_4"], &["`teacher.from` excludes `teacher.path`"]);
    fails(&[from, "eval.seed=77"], &["teacher.from: sft.toml trains on", "held out for evaluation here"]);
    let hash = "teacher.from={recipe=\"sft.toml\", hash=\"0123456789abcdef\"}";
    fails(&[hash], &["teacher.from: sft.toml makes", "`teacher.from.hash`"]);
}

#[test]
fn what_is_wrong_with_a_stage_is_named_before_anything_is_made() {
    let scratch = scratch(4);
    let from = |above: &str| String::from_utf8(scratch.read("grpo.toml")).unwrap().replace("sft.toml", above);
    scratch.write("a.toml", from("b.toml"));
    scratch.write("b.toml", from("a.toml"));
    for arguments in [&["train", "a.toml"][..], &["train", "a.toml", "--dry-run"]] {
        scratch.burnish(arguments).fails_with(&["in a circle: b.toml <- a.toml <- b.toml"]);
    }
    scratch.write("c.toml", from("none.toml"));
    scratch.burnish(&["train", "c.toml"]).fails_with(&["stage none.toml", "can't be read"]);
    scratch.burnish(&["train", "grpo.toml", "policy.from.set=[\"train.max_step=4\"]"]).fails_with(&[
        "stage sft.toml",
        "override `train.max_step=4`",
        "did you mean `max_steps`",
    ]);
    scratch.burnish(&["train", "grpo.toml", "eval.seed=77"]).fails_with(&[
        "sft.toml trains on",
        "held out for evaluation here",
        "`eval.seed`",
    ]);
    // Both stages keep the whole set that is split.
    let split = "split={scorer={rule=\"size\"}, keep=\">= 2\"}";
    let below = format!("policy.from.set=['data.demonstrations.0.{split}']");
    scratch
        .burnish(&["train", "grpo.toml", &format!("env.{split}"), &below])
        .fails_with(&["sft.toml trains on", "although both are split"]);
    assert!(!scratch.path("runs").exists() && !scratch.path("grpo").exists());

    scratch.burnish(&["train", "grpo.toml"]).succeeds();
    let [stage] = &stages(&scratch, "runs/cache", "sft-")[..] else { panic!("one stage") };
    let again = |parts: &[&str]| {
        scratch
            .burnish(&["train", "grpo.toml", "run.dir=again"])
            .fails_with(&[&["is broken"], parts].concat());
    };
    let written = std::fs::read_to_string(stage.join("recipe.toml")).unwrap();
    std::fs::write(
        stage.join("recipe.toml"),
        written.replace("learning_rate = 0.004", "learning_rate = 0.005"),
    )
    .unwrap();
    again(&["has the hash", "remove the folder"]);
    std::fs::write(stage.join("recipe.toml"), &written).unwrap();
    std::fs::write(stage.join("checkpoints/step_4/model.safetensors"), "").unwrap();
    again(&["model.safetensors", "remove the folder"]);
    std::fs::remove_dir_all(stage).unwrap();
    scratch.burnish(&["train", "grpo.toml", "run.dir=again"]).succeeds();
}

#[test]
fn a_study_makes_the_stages_that_its_arms_share_once_and_first() {
    let scratch = scratch(6);
    scratch.write(
        "study.toml",
        r#"
[study]
id = "staged"
title = "Stages"
question = "Does a longer first stage help?"
recipe = "grpo.toml"
set = ["eval.tasks=6", "policy.from.set=[\"eval.tasks=6\"]"]
dir = "study"
results = "results"
seeds = 2
jobs = 2

[[arms]]
name = "short"
role = "baseline"

[[arms]]
name = "fast"
set = ["optimizer.learning_rate=1e-2"]

[[arms]]
name = "long"
set = ["policy.from.set=[\"eval.tasks=6\", \"train.max_steps=8\"]"]
"#,
    );
    let said = scratch.burnish(&["study", "study.toml", "--draft"]).succeeds().stdout();
    // Two lengths, each for two seeds.
    assert_eq!(stages(&scratch, "runs/cache", "sft-").len(), 4, "{said}");
    assert_eq!(said.matches("making the policy to start from").count(), 4, "{said}");
    let (last, first) = (said.rfind("making the policy").unwrap(), said.find("run 1 of 6").unwrap());
    assert!(last < first, "{said}");
    let start =
        |arm: &str, seed: u64| scratch.read(&format!("study/{arm}/seed-{seed}/start/model.safetensors"));
    assert!(start("short", 1) == start("fast", 1) && start("short", 1) != start("long", 1));
    assert!(start("short", 1) != start("short", 2), "each seed has its own");

    // The same study accepts its runs. If a stage differs, they belong to another study.
    assert!(scratch.burnish(&["study", "study.toml", "--dry-run"]).succeeds().stdout().contains("finished"));
    let sft = String::from_utf8(scratch.read("sft.toml")).unwrap();
    scratch.write("sft.toml", sft.replace("seed = 3", "seed = 4"));
    scratch.burnish(&["study", "study.toml", "--draft"]).fails_with(&[
        "study/short/seed-1",
        "`policy.from.hash`",
        "move it",
    ]);
}

#[test]
fn a_policy_of_this_machine_can_judge_which_tasks_are_kept() {
    let scratch = scratch(2);
    scratch.burnish(&["sft", "sft.toml"]).succeeds();
    scratch.judge_that_says("4", "tiny/checkpoints/step_2", |at| format!("Rate:\nboard {at}"));
    let start = "policy={path=\"tiny/checkpoints/step_2\"}";
    let train = |keep: &str, dir: &str| {
        let judge = "judge={path=\"judge/checkpoints/step_60\", prompt=\"Rate:\\n{task}\"}";
        let split = format!("env.split={{scorer={{{judge}}}, keep=\"{keep}\"}}");
        scratch.burnish(&["train", "grpo.toml", start, &split, &format!("run.dir={dir}")])
    };
    let said = train(">= 4", "kept").succeeds().stdout();
    assert!(said.contains("env.split: 37 tasks"), "all that are not held out: {said}");
    train("< 4", "none").fails_with(&["env.split"]);
}
