//! Arithmetic, without a state.

use serde_json::{Value, json};

use super::{Api, Given, Num, Outcome, refusal};

/// Significant digits that a result can have.
const DIGITS_MAX: i64 = 17;

/// The functions of arithmetic.
#[derive(Debug, Clone)]
pub(super) struct Maths;

impl Api for Maths {
    fn call(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome> {
        let number = |key: &str| given.number(key);
        Some(match method {
            "logarithm" => logarithm(given),
            "mean" => many(given, "calculate mean", |all| Num::Float(sum(all).float() / all.len() as f64)),
            "standard_deviation" => many(given, "calculate standard deviation", deviation),
            "min_value" => many(given, "find minimum", |all| best(all, |new, old| new < old)),
            "max_value" => many(given, "find maximum", |all| best(all, |new, old| new > old)),
            "sum_values" => many(given, "calculate sum", sum),
            "si_unit_conversion" => between_units(given),
            "imperial_si_conversion" => imperial(given),
            "add" => number("a").and_then(|one| told(one.plus(number("b")?))),
            "subtract" => number("a").and_then(|one| told(one.minus(number("b")?))),
            "multiply" => number("a").and_then(|one| told(one.times(number("b")?))),
            "divide" => number("a").and_then(|one| match number("b")?.float() {
                0.0 => refusal("Cannot divide by zero"),
                other => told(Num::Float(one.float() / other)),
            }),
            "percentage" => number("part").and_then(|part| match number("whole")?.float() {
                0.0 => refusal("Whole value cannot be zero"),
                whole => told(Num::Float(part.float() / whole * 100.0)),
            }),
            "power" => number("base").and_then(|base| power(base, number("exponent")?)),
            "square_root" => number("number").and_then(|of| {
                let digits = precision(given)?;
                match of.float() {
                    below if below < 0.0 => refusal("Cannot calculate square root of a negative number"),
                    of => told(Num::Float(significant(of.sqrt(), digits))),
                }
            }),
            "absolute_value" => number("number").and_then(|of| match of {
                Num::Int(whole) => told(whole.checked_abs().map_or(Num::Float(of.float().abs()), Num::Int)),
                Num::Float(value) => told(Num::Float(value.abs())),
            }),
            "round_number" => number("number").and_then(|of| {
                let places =
                    given.maybe("decimal_places").map(|_| given.whole("decimal_places")).transpose()?;
                told(rounded(of, places.unwrap_or(0)))
            }),
            _ => return None,
        })
    }

    fn state(&self) -> Value {
        Value::Null
    }

    fn copy(&self) -> Box<dyn Api> {
        Box::new(self.clone())
    }
}

fn told(result: Num) -> Outcome {
    Ok(json!({ "result": result.value()? }))
}

fn many(given: &Given<'_>, what: &str, of: impl Fn(&[Num]) -> Num) -> Outcome {
    match given.numbers("numbers")?.as_slice() {
        [] => refusal(format!("Cannot {what} of an empty list")),
        all => told(of(all)),
    }
}

fn sum(all: &[Num]) -> Num {
    all.iter().fold(Num::Int(0), |sum, next| sum.plus(*next))
}

/// Of the whole population.
fn deviation(all: &[Num]) -> Num {
    let count = all.len() as f64;
    let mean = sum(all).float() / count;
    let squares: f64 = all.iter().map(|it| (it.float() - mean) * (it.float() - mean)).sum();
    Num::Float((squares / count).sqrt())
}

/// The first number that no other one beats.
fn best(all: &[Num], beats: fn(f64, f64) -> bool) -> Num {
    let better = |old: Num, new: &Num| if beats(new.float(), old.float()) { *new } else { old };
    all.iter().skip(1).fold(all[0], better)
}

fn precision(given: &Given<'_>) -> Result<i64, String> {
    match given.whole("precision")? {
        digits if digits > 0 => Ok(digits),
        digits => Err(format!("the argument 'precision' must be above 0, not {digits}")),
    }
}

/// A float with so many significant digits. `bfcl-eval` computes with as many; beyond those of a float none are added here.
fn significant(value: f64, digits: i64) -> f64 {
    let digits = digits.min(DIGITS_MAX) as usize;
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

fn logarithm(given: &Given<'_>) -> Outcome {
    let (value, base, digits) = (given.number("value")?, given.number("base")?, precision(given)?);
    match (value.float(), base.float()) {
        (value, base) if value <= 0.0 || base <= 0.0 => refusal("the logarithm is no real number"),
        (_, 1.0) => refusal("division by zero"),
        (value, base) => told(Num::Float(significant(value.ln() / base.ln(), digits))),
    }
}

fn power(base: Num, exponent: Num) -> Outcome {
    if let (Num::Int(base), Num::Int(exponent @ 0..)) = (base, exponent) {
        let exact = u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent));
        if let Some(exact) = exact {
            return told(Num::Int(exact));
        }
    }
    if base.float() == 0.0 && exponent.float() < 0.0 {
        return Err("0.0 cannot be raised to a negative power".to_owned());
    }
    told(Num::Float(base.float().powf(exponent.float())))
}

/// As Python's `round`: to the nearest, halves of what the float really is to the even one.
fn rounded(of: Num, places: i64) -> Num {
    let unit = || 10f64.powi(i32::try_from(-places).unwrap_or(i32::MAX));
    match of {
        Num::Int(whole) if places >= 0 => Num::Int(whole),
        Num::Int(whole) => Num::Int(((whole as f64 / unit()).round_ties_even() * unit()) as i64),
        Num::Float(value) if places < 0 => Num::Float((value / unit()).round_ties_even() * unit()),
        Num::Float(value) => {
            let places = usize::try_from(places).unwrap_or(0).min(400);
            Num::Float(format!("{value:.places$}").parse().unwrap_or(value))
        }
    }
}

fn unsupported(unit_in: &str, unit_out: &str) -> Outcome {
    refusal(format!("Conversion from '{unit_in}' to '{unit_out}' is not supported"))
}

fn between_units(given: &Given<'_>) -> Outcome {
    let (value, from, to) = (given.number("value")?, given.text("unit_in")?, given.text("unit_out")?);
    let meters = |unit: &str| {
        let units = [("km", 1000.0), ("m", 1.0), ("cm", 0.01), ("mm", 0.001), ("um", 1e-6), ("nm", 1e-9)];
        units.into_iter().find(|(name, _)| *name == unit).map(|(_, length)| length)
    };
    match (meters(from), meters(to)) {
        (Some(one), Some(other)) => told(Num::Float(value.float() * one * (1.0 / other))),
        _ => unsupported(from, to),
    }
}

fn imperial(given: &Given<'_>) -> Outcome {
    let (value, from, to) = (given.number("value")?, given.text("unit_in")?, given.text("unit_out")?);
    if from == to {
        return told(value);
    }
    let factor = match (from, to) {
        ("cm", "in") => 0.393_701,
        ("in", "cm") => 2.54,
        ("m", "ft") => 3.280_84,
        ("ft", "m") => 0.3048,
        ("m", "yd") => 1.093_61,
        ("yd", "m") => 0.9144,
        ("km", "miles") => 0.621_371,
        ("miles", "km") => 1.609_34,
        ("kg", "lb") => 2.204_62,
        ("lb", "kg") => 0.453_592,
        ("celsius", "fahrenheit") => return told(Num::Float(value.float() * 1.8 + 32.0)),
        ("fahrenheit", "celsius") => return told(Num::Float((value.float() - 32.0) * (5.0 / 9.0))),
        _ => return unsupported(from, to),
    };
    told(Num::Float(value.float() * factor))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Against Python 3.11: `round(2.5)` of a float with 0 places, `round(2.675, 2)`, `round(-1234, -2)`.
    #[test]
    fn numbers_are_rounded_and_raised_as_in_python() {
        assert_eq!(rounded(Num::Float(2.5), 0), Num::Float(2.0));
        assert_eq!(rounded(Num::Float(2.675), 2), Num::Float(2.67));
        assert_eq!(rounded(Num::Int(-1234), -2), Num::Int(-1200));
        assert_eq!(rounded(Num::Int(7), 3), Num::Int(7));
        assert_eq!(power(Num::Int(2), Num::Int(10)).unwrap(), json!({ "result": 1024 }));
        assert_eq!(power(Num::Int(2), Num::Int(-1)).unwrap(), json!({ "result": 0.5 }));
        assert!(power(Num::Int(0), Num::Int(-1)).is_err());
        assert_eq!(significant(2.0_f64.sqrt(), 3), 1.41);
    }
}
