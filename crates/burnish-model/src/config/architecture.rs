//! The classes that `architectures` may name.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::keys::Keys;
use crate::ConfigError;

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
    /// `Qwen3_5ForCausalLM`: three layers of the gated delta rule (arXiv:2412.06464) to each one of gated attention. Of
    /// `Qwen3_5ForConditionalGeneration` it is the part that reads and writes text.
    #[serde(rename = "qwen3_5")]
    Qwen3_5,
    /// `BurnishHybridForCausalLM`, which only burnish knows: Qwen3 with a delta rule in some layers, whose kind is a key
    /// ([`Rule`](super::Rule)).
    Hybrid,
}

impl Architecture {
    const ALL: [Architecture; 5] = [
        Architecture::Llama,
        Architecture::Qwen2,
        Architecture::Qwen3,
        Architecture::Qwen3_5,
        Architecture::Hybrid,
    ];

    /// Follow some of its layers a delta rule?
    pub(crate) fn has_delta_rule(self) -> bool {
        matches!(self, Architecture::Qwen3_5 | Architecture::Hybrid)
    }

    /// Name of the class in `transformers`, with a head that gives logits.
    pub fn class(self) -> &'static str {
        match self {
            Architecture::Llama => "LlamaForCausalLM",
            Architecture::Qwen2 => "Qwen2ForCausalLM",
            Architecture::Qwen3 => "Qwen3ForCausalLM",
            Architecture::Qwen3_5 => "Qwen3_5ForCausalLM",
            Architecture::Hybrid => "BurnishHybridForCausalLM",
        }
    }

    /// Name of the class in `transformers`, with a head that gives one number.
    pub fn value_class(self) -> &'static str {
        match self {
            Architecture::Llama => "LlamaForSequenceClassification",
            Architecture::Qwen2 => "Qwen2ForSequenceClassification",
            Architecture::Qwen3 => "Qwen3ForSequenceClassification",
            Architecture::Qwen3_5 => "Qwen3_5TextForSequenceClassification",
            Architecture::Hybrid => "BurnishHybridForSequenceClassification",
        }
    }

    /// `model_type` of `transformers`.
    pub fn model_type(self) -> &'static str {
        match self {
            Architecture::Llama => "llama",
            Architecture::Qwen2 => "qwen2",
            Architecture::Qwen3 => "qwen3",
            Architecture::Qwen3_5 => "qwen3_5_text",
            Architecture::Hybrid => "burnish_hybrid",
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

/// The class that holds a text model beside one of pictures.
pub(super) const NESTED_CLASS: &str = "Qwen3_5ForConditionalGeneration";
/// Its `model_type`.
const NESTED_TYPE: &str = "qwen3_5";

/// What `architectures` names.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) architecture: Architecture,
    pub(super) head: Head,
    pub(super) is_nested: bool,
}

/// What `architectures` names, with a `model_type` that fits it.
pub(super) fn read(keys: &Keys<'_>) -> Result<Found, ConfigError> {
    let supported = || {
        let classes = Architecture::ALL.map(Architecture::class);
        [&classes[..], &[NESTED_CLASS]].concat().join(", ")
    };
    let Some(value) = keys.get("architectures") else {
        return Err(ConfigError::Missing { key: "architectures".into(), expected: supported() });
    };
    let named = value.as_array().and_then(|list| match list.as_slice() {
        [Value::String(name)] => Some(name.as_str()),
        _ => None,
    });
    let is = |known: &Architecture| {
        let found = |class: &str, head, is_nested| {
            (Some(class) == named).then_some(Found { architecture: *known, head, is_nested })
        };
        found(known.class(), Head::Vocabulary, false)
            .or_else(|| found(known.value_class(), Head::Value, false))
    };
    let nested = Found { architecture: Architecture::Qwen3_5, head: Head::Vocabulary, is_nested: true };
    let found = match Architecture::ALL.iter().find_map(is) {
        None if named == Some(NESTED_CLASS) => nested,
        None => return Err(Keys::unsupported("architectures", value, refusal(named, &supported()))),
        Some(found) => found,
    };
    if found.head == Head::Value {
        // transformers gives a classifier two labels if none are named.
        let labels = keys.get("id2label").and_then(Value::as_object).map_or(2, Map::len);
        if labels != 1 {
            let value = keys.get("id2label").cloned().unwrap_or_default();
            return Err(Keys::unsupported("id2label", &value, "one label: a head that gives one number"));
        }
    }
    let (expected, class) = match found.is_nested {
        true => (NESTED_TYPE, NESTED_CLASS),
        false => (found.architecture.model_type(), found.architecture.class()),
    };
    match keys.get("model_type") {
        Some(model_type) if model_type.as_str() != Some(expected) => {
            Err(Keys::unsupported("model_type", model_type, format!("\"{expected}\" with {class}")))
        }
        _ => Ok(found),
    }
}

/// What is supported, and why a known hybrid is not.
fn refusal(named: Option<&str>, supported: &str) -> String {
    let why = match named {
        Some("KimiLinearForCausalLM") => {
            "its linear layers are the rule \"kda\", but its other layers are latent attention without \
             rotation (MLA), and its MLPs are mixtures of experts"
        }
        Some("OlmoHybridForCausalLM") => {
            "its linear layers write at rates up to 2, its attention norms all heads as one vector, and its norms \
             stand behind the blocks"
        }
        Some("KDAForCausalLM" | "GatedDeltaNetForCausalLM" | "DeltaNetForCausalLM") => {
            "flash-linear-attention's blocks have names of their own, and biases in the output's gate"
        }
        _ => return supported.into(),
    };
    format!("{supported} ({why})")
}
