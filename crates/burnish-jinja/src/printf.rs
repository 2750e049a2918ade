//! `format % values`, as Python formats texts.

use std::iter::Peekable;
use std::str::Chars;

use num_bigint::BigInt;
use num_traits::{Signed, ToPrimitive};

use crate::error::{Error, Kind, Result, type_error, value_error};
use crate::numbers::{MAX_PRECISION, digits, magnitude};
use crate::ops::{MAX_SIZE, Number};
use crate::text::push_escape;
use crate::value::{Other, Value};
use crate::{html, ops};

/// One directive, without its code.
#[derive(Default)]
struct Directive {
    is_left: bool,
    has_plus: bool,
    has_space: bool,
    is_alternate: bool,
    is_zero_padded: bool,
    width: usize,
    precision: Option<usize>,
}

/// The values that a format consumes one after the other.
struct Values<'a> {
    given: &'a Value,
    items: Vec<Value>,
    next: usize,
    /// Were values taken by name? If so, some may be left over.
    are_named: bool,
    is_markup: bool,
}

impl Values<'_> {
    fn next(&mut self) -> Result<Value> {
        let value = self.items.get(self.next).cloned();
        self.next += 1;
        value.map_or_else(|| type_error("not enough arguments for format string"), Ok)
    }

    fn number(&mut self) -> Result<i64> {
        match self.next()? {
            value @ (Value::Int(_) | Value::Bool(_)) => Ok(value.as_place().unwrap_or(0)),
            _ => type_error("* wants int"),
        }
    }
}

/// # Errors
/// As in Python: too few values, too many, or a value that a code does not accept.
pub(crate) fn format(format: &str, given: &Value, is_markup: bool) -> Result<String> {
    let items = given.as_tuple().map_or_else(|| vec![given.clone()], |items| items.to_vec());
    let mut values = Values { given, items, next: 0, are_named: false, is_markup };
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut named = None;
        if chars.next_if_eq(&'(').is_some() {
            let mut depth = 1;
            let mut key = String::new();
            loop {
                let Some(c) = chars.next() else { return value_error("incomplete format key") };
                depth += i32::from(c == '(') - i32::from(c == ')');
                if depth == 0 {
                    break;
                }
                key.push(c);
            }
            named = Some(by_name(&mut values, &key)?);
        }
        let mut directive = Directive::default();
        while let Some(flag) = chars.next_if(|c| "-+ #0".contains(*c)) {
            match flag {
                '-' => directive.is_left = true,
                '+' => directive.has_plus = true,
                ' ' => directive.has_space = true,
                '#' => directive.is_alternate = true,
                _ => directive.is_zero_padded = true,
            }
        }
        let width = number(&mut chars, &mut values, "width")?.unwrap_or(0);
        directive.is_left |= width < 0;
        directive.width = bounded(width.unsigned_abs())?;
        if chars.next_if_eq(&'.').is_some() {
            let precision = number(&mut chars, &mut values, "precision")?.unwrap_or(0);
            directive.precision = Some(bounded(precision.max(0) as u64)?);
        }
        while chars.next_if(|c| "hlL".contains(*c)).is_some() {}
        let Some(code) = chars.next() else { return value_error("incomplete format") };
        let value = named.map_or_else(|| values.next(), Ok)?;
        out += &directive.write(code, &value, values.is_markup)?;
        if out.len() > MAX_SIZE {
            return Err(Error::other("a text that is too long"));
        }
    }
    let takes_rest =
        values.are_named || matches!(given, Value::Dict(_) | Value::List(_)) || is_mapping(given);
    if values.next < values.items.len() && !(takes_rest && given.as_tuple().is_none()) {
        return type_error("not all arguments converted during string formatting");
    }
    Ok(out)
}

/// A width or a precision: digits, or `*` for the next value; `None` if there is neither.
fn number(chars: &mut Peekable<Chars<'_>>, values: &mut Values<'_>, what: &str) -> Result<Option<i64>> {
    if chars.next_if_eq(&'*').is_some() {
        return values.number().map(Some);
    }
    let mut text = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        text.push(digit);
    }
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).or_else(|_| value_error(format!("{what} too big")))
}

/// Whether Python treats the value as a mapping here: anything with items by key, except tuples and texts.
fn is_mapping(value: &Value) -> bool {
    matches!(value, Value::Undefined(_) | Value::Other(Other::Range(_)))
}

fn bounded(value: u64) -> Result<usize> {
    usize::try_from(value)
        .ok()
        .filter(|value| *value <= MAX_SIZE)
        .ok_or_else(|| Error::other("a width or precision that is too big"))
}

fn by_name(values: &mut Values<'_>, key: &str) -> Result<Value> {
    let Value::Dict(dict) = values.given else { return type_error("format requires a mapping") };
    values.are_named = true;
    dict.get_str(key).cloned().ok_or_else(|| Error::other(format!("KeyError: '{key}'")))
}

impl Directive {
    fn write(&self, code: char, value: &Value, is_markup: bool) -> Result<String> {
        match code {
            's' | 'r' | 'a' => {
                let text = match code {
                    's' if is_markup => html::escaped(value)?,
                    's' => value.str()?,
                    'r' if is_markup => html::escape(&value.repr()?),
                    'r' => value.repr()?,
                    _ => ascii(&value.repr()?),
                };
                let text = match self.precision {
                    Some(precision) => text.chars().take(precision).collect(),
                    None => text,
                };
                Ok(self.padded("", &text, false))
            }
            'c' => {
                let text = match value {
                    value if value.as_str().is_some_and(|text| text.chars().count() == 1) => value.str()?,
                    Value::Int(_) | Value::Bool(_) => {
                        match value.as_place().and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32) {
                            Some(c) => c.to_string(),
                            None => return Err(Error::new(Kind::Overflow, "%c arg not in range(0x110000)")),
                        }
                    }
                    _ => return type_error("%c requires int or char"),
                };
                Ok(self.padded("", &text, false))
            }
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => self.integer(code, value),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                let number = match Number::of(value) {
                    Some(number) => number.to_f64()?,
                    None if value.is_undefined() => return Err(undefined(value)),
                    None => return type_error(format!("must be real number, not {}", value.type_name())),
                };
                let precision = self.precision.unwrap_or(6).min(MAX_PRECISION);
                let text = magnitude(number, code, precision, self.is_alternate);
                let is_negative = number.is_sign_negative() && !number.is_nan();
                Ok(self.padded(self.sign(is_negative), &text, true))
            }
            code => value_error(format!("unsupported format character '{code}' (0x{:x})", u32::from(code))),
        }
    }

    fn integer(&self, code: char, value: &Value) -> Result<String> {
        let number = match (value, value.as_int()) {
            (_, Some(number)) => number,
            (Value::Float(number), _) if !['x', 'X', 'o'].contains(&code) => float_to_int(*number)?,
            (Value::Undefined(_), _) if !['x', 'X', 'o'].contains(&code) => return Err(undefined(value)),
            _ => {
                let wanted = if ['x', 'X', 'o'].contains(&code) { "an integer" } else { "a real number" };
                return type_error(format!(
                    "%{code} format: {wanted} is required, not {}",
                    value.type_name()
                ));
            }
        };
        let mut text = digits(&number, code);
        if let Some(precision) = self.precision
            && text.len() < precision
        {
            text = "0".repeat(precision - text.len()) + &text;
        }
        let prefix = match code {
            'x' | 'X' | 'o' if self.is_alternate => format!("0{code}"),
            _ => String::new(),
        };
        Ok(self.padded(&format!("{}{prefix}", self.sign(number.is_negative())), &text, true))
    }

    fn sign(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.has_plus, self.has_space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (.., true) => " ",
            _ => "",
        }
    }

    fn padded(&self, sign: &str, text: &str, is_number: bool) -> String {
        let missing = self.width.saturating_sub(sign.chars().count() + text.chars().count());
        if self.is_left {
            format!("{sign}{text}{}", " ".repeat(missing))
        } else if self.is_zero_padded && is_number {
            format!("{sign}{}{text}", "0".repeat(missing))
        } else {
            format!("{}{sign}{text}", " ".repeat(missing))
        }
    }
}

pub(crate) fn undefined(value: &Value) -> Error {
    match value {
        Value::Undefined(problem) => Error::other(&**problem),
        value => Error::other(ops::shown(value)),
    }
}

/// `int(value)` of a float.
pub(crate) fn float_to_int(value: f64) -> Result<BigInt> {
    if value.is_nan() {
        return value_error("cannot convert float NaN to integer");
    }
    num_traits::FromPrimitive::from_f64(value.trunc())
        .ok_or_else(|| Error::new(Kind::Overflow, "cannot convert float infinity to integer"))
}

/// Python's `ascii`: characters outside ASCII are escaped.
pub(crate) fn ascii(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii() { out.push(c) } else { push_escape(c, &mut out) }
    }
    out
}

/// The integer, if it fits into 64 bits.
pub(crate) fn small(value: &BigInt) -> Option<i64> {
    value.to_i64()
}
