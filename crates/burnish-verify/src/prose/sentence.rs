//! Sentences, and their kinds.

use super::lexicon::COPULAS;
use super::tokens::{Found, Kind, Token};

/// How much of the sentence before a mark is read, in bytes.
const BEHIND: usize = 400;

pub(super) fn sentences(tokens: &[Token]) -> Vec<&[Token]> {
    tokens
        .split_inclusive(|token| matches!(token.kind, Kind::Stop(_)))
        .filter(|sentence| !sentence.is_empty())
        .collect()
}

pub(super) fn words_of(sentence: &[Token]) -> Vec<&str> {
    sentence
        .iter()
        .filter_map(|token| match &token.kind {
            Kind::Word(word) => Some(word.as_str()),
            _ => None,
        })
        .collect()
}

/// "It is 18, right?" is not a question.
pub(super) fn is_question(sentence: &[Token]) -> bool {
    let is_tag = matches!(sentence, [.., Token { kind: Kind::Comma, .. }, Token { kind: Kind::Word(word), .. }, _]
        if matches!(word.as_str(), "right" | "correct" | "okay" | "ok" | "yes"));
    !is_tag && matches!(sentence.last().map(|token| &token.kind), Some(Kind::Stop('?')))
}

/// A value with a word or two, and a full stop.
pub(super) fn is_bare(sentence: &[Token]) -> bool {
    matches!(sentence, [Token { kind: Kind::Found(Found { is_plain: true, .. }), .. }, between @ .., Token { kind: Kind::Stop('.'), .. }] if between.len() <= 2 && words_of(between).len() == between.len() && !words_of(between).iter().any(|word| COPULAS.contains(word)))
}

pub(super) fn is_yes(sentence: &[Token]) -> bool {
    if matches!(
        words_of(sentence)[..],
        ["it" | "that", "is" | "does" | "was"] | ["it" | "that", "is", "indeed" | "so"]
    ) {
        return true;
    }
    matches!(
        words_of(sentence).first(),
        Some(&("yes" | "yep" | "yeah" | "correct" | "indeed" | "right" | "exactly" | "sure"))
    )
}

/// "That is 8 more than last week.", "That's well above the 40 she hoped for.": a remark on what was said.
pub(super) fn is_remark(sentence: &[Token]) -> bool {
    let words = words_of(sentence);
    if is_past(&words) {
        return true;
    }
    let is_about_it = matches!(words[..], ["that" | "this", "is" | "was", ..] | ["that's", ..]);
    is_about_it
        && words.iter().take(6).any(|word| {
            matches!(
                *word,
                "more"
                    | "less"
                    | "fewer"
                    | "higher"
                    | "lower"
                    | "above"
                    | "below"
                    | "over"
                    | "under"
                    | "times"
                    | "within"
                    | "greater"
                    | "twice"
                    | "half"
                    | "almost"
                    | "nearly"
                    | "smaller"
                    | "larger"
            )
        })
        && !words.iter().any(|word| matches!(*word, "so" | "total" | "answer"))
}

/// "Last year it was 40."
pub(super) fn is_past(words: &[&str]) -> bool {
    matches!(
        words,
        ["last", _, "it", "was", ..]
            | ["yesterday" | "before", "it", "was", ..]
            | ["yesterday" | "before", "that" | ",", "it", "was", ..]
    )
}

/// Words with "that's", "they're", "it'd" as two: "that is", "they are", "it would".
pub(super) fn uncontracted<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut plain = Vec::with_capacity(words.len());
    for word in words {
        let Some((subject, verb)) = word.split_once('\'') else {
            plain.push(*word);
            continue;
        };
        let verb = match verb {
            "s" if matches!(subject, "that" | "it" | "he" | "she" | "there" | "what" | "here" | "this") => {
                "is"
            }
            "re" => "are",
            "d" => "would",
            "ll" => "will",
            _ => {
                plain.push(*word);
                continue;
            }
        };
        plain.extend([subject, verb]);
    }
    plain
}

/// "so it works out", "which is right", "as required": what was just computed agrees with what was said.
pub(super) fn approves(words: &[&str]) -> bool {
    let words = uncontracted(words);
    let is_subject = |word: &str| matches!(word, "it" | "that" | "this" | "which" | "everything" | "all");
    let is_verdict = |word: &str| {
        matches!(word, "right" | "correct" | "true" | "fine" | "consistent" | "good" | "ok" | "okay")
    };
    words.contains(&"\u{2713}")
        || words.windows(2).any(|pair| {
            is_subject(pair[0])
                && matches!(
                    pair[1],
                    "works" | "checks" | "matches" | "agrees" | "fits" | "holds" | "confirms"
                )
                || pair[0] == "as"
                    && matches!(
                        pair[1],
                        "required" | "expected" | "given" | "stated" | "desired" | "wanted" | "needed" | "it"
                    )
        })
        || words.windows(3).any(|three| {
            is_subject(three[0]) && matches!(three[1], "is" | "seems" | "looks") && is_verdict(three[2])
        })
}

/// "6 rows, 8 chairs per row.", "6 rows of 8.": no statement, but what one rests on.
pub(super) fn is_fragment(sentence: &[Token]) -> bool {
    let is_found = |token: &Token| matches!(token.kind, Kind::Found(_));
    let is_word =
        |token: &Token, wanted: fn(&str) -> bool| matches!(&token.kind, Kind::Word(word) if wanted(word));
    let sentence = match sentence {
        [rest @ .., Token { kind: Kind::Stop('.'), .. }] => rest,
        _ => return false,
    };
    let is_piece = |piece: &[Token]| {
        piece.first().is_some_and(is_found)
            && piece.len() <= 5
            && piece.iter().all(|token| match &token.kind {
                Kind::Word(word) => !(super::words::is_verb(word) || is_closing(word)),
                Kind::Found(found) => found.is_plain,
                _ => false,
            })
            // A word that leads to another number may be a verb: "6 hens lay 48 eggs".
            && piece.windows(2).all(|pair| {
                !is_found(&pair[1]) || is_word(&pair[0], |word| matches!(word, "of" | "with" | "at" | "per"))
            })
    };
    sentence.iter().filter(|token| is_found(token)).count() > 1
        && sentence.split(|token| token.kind == Kind::Comma).all(is_piece)
}

/// Words that open or end a result: "so", "in total", "48 each".
fn is_closing(word: &str) -> bool {
    matches!(
        word,
        "so" | "thus"
            | "hence"
            | "therefore"
            | "then"
            | "total"
            | "all"
            | "altogether"
            | "together"
            | "sum"
            | "left"
            | "remain"
            | "or"
            | "not"
            | "to"
            | "from"
            | "minus"
            | "plus"
            | "times"
            | "answer"
            | "result"
            | "finally"
            | "now"
            | "each"
            | "i"
            | "we"
            | "you"
            | "he"
            | "she"
            | "it"
            | "they"
            | "there"
            | "no"
            | "wait"
            | "actually"
            | "but"
            | "only"
            | "again"
            | "overall"
    )
}

/// A sentence that checks or explains what another one says.
pub(super) fn is_support(sentence: &[Token]) -> bool {
    let words = uncontracted(&words_of(sentence));
    match words.first() {
        Some(first) => {
            matches!(
                *first,
                "check"
                    | "checking"
                    | "verify"
                    | "verifying"
                    | "verification"
                    | "note"
                    | "notice"
                    | "explanation"
                    | "reason"
                    | "reasoning"
                    | "proof"
                    | "recall"
                    | "remember"
                    | "sanity"
                    | "justification"
                    | "why"
                    | "here's"
                    | "details"
                    | "indeed"
                    | "workings"
                    | "work"
                    | "working"
            ) || matches!(
                words[..],
                ["to", "check" | "verify" | "see" | "confirm", ..]
                    | ["we", "can", "check" | "verify", ..]
                    | ["as", "a", "check", ..]
                    | ["you", "can", "check" | "verify", ..]
                    | [
                        "you" | "we" | "one",
                        "can" | "could",
                        "see" | "get" | "find" | "confirm" | "check" | "verify",
                        "this" | "that" | "it",
                        ..
                    ]
                    | ["you" | "we" | "one", "can" | "could", "also", ..]
                    | ["this" | "that", "is", "because", ..]
                    | ["it", "is", "because", ..]
                    | ["this" | "that" | "it", "follows" | "comes" | "results", "from" | "because", ..]
                    | ["the", "reason", ..]
                    | ["here", "is", "why" | "how", ..]
                    | [
                        "this" | "that" | "it" | "which",
                        "agrees" | "matches" | "fits" | "checks" | "confirms" | "works",
                        ..
                    ]
                    | ["this" | "that" | "it", "makes", "sense", ..]
                    | [
                        "this" | "that" | "it",
                        "is" | "seems" | "sounds" | "looks",
                        "consistent"
                            | "right"
                            | "correct"
                            | "reasonable"
                            | "plausible"
                            | "sensible"
                            | "fine"
                            | "logical"
                            | "okay"
                            | "ok"
                            | "good"
                            | "about",
                        "as" | "because" | "since" | "given" | "with" | "for" | "when" | "if" | "considering",
                        ..
                    ]
                    | [
                        "sounds" | "seems" | "looks",
                        "right" | "reasonable" | "plausible" | "fine" | "good",
                        ..
                    ]
                    | ["let's" | "let", "check" | "verify" | "me", ..]
            )
        }
        None => false,
    }
}

/// A place at or after `from` at which reading can start: the start of a line, or of a word.
pub(super) fn tail_start(text: &str, from: usize) -> usize {
    if from == 0 {
        return 0;
    }
    let from = text.floor_char_boundary(from);
    let near = &text[from..text.floor_char_boundary((from + 1_000).min(text.len()))];
    near.find('\n').or_else(|| near.find(' ')).map_or(from, |at| from + at + 1)
}

/// Where the sentence that holds `mark` starts.
pub(super) fn sentence_start(text: &str, mark: usize) -> usize {
    let low = text.floor_char_boundary(mark.saturating_sub(BEHIND));
    let before = &text[low..mark];
    let stops = [". ", ".\n", "! ", "? ", "?\n", "!\n", "\n\n", "。", "। "];
    stops.iter().filter_map(|stop| before.rfind(stop).map(|at| low + at + stop.len())).max().unwrap_or(low)
}

pub(super) fn is_condition(words: &[&str]) -> bool {
    words.first().is_some_and(|word| {
        matches!(
            *word,
            "if" | "suppose"
                | "assuming"
                | "unless"
                | "whether"
                | "supposing"
                | "had"
                | "were"
                | "provided"
                | "assume"
                | "let"
        )
    }) || words.iter().rev().take(4).any(|word| matches!(*word, "if" | "whether" | "unless"))
}
