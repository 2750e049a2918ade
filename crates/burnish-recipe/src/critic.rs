//! `[critic]`: the model of values that PPO's advantages are measured against.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[critic]`. Its other optimiser settings and its minibatches are the policy's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CriticSection {
    /// A model directory with a head that outputs one number. Without it, the critic starts as a copy of the policy
    /// with a head of zeros.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Peak learning rate. Default: 1e-5, as in verl.
    pub learning_rate: f64,
    /// How far a value may move in one update; 0 means no limit. Default: 0.5, as in verl.
    pub clip_range: f64,
    /// Steps in which only the critic learns. Default: 0.
    pub warmup_steps: u64,
}

impl Default for CriticSection {
    fn default() -> Self {
        CriticSection { path: None, learning_rate: 1e-5, clip_range: 0.5, warmup_steps: 0 }
    }
}
