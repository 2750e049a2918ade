//! Numbers in running text.

use crate::numeral::ascii_digit;
use crate::structure::read;
use crate::syntax::{Expr, Value};
use crate::units::{self, Unit};

/// Most numbers that are taken as one list; of a longer one nothing is the answer.
const LIST: usize = 64;

/// What a piece of prose says.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reading {
    /// A value, and the text it was read from.
    Value(Value, String),
    /// A number is there, but not one answer: a range, a hedge.
    Unclear(String),
    /// No number.
    Nothing,
}

/// A number with its sign, currency, fraction and percent sign; `end` is where the words after it start.
#[derive(Debug, Clone)]
struct Number {
    start: usize,
    end: usize,
}

/// The first number of `text`, with those joined to it.
pub(crate) fn first(text: &str) -> Reading {
    let numbers = numbers(text);
    let mut last = 0;
    while last + 1 < numbers.len().min(LIST) && joint(text, &numbers[last], &numbers[last + 1]) != Joint::None
    {
        last += 1;
    }
    if numbers.is_empty() { Reading::Nothing } else { run(text, &numbers[..=last]) }
}

/// The last number of `text`, with those joined to it, and the place where it starts.
pub(crate) fn last(text: &str) -> (Reading, usize) {
    let numbers = numbers(text);
    let Some(mut first) = numbers.len().checked_sub(1) else { return (Reading::Nothing, 0) };
    while first > 0
        && numbers.len() - first < LIST
        && joint(text, &numbers[first - 1], &numbers[first]) != Joint::None
    {
        first -= 1;
    }
    (run(text, &numbers[first..]), numbers[numbers.len() - 1].start)
}

/// How two numbers stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Joint {
    None,
    /// `3 + 4`
    Operator,
    /// `3 or 4`, `3, 4`
    List,
    /// `3-4`, `3 to 4`
    Range,
}

fn joint(text: &str, left: &Number, right: &Number) -> Joint {
    let between = &text[left.end..right.start];
    let bare = between.trim_matches(|c: char| c.is_whitespace() || matches!(c, '*' | '$' | '\\' | '(' | ')'));
    let lower = bare.to_lowercase();
    match lower.as_str() {
        "+" | "×" | "/" | "÷" | "−" => return Joint::Operator,
        "" if between.contains('*') && !between.contains("**") => return Joint::Operator,
        "-" | "–" if between.starts_with(' ') && between.ends_with(' ') => return Joint::Operator,
        "-" | "–" | "—" | "to" => return Joint::Range,
        "," | ";" | "or" | "and" | ", or" | ", and" | "; or" | "或" | "oder" | "ou" | "o" | "или" => {
            return Joint::List;
        }
        _ => {}
    }
    // `5 dollars or 6 dollars`
    let is_short = lower.split_whitespace().count() <= 4 && !lower.contains(['.', '=', ':', '\n']);
    if is_short && (lower.ends_with(" or") || lower.starts_with("or ")) { Joint::List } else { Joint::None }
}

fn run(text: &str, numbers: &[Number]) -> Reading {
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Reading::Nothing };
    let source = text[first.start..last.end].to_owned();
    if numbers.len() >= LIST {
        return Reading::Unclear(source);
    }
    let joints: Vec<Joint> = numbers.windows(2).map(|pair| joint(text, &pair[0], &pair[1])).collect();
    let value = if joints.iter().all(|joint| *joint == Joint::Operator) {
        read(&source, true).map(|value| with_words(value, &text[last.end..]))
    } else if joints.iter().all(|joint| *joint == Joint::List) {
        let items = numbers.iter().map(|number| read(&text[number.start..number.end], true));
        items.collect::<Option<Vec<Value>>>().map(Value::List)
    } else {
        None
    };
    match value {
        Some(value) => Reading::Value(value, source),
        None => Reading::Unclear(source),
    }
}

/// A quantity with what the words after it say.
fn with_words(value: Value, after: &str) -> Value {
    let Value::Quantity { expr, unit } = value else { return value };
    let after = after.trim_start_matches(' ');
    let end = after.find(|c: char| !(c.is_alphabetic() || c == ' ')).unwrap_or(after.len());
    let said = units::trailing(&after[..end], 1);
    let scaled = match said.scale {
        0 => expr,
        scale => {
            let power = crate::work::rational(num_bigint::BigInt::from(10).pow(scale));
            Expr::Product(vec![expr, Expr::Number { value: power, decimals: None }])
        }
    };
    let expr = if said.is_percent { Expr::Percent(Box::new(scaled)) } else { scaled };
    Value::Quantity { expr, unit: unit.or(said.unit.filter(is_certain)) }
}

/// "5 in total" has no inches.
fn is_certain(unit: &Unit) -> bool {
    unit.name != "inch"
}

fn numbers(text: &str) -> Vec<Number> {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let at = |index: usize| chars.get(index).map(|(_, c)| *c);
    let digit = |index: usize| at(index).and_then(ascii_digit).is_some();
    let place = |index: usize| chars.get(index).map_or(text.len(), |(place, _)| *place);
    let mut found = Vec::new();
    let mut index = 0;
    while index < chars.len() {
        let is_start = digit(index) || (at(index) == Some('.') && digit(index + 1));
        if !is_start {
            index += 1;
            continue;
        }
        let mut end = digits(&chars, index);
        // 1/2, 3 1/2
        if at(end) == Some(' ') && digit(end + 1) {
            let second = digits(&chars, end + 1);
            if at(second) == Some('/') && digit(second + 1) {
                end = digits(&chars, second + 1);
            }
        } else if at(end) == Some('/') && digit(end + 1) {
            end = digits(&chars, end + 1);
        }
        let percent = (end..end + 3).find(|i| at(*i) == Some('%'));
        if let Some(percent) = percent
            && (end..percent).all(|i| matches!(at(i), Some(' ' | '\\')))
        {
            end = percent + 1;
        }
        let start = sign(&chars, index);
        let before = index.checked_sub(1).and_then(at);
        let is_inside_word = before.is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        // `2x` is algebra.
        let is_algebra = at(end).is_some_and(|c| c.is_ascii_alphabetic())
            && !at(end + 1).is_some_and(|c| c.is_ascii_alphabetic());
        if !is_inside_word && !is_algebra {
            found.push(Number { start: place(start), end: place(end) });
        }
        index = end;
    }
    found
}

/// Where the digits that start at `index` end: groups of thousands, one point.
fn digits(chars: &[(usize, char)], index: usize) -> usize {
    let digit = |index: usize| chars.get(index).is_some_and(|(_, c)| ascii_digit(*c).is_some());
    let mut end = index;
    while digit(end) {
        end += 1;
    }
    if (1..=3).contains(&(end - index)) {
        while chars.get(end).is_some_and(|(_, c)| matches!(c, ',' | ' ' | '\u{a0}' | '\u{202f}' | '’'))
            && (1..=3).all(|i| digit(end + i))
            && !digit(end + 4)
        {
            end += 4;
        }
    }
    if chars.get(end).is_some_and(|(_, c)| *c == '.') && digit(end + 1) {
        end += 1;
        while digit(end) {
            end += 1;
        }
    }
    end
}

/// Where the number at `index` starts with its currency and sign.
fn sign(chars: &[(usize, char)], index: usize) -> usize {
    let mut start = index;
    let before = |start: usize| start.checked_sub(1).and_then(|i| chars.get(i)).map(|(_, c)| *c);
    for _ in 0..2 {
        match before(start) {
            Some(c) if units::currency(c).is_some() => {
                start -= 1;
                if before(start) == Some('\\') {
                    start -= 1;
                }
            }
            Some('-' | '−') => {
                // After a digit, a letter or a bracket it is minus or a hyphen.
                let is_sign = start
                    .checked_sub(2)
                    .and_then(|i| chars.get(i))
                    .is_none_or(|(_, c)| !c.is_alphanumeric() && !matches!(c, ')' | ']' | '}'));
                if !is_sign {
                    return start;
                }
                return start - 1;
            }
            _ => return start,
        }
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str) -> Vec<&str> {
        numbers(text).into_iter().map(|number| &text[number.start..number.end]).collect()
    }

    #[test]
    fn numbers_stand_with_sign_currency_fraction_and_percent() {
        let text = "At -$1,234.50 or 3 1/2 cups, 50 % of 2x and x2, 10-3 is 7, and ৪২ more.";
        assert_eq!(sources(text), ["-$1,234.50", "3 1/2", "50 %", "10", "3", "7", "৪২"]);
        assert_eq!(sources("1 500 000 and 1,2"), ["1 500 000", "1", "2"]);
    }

    #[test]
    fn joined_numbers_are_a_list_a_sum_or_unclear() {
        let is_list = |text| matches!(last(text).0, Reading::Value(Value::List(_), _));
        assert!(is_list("it is 1, 2, or 3"));
        assert!(is_list("5 dollars or 6 dollars"));
        assert!(matches!(last("20-30").0, Reading::Unclear(_)));
        assert!(
            matches!(last("so 9 * 2").0, Reading::Value(Value::Quantity { .. }, source) if source == "9 * 2")
        );
        assert!(
            matches!(first("5 of 7").clone(), Reading::Value(Value::Quantity { .. }, source) if source == "5")
        );
    }
}
