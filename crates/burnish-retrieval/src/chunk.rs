//! Texts cut into chunks, and chunks that are no use.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::data::{Chunk, Text};
use crate::text::{length, push_trimmed, sentences, terms, words};

/// What texts are cut at, coarsest first.
#[derive(Clone, Copy)]
enum Cut {
    Paragraphs,
    Lines,
    Sentences,
    Words,
}

/// Cuts `text` into chunks of at most `words_max` words.
///
/// Recursively: what is too long is cut at blank lines, then at line ends, at the ends of sentences, and between words;
/// neighbouring pieces are put together again while they fit. The chunks are in order, do not overlap, and leave out
/// nothing but white space. A chunk's text is that of its span with control characters gone and white space made
/// single spaces. A single word is never cut, except in scripts without spaces.
pub fn chunks(text: &Text, words_max: usize) -> Vec<Chunk> {
    let words_max = words_max.max(1);
    let mut pieces = Vec::new();
    push_trimmed(&text.text, 0..text.text.len(), &mut pieces);
    let mut spans = Vec::new();
    for piece in pieces {
        cut(&text.text, piece, words_max, Cut::Paragraphs, &mut spans);
    }
    let mut chunks = Vec::with_capacity(spans.len());
    for span in spans {
        chunks.push(Chunk {
            id: format!("{}#{}", text.name, chunks.len()),
            document: text.name.clone(),
            span: Some([span.start, span.end]),
            text: clean(&text.text[span]),
        });
    }
    chunks
}

fn cut(text: &str, range: Range<usize>, most: usize, at: Cut, spans: &mut Vec<Range<usize>>) {
    if length(&text[range.clone()]) <= most {
        spans.push(range);
        return;
    }
    let slice = &text[range.clone()];
    let (pieces, finer) = match at {
        Cut::Paragraphs => (between_blank_lines(slice), Some(Cut::Lines)),
        Cut::Lines => (between(slice, "\n"), Some(Cut::Sentences)),
        Cut::Sentences => (sentences(slice), Some(Cut::Words)),
        Cut::Words => (single_words(slice), None),
    };
    let mut open: Option<Range<usize>> = None;
    for piece in pieces {
        let piece = piece.start + range.start..piece.end + range.start;
        if let Some(before) = open.take() {
            if length(&text[before.start..piece.end]) <= most {
                open = Some(before.start..piece.end);
                continue;
            }
            spans.push(before);
        }
        match finer {
            Some(finer) if length(&text[piece.clone()]) > most => cut(text, piece, most, finer, spans),
            _ => open = Some(piece),
        }
    }
    spans.extend(open);
}

fn between(text: &str, separator: &str) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, found) in text.match_indices(separator) {
        push_trimmed(text, start..at, &mut pieces);
        start = at + found.len();
    }
    push_trimmed(text, start..text.len(), &mut pieces);
    pieces
}

/// Pieces between lines of white space only.
fn between_blank_lines(text: &str) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim().is_empty() {
            push_trimmed(text, start..at, &mut pieces);
            start = at + line.len();
        }
        at += line.len();
    }
    push_trimmed(text, start..text.len(), &mut pieces);
    pieces
}

/// Pieces of at most one word each, with the signs around it: where white space is, and around every character of a
/// script without spaces.
fn single_words(text: &str) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (at, character) in text.char_indices() {
        let end = at + character.len_utf8();
        if character.is_whitespace() {
            push_trimmed(text, start..at, &mut pieces);
            start = end;
        } else if crate::text::is_unspaced(character) {
            push_trimmed(text, start..at, &mut pieces);
            push_trimmed(text, at..end, &mut pieces);
            start = end;
        }
    }
    push_trimmed(text, start..text.len(), &mut pieces);
    pieces
}

/// `text` without control characters, and with single spaces for white space.
fn clean(text: &str) -> String {
    let spaced: String = text.chars().filter(|c| c.is_whitespace() || !c.is_control()).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a chunk needs to be asked about. In place of the paper's classifier: limits that can be read off a text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quality {
    /// Fewest words.
    pub words_min: usize,
    /// Smallest share of letters among the characters that are not white space: tables and lists have few.
    pub letters_min: f64,
    /// Smallest share of different terms among the terms: texts that repeat themselves have few.
    pub distinct_min: f64,
}

impl Default for Quality {
    fn default() -> Self {
        Quality { words_min: 20, letters_min: 0.6, distinct_min: 0.3 }
    }
}

/// Why a chunk is no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejected {
    /// It has fewer than [`Quality::words_min`] words.
    TooShort,
    /// Fewer than [`Quality::letters_min`] of its characters are letters.
    FewLetters,
    /// Fewer than [`Quality::distinct_min`] of its terms differ.
    Repetitive,
}

impl Quality {
    /// Why `text` is no use, if it is none.
    pub fn rejects(&self, text: &str) -> Option<Rejected> {
        if length(text) < self.words_min || words(text).is_empty() {
            return Some(Rejected::TooShort);
        }
        let visible = text.chars().filter(|c| !c.is_whitespace()).count();
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        if (letters as f64) < self.letters_min * visible as f64 {
            return Some(Rejected::FewLetters);
        }
        let mut terms = terms(text);
        let all = terms.len();
        terms.sort_unstable();
        terms.dedup();
        ((terms.len() as f64) < self.distinct_min * all as f64).then_some(Rejected::Repetitive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts_of(text: &str, most: usize) -> Vec<String> {
        let text = Text { name: "d".to_owned(), text: text.to_owned() };
        chunks(&text, most).into_iter().map(|chunk| chunk.text).collect()
    }

    #[test]
    fn what_is_too_long_is_cut_where_it_hurts_least() {
        let text = "One two. Three four.\n\nFive six seven. Eight nine ten eleven twelve thirteen.\n\nEnd.";
        assert_eq!(
            texts_of(text, 4),
            ["One two. Three four.", "Five six seven.", "Eight nine ten eleven", "twelve thirteen.", "End."]
        );
        assert_eq!(texts_of("a\u{7} b\r\n c", 9), ["a b c"]);
        assert_eq!(texts_of("黑豹队黑豹队", 4), ["黑豹队黑", "豹队"]);
        assert!(texts_of(" \n ", 4).is_empty());
    }

    #[test]
    fn chunks_that_are_no_use_say_why() {
        let quality = Quality { words_min: 4, ..Quality::default() };
        assert_eq!(quality.rejects("too short this"), Some(Rejected::TooShort));
        assert_eq!(quality.rejects("12 34 56 78 | 90 11"), Some(Rejected::FewLetters));
        assert_eq!(quality.rejects("ha ha ha ha ha ha ha"), Some(Rejected::Repetitive));
        assert_eq!(quality.rejects("This one is long enough to keep."), None);
    }

    proptest! {
        #[test]
        fn chunks_are_in_order_short_and_lose_only_white_space(
            text in "([a-zé]{1,6}[ .,]? ?|\n|\n\n|。|黑豹){0,60}", most in 1usize..12,
        ) {
            let document = Text { name: "d".to_owned(), text: text.clone() };
            let chunks = chunks(&document, most);
            let mut last = 0;
            let mut kept = String::new();
            for (number, chunk) in chunks.iter().enumerate() {
                let [start, end] = chunk.span.unwrap();
                prop_assert!(last <= start && start < end);
                last = end;
                prop_assert_eq!(&chunk.id, &format!("d#{number}"));
                prop_assert!(length(&chunk.text) <= most
                    || !chunk.text.contains(' '), "{:?} is longer than {}", chunk.text, most);
                kept.push_str(&text[start..end]);
            }
            let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(bare(&kept), bare(&text));
        }
    }
}
