//! A model of masked diffusion: it learns by imitation, answers from masks, and is refused where an answer needs a
//! log-prob.

use crate::common;
use crate::common::{Scratch, new_policy, timeless_metrics};
use serde_json::Value;

/// A policy that says whether there is such an object among three places. It learns to write an answer in seconds, and
/// little more.
const SCENES: &str = r#"
[run]
dir = "run"
seed = 1

[env]
id = "scenes"

[env.config]
rows = 1
columns = 3
objects = 2
shapes = 4
colours = 4
usual = 0.5
questions = { present = 1, colour = 0, caption = 0 }

[[data.demonstrations]]
env = "scenes"
tasks = 2000

[data.demonstrations.config]
rows = 1
columns = 3
objects = 2
shapes = 4
colours = 4
usual = 0.5
questions = { present = 1, colour = 0, caption = 0 }

[train]
method = "sft"
max_steps = 300
sequences_per_step = 32

[rollout]
tokens_max = 6

[optimizer]
learning_rate = 3e-3
warmup_updates = 50
schedule = "cosine"

[eval]
tasks = 100
denoising_steps = 6

[[eval.extra]]
name = "at-once"
denoising_steps = 1
"#;

fn success(scratch: &Scratch, arguments: &[&str]) -> f64 {
    let found = scratch.burnish(&[&["eval"], arguments, &["--json"]].concat()).succeeds().stdout();
    let found: Value = serde_json::from_str(&found).unwrap();
    found["success"]["mean"].as_f64().or_else(|| found["success"].as_f64()).unwrap()
}

#[test]
fn it_learns_answers_and_resumes_to_the_same_numbers() {
    let scratch = Scratch::new();
    scratch.write("scenes.toml", new_policy(280, 2) + "masked = true\n" + SCENES);
    let out = scratch.burnish(&["train", "scenes.toml"]).succeeds();
    assert!(!out.stdout().contains("left out"), "{}", out.stdout());
    let config: Value =
        serde_json::from_slice(&scratch.read("run/checkpoints/step_300/config.json")).unwrap();
    assert_eq!(config["is_causal"], false);
    assert!(config["mask_token_id"].is_u64());
    let learned = success(&scratch, &["run"]);
    assert!(learned > 0.35, "{learned}");

    // In two parts, the same.
    let short = |dir: &str, steps: &str| {
        scratch.burnish(&[
            "train",
            "scenes.toml",
            &format!("run.dir={dir}"),
            &format!("train.max_steps={steps}"),
            "eval.tasks=8",
        ])
    };
    short("whole", "12").succeeds();
    short("part", "6").succeeds();
    scratch.burnish(&["train", "--resume", "part", "train.max_steps=12"]).succeeds();
    let weights = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_12/model.safetensors"));
    assert!(weights("whole") == weights("part"));
    let last = |dir: &str| {
        let rows = timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
        rows.into_iter().rev().find(|row| row.contains("\"train\"")).unwrap()
    };
    assert_eq!(last("whole"), last("part"));

    // An answer that is longer than the canvas is said to be left out.
    let cut = ["train", "scenes.toml", "run.dir=cut", "rollout.tokens_max=2", "train.max_steps=1"];
    let said = scratch.burnish(&cut).succeeds().stdout();
    assert!(said.contains("with an answer longer than 2 (`rollout.tokens_max`)"), "{said}");

    // What it said is on record, and replays.
    scratch.burnish(&["rollout", "--from", "run", "--replay", "--eval"]).succeeds();

    let refused = |more: &[&str], parts: &[&str]| {
        let base = ["train", "scenes.toml", "run.dir=refused", "policy={path=\"run/checkpoints/step_300\"}"];
        let grpo = ["data={}", "eval={tasks=0}"];
        scratch.burnish(&[&base[..], &grpo[..], more].concat()).fails_with(parts);
    };
    refused(&["train={method=\"grpo\",max_steps=1}"], &["train.method", "masked diffusion"]);

    // Nor has an answer of its a log-prob for others to learn from.
    scratch.write("sft.toml", common::TINY_SFT);
    scratch.write("grpo.toml", common::TINY_GRPO);
    scratch.burnish(&["sft", "sft.toml"]).succeeds();
    let taught =
        ["train", "grpo.toml", "run.dir=taught", "eval.tasks=0", "loss.objective=opd", "loss.beta=0"];
    scratch
        .burnish(&[&taught[..], &["teacher.path=run/checkpoints/step_300"]].concat())
        .fails_with(&["neither a reference nor a teacher"]);
}

#[test]
fn keys_that_ask_for_what_it_or_another_model_cannot_do_are_named() {
    let scratch = Scratch::with_policy();
    scratch.write("scenes.toml", new_policy(280, 2) + "masked = true\n" + SCENES);
    let train = |more: &[&str]| scratch.burnish(&[&["train", "scenes.toml", "run.dir=x"][..], more].concat());
    train(&["eval.denoising_steps=0"]).fails_with(&["eval.denoising_steps", "1 or more"]);
    train(&["eval.extra=[{name=\"a\",denoising_steps=0}]"]).fails_with(&["denoising_steps", "1 or more"]);
    train(&["eval.top_k=3"]).fails_with(&["top_k"]);
    // Steps of denoising for a policy that answers token by token.
    scratch
        .burnish(&["train", "grpo.toml", "run.dir=y", "eval.denoising_steps=3"])
        .fails_with(&["denoising_steps"]);
    train(&["policy.new.architecture=\"qwen3_5\""]).fails_with(&["policy.new", "token to token"]);
}
