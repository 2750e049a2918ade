//! Adapters end to end: trained, stopped and resumed, evaluated, merged.

use crate::common::{Scratch, timeless_metrics};

const LORA: &str = "policy.lora={rank=4,alpha=8,target_modules=[\"q_proj\",\"v_proj\",\"down_proj\"]}";

#[test]
fn a_run_on_an_adapter_resumes_evaluates_and_merges() {
    let scratch = Scratch::with_policy();
    for precision in ["f32", "bf16"] {
        let train = |dir: &str, more: &str| {
            let dir = format!("run.dir={dir}");
            let precision = format!("policy.precision={precision}");
            let fixed = ["train", "grpo.toml", LORA, "loss.beta=0.01", "train.activation_checkpointing=true"];
            let arguments: Vec<&str> = fixed.into_iter().chain([&*dir, &*precision, more]).collect();
            scratch.burnish(&arguments).succeeds();
        };
        let (whole, part) = (format!("whole_{precision}"), format!("part_{precision}"));
        train(&whole, "checkpoint.every=3");
        // The checkpoint of step 3 as if the run had been killed right after it.
        train(&part, "checkpoint.every=3");
        std::fs::remove_dir_all(scratch.path(&format!("{part}/checkpoints/step_6"))).unwrap();
        scratch.burnish(&["train", "--resume", &part]).succeeds();
        for file in ["adapter_model.safetensors", "trainer/trainer.safetensors"] {
            let of = |dir: &str| scratch.read(&format!("{dir}/checkpoints/step_6/{file}"));
            assert!(of(&whole) == of(&part), "{file} differs");
        }
        let metrics = |dir: &str| timeless_metrics(&scratch.path(&format!("{dir}/metrics.jsonl")));
        assert_eq!(metrics(&whole), metrics(&part));
        assert!(!scratch.path(&format!("{whole}/checkpoints/step_6/model.safetensors")).exists());

        let evaluated = scratch.burnish(&["eval", &whole, "--json"]).succeeds().stdout();
        let merged = format!("merged_{precision}");
        scratch.burnish(&["merge", &whole, &merged]).succeeds();
        let of_merged = scratch
            .burnish(&["eval", "grpo.toml", &format!("policy.path={merged}"), "--json"])
            .succeeds()
            .stdout();
        // Merged weights are rounded to the type of the base, so the two may differ a little.
        let success =
            |json: &str| serde_json::from_str::<serde_json::Value>(json).unwrap()["success"]["mean"].as_f64();
        let (before, after) = (success(&evaluated).unwrap(), success(&of_merged).unwrap());
        assert!((before - after).abs() <= 0.5, "{before} {after}");
        scratch.burnish(&["merge", &whole, &merged]).fails_with(&["exists already"]);
    }
    scratch.burnish(&["merge", "tiny", "elsewhere"]).fails_with(&["holds no adapter"]);
    assert!(!scratch.path("elsewhere").exists());
}

#[test]
fn settings_of_an_adapter_that_cannot_work_name_their_key() {
    let scratch = Scratch::with_policy();
    for (lora, parts) in [
        ("{rank=0,alpha=8}", ["policy.lora", "`rank`"]),
        ("{rank=2,alpha=8,dropout=0.1}", ["policy.lora.dropout", "must be 0"]),
        ("{rank=2,alpha=8,target_modules=[\"query\"]}", ["\"query\"", "q_proj"]),
    ] {
        let lora = format!("policy.lora={lora}");
        scratch.burnish(&["train", "grpo.toml", "run.dir=x", &lora]).fails_with(&parts);
    }
    assert!(!scratch.path("x").exists(), "nothing half-made is left");
}
