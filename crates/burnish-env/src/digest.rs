//! Names for contents.

use burnish_core::rng;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// 16 hexadecimal digits that depend on every byte of `content`: the same on every machine and in every
/// version. Not cryptographic.
pub fn digest(content: &[u8]) -> String {
    let hash = rng::fold_bytes(content.len() as u64, content);
    format!("{hash:016x}")
}

/// The name of what a file holds: 16 hexadecimal digits, by the rule by which rows are named. The file is read
/// piece by piece, some gigabytes a second.
///
/// # Errors
/// What the operating system says, also when the file shrinks while it is read.
pub fn file_digest(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut left = file.metadata()?.len();
    let mut hash = left;
    // A multiple of 8 bytes, so that pieces do not change the words.
    let mut piece = vec![0; 1 << 20];
    while left > 0 {
        let size = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut piece[..size])?;
        hash = rng::fold_bytes(hash, &piece[..size]);
        left -= size as u64;
    }
    Ok(format!("{hash:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_depends_on_every_byte_and_on_the_length() {
        let contents: [&[u8]; 7] =
            [b"", b"\0", b"\0\0", b"12345678", b"123456789", b"123456780", b"92345678"];
        let mut digests: Vec<String> = contents.iter().map(|content| digest(content)).collect();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), contents.len());
    }

    #[test]
    fn the_digest_of_a_file_is_that_of_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for length in [0, 7, 8, (1 << 20) - 1, 1 << 20, (1 << 20) + 5] {
            let content: Vec<u8> = (0..length).map(|at: usize| (at * 31 % 251) as u8).collect();
            std::fs::write(&path, &content).unwrap();
            assert_eq!(file_digest(&path).unwrap(), digest(&content), "{length}");
        }
    }

    #[test]
    fn the_digest_stays_what_it_was_when_stored_runs_were_made() {
        // Computed by an independent implementation.
        assert_eq!(digest(b"burnish countdown"), "0782e1083c5b8292");
    }
}
