//! Whole studies: arms × seeds of the tiny policy, interrupted, continued and reported.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::process::Stdio;

use common::{Scratch, timeless_metrics, wait_until};
use serde_json::Value;

const STUDY: &str = r#"
[study]
id = "tiny-study"
title = "A tiny study"
claim = "A larger rate learns more."
recipe = "grpo.toml"
set = ["train.max_steps=2", "train.epochs=1", "train.minibatches=1", "eval.tasks=6", "eval.every=1", "loss.beta=0"]
baseline = "slow"
dir = "runs"
results = "results"
seeds = [7, 3]

[[arms]]
name = "slow"

[[arms]]
name = "fast"
set = ["optimizer.learning_rate=1e-2"]
note = "Ten times the rate."

[[arms]]
name = "once"
set = ["rollout.group_size=8"]
seeds = 1
"#;

/// All run directories, in the order in which they are made.
const RUNS: [&str; 5] =
    ["runs/slow/seed-7", "runs/fast/seed-7", "runs/once/seed-7", "runs/slow/seed-3", "runs/fast/seed-3"];

fn text(scratch: &Scratch, path: &str) -> String {
    String::from_utf8(scratch.read(path)).unwrap()
}

fn metrics(scratch: &Scratch) -> Vec<Vec<String>> {
    RUNS.map(|dir| timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")))).to_vec()
}

/// The findings, except for what depends on the clock.
fn findings(scratch: &Scratch) -> Value {
    fn drop_seconds(value: &mut Value) {
        match value {
            Value::Object(table) => {
                table.retain(|name, _| name != "seconds");
                table.values_mut().for_each(drop_seconds);
            }
            Value::Array(items) => items.iter_mut().for_each(drop_seconds),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(&text(scratch, "results/tiny-study.json")).unwrap();
    drop_seconds(&mut value);
    value
}

#[test]
fn a_study_runs_every_arm_with_every_seed_reports_them_and_goes_on_where_it_was_interrupted() {
    let scratch = Scratch::with_policy();
    scratch.write("study.toml", STUDY);
    let planned = scratch.burnish(&["study", "study.toml", "--dry-run"]).succeeds().stdout();
    let places: Vec<usize> = RUNS.iter().map(|dir| planned.find(dir).unwrap()).collect();
    assert!(places.is_sorted(), "seed by seed over the arms: {planned}");
    assert!(!scratch.path("runs").exists());
    scratch.burnish(&["study", "study.toml", "--report-only"]).fails_with(&["no finished run"]);

    scratch.burnish(&["study", "study.toml"]).succeeds();
    let (whole, found) = (metrics(&scratch), findings(&scratch));
    let page = text(&scratch, "results/tiny-study.md");
    assert!(page.contains("# A tiny study") && page.contains("A larger rate learns more."), "{page}");
    assert!(
        page.contains("`burnish study study.toml`") && page.contains("5 of 5 runs, 6 held-out tasks"),
        "{page}"
    );
    assert!(
        page.contains("Unequal budget: `once` used +") && page.contains("One seed only (`once`)"),
        "{page}"
    );
    assert!(page.contains("tiny-study.svg") && page.contains("Ten times the rate."), "{page}");
    let svg = text(&scratch, "results/tiny-study.svg");
    for arm in ["slow", "fast", "once"] {
        assert!(page.contains(&format!("| {arm} | ")) && svg.contains(&format!("{arm}: ")), "{page}{svg}");
    }
    // The budget in the table is what the run logged.
    let logged: f64 = whole[0]
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|row| row["tokens/sampled"].as_f64())
        .sum();
    let run = &found["arms"][0]["runs"][0];
    assert_eq!((run["seed"].as_u64(), run["budget"]["generated"].as_f64()), (Some(7), Some(logged)));
    // 2 steps of 4 tasks with 4 episodes each; an agent answers for both.
    assert_eq!(run["budget"]["episodes"].as_f64(), Some(32.0));
    assert_eq!(run["budget"]["updates"].as_f64(), Some(2.0));
    assert!(found["arms"][1]["success"]["difference"]["smallest_detectable"].is_number(), "{found}");
    assert_ne!(whole[0], whole[1], "the arms differ");
    assert_ne!(whole[0], whole[3], "the seeds differ");

    // Adding metrics to a study with finished runs needs no new run.
    let more = [
        "study",
        "study.toml",
        "--report-only",
        "study.results=more",
        "study.reach=1.0",
        "study.metrics=[\"flags_by_label.size.2.parse_error\", \"by_label.agents.2.success\", \"std(tokens/sampled)\", \"entropy\", \
         \"kl\"]",
    ];
    scratch.burnish(&more).succeeds();
    let page = text(&scratch, "more/tiny-study.md");
    assert!(page.contains("## Rollouts to reach 100.0 % held-out success"), "{page}");
    // 2 steps of 4 tasks with 4 episodes each (8 in the last arm). No policy of this size is always right.
    let section = page.split("## Rollouts to reach").nth(1).unwrap().split("\n## ").next().unwrap();
    assert!(section.contains("| slow | 0 of 2 | > 32 | > ") && section.contains("| > 32, > 32 |"), "{page}");
    assert!(section.contains("| once | 0 of 1 | > 64 | > "), "{page}");
    assert!(page.contains("`kl` is in no run that is finished"), "a metric of others: {page}");
    let numbers = page.split("## Further numbers").nth(1).unwrap().split("\n## ").next().unwrap();
    let more: Value = serde_json::from_slice(&scratch.read("more/tiny-study.json")).unwrap();
    let fast = more["arms"][1].clone();
    let mean = |name: &str| {
        let of = |run: usize| fast["runs"][run]["metrics"][name].as_f64().unwrap();
        (of(0) + of(1)) / 2.0
    };
    // All boards have two agents, so this equals the success in the table.
    let success = fast["success"]["level"]["interval"]["mean"].as_f64().unwrap();
    assert!((mean("by_label.agents.2.success") - success).abs() < 1e-12, "{more}");
    let names =
        ["flags_by_label.size.2.parse_error", "by_label.agents.2.success", "std(tokens/sampled)", "entropy"];
    let cells = names.map(|name| format!("{:.3} [", mean(name)));
    let steps: Vec<Value> = whole[1].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tokens: Vec<f64> = steps.iter().filter_map(|row| row["tokens/sampled"].as_f64()).collect();
    let std = fast["runs"][0]["metrics"]["std(tokens/sampled)"].as_f64().unwrap();
    // Of two numbers.
    assert!(
        (std - (tokens[0] - tokens[1]).abs() / 2f64.sqrt()).abs() < 1e-9 && tokens.len() == 2 && std > 0.0,
        "{tokens:?}"
    );
    let row = numbers.lines().find(|line| line.starts_with("| fast | ")).unwrap();
    assert!(cells.iter().all(|cell| row.contains(cell)) && row.ends_with("| – |"), "{page}");
    let typing = [
        "study",
        "study.toml",
        "--report-only",
        "study.results=none",
        "study.metrics=[\"flags.parse_eror\"]",
    ];
    let near = ["`study.metrics`", "`flags.parse_eror`", "near it: `flags.parse_error`", "slow/seed-7"];
    scratch.burnish(&typing).fails_with(&near);
    assert!(!scratch.path("none").exists());
    let readme = scratch.burnish(&["study", "--index", "more"]).succeeds().stdout();
    assert_eq!(readme.trim(), "more/README.md");
    let index = text(&scratch, "more/README.md");
    assert!(index.contains("| [A tiny study](tiny-study.md) | fast | slow | 2 | "), "{index}");
    scratch.burnish(&["study", "--index", "nowhere"]).fails_with(&["nowhere"]);

    // Finished runs are not repeated. Missing or interrupted ones are made, in parallel, with the same numbers.
    let untouched = std::fs::metadata(scratch.path("runs/once/seed-7/run.db")).unwrap().modified().unwrap();
    std::fs::remove_dir_all(scratch.path("runs/fast/seed-7")).unwrap();
    std::fs::remove_file(scratch.path("runs/slow/seed-3/report.html")).unwrap();
    std::fs::remove_dir_all(scratch.path("runs/slow/seed-3/checkpoints/step_2")).unwrap();
    let plan = scratch.burnish(&["study", "study.toml", "--dry-run"]).succeeds().stdout();
    let states: Vec<&str> =
        plan.lines().filter(|line| line.contains("seed-")).map(|line| line[..14].trim()).collect();
    assert_eq!(states, ["finished", "to run", "finished", "to go on with", "finished"]);
    scratch.burnish(&["study", "study.toml", "--report-only"]).succeeds();
    assert!(text(&scratch, "results/tiny-study.md").contains("Not complete: 3 of 5 runs are finished."));
    scratch.burnish(&["study", "study.toml", "--jobs", "2"]).succeeds();
    assert_eq!(metrics(&scratch), whole);
    assert_eq!(findings(&scratch), found);
    let modified = std::fs::metadata(scratch.path("runs/once/seed-7/run.db")).unwrap().modified().unwrap();
    assert_eq!(modified, untouched);

    // A run of another recipe is not accepted as this study's.
    let other = STUDY.replace("1e-2", "2e-2");
    scratch.write("other.toml", other);
    scratch.burnish(&["study", "other.toml"]).fails_with(&[
        "runs/fast/seed-7",
        "runs/fast/seed-3",
        "`optimizer.learning_rate`: 0.01 there, 0.02 now",
        "move it away",
    ]);
}

#[cfg(unix)]
#[test]
fn an_interrupt_saves_and_begins_no_further_run_and_a_run_that_fails_does_not_end_the_others() {
    let scratch = Scratch::with_policy();
    scratch.write("long.toml", STUDY.replace("train.max_steps=2", "train.max_steps=60"));
    let child = scratch
        .command(&["study", "long.toml", "study.dir=long"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let first = scratch.path("long/slow/seed-7");
    let lines =
        || std::fs::read_to_string(first.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
    wait_until("the first run has come that far", || lines() >= 4);
    common::interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let again = said.lines().find(|line| line.contains("goes on from here: ")).unwrap_or_default();
    assert!(output.status.success() && again.ends_with("burnish study long.toml study.dir=long"), "{said}");
    assert!(std::fs::read_dir(first.join("checkpoints")).unwrap().next().is_some(), "it saved");
    assert!(!burnish_rundir::run_dir::is_finished(&first) && !scratch.path("long/fast").exists());
    assert!(!scratch.path("results").exists(), "nothing is reported of half a run");

    // A misspelt metric ends a study with its first run.
    let wrong = ["study", "study.toml", "study.dir=wrong", "study.metrics=[\"std(grad_nrm)\"]"];
    scratch.write("study.toml", STUDY);
    scratch.burnish(&wrong).fails_with(&[
        "`study.metrics`",
        "`grad_nrm`",
        "near it: `grad_norm`",
        "wrong/slow/seed-7",
    ]);
    assert!(scratch.path("wrong/slow/seed-7/report.html").exists() && !scratch.path("wrong/fast").exists());
    scratch.burnish(&wrong).fails_with(&["`grad_norm`"]);
    assert!(!scratch.path("wrong/fast").exists() && !scratch.path("results").exists());

    scratch.write("gone.toml", STUDY.replace("optimizer.learning_rate=1e-2", "policy.path=gone"));
    let finished = scratch.burnish(&["study", "gone.toml", "study.dir=gone"]);
    finished.fails_with(&["arm `fast`, seed 7", "arm `fast`, seed 3", "2 runs could not go on"]);
    let page = text(&scratch, "results/tiny-study.md");
    assert!(
        page.contains("Not complete: 3 of 5 runs") && page.contains("| fast | 0 | – | – | – | not"),
        "{page}"
    );
}

#[test]
fn what_is_wrong_with_a_study_is_said_before_anything_starts() {
    let scratch = Scratch::new();
    scratch.write("grpo.toml", common::TINY_GRPO);
    scratch.write("model.txt", "");
    for (from, to, parts) in [
        ("1e-2", "-1", &["arm `fast`", "override `optimizer.learning_rate=-1`", "above 0"][..]),
        (
            "optimizer.learning_rate=1e-2",
            "optimizer.learning_rat=1",
            &["arm `fast`", "did you mean `learning_rate`"],
        ),
        ("rollout.group_size=8", "run.seed=9", &["arm `once`", "the study sets `run.seed`"]),
        ("rollout.group_size=8", "eval.seed=9", &["arm `once`", "`eval.seed`", "other tasks"]),
        ("eval.tasks=6", "eval.tasks=1", &["arm `slow`", "arm `fast`", "arm `once`", "eval.tasks"]),
        ("name = \"fast\"", "name = \"slow\"", &["study.toml:17", "as that of another arm"]),
        ("name = \"fast\"", "name = \"a/b\"", &["study.toml:17", "letters, digits"]),
        (
            "baseline = \"slow\"",
            "baseline = \"slo\"",
            &["study.toml:8", "no arm is called", "slow, fast, once"],
        ),
        ("seeds = [7, 3]", "seeds = [7, 7]", &["study.toml:11", "study.seeds", "different"]),
        ("seeds = [7, 3]", "seeds = 0", &["study.toml:11", "study.seeds"]),
        ("seeds = 1\n", "seeds = 0\n", &["study.toml:24", "1 or more"]),
        ("seeds = 1\n", "seed = 1\n", &["study.toml:24", "did you mean `seeds`"]),
        ("dir = \"runs\"", "jobs = 0", &["study.toml:9", "study.jobs"]),
        (
            "dir = \"runs\"",
            "metrics = [\"median(kl)\"]",
            &["study.toml:9", "study.metrics", "median(...)", "std"],
        ),
        ("dir = \"runs\"", "reach = 50", &["study.toml:9", "study.reach", "at most 1"]),
        ("grpo.toml", "none.toml", &["none.toml", "can't be read"]),
        ("dir = \"runs\"", "dir = \"\"", &["study.toml:9", "`study.dir` is empty"]),
        ("dir = \"runs\"", "dir = \"~eve/runs\"", &["study.toml:9", "`study.dir`", "`eve`"]),
    ] {
        let changed = STUDY.replacen(from, to, 1);
        assert_ne!(changed, STUDY);
        scratch.write("study.toml", changed);
        scratch.burnish(&["study", "study.toml"]).fails_with(parts);
        assert!(!scratch.path("runs").exists());
    }
    scratch.write("study.toml", STUDY);
    scratch.burnish(&["study", "study.toml", "--only", "slo"]).fails_with(&["`slo`", "slow, fast, once"]);
}

#[test]
fn the_studies_of_this_repository_are_complete_and_within_their_budget_of_runs() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut studies = 0;
    for entry in std::fs::read_dir(root.join("recipes/studies")).unwrap() {
        let path = entry.unwrap().path();
        if !std::fs::read_to_string(&path).unwrap().contains("[study]") {
            continue;
        }
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_burnish"))
            .args(["study", path.to_str().unwrap(), "--dry-run"])
            .arg("study.dir=\"runs/of-no-study\"")
            .current_dir(&root)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // A run takes at most two minutes, and a study 90.
        let runs = said.lines().filter(|line| line.contains("/seed-")).count();
        assert!((1..=45).contains(&runs), "{}: {runs} runs", path.display());
        studies += 1;
    }
    assert!(studies > 0);
}
