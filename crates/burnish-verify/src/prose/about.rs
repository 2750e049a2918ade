//! Words that say something about the answer instead of giving it: a part or a multiple of it, one case of several, a
//! plan.

use super::lexicon::{COPULAS, NEGATIONS, NUMERALS};

/// Nouns of arithmetic: they turn the number after "of" into another one.
const MADE: &[&str] = &[
    "sum",
    "difference",
    "product",
    "quotient",
    "square",
    "cube",
    "root",
    "negative",
    "opposite",
    "reciprocal",
    "inverse",
    "half",
    "third",
    "quarter",
    "percent",
    "double",
    "triple",
    "twice",
    "times",
    "multiple",
    "complement",
    "digit",
    "digits",
];

/// Nouns for one of several numbers that may be the answer.
const CASES: &[&str] = &[
    "possibility",
    "possibilities",
    "solution",
    "solutions",
    "example",
    "examples",
    "option",
    "options",
    "candidate",
    "candidates",
    "answers",
    "values",
    "numbers",
    "results",
    "roots",
];

/// "Twice the answer is 7", "the answer plus one is 7"
pub(super) fn is_of_answer(left: &[&str]) -> bool {
    let Some(at) = left.iter().position(|word| *word == "answer") else { return false };
    let articles = left[..at]
        .iter()
        .rev()
        .take_while(|word| matches!(**word, "the" | "our" | "my" | "final" | "of"))
        .count();
    let is_made = left[..at - articles].last().is_some_and(|word| MADE.contains(word));
    let is_summand = matches!(
        left.get(at + 1),
        Some(
            &("plus"
                | "minus"
                | "times"
                | "squared"
                | "cubed"
                | "doubled"
                | "halved"
                | "multiplied"
                | "divided")
        )
    );
    is_made || is_summand
}

pub(super) fn is_made(word: &str) -> bool {
    MADE.contains(&word)
}

/// "7 is one less than the answer", "7 is half of what we need"
pub(super) fn is_made_of_answer(right: &[&str]) -> bool {
    let Some(at) = right.iter().position(|word| matches!(*word, "answer" | "what")) else { return false };
    let before = &right[..at];
    before.iter().any(|word| COPULAS.contains(word) || matches!(*word, "be" | "the"))
        && before.iter().any(|word| {
            let is_compared = matches!(*word, "less" | "more" | "fewer" | "greater" | "smaller");
            MADE.contains(word) || (is_compared && before.contains(&"than"))
        })
}

/// A label of something other than the answer: "previous result", "upper bound".
pub(super) fn is_other_label(words: &[&str]) -> bool {
    words.len() <= 3
        && !words.iter().any(|word| matches!(*word, "my" | "best"))
        && words.iter().any(|word| {
            matches!(
                *word,
                "wrong"
                    | "false"
                    | "guess"
                    | "attempt"
                    | "incorrect"
                    | "old"
                    | "previous"
                    | "intermediate"
                    | "subtotal"
                    | "example"
                    | "hint"
                    | "given"
                    | "known"
                    | "input"
                    | "bound"
                    | "allowed"
                    | "partial"
            )
        })
}

/// "One such number is 7", "one possibility is 7"
pub(super) fn is_one_case(left: &[&str]) -> bool {
    if matches!(left, ["one" | "another" | "a", "possible", _, verb, ..] if COPULAS.contains(verb)) {
        return true;
    }
    match left {
        ["one" | "another" | "a", rest @ ..] => {
            rest.iter().take(2).any(|word| CASES.contains(word) || *word == "such")
                && rest.iter().any(|word| COPULAS.contains(word))
        }
        _ => false,
    }
}

/// "7 is one solution", "7 is an example of such a number"
pub(super) fn is_called_case(right: &[&str]) -> bool {
    // "48 is possible", "48 is a candidate"
    if matches!(
        right,
        ["is" | "was" | "seems", "possible"]
            | [
                "is" | "was",
                "a" | "another" | "one",
                "candidate" | "possibility" | "possible" | "contender",
                ..
            ]
    ) {
        return true;
    }
    matches!(right, ["is" | "was" | "would", .., ] if matches!(right.get(1), Some(&("one" | "an" | "another")))
        && right.iter().skip(2).take(2).any(|word| CASES.contains(word)))
        || right.windows(3).any(|words| matches!(words, ["not", "the", "only"]))
}

/// "There are other solutions too.", "other values fit as well"
pub(super) fn has_others(words: &[&str]) -> bool {
    words.windows(2).enumerate().any(|(at, pair)| {
        matches!(pair[0], "other" | "more" | "further" | "several" | "multiple")
            && CASES.contains(&pair[1])
            && !words[at.saturating_sub(4)..at].iter().any(|word| {
                NEGATIONS.contains(word) || matches!(*word, "no" | "without" | "any" | "if" | "whether")
            })
    }) || words.windows(3).any(|words| matches!(words, ["not", "the", "only"]))
}

/// "He was supposed to get 7", "the plan was to sell 7"
pub(super) fn is_planned(left: &[&str]) -> bool {
    let is_wish =
        left.windows(2).any(|pair| {
            matches!(pair, ["hoping" | "hoped" | "hopes" | "aimed" | "aiming" | "wished" | "wishing", "for"])
        }) || left.windows(3).any(|words| matches!(words, ["like" | "want" | "wanted", "it", "to"]));
    is_wish
        || left.last() == Some(&"wanted")
        || left.windows(3).any(|words| {
            matches!(
                words,
                ["was" | "were", "supposed" | "meant" | "expected" | "due" | "going" | "hoping", "to"]
                    | ["plan" | "goal" | "aim" | "target" | "idea" | "intention" | "hope", "was", "to"]
            )
        })
        || matches!(left, [_, "plan" | "goal" | "aim" | "target" | "quota", "was"])
}

/// "Of the 7, half are red.": the result has no number.
pub(super) fn is_whole(left: &[&str]) -> bool {
    matches!(
        left,
        ["of" | "from" | "among" | "amongst"]
            | [
                "of" | "from" | "among" | "amongst",
                "the" | "these" | "those" | "all" | "her" | "his" | "their"
            ]
            | ["out", "of"]
            | ["out", "of", _]
    )
}

/// ", they say", ", said Tom", ", according to Bob": attributed to somebody else, after the number.
pub(super) fn is_attributed(rest: &[&str]) -> bool {
    const SAID: &[&str] =
        &["say", "says", "said", "claims", "claimed", "insists", "insisted", "argues", "thinks", "believes"];
    rest.split(|word| *word == ",").skip(1).any(|clause| match clause {
        ["according", "to", who, ..] => {
            !matches!(*who, "the" | "this" | "our" | "my" | "these" | "what" | "that")
        }
        [
            "i" | "i'd" | "i'll" | "we" | "we'd" | "as" | "which" | "that" | "let's" | "shall" | "you" | "so",
            ..,
        ] => false,
        [first, ..] => {
            SAID.contains(first) && clause.len() <= 4
                || clause.len() <= 4 && clause.last().is_some_and(|last| SAID.contains(last))
        }
        [] => false,
    })
}

/// "and lost some", "so the radius is half of it": the result is another number.
pub(super) fn is_taken_from(rest: &[&str]) -> bool {
    let is_meant = |word: &str| matches!(word, "it" | "that" | "this" | "them");
    rest.iter().enumerate().filter(|(_, word)| matches!(**word, "and" | "but" | "so" | ",")).any(
        |(at, word)| {
            let said = &rest[at + 1..];
            // "48; the radius is half of it"
            let is_apart = *word != "," || said.iter().any(|word| COPULAS.contains(word));
            let is_part = is_apart
                && said.windows(3).any(|words| {
                    matches!(
                        words[0],
                        "half" | "quarter" | "third" | "twice" | "double" | "all" | "most" | "some"
                    ) && words[1] == "of"
                        && (is_meant(words[2]) || matches!(words[2], "these" | "those"))
                })
                || said.windows(2).any(|pair| {
                    matches!(pair, ["take" | "takes" | "need" | "want", "half" | "twice" | "double"])
                })
                || matches!(said, ["half" | "twice" | "double", next, ..] if is_meant(next));
            let is_spent = matches!(
                said,
                [
                    "lost"
                        | "spent"
                        | "sold"
                        | "ate"
                        | "used"
                        | "gave"
                        | "loses"
                        | "spends"
                        | "sells"
                        | "eats"
                        | "uses"
                        | "gives",
                    "some" | "all" | "half" | "most" | "everything" | "away",
                    ..
                ]
            );
            (is_part && !matches!(said.first(), Some(&("that" | "that's" | "this" | "it's")))) || is_spent
        },
    )
}

/// "but one", "except the broken ones" after a number
pub(super) fn is_lessened(tail: &[&str]) -> bool {
    match tail {
        ["but", word, ..] => NUMERALS.contains(word) || matches!(*word, "a"),
        ["except", ..] => true,
        _ => false,
    }
}
