//! A library of skills through a run: it learns between steps, is saved, goes on, and is read by evaluations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::{Scratch, timeless_metrics};
use burnish_rundir::journal::{EpisodeKind, Journal};
use serde_json::Value;

const POLICY: &str = "policy.path=tiny/checkpoints/step_40";
const ENV: &str = "env={id=\"skilled\", tasks=40, config={start=24, rate=0.5, of={id=\"household\", config={steps_max=9}}}}";

/// The library in a checkpoint.
fn library(scratch: &Scratch, checkpoint: &str) -> Value {
    let record = scratch.read(&format!("{checkpoint}/trainer/trainer.json"));
    let mut record: Value = serde_json::from_slice(&record).unwrap();
    let library = record["state"]["stage"]["skills"].take();
    assert!(library.is_object(), "{checkpoint} holds no library");
    library
}

/// The utilities of the skills in a checkpoint.
fn utilities(scratch: &Scratch, checkpoint: &str) -> Vec<f64> {
    let library = library(scratch, checkpoint);
    let skills = library["skills"].as_array().unwrap();
    assert!(!skills.is_empty(), "{checkpoint} holds no skills");
    skills.iter().map(|skill| skill["utility"].as_f64().unwrap()).collect()
}

/// Every file under `dir`, with what is in it.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let content = std::fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

/// The lines of a run's metrics of one kind.
fn rows(scratch: &Scratch, dir: &str, event: &str) -> Vec<Value> {
    let rows = timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
    let rows = rows.iter().map(|row| serde_json::from_str::<Value>(row).unwrap());
    rows.filter(|row| row["event"] == event).collect()
}

/// Trains the policy that has seen chains with a library.
fn train(scratch: &Scratch, dir: &str, more: &[&str]) {
    let dir = format!("run.dir={dir}");
    let fixed = ["train", "grpo.toml", POLICY, ENV, "advantage.estimator=skill1", "reward.weights={}"];
    let fixed = [&fixed[..], &["rollout.turns_max=12", "rollout.tokens_max=8", "train.epochs=1"]].concat();
    let fixed =
        [&fixed[..], &["train.minibatches=1", "checkpoint.every=1", "checkpoint.keep=9", &dir]].concat();
    scratch.burnish(&[&fixed[..], more].concat()).succeeds();
}

#[test]
fn a_library_learns_is_saved_goes_on_and_is_read() {
    let scratch = Scratch::with_policy_of_chains();
    train(&scratch, "whole", &["train.max_steps=3"]);
    let rows = timeless_metrics(&scratch.path("whole/metrics.jsonl"));
    let last: Value =
        serde_json::from_str(rows.iter().rev().find(|row| row.contains("skills/size")).unwrap()).unwrap();
    assert!(
        last["skills/size"].as_f64().unwrap() >= 5.0 && last["loss"].as_f64().unwrap().is_finite(),
        "{last}"
    );
    // Nothing works, which utilities say sooner or later.
    assert!(last["skills/miscalibration"].as_f64().unwrap() > 0.0, "{last}");
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
fn evaluations_leave_the_library_as_it_is() {
    let scratch = Scratch::with_policy_of_chains();
    for (dir, every, evaluations) in [("often", "eval.every=1", 3), ("seldom", "eval.every=0", 2)] {
        train(&scratch, dir, &["train.max_steps=2", "eval.tasks=4", every]);
        assert_eq!(rows(&scratch, dir, "eval").len(), evaluations, "{dir}");
    }
    for step in [1, 2] {
        let checkpoint = |dir: &str| format!("{dir}/checkpoints/step_{step}");
        let [often, seldom] = ["often", "seldom"].map(|dir| library(&scratch, &checkpoint(dir)).to_string());
        assert_eq!(often, seldom, "step {step}");
        let weights = |dir: &str| scratch.read(&format!("{}/model.safetensors", checkpoint(dir)));
        assert!(weights("often") == weights("seldom"), "step {step}");
    }
    // Training does change it.
    let of_step = |step: u64| library(&scratch, &format!("often/checkpoints/step_{step}"));
    assert_ne!(of_step(1), of_step(2));
    // Later evaluations read it where it is, and write nothing.
    let before = files(&scratch.path("often"));
    let evaluated = scratch.burnish(&["eval", "often", "--json"]).succeeds().stdout();
    let evaluated: Value = serde_json::from_str(&evaluated).unwrap();
    assert_eq!(evaluated["flags"]["given"], 1.0, "{evaluated}");
    let after = files(&scratch.path("often"));
    assert!(after.keys().eq(before.keys()), "{:?}", after.keys());
    for (path, content) in &before {
        assert!(after[path] == *content, "{} has changed", path.display());
    }
}

#[test]
fn without_candidates_the_estimator_is_grpo_to_the_bit() {
    let scratch = Scratch::with_policy_of_chains();
    let env = "env={id=\"skilled\", tasks=40, config={candidates=0, distil=false, of={id=\"household\"}}}";
    let fixed = [
        "train",
        "grpo.toml",
        POLICY,
        env,
        // Each estimator has its own default.
        "advantage.config={epsilon=1e-4}",
        // Lengths differ, so there is something to learn though no episode succeeds.
        "reward.overlong_buffer.length=44",
        "rollout.turns_max=3",
        "loss.beta=0",
        "train.epochs=1",
        "train.minibatches=1",
        "train.max_steps=2",
        "optimizer.warmup_updates=0",
        "eval.tasks=0",
        "checkpoint.every=1",
        "checkpoint.keep=9",
    ];
    for estimator in ["skill1", "grpo"] {
        let own = [format!("advantage.estimator={estimator}"), format!("run.dir={estimator}")];
        let own = own.each_ref().map(String::as_str);
        scratch.burnish(&[&fixed[..], &own].concat()).succeeds();
        let steps = rows(&scratch, estimator, "train");
        assert_eq!(steps.len(), 2);
        assert!(steps[0]["grad_norm"].as_f64().unwrap() > 0.0, "{steps:?}");
    }
    // Turns are told apart by the one and not by the other, so there have to be some.
    let journal = Journal::open(&scratch.path("skill1/run.db")).unwrap();
    let episodes = journal.episodes(1, EpisodeKind::Train).unwrap();
    assert!(episodes.iter().any(|stored| stored.episode.answers.len() > 1));
    for step in [1, 2] {
        for file in ["model.safetensors", "trainer/trainer.safetensors"] {
            let of = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_{step}/{file}"));
            assert!(of("skill1") == of("grpo"), "{file} of step {step}");
        }
    }
}

#[test]
fn the_estimator_needs_an_environment_with_a_library() {
    let scratch = Scratch::with_policy_of_chains();
    let ask = ["train", "grpo.toml", POLICY, "advantage.estimator=skill1", "train.max_steps=1"];
    scratch.burnish(&ask).fails_with(&["skill1", "env.id", "skilled"]);
}
