//! The words, numbers and signs of a text answer, and when two texts say the same.

use num_bigint::BigInt;
use num_rational::BigRational;
use unicode_normalization::UnicodeNormalization;

use crate::numeral::{ascii_digit, exponent};

/// Longest text that is compared, in bytes.
const LENGTH: usize = 1 << 16;

/// One word, number or sign of a normalised text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A word, or a sign that says something. `is_open`: a stop follows, so it may be written together with the next
    /// word ("U.S." is "US").
    Word {
        text: String,
        is_open: bool,
    },
    /// "a", "an", "the" before a word: it may be left out.
    Article(String),
    Number(BigRational),
    Percent,
}

impl Piece {
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Piece::Word { text, .. } | Piece::Article(text) => Some(text),
            Piece::Number(_) | Piece::Percent => None,
        }
    }
}

impl std::fmt::Display for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Piece::Word { text, .. } | Piece::Article(text) => f.write_str(text),
            Piece::Number(value) => write!(f, "{value}"),
            Piece::Percent => f.write_str("%"),
        }
    }
}

/// Whether two texts say the same: no article and no stop of an abbreviation makes a difference.
pub(crate) fn same(one: &[Piece], other: &[Piece]) -> bool {
    beginning(one, other) == Some(one.len())
}

/// How many pieces at the beginning of `text` say what `item` does.
pub(crate) fn beginning(text: &[Piece], item: &[Piece]) -> Option<usize> {
    let (mut at, mut of) = (0, 0);
    while let Some(wanted) = item.get(of) {
        let here = text.get(at)?;
        let (rest, rest_of_item) = (&text[at..], &item[of..]);
        let spelled = match (here.word(), wanted.word()) {
            (Some(here), Some(wanted)) => spelling(rest_of_item, here)
                .map(|count| (1, count))
                .or_else(|| spelling(rest, wanted).map(|count| (count, 1))),
            _ => (here == wanted).then_some((1, 1)),
        };
        let (steps, steps_of_item) = match (spelled, here, wanted) {
            (Some(steps), ..) => steps,
            (None, Piece::Article(_), _) => (1, 0),
            (None, _, Piece::Article(_)) => (0, 1),
            _ => return None,
        };
        at += steps;
        of += steps_of_item;
    }
    Some(at)
}

/// How many pieces, the first ones, spell `word`: several, if stops are between them.
fn spelling(pieces: &[Piece], word: &str) -> Option<usize> {
    let mut left = word;
    for (index, piece) in pieces.iter().enumerate() {
        left = left.strip_prefix(piece.word()?)?;
        if left.is_empty() {
            return Some(index + 1);
        }
        if !matches!(piece, Piece::Word { is_open: true, .. }) {
            return None;
        }
    }
    None
}

/// A text without case, punctuation and spacing; numbers by value, with `(3)` as -3 if it stands alone.
///
/// Based on the normalisation of SQuAD (lower case, no punctuation, no articles, single spaces).
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    if text.len() > LENGTH {
        return Vec::new();
    }
    let text = unwrapped(text);
    let chars: Vec<char> = text.chars().collect();
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let is_number = ascii_digit(c).is_some()
            || (c == '.' && chars.get(at + 1).is_some_and(|c| ascii_digit(*c).is_some()));
        let word = |text| Piece::Word { text, is_open: false };
        if is_number {
            let (value, end) = number(&chars, at);
            let is_joined = at > 0 && chars[at - 1].is_alphabetic();
            pieces.push(match value {
                Some(value) if !is_joined && is_negative(&chars, at, end) => Piece::Number(-value),
                Some(value) => Piece::Number(value),
                None => word(chars[at..end].iter().collect()),
            });
            at = end;
        } else if c.is_alphabetic() {
            let end = (at..chars.len()).find(|i| !is_word(chars[*i])).unwrap_or(chars.len());
            let text: String =
                chars[at..end].iter().flat_map(|c| c.to_lowercase()).filter(|c| *c != '\'').collect();
            pieces.push(match text.as_str() {
                "a" | "an" | "the" if is_article(&chars, at, end) => Piece::Article(text),
                "percent" | "percentage" | "pct" => Piece::Percent,
                _ => Piece::Word { text, is_open: chars.get(end) == Some(&'.') },
            });
            at = end;
        } else {
            match c {
                '%' => pieces.push(Piece::Percent),
                '&' => pieces.push(word("and".to_owned())),
                c if is_sign(&chars, at) => pieces.push(word(c.to_string())),
                _ => {}
            }
            at += 1;
        }
    }
    pieces
}

/// Whether "a", "an" or "the" at `start` belongs to the word after it: in "Plan A" and "vitamin A deficiency" it is a
/// name.
fn is_article(chars: &[char], start: usize, end: usize) -> bool {
    let is_around = |c: &char| c.is_whitespace() || "*_\"'`$([{".contains(*c);
    let after = &chars[end..];
    let next: String =
        after.iter().skip_while(|c| is_around(c)).take_while(|c| c.is_alphanumeric()).collect();
    let before = chars[..start].iter().rev().find(|c| !is_around(c));
    let is_name = chars[start..end] == ['A']
        && before.is_some_and(|c| !matches!(c, '.' | '!' | '?' | ':'))
        && next.starts_with(char::is_lowercase);
    after.first().is_some_and(|c| c.is_whitespace())
        && !next.is_empty()
        && !matches!(next.to_lowercase().as_str(), "and" | "or")
        && !is_name
}

/// Whether the sign at `at` says something: a relation, an operation, an arrow, the end of "C#" or "Na+".
fn is_sign(chars: &[char], at: usize) -> bool {
    let before = |is: fn(char) -> bool| at > 0 && is(chars[at - 1]);
    let next = chars.get(at + 1).copied().unwrap_or(' ');
    let is_bullet = next == ' ' && chars[..at].iter().rev().take_while(|c| **c != '\n').all(|c| *c == ' ');
    match chars[at] {
        '<' | '>' | '=' | '^' | '±' | '×' | '÷' | '‰' => true,
        // `+5` is 5.
        '+' => !is_bullet && (ascii_digit(next).is_none() || before(char::is_alphanumeric)),
        '#' => before(char::is_alphabetic),
        // "A-" and "AB-", but no dash.
        '-' => {
            let word = chars[..at].iter().rev().take_while(|c| c.is_alphanumeric()).count();
            matches!(word, 1 | 2)
                && chars[at - word].is_uppercase()
                && !(next.is_alphanumeric() || next == '-')
        }
        '\u{2190}'..='\u{21ff}' => !is_bullet,
        '\u{2200}'..='\u{22ff}' => true,
        _ => false,
    }
}

/// Letters, and the apostrophes and accents inside of words.
fn is_word(c: char) -> bool {
    (c.is_alphabetic() || c == '\'' || (c.is_alphanumeric() && ascii_digit(c).is_none()))
        && !c.is_whitespace()
}

/// Typographic signs as plain ones, accents composed, `\text{..}` and the like removed.
fn unwrapped(text: &str) -> String {
    const SIGNS: &[(&str, &str)] = &[
        ("lt", "<"),
        ("gt", ">"),
        ("le", "≤"),
        ("leq", "≤"),
        ("ge", "≥"),
        ("geq", "≥"),
        ("ne", "≠"),
        ("neq", "≠"),
        ("pm", "±"),
        ("times", "×"),
        ("to", "→"),
    ];
    let text: String = text.nfc().collect();
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(start) = rest.find('\\') {
        plain.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        let name = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let is_command =
            matches!(&rest[..name], "text" | "textbf" | "textit" | "mbox" | "mathrm" | "mathbf" | "boxed");
        let sign = SIGNS.iter().find(|(command, _)| *command == &rest[..name]);
        plain.push_str(sign.map_or("", |(_, sign)| sign));
        rest = if is_command || sign.is_some() { &rest[name..] } else { rest };
    }
    plain.push_str(rest);
    let plain =
        plain.replace(['’', '‘'], "'").replace(['−', '–', '—', '‐', '‑'], "-").replace(['“', '”'], "\"");
    plain.replace("->", "→").replace("<=", "≤").replace(">=", "≥").replace("!=", "≠")
}

/// The number at `start`, and where it ends. `None` if it is too long.
fn number(chars: &[char], start: usize) -> (Option<BigRational>, usize) {
    let digit = |index: usize| chars.get(index).copied().and_then(ascii_digit);
    let mut digits = String::new();
    let mut end = start;
    loop {
        match digit(end) {
            Some(d) => digits.push(d),
            // A comma between a digit and three more separates thousands.
            None if chars.get(end) == Some(&',')
                && end > start
                && (1..=3).all(|i| digit(end + i).is_some())
                && digit(end + 4).is_none() => {}
            None => break,
        }
        end += 1;
    }
    let mut places = 0;
    if chars.get(end) == Some(&'.') && digit(end + 1).is_some() {
        end += 1;
        while let Some(d) = digit(end) {
            digits.push(d);
            places += 1;
            end += 1;
        }
    }
    let value = (digits.len() <= 100).then(|| digits.parse::<BigInt>().ok()).flatten();
    let mut value = value.map(|value| BigRational::new(value, BigInt::from(10).pow(places)));
    if let Some((length, power)) = exponent(|ahead| chars.get(end + ahead).copied()) {
        end += length;
        let shift = BigRational::from_integer(BigInt::from(10).pow(power.unsigned_abs()));
        value = value.map(|value| if power < 0 { value / shift } else { value * shift });
    }
    (value, end)
}

/// `-5`, `-$5`, and accountants' `(5)`, `$ (5)`; `- 5` is an item of a list.
fn is_negative(chars: &[char], start: usize, end: usize) -> bool {
    let sign_end = match chars[..start].iter().rposition(|c| *c != ' ') {
        Some(currency) if matches!(chars[currency], '$' | '€' | '£' | '¥') => currency,
        _ => start,
    };
    let before = |count: usize| sign_end.checked_sub(count).map(|index| chars[index]);
    match before(1) {
        Some('-') => before(2).is_none_or(|c| !c.is_alphanumeric()),
        Some('(') => chars.get(end) == Some(&')'),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_punctuation_articles_and_spacing_do_not_count() {
        let alike = [
            ("The fixed-price type", "fixed price  type."),
            ("$1,305", "1305"),
            ("(114)", "-114"),
            ("$ (3.5)", "-$3.50"),
            ("- 5 apples", "5 Apples"),
            ("75%", "75 percent"),
            ("6.05e7 years", "60,500,000 years"),
            ("1E-3", "0.001"),
            (r"\text{Paris}", "paris"),
            ("the Group’s", "group's"),
            ("11:45 am", "11:45 a.m."),
            ("the U.S.A.", "USA"),
            ("J. K. Rowling", "J.K. Rowling"),
            ("J.K. Rowling", "JK Rowling"),
            ("a Ph.D. in Physics", "PhD in physics"),
            ("Dr. K. Lee", "Dr K Lee"),
            ("Caf\u{e9} de l'\u{c9}t\u{e9}", "cafe\u{301} de l'e\u{301}te\u{301}"),
            ("Once Upon a Time", "once upon a time"),
            ("Once Upon A Time", "once upon time"),
            ("Johnson & Johnson", "Johnson and Johnson"),
            ("vitamin A deficiency", "Vitamin a deficiency"),
            ("It is: a dog.", "It is: dog"),
            (r"$x \le 5$", "x <= 5"),
            ("+5%", "5 percent"),
            ("+ apples\n+ pears", "- apples\n- pears"),
            ("well - known", "well-known"),
        ];
        for (a, b) in alike {
            assert!(same(&pieces(a), &pieces(b)) && same(&pieces(b), &pieces(a)), "{a} {b}");
        }
        let other = [
            ("5", "-5"),
            ("1,305", "1,306"),
            ("fixed price", "price fixed"),
            ("75%", "75"),
            ("not it", "it"),
            ("Plan A", "Plan"),
            ("Plan A", "Plan B"),
            ("Plan A, then B", "Plan, then B"),
            ("hepatitis A and B", "hepatitis and B"),
            ("vitamin A deficiency", "vitamin deficiency"),
            ("C++", "C"),
            ("C++", "C#"),
            ("C#", "C"),
            ("A+", "A"),
            ("A+", "A-"),
            ("O-", "O"),
            ("x < 5", "x > 5"),
            ("x < 5", "x <= 5"),
            ("x = 5", r"$x \ne 5$"),
            ("a -> b", "a <- b"),
            ("2 + 3", "2 3"),
            ("5+ years", "5 years"),
            ("x^2", "x 2"),
            ("1 ± 2", "1 2"),
            ("am", "a man"),
            ("caf\u{e9}", "cafe"),
        ];
        for (a, b) in other {
            assert!(!same(&pieces(a), &pieces(b)) && !same(&pieces(b), &pieces(a)), "{a} {b}");
        }
    }
}
