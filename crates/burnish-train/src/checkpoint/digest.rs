//! Digests of what was saved: a bit that flips on the disk must not go into a run.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use burnish_core::rng::fold_bytes;
use serde_json::Value;

/// Size and digest of a file, which is read piece by piece, some gigabytes a second.
pub(super) fn of_file(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let (mut left, mut hash) = (bytes, bytes);
    // A multiple of the 8 bytes that are folded at once, so that pieces do not change the words.
    let mut piece = vec![0; 1 << 20];
    while left > 0 {
        let size = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut piece[..size])?;
        hash = fold_bytes(hash, &piece[..size]);
        left -= size as u64;
    }
    Ok((bytes, format!("{hash:016x}")))
}

/// Digest of a value, however its text is laid out.
pub(super) fn of_value(value: &Value) -> String {
    let text = value.to_string();
    format!("{:016x}", fold_bytes(text.len() as u64, text.as_bytes()))
}
