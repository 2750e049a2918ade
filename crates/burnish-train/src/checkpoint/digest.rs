//! Digests of what was saved, so that a bit that flips on the disk does not get into a run.

use std::fs::File;
use std::io;
use std::path::Path;

use burnish_core::digest::Rule;
use serde_json::Value;

/// Size and digest of a file.
pub(super) fn of_file(path: &Path, rule: Rule) -> io::Result<(u64, String)> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    Ok((bytes, rule.read(file, bytes)?))
}

/// Digest of a value; it does not depend on how its text is laid out.
pub(super) fn of_value(value: &Value, rule: Rule) -> String {
    rule.digest(value.to_string().as_bytes())
}
