//! A teacher in a whole run: its effect, and that nothing it reads reaches the policy.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use burnish_rundir::journal::{EpisodeKind, Journal};
use common::Scratch;
use serde_json::Value;

const OPD: [&str; 5] =
    ["loss.objective=opd", "loss.beta=0", "train.epochs=1", "train.minibatches=1", "train.max_steps=2"];

fn run(scratch: &Scratch, name: &str, overrides: &[&str]) -> Vec<Value> {
    let dir = format!("run.dir=runs/{name}");
    scratch.burnish(&[&["train", "grpo.toml", &dir, "eval.tasks=4"], overrides].concat()).succeeds();
    let text = String::from_utf8(scratch.read(&format!("runs/{name}/metrics.jsonl"))).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["event"] == "train").collect()
}

/// Prompts of the first step, in the policy's form.
fn prompts(scratch: &Scratch, name: &str) -> Vec<Vec<u32>> {
    let journal = Journal::open(&scratch.path(&format!("runs/{name}/run.db"))).unwrap();
    let stored = journal.episodes(1, EpisodeKind::Train).unwrap();
    stored.iter().map(|stored| stored.episode.traces[0].nodes()[0].ids.clone()).collect()
}

#[test]
fn a_teacher_that_is_the_policy_says_what_the_policy_says_and_one_that_knows_more_does_not() {
    let scratch = Scratch::with_policy();
    let plain = run(&scratch, "plain", &["loss.beta=0", "train.max_steps=1"]);
    let copy = [&OPD[..], &["teacher.path=tiny/checkpoints/step_120"]].concat();
    let copied = run(&scratch, "copy", &copy);
    let kl = |row: &Value| row["teacher_kl"].as_f64().unwrap();
    // The same weights that sampled: the only difference is the rounding in another batch.
    assert!(kl(&copied[0]).abs() < 1e-4 && copied[0]["grad_norm"].as_f64().unwrap() < 1e-2, "{}", copied[0]);
    let told = run(&scratch, "told", &[&OPD[..], &["teacher.context=demonstration"]].concat());
    assert!(kl(&told[0]).abs() > 1e-3, "{}", told[0]);
    assert!(told[0]["grad_norm"].as_f64().unwrap() > 0.0);
    // The teacher is told the answer, but the policy reads and samples the same as without a teacher.
    assert_eq!(prompts(&scratch, "told"), prompts(&scratch, "plain"));
    assert_eq!(told[0]["reward"], plain[0]["reward"]);
    assert_eq!(told[0]["tokens/total"], plain[0]["tokens/total"]);
}

#[test]
fn a_context_that_the_environment_has_not_is_refused_with_what_to_do() {
    let scratch = Scratch::with_policy();
    let arguments = ["train", "grpo.toml", "run.dir=runs/x", "eval.tasks=0", "teacher.context=skill"];
    let parts = ["teacher.context", "mapf-frozenlake", "another context"];
    scratch.burnish(&[&arguments[..], &OPD].concat()).fails_with(&parts);
}

#[test]
fn remax_measures_each_task_against_a_greedy_answer() {
    let scratch = Scratch::with_policy();
    let rows = run(&scratch, "remax", &["advantage.estimator=remax", "train.max_steps=2"]);
    let journal = Journal::open(&scratch.path("runs/remax/run.db")).unwrap();
    let stored = journal.episodes(1, EpisodeKind::Train).unwrap();
    let mut greedy = Vec::new();
    for group in stored.chunks(4) {
        // The advantage is the reward minus one number per task: the greedy answer's reward.
        let baselines: Vec<f64> =
            group.iter().map(|stored| stored.reward.unwrap() - stored.advantage.unwrap()).collect();
        assert!(baselines.iter().all(|baseline| (baseline - baselines[0]).abs() < 1e-9), "{baselines:?}");
        assert!([0.0, 0.5, 1.0].iter().any(|reward| (reward - baselines[0]).abs() < 1e-9), "{baselines:?}");
        greedy.push(baselines[0]);
    }
    let mean = greedy.iter().sum::<f64>() / greedy.len() as f64;
    assert!((rows[0]["greedy_reward"].as_f64().unwrap() - mean).abs() < 1e-9);
}
