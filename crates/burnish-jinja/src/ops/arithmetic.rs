//! Python's arithmetic.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use super::MAX_SIZE;
use crate::ast::Binary;
use crate::error::{Error, Kind, Result};
use crate::value::Value;

/// A number, as arithmetic sees it.
#[derive(Debug, Clone)]
pub(crate) enum Number {
    Int(BigInt),
    Float(f64),
}

impl Number {
    pub(crate) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Float(value) => Some(Number::Float(*value)),
            _ => value.as_int().map(Number::Int),
        }
    }

    pub(crate) fn to_f64(&self) -> Result<f64> {
        match self {
            Number::Float(value) => Ok(*value),
            Number::Int(value) => int_to_f64(value),
        }
    }
}

/// The nearest float.
pub(crate) fn int_to_f64(value: &BigInt) -> Result<f64> {
    // Parsing decimal digits rounds to nearest, ties to even, as Python does.
    value
        .to_string()
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .ok_or_else(|| Error::new(Kind::Overflow, "int too large to convert to float"))
}

pub(super) fn arithmetic(op: Binary, left: Number, right: Number) -> Result<Value> {
    let zero = |problem: &str| Err(Error::other(problem));
    if let (Number::Int(left), Number::Int(right)) = (&left, &right) {
        return Ok(Value::big(match op {
            Binary::Add => left + right,
            Binary::Sub => left - right,
            Binary::Mul => left * right,
            Binary::FloorDiv | Binary::Mod if right.is_zero() => {
                return zero("integer division or modulo by zero");
            }
            Binary::FloorDiv => left.div_floor(right),
            Binary::Mod => left.mod_floor(right),
            Binary::Div if right.is_zero() => return zero("division by zero"),
            Binary::Div => return divide(left, right).map(Value::Float),
            Binary::Pow if right.is_negative() && left.is_zero() => {
                return zero("0.0 cannot be raised to a negative power");
            }
            Binary::Pow if right.is_negative() => {
                return Ok(Value::Float(int_to_f64(left)?.powf(int_to_f64(right)?)));
            }
            Binary::Pow => power(left, right)?,
        }));
    }
    let (left, right) = (left.to_f64()?, right.to_f64()?);
    Ok(Value::Float(match op {
        Binary::Add => left + right,
        Binary::Sub => left - right,
        Binary::Mul => left * right,
        Binary::Div | Binary::FloorDiv | Binary::Mod if right == 0.0 => {
            return zero(if op == Binary::Div {
                "float division by zero"
            } else {
                "float floor division by zero"
            });
        }
        Binary::Div => left / right,
        Binary::FloorDiv => float_divmod(left, right).0,
        Binary::Mod => float_divmod(left, right).1,
        Binary::Pow if left == 0.0 && right < 0.0 => return zero("0.0 cannot be raised to a negative power"),
        Binary::Pow if left < 0.0 && left.is_finite() && right.is_finite() && right.fract() != 0.0 => {
            return Err(Error::other("complex numbers are not supported"));
        }
        Binary::Pow => {
            let value = left.powf(right);
            if value.is_infinite() && left.is_finite() && right.is_finite() {
                return Err(Error::new(Kind::Overflow, "Numerical result out of range"));
            }
            value
        }
    }))
}

fn power(base: &BigInt, exponent: &BigInt) -> Result<BigInt> {
    if base.magnitude().bits() <= 1 {
        // 0, 1 and -1 stay small for any exponent.
        let exponent = if exponent.is_zero() { 0 } else { 2 - u32::from(exponent.is_odd()) };
        return Ok(base.pow(exponent));
    }
    match exponent.to_u32() {
        Some(exponent) if base.bits().saturating_mul(u64::from(exponent)) <= MAX_SIZE as u64 / 8 => {
            Ok(base.pow(exponent))
        }
        _ => Err(Error::other("a power of too many digits")),
    }
}

/// The quotient of two integers, rounded once.
fn divide(left: &BigInt, right: &BigInt) -> Result<f64> {
    if let (Some(a), Some(b)) = (left.to_i64(), right.to_i64())
        && a.unsigned_abs() < 1 << 53
        && b.unsigned_abs() < 1 << 53
    {
        return Ok(a as f64 / b as f64);
    }
    if left.is_zero() {
        return Ok(0.0);
    }
    // 66 bits of the quotient, and one bit that says whether more follow, are enough to round correctly.
    let shift = 66 + right.bits() as i64 - left.bits() as i64;
    let (top, bottom) = (left.abs(), right.abs());
    let (top, bottom) = if shift >= 0 { (top << shift, bottom) } else { (top, bottom << -shift) };
    let (quotient, rest) = top.div_rem(&bottom);
    let sticky = (quotient << 1) | BigInt::from(u8::from(!rest.is_zero()));
    let magnitude = scaled(&sticky, -(shift + 1));
    if magnitude.is_infinite() {
        return Err(Error::new(Kind::Overflow, "integer division result too large for a float"));
    }
    Ok(if (left.sign() == Sign::Minus) == (right.sign() == Sign::Minus) { magnitude } else { -magnitude })
}

/// `value * 2^exponent`, rounded once unless the result is subnormal.
fn scaled(value: &BigInt, exponent: i64) -> f64 {
    let mut result = value.to_string().parse::<f64>().unwrap_or(f64::INFINITY);
    let mut left = exponent;
    while left != 0 {
        let step = left.clamp(-1000, 1000);
        result *= 2f64.powi(step as i32);
        left -= step;
    }
    result
}

/// Python's `divmod` of floats: the remainder has the sign of the divisor.
fn float_divmod(left: f64, right: f64) -> (f64, f64) {
    let mut rest = left % right;
    let mut quotient = (left - rest) / right;
    if rest == 0.0 {
        rest = 0f64.copysign(right);
    } else if (right < 0.0) != (rest < 0.0) {
        rest += right;
        quotient -= 1.0;
    }
    let floor = if quotient == 0.0 {
        0f64.copysign(left / right)
    } else {
        let floor = quotient.floor();
        if quotient - floor > 0.5 { floor + 1.0 } else { floor }
    };
    (floor, rest)
}

/// Compares two numbers exactly; `None` if one is NaN.
pub(super) fn compare_numbers(left: &Number, right: &Number) -> Option<Ordering> {
    match (left, right) {
        (Number::Int(left), Number::Int(right)) => Some(left.cmp(right)),
        (Number::Float(left), Number::Float(right)) => left.partial_cmp(right),
        (Number::Int(left), Number::Float(right)) => {
            if right.is_nan() {
                None
            } else if right.is_infinite() {
                Some(if *right > 0.0 { Ordering::Less } else { Ordering::Greater })
            } else {
                let whole = num_traits::FromPrimitive::from_f64(right.floor());
                let whole: BigInt = whole.unwrap_or_default();
                Some(left.cmp(&whole).then(if right.fract() == 0.0 {
                    Ordering::Equal
                } else {
                    Ordering::Less
                }))
            }
        }
        (Number::Float(_), Number::Int(_)) => compare_numbers(right, left).map(Ordering::reverse),
    }
}
