//! Event files contain the numbers of `metrics.jsonl`, according to TensorBoard's own reader.

use std::process::{Command, Stdio};

use crate::common::{Scratch, scalars, wait_until};
use burnish_rundir::metrics::{aliases::METRICS, read};

/// Runs `read_events.py` with the Python in `BURNISH_PYTHON`; returns false if that is not set.
fn tensorboard_agrees(scratch: &Scratch, run: &str, pairs: &[&str]) -> bool {
    let Ok(python) = std::env::var("BURNISH_PYTHON") else {
        println!("skipped: BURNISH_PYTHON names no python with tensorboard");
        return false;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/read_events.py");
    let output = Command::new(python).arg(script).arg(scratch.path(run)).args(pairs).output().unwrap();
    assert!(output.status.success(), "{run}: {}", String::from_utf8_lossy(&output.stderr));
    println!("{run}: {}", String::from_utf8_lossy(&output.stdout).trim());
    true
}

#[test]
fn tensorboard_reads_every_number_of_a_run_that_was_killed_and_resumed() {
    let scratch = Scratch::with_policy();
    let mut child =
        scratch.command(&["train", "grpo.toml"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Past the checkpoint after two steps.
    let lines =
        || std::fs::read_to_string(scratch.path("grpo/metrics.jsonl")).map_or(0, |text| text.lines().count());
    wait_until("the run has come that far", || lines() >= 5 || child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.burnish(&["train", "--resume", "grpo"]).succeeds();
    let rows = read(&scratch.path("grpo/metrics.jsonl")).unwrap();
    let numbers: usize = rows.iter().map(|row| row.values.len()).sum();
    assert_eq!(scalars(&scratch.path("grpo/tensorboard")).len(), numbers);
    tensorboard_agrees(&scratch, "grpo", &[]);
}

#[test]
fn tags_are_those_of_the_framework_that_the_recipe_names() {
    let scratch = Scratch::with_policy();
    let frameworks = [
        (
            "verl",
            &[
                "critic/rewards/mean=reward",
                "actor/grad_norm=grad_norm",
                "actor/pg_clipfrac=clip_ratio/region_mean",
                "timing_s/step=step_time",
                "val-core/mapf-frozenlake/acc/mean@1=eval/success",
                "kl=kl",
            ],
        ),
        (
            "prime-rl",
            &[
                "reward/all/mean=reward",
                "optim/grad_norm=grad_norm",
                "optim/lr=learning_rate",
                "time/step=step_time",
                "eval/mapf-frozenlake/avg@1=eval/reward",
                "kl=kl",
            ],
        ),
    ];
    for (names, pairs) in frameworks {
        scratch
            .burnish(&[
                "train",
                "grpo.toml",
                "train.max_steps=2",
                &format!("metrics.names={names}"),
                &format!("run.dir={names}"),
            ])
            .succeeds();
        let tags: Vec<String> = scalars(&scratch.path(&format!("{names}/tensorboard")))
            .into_iter()
            .map(|scalar| scalar.tag)
            .collect();
        // The file that the run itself reads keeps burnish's names.
        let rows = read(&scratch.path(&format!("{names}/metrics.jsonl"))).unwrap();
        for pair in pairs {
            let (tag, name) = pair.split_once('=').unwrap();
            assert!(tags.iter().any(|found| found == tag), "{tag} is not in {tags:?}");
            assert!(rows.iter().any(|row| row.values.contains_key(name)), "{name}");
        }
    }
    let _ = frameworks.iter().all(|(names, pairs)| tensorboard_agrees(&scratch, names, *pairs));
}

#[test]
fn a_run_without_event_files_has_none() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&["train", "grpo.toml", "train.max_steps=1", "metrics.tensorboard=false"]).succeeds();
    assert!(scratch.path("grpo/metrics.jsonl").exists() && !scratch.path("grpo/tensorboard").exists());
}

#[test]
fn every_metric_of_a_run_is_in_the_table() {
    let scratch = Scratch::with_policy();
    scratch.burnish(&["train", "grpo.toml", "train.max_steps=1"]).succeeds();
    for run in ["tiny", "grpo"] {
        for row in read(&scratch.path(&format!("{run}/metrics.jsonl"))).unwrap() {
            for name in row.values.keys() {
                let is_known = METRICS.iter().any(|metric| metric.is_called(name));
                assert!(is_known, "{name} needs a line in docs/metrics.md");
            }
        }
    }
}

#[test]
fn the_metrics_of_a_run_are_printed_under_any_names() {
    let scratch = Scratch::with_policy();
    let native = scratch.burnish(&["metrics", "tiny"]).succeeds().stdout();
    assert_eq!(native.as_bytes(), scratch.read("tiny/metrics.jsonl"));
    let verl = scratch.burnish(&["metrics", "tiny", "--names", "verl"]).succeeds().stdout();
    assert_eq!(verl.lines().count(), native.lines().count());
    for (line, native) in verl.lines().zip(native.lines()).skip(1).take(3) {
        let [row, native]: [serde_json::Value; 2] =
            [line, native].map(|line| serde_json::from_str(line).unwrap());
        assert_eq!((&row["step"], &row["actor/grad_norm"]), (&native["step"], &native["grad_norm"]));
        assert!(row["actor/grad_norm"].is_number() && row.get("grad_norm").is_none(), "{row}");
        assert_eq!(row["training/global_step"].as_f64(), native["step"].as_f64());
    }
    scratch.burnish(&["metrics", "nowhere"]).fails_with(&["nowhere", "recipe.toml"]);
    let said = scratch.burnish(&["metrics", "tiny", "--names", "wandb"]).stderr();
    assert!(said.contains("wandb") && said.contains("prime-rl"), "{said}");
}
