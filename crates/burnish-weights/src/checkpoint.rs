//! A source: the tensors of a checkpoint, mapped, and read as they are touched.
//!
//! A checkpoint is a directory with one `model.safetensors`, or with several files that
//! `model.safetensors.index.json` lists, or one safetensors file. If a directory has both, the single file is used, as
//! in `transformers`. Nothing is assumed about the architecture.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use burnish_tensor::{Mapped, map_file};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::index::read_index;
use crate::{Float, WeightsError};

/// The file of a checkpoint that is one file.
pub const SINGLE: &str = "model.safetensors";
/// The list of a checkpoint's files.
pub const INDEX: &str = "model.safetensors.index.json";
/// A checkpoint's configuration.
pub const CONFIG: &str = "config.json";

/// The tensors of a checkpoint.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    files: Vec<(PathBuf, Mapped)>,
    entries: BTreeMap<String, Entry>,
    /// Names in the order in which they are stored, file after file.
    stored: Vec<String>,
    config: Option<Value>,
}

/// Where a tensor is.
#[derive(Debug)]
struct Entry {
    file: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Range<usize>,
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
    /// Its numbers, row by row, little-endian.
    pub bytes: &'a [u8],
}

impl View<'_> {
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
            return Ok(());
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
    /// Maps the files of the checkpoint `path`, a directory or a safetensors file, and reads their headers.
    ///
    /// # Errors
    /// Names the file that is missing, truncated or not a safetensors file, or the entry of the index that is wrong.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        if path.is_file() {
            return Self::of_files(path, vec![path.to_owned()], None, None);
        }
        if !path.is_dir() {
            let problem = "there is no such directory; a checkpoint is a local directory or a safetensors file (a name \
                           on a hub: fetch it first)";
            return Err(WeightsError::malformed(path, problem));
        }
        let config = read_config(&path.join(CONFIG))?;
        let (single, list) = (path.join(SINGLE), path.join(INDEX));
        if single.exists() {
            return Self::of_files(path, vec![single], None, config);
        }
        if !list.exists() {
            return Err(WeightsError::malformed(path, what_is_there(path)));
        }
        let index = read_index(&list)?;
        let mut files = Vec::with_capacity(index.len());
        for (name, tensors) in &index {
            let file = path.join(name);
            if !file.exists() {
                let first = tensors.first().map_or("", String::as_str);
                let problem = format!(
                    "is missing, but {INDEX} lists {} tensors in it, the first {first}; fetch or save it again",
                    tensors.len()
                );
                return Err(WeightsError::malformed(&file, problem));
            }
            files.push(file);
        }
        Self::of_files(path, files, Some(&index), config)
    }

    fn of_files(
        path: &Path,
        paths: Vec<PathBuf>,
        index: Option<&BTreeMap<String, BTreeSet<String>>>,
        config: Option<Value>,
    ) -> Result<Self, WeightsError> {
        let mut checkpoint = Checkpoint {
            path: path.to_owned(),
            files: Vec::with_capacity(paths.len()),
            entries: BTreeMap::new(),
            stored: Vec::new(),
            config,
        };
        for path in paths {
            let mapped = map_file(&path).map_err(|source| WeightsError::read(&path, source))?;
            let entries = read_header(&path, &mapped)?;
            if let Some(index) = index {
                check_listed(&path, index, &entries)?;
            }
            for (name, mut entry) in entries {
                entry.file = checkpoint.files.len();
                checkpoint.stored.push(name.clone());
                checkpoint.entries.insert(name, entry);
            }
            checkpoint.files.push((path, mapped));
        }
        Ok(checkpoint)
    }

    /// The directory or the file that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files that hold its tensors, with their lengths in bytes.
    pub fn files(&self) -> impl Iterator<Item = (&Path, usize)> {
        self.files.iter().map(|(path, bytes)| (path.as_path(), bytes.len()))
    }

    /// The names of its tensors in the order in which they are stored.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.stored.iter().map(String::as_str)
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
        let (name, entry) = self.entries.get_key_value(name)?;
        let (path, bytes) = self.files.get(entry.file)?;
        Some(View {
            path,
            name,
            dtype: entry.dtype,
            shape: &entry.shape,
            bytes: bytes.get(entry.bytes.clone())?,
        })
    }

    /// All tensors in the order in which they are stored.
    pub fn tensors(&self) -> impl Iterator<Item = View<'_>> {
        self.stored.iter().filter_map(|name| self.get(name))
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

/// Why a directory is not a checkpoint, by what is in it.
fn what_is_there(dir: &Path) -> String {
    let names = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let of = |end: &str| names.iter().find(|name| name.ends_with(end));
    if let Some(name) = of(".safetensors") {
        return format!(
            "holds {name}, but neither {SINGLE} nor {INDEX}, which says which file holds which tensor; fetch the index, \
             or name the file itself if it is the only one"
        );
    }
    match of(".bin").or_else(|| of(".pt")).or_else(|| of(".pth")) {
        Some(name) => format!(
            "holds {name}, but no safetensors file; load it with transformers and save it with \
             `save_pretrained(..., safe_serialization=True)`"
        ),
        None => format!("holds no weights: there is neither {SINGLE} nor {INDEX}"),
    }
}

/// The tensors of one file in the order of their bytes.
fn read_header(path: &Path, bytes: &[u8]) -> Result<Vec<(String, Entry)>, WeightsError> {
    let damaged = |error| {
        let problem = format!(
            "truncated, or not a safetensors file ({error}); it has {} bytes; fetch or save it again",
            bytes.len()
        );
        WeightsError::malformed(path, problem)
    };
    // `deserialize` checks that the file holds all bytes that its header claims.
    SafeTensors::deserialize(bytes).map_err(damaged)?;
    let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    // The header follows its own length, which is 8 bytes.
    let begin = 8 + header;
    let entries = metadata.offset_keys().into_iter().filter_map(|name| {
        let info = metadata.info(&name)?;
        let (start, end) = info.data_offsets;
        let entry = Entry {
            file: 0,
            dtype: info.dtype,
            shape: info.shape.clone(),
            bytes: begin + start..begin + end,
        };
        Some((name, entry))
    });
    Ok(entries.collect())
}

/// Checks that a file holds exactly what the index lists for it.
fn check_listed(
    path: &Path,
    index: &BTreeMap<String, BTreeSet<String>>,
    entries: &[(String, Entry)],
) -> Result<(), WeightsError> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let here: BTreeSet<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
    let listed: BTreeSet<&str> = index.get(&*file).into_iter().flatten().map(String::as_str).collect();
    if let Some(name) = listed.difference(&here).next() {
        let problem = format!("is not in it, but {INDEX} says so; fetch or save both again");
        return Err(WeightsError::tensor(path, name, problem));
    }
    if let Some(name) = here.difference(&listed).next() {
        let elsewhere = index.iter().find(|(_, names)| names.contains(*name));
        let where_listed = elsewhere.map_or("nowhere".into(), |(other, _)| format!("in {other}"));
        let problem = format!(
            "is in it, but {INDEX} lists it {where_listed}; it may be a stale copy; fetch or save both again"
        );
        return Err(WeightsError::tensor(path, name, problem));
    }
    Ok(())
}
