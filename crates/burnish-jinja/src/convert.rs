//! Python's `int(...)` and `float(...)`.

use num_bigint::BigInt;

use crate::chars::is_space;
use crate::error::{Result, type_error, value_error};
use crate::ops::{Number, shown};
use crate::printf::{float_to_int, undefined};
use crate::strings::ascii_digits;
use crate::value::Value;

/// `float(value)`.
pub(crate) fn to_float(value: &Value) -> Result<f64> {
    if let Some(text) = value.as_str() {
        let fail = || value_error(format!("could not convert string to float: {}", shown(value)));
        let text = ascii_digits(text.trim_matches(is_space));
        let Some(bare) = without_underscores(&text) else { return fail() };
        let unsigned = bare.strip_prefix(['+', '-']).unwrap_or(&bare).to_ascii_lowercase();
        let is_name = ["inf", "infinity", "nan"].contains(&unsigned.as_str());
        let is_number = unsigned.chars().all(|c| c.is_ascii_digit() || ".e+-".contains(c))
            && unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        return match bare.parse::<f64>() {
            Ok(number) if is_name || is_number => Ok(number),
            _ => fail(),
        };
    }
    match Number::of(value) {
        Some(number) => number.to_f64(),
        None if value.is_undefined() => Err(undefined(value)),
        None => type_error(format!(
            "float() argument must be a string or a real number, not '{}'",
            value.type_name()
        )),
    }
}

/// `int(value)`, or of a text `int(value, base)`.
pub(crate) fn to_int(value: &Value, base: i64) -> Result<BigInt> {
    if let Some(text) = value.as_str() {
        return parse_int(text, base);
    }
    match Number::of(value) {
        Some(Number::Int(number)) => Ok(number),
        Some(Number::Float(number)) => float_to_int(number),
        None if value.is_undefined() => Err(undefined(value)),
        None => type_error(format!(
            "int() argument must be a string, a bytes-like object or a real number, not '{}'",
            value.type_name()
        )),
    }
}

fn parse_int(given: &str, base: i64) -> Result<BigInt> {
    if base != 0 && !(2..=36).contains(&base) {
        return value_error("int() base must be >= 2 and <= 36, or 0");
    }
    let fail =
        || value_error(format!("invalid literal for int() with base {base}: {}", crate::text::quoted(given)));
    let text = ascii_digits(given.trim_matches(is_space));
    let (sign, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (if text.starts_with('-') { -1 } else { 1 }, digits),
        None => (1, text.as_str()),
    };
    let prefixes = [("0x", 16), ("0o", 8), ("0b", 2)];
    let prefixed = prefixes.iter().find(|(prefix, radix)| {
        (base == 0 || base == *radix) && digits.get(..2).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
    });
    let (digits, radix) = match prefixed {
        // One underscore may come between the prefix and the digits.
        Some((_, radix)) => (digits[2..].strip_prefix('_').unwrap_or(&digits[2..]), *radix),
        None if base == 0 => (digits, 10),
        None => (digits, base),
    };
    let Some(bare) = without_underscores(digits) else { return fail() };
    let is_octal_of_old =
        base == 0 && prefixed.is_none() && bare.starts_with('0') && !bare.trim_matches('0').is_empty();
    if bare.is_empty() || is_octal_of_old || !bare.chars().all(|c| c.is_digit(radix as u32)) {
        return fail();
    }
    if radix == 10 && bare.len() > 4300 {
        return value_error("Exceeds the limit (4300 digits) for integer string conversion");
    }
    match BigInt::parse_bytes(bare.as_bytes(), radix as u32) {
        Some(number) => Ok(number * sign),
        None => fail(),
    }
}

/// The text without underscores, each of which must be between two digits or letters.
fn without_underscores(text: &str) -> Option<String> {
    if !text.contains('_') {
        return Some(text.to_owned());
    }
    let bytes = text.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    let is_right = (0..bytes.len())
        .filter(|at| bytes[*at] == b'_')
        .all(|at| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1)));
    is_right.then(|| text.replace('_', ""))
}
