//! What the words right after a number do to it.

use super::lexicon::{CLAUSES, COPULAS, NUMERALS, Pattern};
use super::words::{is_comparative, starts_with};

/// What the words after a number do to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Multiplies it (`dozen`), in twelfths, so that halves and quarters are whole.
    Times(i64, i64),
    /// Raises it to this power.
    Power(i64),
    /// Turns it into a bound, a ratio or a multiple.
    Unclear,
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
        "tens" => one(After::Times(10, 1)),
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
        // "48's double"
        "s" if right.len() > 1 => one(After::Unclear),
        "twice" if right.len() == 1 => one(After::Times(2, 1)),
        "backwards" | "reversed" => one(After::Unclear),
        "squared" => one(After::Power(2)),
        "cubed" => one(After::Power(3)),
        "doubled" => one(After::Times(2, 1)),
        "tripled" | "trebled" => one(After::Times(3, 1)),
        "quadrupled" => one(After::Times(4, 1)),
        "halved" => one(After::Times(1, 2)),
        "cut" | "split" | "divided" | "shared" | "distributed" | "multiplied" | "raised" | "reduced"
        | "increased" | "decreased" | "lowered" | "diminished" | "augmented" | "grew" | "grown" | "rose"
        | "fell" | "shrank" | "dropped"
            if is_worked_on(right) =>
        {
            one(After::Unclear)
        }
        "multiplied" if right.get(1..3) == Some(&["by", "itself"]) => Some((After::Power(2), 3)),
        "below" if right.get(1) == Some(&"zero") => Some((After::Times(-1, 1), 2)),
        "to" if right.get(1) == Some(&"the") => ordinal(right.get(2)?).map(|power| (After::Power(power), 3)),
        "raised" if right.get(1..3) == Some(&["to", "the"]) => {
            ordinal(right.get(3)?).map(|power| (After::Power(power), 4))
        }
        // "The odds are 7 to one."
        "to" if right.len() == 2 && NUMERALS.contains(&right[1]) => Some((After::Unclear, 2)),
        "half" if right.get(1) == Some(&"dozen") => Some((After::Times(6, 1), 2)),
        "factorial" | "fold" | "ths" | "something" | "odd" | "mod" | "modulo" | "point" | "choose" => {
            one(After::Unclear)
        }
        "times" => {
            // "7 times a week" counts; "7 times that", "7 times as many", "7 times larger" multiplies.
            let word = *right.get(1)?;
            // "7 times as heavy as the cat": the ratio is what is said.
            if is_ratio_said(&right[1..]) {
                return None;
            }
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
            ) || (word.ends_with("er")
                && !matches!(
                    word,
                    "over" | "per" | "after" | "under" | "together" | "altogether" | "ever" | "later"
                ));
            multiplies.then_some((After::Unclear, 2))
        }
        _ => None,
    }
}

/// "as heavy as the cat", "faster than the old one": the property of a thing is compared with that of another, so that
/// the sentence gives no other number than the ratio. "As many as", "more than" count.
fn is_ratio_said(right: &[&str]) -> bool {
    match right {
        ["as", property, "as", other, ..] => {
            !matches!(
                *property,
                "many" | "much" | "few" | "little" | "large" | "big" | "great" | "high" | "low"
            ) && !matches!(*other, "that" | "this" | "it" | "before")
        }
        [property, "than", other, ..] => {
            is_comparative(property)
                && !matches!(
                    *property,
                    "larger" | "bigger" | "greater" | "higher" | "lower" | "smaller" | "fewer"
                )
                && !matches!(*other, "that" | "this" | "it" | "before")
        }
        _ => false,
    }
}

/// The exponent that an ordinal names: "to the third".
fn ordinal(word: &str) -> Option<i64> {
    const ORDINALS: &[&str] =
        &["second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];
    ORDINALS.iter().position(|ordinal| *ordinal == word).map(|at| at as i64 + 2)
}

/// Whether the words after a number and a verb call it a bound: "7 is a lower bound", "7 is the least it can be".
pub(super) fn is_called_bound(right: &[&str]) -> bool {
    let right = &right[..right.len().min(8)];
    if matches!(
        right,
        ["is" | "was", "a" | "the", "floor" | "ceiling"] | ["is" | "was", "a", "minimum" | "maximum"]
    ) {
        return true;
    }
    if right
        .windows(2)
        .any(|pair| matches!(pair, ["upper" | "lower", "bound" | "limit" | "estimate" | "end"]))
    {
        return true;
    }
    right.windows(3).any(|words| {
        matches!(words, ["it" | "that" | "this", "can" | "could" | "may" | "might", "be"])
            && right.iter().any(|word| matches!(*word, "least" | "most" | "minimum" | "maximum"))
    })
}

/// Whether the words after a number turn it into a bound: "7 or more", "7 at least", with a noun or two between.
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
        "with a|another|an further|extra|additional|more",
        "with added|removed|taken",
        "as a factor|divisor|multiple|digit|root",
        "or else more|less|fewer",
        "and change",
        "and a bit|little|few",
        "and rising|growing|climbing|falling",
        "so far",
        "for now",
        "or possibly|maybe|perhaps|even|nothing|none|nobody|something|anything|else|twice|double|triple|half|its|not|neither|no",
        "or the other|opposite|next|reverse",
        "or one|two|a more|less|fewer|higher|lower",
        "or it|he|she|they may|might|could|isn't|doesn't|didn't",
        "and its double|half|negative|opposite|square|reciprocal|inverse|successor|third|triple",
        "upwards|upward|onwards|onward",
        "less the|his|her|their|its|my|our|what|whatever|any",
        "apart|aside from",
        "times two|three|four|five|six|seven|eight|nine|ten|the|that|this|its|his|her|their|what",
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
    }) || starts_with(right, "too high|low|big|small|large|long|short")
}

/// Whether a participle after a number says by how much it is changed: "75 reduced by a third", "75 cut in half".
fn is_worked_on(right: &[&str]) -> bool {
    let amount = match right {
        [_, "by" | "in" | "into" | "among" | "between", amount @ ..]
        | [
            _,
            "evenly" | "equally" | "again" | "further",
            "by" | "in" | "into" | "among" | "between",
            amount @ ..,
        ] => amount,
        _ => return false,
    };
    let amount = match amount {
        ["a" | "an", rest @ ..] => rest,
        rest => rest,
    };
    amount.first().is_some_and(|word| {
        NUMERALS.contains(word)
            || matches!(
                *word,
                "half" | "third" | "quarter" | "fifth" | "tenth" | "another" | "few" | "hundred" | "dozen"
            )
    }) && (matches!(right[0], "divided" | "shared" | "distributed")
        || !matches!(amount, [_, "people" | "children" | "friends" | "kids" | "of", ..]))
}
