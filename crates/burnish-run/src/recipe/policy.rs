//! Which policy is trained, and how it is loaded.

use std::path::PathBuf;

use burnish_core::rng::{Address, Purpose};
use burnish_model::{Loading, LoraConfig, ModelShape, Trains};
use burnish_tensor::Precision;
use serde::{Deserialize, Serialize};

/// `[policy]`: a model directory in the Hugging Face layout, or a new model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySection {
    /// Directory with `config.json`, `model.safetensors`, `tokenizer.json` and a chat template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// A model of this shape with random weights, and a byte-level BPE tokenizer trained on the texts that it
    /// will imitate (SFT only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<ModelShape>,
    /// In which type products with weights are computed, in sampling and in training.
    #[serde(default)]
    pub precision: ComputeType,
    /// Trains a low-rank adapter over the frozen policy, instead of every parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
}

/// `policy.precision`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComputeType {
    /// 32 bits.
    #[default]
    F32,
    /// Operands rounded to bf16, sums in f32; masters of what is trained stay in f32.
    Bf16,
}

impl PolicySection {
    /// How the policy is loaded to be trained.
    pub fn training(&self, run_seed: u64) -> Loading {
        let trains = match &self.lora {
            Some(lora) => Trains::Adapter(lora.clone(), Address::new(run_seed, Purpose::Init).seed()),
            None => Trains::All,
        };
        Loading { precision: self.precision.into(), trains }
    }

    /// How it is loaded to be sampled from.
    pub fn sampling(&self) -> Loading {
        Loading { precision: self.precision.into(), trains: Trains::Nothing }
    }
}

impl From<ComputeType> for Precision {
    fn from(compute: ComputeType) -> Self {
        match compute {
            ComputeType::F32 => Precision::F32,
            ComputeType::Bf16 => Precision::Bf16,
        }
    }
}
