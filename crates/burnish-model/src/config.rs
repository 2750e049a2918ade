//! `config.json` of Hugging Face, read strictly.
//!
//! There are two dialects. The hub's has `rope_theta` and `torch_dtype` at the top level; that of transformers 5 has
//! `rope_parameters: {rope_theta, rope_type}` and `dtype`. Both are read. The file's JSON is kept, so that writing it
//! back loses nothing; the written file has the base and scaling of the rotary frequencies in both dialects.
//!
//! Every key belongs to one of three kinds: it is understood and checked here; it is on the list of keys that do not
//! change the computation ([`HARMLESS`]); or it is an error, unless its value is `null` or `false`, which means that a
//! feature is off.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::config_keys::Keys;
use crate::rope::{self, RopeScaling};
use crate::{ConfigError, ModelError, files};

/// Keys that do not change what the model computes.
const HARMLESS: &[&str] = &[
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_name_or_path",
    "attn_implementation",
    "bos_token_id",
    "chunk_size_feed_forward",
    "eos_token_id",
    "id2label",
    "is_llama_config",
    "label2id",
    "name_or_path",
    "pad_token_id",
    "pretraining_tp",
    "return_dict",
    "tokenizer_class",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
];

/// Largest value of any size: far above any model, and small enough that products can't overflow.
const SIZE_MAX: u64 = 1 << 24;

/// The architectures that the decoder computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// `LlamaForCausalLM` (Touvron et al. 2023, arXiv:2302.13971).
    Llama,
    /// `Qwen2ForCausalLM`: Llama with biases on queries, keys and values (arXiv:2407.10671).
    Qwen2,
    /// `Qwen3ForCausalLM`: Llama with normed queries and keys (arXiv:2505.09388).
    Qwen3,
}

impl Architecture {
    const ALL: [Architecture; 3] = [Architecture::Llama, Architecture::Qwen2, Architecture::Qwen3];

    /// Name of the class in `transformers`, with a head that gives logits.
    pub fn class(self) -> &'static str {
        match self {
            Architecture::Llama => "LlamaForCausalLM",
            Architecture::Qwen2 => "Qwen2ForCausalLM",
            Architecture::Qwen3 => "Qwen3ForCausalLM",
        }
    }

    /// Name of the class in `transformers`, with a head that gives one number.
    pub fn value_class(self) -> &'static str {
        match self {
            Architecture::Llama => "LlamaForSequenceClassification",
            Architecture::Qwen2 => "Qwen2ForSequenceClassification",
            Architecture::Qwen3 => "Qwen3ForSequenceClassification",
        }
    }

    /// `model_type` of `transformers`.
    pub fn model_type(self) -> &'static str {
        match self {
            Architecture::Llama => "llama",
            Architecture::Qwen2 => "qwen2",
            Architecture::Qwen3 => "qwen3",
        }
    }
}

/// The layer on top of the last hidden state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// Logits over the vocabulary: `lm_head.weight`, or the embedding.
    Vocabulary,
    /// One number, the expected return from here on: `score.weight`, `[1, D]`, as in `transformers`' classes for
    /// sequence classification with one label.
    Value,
}

/// Type in which weights are stored; computation and training use f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// 32 bits.
    #[serde(alias = "float32")]
    F32,
    /// 16 bits with the exponent of f32.
    #[serde(alias = "bfloat16")]
    Bf16,
    /// 16 bits of IEEE 754.
    #[serde(alias = "float16")]
    F16,
}

impl Dtype {
    fn torch_name(self) -> &'static str {
        match self {
            Dtype::F32 => "float32",
            Dtype::Bf16 => "bfloat16",
            Dtype::F16 => "float16",
        }
    }
}

/// Sizes of a new model, which [`ModelConfig::new`] turns into a `config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelShape {
    /// Which architecture.
    pub architecture: Architecture,
    /// Rows of the embedding, V.
    pub vocab_size: usize,
    /// Width of the residual stream, D.
    pub hidden_size: usize,
    /// Width inside the MLP.
    pub intermediate_size: usize,
    /// Number of layers, L.
    pub num_hidden_layers: usize,
    /// Number of query heads, H.
    pub num_attention_heads: usize,
    /// Number of key and value heads; divides the number of query heads.
    pub num_key_value_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Longest sequence.
    pub max_position_embeddings: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Whether the head is the embedding.
    pub tie_word_embeddings: bool,
    /// Type in which the weights are stored.
    pub dtype: Dtype,
}

/// What a model computes, according to its `config.json`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// Which architecture.
    pub architecture: Architecture,
    /// The layer on top of the last hidden state.
    pub head: Head,
    /// Rows of the embedding, V.
    pub vocab_size: usize,
    /// Width of the residual stream, D.
    pub hidden_size: usize,
    /// Width inside the MLP.
    pub intermediate_size: usize,
    /// Number of layers, L.
    pub num_hidden_layers: usize,
    /// Number of query heads, H.
    pub num_attention_heads: usize,
    /// Number of key and value heads; divides the number of query heads.
    pub num_key_value_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Longest sequence.
    pub max_position_embeddings: usize,
    /// Added to the mean square in every norm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// How these frequencies are scaled for long contexts.
    pub rope_scaling: RopeScaling,
    /// Whether the head is the embedding.
    pub tie_word_embeddings: bool,
    /// Whether the query, key and value projections have biases.
    pub has_qkv_bias: bool,
    /// Whether the output projection of attention has a bias.
    pub has_o_bias: bool,
    /// Whether the three projections of the MLP have biases.
    pub has_mlp_bias: bool,
    /// Whether queries and keys are normed, head by head.
    pub has_qk_norm: bool,
    /// Standard deviation of new weights.
    pub initializer_range: f64,
    /// Type in which new weights are stored.
    pub dtype: Dtype,
    json: Value,
}

impl ModelConfig {
    /// Reads `config.json` of a model directory.
    ///
    /// # Errors
    /// If the file can't be read, or as [`ModelConfig::from_json`].
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        let path = dir.join("config.json");
        let json = files::read_json(&path)?;
        ModelConfig::from_json(json).map_err(|error| ModelError::Config { path, error })
    }

    /// Reads the JSON of a `config.json`.
    ///
    /// # Errors
    /// Names the first key that is missing, malformed, unsupported or unknown, with its value and what is possible.
    pub fn from_json(json: Value) -> Result<Self, ConfigError> {
        let Value::Object(map) = &json else {
            return Err(ConfigError::Invalid {
                key: "config.json".into(),
                value: json.to_string(),
                expected: "a JSON object".into(),
            });
        };
        let keys = Keys::new(map);
        let (architecture, head) = read_architecture(&keys)?;
        check_computation(&keys, architecture)?;
        let heads = keys.size("num_attention_heads", SIZE_MAX)?;
        let kv_heads = read_kv_heads(&keys, architecture, heads)?;
        let hidden_size = keys.size("hidden_size", SIZE_MAX)?;
        let num_hidden_layers = keys.size("num_hidden_layers", 4096)?;
        check_layer_types(&keys, num_hidden_layers)?;
        let max_position_embeddings = keys.size("max_position_embeddings", 1 << 31)?;
        let rope = rope::read(&keys, max_position_embeddings)?;
        let has_attention_bias = keys.flag("attention_bias", false)?;
        let config = ModelConfig {
            architecture,
            head,
            vocab_size: keys.size("vocab_size", SIZE_MAX)?,
            hidden_size,
            intermediate_size: keys.size("intermediate_size", SIZE_MAX)?,
            num_hidden_layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim: read_head_dim(&keys, architecture, hidden_size, heads)?,
            max_position_embeddings,
            rms_norm_eps: keys.number("rms_norm_eps", 1e-6, 0.0, "a number of 0 or more")?,
            rope_theta: rope.theta,
            rope_scaling: rope.scaling,
            tie_word_embeddings: keys.flag("tie_word_embeddings", false)?,
            has_qkv_bias: has_attention_bias || architecture == Architecture::Qwen2,
            has_o_bias: has_attention_bias && architecture != Architecture::Qwen2,
            has_mlp_bias: keys.flag("mlp_bias", false)?,
            has_qk_norm: architecture == Architecture::Qwen3,
            initializer_range: keys.number("initializer_range", 0.02, 0.0, "a number of 0 or more")?,
            dtype: read_dtype(&keys)?,
            json: Value::Null,
        };
        keys.finish(HARMLESS)?;
        Ok(ModelConfig { json, ..config })
    }

    /// The configuration of a new model, as transformers 5 writes it, and with `rope_theta` for transformers 4.
    ///
    /// # Errors
    /// As [`ModelConfig::from_json`], if the sizes do not fit together.
    pub fn new(shape: &ModelShape) -> Result<Self, ConfigError> {
        let mut map = Map::new();
        let mut set = |key: &str, value: Value| map.insert(key.into(), value);
        set("architectures", json!([shape.architecture.class()]));
        set("model_type", json!(shape.architecture.model_type()));
        set("vocab_size", json!(shape.vocab_size));
        set("hidden_size", json!(shape.hidden_size));
        set("intermediate_size", json!(shape.intermediate_size));
        set("num_hidden_layers", json!(shape.num_hidden_layers));
        set("num_attention_heads", json!(shape.num_attention_heads));
        set("num_key_value_heads", json!(shape.num_key_value_heads));
        set("head_dim", json!(shape.head_dim));
        set("max_position_embeddings", json!(shape.max_position_embeddings));
        set("rope_theta", json!(shape.rope_theta));
        set("rope_parameters", json!({ "rope_theta": shape.rope_theta, "rope_type": "default" }));
        set("rms_norm_eps", json!(1e-6));
        set("hidden_act", json!("silu"));
        set("initializer_range", json!(0.02));
        set("tie_word_embeddings", json!(shape.tie_word_embeddings));
        set("use_cache", json!(true));
        set("dtype", json!(shape.dtype.torch_name()));
        ModelConfig::from_json(Value::Object(map))
    }

    /// The JSON of `config.json`: as it was read, or as [`ModelConfig::new`] made it.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The same, with a head that gives one number.
    pub(crate) fn with_value_head(&self) -> Self {
        let mut config = ModelConfig { head: Head::Value, ..self.clone() };
        config.json["architectures"] = json!([self.architecture.value_class()]);
        config.json["id2label"] = json!({ "0": "LABEL_0" });
        config.json["label2id"] = json!({ "LABEL_0": 0 });
        config
    }

    /// The scaled angle by which one position turns each pair of a head's columns, `[head_dim / 2]`.
    pub(crate) fn inverse_frequencies(&self) -> Vec<f32> {
        rope::inverse_frequencies(self.head_dim, self.rope_theta, self.rope_scaling)
    }

    pub(crate) fn save(&self, dir: &Path) -> Result<(), ModelError> {
        files::write_json(&dir.join("config.json"), &self.json_for_both())
    }

    /// The JSON, extended by the top-level keys that readers of the hub's dialect (transformers 4, serving engines)
    /// look for, if these values are only in `rope_parameters`.
    fn json_for_both(&self) -> Value {
        let mut json = self.json.clone();
        let Some(map) = json.as_object_mut() else { return json };
        let is_absent = |map: &Map<String, Value>, key: &str| map.get(key).is_none_or(Value::is_null);
        if is_absent(map, "rope_theta") {
            let named = map.get("rope_parameters").and_then(|parameters| parameters.get("rope_theta"));
            let theta = named.cloned().unwrap_or_else(|| json!(self.rope_theta));
            map.insert("rope_theta".into(), theta);
        }
        if is_absent(map, "rope_scaling")
            && self.rope_scaling != RopeScaling::Default
            && let Some(parameters) = map.get("rope_parameters").and_then(Value::as_object)
        {
            let mut scaling = parameters.clone();
            scaling.shift_remove("rope_theta");
            map.insert("rope_scaling".into(), Value::Object(scaling));
        }
        json
    }
}

fn read_architecture(keys: &Keys<'_>) -> Result<(Architecture, Head), ConfigError> {
    let supported = || Architecture::ALL.map(Architecture::class).join(", ");
    let Some(value) = keys.get("architectures") else {
        return Err(ConfigError::Missing { key: "architectures".into(), expected: supported() });
    };
    let named = value.as_array().and_then(|list| match list.as_slice() {
        [Value::String(name)] => Some(name.as_str()),
        _ => None,
    });
    let is = |known: &Architecture| {
        let head = |class: &str, head| (Some(class) == named).then_some((*known, head));
        head(known.class(), Head::Vocabulary).or_else(|| head(known.value_class(), Head::Value))
    };
    let Some((found, head)) = Architecture::ALL.iter().find_map(is) else {
        return Err(Keys::unsupported("architectures", value, supported()));
    };
    if head == Head::Value {
        // transformers gives a classifier two labels if none are named.
        let labels = keys.get("id2label").and_then(Value::as_object).map_or(2, Map::len);
        if labels != 1 {
            let value = keys.get("id2label").cloned().unwrap_or_default();
            return Err(Keys::unsupported("id2label", &value, "one label: a head that gives one number"));
        }
    }
    match keys.get("model_type") {
        Some(model_type) if model_type.as_str() != Some(found.model_type()) => Err(Keys::unsupported(
            "model_type",
            model_type,
            format!("\"{}\" with {}", found.model_type(), found.class()),
        )),
        _ => Ok((found, head)),
    }
}

/// Refuses keys that would change the computation to one that the decoder does not support.
fn check_computation(keys: &Keys<'_>, architecture: Architecture) -> Result<(), ConfigError> {
    keys.only("hidden_act", &[json!("silu")], "\"silu\"")?;
    keys.only("use_sliding_window", &[json!(false)], "false (full attention)")?;
    keys.only("partial_rotary_factor", &[json!(1), json!(1.0)], "1")?;
    keys.only("quantization_config", &[], "weights in f32, bf16 or f16 without quantization")?;
    keys.only(
        "attention_dropout",
        &[json!(0), json!(0.0)],
        "0 (sampler and trainer must compute the same numbers); set it to 0",
    )?;
    match architecture {
        // The window size has no effect in Qwen while `use_sliding_window` is off; Llama has no window.
        Architecture::Llama => keys.only("sliding_window", &[], "null (full attention)")?,
        Architecture::Qwen2 | Architecture::Qwen3 => {
            keys.get("sliding_window");
            keys.get("max_window_layers");
            keys.only("mlp_bias", &[json!(false)], "false")?;
        }
    }
    if architecture == Architecture::Qwen2 {
        // transformers gives Qwen2 its biases whatever the value of the key.
        keys.only("attention_bias", &[json!(true)], "true: queries, keys and values of Qwen2 have biases")?;
    }
    Ok(())
}

fn check_layer_types(keys: &Keys<'_>, layers: usize) -> Result<(), ConfigError> {
    let Some(value) = keys.get("layer_types") else { return Ok(()) };
    let is_full = |list: &Vec<Value>| list.iter().all(|kind| kind == "full_attention");
    match value.as_array() {
        Some(list) if !is_full(list) => {
            Err(Keys::unsupported("layer_types", value, "\"full_attention\" in every layer"))
        }
        Some(list) if list.len() == layers => Ok(()),
        _ => {
            Err(Keys::invalid("layer_types", value, format!("a list of {layers} names, one for each layer")))
        }
    }
}

fn read_kv_heads(keys: &Keys<'_>, architecture: Architecture, heads: usize) -> Result<usize, ConfigError> {
    let kv_heads = match keys.get("num_key_value_heads") {
        None if architecture == Architecture::Llama => heads,
        _ => keys.size("num_key_value_heads", SIZE_MAX)?,
    };
    if heads.is_multiple_of(kv_heads) {
        return Ok(kv_heads);
    }
    Err(Keys::invalid(
        "num_key_value_heads",
        &json!(kv_heads),
        format!("a divisor of num_attention_heads {heads}"),
    ))
}

fn read_head_dim(
    keys: &Keys<'_>,
    architecture: Architecture,
    hidden_size: usize,
    heads: usize,
) -> Result<usize, ConfigError> {
    let head_dim = match keys.get("head_dim") {
        Some(_) => keys.size("head_dim", 1 << 16)?,
        // The default of Qwen3's class in transformers.
        None if architecture == Architecture::Qwen3 => 128,
        None if hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => {
            let expected = format!("a multiple of num_attention_heads {heads}, or head_dim be given");
            return Err(Keys::invalid("hidden_size", &json!(hidden_size), expected));
        }
    };
    if head_dim.is_multiple_of(2) {
        return Ok(head_dim);
    }
    Err(Keys::invalid("head_dim", &json!(head_dim), "even: rotary embeddings turn pairs"))
}

fn read_dtype(keys: &Keys<'_>) -> Result<Dtype, ConfigError> {
    let mut dtype = Dtype::F32;
    // transformers 5 reads `dtype` first, so it comes last here.
    for key in ["torch_dtype", "dtype"] {
        let Some(value) = keys.get(key) else { continue };
        let expected = "\"float32\", \"bfloat16\" or \"float16\"";
        dtype = Dtype::deserialize(value).map_err(|_| Keys::unsupported(key, value, expected))?;
    }
    Ok(dtype)
}
