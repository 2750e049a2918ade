//! The answer that running text gives.
//!
//! Every value of a sentence is a claim, and the words around it decide what happens to it. A bound ("at least 7") or a
//! range makes it unreadable, arithmetic ("7 minus 1", "half of 7", "7 dozen") makes it another number, a negation
//! ("not 7", "7 is wrong") rules it out, and in a clause with "if" or "because" it gives way to others. All other words
//! are neutral.
//!
//! `lexicon` has the classes of words. `tokens` and `mathematics` find values, `term` finds what joins them, `clause`
//! the words before one; `words`, `behind`, `negation`, `report` and `about` say what the words on both sides do to it,
//! and `claim` and `claims` put that together. `choose` picks the claim of a sentence, `retraction` and `sequel` find
//! what takes it back or goes on with it later, and this file picks the sentence.

mod about;
mod behind;
mod choose;
mod claim;
mod claims;
mod clause;
mod lexicon;
mod mathematics;
mod negation;
mod numerals;
mod report;
mod retraction;
mod sentence;
mod sequel;
mod term;
mod tokens;
mod verbs;
mod words;

pub(crate) use mathematics::{is_unsolved, without_unit};
pub(crate) use numerals::in_digits;

use choose::{Outcome, chosen};
use claims::{Claim, Rank, claims, is_restated};
use retraction::{gives_up, is_doubting, is_no, is_retraction};
use sentence::{
    approves, is_bare, is_condition, is_fragment, is_question, is_remark, is_support, is_yes, sentence_start,
    sentences, tail_start, words_of,
};
use sequel::{asks_for_more, goes_on};
use tokens::Kind;

use crate::syntax::Value;

/// How much of a response without a mark is read, from its end, in bytes.
const TAIL: usize = 6_000;

/// How much is read after a mark, in bytes.
const AHEAD: usize = 3_000;

/// The most tokens of either.
const TOKENS: usize = 2_500;

/// What a piece of prose says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reading {
    /// A value, and the text it was read from.
    Value(Value, String),
    /// There is a number, but no single answer: a range, a bound, a number that is taken back.
    Unclear(String),
    /// No number.
    Nothing,
}

/// The answer of a text without a mark: the last claim that is not taken back.
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
        && !claim.is_negated
        && !text.trim_end().contains('\n')
        && !sentences[1..].iter().any(|sentence| {
            is_retraction(sentence)
                || goes_on(sentence)
                || is_question(sentence) && !claims(sentence, text, wants_number).is_empty()
                || is_contrasting(sentence)
                || is_doubting(sentence)
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
    let mut was_contrasted = false;
    let mut is_confirmed = false;
    for (index, sentence) in sentences.iter().enumerate().rev() {
        let is_question = is_question(sentence);
        let claims = claims(sentence, text, wants_number);
        if claims.is_empty() {
            was_retracted |= index > 0
                && (is_retraction(sentence) && !is_asked_of(&sentences, index)
                    || is_no(sentence)
                    || is_objection(sentence)
                    || goes_on(sentence));
            was_contrasted |= is_contrasting(sentence);
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
        was_retracted |= index > 0
            && is_retraction(sentence)
            && claims.iter().all(|claim| claim.rank <= Rank::Aside && !claim.is_negated);
        let is_support = index > 0
            && (is_support(sentence)
                || is_remark(sentence)
                || is_fragment(sentence)
                || is_check(&sentences, index, &claims, text, wants_number));
        match chosen(&claims, None, text) {
            Outcome::Claim(claim)
                if was_retracted
                    || (was_contrasted && claim.is_provisional)
                    || is_cut_off(&tokens)
                    || is_guess(&sentences, index, &claim) =>
            {
                return Reading::Unclear(source(text, &claim));
            }
            Outcome::Claim(claim) if is_support || claim.rank <= Rank::Aside => {
                if fallback.is_none() {
                    fallback = Some(claim);
                }
            }
            Outcome::Claim(claim) => return reading(text, &claim, &denied),
            Outcome::Denied(text) => {
                // "Tom says 9. He's wrong."
                was_retracted &= !claims.iter().all(|claim| claim.is_reported);
                was_retracted |= asks_for_more(sentence);
                denied.push(text);
            }
            Outcome::Nothing => {}
        }
    }
    match fallback {
        Some(claim) => reading(text, &claim, &denied),
        None => denied.into_iter().next().map_or(Reading::Nothing, Reading::Unclear),
    }
}

/// The answer after a mark that ends at `mark`.
pub(crate) fn after(text: &str, mark: usize, wants_number: bool) -> Reading {
    let from = sentence_start(text, mark);
    let end = text.floor_char_boundary((mark + AHEAD).min(text.len()));
    let text = &text[from..end];
    let mark = mark - from;
    let tokens = tokens::tokens(text, 0, TOKENS);
    let sentences = sentences(&tokens);
    let mut picked: Option<Claim> = None;
    let mut denied: Vec<String> = Vec::new();
    let mut was_retracted = false;
    let mut is_reopened = false;
    // Whether the sentence before claimed something about a number.
    let mut was_claimed = true;
    for (index, sentence) in sentences.iter().enumerate() {
        let Some(last) = sentence.last() else { continue };
        if last.end <= mark {
            continue;
        }
        let is_question = is_question(sentence);
        let found = claims(sentence, text, wants_number);
        let is_marked = sentence[0].start < mark;
        if let Some(first) = &picked {
            // After a sentence that takes an answer back, another one may give the right one: "I forgot the tax. It is
            // 8."
            let is_open = was_retracted || is_reopened || first.is_supposed || first.is_reported;
            if is_open
                && !is_question
                && let Outcome::Claim(claim) = chosen(&found, None, text)
            {
                if claim.rank > Rank::Aside && !is_support(sentence) {
                    was_retracted = false;
                    picked = Some(claim);
                }
                continue;
            }
            let is_dropped = found.is_empty()
                && (is_no(sentence) && was_claimed
                    || goes_on(sentence)
                    || is_objection(sentence)
                    || (first.is_provisional && is_contrasting(sentence)));
            if found.iter().all(|claim| claim.is_negated)
                && is_retraction(sentence)
                && !is_asked_of(&sentences, index)
                || is_dropped
            {
                was_retracted = true;
                continue;
            }
            was_claimed = !found.is_empty();
            // "Wait, I counted one twice. It's 27."
            is_reopened |= found.is_empty() && is_doubting(sentence);
            if found.iter().any(|claim| claim.is_negated && source(text, claim) == source(text, first))
                && found.len() == 1
            {
                return Reading::Unclear(source(text, first));
            }
            if let Some(claim) = found.iter().find(|claim| claim.takes_back && !claim.is_negated) {
                picked = Some(claim.clone());
            } else if first.value.is_none()
                && !first.is_negated
                && is_concluding(sentence)
                && let Outcome::Claim(claim) = chosen(&found, None, text)
                && claim.rank == Rank::Main
            {
                // "The answer is at most 103. Only 102 works."
                picked = Some(claim);
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
        Some(claim) if was_retracted || is_cut_off(&tokens) => Reading::Unclear(source(text, &claim)),
        Some(claim) => reading(text, &claim, &denied),
        None => denied.into_iter().next().map_or(Reading::Nothing, Reading::Unclear),
    }
}

/// "So x = 5. Plugging back in: 2 × 5 + 3 = 13. Correct!": an equation that only checks what was said before.
fn is_check(
    sentences: &[&[tokens::Token]],
    index: usize,
    found: &[Claim],
    text: &str,
    wants_number: bool,
) -> bool {
    let [.., last] = found else { return false };
    let next = sentences.get(index + 1);
    let is_approved = approves(&words_of(sentences[index]))
        || next.is_some_and(|next| is_yes(next) || approves(&words_of(next)));
    is_approved
        && matches!(last.value, Some(Value::Chain(..)))
        && sentences[..index].iter().rev().take(2).any(|sentence| {
            claims(sentence, text, wants_number).iter().any(|claim| {
                claim.rank == Rank::Main
                    && !claim.is_negated
                    && is_restated(&source(text, claim), &text[last.start..last.end])
            })
        })
}

/// "Is there another one? There isn't.": an answer to a question about something else.
fn is_asked_of(sentences: &[&[tokens::Token]], index: usize) -> bool {
    index > 0
        && is_question(sentences[index - 1])
        && !sentences[index - 1].iter().any(|token| matches!(token.kind, Kind::Found(_)))
        && words_of(sentences[index]).len() <= 3
}

/// "Only 102 works.", "So it is 102."
fn is_concluding(sentence: &[tokens::Token]) -> bool {
    words_of(sentence)
        .first()
        .is_some_and(|word| matches!(*word, "so" | "thus" | "therefore" | "hence" | "only" | "consequently"))
}

/// "But there are breaks."
fn is_contrasting(sentence: &[tokens::Token]) -> bool {
    words_of(sentence).first().is_some_and(|word| matches!(*word, "but" | "however" | "yet"))
}

/// "But we need the number of pairs."
fn is_objection(sentence: &[tokens::Token]) -> bool {
    is_contrasting(sentence)
        && matches!(words_of(sentence)[..], [_, "we" | "i" | "this" | "that" | "the", ..])
}

/// "I can't solve this problem. The only number it mentions is 18."
fn is_guess(sentences: &[&[tokens::Token]], index: usize, claim: &Claim) -> bool {
    index > 0
        && !matches!(claim.value, Some(Value::Chain(..)))
        && gives_up(&words_of(sentences[index - 1]))
        && !words_of(sentences[index]).iter().take(2).any(|word| {
            matches!(
                *word,
                "so" | "therefore" | "thus" | "hence" | "but" | "however" | "still" | "then" | "since"
            )
        })
}

/// Whether a text breaks off before its result: "which gives"
fn is_cut_off(tokens: &[tokens::Token]) -> bool {
    match tokens {
        [.., tokens::Token { kind: Kind::Sign('='), .. }] => true,
        [.., tokens::Token { kind: Kind::Word(word), .. }] => {
            matches!(
                word.as_str(),
                "gives"
                    | "equals"
                    | "yields"
                    | "by"
                    | "is"
                    | "which"
                    | "and"
                    | "plus"
                    | "minus"
                    | "because"
                    | "or"
            ) && !matches!(tokens, [.., tokens::Token { kind: Kind::Word(it), .. }, _] if matches!(it.as_str(), "it" | "that" | "this" | "there" | "answer"))
        }
        _ => false,
    }
}

/// The answer in a box: a value with only "about" and units around it.
pub(crate) fn bare(text: &str) -> Reading {
    let plain = tokens::unwrapped(text);
    // In running text it would be the mark of a quotation.
    if plain.trim_start().starts_with(['>', '<']) {
        return Reading::Unclear(text.trim().to_owned());
    }
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

/// Whether no mathematics is left besides a claim: an unreadable `\\sqrt{...` must not leave a 2.
fn is_all(text: &str, claim: &Claim) -> bool {
    let beside = format!("{} {}", &text[..claim.start], &text[claim.end..]);
    let is_command = |at: usize| beside[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic());
    !beside.contains(['^', '_', '{', '}', '(', '[', '|'])
        && !beside.match_indices('\\').any(|(at, _)| is_command(at))
}

/// Where a value of `text` is called the answer by what follows it ("18 is the answer"), if that is after `from`.
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

/// Whether a text holds words that are neither mathematical names nor units, so that it is prose and not a formula.
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

/// Whether the sentence that holds a phrase such as "the answer is", which ends at `mark`, denies it or only supposes
/// it.
pub(crate) fn is_denied(text: &str, mark: usize) -> bool {
    let from = sentence_start(text, mark);
    let tokens = tokens::tokens(&text[from..mark], 0, TOKENS);
    let words = words_of(&tokens);
    let words: Vec<&str> = words
        .iter()
        .rposition(|word| matches!(*word, "but" | "so"))
        .map_or(&words[..], |at| &words[at + 1..])
        .to_vec();
    negation::is_negated(&words)
        || words::is_bound(&words)
        || words::is_excluded(&words)
        || about::is_of_answer(&words)
        || is_condition(&words)
}

/// Whether the sentence that holds a phrase such as "the answer is" only supposes it: "if the answer is 7".
pub(crate) fn is_supposed(text: &str, mark: usize) -> bool {
    let from = sentence_start(text, mark);
    is_condition(&words_of(&tokens::tokens(&text[from..mark], 0, TOKENS)))
}

/// Whether the words before or after an answer deny it, or attribute it to someone else.
pub(crate) fn denies(left: &[&str], right: &[&str]) -> bool {
    negation::is_negated(left) || words::is_excluded(left) || negation::is_rejected(right)
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
