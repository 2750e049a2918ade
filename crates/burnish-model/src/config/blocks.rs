//! What mixes tokens at each layer.

use burnish_tensor::DeltaShape;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::keys::Keys;
use super::rule::{self, Rule, RuleKeys};
use super::{Architecture, SIZE_MAX};
use crate::ConfigError;

/// Every how many layers there is one of attention, where `config.json` lists no layers.
const ATTENTION_INTERVAL: u64 = 4;
const ATTENTION: &str = "full_attention";
const DELTA_RULE: &str = "linear_attention";

/// What mixes tokens at a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayerKind {
    /// Softmax attention: `full_attention` in `layer_types`.
    Attention,
    /// The gated delta rule: `linear_attention`.
    DeltaRule,
}

impl LayerKind {
    /// Its name in `layer_types`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LayerKind::Attention => ATTENTION,
            LayerKind::DeltaRule => DELTA_RULE,
        }
    }
}

/// Sizes of the layers with a delta rule; the names are those of `config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeltaRuleConfig {
    /// Number of query and key heads.
    #[serde(rename = "linear_num_key_heads")]
    pub key_heads: usize,
    /// Number of value heads, each with a state of its own; a multiple of the key heads.
    #[serde(rename = "linear_num_value_heads")]
    pub value_heads: usize,
    /// Width of a query and key head.
    #[serde(rename = "linear_key_head_dim")]
    pub key_dim: usize,
    /// Width of a value head.
    #[serde(rename = "linear_value_head_dim")]
    pub value_dim: usize,
    /// Tokens that the convolution reads.
    #[serde(rename = "linear_conv_kernel_dim")]
    pub conv_kernel: usize,
    /// Which rule `BurnishHybridForCausalLM` follows; others have one of their own.
    #[serde(rename = "linear_rule", default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Rank of the projection that decays per channel come from; `value_dim` where it is absent.
    #[serde(rename = "linear_decay_rank", default, skip_serializing_if = "Option::is_none")]
    pub decay_rank: Option<usize>,
    /// Rank of the projections that rates per channel come from; whole matrices where it is absent.
    #[serde(rename = "linear_rate_rank", default, skip_serializing_if = "Option::is_none")]
    pub rate_rank: Option<usize>,
    /// Rank of the projection that the output's gate comes from; `value_dim` where it is absent.
    #[serde(rename = "linear_gate_rank", default, skip_serializing_if = "Option::is_none")]
    pub gate_rank: Option<usize>,
    /// Every how many layers one is attention; 4 where it is absent. More than there are layers: none is.
    #[serde(rename = "full_attention_interval", default, skip_serializing_if = "Option::is_none")]
    pub attention_interval: Option<usize>,
}

impl DeltaRuleConfig {
    /// The shape of heads and state.
    pub fn shape(self) -> DeltaShape {
        let DeltaRuleConfig { key_heads, value_heads, key_dim, value_dim, .. } = self;
        DeltaShape { key_heads, value_heads, key_dim, value_dim }
    }

    /// Columns of the convolution: queries, keys, values.
    pub fn conv_columns(self) -> usize {
        2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim
    }
}

/// The kind of every layer.
pub(super) fn read_layers(
    keys: &Keys<'_>,
    architecture: Architecture,
    layers: usize,
) -> Result<Vec<LayerKind>, ConfigError> {
    let is_hybrid = architecture.has_delta_rule();
    let interval = match keys.get("full_attention_interval") {
        Some(_) if is_hybrid => keys.size("full_attention_interval", SIZE_MAX)? as u64,
        _ => ATTENTION_INTERVAL,
    };
    let Some(value) = keys.get("layer_types") else {
        let kind = |layer: u64| match is_hybrid && !(layer + 1).is_multiple_of(interval) {
            true => LayerKind::DeltaRule,
            false => LayerKind::Attention,
        };
        return Ok((0..layers as u64).map(kind).collect());
    };
    let Some(list) = value.as_array().filter(|list| list.len() == layers) else {
        return Err(Keys::invalid(
            "layer_types",
            value,
            format!("a list of {layers} names, one for each layer"),
        ));
    };
    let kind = |name: &Value| match name.as_str() {
        Some(ATTENTION) => Ok(LayerKind::Attention),
        Some(DELTA_RULE) if is_hybrid => Ok(LayerKind::DeltaRule),
        _ if is_hybrid => Err(Keys::unsupported(
            "layer_types",
            name,
            format!("\"{ATTENTION}\" or \"{DELTA_RULE}\" in each layer"),
        )),
        _ => Err(Keys::unsupported("layer_types", value, format!("\"{ATTENTION}\" in every layer"))),
    };
    list.iter().map(kind).collect()
}

/// Sizes of the delta rule, those of Qwen3.5 with the defaults of transformers; none for other architectures.
pub(super) fn read_delta_rule(
    keys: &Keys<'_>,
    architecture: Architecture,
) -> Result<Option<DeltaRuleConfig>, ConfigError> {
    if !architecture.has_delta_rule() {
        return Ok(None);
    }
    let has_rule = architecture == Architecture::Hybrid;
    let size = |key, default, max| match keys.get(key) {
        None if !has_rule => Ok(default),
        _ => keys.size(key, max),
    };
    let sizes = DeltaRuleConfig {
        key_heads: size("linear_num_key_heads", 16, 1 << 16)?,
        value_heads: size("linear_num_value_heads", 32, 1 << 16)?,
        key_dim: size("linear_key_head_dim", 128, 1 << 16)?,
        value_dim: size("linear_value_head_dim", 128, 1 << 16)?,
        conv_kernel: size("linear_conv_kernel_dim", 4, 64)?,
        rule: None,
        decay_rank: None,
        rate_rank: None,
        gate_rank: None,
        attention_interval: None,
    };
    let RuleKeys { rule, decay_rank, rate_rank, gate_rank } = match has_rule {
        true => rule::read(keys, sizes.value_dim)?,
        false => RuleKeys::default(),
    };
    let delta = DeltaRuleConfig { rule, decay_rank, rate_rank, gate_rank, ..sizes };
    if !delta.value_heads.is_multiple_of(delta.key_heads) {
        let expected = format!("a multiple of linear_num_key_heads {}", delta.key_heads);
        return Err(Keys::invalid("linear_num_value_heads", &json!(delta.value_heads), expected));
    }
    if let Some(rule) = rule {
        let DeltaRuleConfig { key_heads, value_heads, key_dim, value_dim, .. } = delta;
        rule::check_heads(rule, [key_heads, value_heads], [key_dim, value_dim])?;
    }
    Ok(Some(delta))
}
