//! What rules a number out: a negation or a fault before it, a rejection after it, a later clause.

use super::lexicon::{ATTITUDES, COPULAS, FAULTED, FAULTS, NEGATIONS, PLAIN, REPORTING};
use super::retraction::{ERRORS, OVERLOOKING, is_order, is_retracting, is_unfinished};
use super::tokens::{Kind, Token};
use super::words::{is_glue, is_nothing_else};

/// Whether a negation in `left` reaches the number after it.
pub(super) fn is_negated(left: &[&str]) -> bool {
    if left
        .windows(2)
        .any(|pair| matches!(pair[0], "rule" | "rules" | "ruled" | "ruling") && pair[1] == "out")
    {
        return true;
    }
    let fault = left.iter().rposition(|word| FAULTS.contains(word));
    if let Some(at) = fault.filter(|at| !is_measured(left, *at)) {
        let is_cut = left[at + 1..].iter().any(|word| COPULAS.contains(word));
        let next = left.get(at + 1).copied().unwrap_or("");
        let is_meant = !is_cut || FAULTED.contains(&next) || REPORTING.contains(&next);
        // "They rejected 18 applications."
        let is_deed = at > 0
            && matches!(
                left[at],
                "rejected"
                    | "rejects"
                    | "discarded"
                    | "discards"
                    | "refused"
                    | "refuses"
                    | "withdraw"
                    | "denied"
            )
            && !left[..at].iter().any(|word| {
                matches!(*word, "we" | "i" | "be" | "is" | "are" | "was" | "can" | "must" | "have" | "has")
            });
        if is_deed {
            return false;
        }
        // "There is no doubt", "without a mistake", "it is not impossible".
        let is_undone = left[at.saturating_sub(3)..at]
            .iter()
            .any(|word| matches!(*word, "no" | "without" | "beyond" | "any") || NEGATIONS.contains(word));
        if is_meant || is_undone {
            return !is_undone;
        }
    }
    let is_unsupported = left.windows(2).any(|pair| {
        matches!(
            pair,
            [
                "no",
                "reason"
                    | "evidence"
                    | "indication"
                    | "proof"
                    | "sign"
                    | "support"
                    | "basis"
                    | "justification"
            ]
        )
    });
    let is_empty_subject = match left {
        ["none", "of", "this" | "that" | "these" | "it" | "them", _, ..] => true,
        ["nothing" | "nobody" | "none", verb, ..] => {
            !COPULAS.contains(verb) && !is_glue(verb) && !matches!(*verb, "but" | "other" | "else")
        }
        ["no", noun, _, ..] => {
            !matches!(
                *noun,
                "matter"
                    | "doubt"
                    | "wonder"
                    | "problem"
                    | "need"
                    | "question"
                    | "surprise"
                    | "less"
                    | "fewer"
                    | "more"
                    | "other"
                    | "wait"
                    | "worries"
            ) && !left.iter().any(|word| COPULAS.contains(word))
                && !left.contains(&",")
        }
        _ => false,
    };
    if is_unsupported || is_empty_subject {
        return true;
    }
    // "No 48 came.", "Nowhere are there 48."
    if left == ["no"] || left.first() == Some(&"nowhere") {
        return true;
    }
    let is_ruled_out = left.windows(2).any(|pair| {
        matches!(pair[0], "no" | "longer")
            && matches!(
                pair[1],
                "way"
                    | "means"
                    | "chance"
                    | "circumstances"
                    | "longer"
                    | "case"
                    | "event"
                    | "time"
                    | "point"
                    | "stage"
            )
    }) || left.windows(2).any(|w| matches!(w, ["no", "one"]));
    if is_ruled_out {
        // "There is no way it isn't 40."
        return !left.iter().any(|word| word.ends_with("n't"));
    }
    let Some(at) = left.iter().rposition(|word| NEGATIONS.contains(word)) else { return false };
    // "She still hasn't read 18 pages."
    if at > 0 && left[at - 1] == "still" && matches!(left[at], "hasn't" | "haven't") {
        return false;
    }
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
    if matches!(after, ["all" | "every" | "each" | "yet" | "even", ..])
        && after.iter().skip(1).all(|word| is_glue(word))
    {
        return true;
    }
    // "not enough information to say that"
    let is_unfounded = after.first() == Some(&"enough") && after.iter().any(|word| ATTITUDES.contains(word));
    let is_carried = is_unfounded || after.iter().take(3).any(|word| ATTITUDES.contains(word));
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

/// Whether the number measures the fault itself: "the error turned out to be 0.04".
fn is_measured(left: &[&str], at: usize) -> bool {
    let is_subject = at > 0
        && matches!(left[at - 1], "the" | "of" | "its" | "relative" | "absolute" | "maximum" | "average");
    let next = left.get(at + 1).copied().unwrap_or("");
    let is_stated =
        COPULAS.contains(&next) || matches!(next, "turned" | "turns" | "of" | "amounted" | "amounts");
    is_subject
        && matches!(left[at], "error" | "mistakes" | "doubt" | "trap")
        && is_stated
        && !left[at + 2..]
            .iter()
            .any(|word| matches!(*word, "say" | "saying" | "that" | "answer" | "take" | "taking"))
}

/// Whether the negation at `at` belongs to a verb that follows: "didn't", "do not", "won't".
fn is_auxiliary(left: &[&str], at: usize) -> bool {
    let auxiliaries = [
        "do", "does", "did", "will", "would", "can", "could", "should", "has", "have", "had", "must", "may",
        "might", "shall", "need",
    ];
    let before = at.checked_sub(1).map_or("", |before| left[before]);
    (left[at] == "not" && auxiliaries.contains(&before))
        || matches!(left[at], "cannot" | "never")
        || (left[at] != "isn't"
            && left[at].ends_with("n't")
            && !matches!(left[at], "aren't" | "wasn't" | "weren't"))
}

/// Whether what follows a number in its clause calls it wrong: `right` is the words after it.
pub(super) fn is_rejected(right: &[&str]) -> bool {
    // "7 is wrong", "7 dollars can't be right", "7 is not the answer", "7 would be a mistake"
    // "7 would be the answer to a different question."
    let is_of_other = right.windows(2).any(|pair| {
        matches!(pair, ["different" | "another" | "other" | "wrong", "question" | "problem" | "puzzle"])
    });
    // "18 was my first thought", "18 is what most people say"
    let is_early = right.windows(2).any(|pair| {
        matches!(pair, ["first", "thought" | "guess" | "idea" | "thing" | "instinct" | "impression"])
    }) && right.first() == Some(&"was");
    let is_common = matches!(
        right,
        ["is" | "was", "what", "people" | "students" | "others" | "everyone", ..]
            | ["is" | "was", "what", "most" | "many" | "some", _, ..]
    );
    if is_early || is_common {
        return true;
    }
    let is_made_up = matches!(right, ["at", "random", ..] | ["out", "of", "thin", ..])
        || right.windows(4).any(|words| matches!(words, ["as", "good", "as", _]));
    if is_of_other || is_made_up {
        return true;
    }
    let is_ruled = right.iter().take(6).any(|word| matches!(*word, "out"))
        && right.iter().any(|word| matches!(*word, "ruled" | "rule" | "rules"));
    let is_out = right.windows(4).take(4).any(|words| words == ["out", "of", "the", "question"]);
    let is_senseless = right.windows(2).take(4).any(|words| matches!(words, ["no", "sense" | "role"]))
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
        || matches!(
            right.first(),
            Some(
                &("wrong"
                    | "incorrect"
                    | "false"
                    | "fails"
                    | "flunks"
                    | "violates"
                    | "overshoots"
                    | "undershoots"
                    | "misses")
            )
        )
        || matches!(right, ["no" | "not" | "nope"] | ["not", "quite" | "really"])
    {
        return true;
    }
    if matches!(right, ["is" | "was", "a" | "just" | "only" | "merely", ..])
        && right
            .iter()
            .take(5)
            .any(|word| matches!(*word, "guess" | "conjecture" | "hunch" | "placeholder" | "shot" | "stab"))
    {
        return true;
    }
    if let [.., "as", fault] = right
        && FAULTS.contains(fault)
    {
        return true;
    }
    if right
        .windows(2)
        .any(|pair| matches!(pair, ["it", "fails"] | ["leads", "nowhere"] | ["counts" | "covers", "only"]))
    {
        return true;
    }
    if is_partial(right) {
        return true;
    }
    if matches!(right, ["falls" | "fell" | "comes" | "came", "short", ..] | ["is" | "was", "far", "from", ..])
    {
        return true;
    }
    let Some(verb) = verb else { return false };
    let rest = &right[verb..];
    let negation = rest.iter().take(3).position(|word| NEGATIONS.contains(word));
    let fault = rest
        .iter()
        .take(9)
        .position(|word| FAULTS.contains(word))
        .is_some_and(|at| !matches!(rest[..at], [.., "no" | "without"] | [.., "without", "any" | "a"]))
        // "18 of the answers are wrong"
        && right.first() != Some(&"of");
    let Some(negation) = negation else {
        let is_off = rest.iter().take(4).any(|word| matches!(*word, "too" | "off"))
            && rest.iter().any(|word| {
                matches!(
                    *word,
                    "high" | "low" | "many" | "much" | "few" | "little" | "large" | "small" | "big" | "off"
                )
            });
        return fault || is_off;
    };
    // "Which isn't enough for the bike" is a remark.
    let is_remark = matches!(
        rest.get(negation + 1),
        Some(&("much" | "many" | "bad" | "surprising" | "very" | "that" | "far" | "nearly" | "unusual"))
    ) || matches!(rest[negation + 1..], ["enough", "for" | "to", ..]);
    if fault || is_remark {
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

/// "27 is only the first step", "27 is half the answer"
fn is_partial(right: &[&str]) -> bool {
    let ["is" | "was" | "are", rest @ ..] = right else { return false };
    let glue = rest
        .iter()
        .take_while(|word| {
            matches!(**word, "only" | "just" | "merely" | "but" | "a" | "an" | "the" | "our" | "one")
        })
        .count();
    matches!(
        rest[glue..],
        ["intermediate" | "partial" | "subtotal" | "preliminary", ..]
            | ["first" | "halfway", "step" | "part" | "half" | "stage", ..]
            | ["part" | "half" | "step" | "beginning" | "start", "of", "the" | "it" | "that" | "what", ..]
            | ["half", "the", ..]
            | ["given"]
            | ["given", "in" | "by" | "as", ..]
            | ["what", "one" | "each", "of", ..]
            | [
                "what",
                "we" | "you" | "he" | "she" | "they" | "i",
                "start" | "begin" | "started" | "began",
                ..
            ]
    )
}

/// "7 contradicts what is given", "7 leads to a contradiction"
fn rest_contradicts(right: &[&str]) -> bool {
    let at = right.iter().take(5).position(|word| word.starts_with("contradict"));
    at.is_some_and(|at| {
        !right[..at].iter().any(|word| matches!(*word, "no" | "without") || NEGATIONS.contains(word))
    })
}

/// Whether a later clause of the sentence says that something is still to be done: "to which the tax has to be added".
pub(super) fn is_unfinished_later(tokens: &[Token], next: usize) -> bool {
    let rest = tokens.iter().skip(next).take(20).map_while(|token| match &token.kind {
        Kind::Word(word) => Some(word.as_str()),
        Kind::Comma | Kind::Dash | Kind::Semicolon => Some(","),
        _ => None,
    });
    let rest: Vec<&str> = rest.collect();
    let mut clauses = rest.split(|word| *word == ",");
    let is_owed = clauses.next().is_some_and(is_unfinished);
    is_owed || clauses.any(|clause| is_unfinished(clause) || is_order(clause))
}

/// Whether a later clause takes a value back before another one is named: "but that's not it", "or so I thought".
pub(super) fn is_taken_back_later(tokens: &[Token], next: usize) -> bool {
    let mut words: Vec<&str> = Vec::new();
    for token in tokens.iter().skip(next).take(20) {
        match &token.kind {
            Kind::Word(word) => words.push(word),
            Kind::Comma | Kind::Dash | Kind::Open | Kind::Semicolon => words.push(","),
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
                ["is" | "was" | "isn't" | "can't" | "cannot", ..] => is_rejected(&rest),
                [
                    "doesn't" | "didn't" | "never",
                    "get" | "reach" | "reaches" | "reached" | "arrive" | "work" | "fit" | "hold" | "gets"
                    | "quite",
                    ..,
                ] => true,
                ["that" | "this" | "it", verb, ..] if OVERLOOKING.contains(&verb) => true,
                ["that" | "this" | "it", "has", "changed" | "risen" | "fallen" | "grown" | "dropped", ..] => {
                    true
                }
                [
                    ..,
                    "broken" | "flawed" | "unreliable" | "outdated" | "lied" | "lying" | "biased" | "closed",
                ] => true,
                ["i" | "we", "disagree" | "object" | "doubt" | "refuse", ..] => true,
                ["he" | "she" | "they", verb, ..] if ERRORS.contains(&verb) => true,
                ["that" | "this" | "it" | "they" | "i" | "he" | "she", ref rest @ ..] => rejects(rest),
                [word] => NEGATIONS.contains(&word),
                [
                    "the",
                    "answer" | "result" | "number" | "value" | "total",
                    "is" | "was",
                    "lower" | "higher" | "smaller" | "larger" | "bigger" | "different" | "less" | "more",
                    ..,
                ] => true,
                ["the" | "his" | "her" | "their", _, ref rest @ ..] => {
                    rest.iter().any(|word| {
                        matches!(*word, "wrong" | "mistaken" | "incorrect" | "error" | "mistake" | "typo")
                    }) && is_rejected(rest)
                }
                [word, ..] => FAULTS.contains(&word),
                _ => false,
            }
    });
    let is_final = !matches!(tokens.get(next + words.len()).map(|token| &token.kind), Some(Kind::Found(_)));
    let is_withdrawn = is_final
        && words
            .split(|word| *word == ",")
            .skip(1)
            .any(|clause| !clause.is_empty() && !clause.contains(&"know") && is_retracting(clause));
    is_thought || is_refuted || is_withdrawn
}

/// Whether the words after "that" call it wrong.
fn rejects(words: &[&str]) -> bool {
    let is_judged = words.iter().any(|word| {
        matches!(
            *word,
            "wrong" | "incorrect" | "mistaken" | "false" | "right" | "correct" | "it" | "true" | "impossible"
        )
    });
    is_judged && is_rejected(words)
}
