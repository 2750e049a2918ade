//! Python's `format(value, spec)`.

use num_bigint::BigInt;
use num_traits::Signed;

use crate::error::{Error, Kind, Result, type_error, value_error};
use crate::numbers::{MAX_PRECISION, digits, magnitude};
use crate::ops::{MAX_SIZE, int_to_f64};
use crate::text::float;
use crate::value::Value;

/// `[[fill]align][sign][z][#][0][width][grouping][.precision][type]`.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    no_negative_zero: bool,
    is_alternate: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    code: Option<char>,
}

impl Spec {
    fn read(text: &str, of: &Value) -> Result<Self> {
        let mut spec = Spec::default();
        let mut chars = text.chars().peekable();
        let mut ahead = text.chars();
        let (first, second) = (ahead.next(), ahead.next());
        let is_align = |c: Option<char>| c.is_some_and(|c| "<>=^".contains(c));
        if is_align(second) {
            spec.fill = first;
            spec.align = second;
            chars.nth(1);
        } else if is_align(first) {
            spec.align = first;
            chars.next();
        }
        spec.sign = chars.next_if(|c| "+- ".contains(*c));
        spec.no_negative_zero = chars.next_if_eq(&'z').is_some();
        spec.is_alternate = chars.next_if_eq(&'#').is_some();
        if spec.fill.is_none() && chars.next_if_eq(&'0').is_some() {
            spec.fill = Some('0');
            if spec.align.is_none() && of.as_str().is_none() {
                spec.align = Some('=');
            }
        }
        let mut number = || {
            let mut text = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                text.push(digit);
            }
            if text.is_empty() {
                return Ok(None);
            }
            let number = text.parse::<usize>().ok().filter(|number| *number <= MAX_SIZE);
            number
                .map(Some)
                .ok_or_else(|| Error::new(Kind::Value, "Too many decimal digits in format string"))
        };
        spec.width = number()?.unwrap_or(0);
        spec.grouping = chars.next_if(|c| ",_".contains(*c));
        if spec.grouping.is_some() && chars.next_if(|c| ",_".contains(*c)).is_some() {
            return value_error("Cannot specify both ',' and '_'.");
        }
        if chars.next_if_eq(&'.').is_some() {
            let mut text = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                text.push(digit);
            }
            match text.parse::<usize>() {
                Ok(precision) if precision <= MAX_SIZE => spec.precision = Some(precision),
                Ok(_) => return value_error("precision too big"),
                Err(_) => return value_error("Format specifier missing precision"),
            }
        }
        spec.code = chars.next();
        if chars.next().is_some() {
            return value_error(format!(
                "Invalid format specifier '{text}' for object of type '{}'",
                of.type_name()
            ));
        }
        Ok(spec)
    }

    fn unknown<T>(&self, value: &Value) -> Result<T> {
        let code = self.code.unwrap_or(' ');
        value_error(format!("Unknown format code '{code}' for object of type '{}'", value.type_name()))
    }

    fn sign_of(&self, is_negative: bool) -> &'static str {
        match (is_negative, self.sign) {
            (true, _) => "-",
            (_, Some('+')) => "+",
            (_, Some(' ')) => " ",
            _ => "",
        }
    }

    fn padded(&self, sign: &str, text: &str, default: char) -> String {
        let missing = self.width.saturating_sub(sign.chars().count() + text.chars().count());
        let fill = self.fill.unwrap_or(' ');
        let fills = |count: usize| String::from(fill).repeat(count);
        match self.align.unwrap_or(default) {
            '<' => format!("{sign}{text}{}", fills(missing)),
            '^' => format!("{}{sign}{text}{}", fills(missing / 2), fills(missing - missing / 2)),
            '=' => format!("{sign}{}{text}", fills(missing)),
            _ => format!("{}{sign}{text}", fills(missing)),
        }
    }

    /// A number with its separators; zeros that fill it up are separated too.
    fn number(&self, sign: &str, whole: &str, rest: &str, group: usize) -> String {
        let Some(separator) = self.grouping else {
            return self.padded(sign, &format!("{whole}{rest}"), '>');
        };
        let mut digits = whole.to_owned();
        if self.fill == Some('0') && self.align == Some('=') {
            let room = self.width.saturating_sub(sign.chars().count() + rest.chars().count());
            let grouped = |count: usize| count + count.saturating_sub(1) / group;
            while grouped(digits.len()) < room {
                digits.insert(0, '0');
            }
        }
        let mut out = String::new();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(group) {
                out.push(separator);
            }
            out.push(digit);
        }
        self.padded(sign, &(out + rest), '>')
    }
}

/// # Errors
/// As in Python, if the value's type does not support the specification.
pub(crate) fn format(value: &Value, text: &str) -> Result<String> {
    if text.is_empty() {
        return value.str();
    }
    match value {
        Value::Str(whole) | Value::Markup(whole) => format_text(value, whole, text),
        Value::Float(number) => format_float(value, *number, text),
        Value::Bool(_) | Value::Int(_) | Value::Big(_) => {
            let number = value.as_int().unwrap_or_default();
            format_int(value, &number, text)
        }
        _ => type_error(format!("unsupported format string passed to {}.__format__", value.type_name())),
    }
}

fn format_text(value: &Value, whole: &str, text: &str) -> Result<String> {
    let spec = Spec::read(text, value)?;
    if spec.code.is_some_and(|code| code != 's') {
        return spec.unknown(value);
    }
    if spec.sign.is_some() || spec.no_negative_zero {
        return value_error("Sign not allowed in string format specifier");
    }
    if spec.is_alternate {
        return value_error("Alternate form (#) not allowed in string format specifier");
    }
    if spec.align == Some('=') {
        return value_error("'=' alignment not allowed in string format specifier");
    }
    if let Some(grouping) = spec.grouping {
        return value_error(format!("Cannot specify '{grouping}' with 's'."));
    }
    let cut: String = match spec.precision {
        Some(precision) => whole.chars().take(precision).collect(),
        None => whole.into(),
    };
    Ok(spec.padded("", &cut, '<'))
}

fn format_int(value: &Value, number: &BigInt, text: &str) -> Result<String> {
    let spec = Spec::read(text, value)?;
    let code = spec.code.unwrap_or('d');
    if "eEfFgG%".contains(code) {
        return format_float(value, int_to_f64(number)?, text);
    }
    if !"bcdoxXn".contains(code) {
        return spec.unknown(value);
    }
    if spec.precision.is_some() {
        return value_error("Precision not allowed in integer format specifier");
    }
    if spec.no_negative_zero {
        return value_error("Negative zero coercion (z) not allowed in format specifier with integer");
    }
    if let Some(grouping) = spec.grouping
        && (code == 'c' || code == 'n' || (grouping == ',' && "boxX".contains(code)))
    {
        return value_error(format!("Cannot specify '{grouping}' with '{code}'."));
    }
    if code == 'c' {
        if spec.sign.is_some() {
            return value_error("Sign not allowed with integer format specifier 'c'");
        }
        if spec.is_alternate {
            return value_error("Alternate form (#) not allowed with integer format specifier 'c'");
        }
        let c = crate::printf::small(number)
            .and_then(|number| u32::try_from(number).ok())
            .and_then(char::from_u32);
        let Some(c) = c else { return Err(Error::new(Kind::Overflow, "%c arg not in range(0x110000)")) };
        return Ok(spec.padded("", &c.to_string(), '>'));
    }
    let prefix = if spec.is_alternate && "boxX".contains(code) { format!("0{code}") } else { String::new() };
    let sign = format!("{}{prefix}", spec.sign_of(number.is_negative()));
    let group = if "boxX".contains(code) { 4 } else { 3 };
    Ok(spec.number(&sign, &digits(number, code), "", group))
}

fn format_float(value: &Value, number: f64, text: &str) -> Result<String> {
    let spec = Spec::read(text, value)?;
    let number = if spec.code == Some('%') { number * 100.0 } else { number };
    let precision = spec.precision.map(|precision| precision.min(MAX_PRECISION));
    let mut body = match (spec.code, precision) {
        (Some('n'), _) if spec.grouping.is_some() => {
            return value_error(format!("Cannot specify '{}' with 'n'.", spec.grouping.unwrap_or(',')));
        }
        (Some('%'), precision) => magnitude(number, 'f', precision.unwrap_or(6), spec.is_alternate),
        (Some('n'), precision) => magnitude(number, 'g', precision.unwrap_or(6), spec.is_alternate),
        (Some(code @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G')), precision) => {
            magnitude(number, code, precision.unwrap_or(6), spec.is_alternate)
        }
        (None, None) => float(number.abs()),
        // As `g`, but with a digit after the point, and exponents begin one digit earlier.
        (None, Some(precision)) => {
            let text = magnitude(number, 'g', precision, spec.is_alternate);
            let digits = text.chars().take_while(char::is_ascii_digit).count();
            if text.contains(['e', '.', 'n']) {
                text
            } else if digits >= precision.max(1) {
                magnitude(number, 'e', precision.max(1) - 1, spec.is_alternate)
                    .split_once('e')
                    .map(|(mantissa, exponent)| {
                        let mantissa = match mantissa.contains('.') {
                            true => mantissa.trim_end_matches('0').trim_end_matches('.'),
                            false => mantissa,
                        };
                        format!("{mantissa}e{exponent}")
                    })
                    .unwrap_or(text)
            } else {
                text + ".0"
            }
        }
        _ => return spec.unknown(value),
    };
    if spec.code == Some('%') {
        body.push('%');
    }
    let is_zero = !body.chars().any(|c| ('1'..='9').contains(&c)) && number.is_finite();
    let is_negative = number.is_sign_negative() && !number.is_nan() && !(spec.no_negative_zero && is_zero);
    let at = body.find(|c: char| !c.is_ascii_digit()).unwrap_or(body.len());
    let (whole, rest) = body.split_at(at);
    if whole.is_empty() {
        return Ok(spec.padded(spec.sign_of(is_negative), rest, '>'));
    }
    Ok(spec.number(spec.sign_of(is_negative), whole, rest, 3))
}
