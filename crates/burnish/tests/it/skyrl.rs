//! A real server of Tinker's API, SkyRL's, trains for runs. `BURNISH_TINKER` names a Python environment with it (`pip
//! install "skyrl-tx==0.3.0" "jax<1.0,>=0.8" flax optax "fastapi[standard]" sqlmodel aiosqlite "sqlalchemy[asyncio]"
//! asyncpg psycopg2-binary`), whose `bin/uv` hands over to its Python; without it, the tests are skipped.

#![cfg(unix)]

use crate::updates;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::common::Scratch;
use crate::served::Served;
use crate::updates::with_kl;
use burnish_model::{Loading, LoraConfig, Model, Targets, Trains};
use burnish_rl::LossConfig;
use serde_json::Value;

/// A policy in f32 as the server reads it, which knows transformers' earlier way to write down rotations.
fn scratch() -> Scratch {
    let scratch = Scratch::with_taught(&["policy.new.dtype=f32"]);
    let file = "tiny/checkpoints/step_120/config.json";
    let mut config: Value = serde_json::from_slice(&scratch.read(file)).unwrap();
    config["rope_theta"] = 10_000.0.into();
    config["torch_dtype"] = "float32".into();
    scratch.write("config.json", config.to_string());
    std::fs::create_dir(scratch.path("base")).unwrap();
    for name in [
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
        "chat_template.jinja",
    ] {
        let content = scratch.read(&format!("tiny/checkpoints/step_120/{name}"));
        scratch.write(&format!("base/{name}"), content);
    }
    std::fs::rename(scratch.path("config.json"), scratch.path("base/config.json")).unwrap();
    scratch
}

/// How the server is started; it keeps what it has in `work`.
fn command(environment: &Path, scratch: &Scratch) -> impl Fn(&str) -> Command {
    let (environment, base, work) = (environment.to_owned(), scratch.path("base"), scratch.path("work"));
    std::fs::create_dir_all(&work).unwrap();
    move |port| {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(environment.join("bin/python"));
        command
            .args(["-m", "tx.tinker.api", "--host", "127.0.0.1", "--port", port, "--backend", "jax"])
            .args(["--backend-config", r#"{"max_lora_adapters": 4, "max_lora_rank": 16}"#])
            .arg("--base-model")
            .arg(&base)
            .arg("--checkpoints-base")
            .arg(work.join("checkpoints"))
            .arg("--database-url")
            .arg(format!("sqlite:///{}", work.join("tinker.db").display()))
            .env("PATH", format!("{}:{path}", environment.join("bin").display()))
            .env("JAX_PLATFORMS", "cpu");
        command
    }
}

/// One server at a time has the machine.
static ALONE: Mutex<()> = Mutex::new(());

const HEALTH: &str = "/api/v1/healthz";

fn environment() -> Option<PathBuf> {
    let environment = std::env::var_os("BURNISH_TINKER").map(PathBuf::from);
    if environment.is_none() {
        println!("skipped: BURNISH_TINKER names no environment with SkyRL's server");
    }
    environment
}

/// The adapter that a server saved for sampling as `path`.
fn adapter(scratch: &Scratch, path: &str) -> Model {
    let (model, name) = path.strip_prefix("tinker://").unwrap().rsplit_once('/').unwrap();
    let model = model.split('/').next().unwrap();
    let archive = scratch.path(&format!("work/checkpoints/{model}/sampler_weights/{name}.tar.gz"));
    let dir = scratch.path(&format!("adapter-{name}"));
    std::fs::create_dir_all(&dir).unwrap();
    let unpacked = Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(&dir).status().unwrap();
    assert!(unpacked.success());
    let target_modules = Targets::default();
    // SkyRL's α is 32, whatever the rank.
    let lora = LoraConfig { rank: updates::RANK, alpha: 32.0, dropout: 0.0, rslora: false, target_modules };
    let loading = Loading { trains: Trains::Adapter(lora, 0), ..Loading::default() };
    // As the server reads it: it does not know which ids of the head the tokenizer has.
    Model::load_as(&dir, &loading).unwrap()
}

#[test]
fn an_update_on_a_real_server_is_the_one_here_and_a_wrong_one_is_told_apart() {
    let Some(environment) = environment() else { return };
    let _alone = ALONE.lock();
    let scratch = scratch();
    let server = Served::start(HEALTH, &scratch.path("server.log"), command(&environment, &scratch));
    let apart = |loss: &LossConfig, change: &dyn Fn(usize, &mut f64)| {
        let read = |path: &str| adapter(&scratch, path);
        updates::apart(&server.url, &read, loss, change)
    };
    // The last is the server's own loss.
    for loss in [with_kl("ppo_clip"), with_kl("gspo"), with_kl("opd"), LossConfig::default()] {
        let apart = apart(&loss, &|_, _| {});
        println!("{}, KL {}: {apart:.1e}", loss.objective, loss.beta);
        assert!(apart < 1e-2, "{}, KL {}: {apart}", loss.objective, loss.beta);
    }
    let loss = with_kl("ppo_clip");
    let doubled = apart(&loss, &|_, derivative| *derivative *= 2.0);
    assert!((0.9..1.1).contains(&doubled), "{doubled}");
    let by_sequence = apart(&loss, &|at, derivative| *derivative *= [1.2, 0.9, 1.1, 0.8][at]);
    assert!(by_sequence > 0.02, "{by_sequence}");
}

#[test]
fn a_run_is_trained_by_a_real_server_that_ends_and_comes_back() {
    let Some(environment) = environment() else { return };
    let _alone = ALONE.lock();
    let scratch = scratch();
    let start = command(&environment, &scratch);
    let server = Served::start(HEALTH, &scratch.path("server.log"), &start);
    let trainer = format!("trainer={{kind=\"tinker\",url=\"{}\",rank=4}}", server.url);
    let more = [
        "train.max_steps=3",
        "train.epochs=1",
        "optimizer.max_grad_norm=0",
        "policy.path=base",
        "eval.tasks=0",
    ];
    let run = [&["train", "grpo.toml", &trainer][..], &more].concat();
    let mut program = scratch.command(&run).stdout(Stdio::null()).spawn().unwrap();
    // After its first step.
    let metrics = scratch.path("grpo/metrics.jsonl");
    let is_begun =
        || std::fs::read_to_string(&metrics).is_ok_and(|rows| rows.contains("\"event\":\"train\""));
    while !is_begun() {
        assert!(program.try_wait().unwrap().is_none(), "the run has ended before its first step was done");
        std::thread::sleep(Duration::from_millis(50));
    }
    let _server = server.start_again(HEALTH, &start);
    assert!(program.wait().unwrap().success());
    let rows = String::from_utf8(scratch.read("grpo/metrics.jsonl")).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<&Value> = rows.iter().filter(|row| row["event"] == "train").collect();
    assert_eq!(steps.len(), 3);
    for step in steps {
        assert_eq!((&step["episodes"], &step["episodes/unscored"]), (&16.0.into(), &0.0.into()), "{step}");
        assert!(step["sampling/sampling_logp_difference/max"].as_f64().unwrap() < 1e-3, "{step}");
    }
}
