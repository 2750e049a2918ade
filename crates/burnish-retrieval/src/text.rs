//! Texts as terms, words and sentences.
//!
//! A term is what retrievers and the lexical judge compare: a lower-case run of letters and digits, without an English
//! possessive "'s". Scripts that are written without spaces (Chinese, Japanese, Korean) give pairs of neighbouring
//! characters, as Lucene's CJK analyser does. Nothing is stemmed.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

/// Where the words of `text` lie: runs of letters and digits, in bytes. A possessive "'s" is no word.
pub fn words(text: &str) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut start = None;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        match (character.is_alphanumeric(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                let word: Range<usize> = from..at;
                let before = text[..from].chars().next_back();
                let possessive = matches!(before, Some('\'' | '’')) && &text[word.clone()] == "s";
                if !possessive {
                    words.push(word);
                }
                start = None;
            }
            _ => {}
        }
    }
    words
}

/// The numbers of `text` in ASCII digits and where they lie, without the marks of a list ("1." or "2)").
pub(crate) fn numbers(text: &str) -> Vec<(Range<usize>, f64)> {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_digit(at) {
            at += 1;
            continue;
        }
        let start = at;
        let mut has_point = false;
        while is_digit(at) || (matches!(bytes.get(at), Some(b',' | b'.')) && is_digit(at + 1) && !has_point) {
            has_point |= bytes[at] == b'.';
            at += 1;
        }
        let after = text[at..].strip_prefix(['.', ')']);
        let before = text[..start].trim_end_matches([' ', '(']);
        let is_mark = at - start <= 2
            && after.is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
            && (before.is_empty() || before.ends_with([':', ',', ';', '.', '\n']));
        if let Some(number) = text[start..at].replace(',', "").parse().ok().filter(|_| !is_mark) {
            found.push((start..at, number));
        }
    }
    found
}

/// The terms of `text`, in order, with repetitions.
pub fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    for word in words(text) {
        let word = &text[word];
        if !word.chars().any(is_unspaced) {
            terms.push(word.to_lowercase());
            continue;
        }
        let mut run: Vec<char> = Vec::new();
        let mut spaced = String::new();
        for character in word.chars() {
            if is_unspaced(character) {
                push_spaced(&mut spaced, &mut terms);
                run.push(character);
            } else {
                push_pairs(&mut run, &mut terms);
                spaced.push(character);
            }
        }
        push_spaced(&mut spaced, &mut terms);
        push_pairs(&mut run, &mut terms);
    }
    terms
}

fn push_spaced(spaced: &mut String, terms: &mut Vec<String>) {
    if !spaced.is_empty() {
        terms.push(spaced.to_lowercase());
        spaced.clear();
    }
}

fn push_pairs(run: &mut Vec<char>, terms: &mut Vec<String>) {
    if run.len() == 1 {
        terms.extend(run.iter().map(char::to_string));
    }
    terms.extend(run.windows(2).map(|pair| pair.iter().collect::<String>()));
    run.clear();
}

/// How long `text` is, for limits on lengths: its words, where a character of an unspaced script counts as one.
pub fn length(text: &str) -> usize {
    words(text)
        .into_iter()
        .map(|word| {
            let unspaced = text[word.clone()].chars().filter(|c| is_unspaced(*c)).count();
            let spaced = text[word].chars().any(|c| !is_unspaced(c));
            unspaced + usize::from(spaced)
        })
        .sum()
}

/// Is this a character of a script that is written without spaces?
pub(crate) fn is_unspaced(character: char) -> bool {
    matches!(character as u32,
        0x3040..=0x30FF | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xAC00..=0xD7AF | 0xF900..=0xFAFF | 0x20000..=0x2FA1F)
}

/// Where the sentences of `text` lie, in bytes, without the white space around them. They end at `.`, `!`, `?` before
/// white space and something that does not begin in lower case, at `。`, `！`, `？`, and at the end of a line.
pub fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        let ends = match character {
            '\n' | '。' | '！' | '？' => true,
            '!' | '?' => text[end..].starts_with(char::is_whitespace),
            '.' => {
                text[end..].starts_with(char::is_whitespace)
                    && !is_abbreviation(&text[start..at], &text[end..])
            }
            _ => false,
        };
        if ends {
            push_trimmed(text, start..end, &mut found);
            start = end;
        }
    }
    push_trimmed(text, start..text.len(), &mut found);
    found
}

/// Does the full stop between these two belong to a word? After one letter or a common title, or before lower case.
fn is_abbreviation(before: &str, after: &str) -> bool {
    let word = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let one_letter = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
    let title = ["Dr", "Mr", "Mrs", "Ms", "St", "vs", "No", "Prof", "Jr", "Gen", "al", "Fig"].contains(&word);
    one_letter || title || after.trim_start().starts_with(char::is_lowercase)
}

/// Adds `range` without the white space at its ends, unless nothing is left.
pub(crate) fn push_trimmed(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let slice = &text[range.clone()];
    let start = range.start + (slice.len() - slice.trim_start().len());
    let end = start + slice.trim().len();
    if start < end {
        found.push(start..end);
    }
}

/// Words that carry no topic: English function words, and what questions are made of.
const FUNCTION_WORDS: &str = "a about above according after against all almost along already also although always am among an and \
    another any are around as at based be became because become becomes been before began begin begins begun \
    being below between both but by came can case come comes connected connection continue continued \
    continues could describe described did do does doing during each either else enough even eventually ever \
    every explain first for found from further get gets given gives go had has have having he hear her here \
    hers him his how however i if in into is it its itself just kind know known late later learn less let \
    like made main make makes many may me mentioned might more most mostly much must my necessary neither \
    never no nor not now of off often on once one only or other our out over own part play plays \
    please provided question quite rather regard regards relation role said same say says second see several \
    shall she should since so some something sometimes soon still such take taken takes tell than that the \
    their them themselves then there these they thing things think third this those though through \
    throughout to together too under until up upon us use used uses using very was way we well were what \
    when where whether which while who whom whose why will with within without would year years yet \
    you your";

/// What a question calls the text that it should not know of.
pub(crate) const REFERENCE_NOUNS: [&str; 14] = [
    "passage",
    "passages",
    "text",
    "document",
    "documents",
    "article",
    "excerpt",
    "excerpts",
    "paragraph",
    "context",
    "snippet",
    "source",
    "sources",
    "chunk",
];

/// Is `term` without a topic: an English function word, a word of questions, or a name for the text itself?
pub fn is_function_word(term: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> =
        LazyLock::new(|| FUNCTION_WORDS.split_ascii_whitespace().chain(REFERENCE_NOUNS).collect());
    WORDS.contains(term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut<'a>(text: &'a str, ranges: &[Range<usize>]) -> Vec<&'a str> {
        ranges.iter().map(|range| &text[range.clone()]).collect()
    }

    #[test]
    fn terms_are_words_or_pairs_of_characters() {
        assert_eq!(terms("Tesla's AC-motor, 1888!"), ["tesla", "ac", "motor", "1888"]);
        assert_eq!(terms("黑豹队 NFL第3"), ["黑豹", "豹队", "nfl", "第", "3"]);
        assert_eq!(length("黑豹队 NFL 24"), 5);
        assert!(terms(" -- ").is_empty());
    }

    #[test]
    fn numbers_are_no_marks_of_lists() {
        let of = |text: &str| numbers(text).into_iter().map(|(_, number)| number).collect::<Vec<f64>>();
        assert_eq!(of("1,250.5 cents in 1884, v1.2."), [1250.5, 1884.0, 1.2]);
        assert!(of("There are: 1) one, (2) two.\n3. three; 12. And").is_empty());
        assert_eq!(of("It had 12. And 4) is é7"), [12.0, 4.0, 7.0]);
    }

    #[test]
    fn sentences_end_where_readers_end_them() {
        let text = "Dr. N. Tesla arrived in 1884. He had 4.5 cents left! Why?\nNobody knows etc. and so on.他走了。对";
        assert_eq!(
            cut(text, &sentences(text)),
            [
                "Dr. N. Tesla arrived in 1884.",
                "He had 4.5 cents left!",
                "Why?",
                "Nobody knows etc. and so on.他走了。",
                "对"
            ]
        );
    }

    #[test]
    fn function_words_carry_no_topic() {
        assert!(is_function_word("about") && is_function_word("passage") && is_function_word("a"));
        assert!(!is_function_word("tesla") && !is_function_word(""));
    }

    proptest! {
        #[test]
        fn sentences_are_in_order_and_lose_only_white_space(text in "[a-zA-Z.!?。 \n0-9é]{0,80}") {
            let ranges = sentences(&text);
            let kept: String = ranges.iter().map(|range| &text[range.clone()]).collect();
            let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(bare(&kept), bare(&text));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
    }
}
