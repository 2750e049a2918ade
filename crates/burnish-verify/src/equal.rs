//! When two answers are the same.

use num_bigint::BigInt;
use num_complex::Complex64;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::normal::normal;
use crate::relation;
use crate::sample;
use crate::syntax::{End, Expr, Value};
use crate::units::Unit;
use crate::work::{Stop, Work};

/// A decimal stands for what rounds to it only from this many places on.
const PLACES: u32 = 6;
/// And only if it has this many significant digits at least.
const SIGNIFICANT: i64 = 100;
/// From this many places on a decimal is taken for floating-point output, good to 1e-9 of its value.
const FLOAT_PLACES: u32 = 12;
/// Numeric values agree within this part of the larger one.
const RELATIVE: f64 = 1e-11;
/// Noise around zero.
const ABSOLUTE: f64 = 1e-13;

/// Whether `answer` is `gold`.
pub(crate) fn same(gold: &Value, answer: &Value, work: &mut Work) -> bool {
    // Each comparison costs something, so that large collections end too.
    if work.take(10).is_err() {
        return false;
    }
    if gold == answer {
        return true;
    }
    let (gold, answer) = relation::aligned(gold, answer);
    let (gold, answer) = (gold.as_ref(), answer.as_ref());
    match (gold, answer) {
        (
            Value::Quantity { expr: gold, unit: gold_unit },
            Value::Quantity { expr: answer, unit: answer_unit },
        ) => same_unit(*gold_unit, *answer_unit) && same_scalar(gold, answer, work),
        (Value::Text(gold), Value::Text(answer)) => gold == answer,
        (Value::Chain(left, signs), Value::Chain(right, others)) => {
            relation::same_chain((left, signs), (right, others), work)
        }
        (Value::Tuple(gold), Value::Tuple(answer) | Value::List(answer))
        | (Value::List(gold), Value::Tuple(answer)) => ordered(gold, answer, work),
        (Value::List(gold) | Value::Set(gold), Value::List(answer) | Value::Set(answer)) => {
            unordered(gold, answer, work)
        }
        (Value::Union(gold), Value::Union(answer)) => unordered(gold, answer, work),
        // Saying the same thing twice, in two forms, hedges nothing.
        (Value::Quantity { .. }, Value::List(items)) => items.iter().all(|item| same(gold, item, work)),
        // A set of one thing is that thing.
        (Value::Set(items), Value::Quantity { .. }) => matches!(&items[..], [one] if same(one, answer, work)),
        (Value::Quantity { .. }, Value::Set(items)) => matches!(&items[..], [one] if same(gold, one, work)),
        (Value::Interval(a, b), Value::Interval(c, d)) => same_end(a, c, work) && same_end(b, d, work),
        (Value::Matrix(gold), Value::Matrix(answer)) => {
            gold.len() == answer.len() && gold.iter().zip(answer).all(|(a, b)| ordered(a, b, work))
        }
        _ => false,
    }
}

fn same_end(gold: &End, answer: &End, work: &mut Work) -> bool {
    gold.is_closed == answer.is_closed && same_number(&gold.at, &answer.at, work)
}

fn ordered(gold: &[Value], answer: &[Value], work: &mut Work) -> bool {
    gold.len() == answer.len() && gold.iter().zip(answer).all(|(a, b)| same(a, b, work))
}

/// Each of `gold` has its own partner in `answer`.
fn unordered(gold: &[Value], answer: &[Value], work: &mut Work) -> bool {
    if gold.len() != answer.len() {
        return false;
    }
    let mut left: Vec<&Value> = answer.iter().collect();
    gold.iter().all(|item| {
        let partner = left.iter().position(|other| same(item, other, work));
        partner.map(|index| left.swap_remove(index)).is_some()
    })
}

/// Units must agree where both are named.
fn same_unit(gold: Option<Unit>, answer: Option<Unit>) -> bool {
    gold.is_none() || answer.is_none() || gold == answer
}

/// Expressions with their percent signs: `p%` is `p/100`, or `p` where the other side leaves the sign out.
fn same_scalar(gold: &Expr, answer: &Expr, work: &mut Work) -> bool {
    let (gold_bare, answer_bare) = (without_percent(gold), without_percent(answer));
    let (gold_percent, answer_percent) = (gold_bare.is_some(), answer_bare.is_some());
    let gold_inner = gold_bare.as_ref().unwrap_or(gold);
    let answer_inner = answer_bare.as_ref().unwrap_or(answer);
    if gold_percent == answer_percent {
        // Like any unit, the degree of `\cos 58^\circ` may be left out on one side.
        return same_number(gold_inner, answer_inner, work)
            || (has_degrees(gold) != has_degrees(answer)
                && same_number(&without_degrees(gold), &without_degrees(answer), work));
    }
    same_number(gold, answer, work) || same_number(gold_inner, answer_inner, work)
}

/// Whether a degree sign stands anywhere in `expr`.
fn has_degrees(expr: &Expr) -> bool {
    matches!(expr, Expr::Degrees(_)) || expr.children().into_iter().any(has_degrees)
}

/// `expr` without its degree signs.
fn without_degrees(expr: &Expr) -> Expr {
    match expr {
        Expr::Degrees(inner) => without_degrees(inner),
        other => other.map_children(without_degrees),
    }
}

/// `expr` without its percent sign, if it has one.
fn without_percent(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Percent(inner) => Some((**inner).clone()),
        Expr::Negative(inner) => without_percent(inner).map(|inner| Expr::Negative(Box::new(inner))),
        _ => None,
    }
}

/// Whether two expressions have the same value.
pub(crate) fn same_number(gold: &Expr, answer: &Expr, work: &mut Work) -> bool {
    if gold == answer {
        return true;
    }
    if let Some(is_same) = same_based(gold, answer) {
        return is_same;
    }
    match exactly(gold, answer, work) {
        Some(true) => true,
        Some(false) => rounded(gold, answer, work),
        None => rounded(gold, answer, work) || same_samples(gold, answer, work),
    }
}

/// Digits in a base: as written, where only one side names the base.
fn same_based(gold: &Expr, answer: &Expr) -> Option<bool> {
    let digits = |expr: &Expr| match expr {
        Expr::Number { value, decimals: None } if value.is_integer() => Some(value.to_integer().to_string()),
        _ => None,
    };
    match (gold, answer) {
        (Expr::Based { digits: a, base }, Expr::Based { digits: b, base: other }) => {
            Some(a == b && base == other)
        }
        (Expr::Based { digits: a, .. }, other) | (other, Expr::Based { digits: a, .. }) => {
            Some(digits(other).as_ref() == Some(a))
        }
        _ => None,
    }
}

/// Decided by the normal form, if that can decide it.
fn exactly(gold: &Expr, answer: &Expr, work: &mut Work) -> Option<bool> {
    let mut decide = || -> Result<Option<bool>, Stop> {
        let (gold, answer) = (normal(gold, work)?, normal(answer, work)?);
        let difference = gold.difference(&answer, work)?;
        if difference.is_zero() {
            return Ok(Some(true));
        }
        Ok(difference.is_decisive().then_some(false))
    };
    match decide() {
        Ok(decided) => decided,
        Err(Stop::Undefined) => Some(false),
        Err(Stop::TooMuch) => None,
    }
}

/// Whether one side is a decimal that the other rounds to.
fn rounded(gold: &Expr, answer: &Expr, work: &mut Work) -> bool {
    let (gold_places, answer_places) = (places(gold), places(answer));
    let (decimal, other, places) = match (gold_places, answer_places) {
        (Some(a), Some(b)) if a <= b => (gold, answer, a),
        (_, Some(b)) => (answer, gold, b),
        (Some(a), None) => (gold, answer, a),
        (None, None) => return false,
    };
    let most = gold_places.max(answer_places).unwrap_or(0);
    let Some((decimal, _)) = decimal.literal() else { return false };
    let Some(other) = constant(other, work) else { return false };
    let error = (&decimal - &other).abs();
    if most >= FLOAT_PLACES && error * BigInt::from(10).pow(9) <= other.abs() {
        return true;
    }
    let unit = BigRational::new(BigInt::one(), BigInt::from(10).pow(places));
    places >= PLACES
        && decimal.abs() >= &unit * BigInt::from(SIGNIFICANT)
        && (&decimal - &other).abs() * BigInt::from(2) <= unit
}

/// Digits after the point of a decimal.
fn places(expr: &Expr) -> Option<u32> {
    expr.literal().and_then(|(_, places)| places)
}

/// The value of an expression without variables: exact where it is rational, else to double precision.
fn constant(expr: &Expr, work: &mut Work) -> Option<BigRational> {
    if let Some(value) = normal(expr, work).ok().and_then(|fraction| fraction.as_constant()) {
        return Some(value);
    }
    if has_symbol(expr) {
        return None;
    }
    let value = sample::evaluate(expr, 0);
    let is_real = value.im.abs() <= ABSOLUTE.max(RELATIVE * value.re.abs());
    is_real.then(|| BigRational::from_float(value.re)).flatten()
}

fn has_symbol(expr: &Expr) -> bool {
    matches!(expr, Expr::Symbol(_)) || expr.children().into_iter().any(has_symbol)
}

/// Whether both have the same numeric value at every fixed point at which both have one.
fn same_samples(gold: &Expr, answer: &Expr, work: &mut Work) -> bool {
    let is_constant = !has_symbol(gold) && !has_symbol(answer);
    let points = if is_constant { 1 } else { sample::POINTS };
    let mut agreed = 0;
    for point in 0..points {
        if work.take(size(gold) + size(answer)).is_err() {
            return false;
        }
        let (a, b) = (sample::evaluate(gold, point), sample::evaluate(answer, point));
        if !(a.is_finite() && b.is_finite()) {
            continue;
        }
        if !close(a, b) {
            return false;
        }
        agreed += 1;
    }
    agreed * 2 >= points
}

fn close(a: Complex64, b: Complex64) -> bool {
    (a - b).norm() <= ABSOLUTE + RELATIVE * a.norm().max(b.norm())
}

fn size(expr: &Expr) -> usize {
    1 + expr.children().into_iter().map(size).sum::<usize>()
}

/// The sign of a constant, where that is known.
pub(crate) fn sign(value: &BigRational) -> i8 {
    if value.is_zero() {
        0
    } else if value.to_f64().is_some_and(|value| value > 0.0) || value.is_positive() {
        1
    } else {
        -1
    }
}
