//! Which policy is trained, and how it is loaded.

use std::fmt;
use std::path::PathBuf;

use burnish_core::rng::{Address, Purpose};
pub use burnish_model::TextTokens;
use burnish_model::{Loading, LoraConfig, ModelShape, Trains};
use burnish_tensor::Precision;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Recipe;

/// `[policy]`: a model directory in the Hugging Face layout, the result of another recipe, or a new model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySection {
    /// A directory with `config.json`, `model.safetensors`, `tokenizer.json` and a chat template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The last checkpoint of another recipe's run, which is made first if it does not exist yet (`docs/stages.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<StageRecipe>,
    /// A file with a chat template to use instead of the policy's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_template: Option<PathBuf>,
    /// How control tokens are read that users, tools and environments write.
    #[serde(default, skip_serializing_if = "is_literal")]
    pub text_tokens: TextTokens,
    /// A model of this shape with random weights, and a byte-level BPE tokenizer trained on the texts to imitate (SFT
    /// only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<ModelShape>,
    /// The number type of products with weights, in sampling and in training.
    #[serde(default)]
    pub precision: ComputeType,
    /// Trains a low-rank adapter on the frozen policy instead of all parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
}

/// `policy.from`: `"recipes/sft.toml"`, or a table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StageRecipe {
    /// The recipe whose run makes the policy.
    pub recipe: PathBuf,
    /// Overrides of that recipe, `key.sub=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// A hash of everything that decides the policy, as 16 hexadecimal digits. A run records it; if it is given, a
    /// policy with another hash is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl<'de> Deserialize<'de> for StageRecipe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            recipe: PathBuf,
            #[serde(default)]
            set: Vec<String>,
            #[serde(default)]
            hash: Option<String>,
        }

        struct PathOrTable;

        impl<'de> Visitor<'de> for PathOrTable {
            type Value = StageRecipe;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a recipe file, or a table such as { recipe = \"recipes/sft.toml\", set = [\"run.seed=2\"] }")
            }

            fn visit_str<E: Error>(self, recipe: &str) -> Result<StageRecipe, E> {
                Ok(StageRecipe { recipe: recipe.into(), ..StageRecipe::default() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<StageRecipe, A::Error> {
                let Table { recipe, set, hash } = Table::deserialize(MapAccessDeserializer::new(map))?;
                Ok(StageRecipe { recipe, set, hash })
            }
        }

        deserializer.deserialize_any(PathOrTable)
    }
}

/// `policy.precision`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComputeType {
    /// 32 bits.
    #[default]
    F32,
    /// Operands rounded to bf16, sums in f32; the master weights of what is trained stay in f32. On a GPU, values
    /// between operations are bf16 too.
    Bf16,
}

fn is_literal(text_tokens: &TextTokens) -> bool {
    *text_tokens == TextTokens::Literal
}

impl PolicySection {
    /// How to load it for sampling.
    pub fn sampling(&self) -> Loading {
        let precision = self.precision.into();
        Loading { precision, trains: Trains::Nothing, text_tokens: self.text_tokens }
    }
}

impl Recipe {
    /// How to load the policy for training.
    pub fn training(&self) -> Loading {
        let seed = Address::new(self.run.seed, Purpose::Init).seed();
        let trains = match &self.policy.lora {
            Some(lora) => Trains::Adapter(lora.clone(), seed),
            None if self.train.freeze.is_empty() => Trains::All,
            None => Trains::Except(self.train.freeze.clone()),
        };
        Loading { trains, ..self.policy.sampling() }
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
