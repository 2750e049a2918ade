//! What words mean for a number nearby. A word in none of these classes is neutral: it changes nothing, whatever it is.

use super::lexicon::{
    ADJUNCTS, BOUNDS, CHANGES, CLAUSES, COPULAS, DIRECTIONS, EXCLUDED, FAULTS, GLUE, NEEDS, NEGATIONS, PLAIN,
    Pattern, STRETCHES, SUPPOSED,
};

/// Whether the words before a number make it a bound, a part, or an example of the answer.
pub(super) fn is_bound(left: &[&str]) -> bool {
    if is_sole(left) {
        return false;
    }
    if left.windows(4).any(|w| w[0] == "no" && matches!(w[2], "and" | "or") && w[3] == "no") {
        return false;
    }
    // "Left over" and "over again" are not bounds.
    let is_idle = |at: usize| match left[..=at] {
        [.., "left" | "all" | "starting" | "see" | "the", "over" | "above"] => true,
        // "adds up to", "comes up to", "rounds up to"
        [
            ..,
            "adds" | "add" | "added" | "adding" | "sums" | "sum" | "summing" | "comes" | "come" | "coming"
            | "came" | "totals" | "rounds" | "round" | "rounded" | "rounding" | "works" | "ends" | "end"
            | "ended" | "amounts" | "counts",
            "up",
            "to",
        ] => true,
        // "its maximum of 18 is reached"
        [.., "the" | "its" | "their", "maximum" | "minimum", "of"]
        | [.., "the" | "its" | "their", "maximum" | "minimum"] => true,
        // "brought it up to 100", but "it takes up to 100"
        [.., "takes" | "took" | "take" | "get" | "gets" | "got", "up", "to"] => false,
        [ref before @ .., "up", "to"] => has_change(before),
        _ => false,
    };
    // "fewer people than 36"
    let ends = left.iter().rev().take_while(|word| is_article(word)).count();
    if let [before @ .., "than"] = &left[..left.len() - ends]
        && (before.iter().rev().take(4).any(|word| matches!(*word, "more" | "fewer" | "less" | "worse"))
            || before.iter().rev().take(3).any(|word| is_comparative(word)))
    {
        return true;
    }
    reaching(left).any(|at| !is_idle(at - 1) && BOUNDS.iter().any(|pattern| ends_with(&left[..at], pattern)))
}

/// "higher", "farther": "than" and a number after it is a bound.
pub(super) fn is_comparative(word: &str) -> bool {
    word.len() > 4
        && word.ends_with("er")
        && !matches!(word, "other" | "rather" | "either" | "never" | "number")
}

/// "None other than 7", "nothing but 7", "no more and no less than 7" say that it is 7.
fn is_sole(left: &[&str]) -> bool {
    ends_with(left, "none|nothing other|but|else than")
        || ends_with(left, "none|nothing other|else but")
        || ends_with(left, "no other|different than")
        || ends_with(left, "nothing|none but")
        || ends_with(left, "no more|less|fewer and|nor|or no less|more|fewer than")
        || ends_with(left, "no more|less|fewer and|nor|or less|more|fewer than")
        || is_nothing_else(left)
}

/// "It can't be anything else than 7", "isn't anything but 7"
pub(super) fn is_nothing_else(left: &[&str]) -> bool {
    (ends_with(left, "anything|any other|else than") || ends_with(left, "anything|any but"))
        && left.iter().any(|word| NEGATIONS.contains(word))
}

/// Whether the words before a number rule it out.
pub(super) fn is_excluded(left: &[&str]) -> bool {
    if is_sole(left) {
        return false;
    }
    // "rather than the usual 60", "instead of paying 60"
    let is_spared = (1..=left.len())
        .any(|at| ends_with(&left[..at], "rather than") || ends_with(&left[..at], "instead of"))
        && left.iter().rev().take_while(|word| !matches!(**word, "than" | "of")).count() <= 2
        && !left
            .iter()
            .rev()
            .take(2)
            .any(|word| is_verb(word) || matches!(*word, "he" | "she" | "they" | "we" | "it"));
    is_spared || reaching(left).any(|at| EXCLUDED.iter().any(|pattern| ends_with(&left[..at], pattern)))
}

/// Whether a number only says where, when or for each of what.
pub(super) fn is_adjunct(left: &[&str]) -> bool {
    // "gives each 18"
    if matches!(left, [.., verb, "each"] if COPULAS.contains(verb) || matches!(*verb, "pay" | "pays" | "give" | "get"))
    {
        return false;
    }
    reaching(left).any(|at| ADJUNCTS.iter().any(|pattern| ends_with(&left[..at], pattern)))
}

/// Whether a number after this word and before a comma stands by itself: "in 2020, 18 came" is not a list.
pub(super) fn is_preposition(word: &str) -> bool {
    matches!(
        word,
        "in" | "on"
            | "at"
            | "by"
            | "of"
            | "for"
            | "after"
            | "before"
            | "from"
            | "since"
            | "with"
            | "within"
            | "during"
            | "until"
            | "step"
            | "day"
            | "part"
            | "case"
            | "problem"
            | "question"
    )
}

/// Whether a number after this word is a place, a time or a part, if a verb has named another number.
pub(super) fn is_behind(word: &str) -> bool {
    is_preposition(word)
        || matches!(
            word,
            "between"
                | "than"
                | "per"
                | "every"
                | "each"
                | "over"
                | "under"
                | "among"
                | "into"
                | "through"
                | "selling"
                | "about"
        )
}

pub(super) fn is_article(word: &str) -> bool {
    matches!(
        word,
        "a" | "an"
            | "the"
            | "his"
            | "her"
            | "their"
            | "its"
            | "these"
            | "those"
            | "all"
            | "just"
            | "only"
            | "selling"
            | "buying"
    )
}

/// Ends within `left` that are followed only by glue.
fn reaching<'a>(left: &'a [&'a str]) -> impl Iterator<Item = usize> + 'a {
    let glued = left.iter().rev().take_while(|word| is_glue(word)).count().min(5);
    (left.len() - glued.min(left.len())..=left.len()).filter(|at| *at > 0)
}

pub(super) fn is_glue(word: &str) -> bool {
    GLUE.contains(&word) || (word.len() > 4 && word.ends_with("ly") && !SUPPOSED.contains(&word))
}

/// Whether this word is a verb that leads to a number as what is said, not as a place or a time.
pub(super) fn is_verb(word: &str) -> bool {
    COPULAS.contains(&word)
        || matches!(
            word,
            "has" | "have" | "had" | "make" | "give" | "get" | "leave" | "need" | "needs" | "remain"
        )
}

/// Whether a number after these words, which follow another number, belongs to what is done with that one: "36 ways to
/// pick 2 of them", "36 ways of picking 2", but not "add 9 to get 36".
pub(super) fn is_purpose(left: &[&str], is_need: bool) -> bool {
    const RESULTS: &[&str] = &[
        "get", "obtain", "find", "produce", "arrive", "reach", "end", "form", "leave", "see", "conclude",
        "receive",
    ];
    // After another verb or an equals sign, a new statement begins.
    let from =
        left.iter().rposition(|word| COPULAS.contains(word)).map_or(0, |verb| left.len().min(verb + 1));
    left[from..].windows(2).any(|pair| match pair {
        ["to", verb] => {
            if is_need {
                !(is_glue(verb) || matches!(*verb, "be"))
            } else {
                !(is_glue(verb) || PLAIN.contains(verb) || RESULTS.contains(verb) || verb.ends_with('s'))
            }
        }
        ["of" | "for" | "by" | "from" | "without" | "when" | "while", verb] => {
            verb.len() > 5 && verb.ends_with("ing")
        }
        // "4 more would bring it to 48"
        ["bring" | "brings" | "make" | "makes" | "take" | "takes" | "get" | "gets", _] => is_need,
        _ => false,
    })
}

/// Whether a number is what is lacking: "needs 4", "is missing 4", "4 more".
pub(super) fn is_need(left: &[&str], right: &[&str]) -> bool {
    let glue =
        left.iter().rev().take_while(|word| is_glue(word) || matches!(**word, "another" | "at")).count();
    left[..left.len() - glue].last().is_some_and(|word| NEEDS.contains(word))
        || (left.is_empty() && matches!(right.first(), Some(&("more" | "extra" | "further" | "additional"))))
}

fn ends_with(words: &[&str], pattern: Pattern) -> bool {
    let count = pattern.split(' ').count();
    words.len() >= count && matches(&words[words.len() - count..], pattern)
}

pub(super) fn starts_with(words: &[&str], pattern: Pattern) -> bool {
    let count = pattern.split(' ').count();
    words.len() >= count && matches(&words[..count], pattern)
}

fn matches(words: &[&str], pattern: Pattern) -> bool {
    words.iter().zip(pattern.split(' ')).all(|(word, place)| place.split('|').any(|choice| choice == *word))
}

/// Whether a word between "the answer is" and the number says nothing of its own.
pub(super) fn is_leading(word: &str) -> bool {
    is_glue(word)
        || PLAIN.contains(&word)
        || COPULAS.contains(&word)
        || matches!(
            word,
            "therefore"
                | "thus"
                | "hence"
                | "then"
                | "indeed"
                | "still"
                | "now"
                | "also"
                | "course"
                | "i"
                | "think"
                | "believe"
                | "guess"
                | "we"
                | "find"
                | "probably"
                | "likely"
                | "maybe"
                | "perhaps"
                | "fact"
                | "again"
                | "and"
                | "as"
                | "expected"
                | "required"
                | "always"
                | "going"
                | "close"
                | "approximate"
                | "estimated"
                | "near"
                | "usd"
                | "rs"
                | "boxed"
                | "text"
                | "dollar"
                | "negative"
                | "minus"
                | "twice"
                | "half"
                | "double"
        )
}

/// Whether a word next to a number may say something about it: inside `\\text{...}`, such words are read as prose.
pub(super) fn is_telling(word: &str) -> bool {
    is_glue(word)
        || NEGATIONS.contains(&word)
        || COPULAS.contains(&word)
        || CLAUSES.contains(&word)
        || FAULTS.contains(&word)
        || matches!(
            word,
            "at" | "least"
                | "most"
                | "no"
                | "over"
                | "under"
                | "up"
                | "to"
                | "dozen"
                | "dozens"
                | "score"
                | "gross"
                | "twice"
                | "half"
                | "double"
                | "times"
                | "plus"
                | "minus"
                | "between"
                | "almost"
                | "nearly"
                | "max"
                | "maximum"
                | "minimum"
                | "above"
                | "below"
                | "exceeds"
                | "such"
                | "squared"
                | "cubed"
                | "doubled"
                | "tripled"
                | "halves"
                | "thirds"
                | "fewer"
                | "not"
                | "within"
                | "and"
                | "triple"
        )
}

/// Whether there is a verb of change before a number: "rose from 70", "is up 5".
pub(super) fn is_change(left: &[&str]) -> bool {
    (has_change(left) || left.iter().any(|word| DIRECTIONS.contains(word)))
        && !left.iter().any(|word| STRETCHES.contains(word))
        && !matches!(left, [.., "take" | "takes", "from"])
}

fn has_change(left: &[&str]) -> bool {
    left.iter().any(|word| CHANGES.contains(word))
}

/// Whether a number is where a change starts: "rose from 75", "is up from 30".
pub(super) fn is_start(left: &[&str]) -> bool {
    matches!(left, [.., "from"]) && is_change(left)
}

/// Whether the words before a number only compare what was said before it: "40, up from 30", "40, from 70 to 75".
pub(super) fn is_comparing(left: &[&str]) -> bool {
    const OPENINGS: &[Pattern] = &[
        "including|excluding|counting|with|each|besides",
        "not including|counting",
        "of which",
        "beating|topping|exceeding|surpassing|besting",
        "two|three|four|five|six|seven|eight|nine|ten|many times",
        "the|a product|sum|difference|quotient|square|cube|average|double|half of",
        "being",
        "more|less|fewer than",
        "enough for|to",
        "twice|double|half|thrice what|as|the|that",
        "up|down|back from",
        "from",
        "compared to|with",
        "as against",
        "against",
        "well|far|just|still under|over|above|below|short",
        "one|two|three|four|five|six|seven|eight|nine|ten|much|far|slightly|just|a more|less|fewer|higher|lower|older|younger|longer|shorter than",
    ];
    let left = match left {
        ["i.e" | "ie", rest @ ..] => rest,
        rest => rest,
    };
    left.len() <= 7
        && !left.iter().any(|word| COPULAS.contains(word))
        && OPENINGS.iter().any(|pattern| starts_with(left, pattern))
}

/// Whether the words after a number call it a result: "48 in all".
pub(super) fn is_summing_up(right: &[&str]) -> bool {
    // "40 before tax, 44 after": the other case.
    if matches!(right, ["after" | "before" | "otherwise" | "with" | "without", ..]) {
        return true;
    }
    right.iter().take(4).any(|word| {
        matches!(
            *word,
            "all"
                | "now"
                | "today"
                | "left"
                | "remaining"
                | "eventually"
                | "total"
                | "altogether"
                | "overall"
                | "answer"
                | "result"
                | "together"
        )
    })
}

/// Whether a word between a preposition and its number says nothing: "from the original 100".
pub(super) fn is_light(word: &str) -> bool {
    is_article(word)
        || word.ends_with("'s") && !COPULAS.contains(&word)
        || (is_glue(word) && !is_behind(word) && !COPULAS.contains(&word))
}

/// Whether the words before a number only say what to do with it: "start with 48", "substitute 48".
pub(super) fn is_plan(left: &[&str], clause: usize) -> bool {
    const OPENERS: &[&str] = &[
        "first", "now", "then", "so", "we", "you", "let's", "to", "and", "next", "just", "can", "could",
        "let", "us",
    ];
    const PLANS: &[Pattern] = &[
        "start|begin|starting|beginning with|from|at|off",
        "count|go|work back|backwards|up|down|on from",
        "plug in|into",
        "substitute|try|test|check|pick|consider|insert|suppose|imagine",
        "set x|n|y|k|it to",
        "round|take",
    ];
    let said = &left[left.iter().take_while(|word| OPENERS.contains(word)).count()..];
    let is_order = PLANS.iter().any(|pattern| {
        starts_with(said, pattern) && said[pattern.split(' ').count()..].iter().all(|word| is_light(word))
    });
    // "pick any number, say 48"
    (is_order && !matches!(left, ["we", "take"] | ["to", ..])) || (clause > 0 && left == ["say"])
}
