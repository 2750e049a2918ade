//! Numbers as they are written: groups of thousands, decimals, repeating decimals, the digits of other scripts.

use num_bigint::BigInt;
use num_rational::BigRational;

use crate::lex::{Lexer, Token};

/// The most digits of one number.
const DIGITS: usize = 400;
/// The largest exponent of E-notation.
const EXPONENT: i32 = 400;

impl Lexer {
    /// How many characters a thousands separator takes at `ahead`, if three digits and no fourth follow.
    fn thousands(&self, ahead: usize) -> Option<usize> {
        let rest: String = self.chars[self.at + ahead..].iter().take(10).collect();
        let (separator, is_certain) = if rest.starts_with("{,}") {
            (3, true)
        } else if rest.starts_with("{,\\!}") {
            (5, true)
        } else if let Some(after) = rest.strip_prefix(",\\!") {
            (3 + usize::from(after.starts_with(' ')), true)
        } else if rest.starts_with("\\,") || rest.starts_with("\\!") || rest.starts_with("\\ ") {
            (2, true)
        } else if rest.starts_with(',') {
            (1, false)
        } else if rest.starts_with([' ', '\u{a0}', '\u{202f}', '\u{2009}', '’']) {
            (1, true)
        } else {
            return None;
        };
        if !is_certain && (!self.grouped || self.depth > 0 || !self.is_comma_run()) {
            return None;
        }
        let start = ahead + separator;
        let is_group = (0..3).all(|i| self.digit(start + i).is_some()) && self.digit(start + 3).is_none();
        is_group.then_some(separator)
    }

    /// Whether the commas around here all separate thousands: `1,234,567` is one number, `63,99,135` a list.
    fn is_comma_run(&self) -> bool {
        let is_part = |c: &char| *c == ',' || ascii_digit(*c).is_some();
        let before = self.chars[..self.at].iter().rev().take_while(|c| is_part(c)).count();
        let after = self.chars[self.at..].iter().take_while(|c| is_part(c)).count();
        let run = &self.chars[self.at - before..self.at + after];
        let mut groups = run.split(|c| *c == ',').map(<[char]>::len);
        let first = groups.next().unwrap_or(0);
        // The sentence's own comma may follow.
        let mut groups: Vec<usize> = groups.collect();
        if groups.last() == Some(&0) {
            groups.pop();
        }
        (1..=3).contains(&first) && groups.iter().all(|length| *length == 3)
    }

    /// Reads the number that starts here.
    pub(crate) fn number(&mut self) -> Option<()> {
        let mut digits = String::new();
        while let Some(d) = self.digit(0) {
            digits.push(d);
            self.at += 1;
        }
        if (1..=3).contains(&digits.len()) && !digits.starts_with('0') {
            while let Some(separator) = self.thousands(0) {
                self.at += separator;
                for _ in 0..3 {
                    digits.push(self.digit(0)?);
                    self.at += 1;
                }
            }
        }
        let mut decimals = None;
        if self.peek(0) == Some('.') && (self.digit(1).is_some() || self.repeating(1).is_some()) {
            self.at += 1;
            let mut count = 0;
            while let Some(d) = self.digit(0) {
                digits.push(d);
                self.at += 1;
                count += 1;
            }
            decimals = Some(count);
        }
        if digits.len() > DIGITS {
            return None;
        }
        let places = decimals.unwrap_or(0);
        let unscaled: BigInt = if digits.is_empty() { BigInt::from(0) } else { digits.parse().ok()? };
        let mut value = BigRational::new(unscaled, BigInt::from(10).pow(places));
        if decimals.is_some()
            && let Some((block, length)) = self.repeating(0)
        {
            self.at += length;
            let block_digits = u32::try_from(block.len()).ok()?;
            let period = BigInt::from(10).pow(block_digits) - 1;
            value += BigRational::new(block.parse().ok()?, period * BigInt::from(10).pow(places));
            decimals = None;
        }
        if let Some((length, power)) = exponent(|ahead| self.peek(ahead)) {
            self.at += length;
            let shift = BigRational::from_integer(BigInt::from(10).pow(power.unsigned_abs()));
            value = if power < 0 { value / shift } else { value * shift };
            decimals = decimals.and_then(|places| u32::try_from(i64::from(places) - i64::from(power)).ok());
            digits = value.to_string();
        }
        self.push(Token::Number { value, decimals, digits });
        Some(())
    }

    /// `\overline{45}` at `ahead`: its digits and its length.
    fn repeating(&self, ahead: usize) -> Option<(String, usize)> {
        let rest: String = self.chars.get(self.at + ahead..)?.iter().take(60).collect();
        let inner = rest.strip_prefix("\\overline{")?;
        let end = inner.find('}')?;
        let block = &inner[..end];
        let is_block = !block.is_empty() && block.chars().all(|c| c.is_ascii_digit());
        is_block.then(|| (block.to_owned(), "\\overline{".len() + end + 1))
    }
}

/// The length of an exponent (`e7`, `E-3`, `e+05`) and its value, if one starts here. It is one only right after digits
/// and if no letter or digit follows, so that `2e` and `2ex` stay algebra.
pub(crate) fn exponent(char_at: impl Fn(usize) -> Option<char>) -> Option<(usize, i32)> {
    if !matches!(char_at(0), Some('e' | 'E')) {
        return None;
    }
    let is_signed = matches!(char_at(1), Some('+' | '-' | '−'));
    let start = 1 + usize::from(is_signed);
    let mut end = start;
    while char_at(end).is_some_and(|c| c.is_ascii_digit()) && end < start + 5 {
        end += 1;
    }
    let follows = char_at(end).is_some_and(|c| c.is_alphanumeric() || matches!(c, '^' | '_' | '(' | '\\'));
    let digits: String = (start..end).filter_map(&char_at).collect();
    let power: i32 = digits.parse().ok().filter(|power| *power <= EXPONENT)?;
    let is_negative = matches!(char_at(1), Some('-' | '−'));
    (!follows).then_some((end, if is_negative { -power } else { power }))
}

/// Digits of the scripts that MGSM's languages use.
pub(crate) fn ascii_digit(c: char) -> Option<char> {
    const ZEROS: [char; 7] = ['0', '০', '౦', '๐', '०', '٠', '０'];
    ZEROS.iter().find_map(|zero| {
        let value = (c as u32).checked_sub(*zero as u32)?;
        char::from_digit(value, 10)
    })
}

#[cfg(test)]
mod tests {
    use crate::lex::{Token, lex};

    /// The value of a text that is one number.
    fn value(text: &str) -> Option<String> {
        match &lex(text, true)?[..] {
            [Token::Number { value, .. }] => Some(value.to_string()),
            _ => None,
        }
    }

    #[test]
    fn numbers_are_read_however_their_digits_are_grouped() {
        for text in [
            "1234567",
            "1,234,567",
            r"1{,}234{,}567",
            r"1,\!234,\! 567",
            "1 234 567",
            r"1\,234\,567",
            "1234567.00",
        ] {
            assert_eq!(value(text).as_deref(), Some("1234567"), "{text}");
        }
        let cases = [
            ("0.35", "7/20"),
            (".35", "7/20"),
            (r"0.\overline{45}", "5/11"),
            (r"1.2\overline{3}", "37/30"),
            ("৪২", "42"),
            ("４２", "42"),
            ("007", "7"),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["1,23", "1,2345", "12,34,567", "0,123", "1, 234", "63,99,135", "1.2.3"] {
            assert_eq!(value(text), None, "{text}");
        }
        assert_eq!(lex(&"7".repeat(401), true), None);
    }
}
