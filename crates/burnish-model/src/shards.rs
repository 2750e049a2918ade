//! The weight files of a model directory, mapped and checked against what they claim to hold.
//!
//! Either one `model.safetensors`, or several files with `model.safetensors.index.json`, which names the file of each
//! tensor. If both exist, the single file is used, as in `transformers`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use burnish_tensor::{Mapped, map_file};
use safetensors::tensor::{SafeTensors, TensorView};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use crate::{ModelError, files};

pub(crate) const SINGLE: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// The mapped weight files.
pub(crate) struct Shards {
    /// The file that lists the tensors: the index, or the single file itself.
    pub(crate) list: PathBuf,
    files: Vec<(PathBuf, Mapped)>,
    /// Tensors by file; `None` for a single file, which lists its own.
    index: Option<BTreeMap<String, BTreeSet<String>>>,
}

/// The tensors of all files by name, each with its file.
pub(crate) struct Tensors<'a>(BTreeMap<String, (&'a Path, TensorView<'a>)>);

impl<'a> Tensors<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&(&'a Path, TensorView<'a>)> {
        self.0.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Shards {
    /// Maps the files of a model directory.
    ///
    /// # Errors
    /// Names the file that is missing, or the entry of the index that is wrong.
    pub(crate) fn open(dir: &Path) -> Result<Self, ModelError> {
        let map = |path: &Path| map_file(path).map_err(|source| ModelError::read(path, source));
        let (single, list) = (dir.join(SINGLE), dir.join(INDEX));
        if single.exists() || !list.exists() {
            let files = vec![(single.clone(), map(&single)?)];
            return Ok(Shards { list: single, files, index: None });
        }
        let index = read_index(&list)?;
        let mut files = Vec::with_capacity(index.len());
        for (name, tensors) in &index {
            let path = dir.join(name);
            if !path.exists() {
                let first = tensors.first().map_or("", String::as_str);
                let problem = format!(
                    "is missing, but {INDEX} lists {} tensors in it, the first {first}; fetch or save it again",
                    tensors.len()
                );
                return Err(ModelError::malformed(&path, problem));
            }
            files.push((path.clone(), map(&path)?));
        }
        Ok(Shards { list, files, index: Some(index) })
    }

    /// The names that the index lists; `None` for a single file.
    pub(crate) fn listed(&self) -> Option<BTreeSet<&str>> {
        Some(self.index.as_ref()?.values().flatten().map(String::as_str).collect())
    }

    /// Reads the header of every file.
    ///
    /// # Errors
    /// Names the file that is not a safetensors file, or the first tensor for which the index names another file.
    pub(crate) fn parse(&self) -> Result<Tensors<'_>, ModelError> {
        let mut all = BTreeMap::new();
        for (path, bytes) in &self.files {
            let tensors = parse_one(path, bytes)?;
            self.check_listed(path, &tensors)?;
            for (name, tensor) in tensors.tensors() {
                all.insert(name, (path.as_path(), tensor));
            }
        }
        Ok(Tensors(all))
    }

    /// Checks that a file holds exactly what the index lists for it.
    fn check_listed(&self, path: &Path, tensors: &SafeTensors<'_>) -> Result<(), ModelError> {
        let Some(index) = &self.index else { return Ok(()) };
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let here: BTreeSet<&str> = tensors.names().into_iter().collect();
        let listed: BTreeSet<&str> = index.get(&*file).into_iter().flatten().map(String::as_str).collect();
        if let Some(name) = listed.difference(&here).next() {
            let problem =
                format!("tensor {name} is not in it, but {INDEX} says so; fetch or save both again");
            return Err(ModelError::malformed(path, problem));
        }
        if let Some(name) = here.difference(&listed).next() {
            let elsewhere = index.iter().find(|(_, names)| names.contains(*name));
            let where_listed = elsewhere.map_or("nowhere".into(), |(other, _)| format!("in {other}"));
            let problem = format!(
                "tensor {name} is in it, but {INDEX} lists it {where_listed}; it may be a stale copy; fetch or \
                 save both again"
            );
            return Err(ModelError::malformed(path, problem));
        }
        Ok(())
    }
}

fn parse_one<'a>(path: &Path, bytes: &'a [u8]) -> Result<SafeTensors<'a>, ModelError> {
    SafeTensors::deserialize(bytes).map_err(|error| {
        let length = bytes.len();
        let problem = format!(
            "truncated, or not a safetensors file ({error}); it has {length} bytes; fetch or save it again"
        );
        ModelError::malformed(path, problem)
    })
}

/// Tensors by file.
fn read_index(path: &Path) -> Result<BTreeMap<String, BTreeSet<String>>, ModelError> {
    let index: Index = serde_json::from_str(&files::read_text(path)?)
        .map_err(|error| ModelError::malformed(path, format!("not an index of weights: {error}")))?;
    let mut by_file: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (tensor, file) in index.weight_map.0 {
        let is_plain = Path::new(&file).file_name().is_some_and(|name| name == file.as_str());
        if !is_plain || !file.ends_with(".safetensors") {
            let problem = format!(
                "`weight_map.{tensor}` is \"{file}\"; it must be a .safetensors file of this directory"
            );
            return Err(ModelError::malformed(path, problem));
        }
        by_file.entry(file).or_default().insert(tensor);
    }
    if by_file.is_empty() {
        return Err(ModelError::malformed(path, "`weight_map` lists no tensor"));
    }
    Ok(by_file)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    #[serde(rename = "metadata")]
    _metadata: Option<IgnoredAny>,
    weight_map: WeightMap,
}

/// The file of each tensor. JSON may repeat a key; here that is an error.
struct WeightMap(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a file name for each tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<WeightMap, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((tensor, file)) = entries.next_entry::<String, String>()? {
            if let Some(other) = map.insert(tensor.clone(), file) {
                return Err(A::Error::custom(format!("tensor {tensor} is listed twice, first in {other}")));
            }
        }
        Ok(WeightMap(map))
    }
}
