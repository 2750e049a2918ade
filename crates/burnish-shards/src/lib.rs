//! The weight files of a checkpoint, mapped and checked against what they claim to hold.
//!
//! A checkpoint is a directory with one `model.safetensors`, or with several files and `model.safetensors.index.json`,
//! which names the file of each tensor; or it is one safetensors file. If a directory has both, the single file is
//! used, as in `transformers`. Nothing is assumed about the architecture.

mod adapter;
mod error;
mod index;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use burnish_tensor::{Mapped, map_file};
use safetensors::{Dtype, SafeTensors};

pub use adapter::adapter_base;
pub use error::ShardsError;

/// The file of a checkpoint that is one file.
pub const SINGLE: &str = "model.safetensors";
/// The list of a checkpoint's files.
pub const INDEX: &str = "model.safetensors.index.json";

/// The mapped weight files.
#[derive(Debug)]
pub struct Shards {
    list: PathBuf,
    files: Vec<(PathBuf, Mapped)>,
    /// Tensors by file; `None` for a single file, which lists its own.
    index: Option<BTreeMap<String, BTreeSet<String>>>,
}

/// Advice about files of llama.cpp.
const GGUF: &str =
    "GGUF, llama.cpp's format, is not read; fetch the safetensors files of the model that it was made from";

/// Where a tensor is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Index of its file in [`Shards::files`].
    pub file: usize,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its elements in that file, row by row, little-endian.
    pub bytes: Range<usize>,
}

impl Shards {
    /// Maps the files of the checkpoint `path`, a directory or a safetensors file. Their headers are read by
    /// [`Shards::entries`].
    ///
    /// # Errors
    /// Names the file that is missing, or the entry of the index that is wrong.
    pub fn open(path: &Path) -> Result<Self, ShardsError> {
        if path.is_file() {
            return Self::of_file(path);
        }
        let (single, list) = (path.join(SINGLE), path.join(INDEX));
        if single.exists() {
            return Self::of_file(&single);
        }
        if !list.exists() {
            return Err(ShardsError::malformed(path, what_is_there(path)));
        }
        let index = index::read(&list)?;
        let mut files = Vec::with_capacity(index.len());
        for (name, tensors) in &index {
            let file = path.join(name);
            if !file.exists() {
                let first = tensors.first().map_or("", String::as_str);
                let problem = format!(
                    "is missing, but {INDEX} lists {} tensors in it, the first {first}; fetch or save it again",
                    tensors.len()
                );
                return Err(ShardsError::malformed(&file, problem));
            }
            files.push(mapped(&file)?);
        }
        Ok(Shards { list, files, index: Some(index) })
    }

    fn of_file(path: &Path) -> Result<Self, ShardsError> {
        Ok(Shards { list: path.to_owned(), files: vec![mapped(path)?], index: None })
    }

    /// The file that lists the tensors: the index, or the single file itself.
    pub fn list(&self) -> &Path {
        &self.list
    }

    /// The names that the index lists; `None` for a single file.
    pub fn listed(&self) -> Option<BTreeSet<&str>> {
        Some(self.index.as_ref()?.values().flatten().map(String::as_str).collect())
    }

    /// The files with their bytes.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_path(), &**bytes))
    }

    /// The file `entry.file` and the bytes of the tensor.
    ///
    /// # Panics
    /// If the entry is not of these files.
    pub fn get(&self, entry: &Entry) -> (&Path, &[u8]) {
        let (path, bytes) = &self.files[entry.file];
        (path, &bytes[entry.bytes.clone()])
    }

    /// Reads the header of every file: all tensors in the order in which they are stored, file after file.
    ///
    /// # Errors
    /// Names the file that is truncated or not a safetensors file, or the first tensor for which the index names
    /// another file.
    pub fn entries(&self) -> Result<Vec<Entry>, ShardsError> {
        let mut entries = Vec::new();
        for (file, (path, bytes)) in self.files.iter().enumerate() {
            let here = read_header(path, bytes, file)?;
            if let Some(index) = &self.index {
                check_listed(path, index, &here)?;
            }
            entries.extend(here);
        }
        Ok(entries)
    }

    /// The first tensor with an element that is NaN or infinite. It reads every file once.
    ///
    /// # Errors
    /// As [`Shards::entries`].
    pub fn not_finite(&self) -> Result<Option<String>, ShardsError> {
        let entries = self.entries()?;
        let first = entries.into_iter().find(|entry| holds_not_finite(entry.dtype, self.get(entry).1));
        Ok(first.map(|entry| entry.name))
    }
}

/// Whether the exponent of an element has all its bits set, which is what NaN and infinities have in common.
fn holds_not_finite(dtype: Dtype, bytes: &[u8]) -> bool {
    let of_halves =
        |mask: u16| bytes.chunks_exact(2).any(|two| u16::from_le_bytes([two[0], two[1]]) & mask == mask);
    match dtype {
        Dtype::BF16 => of_halves(0x7f80),
        Dtype::F16 => of_halves(0x7c00),
        Dtype::F32 => bytes
            .chunks_exact(4)
            .any(|four| !f32::from_le_bytes([four[0], four[1], four[2], four[3]]).is_finite()),
        _ => false,
    }
}

fn mapped(path: &Path) -> Result<(PathBuf, Mapped), ShardsError> {
    let bytes = map_file(path).map_err(|source| ShardsError::read(path, source))?;
    Ok((path.to_owned(), bytes))
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
    if let Some(name) = of(".gguf") {
        return format!("holds {name}, but no safetensors file; {GGUF}");
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
fn read_header(path: &Path, bytes: &[u8], file: usize) -> Result<Vec<Entry>, ShardsError> {
    if bytes.starts_with(b"GGUF") {
        return Err(ShardsError::malformed(path, format!("is a GGUF file; {GGUF}")));
    }
    let damaged = |error| {
        let problem = format!(
            "truncated, or not a safetensors file ({error}); it has {} bytes; fetch or save it again",
            bytes.len()
        );
        ShardsError::malformed(path, problem)
    };
    // `deserialize` checks that the file holds all bytes that its header claims.
    SafeTensors::deserialize(bytes).map_err(damaged)?;
    let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
    // The header follows its own length, which is 8 bytes.
    let begin = 8 + header;
    let entries = metadata.offset_keys().into_iter().filter_map(|name| {
        let info = metadata.info(&name)?;
        let (start, end) = info.data_offsets;
        let (dtype, shape) = (info.dtype, info.shape.clone());
        Some(Entry { name, file, dtype, shape, bytes: begin + start..begin + end })
    });
    Ok(entries.collect())
}

/// Checks that a file holds exactly what the index lists for it.
fn check_listed(
    path: &Path,
    index: &BTreeMap<String, BTreeSet<String>>,
    entries: &[Entry],
) -> Result<(), ShardsError> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let here: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let listed: BTreeSet<&str> = index.get(&*file).into_iter().flatten().map(String::as_str).collect();
    if let Some(name) = listed.difference(&here).next() {
        let problem = format!("tensor {name} is not in it, but {INDEX} says so; fetch or save both again");
        return Err(ShardsError::malformed(path, problem));
    }
    if let Some(name) = here.difference(&listed).next() {
        let elsewhere = index.iter().find(|(_, names)| names.contains(*name));
        let where_listed = elsewhere.map_or("nowhere".into(), |(other, _)| format!("in {other}"));
        let problem = format!(
            "tensor {name} is in it, but {INDEX} lists it {where_listed}; it may be a stale copy; fetch or save both \
             again"
        );
        return Err(ShardsError::malformed(path, problem));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
