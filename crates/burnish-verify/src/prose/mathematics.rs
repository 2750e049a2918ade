//! Numbers and formulas outside of formula delimiters.

use super::tokens::{Found, Kind, Scanner, scaled};
use crate::lex;
use crate::numeral::{ascii_digit, exponent};
use crate::structure::read;
use crate::syntax::Value;
use crate::units::{self, Unit};

/// The longest piece of text without formula delimiters that is tried as mathematics, in bytes.
const RUN: usize = 240;
/// How many ends of such a piece are tried.
const TRIES: usize = 10;

impl Scanner<'_> {
    /// The mathematics that starts here outside of formula delimiters.
    pub(super) fn mathematics(&self) -> Option<(usize, Found)> {
        let before = self.text[..self.at].trim_end_matches('_').chars().next_back();
        let is_subscript = self.before() == Some('_')
            && before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '}' | ')'));
        if is_subscript || self.before().is_some_and(|c| c.is_ascii_alphanumeric()) {
            return None;
        }
        let number = self.number().map(|(end, found)| self.with_unit(end, found));
        let run = self.run();
        match (number, run) {
            (Some(number), Some(run)) if run.0 > number.0 => Some(run),
            (Some(number), _) => Some(number),
            (None, run) => run,
        }
    }

    /// A plain number with the sign of its unit, which algebra would take for a variable: "250 g", "75 m²", "5 °C".
    fn with_unit(&self, end: usize, found: Found) -> (usize, Found) {
        let rest = &self.text[end..];
        let sign = rest.trim_start_matches(' ');
        let is_degree = self.text[..end].ends_with('°') || sign.starts_with('°');
        let name = sign.trim_start_matches('°');
        let Some(letter) = name
            .chars()
            .next()
            .filter(|c| if is_degree { "CFK".contains(*c) } else { "mgslLNJWVAh".contains(*c) })
        else {
            return (end, found);
        };
        let mut tail = &name[letter.len_utf8()..];
        let mut power = 1;
        for (mark, exponent) in
            [("²", 2), ("³", 3), ("^2", 2), ("^3", 3), ("^{2}", 2), ("^{3}", 3), ("2", 2), ("3", 3)]
        {
            if let Some(after) = tail.strip_prefix(mark) {
                (tail, power) = (after, exponent);
                break;
            }
        }
        if let Some(length) = rate(name) {
            tail = &name[length..];
            power = 0;
        }
        // "5 m + 2" is algebra.
        let is_end = tail.chars().next().is_none_or(|c| !(c.is_alphanumeric() || "^_(/'’-".contains(c)))
            && !tail.trim_start().starts_with(['=', '+', '*', '/', '^', '<', '>', '-', '−', '·', '×']);
        let is_apart = is_degree || power != 1 || rest.starts_with(' ');
        let Some(Value::Quantity { expr, unit }) = found.value.clone() else { return (end, found) };
        if !(is_end && is_apart && found.is_plain) {
            return (end, found);
        }
        let named = units::find(&letter.to_string()).filter(|_| power > 0).map(|name| Unit { name, power });
        let unit = if is_degree { None } else { unit.or(named) };
        (self.text.len() - tail.len(), Found { value: Some(Value::Quantity { expr, unit }), ..found })
    }

    /// A number with its sign, currency, fraction, percent sign and whatever is attached to it.
    fn number(&self) -> Option<(usize, Found)> {
        let rest = &self.text[self.at..];
        let chars: Vec<(usize, char)> = rest.char_indices().take(480).collect();
        let at = |index: usize| chars.get(index).map(|(_, c)| *c);
        let digit = |index: usize| at(index).and_then(ascii_digit).is_some();
        let mut start = 0;
        for _ in 0..4 {
            match at(start) {
                Some('-' | '−' | '+')
                    if start == 0 || at(start - 1).is_some_and(|c| units::currency(c).is_some()) =>
                {
                    start += 1
                }
                Some('\\') if at(start + 1) == Some('$') => start += 2,
                Some(c) if units::currency(c).is_some() => {
                    start += 1;
                    if at(start) == Some(' ') && (digit(start + 1) || at(start + 1) == Some('-')) {
                        start += 1;
                    }
                }
                _ => break,
            }
        }
        if !(digit(start) || (at(start) == Some('.') && digit(start + 1))) {
            return None;
        }
        // After a letter, a digit or a bracket it is minus or a hyphen.
        let is_signed = start > 0 && matches!(at(0), Some('-' | '−' | '+'));
        if is_signed
            && self.before().is_some_and(|c| c.is_alphanumeric() || matches!(c, ')' | ']' | '}' | '%'))
        {
            return None;
        }
        let mut end = digits(&chars, start);
        if at(end) == Some(' ') && digit(end + 1) {
            let second = digits(&chars, end + 1);
            if at(second) == Some('/') && digit(second + 1) {
                end = digits(&chars, second + 1);
            }
        } else if matches!(at(end), Some('/' | '⁄')) && digit(end + 1) {
            end = digits(&chars, end + 1);
        } else if matches!(at(end), Some('½' | '¼' | '¾')) {
            end += 1;
        }
        let percent = (end..end + 3).find(|i| matches!(at(*i), Some('%' | '％')));
        if let Some(percent) = percent
            && (end..percent).all(|i| matches!(at(i), Some(' ' | '\\')))
        {
            end = percent + 1;
        }
        if matches!(at(end), Some('$' | '€' | '£' | '¥' | '₹' | '°'))
            && !self.formulas.iter().any(|(range, _)| range.start == self.at + chars[end].0)
        {
            end += 1;
        }
        let place = |index: usize| {
            chars
                .get(index)
                .map_or(rest.len().min(chars.last().map_or(0, |(at, c)| at + c.len_utf8())), |(at, _)| *at)
        };
        let source = &rest[..place(end)];
        let value = read(source.trim_end_matches('$'), true);
        let found = |value, is_part| Found { value, is_plain: true, is_part };
        // What is glued to it.
        let letters: String = chars[end.min(chars.len())..]
            .iter()
            .map(|(_, c)| *c)
            .take_while(|c| c.is_alphabetic() && c.is_ascii())
            .collect();
        if letters.is_empty() {
            let next = at(end);
            return Some(match next {
                Some('+')
                    if !(end + 1..end + 3).any(|i| digit(i) || matches!(at(i), Some('$' | '\\' | '('))) =>
                {
                    (self.at + place(end + 1), found(None, false))
                }
                Some('-' | '–' | '‑') if at(end + 1).is_some_and(char::is_alphabetic) => {
                    let word: String = chars[end + 1..]
                        .iter()
                        .map(|(_, c)| *c)
                        .take_while(|c| c.is_alphabetic() || *c == '-')
                        .collect();
                    let end = end + 1 + word.chars().count();
                    match word.to_lowercase().as_str() {
                        "fold" | "odd" | "something" | "plus" | "x" => {
                            (self.at + place(end), found(None, false))
                        }
                        "ish" => (self.at + place(end), found(value, false)),
                        word if units::find(word).is_some() && !rest[place(end)..].starts_with(" ") => {
                            (self.at + place(end), found(value, false))
                        }
                        _ => (self.at + place(end), found(value, true)),
                    }
                }
                // A range, a ratio, a time.
                Some('-' | '–' | '—' | ':' | '−')
                    if digit(end + 1) || (at(end + 1) == Some('$') && digit(end + 2)) =>
                {
                    let from = if digit(end + 1) { end + 1 } else { end + 2 };
                    (self.at + place(digits(&chars, from)), found(None, false))
                }
                _ => (self.at + place(end), found(value, false)),
            });
        }
        let glued = end + letters.chars().count();
        let times = |factor: i64| value.clone().map(|value| scaled(value, &crate::work::rational(factor)));
        let is_end = !at(glued).is_some_and(|c| c.is_alphanumeric() || matches!(c, '^' | '_' | '('));
        if !is_end {
            return None;
        }
        let found = match letters.as_str() {
            "st" | "nd" | "rd" | "th" => found(None, true),
            "k" | "K" => found(times(1_000), false),
            "M" | "mn" | "mln" | "MM" => found(times(1_000_000), false),
            "bn" | "B" | "bln" => found(times(1_000_000_000), false),
            "fold" => found(None, false),
            // "in the 40s"
            "s" if matches!(self.last(), Some(Kind::Word(word)) if matches!(word.as_str(), "the" | "mid" | "low" | "high" | "upper" | "lower" | "early" | "late")) => {
                found(None, false)
            }
            "s" | "ish" => found(value, false),
            "am" | "pm" | "AM" | "PM" => found(value, false),
            word if units::find(word).is_some() => {
                let with_unit = read(&rest[..place(glued)], true);
                found(with_unit.or(value), false)
            }
            // `2x` is algebra.
            word if word.len() == 1 => return None,
            _ => found(value, true),
        };
        Some((self.at + place(glued), found))
    }

    /// The longest piece of text from here that reads as mathematics without words.
    fn run(&self) -> Option<(usize, Found)> {
        let rest = &self.text[self.at..];
        let line = rest.lines().next().unwrap_or("");
        let line = &line[..line.floor_char_boundary(RUN)];
        if !may_start(line)
            || (line.starts_with(['-', '−', '+'])
                && self.before().is_some_and(|c| c.is_alphanumeric() || matches!(c, ')' | ']' | '}')))
        {
            return None;
        }
        let mut ends = Vec::new();
        let mut depth = 0_i32;
        let mut chunk_start = 0;
        let mut previous = ' ';
        for (index, c) in line.char_indices().chain([(line.len(), ' ')]) {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            let is_sign = c == '$'
                && !(previous.is_whitespace()
                    || "=+-−*/(".contains(previous)
                    || previous == '\\'
                    || index == 0);
            let is_break = (c.is_whitespace() && depth <= 0)
                || index == line.len()
                || matches!(c, '–' | '—' | '→')
                || is_sign
                || (c == '*'
                    && line[index..].starts_with("**")
                    && !line[index + 2..].starts_with(|c: char| c.is_ascii_digit() || c == '('));
            if is_break {
                let chunk = &line[chunk_start..index];
                if !chunk.is_empty() {
                    if !is_mathematical(chunk, &line[index..], chunk_start == 0) {
                        break;
                    }
                    ends.push(index);
                    if (chunk.ends_with([',', ';', ':', '?', '!']) || chunk.ends_with('.'))
                        && depth <= 0
                        && !chunk.ends_with("\\,")
                        && !chunk.ends_with("\\!")
                    {
                        break;
                    }
                }
                if !c.is_whitespace() {
                    break;
                }
                chunk_start = index + c.len_utf8();
            }
            previous = c;
        }
        for end in ends.into_iter().rev().take(TRIES) {
            let source = line[..end].trim_end_matches(|c: char| {
                matches!(c, '.' | ',' | ';' | ':' | '?' | '"' | '”' | '*' | '`' | '_' | '\'')
                    || c.is_whitespace()
            });
            // In a sentence, `!` is not a factorial.
            let is_factorial = self.text[self.at + source.len()..]
                .strip_prefix(' ')
                .is_some_and(|after| after.starts_with(char::is_lowercase));
            let source = if is_factorial { source } else { source.strip_suffix('!').unwrap_or(source) };
            if source.is_empty() || is_range(source) {
                continue;
            }
            let value = read(without_unit(source), true);
            let Some(value) = value else { continue };
            if has_words(&value) {
                continue;
            }
            let is_plain = is_plain_number(source);
            // A name by itself is a word of the text.
            if source.chars().count() == 1 && source.starts_with(|c: char| c.is_ascii_alphabetic()) {
                continue;
            }
            // `(18)` in running text is an aside, not a product.
            let is_measure = source.split_once(' ').is_some_and(|(number, unit)| {
                is_plain_number(number) && unit.trim_end_matches(')').chars().all(char::is_alphabetic)
            });
            let is_plain_aside = is_plain || is_measure;
            // "48 (6 × 8)" is not a product.
            if source.contains(" (") && source.starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            if source.starts_with('(') && is_plain_aside && !source.contains(',') {
                continue;
            }
            return Some((self.at + source.len(), Found { value: Some(value), is_plain, is_part: false }));
        }
        None
    }
}

/// The signs of units that a rate is made of, and the number of bytes of it: `m/s²`, `kg/L`.
fn rate(text: &str) -> Option<usize> {
    const SIGNS: &[&str] = &[
        "m", "s", "g", "l", "L", "h", "N", "J", "W", "V", "A", "K", "C", "km", "cm", "mm", "kg", "mg", "ml",
        "mL", "kJ", "kW", "min", "sec", "hr", "mol", "Pa", "ft", "mi", "gal", "lb", "oz",
    ];
    let sign = |text: &str| {
        let length = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
        let rest = &text[length..];
        let bare = rest.trim_start_matches("^2").trim_start_matches("^3").trim_start_matches(['²', '³']);
        SIGNS.contains(&&text[..length]).then_some(text.len() - bare.len())
    };
    let first = sign(text)?;
    let second = sign(text[first..].strip_prefix('/')?)?;
    Some(first + 1 + second)
}

/// A number without the rate after it, `48 m/s`, and an equation without the one letter of a unit at its end: `10 + 38
/// = 48 m`.
pub(crate) fn without_unit(source: &str) -> &str {
    if let Some((number, unit)) = source.split_once(' ')
        && is_plain_number(number)
        && rate(unit) == Some(unit.len())
    {
        return number;
    }
    let bare = source.trim_end_matches(['²', '³']);
    let number = bare.strip_suffix([' ']).unwrap_or(bare).strip_suffix(['m', 'g', 's', 'l', 'L', 'h']);
    match number.and_then(|number| number.strip_suffix(' ')) {
        Some(number) if number.ends_with(|c: char| c.is_ascii_digit()) && number.contains('=') => number,
        _ => source,
    }
}

/// Whether an equation says what a part or a multiple of the one unknown in it is: `2x = 18`, `x + 1 = 18`.
pub(crate) fn is_unsolved(source: &str) -> bool {
    let Some((left, right)) = source.split_once('=') else { return false };
    // `4x = 4 * 10 = 40` works it out.
    if right.contains('=') {
        return false;
    }
    let left = left.trim_matches(|c: char| c.is_whitespace() || matches!(c, '$' | '*'));
    let left = left.trim_start_matches("\\(").trim_start_matches("\\[").trim();
    let mut unknown = None;
    for (at, c) in left.char_indices() {
        if !c.is_alphabetic() {
            continue;
        }
        let after = left[at + c.len_utf8()..].trim_start();
        let is_sign = c == 'x'
            && after.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '(' | '$' | '.'))
            && left[..at].trim_end().ends_with(|c: char| c.is_ascii_digit() || matches!(c, ')' | '%'));
        // Units, functions and names of more than one letter are not unknowns.
        if is_sign
            || !"xyznkabwtpqruvXYZN".contains(c)
            || after.starts_with('(')
            || unknown.is_some_and(|known| known != c)
        {
            return false;
        }
        unknown = Some(c);
    }
    unknown.is_some()
        && left.chars().count() > 1
        && left.contains(|c: char| c.is_ascii_digit() || matches!(c, '-' | '−' | '+'))
        && !left.contains(['_', '\\', ',', '\'', '<', '>', '≤', '≥'])
}

/// Whether mathematics may start with this text.
fn may_start(text: &str) -> bool {
    let mut chars = text.chars();
    let Some(c) = chars.next() else { return false };
    let next = chars.next();
    let after_space = text[c.len_utf8()..].trim_start();
    match c {
        '\\' => next.is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '{' | '$')),
        '-' | '−' | '+' | '±' => {
            next.is_some_and(|c| c.is_alphanumeric() || matches!(c, '\\' | '(' | '.' | '√' | '$'))
        }
        '(' | '[' | '{' | '√' | 'π' | '½' | '¼' | '¾' | '|' | '$' => {
            next.is_some() || c == 'π' || c == '½'
        }
        c if c.is_ascii_digit() || c == '.' => true,
        c if c.is_ascii_alphabetic() => {
            let word: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
            let tail = text[word.len()..].trim_start();
            let is_name = word.len() == 1 || lex::is_name(&word);
            let is_followed = tail
                .starts_with(['=', '^', '+', '/', '<', '>', '≤', '≥', '∈', '≈', '*', '·', '×'])
                || text[word.len()..].starts_with(['(', '^', '_'])
                || (word.len() == 1 && tail.starts_with("- ") && word != "a" && word != "I" && word != "A")
                || tail.starts_with("\\in")
                || tail.starts_with("\\le")
                || tail.starts_with("\\ge")
                || tail.starts_with("\\cdot");
            is_name && is_followed && !tail.starts_with("**")
        }
        c => ('α'..='ω').contains(&c) && !after_space.is_empty(),
    }
}

/// Whether a piece of text between spaces may belong to mathematics.
fn is_mathematical(chunk: &str, after: &str, is_first: bool) -> bool {
    let mut letters = String::new();
    let mut is_command = false;
    let mut braces = 0_usize;
    let has_other =
        chunk.chars().any(|c| c.is_ascii_digit() || "=^+*/()[]{}\\<>|√π".contains(c) || !c.is_ascii());
    for c in chunk.chars().chain([' ']) {
        if c.is_ascii_alphabetic() {
            letters.push(c);
            continue;
        }
        if !letters.is_empty() && !is_command && braces == 0 {
            let is_known = letters.len() == 1
                || lex::is_name(&letters)
                || (has_other && letters.len() == 2 && chunk.contains(['^', '=', '(']));
            if !is_known {
                return false;
            }
        }
        let opens_text = !letters.is_empty()
            && is_command
            && matches!(letters.as_str(), "text" | "mbox" | "textbf" | "mathrm");
        if c == '{' && (opens_text || braces > 0) {
            braces += 1;
        } else if braces > 0 && c == '}' {
            braces -= 1;
        }
        letters.clear();
        is_command = c == '\\';
    }
    // "the answer is 8 i think"
    if chunk == "i" && after.starts_with(" ") && after[1..].starts_with(|c: char| c.is_ascii_lowercase()) {
        return false;
    }
    if chunk.chars().all(|c| c.is_ascii_alphabetic()) {
        // A letter by itself is a variable only next to a sign: "a" is mostly an article.
        let is_before_sign =
            after.trim_start().starts_with(['=', '^', '+', '*', '/', '<', '>', '≤', '≥', '×', '·']);
        return chunk.len() == 1 && (is_before_sign || !(is_first || matches!(chunk, "a" | "A" | "I")))
            || (chunk.len() > 1 && lex::is_name(chunk));
    }
    chunk.chars().any(|c| c.is_alphanumeric() || "=+-−*/^()[]{}\\<>|≤≥√π×·÷≈∞∪∈±%".contains(c))
}

/// `20-30`, `20–30`: two numbers and a hyphen.
fn is_range(source: &str) -> bool {
    let mut parts = source.split(['-', '–', '−']);
    let is_number = |part: Option<&str>| {
        part.is_some_and(|part| {
            part.contains(|c: char| c.is_ascii_digit())
                && !part.contains(' ')
                && part.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '$' | '%'))
        })
    };
    is_number(parts.next()) && is_number(parts.next()) && parts.next().is_none()
}

pub(super) fn is_plain_number(source: &str) -> bool {
    source.chars().all(|c| {
        c.is_ascii_digit()
            || matches!(c, '.' | ',' | '-' | '−' | '$' | '\\' | '%' | ' ' | '(' | ')' | '{' | '}' | '!' | '/')
    })
}

/// A value with words in it, at any depth of lists.
fn has_words(value: &Value) -> bool {
    match value {
        Value::Text(_) => true,
        Value::List(items)
        | Value::Tuple(items)
        | Value::Set(items)
        | Value::Union(items)
        | Value::Chain(items, _) => items.iter().any(has_words),
        _ => false,
    }
}

/// Where the digits that start at `index` end: groups of thousands, one point, an exponent.
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
    end + exponent(|ahead| chars.get(end + ahead).map(|(_, c)| *c)).map_or(0, |(length, _)| length)
}
