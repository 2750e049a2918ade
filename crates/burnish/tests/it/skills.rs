//! A library of skills through a run: it learns between steps, is saved, goes on, and is read by evaluations.

use crate::common::{Scratch, timeless_metrics};
use serde_json::Value;

const POLICY: &str = "policy.path=tiny/checkpoints/step_40";
const ENV: &str = "env={id=\"skilled\", tasks=40, config={start=24, rate=0.5, of={id=\"household\", config={steps_max=9}}}}";

/// The utilities of the skills in a checkpoint.
fn utilities(scratch: &Scratch, checkpoint: &str) -> Vec<f64> {
    let dir = scratch.path(checkpoint);
    let mut found = Vec::new();
    for entry in walk(&dir) {
        let Ok(text) = std::fs::read_to_string(&entry) else { continue };
        let Ok(value) = serde_json::from_str::<Value>(&text) else { continue };
        if let Some(skills) = value.pointer("/state/stage/skills/skills").and_then(Value::as_array) {
            found = skills.iter().map(|skill| skill["utility"].as_f64().unwrap()).collect();
        }
    }
    assert!(!found.is_empty(), "{checkpoint} holds no library");
    found
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_library_learns_is_saved_goes_on_and_is_read() {
    let scratch = Scratch::with_policy_of_chains();
    let train = |dir: &str, more: &[&str]| {
        let dir = format!("run.dir={dir}");
        let fixed = ["train", "grpo.toml", POLICY, ENV, "advantage.estimator=skill1", "reward.weights={}"];
        let fixed =
            [&fixed[..], &["rollout.turns_max=12", "rollout.tokens_max=8", "train.epochs=1"]].concat();
        let fixed =
            [&fixed[..], &["train.minibatches=1", "checkpoint.every=1", "checkpoint.keep=9", &dir]].concat();
        scratch.burnish(&[&fixed[..], more].concat()).succeeds();
    };
    train("whole", &["train.max_steps=3"]);
    let rows = timeless_metrics(&scratch.path("whole/metrics.jsonl"));
    let last: Value =
        serde_json::from_str(rows.iter().rev().find(|row| row.contains("skills/size")).unwrap()).unwrap();
    assert!(
        last["skills/size"].as_f64().unwrap() >= 5.0 && last["loss"].as_f64().unwrap().is_finite(),
        "{last}"
    );
    // The policy knows nothing of houses, so what it is given fails, and utilities fall step by step.
    let means: Vec<f64> = (1..4)
        .map(|step| {
            let all = utilities(&scratch, &format!("whole/checkpoints/step_{step}"));
            all.iter().sum::<f64>() / all.len() as f64
        })
        .collect();
    assert!(means[0] < 0.5 && means.is_sorted_by(|one, other| one > other), "{means:?}");
    // A run that goes on after a step has the library of one that was never interrupted.
    let whole = utilities(&scratch, "whole/checkpoints/step_3");
    std::fs::remove_dir_all(scratch.path("whole/checkpoints/step_3")).unwrap();
    std::fs::remove_dir_all(scratch.path("whole/checkpoints/step_2")).unwrap();
    scratch.burnish(&["train", "--resume", "whole"]).succeeds();
    assert_eq!(utilities(&scratch, "whole/checkpoints/step_3"), whole);
    // Episodes replay though the library has changed since, and evaluations read it.
    scratch.burnish(&["rollout", "--from", "whole", "--step", "1", "--replay"]).succeeds();
    let evaluated = scratch.burnish(&["eval", "whole", "eval.tasks=4", "--json"]).succeeds().stdout();
    let evaluated: Value = serde_json::from_str(&evaluated).unwrap();
    assert_eq!(evaluated["flags"]["given"], 1.0, "{evaluated}");
}

#[test]
fn the_estimator_needs_an_environment_with_a_library() {
    let scratch = Scratch::with_policy_of_chains();
    let ask = ["train", "grpo.toml", POLICY, "advantage.estimator=skill1", "train.max_steps=1"];
    scratch.burnish(&ask).fails_with(&["skill1", "env.id", "skilled"]);
}
