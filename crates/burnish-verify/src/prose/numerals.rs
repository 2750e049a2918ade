//! Numbers in words: "Seven of them are left.", "That makes 3 times six, which is eighteen."

use super::lexicon::{COPULAS, NUMERALS, PLAIN, TENS};
use crate::units;

/// After these "one" is a pronoun: "the last one", "no one".
const BEFORE_PRONOUN: &[&str] = &[
    "the", "this", "that", "each", "every", "any", "no", "which", "first", "last", "other", "another",
    "correct", "right", "final", "new", "old", "small", "large", "big", "as",
];
/// Before these, "one" is a pronoun too: "one gets", "one of them could".
const AFTER_PRONOUN: &[&str] = &[
    "can",
    "could",
    "might",
    "must",
    "should",
    "would",
    "gets",
    "obtains",
    "finds",
    "sees",
    "who",
    "that",
    "another",
    "has",
    "needs",
    "may",
    "will",
    "concludes",
    "knows",
    "thinks",
    "says",
    "day",
];

/// Names of parts, by the number of them that make a whole; halves are the first.
const PARTS: &[&str] = &[
    "half", "third", "quarter", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh",
    "twelfth",
];

/// `text` with its numbers in digits. `None` if no word is a number. In a text with digits, "one" is mostly a pronoun,
/// and stays.
pub(crate) fn in_digits(text: &str) -> Option<String> {
    if text.len() > 12_000 {
        return None;
    }
    let is_mixed = text.chars().any(|c| crate::numeral::ascii_digit(c).is_some());
    let words = pieces(text);
    let mut written = String::new();
    let mut copied = 0;
    let mut index = 0;
    while index < words.len() {
        let Some((value, count)) = number(&words, index, text) else {
            index += 1;
            continue;
        };
        let part = part(&words, index, count, value, text);
        let count = count + usize::from(part.is_some());
        if is_mixed && part.is_none() && is_phrase(&words, index, count, value, text) {
            index += count;
            continue;
        }
        let last = &words[index + count - 1];
        written += &text[copied..words[index].start];
        written += &value.to_string();
        if let Some(part) = part {
            written += &format!("/{part}");
        }
        copied = last.end;
        index += count;
    }
    if copied == 0 {
        return None;
    }
    written += &text[copied..];
    Some(written)
}

/// What "third" or "quarters" after a number word divides it by: "two-thirds", "one quarter".
fn part(words: &[Piece], index: usize, count: usize, value: u64, text: &str) -> Option<usize> {
    let (last, next) = (&words[index + count - 1], words.get(index + count)?);
    let is_joined = matches!(text[last.end..next.start].trim(), "" | "-");
    let noun = match next.word.as_str() {
        "halves" => "half",
        "fourth" | "fourths" => "quarter",
        word => word.strip_suffix('s').unwrap_or(word),
    };
    let part = PARTS.iter().position(|part| *part == noun)? + 2;
    // "Over two quarters" is half a year.
    let is_half = value > 1 && (part as u64).is_multiple_of(value);
    (is_joined && count == 1 && (1..part as u64).contains(&value) && !is_half).then_some(part)
}

/// Whether a number word in a text with digits means something other than a number: "one gets", "below zero". A small
/// one counts there only if it ends what a verb says ("the rest is five."), not in "the two of them" or "each of four
/// friends".
fn is_phrase(words: &[Piece], index: usize, count: usize, value: u64, text: &str) -> bool {
    let before = index.checked_sub(1).map_or("", |before| words[before].word.as_str());
    let is_end =
        text[words[index + count - 1].end..].trim_start().starts_with(['.', ',', ';', '!', '?', ')'])
            || text[words[index + count - 1].end..].trim().is_empty();
    let is_said = COPULAS.contains(&before)
        || (PLAIN.contains(&before) && before != "in")
        || matches!(
            before,
            "only" | "exactly" | "just" | "giving" | "leaving" | "leave" | "perhaps" | "maybe" | "answer"
        );
    match value {
        0 => matches!(before, "below" | "above" | "non" | "sub"),
        1 => count == 1,
        2..13 => !(is_end && is_said),
        _ => false,
    }
}

/// A run of letters, in lower case, with its place.
struct Piece {
    word: String,
    start: usize,
    end: usize,
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut start = None;
    for (index, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (start, c.is_alphabetic() || c == '\'') {
            (None, true) => start = Some(index),
            (Some(from), false) => {
                pieces.push(Piece { word: text[from..index].to_lowercase(), start: from, end: index });
                start = None;
            }
            _ => {}
        }
    }
    pieces
}

/// The number that starts at `index`, and how many words it has.
fn number(words: &[Piece], index: usize, text: &str) -> Option<(u64, usize)> {
    let word = |at: usize| words.get(at).map_or("", |piece| piece.word.as_str());
    // Words of one number have only space or a hyphen between them.
    let is_joined = |at: usize| {
        at > 0 && at < words.len() && matches!(text[words[at - 1].end..words[at].start].trim(), "" | "-")
    };
    let is_article = matches!(word(index), "a") && matches!(word(index + 1), "hundred" | "thousand");
    let mut at = index;
    let mut whole: u64 = 0;
    let mut group: u64 = u64::from(is_article);
    let mut is_found = is_article;
    at += usize::from(is_article);
    while at == index || is_joined(at) {
        if let Some(small) = small(word(at)) {
            // "five six" are two numbers.
            let is_next = !group.is_multiple_of(10) || (!group.is_multiple_of(100) && small >= 10);
            if is_found && is_next {
                break;
            }
            group += small;
        } else if let Some(scale) =
            units::scale(word(at)).filter(|scale| is_found && !word(at).ends_with('s') && *scale <= 9)
        {
            let factor = 10_u64.pow(scale);
            if factor == 100 {
                group = group.checked_mul(factor)?;
            } else {
                whole = whole.checked_add(group.checked_mul(factor)?)?;
                group = 0;
            }
        } else if word(at) == "and"
            && group.is_multiple_of(100)
            && is_found
            && whole + group >= 100
            && small(word(at + 1)).is_some()
        {
            // "one hundred and five"
        } else {
            break;
        }
        is_found = true;
        at += 1;
    }
    let count = at - index;
    let before = if index == 0 { "" } else { word(index - 1) };
    let is_pronoun = count == 1
        && word(index) == "one"
        && (BEFORE_PRONOUN.contains(&before)
            || AFTER_PRONOUN.contains(&word(index + 1))
            || (word(index + 1) == "of" && !COPULAS.contains(&before)));
    (is_found && count > 0 && !is_pronoun).then_some((whole + group, count))
}

fn small(word: &str) -> Option<u64> {
    let place = |list: &[&str]| list.iter().position(|numeral| *numeral == word).map(|at| at as u64);
    place(NUMERALS).or_else(|| place(TENS).map(|at| 20 + 10 * at))
}

#[cfg(test)]
mod tests {
    use super::in_digits;

    #[test]
    fn numbers_in_words_are_written_in_digits() {
        for (text, expected) in [
            ("Seven of the kittens need a home.", "7 of the kittens need a home."),
            ("Only one apple remains.", "Only 1 apple remains."),
            ("twenty-one or one hundred and five", "21 or 105"),
            ("two thousand three hundred forty", "2340"),
            ("a hundred of them", "100 of them"),
        ] {
            let written = in_digits(text).unwrap_or_default();
            assert_eq!(written, expected);
        }
        for text in ["The last one is it.", "No one knows.", "One can see it.", "It has 7 and one", "a cat"] {
            assert_eq!(in_digits(text), None, "{text}");
        }
    }
}
