//! `[optimizer]`: how far each update goes.

use burnish_train::adamw::{AdamwConfig, MomentType};
use burnish_train::schedule::Decay;
use burnish_train::{CheckpointingBySize, PassConfig, TrainerConfig};
use serde::{Deserialize, Serialize};

use crate::Recipe;

/// `[optimizer]`: AdamW, with a warm-up and a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerSection {
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// Decoupled weight decay; norms and biases have none.
    pub weight_decay: f64,
    /// How the moments are kept: `"f32"`, or `"8bit"` as by bitsandbytes.
    #[serde(skip_serializing_if = "MomentType::is_f32")]
    pub moments: MomentType,
    /// Gradients with a larger norm are scaled down to this one; 0 switches it off.
    pub max_grad_norm: f64,
    /// Updates over which the learning rate rises from 0.
    pub warmup_updates: u64,
    /// How the learning rate falls after the warm-up.
    pub schedule: Decay,
    /// The learning rate at the end, as a share of the peak.
    pub final_share: f64,
}

impl Default for OptimizerSection {
    fn default() -> Self {
        OptimizerSection {
            learning_rate: 1e-6,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            moments: MomentType::F32,
            max_grad_norm: 1.0,
            warmup_updates: 0,
            schedule: Decay::Linear,
            final_share: 0.0,
        }
    }
}

impl OptimizerSection {
    /// AdamW's own settings.
    pub fn adamw(&self) -> AdamwConfig {
        AdamwConfig {
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            weight_decay: self.weight_decay,
            moments: self.moments,
        }
    }
}

impl Recipe {
    /// How the policy is trained, where `train.activation_checkpointing` comes to `checkpointing`.
    pub fn trainer_config(&self, checkpointing: CheckpointingBySize) -> TrainerConfig {
        let optimizer = &self.optimizer;
        TrainerConfig {
            adamw: optimizer.adamw(),
            grad_norm_max: (optimizer.max_grad_norm > 0.0).then_some(optimizer.max_grad_norm),
            pass: PassConfig {
                tokens_max: self.train.micro_batch_tokens,
                checkpointing,
                dropout: self.policy.lora.as_ref().filter(|lora| lora.dropout > 0.0).map(|_| self.run.seed),
            },
        }
    }
}
