//! Names made from content.

use burnish_core::digest::Rule;
use std::fs::File;
use std::path::Path;

/// 16 hexadecimal digits that depend on every byte of `content`: the same on every machine and in every
/// version. Not cryptographic.
pub fn digest(content: &[u8]) -> String {
    Rule::Folded.digest(content)
}

/// The name of a file's content: 16 hexadecimal digits, by the same rule as the names of rows. The file is read piece
/// by piece, at some gigabytes per second.
///
/// # Errors
/// The error of the operating system; also if the file shrinks while it is read.
pub fn file_digest(path: &Path) -> std::io::Result<String> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    Rule::Folded.read(file, bytes)
}
