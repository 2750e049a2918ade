use burnish_data::{Columns, DataError, Dataset, Row, Stream, Table};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// A file in this crate's golden folder.
pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// A folder with one file.
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
    name: String,
}

impl Scratch {
    pub(crate) fn new(name: &str, content: impl AsRef<[u8]>) -> Self {
        let scratch = Scratch { folder: tempfile::tempdir().unwrap(), name: name.to_owned() };
        std::fs::write(scratch.path(), content).unwrap();
        scratch
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// An error's text, with the folder's name replaced by DIR.
    pub(crate) fn told(&self, error: &DataError) -> String {
        error.to_string().replace(&self.folder.path().display().to_string(), "DIR")
    }
}

pub(crate) fn rows_of(path: &Path, columns: &Columns) -> Result<Vec<Row>, DataError> {
    let data = Dataset::open(&[path.to_owned()], columns)?;
    (0..data.len()).map(|index| data.row(index)).collect()
}

/// The rows of a jsonl text.
pub(crate) fn rows(text: &str, columns: &Columns) -> Result<Vec<Row>, String> {
    let scratch = Scratch::new("data.jsonl", text);
    rows_of(&scratch.path(), columns).map_err(|error| scratch.told(&error))
}

pub(crate) fn streamed(path: &Path) -> Result<Vec<Map<String, Value>>, DataError> {
    Stream::open(path)?.map(|record| record.map(|record| record.columns)).collect()
}

pub(crate) fn by_number(path: &Path) -> Result<Vec<Map<String, Value>>, DataError> {
    let table = Table::open(path)?;
    (0..table.len()).map(|index| table.get(index)).collect()
}

pub(crate) fn gzipped(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(content).unwrap();
    packer.finish().unwrap()
}
