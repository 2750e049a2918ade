//! What a checkpoint holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::adapter::{ADAPTER, AdapterInfo};
use crate::checkpoint::Checkpoint;
use crate::sweep::pieces;
use crate::{Float, WeightsError};

/// What a checkpoint holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The checkpoint.
    pub path: PathBuf,
    /// `architectures` or `model_type` of config.json.
    pub architecture: Option<String>,
    /// Of an adapter: its settings. Its tensors are then its factors.
    pub adapter: Option<AdapterInfo>,
    /// Whether config.json says that the head is the embedding.
    pub is_tied: bool,
    /// Its files, with their lengths in bytes.
    pub files: Vec<(String, usize)>,
    /// Number of elements of all tensors.
    pub parameters: u64,
    /// Bytes of all tensors.
    pub bytes: u64,
    /// Number of tensors, elements and bytes by type.
    pub types: BTreeMap<String, Total>,
    /// Its tensors in the order in which they are stored.
    pub tensors: Vec<TensorInfo>,
}

/// A sum over tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Total {
    /// How many.
    pub tensors: usize,
    /// Their elements.
    pub parameters: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TensorInfo {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Type of its numbers.
    pub dtype: String,
    /// Its file.
    pub file: String,
    /// What is wrong with its values, if they were looked at.
    pub problem: Option<String>,
}

/// Lists a checkpoint; with `checks_values`, all numbers are read, and what is not finite is reported.
///
/// # Errors
/// If the checkpoint can't be read.
pub fn inspect(path: &Path, checks_values: bool) -> Result<Inspection, WeightsError> {
    let adapter = AdapterInfo::read(path)?;
    let checkpoint = match adapter {
        Some(_) => Checkpoint::open(&path.join(ADAPTER))?,
        None => Checkpoint::open(path)?,
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut types: BTreeMap<String, Total> = BTreeMap::new();
    let mut tensors = Vec::with_capacity(checkpoint.len());
    for view in checkpoint.tensors() {
        let total = types.entry(view.dtype.to_string()).or_default();
        total.tensors += 1;
        total.parameters += view.len() as u64;
        total.bytes += view.bytes.len() as u64;
        let mut problem = None;
        if checks_values && Float::of(view.dtype).is_some() {
            let read = pieces(&[view], 0..view.len(), 1, |_| Ok(()));
            problem = read.err().map(|error| error.to_string());
        }
        tensors.push(TensorInfo {
            name: view.name.to_owned(),
            shape: view.shape.to_vec(),
            dtype: view.dtype.to_string(),
            file: name(view.path),
            problem,
        });
    }
    let architecture = checkpoint.config().and_then(|config| {
        let class = config.get("architectures").and_then(|classes| classes.get(0));
        class.or_else(|| config.get("model_type"))?.as_str().map(str::to_owned)
    });
    Ok(Inspection {
        path: path.to_owned(),
        architecture,
        adapter,
        is_tied: checkpoint.is_tied(),
        files: checkpoint.files().map(|(path, bytes)| (name(path), bytes)).collect(),
        parameters: types.values().map(|total| total.parameters).sum(),
        bytes: types.values().map(|total| total.bytes).sum(),
        types,
        tensors,
    })
}
