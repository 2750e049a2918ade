//! The files of a model directory that decide what the model says, and their digests. Evaluations, stages, splits and
//! the record of a run's inputs compare these digests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burnish_model::Model;

use crate::RunError;
use burnish_rundir::files::{FileError, file_digest};

/// Endings of the files in a model directory that decide what it says: weights, configuration, tokenizer, template.
const DECISIVE: [&str; 3] = [".safetensors", ".json", ".jinja"];

/// Prefix of files in a checkpoint that say nothing about the policy.
const TRAINER: &str = "trainer";

/// Digests of all files that decide what the policy in `dir` says, including those of its base if it is an adapter.
///
/// # Errors
/// Names the file that can't be read.
pub(crate) fn policy_digests(dir: &Path) -> Result<BTreeMap<String, String>, RunError> {
    policy_files(dir)?.into_iter().map(|(name, path)| Ok((name, file_digest(&path)?))).collect()
}

/// All files that decide what the policy in `dir` says, by name, including those of its base if it is an adapter.
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
