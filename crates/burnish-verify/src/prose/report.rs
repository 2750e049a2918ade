//! Who states a number: somebody else, or someone who no longer holds it.

use super::lexicon::{ANSWERING, COPULAS, OWN_REPORTERS, REPORTING, SAYING, SPEAKERS, SUPPOSED};
use super::words::is_glue;

/// Whether somebody else states the number, or someone who no longer holds it: "her brother says 42", "I thought it was
/// 42". `is_bare` says that no noun follows the number: "one student answered 42 and lost", but "she answered 42
/// questions".
pub(super) fn is_reported(left: &[&str], is_bare: bool) -> bool {
    let left = &left[left.iter().rposition(|word| *word == ",").map_or(0, |at| at + 1)..];
    if matches!(left, ["rumor" | "rumour" | "legend", "has", "it", ..]) {
        return true;
    }
    // "His guess was 48."
    let is_theirs = left.windows(2).any(|pair| {
        (matches!(pair[0], "his" | "her" | "their") || pair[0].ends_with("'s") && pair[0] != "it's")
            && matches!(pair[1], "guess" | "estimate" | "claim" | "prediction" | "bet" | "hunch")
    });
    if is_theirs || is_posed(left) {
        return true;
    }
    // "I used to think it was 48", "one is inclined to say 48", "we expected 48"
    let is_outgrown = left.windows(2).enumerate().any(|(at, pair)| match pair {
        ["used", "to"] => {
            at > 0 && !COPULAS.contains(&left[at - 1]) && !matches!(left[at - 1], "be" | "been")
        }
        ["inclined" | "tempted", "to"] | ["i" | "we" | "had" | "they" | "people", "expected"] => true,
        _ => false,
    });
    if is_outgrown {
        return true;
    }
    let is_given_up = left.windows(2).any(|pair| {
        matches!(
            pair,
            ["i" | "we", "almost" | "nearly"]
                | ["quick" | "wild" | "rough" | "random" | "naive" | "hasty", "guess" | "estimate"]
                | ["you'd" | "one'd" | "they'd", "think" | "expect" | "guess" | "assume"]
        )
    }) || left.windows(3).any(|words| {
        matches!(
            words,
            [
                "you" | "one" | "they" | "people" | "many",
                "would" | "might" | "could",
                "think" | "expect" | "guess" | "assume"
            ] | [
                "my" | "our" | "his" | "her" | "their",
                "first" | "initial" | "original" | "earlier" | "previous",
                "guess"
                    | "thought"
                    | "answer"
                    | "attempt"
                    | "estimate"
                    | "try"
                    | "count"
                    | "result"
                    | "idea"
                    | "instinct"
            ]
        )
    });
    if is_given_up {
        return true;
    }
    let at = left.iter().position(|word| REPORTING.contains(word));
    let at = at.or_else(|| left.len().checked_sub(1).filter(|at| is_bare && ANSWERING.contains(&left[*at])));
    let Some(at) = at else { return false };
    // "The tutor told him to solve 18 problems."
    if left[at..].windows(2).any(|pair| pair[0] == "to" && !matches!(pair[1], "be" | "have")) {
        return false;
    }
    let is_between = |word: &&str| {
        !SPEAKERS.contains(word)
            && matches!(
                *word,
                "would"
                    | "might"
                    | "could"
                    | "may"
                    | "will"
                    | "once"
                    | "still"
                    | "first"
                    | "all"
                    | "at"
                    | "often"
                    | "usually"
                    | "always"
                    | "commonly"
                    | "sometimes"
                    | "frequently"
                    | "also"
            )
            || (is_glue(word) && !SPEAKERS.contains(word))
    };
    let subject = left[..at].iter().rev().find(|word| !is_between(word)).copied();
    // "Seven cubed tells us that it is 343."
    if left[at] == "tells" && matches!(left.get(at + 1), Some(&("us" | "you"))) {
        return false;
    }
    let is_base = matches!(
        left[at],
        "say"
            | "argue"
            | "claim"
            | "think"
            | "believe"
            | "guess"
            | "wish"
            | "hope"
            | "answer"
            | "write"
            | "tell"
    );
    let is_modal = at > 0 && matches!(left[at - 1], "will" | "would" | "might" | "may");
    match subject {
        // "I thought it was 40", but "I think it is 40".
        Some("i" | "we") => {
            matches!(left[at], "thought" | "assumed" | "supposed" | "hoped" | "wished" | "wish" | "believed")
        }
        Some(word) if OWN_REPORTERS.contains(&word) => false,
        Some("it" | "this" | "that" | "which") if is_base => false,
        Some(word) if is_base => {
            is_modal
                || matches!(
                    word,
                    "they" | "some" | "many" | "people" | "others" | "students" | "most" | "one" | "someone"
                )
        }
        Some(_) => true,
        // The subject stands before a comma: "Her brother, who can't add, says 42."
        None => matches!(
            left[at],
            "says" | "said" | "claims" | "claimed" | "insists" | "insisted" | "reckons" | "thinks"
        ),
    }
}

/// "The question gives 48", "we are told that it has 48": what the question says is no answer to it.
fn is_posed(left: &[&str]) -> bool {
    let is_said = left.windows(2).any(|pair| {
        matches!(
            pair,
            [
                "question" | "problem" | "text" | "exercise" | "puzzle" | "task",
                "gives"
                    | "gave"
                    | "states"
                    | "mentions"
                    | "supplies"
                    | "provides"
                    | "names"
                    | "lists"
                    | "only"
            ]
        )
    });
    let given = left.windows(2).position(|pair| {
        matches!(pair[0], "is" | "it's" | "are" | "we're" | "were" | "was")
            && matches!(pair[1], "given" | "told")
    });
    is_said
        || given.is_some_and(|at| {
            left[..at].iter().all(|word| matches!(*word, "it" | "we" | "so" | "only" | "you"))
                && !matches!(left.get(at + 2), Some(&("by" | "as" | "to")))
        })
}

/// Whether the clause only supposes its number.
pub(super) fn is_supposed(left: &[&str]) -> bool {
    left.iter().enumerate().any(|(at, word)| {
        let next = left.get(at + 1).copied().unwrap_or("");
        let before = at.checked_sub(1).map_or("", |before| left[before]);
        match *word {
            "can" => matches!(left, [_, "can", "be"]),
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
