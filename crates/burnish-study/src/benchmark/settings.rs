//! Everything that decides the records of an evaluation: `eval.json`.

use burnish_core::Sampling;
use burnish_data::ColumnNames;
use burnish_env::rows::VerifierConfig;
use serde::{Deserialize, Serialize};

use super::sampling::SamplingFrom;
use burnish_run::records::PolicySettings;

/// Everything that decides the records of an evaluation.
///
/// Two evaluations with equal settings have equal records. Paths are recorded for people but not compared: what
/// counts is the content of the files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Version of burnish.
    pub burnish: String,
    /// Name of the benchmark.
    pub benchmark: String,
    /// The policy.
    pub policy: PolicySettings,
    /// The device that computed; the CPU if absent.
    #[serde(default = "cpu", skip_serializing_if = "is_cpu")]
    pub device: String,
    /// The data files, in the order in which they are played.
    pub data: Vec<DataSettings>,
    /// What judges.
    pub verifier: VerifierConfig,
    /// If answers are checked for the language of their item: the share of an answer that must be in it. Records from
    /// before this check have no such key, and can't be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language_share: Option<f64>,
    /// Items of each file; all if absent.
    pub limit: Option<usize>,
    /// Samples per item.
    pub samples: usize,
    /// How they are sampled.
    pub sampling: Sampling,
    /// What decided that.
    pub sampling_from: SamplingFrom,
    /// Seed of everything random.
    pub seed: u64,
    /// Sequences sampled at once; another number changes the rounding of sums.
    pub batch: usize,
    /// The strategy on top of the policy, and who is asked besides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<serde_json::Value>,
}

fn cpu() -> String {
    "cpu".to_owned()
}

fn is_cpu(device: &str) -> bool {
    device == "cpu"
}

/// One data file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataSettings {
    /// The file.
    pub path: String,
    /// Digest of its whole content.
    pub digest: String,
    /// The columns, if the user named some; otherwise those of the benchmark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<ColumnNames>,
    /// Number of items that are played.
    pub items: usize,
    /// The language, if the benchmark has several.
    pub language: Option<String>,
    /// The prompt, with `{question}` in place of the question.
    pub prompt: String,
}
