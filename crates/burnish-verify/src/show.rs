//! How an answer was read, as text for people.

use std::fmt::{self, Display, Formatter};

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Signed;

use crate::syntax::{Constant, End, Expr, Function, Relation, Value};

/// The longest reading that is shown, in characters.
const LENGTH: usize = 400;

/// The reading of `value`, cut off if it is too long.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Quantity { expr, unit: None } => write!(f, "{expr}"),
            Value::Quantity { expr, unit: Some(unit) } => write!(f, "{expr} {unit}"),
            Value::Text(words) => write!(f, "\"{words}\""),
            Value::Tuple(items) => enclosed(f, "(", items, ")"),
            Value::List(items) => enclosed(f, "", items, ""),
            Value::Set(items) => enclosed(f, "{", items, "}"),
            Value::Interval(low, high) => {
                let End { at, is_closed } = low;
                write!(f, "{}{at}, ", if *is_closed { '[' } else { '(' })?;
                let End { at, is_closed } = high;
                write!(f, "{at}{}", if *is_closed { ']' } else { ')' })
            }
            Value::Union(parts) => joined(f, parts, " ∪ "),
            Value::Matrix(rows) => {
                f.write_str("[")?;
                for (index, row) in rows.iter().enumerate() {
                    f.write_str(if index == 0 { "" } else { "; " })?;
                    joined(f, row, ", ")?;
                }
                f.write_str("]")
            }
            Value::Chain(sides, relations) => {
                for (index, side) in sides.iter().enumerate() {
                    if let Some(relation) = index.checked_sub(1).and_then(|index| relations.get(index)) {
                        write!(f, " {} ", sign(*relation))?;
                    }
                    write!(f, "{side}")?;
                }
                Ok(())
            }
            Value::Member(set) => write!(f, "in {set}"),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Number { value, decimals } => f.write_str(&number(value, *decimals)),
            Expr::Based { digits, base } => write!(f, "{digits}_{base}"),
            Expr::Constant(Constant::Pi) => f.write_str("π"),
            Expr::Constant(Constant::E) => f.write_str("e"),
            Expr::Constant(Constant::I) => f.write_str("i"),
            Expr::Symbol(name) => f.write_str(name),
            Expr::Sum(terms) => {
                for (index, term) in terms.iter().enumerate() {
                    match (index, term) {
                        (0, term) => write!(f, "{}", Factor(term))?,
                        (_, Expr::Negative(inner)) => write!(f, " - {}", Factor(inner))?,
                        (_, term) => write!(f, " + {}", Factor(term))?,
                    }
                }
                Ok(())
            }
            Expr::Product(factors) => {
                for (index, factor) in factors.iter().enumerate() {
                    write!(f, "{}{}", if index == 0 { "" } else { "·" }, Factor(factor))?;
                }
                Ok(())
            }
            Expr::Negative(inner) => write!(f, "-{}", Factor(inner)),
            Expr::Quotient(top, bottom) => write!(f, "{}/{}", Factor(top), Factor(bottom)),
            Expr::Power(base, exponent) => write!(f, "{}^{}", Factor(base), Factor(exponent)),
            Expr::Root(radicand, index) => match index.literal() {
                Some((two, _)) if two == BigRational::from_integer(BigInt::from(2)) => {
                    write!(f, "√({radicand})")
                }
                _ => write!(f, "root({radicand}, {index})"),
            },
            Expr::Call(function, arguments) => {
                let name = match function {
                    Function::Factorial => "factorial".to_owned(),
                    other => format!("{other:?}").to_lowercase(),
                };
                write!(f, "{name}(")?;
                for (index, argument) in arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(")")
            }
            Expr::Degrees(inner) => write!(f, "{}°", Factor(inner)),
            Expr::Percent(inner) => write!(f, "{}%", Factor(inner)),
            Expr::PlusMinus(true, inner) => write!(f, "±{}", Factor(inner)),
            Expr::PlusMinus(false, inner) => write!(f, "∓{}", Factor(inner)),
            Expr::Infinity => f.write_str("∞"),
        }
    }
}

/// An expression with the brackets that it needs next to a sign.
struct Factor<'a>(&'a Expr);

impl Display for Factor<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expr::Number { value, decimals }
                if value.is_negative() || (decimals.is_none() && !value.is_integer()) =>
            {
                write!(f, "({})", self.0)
            }
            Expr::Sum(_)
            | Expr::Product(_)
            | Expr::Negative(_)
            | Expr::Quotient(..)
            | Expr::PlusMinus(..) => {
                write!(f, "({})", self.0)
            }
            other => write!(f, "{other}"),
        }
    }
}

/// A number as a fraction, or with the decimals that it was written with.
fn number(value: &BigRational, decimals: Option<u32>) -> String {
    let Some(places) = decimals.filter(|places| *places > 0) else { return value.to_string() };
    let unscaled = (value * BigInt::from(10).pow(places)).to_integer();
    let sign = if unscaled.is_negative() { "-" } else { "" };
    let places = places as usize;
    let digits = format!("{:0>width$}", unscaled.abs().to_string(), width = places + 1);
    let (whole, part) = digits.split_at(digits.len() - places);
    format!("{sign}{whole}.{part}")
}

fn sign(relation: Relation) -> &'static str {
    match relation {
        Relation::Equal => "=",
        Relation::Approx => "≈",
        Relation::NotEqual => "≠",
        Relation::Less => "<",
        Relation::LessEqual => "≤",
        Relation::Greater => ">",
        Relation::GreaterEqual => "≥",
    }
}

fn enclosed(f: &mut Formatter<'_>, open: &str, items: &[Value], close: &str) -> fmt::Result {
    f.write_str(open)?;
    joined(f, items, ", ")?;
    f.write_str(close)
}

fn joined(f: &mut Formatter<'_>, items: &[Value], between: &str) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { between })?;
        write!(f, "{item}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::read;

    #[test]
    fn a_reading_shows_what_an_answer_was_taken_for() {
        for (text, expected) in [
            (r"\frac12", "1/2"),
            ("2.50", "2.50"),
            ("-0.05", "-0.05"),
            ("6.05e7", "60500000"),
            ("1e-3", "1/1000"),
            ("50%", "50%"),
            (r"3\sqrt{2}+1", "(3·√(2)) + 1"),
            ("5 cm^2", "5 cm^2"),
            ("(1,2]", "(1, 2]"),
            (r"\{1,2\}", "{1, 2}"),
            ("1, 2", "1, 2"),
            ("x = 5", "x = 5"),
            (r"\text{even}", "\"even\""),
            (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "[1, 2; 3, 4]"),
            (r"90^\circ", "90 degree"),
        ] {
            assert_eq!(read(text, true).as_ref().map(shown).as_deref(), Some(expected), "{text}");
        }
    }
}
