//! Sampling that lags behind training, and the corrections for it.

use crate::common::{Scratch, timeless_metrics};
use burnish_rundir::journal::{EpisodeKind, Journal};
use serde_json::Value;

const WEIGHT: &str = "loss.correction.weight={level=\"token\"}";

fn train(scratch: &Scratch, dir: &str, overrides: &[&str]) {
    let dir = format!("run.dir={dir}");
    scratch.burnish(&[&["train", "grpo.toml", "eval.tasks=0", &dir], overrides].concat()).succeeds();
}

/// The values of metric `name` in the run in `dir`, one per step.
fn of_steps(scratch: &Scratch, dir: &str, name: &str) -> Vec<f64> {
    let rows = timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
    let rows = rows.iter().map(|row| serde_json::from_str::<Value>(row).unwrap());
    rows.filter(|row| row["event"] == "train").map(|row| row[name].as_f64().unwrap()).collect()
}

#[test]
fn weights_of_earlier_steps_sample_and_the_first_steps_have_those_of_the_start() {
    let scratch = Scratch::with_policy();
    train(&scratch, "lagged", &["rollout.policy_lag=2", "loss.correction.proximal=recompute", WEIGHT]);
    let journal = Journal::open(&scratch.path("lagged/run.db")).unwrap();
    // A step makes two passes with two updates each.
    let (mut sampled, started) = (Vec::new(), [0, 4, 8, 12, 16, 20]);
    for step in 1..=6 {
        let stored = journal.episodes(step, EpisodeKind::Train).unwrap();
        let nodes = stored.iter().flat_map(|stored| &stored.episode.traces).flat_map(|trace| trace.nodes());
        let mut versions: Vec<u64> =
            nodes.filter_map(|node| Some(node.sampled.as_ref()?.policy_version)).collect();
        versions.dedup();
        assert_eq!(versions.len(), 1, "step {step}: {versions:?}");
        sampled.push(versions[0]);
    }
    assert_eq!(sampled, [0, 0, 0, 4, 8, 12]);
    let behind = started.iter().zip(&sampled).map(|(started, sampled)| (started - sampled) as f64);
    assert_eq!(of_steps(&scratch, "lagged", "sampling/updates_behind"), behind.collect::<Vec<f64>>());
    let weights = of_steps(&scratch, "lagged", "rollout_corr/rollout_is_mean");
    // Sampler and trainer round differently; one step moves the weights by far more.
    let is_off = |weight: &f64| (weight - 1.0).abs() > 1e-4;
    assert!(!is_off(&weights[0]) && weights[1..].iter().all(is_off), "{weights:?}");
}

#[test]
fn a_proximal_policy_is_found_by_a_pass_or_by_age() {
    let scratch = Scratch::with_policy();
    // One update per step, so that its weights are still those at the start of the step.
    let base = [
        "rollout.policy_lag=1",
        "train.max_steps=2",
        "train.epochs=1",
        "train.minibatches=1",
        "optimizer={learning_rate=1e-2, warmup_updates=0}",
    ];
    let moved = |dir: &str, own: &[&str]| {
        train(&scratch, dir, &[&base[..], own].concat());
        let moved = of_steps(&scratch, dir, "rollout_corr/log_ppl_abs_diff");
        assert!(moved[0].abs() < 1e-6, "{dir}: nothing was learned yet: {moved:?}");
        moved[1]
    };
    // The distance of the policy from the one that sampled, which a pass through the policy must find too.
    let whole = moved("bypass", &["loss.correction.bypass=true"]);
    assert!(whole.abs() > 1e-4, "{whole}");
    let recomputed = moved("recompute", &["loss.correction.proximal=recompute", WEIGHT]);
    assert!((recomputed - whole).abs() < 1e-6, "{recomputed} {whole}");
    // One update old at the second update: halfway.
    let half = moved("loglinear", &["loss.correction.proximal=loglinear", WEIGHT]);
    assert!((2.0 * half - whole).abs() < 1e-6, "{half} {whole}");
}

#[test]
fn what_a_penalty_changed_is_weighed_where_behavior_is_what_was_drawn() {
    let scratch = Scratch::with_policy();
    let base = [
        "train.max_steps=1",
        "train.epochs=1",
        "train.minibatches=1",
        "rollout.repetition_penalty=1.5",
        "rollout.allow_off_policy=true",
        WEIGHT,
    ];
    let mean_weight = |dir: &str, own: &[&str]| {
        train(&scratch, dir, &[&base[..], own].concat());
        // Sampler and trainer agree, whatever was drawn.
        let difference = of_steps(&scratch, dir, "sampling/sampling_logp_difference/max")[0];
        assert!(difference < 1e-4, "{dir}: {difference}");
        of_steps(&scratch, dir, "rollout_corr/rollout_is_mean")[0]
    };
    assert!((mean_weight("model", &[]) - 1.0).abs() < 1e-6);
    let found = mean_weight("sampled", &["loss.correction.behavior=sampled"]);
    let journal = Journal::open(&scratch.path("sampled/run.db")).unwrap();
    let stored = journal.episodes(1, EpisodeKind::Train).unwrap();
    let nodes = stored.iter().flat_map(|stored| &stored.episode.traces).flat_map(|trace| trace.nodes());
    let weights: Vec<f64> = nodes
        .filter_map(|node| node.sampled.as_ref())
        .flat_map(|sampled| sampled.model_logprobs.iter().zip(sampled.sampled_logprobs.as_ref().unwrap()))
        .map(|(model, drawn)| f64::from(model - drawn).exp().min(2.0))
        .collect();
    let expected = weights.iter().sum::<f64>() / weights.len() as f64;
    assert!((found - expected).abs() < 1e-4 && (expected - 1.0).abs() > 1e-2, "{found}, not {expected}");
}
