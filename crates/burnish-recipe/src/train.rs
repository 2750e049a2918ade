//! `[train]`: how the policy learns, and from how much data at once.

use burnish_train::Checkpointing;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How the policy learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Group-relative policy optimisation on the policy's own episodes.
    Grpo,
    /// Imitation of given answers.
    Sft,
    /// Learning from given answers, of which some are better than others.
    Preference,
    /// A model that gives whole conversations a number, from the same rows as preferences.
    Reward,
    /// Not at all: the policy is evaluated, and is the run's result as it is.
    None,
}

/// `train.activation_checkpointing`: `"auto"`, `false`, `"selective"` or `true`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum ActivationCheckpointing {
    /// As little as the memory of the device allows.
    #[default]
    Auto,
    /// The same for every micro-batch.
    Always(Checkpointing),
}

impl From<ActivationCheckpointing> for Value {
    fn from(choice: ActivationCheckpointing) -> Self {
        match choice {
            ActivationCheckpointing::Auto => "auto".into(),
            ActivationCheckpointing::Always(Checkpointing::Off) => false.into(),
            ActivationCheckpointing::Always(Checkpointing::Selective) => "selective".into(),
            ActivationCheckpointing::Always(Checkpointing::Full) => true.into(),
        }
    }
}

impl TryFrom<Value> for ActivationCheckpointing {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let always = [Checkpointing::Off, Checkpointing::Selective, Checkpointing::Full];
        let all =
            always.map(ActivationCheckpointing::Always).into_iter().chain([ActivationCheckpointing::Auto]);
        all.into_iter()
            .find(|choice| Value::from(*choice) == value)
            .ok_or_else(|| format!("is {value}, and must be \"auto\", false, \"selective\" or true"))
    }
}

/// `[train]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSection {
    /// How the policy learns; `"grpo"` by default for a recipe with an environment and without rows to learn from.
    pub method: Method,
    /// Number of steps: one batch of episodes (GRPO) or of sequences (SFT) each.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_steps: u64,
    /// SFT, preferences: passes over the rows, instead of `max_steps`, which a run finds out from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_train_epochs: Option<f64>,
    /// Ends the run after so many evaluations in a row that were no better than the best one by `checkpoint.best`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<usize>,
    /// GRPO: passes over the episodes of a step.
    #[serde(default = "one")]
    pub epochs: usize,
    /// GRPO: optimiser updates per pass.
    #[serde(default = "one")]
    pub minibatches: usize,
    /// SFT: sequences per step. Preferences: rows per step; a row is one answer or a pair.
    #[serde(default = "sequences")]
    pub sequences_per_step: usize,
    /// Tokens per forward and backward pass. Bounds memory; changes gradients only by the rounding of sums.
    #[serde(default = "micro_batch_tokens")]
    pub micro_batch_tokens: usize,
    /// Parameters that are not trained, by their names in the checkpoint; `*` stands for any characters. They keep
    /// every bit, and have no gradient and no optimiser state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// What the backward pass computes again instead of keeping it. No bit of a result depends on it.
    #[serde(default)]
    pub activation_checkpointing: ActivationCheckpointing,
    /// GRPO: the run ends after this many steps in a row in which no episode could be judged. Such steps teach
    /// nothing.
    #[serde(default = "unscored_steps", skip_serializing_if = "is_unscored_steps")]
    pub unscored_steps_max: u64,
}

fn unscored_steps() -> u64 {
    3
}

/// This key was added later. It is left out at its default, so that older recipes keep their hash.
fn is_unscored_steps(steps: &u64) -> bool {
    *steps == unscored_steps()
}

fn is_zero(steps: &u64) -> bool {
    *steps == 0
}

fn one() -> usize {
    1
}

fn sequences() -> usize {
    64
}

fn micro_batch_tokens() -> usize {
    8192
}
