//! What takes back something said before: "no, 8", "scratch that".

use super::negation::is_rejected;
use super::sentence::words_of;
use super::tokens::Token;

/// Words that take back what was said, behind a stop or a comma.
pub(super) const BACK: &[&str] = &[
    "no",
    "nope",
    "wait",
    "actually",
    "oops",
    "correction",
    "sorry",
    "scratch",
    "hmm",
    "hm",
    "hold",
    "rather",
    "instead",
    "i",
    "make",
    "nevermind",
    "in",
    "ah",
    "oh",
    "well",
    "whoops",
    "strike",
    "my",
    "on",
    "let",
];

pub(super) fn is_taking_back(words: &[&str]) -> bool {
    match words {
        ["no" | "well" | "oh" | "ah", rest @ ..] => {
            rest.is_empty()
                || matches!(
                    rest[0],
                    "wait"
                        | "it"
                        | "it's"
                        | "that's"
                        | "that"
                        | "the"
                        | "sorry"
                        | "actually"
                        | "make"
                        | "i"
                        | "rather"
                )
        }
        ["i", rest @ ..] => matches!(
            rest,
            ["mean" | "meant", ..] | ["should", "have", ..] | ["take", "that" | "it" | "this", "back", ..]
        ),
        ["let", rest @ ..] => {
            matches!(rest, ["me" | "us", "correct" | "fix" | "revise" | "amend" | "rephrase" | "redo", ..])
        }
        ["my", rest @ ..] => matches!(rest, ["mistake" | "bad" | "apologies", ..]),
        ["make", rest @ ..] => matches!(rest, ["that", ..] | ["it", ..]),
        ["in", rest @ ..] => matches!(rest, ["truth" | "reality" | "actuality", ..]),
        ["on", rest @ ..] => matches!(
            rest,
            ["second" | "further" | "closer" | "reflection" | "reconsideration" | "review", ..]
                | ["a", "second" | "closer", ..]
        ),
        ["instead", ..] => true,
        _ => true,
    }
}

/// "but the correct answer is", "but it should be", "but in fact it is"
pub(super) fn is_corrected(words: &[&str]) -> bool {
    words.iter().take(5).any(|word| {
        matches!(
            *word,
            "correct"
                | "right"
                | "actual"
                | "actually"
                | "real"
                | "really"
                | "true"
                | "truth"
                | "should"
                | "must"
                | "it's"
                | "fact"
                | "proper"
        )
    }) || matches!(words, ["it" | "that", "is" | "was", ..] | ["the", "answer", ..] | ["that's", ..])
}

/// "That is wrong.", "Scratch that.", "I made a mistake."
pub(super) fn is_retraction(sentence: &[Token]) -> bool {
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
    (is_it && is_wrong && (is_rejected(&words[1..]) || is_rejected(&words)))
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
