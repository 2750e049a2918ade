//! A value with what is joined to it: `9 * 2`, "7 less than 10", "7 dozen", "1, 2 or 3", "6 to 8".

use num_rational::BigRational;

use super::behind::{After, after};
use super::lexicon::COPULAS;
use super::tokens::{Found, Kind, Token, scaled};
use crate::syntax::{Expr, Value};
use crate::units::{self, Unit};

/// The most values that are taken as one list; a longer one is not an answer.
const LIST: usize = 64;
/// The most operations of one computation.
const OPERATIONS: usize = 32;

/// A value as a piece of text gives it.
#[derive(Debug, Clone)]
pub(super) struct Term {
    /// `None` if it is not a single value.
    pub(super) value: Option<Value>,
    /// The index of the token after it.
    pub(super) next: usize,
    pub(super) items: usize,
    pub(super) is_part: bool,
    /// What a change led to: "from 70 to 75".
    pub(super) is_change: bool,
}

/// What stands between two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    Add,
    Subtract,
    /// The second without the first: "7 less than 10".
    SubtractFrom,
    Multiply,
    Divide,
    Power,
    /// "half of 7", "3/4 of 20"; after a whole number, it is a ratio.
    Of,
    List,
    /// After a verb of change: "from 70 to 75" is 75.
    Become,
    /// A range, a ratio, a remainder: not a single value.
    Unclear,
}

/// Words between two values. The number says how many other words may come before them ("9 dollars times 2").
const JOINTS: &[(&str, Joint, usize)] = &[
    ("plus or minus", Joint::Unclear, 2),
    ("give or take", Joint::Unclear, 2),
    ("plus", Joint::Add, 2),
    ("added to", Joint::Add, 2),
    ("minus", Joint::Subtract, 2),
    ("less", Joint::Subtract, 2),
    ("take away", Joint::Subtract, 2),
    ("subtracted from", Joint::SubtractFrom, 2),
    ("taken from", Joint::SubtractFrom, 2),
    ("taken away from", Joint::SubtractFrom, 2),
    ("times", Joint::Multiply, 2),
    ("multiplied by", Joint::Multiply, 2),
    ("divided by", Joint::Divide, 2),
    ("divided into", Joint::Unclear, 2),
    ("over", Joint::Divide, 0),
    ("off", Joint::Unclear, 0),
    ("parts per", Joint::Unclear, 0),
    ("to the power of", Joint::Power, 0),
    ("to the power", Joint::Power, 0),
    ("raised to the power of", Joint::Power, 0),
    ("raised to the power", Joint::Power, 0),
    ("raised to the", Joint::Power, 0),
    ("raised to", Joint::Power, 0),
    ("to the", Joint::Power, 0),
    ("more than", Joint::Add, 2),
    ("greater than", Joint::Add, 2),
    ("higher than", Joint::Add, 2),
    ("above", Joint::Add, 1),
    ("below", Joint::SubtractFrom, 1),
    ("less than", Joint::SubtractFrom, 2),
    ("fewer than", Joint::SubtractFrom, 2),
    ("lower than", Joint::SubtractFrom, 2),
    ("smaller than", Joint::SubtractFrom, 2),
    ("short of", Joint::SubtractFrom, 2),
    ("shy of", Joint::SubtractFrom, 2),
    ("away from", Joint::Unclear, 2),
    ("percent of", Joint::Unclear, 0),
    ("of", Joint::Of, 0),
    ("out of", Joint::Unclear, 0),
    ("in", Joint::Unclear, 0),
    ("by", Joint::Unclear, 1),
    ("to", Joint::Unclear, 2),
    ("through", Joint::Unclear, 1),
    ("till", Joint::Unclear, 1),
    ("until", Joint::Unclear, 1),
    ("for every", Joint::Unclear, 1),
    ("for each", Joint::Unclear, 1),
    ("per", Joint::Unclear, 1),
    ("vs", Joint::Unclear, 1),
    ("versus", Joint::Unclear, 1),
    ("remainder", Joint::Unclear, 1),
    ("r", Joint::Unclear, 0),
    ("with remainder", Joint::Unclear, 1),
    ("mod", Joint::Unclear, 0),
    ("modulo", Joint::Unclear, 0),
    ("point", Joint::Unclear, 0),
    ("choose", Joint::Unclear, 0),
    ("or", Joint::List, 2),
    ("or maybe", Joint::List, 2),
    ("or possibly", Joint::List, 2),
    ("or perhaps", Joint::List, 2),
    ("or even", Joint::List, 2),
    ("and/or", Joint::List, 2),
    ("and", Joint::List, 0),
    ("and also", Joint::List, 0),
    ("oder", Joint::List, 1),
    ("ou", Joint::List, 1),
    ("o", Joint::List, 1),
    ("или", Joint::List, 1),
    ("或", Joint::List, 1),
    ("bis", Joint::Unclear, 1),
    ("à", Joint::Unclear, 1),
];

/// What the words before a value say about how it is joined to the next one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lead {
    pub(super) is_adjunct: bool,
    /// There is a preposition before it.
    pub(super) is_led: bool,
    /// There is a verb of change before it: "rose from 70 to 75".
    pub(super) is_change: bool,
    /// There is any word other than an article before it.
    pub(super) has_words: bool,
    /// "the difference between", "the sum of": two values follow.
    pub(super) is_pair: bool,
    /// "day", "step": the value only numbers what is said after a colon.
    pub(super) is_labelled: bool,
    /// The reference is a number, so of two equations about different things the last one counts.
    pub(super) wants_number: bool,
}

/// Reads the value at `index` of `tokens` with everything joined to it.
pub(super) fn term(tokens: &[Token], index: usize, lead: Lead, text: &str) -> Option<Term> {
    let Kind::Found(found) = &tokens.get(index)?.kind else { return None };
    let mut list: Vec<Option<Value>> = Vec::new();
    let mut is_part = found.is_part;
    let mut is_change = false;
    let (mut current, mut next) = single(tokens, index, found);
    // `+` and `-` wait until products are done; this is the left side of the last one.
    let mut pending: Option<(Value, bool)> = None;
    for _ in 0..OPERATIONS {
        let Some((joint, second)) = joint(tokens, next, lead, text) else { break };
        let Kind::Found(other) = &tokens[second].kind else { break };
        is_part &= other.is_part;
        let (right, after) = single(tokens, second, other);
        next = after;
        match joint {
            Joint::List => {
                let first = close(pending.take(), current);
                if !(lead.wants_number && are_steps(first.as_ref(), right.as_ref())) {
                    list.push(first);
                }
                current = right;
                if list.len() >= LIST {
                    return Some(Term { value: None, next, items: list.len(), is_part, is_change });
                }
            }
            Joint::Add | Joint::Subtract => {
                pending = close(pending.take(), current).map(|value| (value, joint == Joint::Add));
                current = if pending.is_some() { right } else { None };
            }
            Joint::Become => {
                is_change = true;
                current = right;
            }
            joint => current = combined(joint, current, right),
        }
    }
    let last = close(pending, current);
    if list.is_empty() {
        return Some(Term { value: last, next, items: 1, is_part, is_change });
    }
    list.push(last);
    let items = list.len();
    let value = list.into_iter().collect::<Option<Vec<Value>>>().map(flattened);
    Some(Term { value, next, items, is_part, is_change })
}

fn flattened(items: Vec<Value>) -> Value {
    Value::List(
        items
            .into_iter()
            .flat_map(|item| match item {
                Value::List(inner) => inner,
                other => vec![other],
            })
            .collect(),
    )
}

/// A value by itself with the words of scale and the unit after it, and the token after these.
fn single(tokens: &[Token], index: usize, found: &Found) -> (Option<Value>, usize) {
    let mut value = found.value.clone();
    let mut next = index + 1;
    for _ in 0..4 {
        let right = words_from(tokens, next);
        let Some(first) = right.first() else { break };
        if let Some(scale) = units::scale(first) {
            let factor = crate::work::rational(num_bigint::BigInt::from(10).pow(scale));
            value = value.map(|value| scaled(value, &factor));
            next += 1;
        } else if let Some((what, count)) = after(&right) {
            value = match what {
                After::Times(top, bottom) => {
                    value.map(|value| scaled(value, &BigRational::new(top.into(), bottom.into())))
                }
                After::Power(power) => value.and_then(|value| powered(value, Expr::integer(power))),
                After::Unclear => None,
            };
            next += count;
        } else if matches!(*first, "percent" | "pct" | "procent" | "prozent")
            || right.starts_with(&["per", "cent"])
        {
            value = value.map(|value| map(value, |expr| Expr::Percent(Box::new(expr))));
            next += if *first == "per" { 2 } else { 1 };
        } else {
            break;
        }
    }
    // "12 degrees below zero"
    if matches!(words_from(tokens, next)[..], [_, "below", "zero", ..]) {
        value = value.map(|value| scaled(value, &crate::work::rational(-1)));
        next += 3;
    }
    // "7 and a half"
    let right = words_from(tokens, next);
    let half = right.iter().position(|word| *word == "and").filter(|at| *at <= 1).map(|at| &right[at..]);
    if let Some(["and", "a" | "one", part, ..]) = half {
        let denominator = match *part {
            "half" => 2,
            "third" => 3,
            "quarter" | "fourth" => 4,
            _ => 0,
        };
        if denominator > 0 {
            let part = Expr::Quotient(Box::new(Expr::integer(1)), Box::new(Expr::integer(denominator)));
            value = value.map(|value| map(value, |expr| Expr::Sum(vec![expr, part.clone()])));
            next += right.len() - half.map_or(0, <[&str]>::len) + 3;
        }
    } else if let Some(["and", "two" | "three", "thirds" | "quarters" | "fourths", ..]) = half {
        value = None;
    }
    if let Some(Value::Quantity { unit: unit @ None, .. }) = &mut value {
        *unit = unit_of(&words_from(tokens, next));
    }
    (value, next)
}

/// The unit that the words after a number name. "5 in total" has no inches.
fn unit_of(right: &[&str]) -> Option<Unit> {
    let said = units::trailing(&right.iter().take(4).copied().collect::<Vec<_>>().join(" "), 1);
    said.unit.filter(|unit| unit.name != "inch" || right.first() != Some(&"in"))
}

/// The words from `index` on, up to anything else.
pub(super) fn words_from(tokens: &[Token], index: usize) -> Vec<&str> {
    tokens
        .get(index..)
        .unwrap_or_default()
        .iter()
        .take(12)
        .map_while(|token| match &token.kind {
            Kind::Word(word) => Some(word.as_str()),
            _ => None,
        })
        .collect()
}

/// How the value that ends before `next` is joined to another one, and the index of that one.
fn joint(tokens: &[Token], next: usize, lead: Lead, text: &str) -> Option<(Joint, usize)> {
    let Lead { is_adjunct, is_led, is_change, has_words, is_pair, wants_number, .. } = lead;
    let is_found = |index: usize| matches!(tokens.get(index).map(|token| &token.kind), Some(Kind::Found(_)));
    let right = words_from(tokens, next);
    let after_words = next + right.len();
    // Signs, with a noun or two before them: "9 eggs * $2".
    if right.len() <= 2
        && !right.iter().any(|word| COPULAS.contains(word))
        && let Some(Kind::Sign(sign)) = tokens.get(after_words).map(|token| &token.kind)
    {
        let second = after_words + 1;
        let joint = match sign {
            '+' => Joint::Add,
            '-' => Joint::Subtract,
            '*' => Joint::Multiply,
            '/' | '÷' => Joint::Divide,
            '^' => Joint::Power,
            '±' => Joint::Unclear,
            // "mixed 5 : 8"; "day 5 : 8 eggs" is a label.
            ':' if right.is_empty() && !lead.is_labelled => Joint::Unclear,
            _ => return None,
        };
        return is_found(second).then_some((joint, second));
    }
    match tokens.get(next).map(|token| &token.kind) {
        Some(Kind::Comma | Kind::Semicolon) => {
            let lead = words_from(tokens, next + 1);
            let second = next + 1 + lead.len();
            let is_list = matches!(
                lead[..],
                [] | ["or" | "and" | "oder" | "ou" | "o" | "y" | "et" | "und"]
                    | ["or", "maybe" | "possibly" | "perhaps" | "even"]
            );
            // "40, 5 fewer than Tom": a remark.
            // "is wrapped 8, 12 - 8 = 4": an equation after a mere number starts anew.
            let is_equation = |at: usize| {
                matches!(&tokens[at].kind, Kind::Found(Found { value: Some(Value::Chain(..)), .. }))
            };
            let starts_anew =
                wants_number && is_found(second) && is_equation(second) && !is_equation(next - 1);
            let is_statement = starts_anew
                || is_found(second) && {
                    let after = words_from(tokens, second + 1);
                    after.first().is_some_and(|word| COPULAS.contains(word))
                        || is_compared(&after)
                        || matches!(after[..], ["of", "which" | "whom" | "them" | "these", ..])
                        || (!lead.is_empty() && has_words && is_statement(&after))
                };
            return (is_list
                && is_found(second)
                && !is_adjunct
                && !(is_led && lead.is_empty())
                && !is_statement)
                .then_some((Joint::List, second));
        }
        Some(Kind::Dash) if is_found(next + 1) => {
            let is_sum =
                matches!(tokens.get(next + 2).map(|token| &token.kind), Some(Kind::Sign(_) | Kind::Comma));
            let is_apart = text[tokens[next].start..tokens[next].end].contains(['→', '>', '⇒']);
            let is_spaced =
                text[..tokens[next].start].ends_with(' ') && text[tokens[next].end..].starts_with(' ');
            let is_dash = text[tokens[next].start..].starts_with("..")
                || is_spaced && text[tokens[next].start..].starts_with('—');
            let is_range = !is_sum
                && !is_apart
                && !is_dash
                && matches!(&tokens[next + 1].kind, Kind::Found(found) if found.is_plain);
            return is_range.then_some((Joint::Unclear, next + 1));
        }
        // `7 (or 8)`
        Some(Kind::Open) if matches!(words_from(tokens, next + 1)[..], ["or"]) && is_found(next + 2) => {
            return Some((Joint::List, next + 2));
        }
        _ => {}
    }
    if is_found(next) {
        // "5 feet 7 inches", `$x$ $y$`
        return None;
    }
    if !is_found(after_words) {
        return None;
    }
    // "7 feet 2 inches", "2 hours and 30 minutes"
    if let [unit] | [unit, "and"] = right[..]
        && let (Some(first), Some(other)) = (
            units::find(unit),
            words_from(tokens, after_words + 1).first().and_then(|word| units::find(word)),
        )
        && first != other
        && unit != "in"
    {
        return Some((Joint::Unclear, after_words));
    }
    let (joint, nouns, count) = best_joint(&right)?;
    let second = after_words;
    let is_plain = |index: usize| matches!(&tokens[index].kind, Kind::Found(found) if found.is_plain);
    match joint {
        Joint::Of => {
            // "7 of the 20" counts among them; "7 of 20" is a ratio.
            let is_part = right.len() > nouns + count;
            return (!is_part).then_some((Joint::Of, second));
        }
        // "7 out of the 20 stayed": a count.
        Joint::Unclear if right[nouns..].starts_with(&["out", "of"]) && right.len() > nouns + count => {
            return None;
        }
        // "rose from 70 to 75", "rose by 5 to 75", "took it from 70 apples up to 75"
        Joint::Unclear if is_change && right[nouns] == "to" => return Some((Joint::Become, second)),
        Joint::Unclear if is_adjunct => return None,
        // "48 more than 10 years ago"
        Joint::Add | Joint::SubtractFrom
            if right[nouns..].contains(&"than")
                && matches!(words_from(tokens, second + 1)[..], [_, "ago" | "earlier" | "before", ..]) =>
        {
            return None;
        }
        Joint::Unclear if matches!(right[nouns], "in" | "by" | "to" | "over") => {
            // "18 in 2020", "18 in 5 days", "18 by 5 pm": when it was.
            let timed = words_from(tokens, second + 1);
            let is_time = timed.first().is_some_and(|word| {
                matches!(
                    units::find(word),
                    Some("second" | "minute" | "hour" | "day" | "week" | "month" | "year")
                ) || matches!(*word, "am" | "pm" | "o'clock")
            });
            let year = text[tokens[second].start..tokens[second].end]
                .parse::<u32>()
                .is_ok_and(|year| (1800..2100).contains(&year));
            let has_article = right.len() > nouns + count;
            if right[nouns] != "to" && (is_time || year || has_article)
                || (right[nouns] == "to" && (has_article || nouns > 0 && !are_units(&right[..nouns])))
            {
                return None;
            }
        }
        // "an average of 48 over the 3 days"
        Joint::Divide if right[nouns] == "over" && right.len() > nouns + count => return None,
        Joint::Divide if right[nouns] == "over" => {
            let timed = words_from(tokens, second + 1);
            if timed.first().is_some_and(|word| units::find(word).is_some()) || !is_plain(second) {
                return None;
            }
        }
        Joint::List if right[nouns] == "and" => {
            // "9 and 18 is what she gets": still a list; "3 more and 18 eggs are left" is not.
            let after = words_from(tokens, second + 1);
            // "Take 14 from 50 and 36 are left": two clauses.
            if has_words && !is_pair && is_statement(&after) {
                return None;
            }
            if nouns > 0 || after.first().is_some_and(|word| matches!(*word, "more" | "others")) {
                return Some((Joint::Unclear, second));
            }
        }
        _ => {}
    }
    Some((joint, second))
}

/// Whether the second of two equations follows from the first: "2x + 4 = 100 and x = 48".
fn are_steps(first: Option<&Value>, second: Option<&Value>) -> bool {
    match (first, second) {
        (Some(Value::Chain(first, _)), Some(Value::Chain(second, _))) => first.first() != second.first(),
        _ => false,
    }
}

/// Whether the words after a number go on with a verb of which it is the subject: "36 are left", "36 apples remain".
pub(super) fn is_statement(after: &[&str]) -> bool {
    let verb = after.iter().take(3).position(|word| {
        COPULAS.contains(word)
            || matches!(
                *word,
                "remain"
                    | "remained"
                    | "stay"
                    | "stayed"
                    | "left"
                    | "survive"
                    | "survived"
                    | "come"
                    | "go"
                    | "went"
            )
            || (word.len() > 4 && word.ends_with("ed"))
    });
    verb.is_some_and(|verb| !after[..verb].contains(&"of"))
}

/// "5 fewer than Tom", "3 times as many"
pub(super) fn is_compared(after: &[&str]) -> bool {
    after.iter().take(3).any(|word| {
        matches!(
            *word,
            "more" | "fewer" | "less" | "greater" | "higher" | "lower" | "short" | "above" | "below"
        )
    }) && after.iter().take(4).any(|word| matches!(*word, "than" | "of"))
}

/// "5 dollars to 7 dollars"
fn are_units(nouns: &[&str]) -> bool {
    nouns.iter().all(|word| units::find(word).is_some())
}

/// The longest phrase of [`JOINTS`] in `right` with only an article after it; with the number of words before it, and
/// its own.
fn best_joint(right: &[&str]) -> Option<(Joint, usize, usize)> {
    let mut best: Option<(Joint, usize, usize)> = None;
    for (phrase, joint, nouns) in JOINTS {
        let words: Vec<&str> = phrase.split(' ').collect();
        for skip in 0..=*nouns {
            let Some(rest) = right.get(skip..).filter(|rest| rest.starts_with(&words)) else { continue };
            let tail = &rest[words.len()..];
            let is_led = tail.iter().all(|word| {
                matches!(
                    *word,
                    "a" | "an"
                        | "the"
                        | "another"
                        | "about"
                        | "only"
                        | "his"
                        | "her"
                        | "their"
                        | "those"
                        | "these"
                )
            }) && tail.len() <= 1;
            let is_clear = !right[..skip]
                .iter()
                .any(|word| COPULAS.contains(word) || super::lexicon::CLAUSES.contains(word));
            if is_led && is_clear && best.is_none_or(|(_, _, count)| words.len() > count) {
                best = Some((*joint, skip, words.len()));
            }
        }
    }
    best
}

fn map(value: Value, change: impl Fn(Expr) -> Expr) -> Value {
    match value {
        Value::Quantity { expr, unit } => Value::Quantity { expr: change(expr), unit },
        other => other,
    }
}

fn powered(value: Value, exponent: Expr) -> Option<Value> {
    match value {
        Value::Quantity { expr, unit } => {
            Some(Value::Quantity { expr: Expr::Power(Box::new(expr), Box::new(exponent)), unit })
        }
        _ => None,
    }
}

/// The sum that waited, with its last term.
fn close(pending: Option<(Value, bool)>, last: Option<Value>) -> Option<Value> {
    match pending {
        None => last,
        Some((first, is_plus)) => {
            combined(if is_plus { Joint::Add } else { Joint::Subtract }, Some(first), last)
        }
    }
}

fn combined(joint: Joint, left: Option<Value>, right: Option<Value>) -> Option<Value> {
    // "9 eggs * `$2 = $18`" comes to what its last side says.
    if let (Some(Value::Quantity { .. }), Some(chain @ Value::Chain(..))) = (&left, &right)
        && !matches!(joint, Joint::Unclear | Joint::List)
    {
        return Some(chain.clone());
    }
    let (Value::Quantity { expr: a, unit: first }, Value::Quantity { expr: b, unit: second }) =
        (left?, right?)
    else {
        return None;
    };
    let unit = match joint {
        Joint::Multiply | Joint::Divide | Joint::Power => None,
        _ => first.or(second),
    };
    let minus = |expr: Expr| Expr::Negative(Box::new(expr));
    let expr = match joint {
        Joint::Add => Expr::Sum(vec![a, b]),
        Joint::Subtract => Expr::Sum(vec![a, minus(b)]),
        Joint::SubtractFrom => Expr::Sum(vec![b, minus(a)]),
        Joint::Multiply => Expr::Product(vec![a, b]),
        Joint::Divide => Expr::Quotient(Box::new(a), Box::new(b)),
        Joint::Power => Expr::Power(Box::new(a), Box::new(b)),
        Joint::Of if matches!(a, Expr::Quotient(..) | Expr::Percent(_)) => Expr::Product(vec![a, b]),
        _ => return None,
    };
    Some(Value::Quantity { expr, unit })
}
