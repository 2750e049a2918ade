//! Texts as words, for comparison: lower case, without punctuation.

use burnish_core::rng;

/// The words of a text, as Brown et al. (2020, appendix C) compare them: lower case, split at white space, only letters
/// and digits kept. In scripts without spaces between words, each character counts as a word.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for chunk in text.split_whitespace() {
        let mut word = String::new();
        for character in chunk.chars().filter(|character| character.is_alphanumeric()) {
            if has_no_spaces(character) {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                words.push(character.to_string());
            } else {
                word.extend(character.to_lowercase());
            }
        }
        words.extend((!word.is_empty()).then_some(word));
    }
    words
}

/// Does the character belong to a script without spaces: kana, Han, Thai, Lao, Khmer, Burmese?
fn has_no_spaces(character: char) -> bool {
    matches!(u32::from(character),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3040..=0x30FF | 0x3400..=0x4DBF
        | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}

/// 64 bits for a sequence of words. Two sequences collide with a probability of one in 2^64.
pub(crate) fn hash(words: &[String]) -> u64 {
    words.iter().fold(words.len() as u64, |hash, word| rng::bits(hash, hash_bytes(word.as_bytes())))
}

/// 64 bits for a text as it is.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    rng::fold_bytes(bytes.len() as u64, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_punctuation_do_not_count() {
        assert_eq!(
            words("  Don't  STOP, now -- it's 3.5\u{a0}m!\n"),
            ["dont", "stop", "now", "its", "35", "m"]
        );
        assert_eq!(words("ÄÖ? Straße"), ["äö", "straße"]);
        assert!(words("-- ... #").is_empty());
    }

    #[test]
    fn scripts_without_spaces_are_compared_by_character() {
        assert_eq!(words("2 加 3 等于几？ab你"), ["2", "加", "3", "等", "于", "几", "ab", "你"]);
    }

    #[test]
    fn the_hash_knows_where_words_end() {
        let hash_of = |text: &str| hash(&words(text));
        assert_ne!(hash_of("ab c"), hash_of("a bc"));
        assert_ne!(hash_of("a b"), hash_of("b a"));
        assert_eq!(hash_of("A, b"), hash_of("a b"));
    }
}
