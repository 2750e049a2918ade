//! Directories that appear under their name only when they are complete.
//!
//! `.step_N.partial` is being written or removed; `.step_N.replaced` is an earlier `step_N` while a new one takes its
//! place.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::CheckpointError;

/// Adds to a file system error what was tried, and on which path.
pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> CheckpointError {
    let path = path.to_owned();
    move |source| CheckpointError::Io { action, path, source }
}

pub(super) fn place(dir: &Path, step: u64) -> PathBuf {
    dir.join(format!("step_{step}"))
}

pub(super) fn partial(dir: &Path, step: u64) -> PathBuf {
    dir.join(format!(".step_{step}.partial"))
}

fn replaced(dir: &Path, step: u64) -> PathBuf {
    dir.join(format!(".step_{step}.replaced"))
}

/// The steps that have a directory, in ascending order.
pub(super) fn steps(dir: &Path) -> Result<Vec<u64>, CheckpointError> {
    numbered(dir, "step_", "")
}

/// The numbers `N` for which `dir` has an entry `{before}N{after}`, in ascending order.
fn numbered(dir: &Path, before: &str, after: &str) -> Result<Vec<u64>, CheckpointError> {
    let number = |name: &OsStr| name.to_str()?.strip_prefix(before)?.strip_suffix(after)?.parse::<u64>().ok();
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(io("read", dir))? {
        numbers.extend(number(&entry.map_err(io("read", dir))?.file_name()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes `path` an empty directory.
pub(super) fn make_empty(path: &Path) -> Result<(), CheckpointError> {
    remove(path)?;
    fs::create_dir(path).map_err(io("create", path))
}

/// Removes a directory with everything in it, if it exists.
fn remove(path: &Path) -> Result<(), CheckpointError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes what interrupted saves left behind, and puts back a checkpoint that was about to be replaced.
pub(super) fn recover(dir: &Path) -> Result<(), CheckpointError> {
    for step in numbered(dir, ".step_", ".replaced")? {
        let (old, place) = (replaced(dir, step), place(dir, step));
        if place.exists() {
            remove(&old)?;
        } else {
            fs::rename(&old, &place).map_err(io("restore", &place))?;
        }
    }
    for step in numbered(dir, ".step_", ".partial")? {
        remove(&partial(dir, step))?;
    }
    Ok(())
}

/// The path of a file relative to `dir`, with `/` on every system.
pub(super) fn name_in(dir: &Path, path: &Path) -> String {
    let parts = path.strip_prefix(dir).unwrap_or(path).iter().map(OsStr::to_string_lossy);
    parts.collect::<Vec<_>>().join("/")
}

/// Waits until everything under `dir` is on the disk.
pub(super) fn sync(dir: &Path) -> Result<(), CheckpointError> {
    for path in files(dir)? {
        sync_one(&path)?;
        if let Some(parent) = path.parent().filter(|parent| *parent != dir) {
            sync_one(parent)?;
        }
    }
    sync_one(dir)
}

fn sync_one(path: &Path) -> Result<(), CheckpointError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(io("sync", path))
}

/// All files under `dir`.
pub(super) fn files(dir: &Path) -> Result<Vec<PathBuf>, CheckpointError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(io("read", dir))? {
        let path = entry.map_err(io("read", dir))?.path();
        if path.is_dir() {
            found.append(&mut files(&path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// Gives the complete partial directory of `step` its name.
pub(super) fn publish(dir: &Path, step: u64) -> Result<PathBuf, CheckpointError> {
    let (partial, place, old) = (partial(dir, step), place(dir, step), replaced(dir, step));
    if place.exists() {
        remove(&old)?;
        fs::rename(&place, &old).map_err(io("replace", &place))?;
    }
    if let Err(error) = fs::rename(&partial, &place) {
        // Put the earlier one back; if that fails too, `recover` will do it.
        let _ = fs::rename(&old, &place);
        return Err(io("name", &place)(error));
    }
    sync_one(dir)?;
    remove(&old)?;
    Ok(place)
}

/// Removes all but the newest `keep` checkpoints (0 removes none), but never `newest`.
pub(super) fn prune(dir: &Path, keep: usize, newest: u64) -> Result<(), CheckpointError> {
    let steps = steps(dir)?;
    let surplus = if keep == 0 { 0 } else { steps.len().saturating_sub(keep) };
    for &step in steps[..surplus].iter().filter(|step| **step != newest) {
        // Rename it first, so that a half-removed checkpoint is never taken for a complete one.
        let (place, doomed) = (place(dir, step), partial(dir, step));
        remove(&doomed)?;
        fs::rename(&place, &doomed).map_err(io("remove", &place))?;
        remove(&doomed)?;
    }
    Ok(())
}
