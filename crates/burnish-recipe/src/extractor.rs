//! `[extractor]`: the model that copies final answers out of responses that mark none (`reading = "judge"`).

use std::path::PathBuf;

use burnish_core::Sampling;
use burnish_remote::endpoint::EndpointConfig;
use serde::{Deserialize, Serialize};

use crate::asked;

/// `[extractor]`: one of `path` and `endpoint`. It answers greedily and is never trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtractorSection {
    /// A model directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A server that speaks OpenAI's wire format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// Most tokens of a copied answer.
    #[serde(default = "tokens_max")]
    pub tokens_max: usize,
}

fn tokens_max() -> usize {
    64
}

impl ExtractorSection {
    /// The sampling of its tokens.
    pub fn sampling(&self) -> Sampling {
        Sampling::greedy(self.tokens_max)
    }

    /// Checks what the types don't guarantee.
    ///
    /// # Errors
    /// The key that is wrong, and what it must be.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        asked::check(self.path.as_deref(), self.endpoint.as_ref(), self.tokens_max)
    }
}
