//! Languages: the same text in other signs.
//!
//! Every prompt, step and answer consists of [`PLAIN`] and white space. Language 0 uses these signs; every other
//! language has its own sign for each of them, from one Unicode block, so that no two languages share a sign and each
//! sign of a text identifies its language. Digits are digits in their script, so tokenizers that split digits split
//! these too.

/// The signs of language 0.
pub const PLAIN: [char; 18] =
    ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '+', '-', '*', '/', '=', '?', '>', '@'];

/// First digit and first letter of the other languages: Devanagari, Bengali, Thai, Gujarati, Telugu.
const BLOCKS: [(char, char); LANGUAGES_MAX - 1] = [
    ('\u{0966}', '\u{0915}'),
    ('\u{09E6}', '\u{0995}'),
    ('\u{0E50}', '\u{0E01}'),
    ('\u{0AE6}', '\u{0A95}'),
    ('\u{0C66}', '\u{0C15}'),
];

/// Most languages in a configuration, including the plain one.
pub const LANGUAGES_MAX: usize = 6;

/// The sign of `language` for a plain one; other characters stay as they are.
pub fn sign(language: usize, plain: char) -> char {
    let Some(at) = PLAIN.iter().position(|&sign| sign == plain) else { return plain };
    let Some(&(digit, letter)) = language.checked_sub(1).and_then(|other| BLOCKS.get(other)) else {
        return plain;
    };
    let (first, offset) = if at < 10 { (digit, at) } else { (letter, at - 10) };
    char::from_u32(first as u32 + offset as u32).unwrap_or(plain)
}

/// A plain text in the signs of `language`.
pub fn write(language: usize, plain: &str) -> String {
    plain.chars().map(|plain| sign(language, plain)).collect()
}

/// The language that a sign belongs to, and the plain sign for it.
pub fn meaning(sign: char) -> Option<(usize, char)> {
    if PLAIN.contains(&sign) {
        return Some((0, sign));
    }
    let within = |first: char, count: u32| {
        (sign as u32).checked_sub(first as u32).filter(|offset| *offset < count).map(|offset| offset as usize)
    };
    BLOCKS.iter().enumerate().find_map(|(other, &(digit, letter))| {
        let at = within(digit, 10).or_else(|| Some(10 + within(letter, 8)?))?;
        Some((other + 1, PLAIN[at]))
    })
}

/// The text in plain signs, whatever languages it mixes; a sign that belongs to no language becomes U+FFFD.
pub fn read(text: &str) -> String {
    let plain = |sign: char| match meaning(sign) {
        Some((_, plain)) => plain,
        None if sign.is_whitespace() => sign,
        None => char::REPLACEMENT_CHARACTER,
    };
    text.chars().map(plain).collect()
}

/// Does every sign of `text`, apart from white space, belong to `language`, and is there at least one?
pub fn is_in(language: usize, text: &str) -> bool {
    let mut signs = text.chars().filter(|sign| !sign.is_whitespace()).peekable();
    signs.peek().is_some() && signs.all(|sign| meaning(sign).is_some_and(|(its, _)| its == language))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_language_has_a_sign_of_its_own_for_each_plain_one() {
        let mut all = BTreeSet::new();
        for language in 0..LANGUAGES_MAX {
            for plain in PLAIN {
                let sign = sign(language, plain);
                assert_eq!(meaning(sign), Some((language, plain)));
                assert_eq!(sign.is_numeric(), plain.is_numeric(), "{sign}");
                assert!(!sign.is_whitespace() && all.insert(sign), "{sign} twice");
            }
        }
        assert_eq!(all.len(), LANGUAGES_MAX * PLAIN.len());
    }

    #[test]
    fn a_text_is_in_a_language_if_all_of_it_is() {
        assert!(is_in(0, "7+5=12\n>12") && !is_in(1, "7+5=12"));
        assert!(is_in(1, &write(1, "7+5=12\n>12")) && !is_in(0, &write(1, "7")));
        assert!(!is_in(0, &format!("7+5=12\n>{}", write(2, "12"))));
        assert!(!is_in(0, "7+5=12 so") && !is_in(0, "") && !is_in(0, " \n"));
        assert_eq!(read(&format!("7{}x\n", write(3, "+5"))), "7+5\u{FFFD}\n");
    }

    proptest! {
        #[test]
        fn a_language_is_a_bijection(plain in "[0-9+*/=?>@\n -]{0,40}", language in 0..LANGUAGES_MAX) {
            let text = write(language, &plain);
            prop_assert_eq!(text.chars().count(), plain.chars().count());
            prop_assert_eq!(read(&text), plain);
        }

        #[test]
        fn any_text_can_be_read(text in any::<String>()) {
            prop_assert_eq!(read(&text).chars().count(), text.chars().count());
        }
    }
}
