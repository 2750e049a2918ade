//! Bad model directories end in an error that names the file, and the key, tensor or token.

use std::fs;
use std::path::{Path, PathBuf};

use burnish_model::{Model, ModelConfig};
use serde_json::{Value, json};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn config_with(name: &str, key: &str, value: Value) -> Value {
    let text = fs::read_to_string(golden(name).join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config[key] = value;
    config
}

#[track_caller]
fn check_config(name: &str, key: &str, value: Value, expected: &[&str]) {
    let error = ModelConfig::from_json(config_with(name, key, value)).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "{key}: `{part}` is not in: {error}");
    }
}

#[test]
fn what_is_not_supported_is_named_with_what_is() {
    let yarn = json!({ "rope_type": "yarn", "factor": 4.0, "rope_theta": 10000.0 });
    check_config("qwen3", "rope_parameters", yarn, &["rope_parameters.rope_type", "\"yarn\"", "default"]);
    for kind in ["dynamic", "yarn", "longrope", "su"] {
        let scaling = json!({ "type": kind, "factor": 2 });
        check_config("qwen2", "rope_scaling", scaling, &["rope_scaling.type", kind, "llama3"]);
    }
    let extra = json!({ "rope_type": "linear", "factor": 2, "low_freq_factor": 1 });
    check_config("llama", "rope_parameters", extra, &["rope_parameters.low_freq_factor", "takes factor"]);
    let by_layer = json!({ "full_attention": { "rope_theta": 1e4 } });
    check_config("qwen3", "rope_parameters", by_layer, &["rope_parameters.full_attention"]);
    let partial = json!({ "rope_theta": 1e4, "partial_rotary_factor": 0.5 });
    check_config("llama", "rope_parameters", partial, &["partial_rotary_factor", "0.5"]);
    check_config("llama", "partial_rotary_factor", json!(0.5), &["partial_rotary_factor", "0.5"]);
    check_config(
        "qwen2",
        "use_sliding_window",
        json!(true),
        &["use_sliding_window", "true", "full attention"],
    );
    check_config("llama", "sliding_window", json!(64), &["sliding_window", "64", "full attention"]);
    let layers = json!(["full_attention", "sliding_attention"]);
    check_config("qwen3", "layer_types", layers, &["layer_types", "sliding_attention", "full_attention"]);
    check_config("llama", "hidden_act", json!("gelu"), &["hidden_act", "gelu", "silu"]);
    check_config("qwen3", "mlp_bias", json!(true), &["mlp_bias", "false"]);
    check_config("qwen2", "attention_bias", json!(false), &["attention_bias", "have biases"]);
    check_config("llama", "attention_dropout", json!(0.1), &["attention_dropout", "0.1", "set it to 0"]);
    check_config(
        "llama",
        "quantization_config",
        json!({ "bits": 4 }),
        &["quantization_config", "without quantization"],
    );
    check_config("llama", "architectures", json!(["MistralForCausalLM"]), &["Mistral", "Qwen3ForCausalLM"]);
    check_config("llama", "model_type", json!("qwen3"), &["model_type", "qwen3", "LlamaForCausalLM"]);
    check_config("llama", "dtype", json!("float8_e4m3fn"), &["dtype", "float8", "bfloat16"]);
    check_config("llama", "logit_scale", json!(2), &["logit_scale", "this key is unknown"]);
}

#[test]
fn what_is_malformed_is_named_with_what_it_must_be() {
    check_config("llama", "hidden_size", json!(null), &["hidden_size", "missing"]);
    check_config("llama", "hidden_size", json!("32"), &["hidden_size", "\"32\"", "whole number"]);
    check_config("llama", "vocab_size", json!(0), &["vocab_size", "0", "from 1"]);
    check_config("llama", "vocab_size", json!(1u64 << 40), &["vocab_size", "from 1 to"]);
    check_config("llama", "num_key_value_heads", json!(3), &["num_key_value_heads", "3", "divisor", "4"]);
    check_config("qwen3", "num_key_value_heads", json!(null), &["num_key_value_heads", "missing"]);
    check_config("llama", "head_dim", json!(7), &["head_dim", "7", "even"]);
    check_config("qwen2", "hidden_size", json!(30), &["hidden_size", "30", "multiple"]);
    check_config("qwen3", "layer_types", json!(["full_attention"]), &["layer_types", "2 names"]);
    check_config("llama", "architectures", json!(null), &["architectures", "missing"]);
    check_config("llama", "rms_norm_eps", json!(-1), &["rms_norm_eps", "-1", "0 or more"]);
    check_config("llama", "tie_word_embeddings", json!("no"), &["tie_word_embeddings", "true or false"]);
    check_config("llama", "rope_theta", json!(7.0), &["rope_theta", "the same"]);
    check_config("qwen2", "rope_theta", json!(0), &["rope_theta", "above 0"]);
    let linear = json!({ "rope_type": "linear" });
    check_config("llama", "rope_parameters", linear, &["rope_parameters.factor", "missing", "1 or more"]);
    let linear = json!({ "rope_type": "linear", "factor": 0.5 });
    check_config("llama", "rope_parameters", linear, &["rope_parameters.factor", "0.5", "1 or more"]);
    let llama3 = json!({ "rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1 });
    check_config("llama", "rope_parameters", llama3, &["high_freq_factor", "above low_freq_factor"]);
    let two = json!({ "rope_type": "linear", "type": "llama3", "factor": 2 });
    check_config("llama", "rope_parameters", two, &["rope_parameters.type", "the same as `rope_type`"]);
    let other = json!({ "type": "linear", "factor": 2 });
    check_config("llama", "rope_scaling", other, &["rope_scaling", "the same as `rope_parameters`"]);
    let error = ModelConfig::from_json(json!([])).unwrap_err().to_string();
    assert!(error.contains("a JSON object"), "{error}");
}

#[test]
fn what_is_harmless_is_let_through() {
    for (name, key, value) in [
        ("llama", "rope_scaling", json!({ "rope_type": "default" })),
        ("qwen2", "sliding_window", json!(131072)),
        ("qwen2", "attention_bias", json!(true)),
        ("qwen3", "quantization_config", json!(null)),
        ("llama", "use_something_new", json!(false)),
        ("llama", "_name_or_path", json!("somewhere")),
        // As in SmolLM2's configuration.
        ("llama", "is_llama_config", json!(true)),
        ("llama", "rope_interleaved", json!(false)),
        ("llama", "transformers.js_config", json!({ "dtype": "q4" })),
    ] {
        ModelConfig::from_json(config_with(name, key, value))
            .unwrap_or_else(|error| panic!("{key}: {error}"));
    }
}

/// A copy of a golden model with one error.
struct Broken(tempfile::TempDir);

impl Broken {
    fn of(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in ["config.json", "model.safetensors"] {
            fs::copy(golden(name).join(file), dir.path().join(file)).unwrap();
        }
        Broken(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn config(self, key: &str, value: Value) -> Self {
        let path = self.path().join("config.json");
        let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        config[key] = value;
        fs::write(path, config.to_string()).unwrap();
        self
    }

    fn weights(self, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Self {
        let path = self.path().join("model.safetensors");
        let bytes = change(fs::read(&path).unwrap());
        fs::write(path, bytes).unwrap();
        self
    }

    #[track_caller]
    fn check(self, expected: &[&str]) {
        let error = Model::load(self.path()).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }
}

/// Replaces text in the header with text of the same length.
fn renamed(mut bytes: Vec<u8>, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    bytes
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Model::load(dir.path()).unwrap_err().to_string();
    assert!(error.contains("cannot read") && error.contains("config.json"), "{error}");
    let broken = Broken::of("llama");
    fs::remove_file(broken.path().join("model.safetensors")).unwrap();
    broken.check(&["holds no weights", "model.safetensors"]);
}

#[test]
fn a_config_that_is_not_json_is_named_with_line_and_column() {
    let broken = Broken::of("llama");
    fs::write(broken.path().join("config.json"), "{\n  \"a\": }").unwrap();
    broken.check(&["config.json", "not JSON", "line 2"]);
    let broken = Broken::of("llama");
    fs::write(broken.path().join("config.json"), b"{\"a\": \"\xff\"}").unwrap();
    broken.check(&["config.json", "not UTF-8 at byte 7"]);
    Broken::of("llama").config("hidden_act", json!("relu")).check(&["config.json: `hidden_act`"]);
}

#[test]
fn corrupt_weights_are_named() {
    Broken::of("llama")
        .weights(|bytes| bytes[..bytes.len() / 2].to_vec())
        .check(&["model.safetensors", "truncated"]);
    Broken::of("llama").weights(|bytes| bytes[..5].to_vec()).check(&["model.safetensors", "5 bytes"]);
    Broken::of("llama").weights(|_| Vec::new()).check(&["model.safetensors"]);
    Broken::of("llama").weights(|_| vec![0xff; 4096]).check(&["model.safetensors", "not a safetensors file"]);
}

#[test]
fn a_tensor_that_is_missing_misshapen_or_without_a_place_is_named() {
    let norm = "model.layers.1.input_layernorm.weight";
    let other = "model.layers.1.inputXlayernorm.weight";
    Broken::of("llama").weights(|bytes| renamed(bytes, norm, other)).check(&[
        "model.safetensors",
        norm,
        "[32]",
        "is missing",
    ]);
    Broken::of("llama").config("num_hidden_layers", json!(3)).check(&["model.layers.2.", "is missing"]);
    Broken::of("llama")
        .config("num_hidden_layers", json!(1))
        .check(&["model.layers.1.", "no place in LlamaForCausalLM"]);
    Broken::of("llama").config("vocab_size", json!(70)).check(&[
        "model.embed_tokens.weight",
        "[67, 32]",
        "[70, 32]",
    ]);
    Broken::of("llama").config("attention_bias", json!(true)).check(&["self_attn.q_proj.bias", "is missing"]);
    Broken::of("llama")
        .weights(|bytes| renamed(bytes, "\"F32\"", "\"I32\""))
        .check(&["stored as I32", "BF16"]);
}

#[test]
fn what_a_hybrid_can_not_be_is_refused_by_its_key() {
    let of = |key, value| Broken::of("qwen3_5").config(key, value);
    let (linear, full) = ("linear_attention", "full_attention");
    of("layer_types", json!([linear, linear, full])).check(&["`layer_types`", "a list of 4 names"]);
    of("layer_types", json!([linear, linear, linear, "sliding_attention"]))
        .check(&["`layer_types` is \"sliding_attention\"", "\"full_attention\" or \"linear_attention\""]);
    // A pattern that the file does not hold.
    of("layer_types", json!([linear, linear, full, full]))
        .check(&["model.layers.2.self_attn.q_proj", "is missing"]);
    of("linear_num_value_heads", json!(3)).check(&["`linear_num_value_heads` is 3", "a multiple of"]);
    of("linear_key_head_dim", json!(6)).check(&["linear_attn.conv1d.weight", "[72, 1, 4]", "[80, 1, 4]"]);
    of("linear_conv_kernel_dim", json!(3)).check(&["linear_attn.conv1d.weight", "[80, 1, 3]"]);
    of("attn_output_gate", json!(false)).check(&["`attn_output_gate`", "has a gate"]);
    of("num_experts", json!(8)).check(&["`num_experts` is 8", "unknown"]);
    let rope =
        |factor: f64| json!({"rope_theta": 1e7, "rope_type": "default", "partial_rotary_factor": factor});
    of("rope_parameters", rope(1.5)).check(&["`partial_rotary_factor` is 1.5", "at most 1"]);
    of("rope_parameters", rope(0.2)).check(&["`partial_rotary_factor` is 0.2", "even number of columns"]);
    // Only Qwen3.5 turns a part of its heads, and has layers of other kinds.
    Broken::of("qwen3")
        .config("partial_rotary_factor", json!(0.5))
        .check(&["`partial_rotary_factor` is 0.5"]);
    Broken::of("qwen3").config("layer_types", json!([linear, full])).check(&["in every layer"]);
}

#[test]
fn what_a_rule_can_not_be_is_refused_by_its_key() {
    let of = |rule: &str, key, value| Broken::of(&format!("rule-{rule}")).config(key, value);
    of("gdn", "linear_rule", json!("mamba2")).check(&["`linear_rule` is \"mamba2\"", "\"fg2_gdn_plus\""]);
    of("gdn", "linear_rule", json!(null)).check(&["`linear_rule` is missing", "\"delta_net\", \"gdn\""]);
    of("gdn", "linear_decay_rank", json!(4)).check(&[
        "`linear_decay_rank` is 4",
        "not per channel",
        "\"gdn\"",
    ]);
    of("kda", "linear_rate_rank", json!(4)).check(&["`linear_rate_rank` is 4", "per head", "\"kda\""]);
    of("kda", "linear_gate_rank", json!(0)).check(&["`linear_gate_rank` is 0", "from 1 to"]);
    of("kda", "linear_decay_rank", json!(2)).check(&["linear_attn.f_a_proj.weight", "[3, 16]", "[2, 16]"]);
    of("fg2-gdn", "linear_value_head_dim", json!(4)).check(&["`linear_value_head_dim` is 4", "fg2_gdn_plus"]);
    of("fg2-gdn-plus", "linear_num_value_heads", json!(4))
        .check(&["`linear_num_value_heads` is 4", "linear_num_key_heads 2"]);
    of("gdn", "linear_key_head_dim", json!(null)).check(&["`linear_key_head_dim` is missing"]);
    // Another rule has other weights.
    of("fg2-gdn", "linear_rule", json!("fg2_gdn_plus"))
        .check(&["linear_attn.in_proj_w.weight", "is missing"]);
    of("gdn", "linear_allow_neg_eigval", json!(true)).check(&["`linear_allow_neg_eigval`", "unknown"]);
}

#[test]
fn hybrids_that_compute_something_else_are_refused_by_name() {
    for (class, why) in [
        ("KimiLinearForCausalLM", ["latent attention", "mixtures of experts"]),
        ("OlmoHybridForCausalLM", ["rates up to 2", "behind the blocks"]),
        ("KDAForCausalLM", ["flash-linear-attention", "names of their own"]),
    ] {
        let broken = Broken::of("rule-kda").config("architectures", json!([class]));
        broken.check(&["`architectures`", class, "BurnishHybridForCausalLM", why[0], why[1]]);
    }
}

#[test]
fn errors_in_an_inner_configuration_say_where_it_is() {
    let nested = || Broken::of("qwen3_5-nested-bf16");
    let text = |change: &dyn Fn(&mut serde_json::Value)| {
        let broken = nested();
        let text = fs::read_to_string(broken.path().join("config.json")).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
        change(&mut json["text_config"]);
        broken.config("text_config", json["text_config"].take())
    };
    text(&|text| text["hidden_act"] = json!("gelu")).check(&["`text_config.hidden_act` is \"gelu\""]);
    text(&|text| text["model_type"] = json!("qwen3")).check(&["`text_config.model_type`"]);
    text(&|text| text["tie_word_embeddings"] = json!(false)).check(&["`text_config.tie_word_embeddings`"]);
    text(&|text| *text = json!(null)).check(&["`text_config` is missing", "Qwen3_5ForConditionalGeneration"]);
    nested().config("model_type", json!("qwen3_5_text")).check(&["`model_type`", "\"qwen3_5\" with"]);
    // What is not of the parts that are carried along has no place.
    nested()
        .weights(|bytes| renamed(bytes, "model.visual.pos_embed", "model.audiox.pos_embed"))
        .check(&["model.audiox.pos_embed", "no place in Qwen3_5ForCausalLM"]);
}

#[test]
fn absurd_sizes_are_refused_before_memory_is_taken() {
    Broken::of("llama")
        .config("vocab_size", json!(1 << 24))
        .config("intermediate_size", json!(1 << 24))
        .check(&["model.embed_tokens.weight", "[16777216, 32]"]);
}

#[test]
fn a_tied_head_that_differs_from_the_embedding_is_refused() {
    Broken::of("llama").config("tie_word_embeddings", json!(true)).check(&["lm_head.weight", "differs"]);
}

#[test]
fn tensors_that_only_repeat_what_is_known_are_let_through() {
    let broken = Broken::of("qwen3");
    let path = broken.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let mut tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap().tensors();
    let embedding = tensors.iter().find(|(name, _)| name == "model.embed_tokens.weight").unwrap().1.clone();
    tensors.push(("lm_head.weight".into(), embedding.clone()));
    tensors.push(("model.layers.0.self_attn.rotary_emb.inv_freq".into(), embedding));
    fs::write(&path, safetensors::serialize(tensors, None).unwrap()).unwrap();
    let (found, golden) = (Model::load(broken.path()).unwrap(), Model::load(&golden("qwen3")).unwrap());
    assert_eq!(found.params.data(), golden.params.data());
}
