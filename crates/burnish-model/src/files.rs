//! Files of a model directory: read whole, and written so that a name never refers to half a file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

use crate::ModelError;

/// Writes a file through `write`, which gets a temporary path beside it; the file appears under `path` only
/// when it is complete and on disk. On failure the temporary file is removed and what was at `path` stays.
pub(crate) fn write_atomically(
    path: &Path,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), ModelError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    // The safetensors library makes files that only their owner can read; this one gets the usual permissions.
    let permissions =
        File::create(&temporary).and_then(|file| file.metadata()).map(|data| data.permissions());
    let result = permissions
        .and_then(|permissions| {
            write(&temporary)?;
            fs::set_permissions(&temporary, permissions)?;
            File::open(&temporary)?.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_directory(path));
    result.map_err(|source| {
        // Best effort: the first error is the one to report.
        let _ = fs::remove_file(&temporary);
        ModelError::write(path, source)
    })
}

/// A rename is durable only once the directory is synced.
#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_directory(_path: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), ModelError> {
    write_atomically(path, |temporary| File::create(temporary)?.write_all(text.as_bytes()))
}

/// Writes JSON as `transformers` lays it out: two spaces, a newline at the end.
pub(crate) fn write_json(path: &Path, value: &Value) -> Result<(), ModelError> {
    write_text(path, &format!("{value:#}\n"))
}

pub(crate) fn create_directory(dir: &Path) -> Result<(), ModelError> {
    fs::create_dir_all(dir).map_err(|source| ModelError::write(dir, source))
}

pub(crate) fn read_text(path: &Path) -> Result<String, ModelError> {
    let bytes = fs::read(path).map_err(|source| ModelError::read(path, source))?;
    String::from_utf8(bytes).map_err(|error| {
        ModelError::malformed(path, format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
    })
}

pub(crate) fn read_json(path: &Path) -> Result<Value, ModelError> {
    serde_json::from_str(&read_text(path)?)
        .map_err(|error| ModelError::malformed(path, format!("not JSON: {error}")))
}

/// As [`read_json`]; `None` if there is no such file.
pub(crate) fn read_json_if_there(path: &Path) -> Result<Option<Value>, ModelError> {
    if path.exists() { read_json(path).map(Some) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_keeps_the_file_and_leaves_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights");
        write_text(&path, "old").unwrap();
        let error = write_atomically(&path, |temporary| {
            fs::write(temporary, "half")?;
            Err(io::Error::other("disk full"))
        })
        .unwrap_err();
        assert!(error.to_string().ends_with("weights: disk full"), "{error}");
        assert_eq!(read_text(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
