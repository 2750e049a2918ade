//! Digests of content, read piece by piece, to tell whether it has changed. Not cryptographic.

use std::hash::Hasher as _;
use std::io::{self, Read};

use twox_hash::XxHash3_64;

use crate::rng::fold_bytes;

/// How a digest is computed. The text of a digest names its rule, so that every later version can check saved data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// XXH3 of 64 bits: `xxh3:` and 16 hexadecimal digits.
    Xxh3,
    /// [`fold_bytes`]: 16 hexadecimal digits. Used for names, which must be the same in every version, and for all
    /// digests made before there was another rule.
    Folded,
}

/// Prefix of an XXH3 digest.
const XXH3: &str = "xxh3:";

/// A multiple of the 8 bytes that are folded at once, so that splitting into pieces does not change the result.
const PIECE: usize = 1 << 20;

impl Rule {
    /// The rule by which `digest` was made.
    pub fn of(digest: &str) -> Self {
        if digest.starts_with(XXH3) { Rule::Xxh3 } else { Rule::Folded }
    }

    /// The digest of `content`.
    pub fn digest(self, content: &[u8]) -> String {
        let mut state = State::new(self, content.len() as u64);
        state.add(content);
        state.text()
    }

    /// The digest of the next `bytes` bytes of `reader`, at some gigabytes per second.
    ///
    /// # Errors
    /// Those of `reader`, including an end before `bytes` bytes.
    pub fn read(self, mut reader: impl Read, bytes: u64) -> io::Result<String> {
        let mut state = State::new(self, bytes);
        let mut piece = vec![0; PIECE];
        let mut left = bytes;
        while left > 0 {
            let size = PIECE.min(usize::try_from(left).unwrap_or(PIECE));
            reader.read_exact(&mut piece[..size])?;
            state.add(&piece[..size]);
            left -= size as u64;
        }
        Ok(state.text())
    }
}

/// A digest in progress.
enum State {
    Xxh3(Box<XxHash3_64>),
    Folded(u64),
}

impl State {
    fn new(rule: Rule, bytes: u64) -> Self {
        match rule {
            Rule::Xxh3 => State::Xxh3(Box::default()),
            Rule::Folded => State::Folded(bytes),
        }
    }

    fn add(&mut self, piece: &[u8]) {
        match self {
            State::Xxh3(hasher) => hasher.write(piece),
            State::Folded(hash) => *hash = fold_bytes(*hash, piece),
        }
    }

    fn text(&self) -> String {
        match self {
            State::Xxh3(hasher) => format!("{XXH3}{:016x}", hasher.finish()),
            State::Folded(hash) => format!("{hash:016x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn content(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 31 % 251) as u8).collect()
    }

    #[test]
    fn digests_are_those_of_other_implementations_and_stay_so() {
        // Made by xxHash 0.8.4 in C.
        assert_eq!(Rule::Xxh3.digest(b""), "xxh3:2d06800538d394c2");
        assert_eq!(Rule::Xxh3.digest(b"burnish countdown"), "xxh3:4762952ce434ad35");
        assert_eq!(Rule::Xxh3.digest(&content((1 << 20) + 5)), "xxh3:f0bfb1b7e16f81ce");
        assert_eq!(Rule::Folded.digest(b"burnish countdown"), "0782e1083c5b8292");
    }

    #[test]
    fn what_is_read_in_pieces_has_the_digest_of_the_whole_and_says_its_rule() {
        for rule in [Rule::Xxh3, Rule::Folded] {
            for length in [0, 7, 8, PIECE - 1, PIECE, PIECE + 5] {
                let content = content(length);
                let whole = rule.digest(&content);
                assert_eq!(rule.read(&content[..], length as u64).unwrap(), whole, "{rule:?} {length}");
                assert_eq!(Rule::of(&whole), rule);
            }
            assert!(rule.read(&b"short"[..], 6).is_err());
        }
    }

    #[test]
    fn a_digest_depends_on_every_byte_and_on_the_length() {
        let contents: [&[u8]; 7] =
            [b"", b"\0", b"\0\0", b"12345678", b"123456789", b"123456780", b"92345678"];
        for rule in [Rule::Xxh3, Rule::Folded] {
            let digests: BTreeSet<String> = contents.iter().map(|content| rule.digest(content)).collect();
            assert_eq!(digests.len(), contents.len());
        }
    }
}
