//! What a real engine has to do: sample for runs, with log-probs on which the trainer agrees.

use burnish_core::Node;
use burnish_rundir::journal::{EpisodeKind, Journal};
use serde_json::Value;

use crate::common::Scratch;

/// Runs `grpo.toml` for three steps per entry of `runs` (the run's directory, and more arguments), sampled by the engine
/// at `url`, which serves the policy of the recipe in f32. One of the runs is `grpo`.
pub(crate) fn agree(scratch: &Scratch, kind: &str, url: &str, runs: &[(&str, &[&str])]) {
    let (kind, urls) = (format!("engine.kind={kind}"), format!("engine.urls=[\"{url}\"]"));
    for (run, more) in runs {
        scratch
            .burnish(&[&["train", "grpo.toml", &kind, &urls, "train.max_steps=3"], *more].concat())
            .succeeds();
        let apart = apart(scratch, run);
        assert!(apart.len() == 3 && apart.iter().all(|apart| *apart < 1e-4), "{run}: {apart:?}");
    }
    // Greedy answers before training are those of this process.
    scratch.burnish(&["train", "grpo.toml", "run.dir=local", "train.max_steps=1"]).succeeds();
    let said = |run: &str| {
        let journal = Journal::open_to_read(&scratch.path(run).join("run.db")).unwrap();
        let episodes = journal.episodes(0, EpisodeKind::Eval).unwrap().into_iter();
        episodes.map(|stored| stored.episode.traces[0].clone()).collect::<Vec<_>>()
    };
    for (theirs, ours) in said("grpo").iter().zip(&said("local")) {
        let (theirs, ours) = (theirs.nodes().last().unwrap(), ours.nodes().last().unwrap());
        assert_eq!(theirs.ids, ours.ids);
        let logprobs = |node: &Node| node.sampled.as_ref().unwrap().model_logprobs.clone();
        let apart =
            logprobs(theirs).iter().zip(&logprobs(ours)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-4, "{apart}");
    }
}

/// How far the log-probs of the trainer and of the engine are apart at most, step by step.
pub(crate) fn apart(scratch: &Scratch, run: &str) -> Vec<f64> {
    let rows = String::from_utf8(scratch.read(&format!("{run}/metrics.jsonl"))).unwrap();
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_steps = rows.filter(|row| row["event"] == "train");
    of_steps.map(|row| row["sampling/sampling_logp_difference/max"].as_f64().unwrap()).collect()
}
