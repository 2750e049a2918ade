#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, serialize_to_file};

use super::{INDEX, SINGLE, Shards};

fn write(path: &Path, names: &[&str]) {
    let bytes: Vec<u8> = (0..12).collect();
    let tensors = names.iter().map(|name| (*name, TensorView::new(Dtype::BF16, vec![2, 3], &bytes).unwrap()));
    serialize_to_file(tensors, None, path).unwrap();
}

fn error(path: &Path) -> String {
    match Shards::open(path).and_then(|shards| shards.entries()) {
        Ok(entries) => format!("no error: {entries:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_tensor_of_any_file_is_found_with_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("one.safetensors"), &["a", "b"]);
    write(&dir.path().join("two.safetensors"), &["c"]);
    let index =
        r#"{"weight_map": {"a": "one.safetensors", "c": "two.safetensors", "b": "one.safetensors"}, "x": 1}"#;
    fs::write(dir.path().join(INDEX), index).unwrap();
    let shards = Shards::open(dir.path()).unwrap();
    assert!(shards.listed().unwrap().into_iter().eq(["a", "b", "c"]));
    let entries = shards.entries().unwrap();
    let found: Vec<(&str, usize)> = entries.iter().map(|entry| (entry.name.as_str(), entry.file)).collect();
    assert_eq!(found, [("a", 0), ("b", 0), ("c", 1)]);
    for entry in &entries {
        assert_eq!((entry.dtype, entry.shape.as_slice()), (Dtype::BF16, &[2, 3][..]));
        let (path, bytes) = shards.get(entry);
        assert_eq!(bytes, (0..12).collect::<Vec<u8>>());
        assert!(path.ends_with(if entry.name == "c" { "two.safetensors" } else { "one.safetensors" }));
    }
}

#[test]
fn one_file_is_a_checkpoint_and_lists_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(SINGLE);
    write(&file, &["a"]);
    fs::write(dir.path().join(INDEX), "it is not read").unwrap();
    for path in [dir.path(), &file] {
        let shards = Shards::open(path).unwrap();
        assert_eq!((shards.list(), shards.listed()), (file.as_path(), None));
        assert_eq!(shards.entries().unwrap().len(), 1);
    }
}

#[test]
fn a_directory_that_is_no_checkpoint_says_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    assert!(error(dir.path()).contains("holds no weights"));
    fs::write(dir.path().join("pytorch_model.bin"), "x").unwrap();
    assert!(error(dir.path()).contains("holds pytorch_model.bin, but no safetensors file"));
    write(&dir.path().join("other.safetensors"), &["a"]);
    assert!(error(dir.path()).contains("holds other.safetensors, but neither"));
}

#[test]
fn gguf_is_named_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("model-Q4_K_M.gguf");
    fs::write(&file, b"GGUF\x03\0\0\0").unwrap();
    for (path, said) in [(dir.path(), "holds model-Q4_K_M.gguf"), (&file, "is a GGUF file")] {
        let error = error(path);
        assert!(error.contains(said) && error.contains("fetch the safetensors files"), "{error}");
    }
}
