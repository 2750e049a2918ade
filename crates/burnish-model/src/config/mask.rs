//! Models of masked diffusion: they read in both directions, and an id of theirs stands for a token not known yet
//! (LLaDA, Nie et al. 2025, arXiv:2502.09992). transformers 5 takes `is_causal: false` for every decoder.

use burnish_tensor::Visibility;
use serde_json::json;

use super::keys::Keys;
use super::{Architecture, ModelConfig, SIZE_MAX};
use crate::ConfigError;

impl ModelConfig {
    /// The same, reading in both directions, where `mask_token_id` stands for a token that is not known yet.
    ///
    /// # Errors
    /// As [`ModelConfig::from_json`], if the id does not exist or some layers can't read in both directions.
    pub fn masked(&self, mask_token_id: u32) -> Result<Self, ConfigError> {
        let mut json = self.json.clone();
        json["is_causal"] = json!(false);
        json["mask_token_id"] = json!(mask_token_id);
        ModelConfig::from_json(json)
    }

    /// How the tokens of a sequence see each other.
    pub fn visibility(&self) -> Visibility {
        if self.mask_token_id.is_some() { Visibility::Bidirectional } else { Visibility::Causal }
    }
}

/// The id of the mask of a model that is not causal.
pub(super) fn read(keys: &Keys<'_>, architecture: Architecture) -> Result<Option<u32>, ConfigError> {
    const KEY: &str = "is_causal";
    if keys.flag(KEY, true)? {
        return Ok(None);
    }
    if architecture.has_delta_rule() {
        return Err(Keys::unsupported(KEY, &json!(false), "true: a delta rule goes from token to token"));
    }
    let vocab = keys.size("vocab_size", SIZE_MAX)? as u64;
    let expected = || {
        format!(
            "the id of the mask, below vocab_size {vocab}: a model that reads in both directions answers by denoising"
        )
    };
    match keys.get("mask_token_id") {
        None => Err(ConfigError::Missing { key: "mask_token_id".into(), expected: expected() }),
        Some(value) => match value.as_u64().filter(|id| *id < vocab) {
            Some(id) => Ok(Some(id as u32)),
            None => Err(Keys::invalid("mask_token_id", value, expected())),
        },
    }
}
