//! Everything that decides the records of an evaluation: `eval.json`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_core::Sampling;
use burnish_data::ColumnNames;
use burnish_model::Model;
use burnish_verify::Verifier;
use serde::{Deserialize, Serialize};

use super::sampling::SamplingFrom;
use crate::RunError;
use crate::files::FileError;

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

/// The policy that is evaluated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySettings {
    /// Its directory.
    pub path: String,
    /// Digest of the whole content of each of its files that decide what it says.
    pub files: BTreeMap<String, String>,
    /// In which type products with weights are computed.
    pub precision: String,
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

/// Endings of the files of a model directory that decide what it says: weights, configuration, tokenizer, template.
const DECISIVE: [&str; 3] = [".safetensors", ".json", ".jinja"];

/// Files with these endings in a checkpoint say nothing about the policy.
const TRAINER: &str = "trainer";

impl PolicySettings {
    /// Reads all files of the policy in `dir`, and of its base where it is an adapter.
    ///
    /// # Errors
    /// Names the file that can't be read.
    pub(crate) fn of(dir: &Path, precision: &str) -> Result<Self, RunError> {
        let files = policy_digests(dir)?;
        Ok(PolicySettings { path: dir.display().to_string(), files, precision: precision.to_owned() })
    }
}

/// Digests of all files that decide what the policy in `dir` says, and of its base where it is an adapter.
///
/// # Errors
/// Names the file that can't be read.
pub(crate) fn policy_digests(dir: &Path) -> Result<BTreeMap<String, String>, RunError> {
    policy_files(dir)?.into_iter().map(|(name, path)| Ok((name, file_digest(&path)?))).collect()
}

/// All files that decide what the policy in `dir` says, by name, and those of its base where it is an adapter.
///
/// # Errors
/// Names the file that can't be read.
pub(crate) fn policy_files(dir: &Path) -> Result<BTreeMap<String, PathBuf>, RunError> {
    let mut files = decisive_files(dir, "")?;
    if let Some(base) = Model::base_of(dir)? {
        files.append(&mut decisive_files(&base, "base/")?);
    }
    Ok(files)
}

fn decisive_files(dir: &Path, prefix: &str) -> Result<BTreeMap<String, PathBuf>, RunError> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(dir).map_err(FileError::on("list", dir))? {
        let path = entry.map_err(FileError::on("list", dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_decisive = DECISIVE.iter().any(|ending| name.ends_with(ending));
        if is_decisive && !name.starts_with(TRAINER) && path.is_file() {
            files.insert(format!("{prefix}{name}"), path);
        }
    }
    Ok(files)
}

/// The digest of a file's content.
///
/// # Errors
/// If it can't be read.
pub(crate) fn file_digest(path: &Path) -> Result<String, RunError> {
    Ok(burnish_env::file_digest(path).map_err(FileError::on("read", path))?)
}
