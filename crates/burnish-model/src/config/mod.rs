//! `config.json` of Hugging Face, read strictly.
//!
//! There are two dialects. The hub's has `rope_theta` and `torch_dtype` at the top level; that of transformers 5 has
//! `rope_parameters: {rope_theta, rope_type}` and `dtype`. Both are read. The file's JSON is kept, so that writing it
//! back loses nothing; the written file has the base and scaling of the rotary frequencies in both dialects.
//!
//! Every key belongs to one of three kinds: it is understood and checked here; it is on the list of keys that do not
//! change the computation ([`HARMLESS`]); or it is an error, unless its value is `null` or `false`, which means that a
//! feature is off.

mod architecture;
mod blocks;
pub(crate) mod keys;
mod mask;
mod rule;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use self::architecture::{Architecture, Head};
use self::architecture::{Found, NESTED_CLASS};
pub use self::blocks::{DeltaRuleConfig, LayerKind};
use self::keys::Keys;
pub use self::rule::Rule;
pub(crate) use self::rule::{Decay, Rate};
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
    "mask_token_id",
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

/// Further keys that do not change what Qwen3.5 computes of text: those of its pictures, and of the layers that predict
/// several tokens at once, whose weights are carried along.
const HARMLESS_QWEN3_5: &[&str] = &[
    "image_token_id",
    "mamba_ssm_dtype",
    "mlp_only_layers",
    "mtp_num_hidden_layers",
    "mtp_use_dedicated_embeddings",
    "video_token_id",
    "vision_config",
    "vision_end_token_id",
    "vision_start_token_id",
];

/// Largest value of any size: far above any model, and small enough that products can't overflow.
const SIZE_MAX: u64 = 1 << 24;

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
    /// Sizes of the delta rule of `qwen3_5` (those of transformers where it is absent) and of `hybrid`, in three of four
    /// layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_rule: Option<DeltaRuleConfig>,
    /// Whether it reads in both directions and answers by denoising ([`ModelConfig::mask_token_id`]); its tokenizer then
    /// has a token that stands for what is not known yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
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
    /// What mixes tokens at each of them.
    pub layers: Vec<LayerKind>,
    /// Sizes of the delta rule, for the architectures that have it.
    pub delta_rule: Option<DeltaRuleConfig>,
    /// Number of query heads, H.
    pub num_attention_heads: usize,
    /// Number of key and value heads; divides the number of query heads.
    pub num_key_value_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Columns of a head that are turned by its position, from the first on; even.
    pub rotary_dim: usize,
    /// Longest sequence.
    pub max_position_embeddings: usize,
    /// Added to the mean square in every norm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// How these frequencies are scaled for long contexts.
    pub rope_scaling: RopeScaling,
    /// The id of the token that stands for one not known yet, in a model of masked diffusion, whose tokens see each other
    /// in both directions (`is_causal` is false, which transformers 5 understands). `None`: the model is causal.
    pub mask_token_id: Option<u32>,
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
    /// Whether what is attended is multiplied by a gate.
    pub has_attention_gate: bool,
    /// Whether norms multiply by `1 + w` instead of `w`.
    pub has_centred_norms: bool,
    /// Standard deviation of new weights.
    pub initializer_range: f64,
    /// Type in which new weights are stored.
    pub dtype: Dtype,
    /// Whether the text's part of `config.json` is in `text_config`, and its weights beside others.
    is_nested: bool,
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
        let outer = Keys::new(map);
        let found = architecture::read(&outer)?;
        let config = match found.is_nested {
            false => read(&outer, found, None)?,
            true => {
                let Some(Value::Object(text)) = outer.get(TEXT) else {
                    let expected = format!("an object, as {NESTED_CLASS} has it");
                    return Err(ConfigError::Missing { key: TEXT.into(), expected });
                };
                let text = Keys::new(text);
                text.only("model_type", &[json!(found.architecture.model_type())], "\"qwen3_5_text\"")
                    .and_then(|()| read(&text, found, Some(&outer)))
                    .map_err(|error| error.within(TEXT))?
            }
        };
        outer.finish(&harmless(found.architecture))?;
        Ok(ModelConfig { json, ..config })
    }

    /// The configuration of a new model, as transformers 5 writes it, and with `rope_theta` for transformers 4. It is
    /// causal: the mask of one that is to be [`ModelShape::masked`] is known when there is a tokenizer
    /// ([`ModelConfig::masked`]).
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
        let mut json = Value::Object(map);
        if shape.architecture.has_delta_rule() {
            if shape.architecture == Architecture::Qwen3_5 {
                // As the hub's files have it: a quarter of each head is turned.
                json["rope_parameters"]["partial_rotary_factor"] = json!(0.25);
            }
            let sizes = shape.delta_rule.map(|delta| json!(delta));
            for (key, value) in sizes.iter().filter_map(Value::as_object).flatten() {
                json[key] = value.clone();
            }
            let config = ModelConfig::from_json(json.clone())?;
            json["layer_types"] = config.layers.iter().map(|kind| kind.name()).collect();
        } else if shape.delta_rule.is_some() {
            let architectures = json!([shape.architecture.class()]);
            let supported = "Qwen3_5ForCausalLM or BurnishHybridForCausalLM, if `delta_rule` is given";
            return Err(Keys::unsupported("architectures", &architectures, supported));
        }
        ModelConfig::from_json(json)
    }

    /// The JSON of `config.json`: as it was read, or as [`ModelConfig::new`] made it.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The same, with a head that gives one number.
    pub(crate) fn with_value_head(&self) -> Self {
        let mut config = ModelConfig { head: Head::Value, ..self.clone() };
        if let Some(text) = self.json.get(TEXT).filter(|_| self.is_nested) {
            (config.json, config.is_nested) = (text.clone(), false);
        }
        config.json["architectures"] = json!([self.architecture.value_class()]);
        config.json["id2label"] = json!({ "0": "LABEL_0" });
        config.json["label2id"] = json!({ "LABEL_0": 0 });
        config
    }

    /// The scaled angle by which one position turns each pair of a head's columns, `[rotary_dim / 2]`.
    pub(crate) fn inverse_frequencies(&self) -> Vec<f32> {
        rope::inverse_frequencies(self.rotary_dim, self.rope_theta, self.rope_scaling)
    }

    /// What the names of the decoder's weights begin with.
    pub(crate) fn root(&self) -> &'static str {
        if self.is_nested { "model.language_model" } else { "model" }
    }

    /// Name of the embedding.
    pub(crate) fn embedding_name(&self) -> String {
        format!("{}.embed_tokens.weight", self.root())
    }

    /// Belongs a tensor of this name to parts of the model that text does not pass through? Such tensors are kept as
    /// they are.
    pub(crate) fn is_carried(&self, name: &str) -> bool {
        let parts = ["model.visual.", "mtp."];
        self.architecture == Architecture::Qwen3_5 && parts.iter().any(|part| name.starts_with(part))
    }

    /// Numbers per row that a pass which keeps nothing holds at most, within a layer: its input, the sum so far, a norm,
    /// and the gate, what it gates and their product.
    pub fn passing(&self) -> usize {
        3 * self.hidden_size + 3 * self.intermediate_size
    }

    /// Number of layers of a kind.
    pub fn layers_of(&self, kind: LayerKind) -> usize {
        self.layers.iter().filter(|layer| **layer == kind).count()
    }

    pub(crate) fn save(&self, dir: &Path) -> Result<(), ModelError> {
        files::write_json(&dir.join("config.json"), &self.json_for_both())
    }

    /// The JSON, extended by the top-level keys that readers of the hub's dialect (transformers 4, serving engines)
    /// look for, if these values are only in `rope_parameters`.
    fn json_for_both(&self) -> Value {
        let mut json = self.json.clone();
        // No reader of transformers 4 knows the classes with an inner configuration.
        let Some(map) = json.as_object_mut().filter(|_| !self.is_nested) else { return json };
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

/// Where a class with pictures has the text model's configuration.
const TEXT: &str = "text_config";

fn harmless(architecture: Architecture) -> Vec<&'static str> {
    let more = if architecture == Architecture::Qwen3_5 { HARMLESS_QWEN3_5 } else { &[] };
    [HARMLESS, more].concat()
}

/// Reads the keys of the text model. `outer` are those around `text_config`, where there is one: some keys may be in
/// either place.
fn read(keys: &Keys<'_>, found: Found, outer: Option<&Keys<'_>>) -> Result<ModelConfig, ConfigError> {
    let Found { architecture, head, is_nested } = found;
    check_computation(keys, architecture)?;
    let heads = keys.size("num_attention_heads", SIZE_MAX)?;
    let kv_heads = read_kv_heads(keys, architecture, heads)?;
    let hidden_size = keys.size("hidden_size", SIZE_MAX)?;
    let num_hidden_layers = keys.size("num_hidden_layers", 4096)?;
    let max_position_embeddings = keys.size("max_position_embeddings", 1 << 31)?;
    let is_qwen3_5 = architecture == Architecture::Qwen3_5;
    let head_dim = read_head_dim(keys, architecture, hidden_size, heads)?;
    let rope = rope::read(keys, max_position_embeddings, is_qwen3_5.then_some(QWEN3_5_ROTARY_FACTOR))?;
    let has_attention_bias = keys.flag("attention_bias", false)?;
    let config = ModelConfig {
        architecture,
        head,
        vocab_size: keys.size("vocab_size", SIZE_MAX)?,
        hidden_size,
        intermediate_size: keys.size("intermediate_size", SIZE_MAX)?,
        num_hidden_layers,
        layers: blocks::read_layers(keys, architecture, num_hidden_layers)?,
        delta_rule: blocks::read_delta_rule(keys, architecture)?,
        num_attention_heads: heads,
        num_key_value_heads: kv_heads,
        head_dim,
        rotary_dim: read_rotary_dim(head_dim, rope.rotary_factor)?,
        max_position_embeddings,
        rms_norm_eps: keys.number("rms_norm_eps", 1e-6, 0.0, "a number of 0 or more")?,
        rope_theta: rope.theta,
        rope_scaling: rope.scaling,
        mask_token_id: mask::read(keys, architecture)?,
        tie_word_embeddings: read_tied(keys, outer)?,
        has_qkv_bias: has_attention_bias || architecture == Architecture::Qwen2,
        has_o_bias: has_attention_bias && architecture != Architecture::Qwen2,
        has_mlp_bias: keys.flag("mlp_bias", false)?,
        has_qk_norm: architecture == Architecture::Qwen3 || architecture.has_delta_rule(),
        has_attention_gate: is_qwen3_5,
        has_centred_norms: is_qwen3_5,
        initializer_range: keys.number("initializer_range", 0.02, 0.0, "a number of 0 or more")?,
        dtype: read_dtype(outer.filter(|_| keys.get("dtype").is_none()).unwrap_or(keys))?,
        is_nested,
        json: Value::Null,
    };
    if outer.is_some() {
        keys.finish(&harmless(architecture))?;
    }
    Ok(config)
}

/// Is the head the embedding? transformers looks at the text's configuration, and at the one around it.
fn read_tied(keys: &Keys<'_>, outer: Option<&Keys<'_>>) -> Result<bool, ConfigError> {
    const KEY: &str = "tie_word_embeddings";
    let own = keys.flag(KEY, false)?;
    let Some(around) = outer.filter(|outer| outer.get(KEY).is_some()) else { return Ok(own) };
    let around = around.flag(KEY, false)?;
    if keys.get(KEY).is_some() && own != around {
        return Err(Keys::invalid(KEY, &json!(own), format!("{around}, as around {TEXT}")));
    }
    Ok(around)
}

/// The share of a head that is turned, where the file does not say it.
const QWEN3_5_ROTARY_FACTOR: f64 = 0.25;

fn read_rotary_dim(head_dim: usize, factor: f64) -> Result<usize, ConfigError> {
    let columns = (head_dim as f64 * factor) as usize;
    if columns.is_multiple_of(2) && columns <= head_dim {
        return Ok(columns);
    }
    let expected = format!("a share of head_dim {head_dim} that is an even number of columns");
    Err(Keys::invalid("partial_rotary_factor", &json!(factor), expected))
}

/// Refuses keys that would change the computation to one that the decoder does not support.
fn check_computation(keys: &Keys<'_>, architecture: Architecture) -> Result<(), ConfigError> {
    keys.only("hidden_act", &[json!("silu")], "\"silu\"")?;
    keys.only("use_sliding_window", &[json!(false)], "false (full attention)")?;
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
        Architecture::Hybrid => keys.only("mlp_bias", &[json!(false)], "false")?,
        Architecture::Qwen3_5 => {
            keys.only("mlp_bias", &[json!(false)], "false")?;
            keys.only("attn_output_gate", &[json!(true)], "true: attention of Qwen3.5 has a gate")?;
        }
    }
    if architecture == Architecture::Qwen2 {
        // transformers gives Qwen2 its biases whatever the value of the key.
        keys.only("attention_bias", &[json!(true)], "true: queries, keys and values of Qwen2 have biases")?;
    }
    Ok(())
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
        // The defaults of their classes in transformers.
        None if architecture == Architecture::Qwen3 => 128,
        None if architecture == Architecture::Qwen3_5 => 256,
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
