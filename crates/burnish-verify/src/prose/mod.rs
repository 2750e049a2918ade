//! The answer that running text gives.
//!
//! Every value of a sentence is a claim, and words say what becomes of it: a bound ("at least 7") or a range makes it
//! unreadable, arithmetic ("7 minus 1", "half of 7", "7 dozen") another number, a negation ("not 7", "7 is wrong") takes it
//! out, a clause with "if" or "because" lets it stand back. All other words are neutral. `words` has the classes, `claims` how
//! they reach a number, `term` what joins numbers, and this file which claim is the answer.

mod claim;
mod claims;
mod lexicon;
mod mathematics;
mod term;
mod tokens;
mod words;

use claims::{Claim, Rank, claims};
use tokens::{Kind, Token};

use crate::syntax::Value;

/// What is read of a response without a mark, from its end, in bytes.
const TAIL: usize = 6_000;
/// What is read behind a mark.
const AHEAD: usize = 3_000;
/// What is read of the sentence before a mark.
const BEHIND: usize = 400;
/// Tokens of either.
const TOKENS: usize = 2_500;

/// What a piece of prose says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reading {
    /// A value, and the text it was read from.
    Value(Value, String),
    /// A number is there, but not one answer: a range, a bound, one that is taken back.
    Unclear(String),
    /// No number.
    Nothing,
}

/// What a sentence comes to.
enum Outcome {
    Claim(Claim),
    /// Its values are all denied, asked for, or under a condition.
    Denied(String),
    Nothing,
}

/// The answer of a text without a mark: the last claim that stands.
pub(crate) fn last(text: &str, wants_number: bool) -> Reading {
    let from = tail_start(text, text.len().saturating_sub(TAIL));
    let text = &text[from..];
    let tokens = tokens::tokens(text, 0, TOKENS);
    let sentences = sentences(&tokens);
    // "18. She sells nine eggs at $2 each."
    if let [opening, _, ..] = &sentences[..]
        && from == 0
        && is_bare(opening)
        && let [claim] = &claims(opening, text, wants_number)[..]
        && !text.trim_end().contains('\n')
        && !sentences[1..].iter().any(|sentence| {
            is_retraction(sentence)
                || words_of(sentence)
                    .first()
                    .is_some_and(|word| matches!(*word, "no" | "so" | "then" | "yes"))
                || sentence.iter().any(|token| token.kind == Kind::Sign('='))
                || claims(sentence, text, wants_number).iter().any(|claim| claim.takes_back)
        })
    {
        return reading(text, claim, &[]);
    }
    let mut denied: Vec<String> = Vec::new();
    let mut fallback: Option<Claim> = None;
    let mut was_retracted = false;
    let mut is_confirmed = false;
    for (index, sentence) in sentences.iter().enumerate().rev() {
        let is_question = is_question(sentence);
        let claims = claims(sentence, text, wants_number);
        if claims.is_empty() {
            was_retracted |= is_retraction(sentence) && index > 0;
            is_confirmed = is_yes(sentence);
            continue;
        }
        denied.extend(claims.iter().filter(|claim| claim.is_negated).map(|claim| source(text, claim)));
        if is_question && !is_confirmed {
            let is_answered = fallback.is_some();
            if !is_answered {
                return Reading::Unclear(source(text, &claims[claims.len() - 1]));
            }
            continue;
        }
        is_confirmed = false;
        let is_support = is_support(sentence) && index > 0;
        match chosen(&claims, None, text) {
            Outcome::Claim(claim) if was_retracted => return Reading::Unclear(source(text, &claim)),
            Outcome::Claim(claim) if is_support || claim.rank <= Rank::Aside => {
                if fallback.is_none() {
                    fallback = Some(claim);
                }
            }
            Outcome::Claim(claim) => return reading(text, &claim, &denied),
            Outcome::Denied(text) => denied.push(text),
            Outcome::Nothing => {}
        }
    }
    match fallback {
        Some(claim) => reading(text, &claim, &denied),
        None => denied.into_iter().next().map_or(Reading::Nothing, Reading::Unclear),
    }
}

/// The answer behind a mark that ends at `mark`.
pub(crate) fn after(text: &str, mark: usize, wants_number: bool) -> Reading {
    let from = sentence_start(text, mark);
    let end = text.floor_char_boundary((mark + AHEAD).min(text.len()));
    let text = &text[from..end];
    let mark = mark - from;
    let tokens = tokens::tokens(text, 0, TOKENS);
    let sentences = sentences(&tokens);
    let mut picked: Option<Claim> = None;
    let mut denied: Vec<String> = Vec::new();
    for sentence in &sentences {
        let Some(last) = sentence.last() else { continue };
        if last.end <= mark {
            continue;
        }
        let is_question = is_question(sentence);
        let found = claims(sentence, text, wants_number);
        let is_marked = sentence[0].start < mark;
        if let Some(first) = &picked {
            // What is taken back in a later sentence: "Wait, it is 8."
            if is_retraction(sentence) && found.iter().all(|claim| claim.is_negated) {
                return Reading::Unclear(source(text, first));
            }
            if found.iter().any(|claim| claim.is_negated && source(text, claim) == source(text, first))
                && found.len() == 1
            {
                return Reading::Unclear(source(text, first));
            }
            if let Some(claim) = found.iter().find(|claim| claim.takes_back && !claim.is_negated) {
                picked = Some(claim.clone());
            }
            continue;
        }
        denied.extend(found.iter().filter(|claim| claim.is_negated).map(|claim| source(text, claim)));
        if is_question {
            if let Some(claim) = found.last() {
                denied.push(source(text, claim));
            }
            continue;
        }
        match chosen(&found, is_marked.then_some(mark), text) {
            Outcome::Claim(claim) => picked = Some(claim),
            Outcome::Denied(source) => denied.push(source),
            Outcome::Nothing => {}
        }
    }
    match picked {
        Some(claim) => reading(text, &claim, &denied),
        None => denied.into_iter().next().map_or(Reading::Nothing, Reading::Unclear),
    }
}

/// The answer of a box: a value with nothing but "about" and units around it.
pub(crate) fn bare(text: &str) -> Reading {
    let plain = tokens::unwrapped(text);
    let tokens = tokens::tokens(&plain, 0, 64);
    let found = claims(&tokens, &plain, false);
    let is_led = tokens.iter().take_while(|token| !matches!(token.kind, Kind::Found(_))).all(|token| {
        match &token.kind {
            Kind::Word(word) => {
                matches!(
                    word.as_str(),
                    "about"
                        | "approximately"
                        | "approx"
                        | "around"
                        | "roughly"
                        | "exactly"
                        | "a"
                        | "the"
                        | "total"
                        | "of"
                        | "or"
                        | "twice"
                        | "half"
                        | "double"
                        | "minus"
                        | "negative"
                        | "is"
                        | "answer"
                        | "it"
                        | "just"
                )
            }
            _ => true,
        }
    });
    match &found[..] {
        [] => Reading::Nothing,
        [claim] if is_led && !claim.is_negated && claim.value.is_some() && is_all(&plain, claim) => {
            reading(&plain, claim, &[])
        }
        _ => Reading::Unclear(text.trim().to_owned()),
    }
}

/// Whether no mathematics is left beside a claim: `\\sqrt{...` that could not be read is no 2.
fn is_all(text: &str, claim: &Claim) -> bool {
    let beside = format!("{} {}", &text[..claim.start], &text[claim.end..]);
    let is_command = |at: usize| beside[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic());
    !beside.contains(['^', '_', '{', '}', '(', '[', '|'])
        && !beside.match_indices('\\').any(|(at, _)| is_command(at))
}

/// Where a value of `text` is called the answer by what follows it ("18 is the answer"), if that is behind `from`.
pub(crate) fn named_after(text: &str, from: usize, wants_number: bool) -> Option<Reading> {
    let start = tail_start(text, from.max(text.len().saturating_sub(TAIL)));
    if !text[start..].contains("answer") && !text[start..].contains("solution") {
        return None;
    }
    let text = &text[start..];
    let tokens = tokens::tokens(text, 0, TOKENS);
    let sentences = sentences(&tokens);
    let claim = sentences.iter().rev().find_map(|sentence| {
        let is_question = is_question(sentence);
        let found = claims(sentence, text, wants_number);
        found
            .into_iter()
            .rev()
            .find(|claim| claim.is_named && !claim.is_negated && !is_question && claim.rank > Rank::Condition)
    })?;
    Some(reading(text, &claim, &[]))
}

fn reading(text: &str, claim: &Claim, denied: &[String]) -> Reading {
    let source = source(text, claim);
    match &claim.value {
        Some(value) if !denied.contains(&source) => Reading::Value(value.clone(), source),
        _ => Reading::Unclear(source),
    }
}

fn source(text: &str, claim: &Claim) -> String {
    text[claim.start..claim.end].trim_matches(['$', ' ']).trim().to_owned()
}

/// The claim that a sentence makes. Behind a mark the first one is meant, where nothing but a few words lead to it.
fn chosen(found: &[Claim], mark: Option<usize>, text: &str) -> Outcome {
    let marked: Vec<&Claim> =
        found.iter().filter(|claim| mark.is_none_or(|mark| claim.start >= mark)).collect();
    let standing: Vec<&Claim> =
        marked.iter().copied().filter(|claim| !claim.is_negated && claim.rank > Rank::Condition).collect();
    if standing.is_empty() {
        return marked.last().map_or(Outcome::Nothing, |claim| Outcome::Denied(source(text, claim)));
    }
    if let Some(named) = standing.iter().rev().find(|claim| claim.is_named) {
        return Outcome::Claim((*named).clone());
    }
    let taken_back = standing.iter().rev().find(|claim| claim.takes_back && claim.rank > Rank::Aside);
    if let (Some(mark), first) = (mark, standing[0]) {
        let between = text[mark..first.start]
            .split(|c: char| !(c.is_alphabetic() || c == '\''))
            .filter(|word| !word.is_empty());
        let led = between.filter(|word| !words::is_leading(&word.to_lowercase())).count();
        let is_first = marked.first().is_some_and(|claim| claim.start == first.start) || marked[0].is_negated;
        // "Answer: after 4 days he has 18": behind a mere label the sentence's own verb counts.
        let is_overruled = !first.has_verb
            && standing.iter().any(|later| {
                later.start > first.start
                    && later.has_verb
                    && later.clause == first.clause
                    && later.rank == Rank::Main
            });
        if led <= 1 && is_first && !first.is_supposed && !is_overruled {
            return Outcome::Claim(taken_back.map_or(first, |back| back).clone());
        }
    }
    if let Some(back) = taken_back {
        return Outcome::Claim((*back).clone());
    }
    let best = standing.iter().map(|claim| (claim.rank, !claim.is_supposed)).max();
    let mut pick = standing.iter().rev().find(|claim| Some((claim.rank, !claim.is_supposed)) == best);
    // "There are 18 numbers between 2 and 5", "9 + 9 = 18 for 14 peaches": what a verb leads to, not what a preposition does.
    for earlier in standing.iter().rev() {
        let Some(later) = pick else { break };
        if earlier.start < later.start
            && earlier.clause == later.clause
            && earlier.rank == later.rank
            && earlier.is_led
            && later.is_behind
        {
            pick = Some(earlier);
        }
    }
    // "18, maybe 20" gives two answers.
    let other = marked.last().filter(|last| {
        pick.is_some_and(|pick| last.start > pick.start)
            && last.is_tentative
            && matches!(last.rank, Rank::Main | Rank::Condition)
    });
    // "Could be 18, could be 20" as well.
    let other = other.or_else(|| {
        let is_other = |claim: &&&Claim| {
            pick.is_some_and(|pick| {
                pick.is_tentative && pick.clause != claim.clause && source(text, pick) != source(text, claim)
            }) && claim.is_tentative
                && claim.rank == Rank::Main
        };
        standing.iter().find(is_other)
    });
    match (pick, other) {
        (Some(pick), Some(other)) => Outcome::Claim(Claim {
            value: None,
            start: pick.start.min(other.start),
            end: pick.end.max(other.end),
            ..(*pick).clone()
        }),
        (Some(pick), None) => Outcome::Claim((*pick).clone()),
        (None, _) => Outcome::Nothing,
    }
}

fn sentences(tokens: &[Token]) -> Vec<&[Token]> {
    tokens
        .split_inclusive(|token| matches!(token.kind, Kind::Stop(_)))
        .filter(|sentence| !sentence.is_empty())
        .collect()
}

fn words_of(sentence: &[Token]) -> Vec<&str> {
    sentence
        .iter()
        .filter_map(|token| match &token.kind {
            Kind::Word(word) => Some(word.as_str()),
            _ => None,
        })
        .collect()
}

/// "It is 18, right?" asks for nothing.
fn is_question(sentence: &[Token]) -> bool {
    let is_tag = matches!(sentence, [.., Token { kind: Kind::Comma, .. }, Token { kind: Kind::Word(word), .. }, _]
        if matches!(word.as_str(), "right" | "correct" | "okay" | "ok" | "yes"));
    !is_tag && matches!(sentence.last().map(|token| &token.kind), Some(Kind::Stop('?')))
}

/// A value with a word or two, and a full stop.
fn is_bare(sentence: &[Token]) -> bool {
    matches!(sentence, [Token { kind: Kind::Found(_), .. }, between @ .., Token { kind: Kind::Stop('.'), .. }] if between.len() <= 2 && words_of(between).len() == between.len())
}

/// "That is wrong.", "Scratch that.", "I made a mistake."
fn is_retraction(sentence: &[Token]) -> bool {
    let words = words_of(sentence);
    if words.len() > 9 {
        return false;
    }
    let is_it = matches!(
        words.first(),
        Some(
            &("that"
                | "this"
                | "it"
                | "that's"
                | "it's"
                | "no"
                | "but"
                | "however"
                | "wait"
                | "hmm"
                | "actually"
                | "sorry"
                | "oops"
                | "which"
                | "oh")
        )
    );
    let is_wrong = words.iter().any(|word| {
        matches!(
            *word,
            "wrong"
                | "incorrect"
                | "mistaken"
                | "mistake"
                | "false"
                | "nonsense"
                | "off"
                | "right"
                | "correct"
                | "true"
                | "it"
                | "work"
        )
    });
    (is_it && is_wrong && (words::is_rejected(&words[1..]) || words::is_rejected(&words)))
        || matches!(
            words[..],
            ["scratch", "that", ..]
                | ["never", "mind", ..]
                | ["nevermind", ..]
                | ["ignore", "that" | "this", ..]
                | ["forget", ..]
                | ["strike", "that"]
                | ["i", "take", "that" | "it" | "this", "back", ..]
        )
        || (words.first() == Some(&"i")
            && words.iter().any(|word| {
                matches!(
                    *word,
                    "wrong" | "mistake" | "mistaken" | "error" | "erred" | "miscounted" | "miscalculated"
                )
            })
            && !words.iter().any(|word| matches!(*word, "no" | "not" | "if" | "unless" | "isn't")))
}

fn is_yes(sentence: &[Token]) -> bool {
    matches!(
        words_of(sentence).first(),
        Some(&("yes" | "yep" | "yeah" | "correct" | "indeed" | "right" | "exactly" | "sure"))
    )
}

/// A sentence that checks or explains what another one says.
fn is_support(sentence: &[Token]) -> bool {
    let words = words_of(sentence);
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
                    | "because"
                    | "since"
                    | "remember"
                    | "sanity"
                    | "justification"
                    | "why"
                    | "here's"
                    | "details"
                    | "workings"
                    | "work"
                    | "working"
            ) || matches!(
                words[..],
                ["to", "check" | "verify" | "see" | "confirm", ..]
                    | ["we", "can", "check" | "verify", ..]
                    | ["as", "a", "check", ..]
                    | ["you", "can", "check" | "verify", ..]
                    | ["this" | "that", "is", "because", ..]
                    | ["it's", "because", ..]
                    | ["let's" | "let", "check" | "verify" | "me", ..]
            )
        }
        None => false,
    }
}

/// A place from which `text` is read whole: the start of a line, or of a word.
fn tail_start(text: &str, from: usize) -> usize {
    if from == 0 {
        return 0;
    }
    let from = text.floor_char_boundary(from);
    let near = &text[from..text.floor_char_boundary((from + 1_000).min(text.len()))];
    near.find('\n').or_else(|| near.find(' ')).map_or(from, |at| from + at + 1)
}

/// Where the sentence that holds `mark` starts.
fn sentence_start(text: &str, mark: usize) -> usize {
    let low = text.floor_char_boundary(mark.saturating_sub(BEHIND));
    let before = &text[low..mark];
    let stops = [". ", ".\n", "! ", "? ", "?\n", "!\n", "\n\n", "。", "। "];
    stops.iter().filter_map(|stop| before.rfind(stop).map(|at| low + at + stop.len())).max().unwrap_or(low)
}

/// Whether a text holds words that are neither names of mathematics nor units, so that it is prose and no formula.
pub(crate) fn has_words(text: &str) -> bool {
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_alphabetic()) {
        let is_command = rest[..start].ends_with('\\');
        let tail = &rest[start..];
        let length = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let word = &tail[..length];
        rest = &tail[length..];
        if is_command {
            // Words inside of `\text{...}` are the formula's.
            if matches!(
                word,
                "text" | "mbox" | "textbf" | "mathrm" | "textit" | "begin" | "end" | "operatorname" | "hbox"
            ) && let Some(inner) = rest.trim_start().strip_prefix('{')
                && let Some(end) = crate::extract::closing(inner)
            {
                let is_joint = matches!(inner[..end].trim(), "and" | "or");
                if !is_joint
                    && text.contains(|c: char| c.is_ascii_digit())
                    && inner[..end].split_whitespace().any(is_telling)
                {
                    return true;
                }
                rest = &inner[end..];
            }
            continue;
        }
        let is_known = word.chars().count() == 1
            || crate::lex::is_name(word)
            || matches!(word, "and" | "or" | "percent" | "pct" | "percentage")
            || crate::units::find(word).is_some()
            || crate::units::scale(word).is_some();
        // Short runs of letters are variables side by side: `xy`, `abc`.
        let is_product = (word.len() <= 2 || text.chars().all(char::is_alphabetic))
            && word.len() <= 3
            && word.is_ascii()
            && !words::is_telling(&word.to_lowercase())
            && !text.contains(' ');
        if !(is_known || is_product) {
            return true;
        }
    }
    false
}

/// Whether the sentence that holds a phrase such as "the answer is", which ends at `mark`, denies it or only supposes it.
pub(crate) fn is_denied(text: &str, mark: usize) -> bool {
    let from = sentence_start(text, mark);
    let tokens = tokens::tokens(&text[from..mark], 0, TOKENS);
    let words = words_of(&tokens);
    let words: Vec<&str> = words
        .iter()
        .rposition(|word| matches!(*word, "but" | "so"))
        .map_or(&words[..], |at| &words[at + 1..])
        .to_vec();
    words::is_negated(&words) || words::is_bound(&words) || words::is_excluded(&words) || is_condition(&words)
}

/// Whether the sentence that holds a phrase such as "the answer is" only supposes it: "if the answer is 7".
pub(crate) fn is_supposed(text: &str, mark: usize) -> bool {
    let from = sentence_start(text, mark);
    is_condition(&words_of(&tokens::tokens(&text[from..mark], 0, TOKENS)))
}

fn is_condition(words: &[&str]) -> bool {
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

/// Whether the words before or after an answer deny it, or take it for another's.
pub(crate) fn denies(left: &[&str], right: &[&str]) -> bool {
    words::is_negated(left) || words::is_excluded(left) || words::is_rejected(right)
}

/// Whether a word between "the answer is" and the answer says nothing of its own.
pub(crate) fn is_leading(word: &str) -> bool {
    words::is_leading(word)
}

fn is_telling(word: &str) -> bool {
    words::is_telling(&word.to_lowercase())
}

#[cfg(test)]
mod tests;
