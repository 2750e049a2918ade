//! Which delta rule the linear layers of `BurnishHybridForCausalLM` follow.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::keys::Keys;
use crate::ConfigError;

/// A rule for the state `S` `[key_dim, value_dim]` of a head. All of them are
/// `S_t = (I - k̃ k̃ᵀ) Diag(α) S_{t-1} + k̃ ṽᵀ`, with unit keys `k` and a rate `β` in `(0, 1)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Nothing decays, one rate per head: DeltaNet (arXiv:2406.06484). `k̃ ṽᵀ = β k vᵀ`.
    DeltaNet,
    /// One decay and one rate per head: Gated DeltaNet (arXiv:2412.06464).
    Gdn,
    /// A decay per channel of the key, one rate per head: Kimi Delta Attention (arXiv:2510.26692).
    Kda,
    /// A decay and a rate per channel: `k̃ = √β ⊙ k`, `ṽ = √β ⊙ v` (arXiv:2604.19021).
    Fg2Gdn,
    /// As [`Rule::Fg2Gdn`], with rates of their own for what is erased and for what is written: `k̃ = √β_k ⊙ k`,
    /// `ṽ = √β_v ⊙ v` (arXiv:2604.19021).
    Fg2GdnPlus,
}

/// How the state decays from token to token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decay {
    None,
    PerHead,
    PerChannel,
}

/// How much of a key is erased and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rate {
    PerHead,
    /// One for each channel, of keys and values alike.
    PerChannel,
    /// One for each channel of the keys, which erases, and one for each channel of the values, which writes.
    EraseWrite,
}

impl Rule {
    const ALL: [Rule; 5] = [Rule::DeltaNet, Rule::Gdn, Rule::Kda, Rule::Fg2Gdn, Rule::Fg2GdnPlus];

    /// Its name in `config.json` and in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Rule::DeltaNet => "delta_net",
            Rule::Gdn => "gdn",
            Rule::Kda => "kda",
            Rule::Fg2Gdn => "fg2_gdn",
            Rule::Fg2GdnPlus => "fg2_gdn_plus",
        }
    }

    pub(crate) fn decay(self) -> Decay {
        match self {
            Rule::DeltaNet => Decay::None,
            Rule::Gdn => Decay::PerHead,
            Rule::Kda | Rule::Fg2Gdn | Rule::Fg2GdnPlus => Decay::PerChannel,
        }
    }

    pub(crate) fn rate(self) -> Rate {
        match self {
            Rule::DeltaNet | Rule::Gdn | Rule::Kda => Rate::PerHead,
            Rule::Fg2Gdn => Rate::PerChannel,
            Rule::Fg2GdnPlus => Rate::EraseWrite,
        }
    }
}

/// The rule, and the ranks of its projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RuleKeys {
    pub(super) rule: Option<Rule>,
    pub(super) decay_rank: Option<usize>,
    pub(super) rate_rank: Option<usize>,
    pub(super) gate_rank: Option<usize>,
}

/// Reads `linear_rule` and the ranks that it uses; `value_dim` is the default of ranks, as in flash-linear-attention.
pub(super) fn read(keys: &Keys<'_>, value_dim: usize) -> Result<RuleKeys, ConfigError> {
    const RULE: &str = "linear_rule";
    let names = Rule::ALL.map(|rule| format!("\"{}\"", rule.name())).join(", ");
    let Some(value) = keys.get(RULE) else {
        return Err(ConfigError::Missing { key: RULE.into(), expected: names });
    };
    let Some(rule) = Rule::ALL.into_iter().find(|rule| value.as_str() == Some(rule.name())) else {
        return Err(Keys::unsupported(RULE, value, names));
    };
    let rank = |key, is_used: bool, why: &str| match keys.get(key) {
        Some(_) if is_used => keys.size(key, 1 << 16).map(Some),
        Some(value) => {
            Err(Keys::unsupported(key, value, format!("no such key: {why} with {RULE} \"{}\"", rule.name())))
        }
        None => Ok(None),
    };
    let by_channel = rule.decay() == Decay::PerChannel;
    let decay_rank = rank("linear_decay_rank", by_channel, "decays are not per channel")?;
    Ok(RuleKeys {
        rule: Some(rule),
        decay_rank: by_channel.then_some(decay_rank.unwrap_or(value_dim)),
        rate_rank: rank("linear_rate_rank", rule.rate() != Rate::PerHead, "rates are per head")?,
        gate_rank: Some(rank("linear_gate_rank", true, "")?.unwrap_or(value_dim)),
    })
}

/// The sizes that rates per channel need.
pub(super) fn check_heads(
    rule: Rule,
    [key_heads, value_heads]: [usize; 2],
    [key_dim, value_dim]: [usize; 2],
) -> Result<(), ConfigError> {
    let name = rule.name();
    if rule.rate() != Rate::PerHead && key_heads != value_heads {
        let expected =
            format!("linear_num_key_heads {key_heads}: \"{name}\" has a rate per channel of a key");
        return Err(Keys::invalid("linear_num_value_heads", &Value::from(value_heads), expected));
    }
    if rule.rate() == Rate::PerChannel && key_dim != value_dim {
        let expected = format!(
            "linear_key_head_dim {key_dim}: \"{name}\" has the same rates for keys and values \
             (\"{}\" has rates for each)",
            Rule::Fg2GdnPlus.name()
        );
        return Err(Keys::invalid("linear_value_head_dim", &Value::from(value_dim), expected));
    }
    Ok(())
}
