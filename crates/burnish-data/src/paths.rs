//! One file or several, as people write them.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::{Path, PathBuf};

/// `"rows.jsonl"` or `["a.jsonl", "b.parquet"]`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Paths(pub Vec<PathBuf>);

impl Paths {
    /// Is no file given?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The files; relative ones are looked up in `folder`.
    pub fn below(&self, folder: &Path) -> Vec<PathBuf> {
        self.0.iter().map(|path| folder.join(path)).collect()
    }
}

impl Serialize for Paths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [] => serializer.serialize_str(""),
            [path] => path.serialize(serializer),
            paths => paths.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Paths;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path or a list of paths")
            }

            fn visit_str<E: Error>(self, path: &str) -> Result<Paths, E> {
                Ok(Paths(if path.is_empty() { Vec::new() } else { vec![path.into()] }))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut paths: A) -> Result<Paths, A::Error> {
                let mut all = Vec::new();
                while let Some(path) = paths.next_element::<PathBuf>()? {
                    if path.as_os_str().is_empty() {
                        return Err(A::Error::custom("one of the paths is empty"));
                    }
                    all.push(path);
                }
                Ok(Paths(all))
            }
        }

        deserializer.deserialize_any(OneOrMany)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json, to_value};

    #[test]
    fn one_path_or_a_list_is_read_and_written_as_it_was() {
        for written in [json!(""), json!("a.jsonl"), json!(["a.jsonl", "b.parquet"])] {
            assert_eq!(to_value(from_value::<Paths>(written.clone()).unwrap()).unwrap(), written);
        }
        let refused = |written: Value| from_value::<Paths>(written).unwrap_err().to_string();
        assert!(refused(json!(3)).contains("expected a path or a list of paths"));
        assert!(refused(json!(["a", ""])).contains("empty"));
    }
}
