//! Names for contents.

use burnish_core::rng;

/// 16 hexadecimal digits that depend on every byte of `content`: the same on every machine and in every
/// version. Not cryptographic.
pub(crate) fn digest(content: &[u8]) -> String {
    let hash = content.chunks(8).fold(content.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        rng::bits(hash, u64::from_le_bytes(word))
    });
    format!("{hash:016x}")
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
    fn the_digest_stays_what_it_was_when_stored_runs_were_made() {
        // Computed by an independent implementation.
        assert_eq!(digest(b"burnish countdown"), "0782e1083c5b8292");
    }
}
