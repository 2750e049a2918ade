//! Whole runs on a GPU, compared with the CPU. The GPU is emulated: a C++ compiler compiles the kernels, and the
//! driver's functions, for the CPU.

use crate::common;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use crate::common::{Files, Scratch};
use serde_json::{Value, json};

/// A folder with the emulated libraries, for the heads of the tiny policy, which are made once. `None`, with a printed
/// reason, if there are none.
fn emulation() -> Option<tempfile::TempDir> {
    static MADE: OnceLock<Files> = OnceLock::new();
    if !cfg!(target_os = "linux") || Command::new("g++").arg("--version").output().is_err() {
        println!("skipped: no emulated GPU: no C++ compiler (g++) on this machine");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let made = MADE.get_or_init(|| {
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../burnish-tensor/src/cuda/emulate/build.sh");
        let first = tempfile::tempdir().unwrap();
        let output =
            Command::new("bash").arg(script).arg(first.path()).args(["16:64", "16:64:64"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Files::of(first.path())
    });
    made.write(folder.path());
    Some(folder)
}

/// The metrics of the steps of a run.
fn metrics(scratch: &Scratch, dir: &str) -> Vec<Value> {
    let text = String::from_utf8(scratch.read(&format!("{dir}/metrics.jsonl"))).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["event"] == "train").collect()
}

/// The metrics that are compared in every step.
const NAMES: [&str; 5] = ["num_tokens", "loss", "grad_norm", "entropy", "reward"];

/// Two steps of the tiny recipe on both devices, in `cpu` and `cud`: [`compare_in`].
fn compare(libraries: &Path, overrides: &[&str], tolerance: f64) -> Scratch {
    let scratch = Scratch::with_policy();
    let overrides = [&["train.max_steps=2"], overrides].concat();
    compare_in(&scratch, libraries, "", &overrides, &[&NAMES[..], &["kl"]].concat(), tolerance);
    scratch
}

/// Settings of the tiny recipe for steps of four answers, two updates each. Their rewards differ by their lengths.
const SMALL: [&str; 6] = [
    "eval.tasks=0",
    "rollout.tasks_per_step=2",
    "rollout.group_size=2",
    "train.epochs=1",
    "env.tasks=8",
    "reward.overlong_buffer.length=40",
];

/// Runs the tiny recipe on both devices, with small steps, in `{dir}cpu` and `{dir}cud`, and compares these metrics.
fn compare_in(
    scratch: &Scratch,
    libraries: &Path,
    dir: &str,
    overrides: &[&str],
    names: &[&str],
    tolerance: f64,
) {
    let run = |device: &str| {
        let (dir, device) = (format!("run.dir={dir}{}", &device[..3]), format!("device={device}"));
        let fixed = ["train", "grpo.toml", &dir, &device, "checkpoint.every=1"];
        let mut command = scratch.command(&[&fixed[..], &SMALL, overrides].concat());
        let output = command.env("LD_LIBRARY_PATH", libraries).env("HOME", libraries).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{overrides:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned() + &said
    };
    run("cpu");
    let said = run("cuda:0");
    assert!(said.contains("computing on "), "{said}");
    let is_f32 = !overrides.contains(&"policy.precision=bf16");
    assert_eq!(said.contains("without its tensor cores"), is_f32, "{said}");
    let is_auto = !overrides.contains(&"train.activation_checkpointing=true");
    assert_eq!(said.contains("activation checkpointing is off"), is_auto, "{said}");
    let (cpu, gpu) = (metrics(scratch, &format!("{dir}cpu")), metrics(scratch, &format!("{dir}cud")));
    assert!(cpu.len() == gpu.len() && !cpu.is_empty(), "{} and {} steps", cpu.len(), gpu.len());
    for (step, (cpu, gpu)) in cpu.iter().zip(&gpu).enumerate() {
        for name in names {
            let [cpu, gpu] = [cpu, gpu].map(|row| row[*name].as_f64().unwrap_or(f64::NAN));
            let close = (cpu - gpu).abs() <= tolerance * (1.0 + cpu.abs());
            assert!(close, "{dir} step {step}, {name}: {cpu} on the CPU, {gpu} on the GPU");
        }
        assert!(gpu["grad_norm"].as_f64().unwrap() > 1e-2, "nothing to learn from: {gpu}");
        let drift = gpu["sampling/sampling_logp_difference/max"].as_f64().unwrap();
        assert!(drift < tolerance, "sampler and trainer differ by {drift}");
    }
}

#[test]
fn a_model_of_masks_learns_and_answers_on_the_gpu_as_on_the_cpu() {
    let Some(libraries) = emulation() else { return };
    let scratch = Scratch::new();
    scratch.write("sft.toml", common::TINY_SFT);
    for device in ["cpu", "cuda:0"] {
        let (dir, device) = (format!("run.dir={}", &device[..3]), format!("device={device}"));
        let short = ["train.max_steps=3", "train.sequences_per_step=6", "eval.tasks=2"];
        let masked = ["eval.denoising_steps=3", "policy.new.masked=true"];
        let mut command =
            scratch.command(&[&["sft", "sft.toml", &dir, &device][..], &short, &masked].concat());
        let output =
            command.env("LD_LIBRARY_PATH", libraries.path()).env("HOME", libraries.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let [cpu, gpu] = ["cpu", "cud"].map(|dir| {
        let rows = common::timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
        rows.into_iter().filter(|row| row.contains("eval/completions/mean_length")).collect::<Vec<_>>()
    });
    assert!(cpu == gpu && cpu.len() == 2, "answers: {cpu:?} on the CPU, {gpu:?} on the GPU");
    let (cpu, gpu) = (metrics(&scratch, "cpu"), metrics(&scratch, "cud"));
    assert_eq!((cpu.len(), gpu.len()), (3, 3));
    for (cpu, gpu) in cpu.iter().zip(&gpu) {
        for name in ["loss", "grad_norm", "entropy", "masked"] {
            let [cpu, gpu] = [cpu, gpu].map(|row| row[name].as_f64().unwrap());
            assert!(
                (cpu - gpu).abs() <= 1e-3 * (1.0 + cpu.abs()),
                "{name}: {cpu} on the CPU, {gpu} on the GPU"
            );
        }
    }
}

#[test]
fn latent_steps_are_read_and_learned_on_the_gpu_as_on_the_cpu() {
    let Some(libraries) = emulation() else { return };
    let scratch = Scratch::new();
    scratch.write("sft.toml", common::LATENT_SFT);
    scratch.write("grpo.toml", common::LATENT_GRPO);
    let run = |arguments: &[&str]| {
        let mut command = scratch.command(arguments);
        let output =
            command.env("LD_LIBRARY_PATH", libraries.path()).env("HOME", libraries.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let both = |name: &str, names: &[&str]| {
        let (cpu, gpu) =
            (metrics(&scratch, &format!("{name}-cpu")), metrics(&scratch, &format!("{name}-cud")));
        assert!(cpu.len() == gpu.len() && cpu.len() > 1, "{name}: {} and {}", cpu.len(), gpu.len());
        for (cpu, gpu) in cpu.iter().zip(&gpu) {
            for name in names {
                let [cpu, gpu] = [cpu, gpu].map(|row| row[*name].as_f64().unwrap());
                let close = (cpu - gpu).abs() <= 1e-3 * (1.0 + cpu.abs());
                assert!(close, "{name}: {cpu} on the CPU, {gpu} on the GPU");
            }
        }
    };
    run(&["sft", "sft.toml"]);
    for device in ["cpu", "cuda:0"] {
        let (short, set) = (&device[..3], format!("device={device}"));
        let last = ["latent.stages=[1, 2]", "train.max_steps=2", "eval.tasks=1"];
        run(&[&["sft", "sft.toml", &format!("run.dir=sft-{short}"), &set][..], &last].concat());
        for gradient in ["frozen", "bptt"] {
            let (dir, gradient) =
                (format!("run.dir={gradient}-{short}"), format!("latent.gradient={gradient}"));
            let small = ["train.max_steps=2", "rollout.tasks_per_step=2", "eval.tasks=1"];
            run(&[&["train", "grpo.toml", &dir, &gradient, &set][..], &small].concat());
        }
    }
    both("sft", &["loss", "grad_norm", "entropy"]);
    for gradient in ["frozen", "bptt"] {
        both(
            gradient,
            &["loss", "grad_norm", "reward", "latent/steps", "sampling/sampling_logp_difference/max"],
        );
    }
}

/// Resumes the GPU run in `cud` without its second checkpoint, which is then made again with the same bits, although its
/// layers are computed again.
fn resume_and_compare(scratch: &Scratch, libraries: &Path, parts: &[&str]) {
    let of = |part: &&str| masters(scratch, &format!("cud/checkpoints/step_2{part}"));
    let before: Vec<Vec<f32>> = parts.iter().map(of).collect();
    std::fs::remove_dir_all(scratch.path("cud/checkpoints/step_2")).unwrap();
    let again = "train.activation_checkpointing=selective";
    let mut command = scratch.command(&["train", "--resume", "cud", again]);
    let output = command.env("LD_LIBRARY_PATH", libraries).env("HOME", libraries).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(parts.iter().map(of).eq(before), "the resumed run differs");
}

/// The master weights in `trainer/trainer.safetensors` of a checkpoint.
fn masters(scratch: &Scratch, checkpoint: &str) -> Vec<f32> {
    let file = scratch.read(&format!("{checkpoint}/trainer/trainer.safetensors"));
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    let mut names: Vec<&str> =
        tensors.names().into_iter().filter(|name| name.starts_with("master.")).collect();
    names.sort_unstable();
    let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
    names.iter().flat_map(|name| tensors.tensor(name).unwrap().data().chunks_exact(4).map(number)).collect()
}

#[test]
fn a_run_on_the_gpu_is_that_of_the_cpu() {
    let Some(libraries) = emulation() else { return };
    let scratch = compare(libraries.path(), &[], 1e-3);
    // The checkpoint has what the GPU learnt: its weights equal the CPU's, not those before training.
    let [gpu, cpu, before] =
        ["cud/checkpoints/step_2", "cpu/checkpoints/step_2", "tiny/checkpoints/step_120"]
            .map(|checkpoint| masters(&scratch, checkpoint));
    let distance = |a: &[f32], b: &[f32]| -> f64 {
        assert_eq!(a.len(), b.len());
        a.iter().zip(b).map(|(a, b)| f64::from((a - b).abs())).sum()
    };
    let (apart, moved) = (distance(&gpu, &cpu), distance(&gpu, &before));
    assert!(apart < 0.1 * moved && moved > 0.0, "{apart} from the CPU's, {moved} from those before");
    resume_and_compare(&scratch, libraries.path(), &[""]);
}

#[test]
fn without_graphs_a_run_has_the_same_bits_and_says_why_it_is_slower_once() {
    let Some(libraries) = emulation() else { return };
    let scratch = Scratch::with_policy();
    let run = |dir: &str, environment: &[(&str, &str)]| {
        let dir = format!("run.dir={dir}");
        let fixed = ["train", "grpo.toml", &dir, "device=cuda:0", "checkpoint.every=1", "train.max_steps=2"];
        let mut command = scratch.command(&[&fixed[..], &SMALL].concat());
        let command = command.env("LD_LIBRARY_PATH", libraries.path()).env("HOME", libraries.path());
        let output = command.envs(environment.iter().copied()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &said;
        said.matches("launches its kernels one by one").count()
    };
    assert_eq!(run("with", &[]), 0);
    assert_eq!(run("without", &[("EMULATED_WITHOUT_GRAPHS", "1")]), 1);
    let [with, without, before] =
        ["with/checkpoints/step_2", "without/checkpoints/step_2", "tiny/checkpoints/step_120"]
            .map(|checkpoint| masters(&scratch, checkpoint));
    assert!(with == without && with != before, "other bits, or nothing learnt");
}

#[test]
fn a_hybrid_on_the_gpu_is_that_of_the_cpu() {
    let Some(libraries) = emulation() else { return };
    for rule in [None, Some("fg2_gdn_plus")] {
        let scratch = Scratch::with_hybrid(rule);
        let names = [&NAMES[..], &["kl"]].concat();
        compare_in(&scratch, libraries.path(), "", &["train.max_steps=2"], &names, 1e-3);
        resume_and_compare(&scratch, libraries.path(), &[""]);
    }
}

#[test]
fn a_model_on_the_gpu_is_not_looked_into() {
    let Some(libraries) = emulation() else { return };
    let scratch = Scratch::with_policy();
    for words in [&["eval", "tiny", "eval.contrast={dola={}}"][..], &["probe", "tiny"]] {
        let mut command = scratch.command(&[words, &["device=cuda:0"]].concat());
        let output =
            command.env("LD_LIBRARY_PATH", libraries.path()).env("HOME", libraries.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("CPU"), "{words:?}: {said}");
    }
}

#[test]
fn an_adapter_is_trained_in_bf16_with_checkpointing() {
    let Some(libraries) = emulation() else { return };
    let overrides =
        ["policy.precision=bf16", "policy.lora={rank=2, alpha=4}", "train.activation_checkpointing=true"];
    compare(libraries.path(), &overrides, 0.2);
}

#[test]
fn moments_in_8_bits_are_those_of_the_cpu_and_resumed() {
    let Some(libraries) = emulation() else { return };
    let scratch = compare(libraries.path(), &["optimizer.moments=8bit"], 1e-3);
    resume_and_compare(&scratch, libraries.path(), &[""]);
}

#[test]
fn a_benchmark_is_played_as_on_the_cpu() {
    let Some(libraries) = emulation() else { return };
    let scratch = Scratch::with_policy();
    let item = |n: usize| json!({"question": format!("{n} + {n} ="), "answer": format!("#### {}", 2 * n)});
    scratch.write("sums.jsonl", (0..3).map(|n| format!("{}\n", item(n))).collect::<String>());
    let sampling = r#"{"do_sample": true, "temperature": 0.9, "top_k": 20, "top_p": 0.9}"#;
    std::fs::rename(scratch.path("tiny/checkpoints/step_120"), scratch.path("model")).unwrap();
    scratch.write("model/generation_config.json", sampling);
    let eval = |out: &str, more: &str| {
        let fixed = "eval gsm8k --data sums.jsonl --policy model --samples 2 --tokens-max 12 --batch 4";
        let arguments: Vec<&str> = fixed.split(' ').chain(["--out", out]).chain(more.split(' ')).collect();
        let mut command = scratch.command(&arguments);
        command.env("LD_LIBRARY_PATH", libraries.path()).env("HOME", libraries.path()).output().unwrap()
    };
    for (name, sampling) in [("plain", "--temperature 0.9"), ("filtered", "--sampling model")] {
        let [cpu, gpu] = ["cpu", "cuda:0"].map(|device| {
            let out = format!("{name}_{}", &device[..3]);
            let output = eval(&out, &format!("{sampling} --device {device}"));
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(scratch.read(&format!("{out}/items.jsonl"))).unwrap()
        });
        assert_eq!(cpu, gpu);
    }
    // Records of one device can't be continued on another.
    let output = eval("plain_cud", "--temperature 0.9");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("device"), "{said}");
    let output = eval("bf16", "--temperature 0.9 --device cuda:0 --precision bf16 --limit 1");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let settings: Value = serde_json::from_slice(&scratch.read("bf16/eval.json")).unwrap();
    assert_eq!((&settings["policy"]["precision"], &settings["device"]), (&json!("bf16"), &json!("cuda:0")));
}

#[test]
fn every_setting_chooses_tokens_on_the_gpu_as_on_the_cpu() {
    let Some(libraries) = emulation() else { return };
    let scratch = Scratch::with_policy();
    std::fs::rename(scratch.path("tiny/checkpoints/step_120"), scratch.path("model")).unwrap();
    scratch.write("prompts.jsonl", "{\"prompt\": \"left or right\"}\n{\"prompt\": \"agents\"}\n");
    let answers = |settings: &str, device: &str| -> Vec<Value> {
        let fixed = "generate model --file prompts.jsonl --max-tokens 16 --seed 3 --json";
        let more = format!("{settings} --device {device}");
        let arguments: Vec<&str> = fixed.split(' ').chain(more.split(' ')).collect();
        let mut command = scratch.command(&arguments);
        command.env("LD_LIBRARY_PATH", libraries.path()).env("HOME", libraries.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{settings}: {}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8_lossy(&output.stdout);
        let mut answers: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        answers.sort_by_key(|answer| (answer["index"].as_u64(), answer["sample"].as_u64()));
        answers
    };
    let warm = "--temperature 1.4 --ignore-eos --samples 2 --logprobs";
    let settings = [
        format!("{warm} 0"),
        format!("{warm} 3 --top-k 4"),
        format!("{warm} 3 --top-p 0.8"),
        format!("{warm} 3 --min-p 0.1"),
        format!("{warm} 3 --repetition-penalty 1.5"),
        format!("{warm} 20 --presence-penalty 0.7 --frequency-penalty 0.3 --top-k 30 --top-p 0.9 --min-p 0.01"),
        "--temperature 1.4 --min-tokens 9 --samples 2 --logprobs 2 --top-p 0.95".to_owned(),
        "--temperature 1 --samples 2 --regex [ab]{3}(left|right)+ --logprobs 2 --top-k 9 --repetition-penalty 1.1".to_owned(),
        "--temperature 0 --frequency-penalty 1.5 --logprobs 5 --ignore-eos".to_owned(),
    ];
    let mut all = std::collections::BTreeSet::new();
    for settings in &settings {
        let [cpu, gpu] = ["cpu", "cuda:0"].map(|device| answers(settings, device));
        assert!(cpu.len() == gpu.len() && cpu.len() >= 2, "{} and {}", cpu.len(), gpu.len());
        for (cpu, gpu) in cpu.iter().zip(&gpu) {
            same(settings, cpu, gpu);
            all.insert(cpu["token_ids"].to_string());
        }
    }
    assert!(all.len() > 20, "settings make no difference: {}", all.len());

    // Controls that put and forbid tokens and ask probes; with `least`, one of them reads logits.
    for (name, least) in [("blind", ""), ("reading", ", least=6")] {
        let [cpu, gpu] = ["cpu", "cuda:0"].map(|device| -> Vec<Value> {
            let (out, on) = (format!("{name}-{}", &device[..3]), format!("device={device}"));
            let thoughts = format!(
                "eval.thoughts={{controls=[{{forced={{text=\"zq\"}}}}, {{budget={{most=9{least}}}}}, {{shifted={{by=2.0, words=[\"1\"]}}}}, \
                 {{certainty={{threshold=0.0, delimiter=\"1\", tokens=3, words=[\"0\"]}}}}]}}"
            );
            let fixed = ["eval", "grpo.toml", "--policy", "model", "policy.path=model", "--out", &out, &on, &thoughts];
            let small = ["eval.tasks=2", "eval.temperature=1.2", "rollout.tokens_max=30"];
            let mut command = scratch.command(&[&fixed[..], &small].concat());
            command.env("LD_LIBRARY_PATH", libraries.path()).env("HOME", libraries.path());
            let output = command.output().unwrap();
            assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
            let items = String::from_utf8(scratch.read(&format!("{out}/items.jsonl"))).unwrap();
            items.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        });
        same(name, &json!(cpu), &json!(gpu));
        // What no policy would say by itself.
        assert_eq!(json!(gpu).to_string().matches("<think>zq").count(), 2, "{gpu:?}");
    }
}

/// The same values, numbers but for rounding.
fn same(what: &str, cpu: &Value, gpu: &Value) {
    match (cpu, gpu) {
        (Value::Array(cpu), Value::Array(gpu)) if cpu.len() == gpu.len() => {
            cpu.iter().zip(gpu).for_each(|(cpu, gpu)| same(what, cpu, gpu));
        }
        (Value::Object(cpu), Value::Object(gpu)) if cpu.len() == gpu.len() => {
            cpu.iter().for_each(|(key, cpu)| same(what, cpu, &gpu[key]));
        }
        (Value::Number(cpu), Value::Number(gpu)) if cpu.is_f64() => {
            let [cpu, gpu] = [cpu, gpu].map(|number| number.as_f64().unwrap());
            assert!(
                (cpu - gpu).abs() < 1e-3 * (1.0 + cpu.abs()),
                "{what}: {cpu} on the CPU, {gpu} on the GPU"
            );
        }
        _ => assert_eq!(cpu, gpu, "{what}"),
    }
}

#[test]
fn a_critic_and_a_gate_on_the_gpu_are_those_of_the_cpu() {
    let Some(libraries) = emulation() else { return };
    let scratch = Scratch::with_policy();
    let overrides = [
        "train.max_steps=2",
        "advantage={estimator=\"gae\", config={lambda=0.95}}",
        "critic={learning_rate=1e-3}",
        "optimizer.warmup_updates=0",
        "gate={gate=\"dgg\", config={tau=0.5, warmup=0}}",
        "train.minibatches=1",
    ];
    let own = ["critic/vf_loss", "critic/vpred_mean", "critic/grad_norm", "head_grad_norm"];
    compare_in(&scratch, libraries.path(), "", &overrides, &[&NAMES[..], &own].concat(), 1e-3);
    let rows = metrics(&scratch, "cud");
    assert!(rows[1]["critic/vpred_mean"].as_f64().unwrap() != 0.0, "the critic learns: {}", rows[1]);
    assert!(rows[1]["head_grad_norm"].as_f64().unwrap() > 0.0, "{}", rows[1]);
    resume_and_compare(&scratch, libraries.path(), &["", "/value_model"]);
}

#[test]
fn distributions_on_the_gpu_are_compared_and_squared_as_on_the_cpu() {
    let Some(libraries) = emulation() else { return };
    let scratch = Scratch::with_policy();
    let gkd = |config: &str| format!("loss={{objective=\"gkd\", config={{{config}}}}}");
    // Soft labels; a function of whole rows together with some of the teacher's tokens, and together with all of
    // them, of a head with an adapter.
    for (dir, loss, more) in [
        ("labels-", gkd("beta=0.0, rest=\"ignore\", top=6"), "train.micro_batch_tokens=128"),
        ("sparse-", gkd("beta=0.5, top=6"), "train.epochs=1"),
        (
            "dense-",
            gkd("beta=1.0"),
            "policy.lora={rank=2, alpha=4, target_modules=[\"lm_head\", \"q_proj\"]}",
        ),
    ] {
        let overrides = [
            "train.max_steps=1",
            "rollout.tasks_per_step=1",
            "teacher.context=demonstration",
            "loss.beta=0",
            "train.minibatches=1",
            &loss,
            more,
        ];
        compare_in(&scratch, libraries.path(), dir, &overrides, &[&NAMES[..], &["head_loss"]].concat(), 1e-3);
    }
    let overrides = [
        "train.max_steps=1",
        "rollout.tasks_per_step=1",
        "rollout.group_size=4",
        "advantage={estimator=\"optimal_token_baseline\"}",
    ];
    compare_in(&scratch, libraries.path(), "baseline-", &overrides, &NAMES, 1e-3);
}

#[test]
fn a_missing_gpu_is_an_error_that_says_what_to_do() {
    let Some(libraries) = emulation() else { return };
    let scratch = Scratch::with_policy();
    let mut command = scratch.command(&["train", "grpo.toml", "device=cuda:7"]);
    let output = command.env("LD_LIBRARY_PATH", libraries.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("there is no GPU cuda:7"), "{said}");
}
