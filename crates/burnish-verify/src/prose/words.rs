//! What words mean for the number beside them. A word that is in none of these classes is neutral: it changes
//! nothing, whatever it is.

use super::lexicon::{
    ADJUNCTS, ATTITUDES, BOUNDS, CLAUSES, COPULAS, EXCLUDED, FAULTED, FAULTS, GLUE, NEGATIONS, PLAIN,
    Pattern, SAYING, SPEAKERS, SUPPOSED,
};

/// What the words after a number do to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Times so much (`dozen`), in units of a twelfth so that halves and quarters are whole.
    Times(i64, i64),
    /// To this power.
    Power(i64),
    /// Makes a bound, a ratio or a multiple of it.
    Unclear,
}

/// Whether the words before a number make it a bound, a part, or an example of what is meant.
pub(super) fn is_bound(left: &[&str]) -> bool {
    if is_sole(left) {
        return false;
    }
    if left.windows(4).any(|w| w[0] == "no" && matches!(w[2], "and" | "or") && w[3] == "no") {
        return false;
    }
    // What is left over is no bound, and nothing is over again.
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
        _ => false,
    };
    reaching(left).any(|at| !is_idle(at - 1) && BOUNDS.iter().any(|pattern| ends_with(&left[..at], pattern)))
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
fn is_nothing_else(left: &[&str]) -> bool {
    (ends_with(left, "anything|any other|else than") || ends_with(left, "anything|any but"))
        && left.iter().any(|word| NEGATIONS.contains(word))
}

/// Whether the words before a number take it out.
pub(super) fn is_excluded(left: &[&str]) -> bool {
    if is_sole(left) {
        return false;
    }
    reaching(left).any(|at| EXCLUDED.iter().any(|pattern| ends_with(&left[..at], pattern)))
}

/// Whether a number only says where, when or for each of what.
pub(super) fn is_adjunct(left: &[&str]) -> bool {
    reaching(left).any(|at| ADJUNCTS.iter().any(|pattern| ends_with(&left[..at], pattern)))
}

/// Whether a number behind this word and before a comma stands for itself: "in 2020, 18 came" is no list.
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

/// Whether a number behind this word stands for a place, a time or a part, where a verb has named another one.
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

/// Ends of `left` with nothing but glue behind them.
fn reaching<'a>(left: &'a [&'a str]) -> impl Iterator<Item = usize> + 'a {
    let glued = left.iter().rev().take_while(|word| is_glue(word)).count().min(5);
    (left.len() - glued.min(left.len())..=left.len()).filter(|at| *at > 0)
}

fn is_glue(word: &str) -> bool {
    GLUE.contains(&word) || (word.len() > 4 && word.ends_with("ly") && !SUPPOSED.contains(&word))
}

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

/// Whether a verb leads from the words before a number to it: what is said, not where or when.
pub(super) fn is_verb(word: &str) -> bool {
    COPULAS.contains(&word)
        || matches!(
            word,
            "has" | "have" | "had" | "make" | "give" | "get" | "leave" | "need" | "needs" | "remain"
        )
}

/// Whether a number behind these words, which follow another number, belongs to what is done with that one: "36 ways to
/// pick 2 of them", "36 ways of picking 2", but not "add 9 to get 36".
pub(super) fn is_purpose(left: &[&str]) -> bool {
    const RESULTS: &[&str] = &[
        "get", "obtain", "find", "produce", "arrive", "reach", "end", "form", "leave", "see", "conclude",
        "receive",
    ];
    let needs = left.iter().any(|word| matches!(*word, "need" | "needs" | "needed" | "short" | "missing"));
    // Behind a further verb, or an equals sign, something is said again.
    let from =
        left.iter().rposition(|word| COPULAS.contains(word)).map_or(0, |verb| left.len().min(verb + 1));
    left[from..].windows(2).any(|pair| match pair {
        ["to", verb] => {
            !(is_glue(verb)
                || PLAIN.contains(verb)
                || RESULTS.contains(verb) && !needs
                || verb.ends_with('s'))
        }
        ["of" | "for", verb] => verb.len() > 5 && verb.ends_with("ing"),
        _ => false,
    })
}

/// Whether the words after a number and a verb call it a bound: "7 is a lower bound", "7 is the least it can be".
pub(super) fn is_called_bound(right: &[&str]) -> bool {
    let right = &right[..right.len().min(8)];
    right.windows(3).any(|words| {
        matches!(words, ["a" | "an", "lower" | "upper", "bound" | "limit"])
            || matches!(words, ["it" | "that" | "this", "can" | "could" | "may" | "might", "be"])
                && right.iter().any(|word| matches!(*word, "least" | "most" | "minimum" | "maximum"))
    })
}

/// What the words right after a number do to it, and how many of them.
pub(super) fn after(right: &[&str]) -> Option<(After, usize)> {
    let one = |what| Some((what, 1));
    match *right.first()? {
        "dozen" | "dozens" => one(After::Times(12, 1)),
        "score" | "scores"
            if right
                .get(1)
                .is_none_or(|word| matches!(*word, "of" | "and" | "is" | "eggs" | "years" | "people")) =>
        {
            one(After::Times(20, 1))
        }
        "gross" if right.len() < 2 || right[1] == "of" => one(After::Times(144, 1)),
        "halves" => one(After::Times(1, 2)),
        "thirds" => one(After::Times(1, 3)),
        "quarters" if right.get(1).is_none_or(|word| *word == "of") => one(After::Times(1, 4)),
        "fourths" => one(After::Times(1, 4)),
        "fifths" => one(After::Times(1, 5)),
        "sixths" => one(After::Times(1, 6)),
        "sevenths" => one(After::Times(1, 7)),
        "eighths" => one(After::Times(1, 8)),
        "ninths" => one(After::Times(1, 9)),
        "tenths" => one(After::Times(1, 10)),
        "hundredths" => one(After::Times(1, 100)),
        "thousandths" => one(After::Times(1, 1000)),
        "squared" => one(After::Power(2)),
        "cubed" => one(After::Power(3)),
        "doubled" => one(After::Times(2, 1)),
        "tripled" | "trebled" => one(After::Times(3, 1)),
        "quadrupled" => one(After::Times(4, 1)),
        "halved" => one(After::Times(1, 2)),
        "multiplied" if right.get(1..3) == Some(&["by", "itself"]) => Some((After::Power(2), 3)),
        "below" if right.get(1) == Some(&"zero") => Some((After::Times(-1, 1), 2)),
        "to" if right.get(1) == Some(&"the") => {
            let ordinals =
                ["second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
            let power = right.get(2).and_then(|word| ordinals.iter().position(|ordinal| ordinal == word))?;
            Some((After::Power(power as i64 + 2), 3))
        }
        "half" if right.get(1) == Some(&"dozen") => Some((After::Times(6, 1), 2)),
        "factorial" | "fold" | "ths" | "something" | "odd" | "mod" | "modulo" | "point" | "choose" => {
            one(After::Unclear)
        }
        "times" => {
            // "7 times a week" counts; "7 times that", "7 times as many", "7 times larger" multiplies.
            let word = *right.get(1)?;
            let multiplies = matches!(
                word,
                "as" | "that"
                    | "what"
                    | "the"
                    | "more"
                    | "less"
                    | "his"
                    | "her"
                    | "its"
                    | "their"
                    | "this"
                    | "it"
                    | "smaller"
                    | "itself"
                    | "two"
                    | "three"
                    | "four"
                    | "five"
                    | "ten"
            ) || word.ends_with("er");
            multiplies.then_some((After::Unclear, 2))
        }
        _ => None,
    }
}

/// Whether the words after a number make a bound of it: "7 or more", "7 at least", with a noun or two between.
pub(super) fn is_bound_after(right: &[&str]) -> bool {
    const ENDS: &[Pattern] = &[
        "or|and more|less|fewer|greater|higher|lower|above|below|over|under|better|bigger|larger|smaller|up|upwards|upward|beyond|older|younger|longer|shorter|later|earlier|another|counting|change|less|worse|down",
        "at least|most|minimum|maximum|best|worst|latest|earliest",
        "at the least|most|minimum|maximum|best|worst|latest|earliest|outside",
        "at a minimum|maximum|stretch|pinch",
        "at the very|absolute least|most|minimum|maximum",
        "at the very|absolute best|worst",
        "minimum|maximum|max|tops|upwards|minimally",
        "as a minimum|maximum|floor|ceiling|bound",
        "as an upper|lower|absolute",
        "as a lower|upper bound|limit",
        "plus or minus",
        "give or take",
        "on top of",
        "if not more|less|fewer|higher|lower|greater",
        "and then some",
        "or possibly|maybe|perhaps|even more|less|fewer|another|higher|lower|something",
    ];
    (0..right.len().min(4)).any(|at| {
        let rest = &right[at..];
        let is_here = ENDS.iter().any(|pattern| starts_with(rest, pattern));
        // "give or take" by itself is "about"; "at least I think so" is about the speaker.
        is_here
            && !(matches!(rest[0], "give") && rest.len() == 3)
            && !(starts_with(rest, "at least|best|most|worst")
                && rest.len() > 3
                && rest[2..].iter().any(|w| matches!(*w, "i" | "we" | "according" | "think" | "that's")))
            && !(starts_with(rest, "maximum|minimum|max")
                && rest.len() > 1
                && at == 0
                && COPULAS.contains(&rest[1]))
            && !right[..at].iter().any(|word| COPULAS.contains(word) || CLAUSES.contains(word))
    })
}

fn ends_with(words: &[&str], pattern: Pattern) -> bool {
    let count = pattern.split(' ').count();
    words.len() >= count && matches(&words[words.len() - count..], pattern)
}

fn starts_with(words: &[&str], pattern: Pattern) -> bool {
    let count = pattern.split(' ').count();
    words.len() >= count && matches(&words[..count], pattern)
}

fn matches(words: &[&str], pattern: Pattern) -> bool {
    words.iter().zip(pattern.split(' ')).all(|(word, place)| place.split('|').any(|choice| choice == *word))
}

/// Whether a word may stand between "the answer is" and the number without saying anything of its own.
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

/// Whether a word beside a number may say something of it: inside of `\\text{...}` these words are read as prose.
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
