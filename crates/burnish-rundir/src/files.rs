//! Files that get their final name only once they are complete, and digests of file contents.

use burnish_core::digest::Rule;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Ending of the temporary files of [`write_atomic`]. Their names start with a dot.
pub const TEMPORARY_SUFFIX: &str = ".burnish-tmp";

/// A file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`: {source}", path.display())]
pub struct FileError {
    /// What was tried, as a verb: "write", "read".
    pub action: &'static str,
    /// Which file.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

impl FileError {
    /// Makes the error of `action` on `path`, for `map_err`.
    pub fn on(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError + use<> {
        let path = path.to_owned();
        move |source| FileError { action, path, source }
    }
}

/// Writes `bytes` to `path` so that `path` always holds either its old content or all of `bytes`, even after a power
/// cut, a full disk or `kill -9`.
///
/// The bytes go to a temporary file beside `path`, which is synced and renamed; then the directory is synced.
///
/// # Errors
/// Names `path`, whose old content is unchanged; the temporary file is removed.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    write_atomic_with(path, |file| file.write_all(bytes))
}

/// As [`write_atomic`], for content that `write` produces piece by piece.
///
/// # Errors
/// As [`write_atomic`]; also what `write` returns.
pub fn write_atomic_with(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), FileError> {
    let temporary = temporary_beside(path).map_err(FileError::on("write", path))?;
    let written = write_and_rename(&temporary, path, write);
    if written.is_err() {
        // Report the first error. If the file was never created, it can't be removed either.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(FileError::on("write", path))
}

fn write_and_rename(
    temporary: &Path,
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(temporary)?;
    write(&mut file)?;
    // Sync before the rename: otherwise a power cut could leave the final name on a file without its content.
    file.sync_all()?;
    drop(file);
    fs::rename(temporary, path)?;
    sync_dir(directory_of(path))
}

/// Makes the names in a directory durable, so that renames and new files survive a power cut.
///
/// # Errors
/// What the operating system says. Does nothing on Windows, which syncs names with the files.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

/// Digest of a file's content: 16 hexadecimal digits, computed as for rows. Reads the file piece by piece, at some
/// gigabytes per second.
///
/// # Errors
/// If it can't be read, or shrinks while it is read.
pub fn file_digest(path: &Path) -> Result<String, FileError> {
    let read = || {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Rule::Folded.read(file, bytes)
    };
    read().map_err(FileError::on("read", path))
}

/// Removes temporary files of interrupted writes by an earlier process in `dir`. Only for a directory that no other
/// process writes to.
///
/// # Errors
/// Names the file or directory that could not be read or removed.
pub fn remove_leftovers(dir: &Path) -> Result<(), FileError> {
    for entry in fs::read_dir(dir).map_err(FileError::on("list", dir))? {
        let entry = entry.map_err(FileError::on("list", dir))?;
        if is_temporary(&entry.file_name()) {
            let path = entry.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(FileError::on("remove", &path))?;
        }
    }
    Ok(())
}

/// Whether a file of this name is left from an interrupted write.
pub fn is_temporary(name: &std::ffi::OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b".") && name.ends_with(TEMPORARY_SUFFIX.as_bytes())
}

/// An unused name in the same directory, because a rename can't cross file systems.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let name =
        path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not a file name"))?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    temporary.push(format!(".{}-{count}{TEMPORARY_SUFFIX}", std::process::id()));
    Ok(path.with_file_name(temporary))
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_written_file_holds_the_bytes_and_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write_atomic(&path, b"a longer first version").unwrap();
        write_atomic(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(dir.path()), ["a.json"]);
    }

    #[test]
    fn a_write_that_fails_midway_leaves_the_old_file_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        write_atomic(&path, b"old").unwrap();
        let error = write_atomic_with(&path, |file| {
            file.write_all(b"half of the ne")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        })
        .unwrap_err();
        assert!(error.to_string().contains("a.json"), "{error}");
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["a.json"]);
    }

    #[test]
    fn a_write_into_a_missing_directory_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing/a.json");
        let error = write_atomic(&path, b"x").unwrap_err();
        assert!(error.to_string().starts_with("cannot write `"), "{error}");
        assert!(error.to_string().contains("missing/a.json"), "{error}");
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn a_name_that_a_directory_has_is_refused_without_a_leftover() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("taken");
        fs::create_dir(&path).unwrap();
        write_atomic(&path, b"x").unwrap_err();
        assert_eq!(names(dir.path()), ["taken"]);
        assert!(write_atomic(Path::new("/"), b"x").is_err());
    }

    #[test]
    fn only_leftovers_of_interrupted_writes_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let leftover = temporary_beside(&dir.path().join("report.html")).unwrap();
        for name in [leftover, dir.path().join(".hidden"), dir.path().join("x.burnish-tmp")] {
            fs::write(name, b"x").unwrap();
        }
        remove_leftovers(dir.path()).unwrap();
        assert_eq!(names(dir.path()), [".hidden", "x.burnish-tmp"]);
    }

    /// The body of `a_file_system_that_takes_no_more_bytes_keeps_the_old_file`, run in a child process whose files
    /// may not grow. Does nothing by itself.
    #[test]
    fn in_a_child_with_a_file_size_limit() {
        let Some(path) = std::env::var_os("BURNISH_TEST_LIMITED_PATH") else { return };
        let error = write_atomic(Path::new(&path), &[b'n'; 1 << 20]).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::FileTooLarge, "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_system_that_takes_no_more_bytes_keeps_the_old_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("weights");
        fs::write(&path, b"old").unwrap();
        // The limit alone would kill the process. With the signal ignored, writing fails as on a full disk.
        let output = std::process::Command::new("sh")
            .args(["-c", r#"trap "" XFSZ; ulimit -f 64; exec "$0" --exact "$1""#])
            .arg(std::env::current_exe().unwrap())
            .arg("files::tests::in_a_child_with_a_file_size_limit")
            .env("BURNISH_TEST_LIMITED_PATH", &path)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["weights"]);
    }
}
