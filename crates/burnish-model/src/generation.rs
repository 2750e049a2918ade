//! `generation_config.json`: the sampling that the makers of a model recommend.
//!
//! The end tokens apply wherever the model is sampled. The rest are defaults that a caller may use, so a key that asks
//! for another way of choosing tokens is refused when the defaults are used, not when the model is loaded.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::config::keys::Keys;
use crate::{ConfigError, ModelError, files};

/// Keys that do not change which tokens are chosen.
const HARMLESS: &[&str] = &[
    "_commit_hash",
    "_from_model_config",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "cache_config",
    "cache_implementation",
    "chat_format",
    "compile_config",
    "decoder_start_token_id",
    "disable_compile",
    "is_assistant",
    "low_memory",
    "max_cache_len",
    "max_matching_ngram_size",
    "max_window_size",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "prefill_chunk_size",
    "remove_invalid_values",
    "return_dict_in_generate",
    "target_lookbehind",
    "transformers_version",
    "trust_remote_code",
    "use_cache",
    // These two only have an effect with several beams, and `num_beams` must be 1.
    "early_stopping",
    "length_penalty",
];

/// Keys that would change which tokens are chosen, with the values that switch them off.
const OFF: &[(&str, f64)] = &[
    ("diversity_penalty", 0.0),
    ("encoder_no_repeat_ngram_size", 0.0),
    ("encoder_repetition_penalty", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("guidance_scale", 1.0),
    ("min_length", 0.0),
    ("min_new_tokens", 0.0),
    ("no_repeat_ngram_size", 0.0),
    ("num_beam_groups", 1.0),
    ("num_beams", 1.0),
    ("num_return_sequences", 1.0),
    ("typical_p", 1.0),
];

/// The sampling that a model's `generation_config.json` asks for. Values that the file does not give are `None`.
///
/// For missing values `transformers` uses temperature 1, `top_k` 50 and `top_p` 1, and decodes greedily unless
/// `do_sample` is true.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct GenerationDefaults {
    /// Whether to sample. If `Some(false)`, the likeliest token is taken each time, whatever the filters.
    pub do_sample: Option<bool>,
    /// Divides the logits; 0 or more.
    pub temperature: Option<f64>,
    /// Keep only the likeliest tokens; 0 keeps all.
    pub top_k: Option<usize>,
    /// Keep the smallest set of likeliest tokens that reaches this probability; above 0, at most 1.
    pub top_p: Option<f64>,
    /// Drop tokens less likely than this times the likeliest; 0 to 1.
    pub min_p: Option<f64>,
    /// Divides the logits of tokens that the text already has (multiplies negative ones); 1 changes nothing (Keskar et
    /// al. 2019, arXiv:1909.05858).
    pub repetition_penalty: Option<f64>,
    /// Most tokens in an answer.
    pub max_new_tokens: Option<usize>,
    /// Most tokens in prompt and answer together.
    pub max_length: Option<usize>,
    /// Id before the first token.
    pub bos_token_id: Option<u32>,
    /// Id that pads a batch.
    pub pad_token_id: Option<u32>,
}

/// A `generation_config.json`, as it is in its file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GenerationConfig {
    pub(crate) path: PathBuf,
    pub(crate) json: Map<String, Value>,
}

impl GenerationConfig {
    /// Reads the file of a model directory; `None` if there is none.
    pub(crate) fn load(dir: &Path) -> Result<Option<Self>, ModelError> {
        let path = dir.join("generation_config.json");
        match files::read_json_if_there(&path)? {
            Some(Value::Object(json)) => Ok(Some(GenerationConfig { path, json })),
            Some(_) => Err(ModelError::malformed(&path, "not a JSON object")),
            None => Ok(None),
        }
    }

    /// The sampling that the file asks for.
    ///
    /// # Errors
    /// Names the key that is malformed or unknown, or asks for something that the engine does not do.
    pub(crate) fn defaults(&self) -> Result<GenerationDefaults, ModelError> {
        read(&self.json).map_err(|error| ModelError::Config { path: self.path.clone(), error })
    }
}

fn read(json: &Map<String, Value>) -> Result<GenerationDefaults, ConfigError> {
    let keys = Keys::new(json);
    keys.get("eos_token_id");
    for &(key, off) in OFF {
        if let Some(value) = keys.get(key).filter(|value| value.as_f64() != Some(off)) {
            return Err(Keys::unsupported(key, value, format!("{off} (off)")));
        }
    }
    let number = |key: &'static str, expected: &str, is_fine: fn(f64) -> bool| {
        let Some(value) = keys.get(key) else { return Ok(None) };
        match value.as_f64().filter(|number| is_fine(*number)) {
            Some(number) => Ok(Some(number)),
            None => Err(Keys::invalid(key, value, expected)),
        }
    };
    let count = |key: &'static str, min: u64| {
        let Some(value) = keys.get(key) else { return Ok(None) };
        match value.as_u64().filter(|count| *count >= min).and_then(|count| usize::try_from(count).ok()) {
            Some(count) => Ok(Some(count)),
            None => Err(Keys::invalid(key, value, format!("a whole number of {min} or more"))),
        }
    };
    let id = |key: &'static str| {
        let Some(value) = keys.get(key) else { return Ok(None) };
        match value.as_u64().and_then(|id| u32::try_from(id).ok()) {
            Some(id) => Ok(Some(id)),
            None => Err(Keys::invalid(key, value, "a token id")),
        }
    };
    let defaults = GenerationDefaults {
        do_sample: keys.get("do_sample").map(|_| keys.flag("do_sample", false)).transpose()?,
        temperature: number("temperature", "a number of 0 or more", |number| number >= 0.0)?,
        top_k: count("top_k", 0)?,
        top_p: number("top_p", "above 0 and at most 1", |number| number > 0.0 && number <= 1.0)?,
        min_p: number("min_p", "0 to 1", |number| (0.0..=1.0).contains(&number))?,
        repetition_penalty: number("repetition_penalty", "a number above 0", |number| number > 0.0)?,
        max_new_tokens: count("max_new_tokens", 1)?,
        max_length: count("max_length", 1)?,
        bos_token_id: id("bos_token_id")?,
        pad_token_id: id("pad_token_id")?,
    };
    keys.finish(HARMLESS)?;
    Ok(defaults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn defaults(json: Value) -> Result<GenerationDefaults, String> {
        let path = PathBuf::from("generation_config.json");
        let json = json.as_object().unwrap().clone();
        GenerationConfig { path, json }.defaults().map_err(|error| error.to_string())
    }

    #[test]
    fn the_file_of_qwen25_is_read() {
        // As Qwen2.5-7B-Instruct has it.
        let found = defaults(json!({
            "bos_token_id": 151643, "pad_token_id": 151643, "do_sample": true, "eos_token_id": [151645, 151643],
            "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8, "top_k": 20,
            "transformers_version": "4.37.0",
        }));
        let expected = GenerationDefaults {
            do_sample: Some(true),
            temperature: Some(0.7),
            top_k: Some(20),
            top_p: Some(0.8),
            repetition_penalty: Some(1.05),
            bos_token_id: Some(151643),
            pad_token_id: Some(151643),
            ..GenerationDefaults::default()
        };
        assert_eq!(found.unwrap(), expected);
        assert_eq!(defaults(json!({})).unwrap(), GenerationDefaults::default());
    }

    #[test]
    fn what_is_off_or_has_no_effect_is_let_through() {
        let off = json!({ "num_beams": 1, "no_repeat_ngram_size": 0, "typical_p": 1.0, "top_h": null,
            "renormalize_logits": false, "length_penalty": 2.0, "use_cache": true });
        assert_eq!(defaults(off).unwrap(), GenerationDefaults::default());
    }

    #[test]
    fn what_would_choose_other_tokens_is_named() {
        for (key, value) in [
            ("num_beams", json!(4)),
            ("no_repeat_ngram_size", json!(3)),
            ("typical_p", json!(0.9)),
            ("min_new_tokens", json!(5)),
            ("suppress_tokens", json!([1])),
            ("stop_strings", json!(["END"])),
            ("bad_words_ids", json!([[1]])),
            ("sequence_bias", json!([[[1], -1.0]])),
            ("top_h", json!(0.4)),
            ("penalty_alpha", json!(0.6)),
            ("something_new", json!(1)),
            ("temperature", json!("hot")),
            ("top_p", json!(0)),
            ("top_k", json!(-1)),
            ("pad_token_id", json!([1])),
            ("do_sample", json!(1)),
        ] {
            let json = Value::Object(Map::from_iter([(key.to_string(), value.clone())]));
            let error = defaults(json).unwrap_err();
            let expected = format!("generation_config.json: `{key}` is {value}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
