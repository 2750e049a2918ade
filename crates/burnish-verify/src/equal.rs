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

/// A decimal stands for the numbers that round to it only if it has at least this many places.
const PLACES: u32 = 6;
/// And only if its digits form at least this number.
const SIGNIFICANT: i64 = 100;
/// With at least this many places, a decimal is taken for floating-point output, accurate to 1e-9 of its value.
const FLOAT_PLACES: u32 = 12;
/// Numeric values agree if they differ by at most this share of the larger one.
const RELATIVE: f64 = 1e-11;
/// Numerical noise around zero.
const ABSOLUTE: f64 = 1e-13;

/// Whether `answer` is `gold`.
pub(crate) fn same(gold: &Value, answer: &Value, work: &mut Work) -> bool {
    // Each comparison has a cost, so that large collections come to an end too.
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
        // Saying the same thing twice, in two forms, is not hedging.
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

/// Each item of `gold` has its own partner in `answer`.
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

/// Units must agree if both sides name one.
fn same_unit(gold: Option<Unit>, answer: Option<Unit>) -> bool {
    gold.is_none() || answer.is_none() || gold == answer
}

/// Compares expressions with their percent signs: `p%` is `p/100`, or `p` if the other side leaves the sign out.
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
    if is_name(gold) && is_name(answer) {
        return false;
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

/// `ABC`: three or more capitals are points or an order, not factors, so CBA is another.
fn is_name(expr: &Expr) -> bool {
    let is_capital =
        |factor: &Expr| matches!(factor, Expr::Symbol(name) if name.len() == 1 && name.as_str() < "a");
    matches!(expr, Expr::Product(factors) if factors.len() > 2 && factors.iter().all(is_capital))
}

/// Compares digits in a base: as written, if only one side names the base.
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

/// The normal form's decision, if it can decide.
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

/// The value of an expression without variables: exact if it is rational, otherwise to double precision.
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

/// The sign of a constant, if it is known.
pub(crate) fn sign(value: &BigRational) -> i8 {
    if value.is_zero() {
        0
    } else if value.to_f64().is_some_and(|value| value > 0.0) || value.is_positive() {
        1
    } else {
        -1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::read;

    fn agree(gold: &str, answer: &str) -> bool {
        let (Some(gold), Some(answer)) = (read(gold, true), read(answer, true)) else {
            panic!("{gold} {answer}")
        };
        same(&gold, &answer, &mut Work::new())
    }

    #[test]
    fn equal_expressions_are_the_same() {
        let cases = [
            ("x^2+2x+1", "(x+1)^2"),
            (r"\frac{x^2-1}{x-1}", "x+1"),
            (r"\frac{\sqrt3}{3}", r"\frac{1}{\sqrt{3}}"),
            (r"\sqrt{12}", r"2\sqrt3"),
            (r"\sqrt[3]{-8}", "-2"),
            (r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"),
            (r"\frac{1}{1+i}", r"\frac{1-i}{2}"),
            (r"\sin^2 x + \cos^2 x", "1"),
            (r"\log_2 8", "3"),
            (r"2^{n+1}", r"2 \cdot 2^n"),
            ("5!", "120"),
            (r"\binom{5}{2}", "10"),
            (r"0.\overline{45}", r"\frac{5}{11}"),
            (r"137\frac12", "137.5"),
            (r"-3\frac12", "-3.5"),
            ("3½", "3.5"),
            (r"\frac{\pi}{6}", r"30^\circ \cdot 1"),
            ("10^{30}+1", "1000000000000000000000000000001"),
            (r"|{-3}|", "3"),
            (r"x^{\frac12}", r"\sqrt{x}"),
            (r"\cos 58", r"\cos 58^\circ"),
            (r"2+3\mathrm{i}", "2+3i"),
            (r"\mathrm{e}^{\mathrm{i}\pi}", "-1"),
            (r"\operatorname{e}^{\text{x}}", "e^x"),
            (r"\mathit{x}+\mathsf{y}\textit{z}", "x+yz"),
            ("2𝑥+𝜋", r"2x+\pi"),
            ("ℯ^ⅈ", "e^i"),
            (r"5\,\mathrm{m}", r"5\text{ meters}"),
            (r"20^\circ\mathrm{C}", r"20^\circ"),
            (r"3\text{ h}", "3"),
            (r"{x+1 \over 4}", r"\frac{x+1}{4}"),
            (r"2{3 \over 4}", "2.75"),
            (r"1 + {{1 \over 2} \over 3}", r"\frac76"),
            (r"{5 \choose 2}", "10"),
            (r"\left(\sqrt{1 \over 4} \over 2\right)^2", "1/16"),
            ("xyz", "zyx"),
            ("AB", "BA"),
        ];
        for (gold, answer) in cases {
            assert!(agree(gold, answer) && agree(answer, gold), "{gold} {answer}");
        }
    }

    #[test]
    fn other_expressions_are_not() {
        let cases = [
            ("x^2+2x+1", "x^2+2x+2"),
            (r"\sqrt{x^2}", "x"),
            ("2k", "2n"),
            ("10^{30}", "10^{30}+1"),
            (r"\sqrt2", "1.4142"),
            (r"\pi", "3.14159"),
            ("11/2", "1 1/2"),
            (r"\frac{1}{3}", "0.333"),
            (".0000672", ".0000674"),
            ("9^{9^{9^9}}", "9^{9^{9^9}}+1"),
            (r"\frac{1}{0}", r"\frac{2}{0}"),
            (r"\infty", r"-\infty"),
            (r"\log 2", r"\ln 2"),
            ("5 cm", "5 m"),
            (r"15\mbox{ cm}^2", r"15\mbox{ cm}^3"),
            ("2516_8", "1358"),
            ("2516_8", "2516_9"),
            ("2", r"2\mathrm{i}"),
            ("2", r"2\text{x}"),
            ("2", "2𝑖"),
            ("2m", r"2\,\mathrm{m}"),
            ("ABC", "CBA"),
        ];
        for (gold, answer) in cases {
            assert!(!agree(gold, answer) && !agree(answer, gold), "{gold} {answer}");
        }
    }

    #[test]
    fn collections_compare_by_kind() {
        let same = [
            ("1,2", "2,1"),
            (r"\{1,2\}", "2,1"),
            ("(1,2)", "1,2"),
            (r"(0,9) \cup (9,36)", r"(9,36) \cup (0,9)"),
            ("(1,2]", r"1 < x \le 2"),
            (r"x \in (-\infty, 3)", "x < 3"),
            (r"(-\infty,2) \cup (3,\infty)", "x<2, x>3"),
            ("5", r"\{5\}"),
            ("3.5", r"3\frac12, \frac72"),
            ("x=5", "5"),
            ("y=2x+3", "2x+3"),
            ("5x+y=4", "10x=8-2y"),
            ("x>3", "3<x"),
            ("x>3", "-x<-3"),
            ("[2,5)", r"\{x \mid 2 \le x < 5\}"),
            (r"(-\infty,2)\cup(3,\infty)", r"\{x \in \mathbb{R} : x < 2 \text{ or } x > 3\}"),
            (r"\begin{pmatrix}1\\-7\end{pmatrix}", r"\left[\begin{array}{c} 1 \\ -7 \end{array}\right]"),
        ];
        for (gold, answer) in same {
            assert!(agree(gold, answer), "{gold} {answer}");
        }
        let other = [
            ("(1,2)", "(2,1)"),
            ("(1,2)", "[1,2]"),
            ("[1,2)", "(1,2]"),
            ("1,2", "1,3"),
            ("1,2", "1,2,3"),
            ("1,1,2", "1,2,2"),
            (r"(0,9) \cup (9,36)", "(0,36)"),
            ("x=5", "y=5"),
            ("5x+y=4", "4"),
            ("x>3", "x<3"),
            ("x>3", r"x \ge 3"),
            ("x>3", "-x>-3"),
            ("(2,5)", r"\{x \mid 2 \le x < 5\}"),
            (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
        ];
        for (gold, answer) in other {
            assert!(!agree(gold, answer), "{gold} {answer}");
        }
    }

    #[test]
    fn roundings_and_percentages_follow_the_rules() {
        for (gold, answer) in [
            (r"\frac13", "0.333333"),
            (r"\sqrt2", "1.414214"),
            ("0.3", "0.30000000000000004"),
            (r"50\%", "0.5"),
            (r"50\%", "50"),
            (r"-12.5\%", "-12.5"),
            ("2", "2.000"),
        ] {
            assert!(agree(gold, answer) && agree(answer, gold), "{gold} {answer}");
        }
        for (gold, answer) in [
            (r"\frac13", "0.333334"),
            ("0.5", "0.50001"),
            ("5", "5.0000001"),
            ("0.0000001", "0.0000002"),
            (r"50\%", r"0.5\%"),
            (r"50\%", "5"),
            ("100", "1"),
        ] {
            assert!(!agree(gold, answer) && !agree(answer, gold), "{gold} {answer}");
        }
    }

    #[test]
    fn large_comparisons_stop() {
        let many = (0..60).map(|i| format!("x^{{{i}}}+{i}")).collect::<Vec<_>>().join(", ");
        let other = (0..60).map(|i| format!("y^{{{i}}}+{i}")).collect::<Vec<_>>().join(", ");
        for (gold, answer) in [
            ("(a+b+c+d+e+f+g)^{60}", "(a+b+c+d+e+f+g)^{60}+1"),
            ("((x+y)^{99}+z)^{99}", "1"),
            ("2^{3^{4^5}}", "3^{2^{4^5}}"),
            ("400!", "399!"),
            ("99999!!", "2"),
            (r"\sqrt{\sqrt{\sqrt{x^{1000}+1}}}", "x"),
            (&many, &other),
        ] {
            let (Some(gold), Some(answer)) = (read(gold, true), read(answer, true)) else { panic!("{gold}") };
            let mut work = Work::new();
            assert!(!same(&gold, &answer, &mut work));
            assert!(work.spent() <= crate::work::STEPS);
        }
    }
}
