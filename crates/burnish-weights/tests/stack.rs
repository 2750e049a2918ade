//! Models of slices and models with adapters: what is made of them, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;

use burnish_weights::{Float, Sink, inspect};
use common::{CONFIG, Scratch, Tensors, bytes, changed, decoder, fill};
use serde_json::{Value, json};

const STACK: &str = "
merge_method: passthrough
slices:
  - sources: [{model: '@a', layer_range: [0, 2]}]
  - sources: [{model: '@b', layer_range: [1, 2]}]
";
const ADAPTED: &str = "{merge_method: passthrough, models: [{model: '@a+@adapter'}]}";

fn two() -> Scratch {
    let scratch = Scratch::new();
    let a = decoder(1);
    scratch.write("a", &a, Float::F32, CONFIG);
    scratch.write("b", &changed(&a, 2, 0.1), Float::F32, CONFIG);
    scratch
}

fn config(scratch: &Scratch, model: &str) -> Value {
    serde_json::from_slice(&fs::read(scratch.path(model).join("config.json")).unwrap()).unwrap()
}

fn edit(scratch: &Scratch, file: &str, key: &str, value: Value) {
    let path = scratch.path(file);
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    json[key] = value;
    fs::write(path, json.to_string()).unwrap();
}

#[track_caller]
fn fails(scratch: &Scratch, yaml: &str, parts: &[&str]) {
    let before = scratch.count();
    let error = scratch.merge(yaml, "out").map(|_| ()).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "no \"{part}\" in: {error}");
    }
    assert_eq!(scratch.count(), before, "{error}");
}

/// An adapter of rank 2 for one map of `a`.
fn adapter(scratch: &Scratch, map: &str, shapes: [[usize; 2]; 2]) {
    let _ = fs::remove_dir_all(scratch.path("adapter"));
    let factor = |factor: &str, shape: [usize; 2]| {
        (format!("base_model.model.{map}.lora_{factor}.weight"), shape.to_vec())
    };
    let tensors = fill(vec![factor("A", shapes[0]), factor("B", shapes[1])], 5);
    save(scratch, &tensors);
}

fn save(scratch: &Scratch, tensors: &Tensors) {
    let planned: Vec<burnish_weights::Planned> = tensors
        .iter()
        .map(|(name, shape, values)| burnish_weights::Planned {
            name: name.clone(),
            dtype: Float::F32.dtype(),
            shape: shape.clone(),
            bytes: 4 * values.len(),
        })
        .collect();
    let sink =
        Sink::create_as(&scratch.path("adapter"), &planned, u64::MAX, "adapter_model.safetensors").unwrap();
    for (at, (_, _, values)) in tensors.iter().enumerate() {
        sink.write(at, 0, &bytes(values, Float::F32)).unwrap();
    }
    let config = json!({
        "peft_type": "LORA", "r": 2, "lora_alpha": 8, "use_rslora": true, "bias": "none", "modules_to_save": null,
        "base_model_name_or_path": "../a", "rank_pattern": {}, "use_dora": false,
    });
    sink.text("adapter_config.json", &config.to_string()).unwrap();
    sink.finish().unwrap();
}

#[test]
fn layers_are_those_of_their_slices_and_the_rest_of_the_first_and_the_last() {
    let scratch = two();
    for model in ["a", "b"] {
        edit(
            &scratch,
            &format!("{model}/config.json"),
            "layer_types",
            json!([format!("{model}0"), format!("{model}1")]),
        );
    }
    scratch.merge(STACK, "out").unwrap();
    let (a, b, out) = (scratch.bytes("a"), scratch.bytes("b"), scratch.bytes("out"));
    assert_eq!(out.len(), 2 + 3 * 8);
    assert_eq!(out["model.embed_tokens.weight"], a["model.embed_tokens.weight"]);
    assert_eq!(out["lm_head.weight"], b["lm_head.weight"]);
    for (number, (source, own)) in [(&a, 0), (&a, 1), (&b, 1)].into_iter().enumerate() {
        let name = |number: usize| format!("model.layers.{number}.mlp.up_proj.weight");
        assert_eq!(out[&name(number)], source[&name(own)], "layer {number}");
    }
    let made = config(&scratch, "out");
    assert_eq!(made["num_hidden_layers"], 3);
    assert_eq!(made["layer_types"], json!(["a0", "a1", "b1"]));
    let text = STACK.replace("slices", "base_model: '@b'\nslices");
    scratch.merge(&text, "of_b").unwrap();
    assert_eq!(scratch.bytes("of_b"), out, "the base says what else there is, not which tensors");

    edit(&scratch, "b/config.json", "layer_types", Value::Null);
    fails(&scratch, STACK, &["/b: ", "`layer_types`"]);
}

#[test]
fn slices_that_do_not_fit_are_named() {
    let scratch = two();
    for range in ["[1, 3]", "[2, 2]", "[1, 0]"] {
        fails(&scratch, &STACK.replace("[1, 2]", range), &["test.yaml, line 5", range, "has 2 layers", "/b"]);
    }
    fails(&scratch, &STACK.replace("@b", "@none"), &["none: there is no such directory"]);
    let write = |tensors: &Tensors, config: &str| {
        let _ = fs::remove_dir_all(scratch.path("b"));
        scratch.write("b", tensors, Float::F32, config);
    };
    let a = decoder(1);
    write(&a, &CONFIG.replace("llama", "qwen3"));
    fails(&scratch, STACK, &["/b: is a model of type qwen3"]);
    let mut other = a.clone();
    let at = other.iter().position(|(name, ..)| name == "model.layers.1.mlp.up_proj.weight").unwrap();
    other[at] = (other[at].0.clone(), vec![16, 8], vec![0.5; 128]);
    write(&other, CONFIG);
    fails(&scratch, STACK, &["layers.1.mlp.up_proj.weight", "[16, 8]", "[12, 8]", "a/model.safetensors"]);
    let mut larger = a.clone();
    let last = larger.len() - 1;
    larger[last] = ("lm_head.weight".into(), vec![12, 8], vec![0.5; 96]);
    write(&larger, CONFIG);
    fails(&scratch, STACK, &["lm_head.weight", "[12, 8]", "vocabularies"]);
    write(&a, CONFIG);
    for (model, vocab) in [("a", json!({"x": 0, "y": 1})), ("b", json!({"x": 1, "y": 0}))] {
        let text = json!({"model": {"vocab": vocab}}).to_string();
        fs::write(scratch.path(model).join("tokenizer.json"), text).unwrap();
    }
    fails(&scratch, STACK, &["b/tokenizer.json", "vocabularies differ"]);
    write(
        &fill(vec![("vision.blocks.0.w".into(), vec![2]), ("model.layers.1.w".into(), vec![2])], 1),
        CONFIG,
    );
    fails(&scratch, STACK, &["/b: has 2 stacks of layers", "vision.blocks."]);
    write(&a, CONFIG);
    edit(&scratch, "a/config.json", "tie_word_embeddings", json!(true));
    let tied: Tensors = a.iter().filter(|(name, ..)| name != "lm_head.weight").cloned().collect();
    let text = config(&scratch, "a").to_string();
    fs::remove_dir_all(scratch.path("a")).unwrap();
    scratch.write("a", &tied, Float::F32, &text);
    fails(&scratch, STACK, &["/b: has a head of its own", "`base_model`"]);
}

#[test]
fn an_adapter_adds_its_product_wherever_its_base_is_read() {
    let scratch = two();
    let map = "model.layers.1.mlp.down_proj";
    adapter(&scratch, map, [[2, 12], [8, 2]]);
    scratch.merge(ADAPTED, "named").unwrap();
    scratch.merge(&ADAPTED.replace("@a+", ""), "alone").unwrap();
    assert_eq!(scratch.bytes("named"), scratch.bytes("alone"));
    assert!(!scratch.path("named/adapter_config.json").exists());
    let (base, made) = (scratch.values("a"), scratch.values("named"));
    let factors = fill(vec![("A".into(), vec![2, 12]), ("B".into(), vec![8, 2])], 5);
    let (a, b) = (&factors[0].2, &factors[1].2);
    for (name, made) in made {
        for (at, value) in made.iter().enumerate() {
            let (row, col) = (at / 12, at % 12);
            let product = |at: usize| b[2 * row + at] * a[12 * at + col];
            // rsLoRA: 8 / √2.
            let change = if name == format!("{map}.weight") {
                8.0 / 2.0_f32.sqrt() * (product(0) + product(1))
            } else {
                0.0
            };
            assert!((value - base[&name][at] - change).abs() < 1e-4, "{name} {at}");
        }
    }
    let found = inspect(&scratch.path("adapter"), true).unwrap();
    assert_eq!((found.tensors.len(), found.adapter.unwrap().rank), (2, 2));
}

#[test]
fn adapters_that_do_not_fit_are_named() {
    let scratch = two();
    let map = "model.layers.1.mlp.down_proj";
    fails(&scratch, ADAPTED, &["/adapter: is no adapter", "adapter_config.json"]);
    adapter(&scratch, "model.layers.7.mlp.down_proj", [[2, 12], [8, 2]]);
    fails(&scratch, ADAPTED, &["adapts model.layers.7.mlp.down_proj.weight", "/a lacks", "another model"]);
    adapter(&scratch, map, [[2, 8], [8, 2]]);
    fails(&scratch, ADAPTED, &["lora_A.weight has shape [2, 8]", "[8, 12]"]);
    adapter(&scratch, map, [[3, 12], [8, 3]]);
    fails(&scratch, ADAPTED, &["at rank 2"]);
    let _ = fs::remove_dir_all(scratch.path("adapter"));
    save(&scratch, &fill(vec![("base_model.model.lm_head.weight".into(), vec![10, 8])], 1));
    fails(&scratch, ADAPTED, &["lm_head.weight is no factor", "merge_and_unload"]);
    let _ = fs::remove_dir_all(scratch.path("adapter"));
    save(&scratch, &fill(vec![(format!("base_model.model.{map}.lora_A.weight"), vec![2, 12])], 1));
    fails(&scratch, ADAPTED, &["down_proj.weight has only one of lora_A and lora_B"]);
    for (key, value, part) in [
        ("use_dora", json!(true), "`use_dora` is true"),
        ("peft_type", json!("IA3"), "`peft_type` is \"IA3\""),
        ("rank_pattern", json!({"q_proj": 4}), "`rank_pattern`"),
        ("r", json!(0), "`r` must be"),
        ("lora_alpha", Value::Null, "`lora_alpha` must be"),
    ] {
        adapter(&scratch, map, [[2, 12], [8, 2]]);
        edit(&scratch, "adapter/adapter_config.json", key, value);
        fails(&scratch, ADAPTED, &["adapter/adapter_config.json", part]);
    }
    adapter(&scratch, map, [[2, 12], [8, 2]]);
    edit(&scratch, "adapter/adapter_config.json", "base_model_name_or_path", json!("gone"));
    fails(&scratch, &ADAPTED.replace("@a+", ""), &["\"gone\"", "BASE+ADAPTER"]);
    scratch.merge(ADAPTED, "fine").unwrap();
    fails(
        &scratch,
        &ADAPTED.replace("@a+", "@adapter+"),
        &["/adapter: is an adapter itself", "merge it first"],
    );
    fs::remove_file(scratch.path("adapter/adapter_model.safetensors")).unwrap();
    fails(&scratch, ADAPTED, &["adapter_model.safetensors: is missing"]);
}
