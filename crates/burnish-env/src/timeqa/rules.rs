//! Rules that find times and quadruples (head, relation, tail, time) in a page. They are simple and miss a lot; the
//! test on the real file prints how much, and `docs/environments/timed_facts.md` has the figures.
//!
//! - A *sentence* ends with ` .` (this is how the pages are tokenised) or with its paragraph.
//! - Its *times* are its years from 1000 to 2100: `1968 to 1970`, `1968 – 70`, `between 1968 and 1970` are spans,
//!   `since 1968` and `until 1968` are open on one side, `the 1960s` are ten years. A sentence without a year has the
//!   times of the sentence before it in the paragraph.
//! - The *head* is the page's title. A *tail* is a longest run of capitalised words, with `of`, `the`, `de` ... between
//!   them; words such as `He` or `In`, and months before a number, do not begin a run, and a run of the title's words
//!   alone does not count. Two runs with only a comma between them are a tail as well. The *relation* is the three
//!   words before the tail. Each tail of a sentence with times makes one quadruple per time.
//! - Quadruples are *ranked*: first those whose time overlaps with the question's, then by the words that sentence and
//!   question share, then in the order of the page.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;

use burnish_verify::qa::tokens;

/// Years from one to another, both included. Open sides are 0 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First year.
    pub from: u32,
    /// Last year.
    pub to: u32,
}

/// A fact that the rules found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quadruple {
    /// The page's title.
    pub head: String,
    /// The words before the tail.
    pub relation: String,
    /// A name.
    pub tail: String,
    /// Its time.
    pub time: Span,
}

const OPEN: u32 = 9999;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Words that may occur inside a name.
const INNER: [&str; 17] = [
    "of", "the", "for", "and", "de", "du", "da", "di", "la", "le", "von", "van", "der", "den", "al", "&",
    "del",
];

/// Capitalised words that do not begin a name.
const STOP: [&str; 48] = [
    "a",
    "after",
    "also",
    "although",
    "an",
    "and",
    "as",
    "at",
    "before",
    "both",
    "but",
    "by",
    "during",
    "following",
    "for",
    "from",
    "he",
    "her",
    "his",
    "however",
    "i",
    "in",
    "it",
    "its",
    "later",
    "on",
    "one",
    "since",
    "she",
    "some",
    "that",
    "the",
    "their",
    "then",
    "there",
    "these",
    "they",
    "this",
    "to",
    "two",
    "under",
    "until",
    "we",
    "when",
    "where",
    "which",
    "while",
    "with",
];

impl Span {
    fn overlaps(self, other: Span) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.from, self.to) {
            (0, to) => write!(f, "until {to}"),
            (from, OPEN) => write!(f, "since {from}"),
            (from, to) if from == to => write!(f, "{from}"),
            (from, to) => write!(f, "{from} to {to}"),
        }
    }
}

impl fmt::Display for Quadruple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}; {}; {}; {})", self.head, self.relation, self.tail, self.time)
    }
}

/// The times of a text, in order.
pub(super) fn times(text: &str) -> Vec<Span> {
    let parted = text.replace(['-', '–', '—'], " – ");
    let words: Vec<String> = parted
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| c.is_ascii_punctuation()).to_lowercase())
        .filter(|word| !word.is_empty())
        .collect();
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    let mut spans = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let here = at;
        at += 1;
        if let Some(decade) = word(here).strip_suffix('s').and_then(year) {
            spans.push(Span { from: decade, to: decade + 9 });
        }
        let Some(from) = year(word(here)) else { continue };
        // The word before, or the one before a month.
        let before = match here.checked_sub(1).map(word) {
            Some(month) if is_month(month) => here.checked_sub(2).map(word),
            other => other,
        };
        let joins = match word(at) {
            "–" | "to" | "until" | "till" | "through" => true,
            "and" => before == Some("between"),
            _ => false,
        };
        let end = if is_month(word(at + 1)) { at + 2 } else { at + 1 };
        let to = year(word(end)).or_else(|| (word(at) == "–").then(|| short_year(word(end), from)).flatten());
        if let Some(to) = to.filter(|to| joins && *to >= from) {
            spans.push(Span { from, to });
            at = end + 1;
            continue;
        }
        spans.push(match before {
            Some("since") => Span { from, to: OPEN },
            Some("until" | "till") => Span { from: 0, to: from },
            _ => Span { from, to: from },
        });
    }
    spans
}

/// Does a word in lower case begin like a month?
fn is_month(word: &str) -> bool {
    word.get(..3).is_some_and(|start| MONTHS.contains(&start))
}

fn year(word: &str) -> Option<u32> {
    let is_year = word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
    is_year.then(|| word.parse().ok()).flatten().filter(|year| (1000..=2100).contains(year))
}

/// `70` after 1968 is 1970.
fn short_year(word: &str, from: u32) -> Option<u32> {
    let is_short = word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    is_short.then(|| word.parse::<u32>().ok()).flatten().map(|short| from / 100 * 100 + short)
}

/// The years that a question spans; `None` if it names none.
fn asked(question: &str) -> Option<Span> {
    let spans = times(question);
    let from = spans.iter().map(|span| span.from).min()?;
    Some(Span { from, to: spans.iter().map(|span| span.to).max()? })
}

struct Sentence<'p> {
    text: &'p str,
    times: Vec<Span>,
}

/// The sentences of a page, without its title.
fn sentences(paragraphs: &[String]) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    for paragraph in paragraphs.iter().skip(1) {
        let mut before: Vec<Span> = Vec::new();
        for text in paragraph.split(" . ").map(|text| text.trim_end_matches(" .")) {
            let own = times(text);
            let times = if own.is_empty() { before } else { own };
            before = times.clone();
            found.push(Sentence { text, times });
        }
    }
    found
}

/// The title, and the sentences whose times overlap with the question's; all sentences if the question names no time.
pub(super) fn filtered(paragraphs: &[String], question: &str) -> String {
    let asked = asked(question);
    let is_kept = |sentence: &Sentence<'_>| {
        asked.is_none_or(|asked| sentence.times.iter().any(|time| time.overlaps(asked)))
    };
    let sentences = sentences(paragraphs);
    let kept = sentences.iter().filter(|sentence| is_kept(sentence)).map(|sentence| sentence.text);
    let title = paragraphs.first().map(String::as_str).into_iter();
    title.chain(kept).map(|text| format!("{text} .")).collect::<Vec<_>>().join("\n")
}

/// The quadruples of a page, the best for the question first.
pub fn quadruples(paragraphs: &[String], question: &str) -> Vec<Quadruple> {
    let asked = asked(question);
    let head = paragraphs.first().cloned().unwrap_or_default();
    let of_head: BTreeSet<String> = tokens(&head).into_iter().collect();
    let words: BTreeSet<String> =
        tokens(question).into_iter().filter(|word| !of_head.contains(word)).collect();
    let mut ranked = Vec::new();
    for Sentence { text, times } in sentences(paragraphs) {
        let shared = tokens(text).into_iter().collect::<BTreeSet<_>>().intersection(&words).count();
        for (relation, tail) in tails(text) {
            if tokens(&tail).iter().all(|word| of_head.contains(word)) {
                continue;
            }
            for &time in &times {
                let is_in_time = asked.is_none_or(|asked| time.overlaps(asked));
                let quadruple =
                    Quadruple { head: head.clone(), relation: relation.clone(), tail: tail.clone(), time };
                ranked.push((Reverse(is_in_time), Reverse(shared), quadruple));
            }
        }
    }
    ranked.sort_by_key(|(in_time, shared, _)| (*in_time, *shared));
    let mut found: Vec<Quadruple> = Vec::with_capacity(ranked.len());
    for (_, _, quadruple) in ranked {
        if !found.contains(&quadruple) {
            found.push(quadruple);
        }
    }
    found
}

/// The names of a sentence, each with the three words before it.
fn tails(sentence: &str) -> Vec<(String, String)> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let is_capital = |word: &str| word.chars().next().is_some_and(char::is_uppercase);
    let begins = |at: usize| {
        let lower = words[at].to_lowercase();
        let is_date = is_month(&lower)
            && words.get(at + 1).is_some_and(|next| next.starts_with(|c: char| c.is_ascii_digit()));
        is_capital(words[at]) && !STOP.contains(&lower.as_str()) && !is_date
    };
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if !begins(at) {
            at += 1;
            continue;
        }
        let from = at;
        let mut to = at + 1;
        at += 1;
        while at < words.len() && (is_capital(words[at]) || INNER.contains(&words[at])) {
            at += 1;
            if is_capital(words[at - 1]) {
                to = at;
            }
        }
        at = to;
        runs.push((from, to));
    }
    let joined = runs.windows(2).filter(|pair| pair[0].1 + 1 == pair[1].0 && words[pair[0].1] == ",");
    let joined: Vec<(usize, usize)> = joined.map(|pair| (pair[0].0, pair[1].1)).collect();
    runs.extend(joined);
    runs.sort_unstable();
    runs.into_iter()
        .map(|(from, to)| (words[from.saturating_sub(3)..from].join(" "), words[from..to].join(" ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<String> {
        [
            "Ada Byron",
            "Ada Byron taught at the University of Turin from 1903 to 1907 . There she met Hugo de Vries . In 1912 she moved to \
             Basel , Switzerland .",
            "She has lived in Rome since Mar 1930 .",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    #[test]
    fn times_are_years_spans_and_open_sides() {
        let spans = |text: &str| times(text).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(spans("from Aug 1995 to Aug 2002 , then 1968-70"), ["1995 to 2002", "1968 to 1970"]);
        assert_eq!(spans("between 1968 and 1970; 1971 and 1972"), ["1968 to 1970", "1971", "1972"]);
        assert_eq!(
            spans("since May 1930 they sang until 1931 (the 1960s)"),
            ["since 1930", "until 1931", "1960 to 1969"]
        );
        assert_eq!(spans("U-254 sank 12345 ships in 1998 to 200"), ["1998"]);
    }

    #[test]
    fn quadruples_of_the_time_that_is_asked_about_come_first() {
        let found = |question: &str| -> Vec<String> {
            quadruples(&page(), question).iter().map(ToString::to_string).collect()
        };
        let early = found("Where did Ada Byron work from 1905 to 1906?");
        assert_eq!(early[0], "(Ada Byron; taught at the; University of Turin; 1903 to 1907)");
        assert!(
            early[..3].contains(&"(Ada Byron; There she met; Hugo de Vries; 1903 to 1907)".to_owned()),
            "{early:?}"
        );
        assert_eq!(found("Where did she live in 1940?")[0], "(Ada Byron; has lived in; Rome; since 1930)");
        let tails: Vec<String> =
            quadruples(&page(), "in 1912?").into_iter().take(3).map(|found| found.tail).collect();
        assert_eq!(tails, ["Basel", "Basel , Switzerland", "Switzerland"]);
    }

    #[test]
    fn sentences_of_other_times_are_left_out() {
        assert_eq!(filtered(&page(), "in 1912?"), "Ada Byron .\nIn 1912 she moved to Basel , Switzerland .");
        assert_eq!(filtered(&page(), "where?").lines().count(), 5);
    }
}
