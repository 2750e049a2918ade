//! A source: the tensors of a checkpoint, mapped, and read as they are touched. Nothing is assumed about the
//! architecture.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use burnish_shards::{Entry, Shards};
use safetensors::Dtype;
use serde_json::Value;

use crate::adapter::{AdapterInfo, Delta, deltas};
use crate::{Float, WeightsError};

/// A checkpoint's configuration.
pub const CONFIG: &str = "config.json";
/// Keys of the number of layers in it.
pub(crate) const LAYER_COUNTS: [&str; 4] = ["num_hidden_layers", "n_layer", "num_layers", "n_layers"];

/// The tensors of a checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    shards: Shards,
    /// In the order in which they are stored, file after file.
    entries: Vec<Entry>,
    /// Indices of `entries` by name.
    by_name: BTreeMap<String, usize>,
    config: Option<Value>,
    /// An adapter's changes, by the names of tensors.
    deltas: BTreeMap<String, Delta>,
}

/// A tensor as it is stored.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The file that holds it.
    pub path: &'a Path,
    /// Its name in that file.
    pub name: &'a str,
    /// Type of its numbers.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: &'a [usize],
    /// Its numbers, row by row, little-endian; of a tensor that an adapter changes, those of the base.
    pub bytes: &'a [u8],
    delta: Option<&'a Delta>,
}

impl<'a> View<'a> {
    /// A tensor as its file has it.
    pub(crate) fn new(path: &'a Path, entry: &'a Entry, bytes: &'a [u8]) -> Self {
        View { path, name: &entry.name, dtype: entry.dtype, shape: &entry.shape, bytes, delta: None }
    }

    /// Does an adapter change it, so that `bytes` are not its numbers?
    pub fn is_adapted(&self) -> bool {
        self.delta.is_some()
    }

    /// Are the bytes of both the same, and their numbers?
    pub(crate) fn is_same(&self, other: &View<'_>) -> bool {
        !self.is_adapted() && !other.is_adapted() && self.bytes == other.bytes
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of its numbers, if they can be combined.
    ///
    /// # Errors
    /// If they can only be copied.
    pub fn float(&self) -> Result<Float, WeightsError> {
        Float::of(self.dtype).ok_or_else(|| {
            self.error(format!("is stored as {}; what can be computed with is F32, BF16 and F16", self.dtype))
        })
    }

    /// Elements `range`, as f32.
    ///
    /// # Errors
    /// If they can't be computed with, or one is not finite.
    pub(crate) fn read(&self, range: Range<usize>, out: &mut [f32]) -> Result<(), WeightsError> {
        let float = self.float()?;
        let start = range.start;
        let bytes = &self.bytes[start * float.width()..range.end * float.width()];
        if float.decode(bytes, out) {
            let Some(delta) = self.delta else { return Ok(()) };
            delta.add(range, out);
            if out.iter().all(|value| value.is_finite()) {
                return Ok(());
            }
        }
        let at = out.iter().position(|value| !value.is_finite()).unwrap_or_default();
        Err(self.error(format!(
            "has the value {} at element {}; merging would spread it",
            out[at],
            place(start + at, self.shape)
        )))
    }

    /// All elements, as f32.
    ///
    /// # Errors
    /// As [`View::read`].
    pub(crate) fn values(&self) -> Result<Vec<f32>, WeightsError> {
        let mut values = vec![0.0; self.len()];
        self.read(0..values.len(), &mut values)?;
        Ok(values)
    }

    pub(crate) fn error(&self, problem: String) -> WeightsError {
        WeightsError::tensor(self.path, self.name, problem)
    }
}

/// The indices of element `at` of a tensor.
pub(crate) fn place(mut at: usize, shape: &[usize]) -> String {
    let mut indices = Vec::new();
    for &size in shape.iter().rev() {
        indices.push((at % size.max(1)).to_string());
        at /= size.max(1);
    }
    indices.reverse();
    format!("[{}]", indices.join(", "))
}

impl Checkpoint {
    /// Maps the files of the checkpoint `path`, a directory or a safetensors file, and reads their headers. An adapter's
    /// directory is its base with what the adapter changes.
    ///
    /// # Errors
    /// Names the file that is missing, truncated or not a safetensors file, or the entry of the index that is wrong.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        if !path.exists() {
            let problem = "there is no such directory; a checkpoint is a local directory or a safetensors file (a name \
                           on a hub: fetch it first)";
            return Err(WeightsError::malformed(path, problem));
        }
        if let Some(info) = AdapterInfo::read(path)? {
            return Self::adapted(&info.base_dir(path)?, path, &info);
        }
        Self::open_plain(path)
    }

    /// The model in `base` with the adapter (PEFT) in `adapter`.
    ///
    /// # Errors
    /// As [`Checkpoint::open`], or if the adapter is none of this base.
    pub fn open_with(base: &Path, adapter: &Path) -> Result<Self, WeightsError> {
        match AdapterInfo::read(adapter)? {
            Some(info) => Self::adapted(base, adapter, &info),
            None => Err(WeightsError::malformed(
                adapter,
                "is no adapter: it has no adapter_config.json; name the directory that PEFT or burnish saved it in",
            )),
        }
    }

    fn adapted(base: &Path, adapter: &Path, info: &AdapterInfo) -> Result<Self, WeightsError> {
        if AdapterInfo::read(base)?.is_some() {
            let problem =
                "is an adapter itself; merge it first (`burnish merge`), and name the result as the base";
            return Err(WeightsError::malformed(base, problem));
        }
        let mut checkpoint = Self::open_plain(base)?;
        checkpoint.deltas = deltas(adapter, info, &checkpoint)?;
        Ok(checkpoint)
    }

    /// As [`Checkpoint::open`], of a checkpoint that is no adapter.
    fn open_plain(path: &Path) -> Result<Self, WeightsError> {
        let config = if path.is_dir() { read_config(&path.join(CONFIG))? } else { None };
        let shards = Shards::open(path)?;
        let entries = shards.entries()?;
        let by_name = entries.iter().enumerate().map(|(at, entry)| (entry.name.clone(), at)).collect();
        Ok(Checkpoint { path: path.to_owned(), shards, entries, by_name, config, deltas: BTreeMap::new() })
    }

    /// The directory or the file that was opened; of an adapter, its base.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files that hold its tensors, with their lengths in bytes.
    pub fn files(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.shards.files().map(|(path, bytes)| (path, bytes.len()))
    }

    /// The names of its tensors in the order in which they are stored.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it holds no tensor.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The tensor of this name.
    pub fn get(&self, name: &str) -> Option<View<'_>> {
        Some(self.view(self.entries.get(*self.by_name.get(name)?)?))
    }

    /// All tensors in the order in which they are stored.
    pub fn tensors(&self) -> impl Iterator<Item = View<'_>> {
        self.entries.iter().map(|entry| self.view(entry))
    }

    fn view<'a>(&'a self, entry: &'a Entry) -> View<'a> {
        let (path, bytes) = self.shards.get(entry);
        View { delta: self.deltas.get(&entry.name), ..View::new(path, entry, bytes) }
    }

    /// Its `config.json`, if it has one.
    pub fn config(&self) -> Option<&Value> {
        self.config.as_ref()
    }

    /// A value of `config.json`: of the whole, or of its text model, as models with eyes have it.
    pub fn setting(&self, key: &str) -> Option<&Value> {
        let config = self.config()?;
        let found = |map: &'_ Value| map.get(key).is_some_and(|value| !value.is_null());
        if found(config) { config.get(key) } else { config.get("text_config")?.get(key) }
    }

    /// The number of layers that `config.json` says.
    pub(crate) fn layers(&self) -> Option<usize> {
        LAYER_COUNTS.into_iter().find_map(|key| self.setting(key)?.as_u64()).map(|count| count as usize)
    }

    /// Whether `config.json` says that the head is the embedding.
    pub fn is_tied(&self) -> bool {
        self.setting("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false)
    }
}

fn read_config(path: &Path) -> Result<Option<Value>, WeightsError> {
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read(path).map_err(|source| WeightsError::read(path, source))?;
    let config = serde_json::from_slice(&text);
    config.map(Some).map_err(|error| WeightsError::malformed(path, format!("not JSON: {error}")))
}
