//! Numbers as texts, for the codes that `%` and `format` share.

use num_bigint::BigInt;
use num_traits::{Signed, Zero};

/// Most digits after the point: no float has further digits other than 0.
pub(crate) const MAX_PRECISION: usize = 10_000;

/// A float without its sign, formatted by `e`, `f` or `g` (or `E`, `F`, `G`). With `is_alternate` the point is kept,
/// and so are the zeros of `g`.
pub(crate) fn magnitude(value: f64, code: char, precision: usize, is_alternate: bool) -> String {
    let value = value.abs();
    let text = if value.is_nan() {
        "nan".into()
    } else if value.is_infinite() {
        "inf".into()
    } else {
        match code.to_ascii_lowercase() {
            'e' => exponential(value, precision, is_alternate),
            'f' => fixed(value, precision, is_alternate),
            _ => general(value, precision, is_alternate),
        }
    };
    if code.is_ascii_uppercase() { text.to_uppercase() } else { text }
}

fn fixed(value: f64, precision: usize, is_alternate: bool) -> String {
    let point = if is_alternate && precision == 0 { "." } else { "" };
    format!("{value:.precision$}{point}")
}

fn exponential(value: f64, precision: usize, is_alternate: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let point = if is_alternate && precision == 0 { "." } else { "" };
    format!("{mantissa}{point}{}", exponent_text(exponent))
}

fn exponent_text(exponent: &str) -> String {
    let digits = exponent.trim_start_matches('-');
    format!("e{}{digits:0>2}", if exponent.starts_with('-') { '-' } else { '+' })
}

fn general(value: f64, precision: usize, is_alternate: bool) -> String {
    let precision = precision.max(1);
    let rounded = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let place: i64 = exponent.parse().unwrap_or(0);
    if place < -4 || place >= precision as i64 {
        let mantissa = if is_alternate { with_point(mantissa) } else { without_zeros(mantissa) };
        return mantissa + &exponent_text(exponent);
    }
    let text = format!("{value:.*}", (precision as i64 - 1 - place).max(0) as usize);
    if is_alternate { with_point(&text) } else { without_zeros(&text) }
}

fn with_point(text: &str) -> String {
    if text.contains('.') { text.into() } else { format!("{text}.") }
}

fn without_zeros(text: &str) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text.into() }
}

/// The digits of an integer without its sign, formatted by `d`, `x`, `X`, `o` or `b`.
pub(crate) fn digits(value: &BigInt, code: char) -> String {
    let value = value.magnitude();
    match code {
        'x' => value.to_str_radix(16),
        'X' => value.to_str_radix(16).to_uppercase(),
        'o' => value.to_str_radix(8),
        'b' => value.to_str_radix(2),
        _ => value.to_string(),
    }
}

/// Rounds a float to this many decimal places, as Python's `round` does (to even, by its exact value).
pub(crate) fn round_to(value: f64, places: i64) -> f64 {
    if !value.is_finite() || places > 400 {
        return value;
    }
    if let Ok(places) = usize::try_from(places) {
        return format!("{value:.places$}").parse().unwrap_or(value);
    }
    if places < -400 {
        return 0f64.copysign(value);
    }
    let whole: BigInt = num_traits::FromPrimitive::from_f64(value.trunc()).unwrap_or_default();
    // A fraction matters only next to an exact half: it then breaks the tie.
    let doubled = (whole.abs() << 1) + i32::from(value.fract() != 0.0);
    let unit = BigInt::from(10).pow(places.unsigned_abs() as u32);
    let rounded = half_even(&doubled, &(unit.clone() << 1)) * unit;
    let magnitude: f64 = rounded.to_string().parse().unwrap_or(f64::INFINITY);
    magnitude.copysign(value)
}

/// The nearest integer to `value / unit`, ties to even. `value` is not negative.
fn half_even(value: &BigInt, unit: &BigInt) -> BigInt {
    let (quotient, rest) = num_integer::Integer::div_rem(value, unit);
    let twice: BigInt = rest << 1;
    let is_odd = num_integer::Integer::is_odd(&quotient);
    if twice > *unit || (twice == *unit && is_odd) { quotient + 1 } else { quotient }
}

/// Rounds an integer to a multiple of a power of ten.
pub(crate) fn round_int(value: &BigInt, places: i64) -> BigInt {
    if places >= 0 || value.is_zero() {
        return value.clone();
    }
    let Ok(power) = u32::try_from(places.unsigned_abs()) else { return BigInt::zero() };
    if u64::from(power) > value.bits() {
        return BigInt::zero();
    }
    let unit = BigInt::from(10).pow(power);
    half_even(&value.abs(), &unit) * unit * value.signum()
}
