//! The list of a checkpoint's files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use crate::ShardsError;

/// Tensors by file, as `model.safetensors.index.json` lists them.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<String, BTreeSet<String>>, ShardsError> {
    let bytes = fs::read(path).map_err(|source| ShardsError::read(path, source))?;
    let index: Index = serde_json::from_slice(&bytes)
        .map_err(|error| ShardsError::malformed(path, format!("not an index of weights: {error}")))?;
    let mut by_file: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (tensor, file) in index.weight_map.0 {
        let is_plain = Path::new(&file).file_name().is_some_and(|name| name == file.as_str());
        if !is_plain || !file.ends_with(".safetensors") {
            let problem = format!(
                "`weight_map.{tensor}` is \"{file}\"; it must be a .safetensors file of this directory"
            );
            return Err(ShardsError::malformed(path, problem));
        }
        by_file.entry(file).or_default().insert(tensor);
    }
    if by_file.is_empty() {
        return Err(ShardsError::malformed(path, "`weight_map` lists no tensor"));
    }
    Ok(by_file)
}

#[derive(Deserialize)]
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
