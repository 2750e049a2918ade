//! Adapters: the results of PEFT, recomputed here; trained, written and read again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use burnish_model::{Loading, LoraConfig, Model, Packed, Targets, Trains};
use burnish_tensor::{Layout, Precision, Tape};
use serde::{Deserialize, Serialize};
use serde_json::Value;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[derive(Serialize, Deserialize)]
struct Expected {
    prompts: Vec<Vec<u32>>,
    logits: Vec<Vec<f32>>,
    #[serde(default)]
    merged: Vec<Vec<f32>>,
}

fn expected(name: &str) -> Expected {
    serde_json::from_str(&fs::read_to_string(golden(name).join("expected.json")).unwrap()).unwrap()
}

fn logits(model: &Model, prompts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    let of = |prompt: &Vec<u32>| {
        let positions: Arc<[u32]> = (0..prompt.len() as u32).collect();
        let mut mixer =
            Packed { layout: Arc::new(Layout::causal(&[prompt.len()])), shape: model.head_shape() };
        let mut tape = Tape::inference(&model.params);
        let hidden = model.forward(&mut tape, prompt, &positions, &mut mixer);
        model.logits(&mut tape, &hidden).data().to_vec()
    };
    prompts.iter().map(of).collect()
}

fn assert_logits(model: &Model, prompts: &[Vec<u32>], expected: &[Vec<f32>], tolerance: f32) {
    for (ours, theirs) in logits(model, prompts).iter().zip(expected) {
        assert_eq!(ours.len(), theirs.len());
        let worst = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < tolerance, "logits differ by {worst}");
    }
}

fn sampling_from(precision: Precision) -> Loading {
    Loading { precision, trains: Trains::Nothing, ..Loading::default() }
}

fn lora(rank: usize, targets: Targets) -> LoraConfig {
    LoraConfig { rank, alpha: 8.0, dropout: 0.0, rslora: false, target_modules: targets }
}

/// The base with a new adapter whose `B` is no longer 0.
fn moved_adapter(config: &LoraConfig) -> Model {
    let loading = Loading { trains: Trains::Adapter(config.clone(), 3), ..Loading::default() };
    let mut model = Model::load_as(&golden("qwen3"), &loading).unwrap();
    for (at, value) in model.params.data_mut().iter_mut().enumerate() {
        *value += 0.1 * ((at * 7 % 11) as f32 / 11.0 - 0.5);
    }
    model
}

#[test]
fn adapters_of_peft_compute_what_peft_computes() {
    for name in ["qwen3-lora", "qwen3-rslora", "qwen3-lora-head"] {
        let expected = expected(name);
        let model = Model::load_as(&golden(name), &sampling_from(Precision::F32)).unwrap();
        assert_logits(&model, &expected.prompts, &expected.logits, 2e-5);
        let model = Model::load_as(&golden(name), &sampling_from(Precision::Bf16)).unwrap();
        assert_logits(&model, &expected.prompts, &expected.logits, 0.3);
    }
}

#[test]
fn a_merged_directory_computes_what_peft_merges() {
    for name in ["qwen3-lora", "qwen3-rslora"] {
        let expected = expected(name);
        let dir = tempfile::tempdir().unwrap();
        Model::load_as(&golden(name), &sampling_from(Precision::F32))
            .unwrap()
            .save_merged(dir.path())
            .unwrap();
        assert_logits(&Model::load(dir.path()).unwrap(), &expected.prompts, &expected.merged, 2e-5);
    }
    let head = Model::load_as(&golden("qwen3-lora-head"), &sampling_from(Precision::F32)).unwrap();
    let error = head.save_merged(tempfile::tempdir().unwrap().path()).unwrap_err().to_string();
    assert!(error.contains("tie_word_embeddings"), "{error}");
}

#[test]
fn a_new_adapter_computes_its_base_and_the_same_seed_gives_the_same() {
    let base = Model::load(&golden("qwen3")).unwrap();
    let prompts = expected("qwen3-lora").prompts;
    let adapted = |seed| {
        let loading =
            Loading { trains: Trains::Adapter(lora(4, Targets::default()), seed), ..Loading::default() };
        Model::load_as(&golden("qwen3"), &loading).unwrap()
    };
    let model = adapted(1);
    assert!(model.is_adapted() && model.params.data().iter().any(|value| *value != 0.0));
    assert_eq!(logits(&model, &prompts), logits(&base, &prompts));
    assert_eq!(adapted(1).params.data(), model.params.data());
    assert_ne!(adapted(2).params.data(), model.params.data());
    // Two factors of rank 4 for each of the seven maps of two layers; nothing else is trained.
    let entries: usize = model.params.trained_entries().count();
    assert_eq!(entries, 2 * 7 * 2);
}

#[test]
fn an_adapter_is_saved_and_read_back_over_its_base() {
    let ends = Targets::Names(vec!["o_proj".into(), "k_proj".into()]);
    let config = LoraConfig { dropout: 0.1, rslora: true, ..lora(3, ends) };
    let model = moved_adapter(&config);
    let prompts = expected("qwen3-lora").prompts;
    let dir = tempfile::tempdir().unwrap();
    model.save(dir.path()).unwrap();
    assert!(!dir.path().join("model.safetensors").exists(), "the base is not copied");
    for trains in [Trains::Nothing, Trains::Adapter(config.clone(), 9)] {
        let again = Model::load_as(dir.path(), &Loading { trains, ..Loading::default() }).unwrap();
        assert_eq!(again.params.data(), model.params.data());
        assert_eq!(logits(&again, &prompts), logits(&model, &prompts));
    }
    let reordered = Targets::Names(vec!["k_proj".into(), "o_proj".into()]);
    let trains = Trains::Adapter(LoraConfig { target_modules: reordered, ..config.clone() }, 9);
    assert!(Model::load_as(dir.path(), &Loading { trains, ..Loading::default() }).is_ok());
    let whole = Model::load(dir.path()).unwrap_err().to_string();
    assert!(whole.contains("burnish merge"), "{whole}");
    let other = Trains::Adapter(LoraConfig { rank: 5, ..config }, 9);
    let error = Model::load_as(dir.path(), &Loading { trains: other, ..Loading::default() }).unwrap_err();
    assert!(error.to_string().contains("its adapter has rank 3, not 5"), "{error}");
}

#[test]
fn an_adapter_that_does_not_say_what_it_adapts_adapts_what_it_has_weights_of() {
    let dir = tempfile::tempdir().unwrap();
    let model = moved_adapter(&lora(3, Targets::Pattern(r"model\.layers\.0\.self_attn\.[qo]_proj".into())));
    model.save(dir.path()).unwrap();
    let settings = dir.path().join("adapter_config.json");
    let said: Value = serde_json::from_slice(&fs::read(&settings).unwrap()).unwrap();
    let mut null = said.clone();
    null["target_modules"] = Value::Null;
    let mut absent = said;
    absent.as_object_mut().unwrap().remove("target_modules");
    let prompts = expected("qwen3-lora").prompts;
    for silent in [null, absent] {
        fs::write(&settings, silent.to_string()).unwrap();
        let again = Model::load_as(dir.path(), &sampling_from(Precision::F32)).unwrap();
        assert_eq!(logits(&again, &prompts), logits(&model, &prompts));
    }
}

#[test]
fn damaged_adapters_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let model = moved_adapter(&lora(3, Targets::Names(vec!["q_proj".into()])));
    model.save(dir.path()).unwrap();
    let error = |dir: &Path| Model::load_as(dir, &sampling_from(Precision::F32)).unwrap_err().to_string();
    let weights = dir.path().join("adapter_model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    assert!(error(dir.path()).contains("adapter_model.safetensors: truncated"));
    fs::write(&weights, &bytes).unwrap();

    let settings = dir.path().join("adapter_config.json");
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, text.replace("\"r\": 3", "\"r\": 4")).unwrap();
    assert!(error(dir.path()).contains("q_proj.lora_A.weight"), "{}", error(dir.path()));
    fs::write(&settings, text.replace("\"q_proj\"", "\"q_proj\", \"v_proj\"")).unwrap();
    assert!(error(dir.path()).contains("v_proj.lora_A.weight"), "{}", error(dir.path()));
    fs::write(&settings, text.replace("golden/qwen3", "golden/qwen9")).unwrap();
    assert!(error(dir.path()).contains("base_model_name_or_path"), "{}", error(dir.path()));
    fs::remove_file(&weights).unwrap();
    fs::write(&settings, text).unwrap();
    assert!(error(dir.path()).contains("cannot read"));
}

#[test]
fn peft_loads_what_was_saved_and_computes_the_same() {
    let Ok(python) = std::env::var("BURNISH_PYTHON") else {
        println!("skipped: BURNISH_PYTHON names no python with peft");
        return;
    };
    let ends = |ends: &[&str]| Targets::Names(ends.iter().map(|end| end.to_string()).collect());
    for config in [
        lora(3, Targets::default()),
        LoraConfig { rslora: true, dropout: 0.2, ..lora(5, ends(&["q_proj", "mlp.down_proj"])) },
        lora(2, Targets::Pattern(r"model\.layers\.0\..*_proj".into())),
        lora(2, ends(&["lm_head", "v_proj"])),
    ] {
        let model = moved_adapter(&config);
        let dir = tempfile::tempdir().unwrap();
        model.save(dir.path()).unwrap();
        let prompts = expected("qwen3-lora").prompts;
        let ours = Expected { logits: logits(&model, &prompts), prompts, merged: Vec::new() };
        let file = dir.path().join("ours.json");
        fs::write(&file, serde_json::to_string(&ours).unwrap()).unwrap();
        let script = golden("check_adapter.py");
        let mut command = Command::new(&python);
        let output =
            command.env("HF_HUB_OFFLINE", "1").arg(script).arg(dir.path()).arg(file).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{config:?}: {stderr}");
        println!("{}", String::from_utf8_lossy(&output.stdout).trim());
    }
}
