//! What `--dry-run --memory` says, against the peak of real runs on the CPU.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::Scratch;

const RECIPE: &str = "
[policy.new]
architecture = \"qwen3\"
vocab_size = 512
hidden_size = 64
intermediate_size = 192
num_hidden_layers = 4
num_attention_heads = 4
num_key_value_heads = 2
head_dim = 32
max_position_embeddings = 512
rope_theta = 10000.0
tie_word_embeddings = true
dtype = \"f32\"

[env]
id = \"countdown\"

[[data.demonstrations]]
env = \"countdown\"
tasks = 600

[train]
method = \"sft\"
max_steps = 2
sequences_per_step = 300

[eval]
tasks = 0

[optimizer]
learning_rate = 1e-3
";

/// As much may wait for its next use however little is in use.
const IDLE_MIB: f64 = 64.0;

/// What is said to be needed in all, and the peak of a run, in MiB.
#[expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is right")]
fn said_and_peak(scratch: &Scratch, name: &str, overrides: &[&str]) -> (f64, f64) {
    let dir = format!("run.dir={name}");
    let arguments: Vec<&str> =
        ["train", "recipe.toml", &dir].into_iter().chain(overrides.iter().copied()).collect();
    let asked: Vec<&str> = arguments.iter().copied().chain(["--dry-run", "--memory"]).collect();
    let told = scratch.burnish(&asked).succeeds().stdout();
    let line = told.lines().find(|line| line.contains("in all")).unwrap_or_else(|| panic!("{told}"));
    let said: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
    assert!(line.contains(" MiB "), "{line}");
    assert!(!scratch.path(name).exists(), "a dry run made something");

    let mut command = scratch.command(&arguments);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0.0_f64;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let found = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        peak = peak.max(found.unwrap_or(0.0) / 1024.0);
        std::thread::sleep(Duration::from_millis(4));
    }
    assert!(child.wait().unwrap().success());
    (said, peak)
}

#[test]
fn what_is_said_agrees_with_the_peak_of_runs() {
    if !Path::new("/proc/self/status").exists() {
        println!("skipped: no /proc, which tells the peak of a process");
        return;
    }
    let scratch = Scratch::new();
    scratch.write("recipe.toml", RECIPE);
    // The program and its rows are not counted, and so few tokens leave little memory to wait for its next use.
    let (said, peak) = said_and_peak(&scratch, "small", &["train.micro_batch_tokens=256"]);
    let program = peak - (said - IDLE_MIB);
    let part = |name: &str, overrides: &[&str]| {
        let (said, peak) = said_and_peak(&scratch, name, overrides);
        println!("{name}: said {said} MiB, peak {peak:.0} MiB, {program:.0} of them the program's");
        (peak - program) / said
    };
    for level in ["false", "\"selective\"", "true"] {
        let level = format!("train.activation_checkpointing={level}");
        let part = part(&level, &["train.micro_batch_tokens=12000", &level]);
        assert!((0.6..1.0).contains(&part), "a pass of 12,000 tokens, {level}: {part} of what was said");
    }
    let wide = [
        "train.micro_batch_tokens=256",
        "train.max_steps=1",
        "train.sequences_per_step=4",
        "policy.new.hidden_size=768",
        "policy.new.intermediate_size=2304",
    ];
    let part = part("wide", &wide);
    assert!((0.85..1.0).contains(&part), "weights, gradient and moments: {part} of what was said");
}

const GRPO: &str = "
[run]
dir = \"run\"

[policy]
from = \"recipe.toml\"

[env]
id = \"countdown\"

[train]
method = \"grpo\"
max_steps = 2

[loss]
beta = 0.1

[optimizer]
learning_rate = 1e-3
";

#[test]
fn models_that_were_not_made_yet_are_counted_and_devices_are_not_asked() {
    let scratch = Scratch::new();
    scratch.write("recipe.toml", format!("[run]\ndir = \"stage\"\n{RECIPE}"));
    scratch.write("grpo.toml", GRPO);
    let told = |more: &[&str]| {
        let fixed = ["train", "grpo.toml", "--dry-run", "--memory"];
        let arguments: Vec<&str> = fixed.iter().chain(more).copied().collect();
        scratch.burnish(&arguments).succeeds().stdout()
    };
    let bytes_of = |told: &str, what: &str| {
        let line = told.lines().find(|line| line.contains(what)).unwrap_or_else(|| panic!("{what}: {told}"));
        line.split_whitespace().next().unwrap().parse::<f64>().unwrap()
    };
    let plain = told(&[]);
    // 4 bytes for each parameter: of the embedding, of four layers, and of the norm at the end.
    let layer = 2 * 64 + (128 + 2 * 64) * 64 + 64 * 128 + 2 * 32 + 3 * 192 * 64;
    let expected = f64::from(4 * (512 * 64 + 4 * layer + 64)) / f64::from(1 << 20);
    for (what, times) in [("the policy, ", 1.0), ("gradient of the policy", 1.0), ("moments of AdamW", 2.0)] {
        assert!((bytes_of(&plain, what) - times * expected).abs() < 0.06, "{what}: {expected} in {plain}");
    }
    assert!((bytes_of(&plain, "the reference, ") - expected).abs() < 0.06, "{plain}");

    let eight = told(&["optimizer.moments=8bit", "critic={}", "advantage={estimator=\"gae\"}"]);
    assert!(
        (bytes_of(&eight, "moments of AdamW for the policy") - expected * 65.0 / 128.0).abs() < 0.06,
        "{eight}"
    );
    assert!(eight.contains("the critic, "), "{eight}");

    // There is no such device here.
    let gpu = told(&["device=cuda:7", "policy.precision=bf16"]);
    assert!(gpu.starts_with("on cuda:7, at most:"), "{gpu}");
    let (pass, on_gpu) = ("keeps for its way back", "copy in bf16 of what is trained");
    assert!((bytes_of(&plain, pass) / bytes_of(&gpu, pass) - 2.0).abs() < 0.02, "{gpu}");
    assert!((bytes_of(&gpu, on_gpu) - expected / 2.0).abs() < 0.06 && !plain.contains(on_gpu), "{gpu}");
    assert!(gpu.contains("seven eighths") && gpu.contains("= \"auto\"` looks at the memory"), "{gpu}");
    // The memory of this machine is known.
    assert!(plain.contains("note: activation checkpointing is off") && !gpu.contains("is off"), "{plain}");

    let lora = "policy.lora={rank=4, alpha=8.0}";
    let adapter = told(&[lora]);
    assert!(adapter.contains("of them trained") && !adapter.contains("the reference, "), "{adapter}");
    assert!(scratch.burnish(&["train", "grpo.toml", "--memory"]).stderr().contains("--dry-run"));
    scratch
        .burnish(&["train", "grpo.toml", "--dry-run", "--memory", "policy.from=none.toml"])
        .fails_with(&["none.toml"]);
}
