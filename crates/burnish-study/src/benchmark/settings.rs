//! Everything that decides the records of an evaluation: `eval.json`.

use burnish_core::Sampling;
use burnish_data::ColumnNames;
use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

use super::sampling::SamplingFrom;
use burnish_run::records::PolicySettings;

/// Everything that decides the records of an evaluation.
///
/// Two evaluations with equal settings have equal records. Paths are noted for people and are not compared: what
/// counts is the content of what lies there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Version of burnish.
    pub burnish: String,
    /// Name of the benchmark.
    pub benchmark: String,
    /// The policy.
    pub policy: PolicySettings,
    /// What computed; the CPU if absent.
    #[serde(default = "cpu", skip_serializing_if = "is_cpu")]
    pub device: String,
    /// The data files, in the order in which they are played.
    pub data: Vec<DataSettings>,
    /// What judges.
    pub verifier: Verifier,
    /// Where answers are checked for the language of their item: the share of an answer that must be in it. Records from
    /// before there was this check have no such key, and are not gone on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language_share: Option<f64>,
    /// Items of each file; all if absent.
    pub limit: Option<usize>,
    /// Samples of each item.
    pub samples: usize,
    /// How they are chosen.
    pub sampling: Sampling,
    /// Where that comes from.
    pub sampling_from: SamplingFrom,
    /// Seed of everything random.
    pub seed: u64,
    /// Sequences that are played together; another number changes the rounding of sums.
    pub batch: usize,
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
    /// The columns that were named; those of the benchmark if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<ColumnNames>,
    /// Items that are played.
    pub items: usize,
    /// The language, where the benchmark has several.
    pub language: Option<String>,
    /// The prompt, with `{question}` where the question stands.
    pub prompt: String,
}
