//! The numbers and expressions of running text.

use std::ops::Range;

use super::is_connective;
use crate::numeral::ascii_digit;
use crate::syntax::Value;
use crate::{lex, units};

/// The most pieces between spaces that are read as one expression.
const PIECES: usize = 16;
/// Signs of mathematics that may stand in an expression outside of a formula.
const SIGNS: &str = "+-−*/×·÷⋅=≈<>≤≥≠±^_()[]{}|%°$€£¥₹√∞½¼¾²³⁰¹⁴⁵⁶⁷⁸⁹.,!";
/// Those between two operands.
const INFIX: &str = "+*/×·÷⋅=≈<>≤≥≠±^_";

/// A value, its place, and how it is written.
struct Span {
    range: Range<usize>,
    value: Option<Value>,
    source: String,
}

/// The values of `text` in order, each with its source. Values joined by `,`, `;`, "and", "or" are one list, so that none
/// of them is the answer; `None` stands for a list that can't be read. `read` is told whether a text is a formula.
pub(crate) fn values(text: &str, read: impl Fn(&str, bool) -> Option<Value>) -> Vec<(Option<Value>, String)> {
    let mut spans: Vec<Span> = Vec::new();
    let mut add = |range: Range<usize>, value: Value, source: &str| match spans.last_mut() {
        Some(last) if is_connective(&text[last.range.end..range.start]) => {
            last.source = format!("{}, {source}", last.source);
            last.value = read(&last.source, true);
            last.range.end = range.end;
        }
        _ => spans.push(Span { range, value: Some(value), source: source.to_owned() }),
    };
    let mut at = 0;
    for (range, inner) in formulas(text) {
        plain(text, at..range.start, &read, &mut add);
        at = range.end;
        if let Some(value) = read(inner, true) {
            add(range, value, inner.trim());
        }
    }
    plain(text, at..text.len(), &read, &mut add);
    spans.into_iter().map(|span| (span.value, span.source)).collect()
}

/// Adds the values outside of formulas: of each run of mathematics, from left to right, the longest pieces that can be
/// read.
fn plain(
    text: &str,
    range: Range<usize>,
    read: &impl Fn(&str, bool) -> Option<Value>,
    add: &mut impl FnMut(Range<usize>, Value, &str),
) {
    let mut at = range.start;
    while let Some(run) = next_run(text, at..range.end) {
        at = run.end;
        let words = text[run.clone()].split(' ').filter(|word| !word.is_empty());
        let pieces: Vec<Range<usize>> = words.map(|word| within(text, word)).collect();
        let mut first = 0;
        while first < pieces.len() {
            let last = (first + PIECES).min(pieces.len());
            let found = (first..last).rev().find_map(|last| {
                let range = trimmed(text, pieces[first].start..pieces[last].end);
                let source = &text[range.clone()];
                let is_value = source.contains(|c: char| c.is_alphanumeric() || "½¼¾∞".contains(c));
                let value = if is_value { read(source, false) } else { None };
                value.map(|value| (last, range, value))
            });
            first += 1;
            if let Some((last, range, value)) = found {
                first = last + 1;
                add(range.clone(), value, &text[range]);
            }
        }
    }
}

/// The place of `part`, a slice of `text`.
fn within(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

/// The next stretch of digits, signs, single letters, names such as `pi`, and units behind a number.
fn next_run(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let mut start = None;
    // The last character of the run that is not space, and where it ends.
    let mut last = (' ', range.start);
    let mut at = range.start;
    while at < range.end {
        let rest = &text[at..range.end];
        let c = rest.chars().next()?;
        let word = &rest[..rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())];
        let before = text[range.start..at].chars().next_back();
        let (length, is_part) = if ascii_digit(c).is_some() {
            // `Room12` is a word.
            let is_in_word = start.is_none() && before.is_some_and(|c| c.is_ascii_alphabetic());
            let digits = rest.find(|c: char| !c.is_numeric()).unwrap_or(rest.len());
            (digits, !is_in_word)
        } else if c == '\\' {
            let name = rest[1..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len() - 1);
            (1 + name, name > 0 || rest[1..].starts_with(['$', '%', '{', '}', ',', '!']))
        } else if !word.is_empty() {
            let is_glued = before.is_some_and(char::is_alphanumeric);
            let is_part = match word.len() {
                1 => is_variable(c, &rest[1..], before, start.map(|_| last.0)),
                _ => lex::is_name(word) && !is_glued,
            };
            (word.len(), is_part || (start.is_some() && is_measure(word, last.0)))
        } else if c == ' ' || c == '\u{a0}' || c == '\u{202f}' {
            // "48 (6 × 8)" is not a product.
            let is_aside = rest.trim_start().starts_with('(') && last.0.is_ascii_digit();
            (c.len_utf8(), start.is_some() && !is_aside)
        } else {
            let ends_sentence = c == '.' && !rest[1..].starts_with(|c| ascii_digit(c).is_some());
            (c.len_utf8(), SIGNS.contains(c) && !ends_sentence)
        };
        match (is_part, start) {
            (true, None) => start = Some(at),
            (false, Some(start)) => return Some(start..last.1),
            _ => {}
        }
        at += length;
        if is_part && !c.is_whitespace() {
            last = (text[..at].chars().next_back().unwrap_or(c), at);
        }
    }
    start.map(|start| start..last.1)
}

/// Whether a single letter is a variable: next to a sign or a digit, unlike the words "a" and "I".
fn is_variable(letter: char, after: &str, before: Option<char>, last: Option<char>) -> bool {
    let next = after.trim_start().chars().next();
    let is_operator = |c: char| INFIX.contains(c);
    after.starts_with(|c: char| ascii_digit(c).is_some() || c == '(')
        || before.is_some_and(char::is_numeric)
        || next.is_some_and(is_operator)
        || (after.starts_with(" - ") && letter.is_lowercase() && letter != 'a')
        || last.is_some_and(|last| is_operator(last) || "({-−".contains(last))
        || (letter == 'x' && last.is_some_and(char::is_numeric) && next.is_some_and(char::is_numeric))
}

/// Whether `word` behind a number is its scale, its unit, or "percent".
fn is_measure(word: &str, last: char) -> bool {
    let is_unit = units::find(word).is_some() && word != "in";
    let is_percent = matches!(word, "percent" | "percentage" | "pct");
    (is_unit || is_percent || units::scale(word).is_some())
        && (last.is_alphanumeric() || matches!(last, ')' | '}' | '%'))
}

/// Without the signs around an expression that are not part of it.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    const ENDS: &str = " *_.,!=+-−/<>≈±^({[";
    let mut range = range;
    let count = |range: &Range<usize>, sign: char| text[range.clone()].matches(sign).count();
    loop {
        let source = &text[range.clone()];
        let (open, close) = (count(&range, '('), count(&range, ')'));
        let mut chars = source.chars();
        let first = chars.next().unwrap_or(' ');
        let is_led = match first {
            // A sign that belongs to what follows, unlike the dash of a list.
            '-' | '−' | '+' | '±' => source[first.len_utf8()..].starts_with(' '),
            '(' => open > close,
            c => " *_,!=/<>≈×·÷)]}%^".contains(c),
        };
        let end = source.chars().next_back().unwrap_or(' ');
        let is_trailing = match end {
            ')' => close > open,
            c => ENDS.contains(c),
        };
        if is_led && !source.is_empty() {
            range.start += first.len_utf8();
        } else if is_trailing && !source.is_empty() {
            range.end -= end.len_utf8();
        } else {
            return range;
        }
    }
}

/// The formulas of `text` (`$..$`, `$$..$$`, `\(..\)`, `\[..\]`) with their places, delimiters included.
fn formulas(text: &str) -> Vec<(std::ops::Range<usize>, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(['$', '\\']) {
        let start = at + offset;
        let rest = &text[start..];
        let (open, close) = if rest.starts_with("\\$") {
            at = start + 2;
            continue;
        } else if rest.starts_with("$$") {
            ("$$", "$$")
        } else if rest.starts_with('$') {
            ("$", "$")
        } else if rest.starts_with("\\(") {
            ("\\(", "\\)")
        } else if rest.starts_with("\\[") {
            ("\\[", "\\]")
        } else {
            at = start + 1;
            continue;
        };
        let inner = start + open.len();
        // A formula is short; looking no further keeps this linear.
        let limit = text.floor_char_boundary(inner + 1000);
        // `$\\$36$` is one formula about money.
        let content = &text[inner..limit];
        let end = content
            .match_indices(close)
            .map(|(at, _)| at)
            .find(|at| open != "$" || !content[..*at].ends_with('\\'));
        match end {
            Some(length) if open != "$" || is_formula(&text[inner..inner + length]) => {
                at = inner + length + close.len();
                found.push((start..at, &text[inner..inner + length]));
            }
            _ => at = inner,
        }
    }
    found
}

/// Whether what stands between two dollar signs is a formula, not the text between two prices.
fn is_formula(content: &str) -> bool {
    if content.contains('\n') || content.trim().is_empty() {
        return false;
    }
    let mut word = 0;
    let mut is_command = false;
    for c in content.chars() {
        if c.is_ascii_alphabetic() {
            word += 1;
            if word > 3 && !is_command && !content.contains('\\') {
                return false;
            }
        } else {
            word = 0;
            is_command = c == '\\';
        }
    }
    !content.ends_with(' ') || content.contains('\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure;

    fn sources(text: &str) -> Vec<String> {
        values(text, |source, _| {
            structure::read(source, true).filter(|value| !matches!(value, Value::Text(_)))
        })
        .into_iter()
        .map(|(_, source)| source)
        .collect()
    }

    #[test]
    fn numbers_and_expressions_are_found_between_words() {
        for (text, expected) in [
            ("She makes 9 * 2 = $18 every day.", vec!["9 * 2 = $18"]),
            ("I have a dog, 3 cats and 1,234.5 fish.", vec!["3", "1,234.5"]),
            ("It is **18**, (19) or 50%!", vec!["18, (19), 50%"]),
            ("x = 5 - 3, so y", vec!["x = 5 - 3"]),
            ("about 3.5 million dollars a day", vec!["3.5 million dollars"]),
            ("48 (6 × 8)", vec!["48", "(6 × 8)"]),
            ("from $x^2$ to $5 each", vec!["x^2", "$5"]),
            ("- 18 apples\n- 19 pears", vec!["18", "19"]),
            ("$1$ or $2$", vec!["1, 2"]),
            ("6.05×10⁷ metres and 1/2", vec!["6.05×10⁷ metres, 1/2"]),
            ("room12 and nothing", vec![]),
            ("-7 and then −8", vec!["-7", "−8"]),
            (r"so \frac{3}{4} it is", vec![r"\frac{3}{4}"]),
            ("答案18个", vec!["18"]),
        ] {
            assert_eq!(sources(text), expected, "{text}");
        }
    }

    #[test]
    fn dollars_are_formulas_only_where_no_prose_stands_between() {
        let inner = |text| formulas(text).into_iter().map(|(_, inner)| inner).collect::<Vec<_>>();
        assert_eq!(inner("so $x+1$ and \\(y\\) and $$z$$"), ["x+1", "y", "z"]);
        assert_eq!(inner("it costs $5 and then another $6"), Vec::<&str>::new());
        assert_eq!(inner("from $5 each to $x^2$"), ["x^2"]);
    }
}
