//! Weights in several files: errors name the file and the tensor that do not fit together.

use std::fs;
use std::path::{Path, PathBuf};

use burnish_model::Model;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

const INDEX: &str = "model.safetensors.index.json";
const FIRST: &str = "model-00001-of-00003.safetensors";
const SECOND: &str = "model-00002-of-00003.safetensors";
const NORM: &str = "model.norm.weight";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A copy of the golden model in three files, with one error.
struct Broken(tempfile::TempDir);

impl Broken {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(golden("llama3-rope-sharded-f16")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
        Broken(dir)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn index(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut index = serde_json::from_str(&fs::read_to_string(self.file(INDEX)).unwrap()).unwrap();
        change(&mut index);
        fs::write(self.file(INDEX), index.to_string()).unwrap();
        self
    }

    /// Rewrites a file with other tensors.
    fn tensors(self, name: &str, change: impl FnOnce(&mut Vec<(String, TensorView<'_>)>)) -> Self {
        let bytes = fs::read(self.file(name)).unwrap();
        let mut tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap().tensors();
        change(&mut tensors);
        fs::write(self.file(name), safetensors::serialize(tensors, None).unwrap()).unwrap();
        self
    }

    #[track_caller]
    fn check(self, expected: &[&str]) {
        let error = Model::load(self.0.path()).unwrap_err().to_string();
        for part in expected {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }
}

#[test]
fn what_it_is_made_of_loads() {
    Model::load(Broken::new().0.path()).unwrap();
}

#[test]
fn an_index_that_is_malformed_is_named() {
    let text = |text: &str| {
        let broken = Broken::new();
        fs::write(broken.file(INDEX), text).unwrap();
        broken
    };
    text("{}").check(&[INDEX, "weight_map"]);
    text("[]").check(&[INDEX, "not an index"]);
    text(r#"{"weight_map": {}}"#).check(&[INDEX, "lists no tensor"]);
    text(r#"{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}"#).check(&[
        INDEX,
        "tensor a is listed twice",
        "x.safetensors",
    ]);
    text(r#"{"weight_map": {"a": 1}}"#).check(&[INDEX, "integer"]);
    for path in ["../x.safetensors", "/x.safetensors", "x.bin", ""] {
        Broken::new().index(|index| index["weight_map"][NORM] = json!(path)).check(&[
            INDEX,
            "weight_map.model.norm.weight",
            path,
            "file of this directory",
        ]);
    }
}

#[test]
fn the_index_is_checked_against_the_architecture() {
    let without = |index: &mut Value| {
        index["weight_map"].as_object_mut().unwrap().remove(NORM).unwrap();
    };
    Broken::new().index(without).check(&[INDEX, NORM, "[32]", "is missing"]);
    let more = |index: &mut Value| index["weight_map"]["model.extra.weight"] = json!(FIRST);
    Broken::new().index(more).check(&[INDEX, "model.extra.weight", "no place in LlamaForCausalLM"]);
}

#[test]
fn a_file_that_is_missing_or_corrupt_is_named_with_what_it_should_hold() {
    let broken = Broken::new();
    fs::remove_file(broken.file(SECOND)).unwrap();
    broken.check(&[SECOND, "is missing", "tensors in it, the first model.layers.0.input_layernorm.weight"]);
    let broken = Broken::new();
    fs::write(broken.file(SECOND), [0xff; 100]).unwrap();
    broken.check(&[SECOND, "not a safetensors file", "100 bytes"]);
}

#[test]
fn files_and_index_hold_the_same_tensors() {
    let embedding = "model.embed_tokens.weight";
    let lacks = Broken::new().tensors(FIRST, |tensors| tensors.retain(|(name, _)| name != embedding));
    lacks.check(&[FIRST, embedding, "is not in it"]);
    let unlisted = Broken::new().tensors(FIRST, |tensors| {
        let copy = tensors[0].1.clone();
        tensors.push(("model.extra.weight".into(), copy));
    });
    unlisted.check(&[FIRST, "model.extra.weight", "lists it nowhere"]);
    let twice = Broken::new().tensors(SECOND, |tensors| {
        let copy = tensors[0].1.clone();
        tensors.push((embedding.into(), copy));
    });
    twice.check(&[SECOND, embedding, &format!("lists it in {FIRST}")]);
    let misshapen = Broken::new().tensors(FIRST, |tensors| {
        let short = tensors.iter().find(|(name, _)| name.contains("q_proj")).unwrap().1.clone();
        tensors.iter_mut().find(|(name, _)| name == embedding).unwrap().1 = short;
    });
    misshapen.check(&[FIRST, embedding, "[67, 32]"]);
}

#[test]
fn a_single_file_goes_before_an_index() {
    let broken = Broken::new();
    Model::load(broken.0.path()).unwrap().save(broken.0.path()).unwrap();
    fs::write(broken.file(INDEX), "{}").unwrap();
    Model::load(broken.0.path()).unwrap();
}
