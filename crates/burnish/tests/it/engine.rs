//! Runs whose policy is sampled by an engine: a server that speaks vLLM's wire format.

use crate::common;
use crate::common::Scratch;
use crate::stand_in::StandIn;
use burnish_rundir::journal::{EpisodeKind, Journal};
use serde_json::Value;

/// A scratch directory with a policy in f32, so that weights lose nothing on their way.
fn scratch() -> Scratch {
    Scratch::with_taught(&["policy.new.dtype=f32"])
}

/// The arguments for a run whose policy the servers sample.
fn engine(servers: &[&StandIn]) -> Vec<String> {
    let urls: Vec<&str> = servers.iter().map(|server| server.url.as_str()).collect();
    vec!["engine.kind=vllm".to_owned(), format!("engine.urls={urls:?}"), "engine.retries=0".to_owned()]
}

fn train(scratch: &Scratch, more: &[&str], engine: &[String]) -> common::Finished {
    let engine: Vec<&str> = engine.iter().map(String::as_str).collect();
    scratch.burnish(&[&["train", "grpo.toml"][..], more, &engine].concat())
}

/// What a run said in an evaluation.
fn said(scratch: &Scratch, run: &str, step: u64) -> Vec<String> {
    let journal = Journal::open_to_read(&scratch.path(run).join("run.db")).unwrap();
    let episodes = journal.episodes(step, EpisodeKind::Eval).unwrap();
    episodes.iter().map(|stored| stored.episode.traces[0].nodes().last().unwrap().text.clone()).collect()
}

fn rows(scratch: &Scratch, run: &str) -> Vec<Value> {
    let text = String::from_utf8(scratch.read(&format!("{run}/metrics.jsonl"))).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn an_engine_samples_with_the_newest_weights_and_the_trainer_agrees_with_its_log_probs() {
    let scratch = scratch();
    let server = StandIn::start(&scratch.path("tiny/checkpoints/step_120"));
    let done = train(&scratch, &["train.max_steps=3"], &engine(&[&server])).succeeds();
    assert!(done.stdout().contains("computes the log-probs of what it sampled again"), "{}", done.stdout());
    train(&scratch, &["train.max_steps=3", "run.dir=local"], &[]).succeeds();
    // Greedy answers before training depend on no seed.
    assert_eq!(said(&scratch, "grpo", 0), said(&scratch, "local", 0));
    // Two epochs of two minibatches: four updates a step.
    let given = server.given();
    let updates: Vec<&str> = given.iter().map(|name| name.rsplit_once('_').unwrap().0).collect();
    assert_eq!(updates, ["update_0", "update_4", "update_8", "update_12"]);
    let left = std::fs::read_dir(scratch.path("grpo/engine")).unwrap();
    let left: Vec<String> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(left, given[3..]);
    let journal = Journal::open_to_read(&scratch.path("grpo/run.db")).unwrap();
    for step in 1..=3 {
        for stored in journal.episodes(step, EpisodeKind::Train).unwrap() {
            let sampled = stored.episode.traces[0].nodes().last().unwrap().sampled.clone().unwrap();
            assert_eq!(sampled.policy_version, 4 * (step - 1));
        }
    }
    let steps: Vec<Value> =
        rows(&scratch, "grpo").into_iter().filter(|row| row["event"] == "train").collect();
    assert_eq!(steps.len(), 3);
    for row in steps {
        let apart = row["sampling/sampling_logp_difference/max"].as_f64().unwrap();
        assert!(apart > 0.0 && apart < 1e-4, "{apart}");
    }
}

#[test]
fn a_run_goes_on_to_the_same_weights_with_another_engine() {
    let scratch = scratch();
    let policy = scratch.path("tiny/checkpoints/step_120");
    let (first, second) = (StandIn::start(&policy), StandIn::start(&policy));
    // A schedule that does not depend on the length of the run.
    let constant = "optimizer.schedule=constant";
    train(&scratch, &["train.max_steps=4", "run.dir=whole", constant], &engine(&[&first])).succeeds();
    train(&scratch, &["train.max_steps=2", constant], &engine(&[&first])).succeeds();
    let urls = engine(&[&second, &first]);
    scratch.burnish(&["train", "--resume", "grpo", "train.max_steps=4", &urls[1]]).succeeds();
    let weights = |run: &str| scratch.read(&format!("{run}/checkpoints/step_4/model.safetensors"));
    assert!(weights("whole") == weights("grpo"), "other weights");
    assert!(second.given().iter().any(|name| name.starts_with("update_8_")), "{:?}", second.given());
}

#[test]
fn what_an_engine_can_not_do_is_refused_with_its_key() {
    let scratch = Scratch::new();
    scratch.write("grpo.toml", common::TINY_GRPO);
    let given = ["engine.kind=vllm".to_owned(), "engine.urls=[\"http://127.0.0.1:9\"]".to_owned()];
    for (more, parts) in [
        (&["rollout.min_tokens=2", "rollout.allow_off_policy=true"][..], &["rollout", "`min_tokens`"][..]),
        (&["rollout.policy_lag=1"], &["rollout.policy_lag", "newest weights"]),
        (&["eval.top_k=3"], &["eval", "`top_k`"]),
        (&["engine.tolerance=0"], &["engine.tolerance", "above 0"]),
        (&["engine.urls=[]"], &["engine.urls", "http://"]),
        (&["engine.kind=vlm"], &["engine.kind", "vllm"]),
    ] {
        let mut given = given.to_vec();
        given.retain(|own| !more.iter().any(|more| more.split('=').next() == own.split('=').next()));
        train(&scratch, more, &given).fails_with(parts);
    }
}
