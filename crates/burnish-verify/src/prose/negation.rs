//! What takes a number out: a negation or a fault before it, a rejection behind it, a later clause.

use super::lexicon::{ATTITUDES, COPULAS, FAULTED, FAULTS, NEGATIONS, PLAIN, SAYING, SPEAKERS, SUPPOSED};
use super::tokens::{Kind, Token};
use super::words::{is_glue, is_nothing_else};

/// Whether a negation in `left` reaches the number behind it.
pub(super) fn is_negated(left: &[&str]) -> bool {
    if left
        .windows(2)
        .any(|pair| matches!(pair[0], "rule" | "rules" | "ruled" | "ruling") && pair[1] == "out")
    {
        return true;
    }
    if let Some(at) = left.iter().rposition(|word| FAULTS.contains(word)) {
        let is_cut = left[at + 1..].iter().any(|word| COPULAS.contains(word));
        let is_meant = !is_cut || left.get(at + 1).is_some_and(|word| FAULTED.contains(word));
        // "There is no doubt", "without a mistake", "it is not impossible".
        let is_undone = left[at.saturating_sub(3)..at]
            .iter()
            .any(|word| matches!(*word, "no" | "without" | "beyond" | "any") || NEGATIONS.contains(word));
        if is_meant || is_undone {
            return !is_undone;
        }
    }
    let is_ruled_out = left.windows(2).any(|pair| {
        matches!(pair[0], "no" | "longer")
            && matches!(pair[1], "way" | "means" | "chance" | "circumstances" | "longer" | "case" | "event")
    }) || left.windows(2).any(|w| matches!(w, ["no", "one"]));
    if is_ruled_out {
        return true;
    }
    let Some(at) = left.iter().rposition(|word| NEGATIONS.contains(word)) else { return false };
    if is_nothing_else(left) {
        return false;
    }
    let after = &left[at + 1..];
    if after.first().is_some_and(|word| {
        matches!(
            *word,
            "only"
                | "surprisingly"
                | "unexpectedly"
                | "coincidentally"
                | "to"
                | "just"
                | "merely"
                | "counting"
                | "including"
        ) && !(after.len() == 1 && matches!(*word, "just" | "merely"))
            && !after.contains(&"be")
    }) {
        return false;
    }
    let is_carried = after.iter().take(3).any(|word| ATTITUDES.contains(word));
    let is_double = left[..at].iter().any(|word| NEGATIONS.contains(word));
    let is_cut = left[at] != "nobody"
        && after.iter().any(|word| COPULAS.contains(word) && !matches!(*word, "equals" | "got"));
    if is_carried && !is_double {
        return true;
    }
    !is_cut
        && !is_double
        && (left[at] == "nobody"
            || after.first() == Some(&"by")
            // One verb of whatever meaning: "doesn't reach 7", "did not pay 7".
            || after.iter().filter(|word| !(is_glue(word) || PLAIN.contains(word))).count()
                <= usize::from(is_auxiliary(left, at)))
}

/// Whether the negation at `at` is that of a verb that follows: "didn't", "do not", "won't".
fn is_auxiliary(left: &[&str], at: usize) -> bool {
    let auxiliaries = ["do", "does", "did", "will", "would", "can", "could", "should", "has", "have", "had"];
    let before = at.checked_sub(1).map_or("", |before| left[before]);
    (left[at] == "not" && auxiliaries.contains(&before))
        || matches!(left[at], "cannot" | "never")
        || (left[at] != "isn't"
            && left[at].ends_with("n't")
            && !matches!(left[at], "aren't" | "wasn't" | "weren't"))
}

/// Whether the clause only supposes its number.
pub(super) fn is_supposed(left: &[&str]) -> bool {
    left.iter().enumerate().any(|(at, word)| {
        let next = left.get(at + 1).copied().unwrap_or("");
        let before = at.checked_sub(1).map_or("", |before| left[before]);
        match *word {
            "might" | "may" | "could" => matches!(next, "be" | "have" | "look" | "seem"),
            "first" | "earlier" => {
                matches!(before, "i" | "we" | "he" | "she" | "they" | "you" | "at" | "my" | "our" | "an")
            }
            // "The expected value is 7" supposes nothing.
            "expected" | "estimated" | "supposed" if matches!(before, "the" | "an" | "a" | "is") => false,
            word if SPEAKERS.contains(&word) => SAYING.contains(&next),
            word => SUPPOSED.contains(&word),
        }
    })
}

/// Whether what follows a number in its clause calls it wrong: `right` is the words after it.
pub(super) fn is_rejected(right: &[&str]) -> bool {
    // "7 is wrong", "7 dollars can't be right", "7 is not the answer", "7 would be a mistake"
    let is_ruled = right.iter().take(6).any(|word| matches!(*word, "out"))
        && right.iter().any(|word| matches!(*word, "ruled" | "rule" | "rules"));
    let is_out = right.windows(4).take(4).any(|words| words == ["out", "of", "the", "question"]);
    let is_senseless = right.windows(2).take(4).any(|words| matches!(words, ["no", "sense"]))
        || matches!(right, [.., "is" | "was" | "are", "out" | "exceeded" | "surpassed" | "missed"]);
    if is_ruled || is_out || is_senseless {
        return true;
    }
    let verb = right.iter().take(5).position(|word| {
        COPULAS.contains(word)
            || NEGATIONS.contains(word)
            || matches!(
                *word,
                "would"
                    | "can"
                    | "could"
                    | "must"
                    | "should"
                    | "seems"
                    | "looks"
                    | "turns"
                    | "turned"
                    | "proves"
                    | "proved"
                    | "does"
                    | "did"
                    | "will"
                    | "being"
                    | "has"
            )
    });
    let is_false = rest_contradicts(right);
    if is_false
        || matches!(right.first(), Some(&("wrong" | "incorrect" | "false" | "fails" | "flunks")))
        || matches!(right, ["no" | "not" | "nope"] | ["not", "quite" | "really"])
    {
        return true;
    }
    let Some(verb) = verb else { return false };
    let rest = &right[verb..];
    let negation = rest.iter().take(3).position(|word| NEGATIONS.contains(word));
    let fault = rest.iter().take(9).any(|word| FAULTS.contains(word));
    let Some(negation) = negation else {
        let is_off = rest.iter().take(3).any(|word| matches!(*word, "too" | "off"))
            && rest.iter().any(|word| {
                matches!(
                    *word,
                    "high" | "low" | "many" | "much" | "few" | "little" | "large" | "small" | "big" | "off"
                )
            });
        return fault || is_off;
    };
    if fault {
        return false;
    }
    let judged = rest[negation..].iter().any(|word| {
        matches!(
            *word,
            "answer"
                | "right"
                | "correct"
                | "true"
                | "solution"
                | "result"
                | "case"
                | "it"
                | "possible"
                | "enough"
                | "work"
                | "works"
                | "satisfy"
                | "fit"
                | "do"
                | "valid"
                | "accurate"
                | "sufficient"
                | "be"
                | "what"
                | "acceptable"
                | "hold"
        )
    });
    let is_singular = verb == 0
        && matches!(
            rest[0],
            "is" | "isn't"
                | "was"
                | "wasn't"
                | "can"
                | "can't"
                | "cannot"
                | "does"
                | "doesn't"
                | "would"
                | "could"
                | "couldn't"
                | "wouldn't"
        );
    judged || is_singular
}

/// "7 contradicts what is given", "7 leads to a contradiction"
fn rest_contradicts(right: &[&str]) -> bool {
    let at = right.iter().take(5).position(|word| word.starts_with("contradict"));
    at.is_some_and(|at| {
        !right[..at].iter().any(|word| matches!(*word, "no" | "without") || NEGATIONS.contains(word))
    })
}

/// Whether a later clause takes a value back before another one is named: "but that's not it", "or so I thought".
pub(super) fn is_taken_back_later(tokens: &[Token], next: usize) -> bool {
    let mut words: Vec<&str> = Vec::new();
    for token in tokens.iter().skip(next).take(20) {
        match &token.kind {
            Kind::Word(word) => words.push(word),
            Kind::Comma | Kind::Dash | Kind::Open => words.push(","),
            _ => break,
        }
    }
    let is_thought = words.windows(4).any(|w| {
        matches!(
            w,
            ["or", "so", "i" | "we" | "they" | "he" | "she", "thought" | "assumed" | "believed" | "hoped"]
        )
    });
    let is_refuted = words.iter().enumerate().any(|(at, word)| {
        let rest: Vec<&str> = words[at + 1..].iter().copied().take_while(|word| *word != ",").collect();
        *word == "but"
            && match rest[..] {
                ["that's" | "it's", ..] => rejects(&rest),
                ["that" | "this" | "it" | "they" | "i" | "he" | "she", ref rest @ ..] => rejects(rest),
                _ => false,
            }
    });
    is_thought || is_refuted
}

/// Whether the words behind "that" call it wrong.
fn rejects(words: &[&str]) -> bool {
    let is_judged = words.iter().any(|word| {
        matches!(
            *word,
            "wrong" | "incorrect" | "mistaken" | "false" | "right" | "correct" | "it" | "true" | "impossible"
        )
    });
    is_judged && is_rejected(words)
}
