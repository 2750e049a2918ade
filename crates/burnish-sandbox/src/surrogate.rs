//! Texts that were cut inside of a character.
//!
//! JavaScript and Python write half of such a character as JSON (`\ud83d`) and read it again; for `serde_json` it is an
//! error that spoils the whole line. So it becomes the replacement character.

/// Writes every lone surrogate of a line of JSON as U+FFFD.
pub(crate) fn replace_lone(line: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = line.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += found;
        at += match (escape(line, at), escape(line, at + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
            (Some(0xd800..0xe000), _) => {
                line[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            _ => 2,
        };
    }
}

/// The code of the escape `\uXXXX` at `at`.
fn escape(line: &[u8], at: usize) -> Option<u32> {
    let digits = line.get(at..at + 6)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_are_replaced_and_nothing_else_is() {
        for (line, expected) in [
            (r#"{"text": "a\ud83d"}"#, r#"{"text": "a\ufffd"}"#),
            (r#""\ude00\uD83D\ud83d\ude00""#, r#""\ufffd\ufffd\ud83d\ude00""#),
            (r#""\ud83dx\u00e9\n\\ud83d""#, r#""\ufffdx\u00e9\n\\ud83d""#),
            (r#""\ud8"#, r#""\ud8"#),
            ("\"é\\", "\"é\\"),
        ] {
            let mut bytes = line.as_bytes().to_vec();
            replace_lone(&mut bytes);
            assert_eq!(bytes, expected.as_bytes(), "{line}");
        }
    }
}
