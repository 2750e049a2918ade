//! Where the final answer of a response is.
//!
//! Four marks, in this order; of several of one kind, the last that holds something counts:
//! 1. `\boxed{...}` or `\fbox{...}`; boxes joined by nothing but `,`, `;`, "and", "or" are one list;
//! 2. `<answer>...</answer>`;
//! 3. `#### ...`, to the end of its line;
//! 4. one of [`PHRASES`], to the end of its line or of the display that follows.
//!
//! Without a mark, [`Reading`] decides. Beyond the phrases no words are read.

mod extract;
mod marks;
mod values;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use marks::{Found, Mention, boxed, hashes, is_nothing, is_placeholder, last_box, tag};

pub use extract::{extracted, extraction};
pub(crate) use marks::tagged;
pub(crate) use values::values;

/// How the final answer of a response is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", rename_all = "snake_case")]
pub enum Reading {
    /// Only a mark counts: a box, an answer tag, `####`, or one of [`PHRASES`].
    Mark,
    /// A mark; without one the last number or expression, the last letter of a choice, the last JSON value, or the
    /// whole text.
    #[default]
    Last,
    /// A mark; without one, a model copies the answer out of the response ([`extraction`]). A verifier asks no model, so
    /// by itself it takes only marks.
    Judge,
}

impl Reading {
    /// Every reading.
    pub const ALL: [Reading; 3] = [Reading::Mark, Reading::Last, Reading::Judge];

    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Reading::Mark => "mark",
            Reading::Last => "last",
            Reading::Judge => "judge",
        }
    }
}

/// A name of no reading.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no reading; there are \"mark\", \"last\" and \"judge\"")]
pub struct ReadingError(String);

impl FromStr for Reading {
    type Err = ReadingError;

    fn from_str(name: &str) -> Result<Reading, ReadingError> {
        let known = Reading::ALL.into_iter().find(|reading| reading.name() == name);
        known.ok_or_else(|| ReadingError(name.to_owned()))
    }
}

impl TryFrom<String> for Reading {
    type Error = ReadingError;

    fn try_from(name: String) -> Result<Reading, ReadingError> {
        name.parse()
    }
}

/// The phrases that mark the text behind them as the answer, in any case, with Markdown around their words.
pub const PHRASES: [&str; 10] = [
    "answer is",
    "answer:",
    "die antwort ist",
    "la respuesta es",
    "la réponse est",
    "ответ:",
    "答案是",
    "答えは",
    "คำตอบคือ",
    "jibu ni",
];

/// How many phrases of a response are tried, from its end.
const PHRASES_MAX: usize = 64;

/// How an answer was marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Boxed,
    Tag,
    Hashes,
    Phrase,
}

/// The marked answer of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) text: String,
    pub(crate) mark: Mark,
}

/// The marked answer. `None` if nothing marks one.
pub(crate) fn marked(response: &str) -> Option<Marked> {
    marked_where(response, |_| true)
}

/// The marked answer; a phrase marks one only if `holds` finds an answer in the text behind it.
pub(crate) fn marked_where(response: &str, holds: impl Fn(&str) -> bool) -> Option<Marked> {
    // A placeholder ("write it as \boxed{answer}") is an answer only if there is no other.
    marked_by(response, is_placeholder, &holds).or_else(|| marked_by(response, is_nothing, &holds))
}

/// The marked answer, where marks whose content is a mention are passed over.
fn marked_by(response: &str, is_mention: Mention, holds: &impl Fn(&str) -> bool) -> Option<Marked> {
    let found = |mark| move |(_, text): Found| Marked { text, mark };
    boxed(response, is_mention)
        .map(found(Mark::Boxed))
        .or_else(|| tag(response, is_mention).map(found(Mark::Tag)))
        .or_else(|| hashes(response, is_mention).map(found(Mark::Hashes)))
        .or_else(|| phrase(response, is_mention, holds).map(found(Mark::Phrase)))
}

/// The text of a worked solution before the first place where a final answer is marked.
pub(crate) fn before(response: &str) -> &str {
    let mut before = response;
    while let Some(at) = mark_at(before) {
        before = &before[..at];
    }
    before
}

/// Where an answer is marked: of the last marks of each kind, the first one.
fn mark_at(response: &str) -> Option<usize> {
    let found = [
        last_box(response, is_nothing),
        tag(response, is_nothing),
        hashes(response, is_nothing),
        phrase(response, is_nothing, &|_| true),
    ];
    found.into_iter().flatten().map(|(start, _)| start).min()
}

/// The last phrase that something follows, with that.
fn phrase(response: &str, is_mention: Mention, holds: &impl Fn(&str) -> bool) -> Option<Found> {
    let folded = folded(response);
    let mut places: Vec<(usize, usize)> = PHRASES.iter().flat_map(|phrase| places(&folded, phrase)).collect();
    places.sort_unstable();
    places.into_iter().rev().take(PHRASES_MAX).find_map(|(start, end)| {
        let text = behind(&response[end..]);
        (!is_mention(text) && !stripped(text).is_empty() && holds(text)).then(|| (start, text.to_owned()))
    })
}

/// `text` in lower case, where every character keeps its length.
fn folded(text: &str) -> String {
    let lower =
        |c: char| c.to_lowercase().next().filter(|lower| lower.len_utf8() == c.len_utf8()).unwrap_or(c);
    text.chars().map(lower).collect()
}

/// Where `phrase` stands in a text in lower case. Between its words, and before its colon, may be Markdown.
fn places(folded: &str, phrase: &str) -> Vec<(usize, usize)> {
    let length = phrase.rfind([' ', ':']).unwrap_or(phrase.len());
    let (head, tail) = phrase.split_at(length);
    let ends_at = |at: usize| {
        let Some(tail) = tail.chars().next().map(|_| tail.trim_start()) else { return Some(at) };
        let rest = folded[at..].trim_start_matches([' ', '*', '_']);
        let is_spaced = rest.len() < folded.len() - at;
        let after = match (tail, rest.strip_prefix('：')) {
            (":", Some(after)) => after,
            _ => rest.strip_prefix(tail).filter(|_| is_spaced || tail == ":")?,
        };
        (tail == ":" || !after.starts_with(char::is_alphanumeric)).then_some(folded.len() - after.len())
    };
    folded
        .match_indices(head)
        .filter_map(|(start, head)| Some((start, ends_at(start + head.len())?)))
        .collect()
}

/// The answer at the start of `text`: a display, or the first line that is not empty.
fn behind(text: &str) -> &str {
    let rest = text.trim_start_matches([' ', '*', '\n', '\r', '\t', ':', '_', '：']);
    for (open, close) in [("$$", "$$"), ("\\[", "\\]"), ("```", "```")] {
        if let Some(inner) = rest.strip_prefix(open) {
            return &inner[..inner.find(close).unwrap_or(inner.len())];
        }
    }
    rest.lines().next().unwrap_or("")
}

/// Where the brace that is open at the start closes.
pub(crate) fn closing(text: &str) -> Option<usize> {
    let mut depth = 1_usize;
    let mut is_escaped = false;
    for (index, c) in text.char_indices() {
        match c {
            _ if is_escaped => {}
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    None
}

/// Whether the text between two answers joins them into one.
pub(crate) fn is_connective(between: &str) -> bool {
    let bare: String = between.chars().filter(|c| !"$()[]\\ \n\t*".contains(*c)).collect();
    matches!(
        bare.to_lowercase().as_str(),
        "," | ";" | "and" | "or" | ",and" | ",or" | "textand" | "text{and}" | "text{or}"
    )
}

/// Without the Markdown, quotes and full stops around an answer.
pub(crate) fn stripped(text: &str) -> &str {
    let text =
        text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '`' | '"' | '“' | '”' | ':'));
    text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | ';' | '*' | '。' | '।'))
}

#[cfg(test)]
mod tests;
