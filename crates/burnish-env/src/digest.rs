//! Names made from content.

use burnish_core::digest::Rule;

/// 16 hexadecimal digits that depend on every byte of `content`: the same on every machine and in every
/// version. Not cryptographic.
pub fn digest(content: &[u8]) -> String {
    Rule::Folded.digest(content)
}
