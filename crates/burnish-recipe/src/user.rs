//! `[user]`: who plays the simulated user of environments that have one.

use std::path::PathBuf;

use burnish_core::Sampling;
use burnish_reason::StrategyConfig;
use burnish_remote::endpoint::EndpointConfig;
use serde::{Deserialize, Serialize};

use crate::asked;

/// `[user]`: one of `path` and `endpoint`. It is never trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserSection {
    /// A model directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A server that speaks OpenAI's wire format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// Temperature that divides the logits; 0 is greedy.
    #[serde(default = "temperature")]
    pub temperature: f32,
    /// Most tokens of what it says in one turn.
    #[serde(default = "tokens_max")]
    pub tokens_max: usize,
    /// A strategy on top of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyConfig>,
}

fn temperature() -> f32 {
    1.0
}

fn tokens_max() -> usize {
    64
}

impl UserSection {
    /// The sampling of its tokens.
    pub fn sampling(&self) -> Sampling {
        Sampling::at(self.temperature, self.tokens_max)
    }

    /// Checks what the types don't guarantee.
    ///
    /// # Errors
    /// The key that is wrong, and what it must be.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        asked::check(self.path.as_deref(), self.endpoint.as_ref(), self.tokens_max)?;
        let sampling = self.sampling();
        sampling.check().map_err(|error| (error.field.to_owned(), format!("must be {}", error.range)))?;
        match &self.strategy {
            Some(strategy) => asked::check_strategy_of_other(strategy, &sampling, self.endpoint.as_ref()),
            None => Ok(()),
        }
    }
}
