//! What words without a number do to an earlier number: go on with the calculation, or name another answer.

use super::clause::is_bidding;
use super::lexicon::{COPULAS, NEGATIONS, NUMERALS, OPERATIONS};
use super::retraction::{ERRORS, gives_up};
use super::sentence::words_of;
use super::tokens::{Kind, Token};

/// Words that stand for what was said before.
fn is_anaphor(word: &str) -> bool {
    matches!(
        word,
        "this"
            | "that"
            | "it"
            | "which"
            | "these"
            | "those"
            | "they"
            | "here"
            | "there"
            | "that's"
            | "it's"
            | "one"
    )
}

/// "Two tickets cost twice that.", "The rest is the answer.", "So I have fewer."
pub(super) fn goes_on(sentence: &[Token]) -> bool {
    let words = words_of(sentence);
    let is_named = sentence
        .split(|token| matches!(token.kind, Kind::Comma | Kind::Semicolon | Kind::Dash))
        .any(|clause| names_other(&words_of(clause)));
    let is_operation = words.first().is_some_and(|word| OPERATIONS.contains(word) && word.ends_with("ing"));
    let is_check = words.iter().any(|word| {
        matches!(*word, "check" | "checks" | "verify" | "confirm" | "confirms" | "see" | "shows")
    });
    if is_check {
        return false;
    }
    is_named || is_operation || is_reckoning(&words) || concludes_otherwise(&words)
}

/// "So multiply this by 3600.": something is asked for that has not been done.
pub(super) fn asks_for_more(sentence: &[Token]) -> bool {
    let mut clauses = sentence
        .split(|token| matches!(token.kind, Kind::Comma | Kind::Semicolon | Kind::Dash | Kind::Colon));
    clauses.any(|clause| {
        let words = words_of(clause);
        let opening = words.iter().take_while(|word| is_bidding(word)).count();
        matches!(words[opening..], [verb, "this" | "that" | "it" | "them", ..] if OPERATIONS.contains(&verb) && !verb.ends_with("ing"))
            && !words.iter().any(|word| COPULAS.contains(word) || matches!(*word, "get" | "have" | "find" | "obtain"))
    })
}

/// "Two tickets cost twice that", "the second step doubles this": another number, computed from the one before.
fn is_reckoning(words: &[&str]) -> bool {
    if words.first().is_none_or(|word| is_anaphor(word)) {
        return false;
    }
    let is_meant = |word: &&str| matches!(*word, "that" | "this" | "it" | "them" | "these" | "those");
    words.iter().enumerate().any(|(at, word)| {
        let rest = match &words[at + 1..] {
            ["of", rest @ ..] => rest,
            rest => rest,
        };
        let next = rest.first();
        match *word {
            "twice" | "double" | "half" | "triple" | "thrice" | "third" | "quarter" | "times" => {
                next.is_some_and(|next| is_meant(next) || *next == "as")
            }
            "doubles" | "halves" | "triples" | "squares" | "halve" | "square" | "doubled" | "halved" => {
                next.is_some_and(is_meant)
            }
            "than" => {
                next.is_some_and(is_meant)
                    && rest.len() == 1
                    && words[..at].iter().any(|word| word.ends_with("er") || matches!(*word, "more" | "less"))
            }
            _ => false,
        }
    })
}

/// "Her age now is the answer.", "the total is what was asked"
pub(super) fn names_other(clause: &[&str]) -> bool {
    let clause = match clause {
        ["and" | "but" | "so", rest @ ..] => rest,
        rest => rest,
    };
    let Some(verb) = clause.iter().position(|word| COPULAS.contains(word)) else { return false };
    let (subject, rest) = (&clause[..verb], &clause[verb + 1..]);
    let is_other = match subject {
        [] => false,
        ["the", "number" | "value" | "result" | "figure" | "above" | "amount" | "answer"] => false,
        ["our" | "my" | "the" | "final", .., "answer" | "result"] => false,
        [first, ..] => !is_anaphor(first) && *first != "what" && !subject.contains(&"answer"),
    };
    let is_answer = matches!(
        rest,
        ["the" | "our" | "my", "answer", ..]
            | ["the" | "our" | "my", "final" | "correct" | "required", "answer", ..]
            | ["what", "is" | "was", "asked" | "wanted" | "needed" | "sought" | "required", ..]
            | ["what", "we" | "i", "want" | "need" | "wanted" | "needed", ..]
            | ["asked" | "wanted" | "sought", ..]
            | ["what's", "asked" | "wanted" | "needed" | "required", ..]
            | ["what", "the", "question" | "problem", ..]
    );
    is_other && is_answer
}

/// "Two left.", "then two more came": the count goes on.
pub(super) fn counts_on(words: &[&str]) -> bool {
    let opening = words
        .iter()
        .take_while(|word| {
            matches!(**word, "then" | "and" | "but" | "later" | "afterwards" | "another" | "before")
        })
        .count();
    let said = &words[opening..];
    matches!(said, [count, "more", verb, ..] if NUMERALS.contains(count) && !matches!(*verb, "than" | "and"))
        || matches!(
            said,
            [count, "left" | "leave" | "went" | "came" | "arrived" | "died" | "broke" | "joined" | "quit", ..]
                if NUMERALS.contains(count)
        )
}

/// "So nobody is in the room.", "Then none are left."
fn concludes_otherwise(words: &[&str]) -> bool {
    if counts_on(words) {
        return true;
    }
    let [opening, said @ ..] = words else { return false };
    if matches!(*opening, "later" | "then" | "afterwards" | "next")
        && said.iter().any(|word| NUMERALS.contains(word))
    {
        return true;
    }
    matches!(*opening, "so" | "thus" | "therefore" | "hence" | "consequently" | "then" | "now" | "finally")
        && said.first().is_some_and(|word| !is_anaphor(word))
        && said.iter().enumerate().any(|(at, word)| {
            matches!(*word, "none" | "nobody" | "nothing" | "fewer" | "half" | "twice" | "double")
                && !matches!(said.get(at + 1), Some(&("else" | "more" | "further" | "remains" | "other")))
        })
}

/// ", or she has nothing left", ", if not, it is less": there is another case besides the one with the number.
pub(super) fn is_other_case(rest: &[&str]) -> bool {
    let mut clauses = rest.split(|word| *word == ",");
    clauses.next();
    clauses.any(|clause| {
        // "this year it's less"
        let is_changed = matches!(
            clause,
            [
                ..,
                "is" | "it's" | "are" | "was" | "were" | "that's",
                "less"
                    | "more"
                    | "fewer"
                    | "lower"
                    | "higher"
                    | "smaller"
                    | "larger"
                    | "different"
                    | "otherwise"
            ]
        ) && clause.iter().any(|word| matches!(*word, "it" | "it's" | "they" | "that's"))
            && !matches!(clause.first(), Some(&("which" | "that" | "so" | "last" | "yesterday" | "before")));
        is_changed
            || matches!(
                clause,
                ["or", "one" | "two", "more" | "less" | "fewer", ..]
                    | [
                        "or",
                        "else"
                            | "nothing"
                            | "none"
                            | "nobody"
                            | "he"
                            | "she"
                            | "it"
                            | "they"
                            | "there"
                            | "the"
                            | "maybe"
                            | "perhaps"
                            | "possibly"
                            | "twice"
                            | "half"
                            | "its"
                            | "not"
                            | "no",
                        ..
                    ]
                    | ["if", "not", ..]
                    | ["otherwise", ..]
            ) && !matches!(clause, ["or", "the", "equivalent", ..])
    })
}

/// "unless it rains", "had they all come", ", assuming all come, but two don't": it holds only under a condition, and that
/// is not met, or may not be.
pub(super) fn is_withheld(rest: &[&str]) -> bool {
    rest.iter().enumerate().any(|(at, word)| {
        let said = &rest[at + 1..];
        match *word {
            "unless" => {
                !matches!(said.first(), Some(&("i" | "i'm" | "we" | "i've" | "we've" | "my" | "otherwise")))
            }
            "had" => {
                at > 0
                    && rest[at - 1] == ","
                    && matches!(said.first(), Some(&("he" | "she" | "they" | "it" | "we" | "the" | "there")))
            }
            "assuming" | "provided" | "if" => said.iter().enumerate().any(|(at, word)| {
                *word == ","
                    && matches!(said.get(at + 1), Some(&("but" | "which")))
                    && said[at + 1..].iter().any(|word| NEGATIONS.contains(word))
            }),
            _ => false,
        }
    })
}

/// ", but the discount counts": what was said with a reservation does not hold.
pub(super) fn is_contrast(rest: &[&str]) -> bool {
    rest.iter().enumerate().any(|(at, word)| {
        matches!(*word, "but" | "yet" | "however" | "except")
            && !matches!(rest.get(at + 1), None | Some(&("no" | "nothing" | "that" | "this")))
            || (*word == "," && matches!(rest[at + 1..], ["with", "it" | "them", ..]))
    })
}

/// "because I typed it in wrong", ", forgetting the first day": the reason why a number is wrong.
pub(super) fn is_denied_for_error(rest: &[&str]) -> bool {
    rest.iter().enumerate().any(|(at, word)| {
        let said = &rest[at + 1..];
        match *word {
            "because" | "since" | "as" => {
                matches!(said.first(), Some(&("i" | "we" | "he" | "she" | "they" | "you" | "it")))
                    && said.iter().take(8).any(|word| ERRORS.contains(word))
            }
            "," if said.first() == Some(&"having") => said.iter().take(2).any(|word| ERRORS.contains(word)),
            // "You get 48 if you forget the tax."
            "if" | "when" => {
                matches!(said.first(), Some(&("you" | "we" | "one" | "they" | "he" | "she" | "people")))
                    && (matches!(
                        said.get(1),
                        Some(
                            &("forget"
                                | "ignore"
                                | "omit"
                                | "neglect"
                                | "overlook"
                                | "misread"
                                | "forgets"
                                | "omits")
                        )
                    ) || matches!(said.get(1..3), Some(["leave" | "leaves", "out"])))
            }
            "," | "by" | "from" | "after" => matches!(
                said.first(),
                Some(
                    &("forgetting"
                        | "overlooking"
                        | "mistaking"
                        | "misreading"
                        | "omitting"
                        | "miscounting"
                        | "overlooks"
                        | "forgets"
                        | "mistake")
                )
            ),
            _ => false,
        }
    })
}

/// ", so the answer is undefined" at the end of a sentence
pub(super) fn is_inconclusive(rest: &[Token]) -> bool {
    let behind = rest.iter().rposition(|token| matches!(token.kind, Kind::Found(_))).map_or(0, |at| at + 1);
    let words = words_of(&rest[behind..]);
    let conclusion = words.iter().rposition(|word| matches!(*word, "so" | "thus" | "therefore" | "hence"));
    conclusion.is_some_and(|at| gives_up(&words[at..]))
}
