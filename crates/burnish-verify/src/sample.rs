//! Numeric values of expressions at fixed points, for comparisons that the normal form cannot decide.

use num_complex::Complex64;
use num_traits::ToPrimitive;

use crate::syntax::{Constant, Expr, Function};

/// The number of points at which expressions are evaluated.
pub(crate) const POINTS: u32 = 6;

/// The value with every variable set to its number at `point`. Complex and on the principal branch; not finite if there
/// is no value.
pub(crate) fn evaluate(expr: &Expr, point: u32) -> Complex64 {
    let eval = |inner: &Expr| evaluate(inner, point);
    match expr {
        Expr::Number { value, .. } => real(value.to_f64().unwrap_or(f64::NAN)),
        Expr::Based { digits, base } => real(
            digits
                .chars()
                .filter_map(|c| c.to_digit(36))
                .fold(0.0, |value, digit| value * f64::from(*base) + f64::from(digit)),
        ),
        Expr::Constant(Constant::Pi) => real(std::f64::consts::PI),
        Expr::Constant(Constant::E) => real(std::f64::consts::E),
        Expr::Constant(Constant::I) => Complex64::I,
        Expr::Symbol(name) => real(variable(name, point)),
        Expr::Sum(terms) => terms.iter().map(eval).sum(),
        Expr::Product(factors) => factors.iter().map(eval).product(),
        Expr::Negative(inner) => -eval(inner),
        Expr::Quotient(top, bottom) => eval(top) / eval(bottom),
        Expr::Power(base, exponent) => power(eval(base), eval(exponent)),
        Expr::Root(radicand, index) => {
            let (radicand, index) = (eval(radicand), eval(index));
            // Real roots of odd index, as in the normal form.
            if radicand.im == 0.0 && radicand.re < 0.0 && index.im == 0.0 && index.re % 2.0 == 1.0 {
                -power(-radicand, index.finv())
            } else {
                power(radicand, index.finv())
            }
        }
        Expr::Call(function, arguments) => {
            let arguments: Vec<Complex64> = arguments.iter().map(eval).collect();
            call(*function, &arguments)
        }
        Expr::Degrees(inner) => eval(inner) * (std::f64::consts::PI / 180.0),
        Expr::Percent(inner) => eval(inner) / 100.0,
        Expr::PlusMinus(..) | Expr::Infinity => real(f64::NAN),
    }
}

fn real(value: f64) -> Complex64 {
    Complex64::new(value, 0.0)
}

/// A variable's value: magnitude 0.3 to 2.5, of either sign, derived from the name and the point (FNV-1a, then a
/// finaliser).
fn variable(name: &str, point: u32) -> f64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes().chain(point.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^= hash >> 32;
    let unit = (hash >> 11) as f64 / (1_u64 << 53) as f64;
    let size = 0.3 + 2.2 * unit;
    if hash & 1 == 0 { size } else { -size }
}

fn power(base: Complex64, exponent: Complex64) -> Complex64 {
    if exponent.im == 0.0 && exponent.re.fract() == 0.0 && exponent.re.abs() < 1e6 {
        return base.powi(exponent.re as i32);
    }
    if exponent.im == 0.0 && exponent.re == 0.5 {
        return base.sqrt();
    }
    if base.im == 0.0 && base.re > 0.0 && exponent.im == 0.0 {
        return real(base.re.powf(exponent.re));
    }
    base.powc(exponent)
}

fn call(function: Function, arguments: &[Complex64]) -> Complex64 {
    let [x, rest @ ..] = arguments else { return real(f64::NAN) };
    let x = *x;
    let real_only = |f: fn(f64) -> f64| if x.im == 0.0 { real(f(x.re)) } else { real(f64::NAN) };
    match (function, rest) {
        (Function::Sin, []) => x.sin(),
        (Function::Cos, []) => x.cos(),
        (Function::Tan, []) => x.tan(),
        (Function::Cot, []) => x.tan().inv(),
        (Function::Sec, []) => x.cos().inv(),
        (Function::Csc, []) => x.sin().inv(),
        (Function::Arcsin, []) => x.asin(),
        (Function::Arccos, []) => x.acos(),
        (Function::Arctan, []) => x.atan(),
        (Function::Sinh, []) => x.sinh(),
        (Function::Cosh, []) => x.cosh(),
        (Function::Tanh, []) => x.tanh(),
        (Function::Ln, []) => x.ln(),
        (Function::Log, [base]) => x.ln() / base.ln(),
        (Function::Exp, []) => x.exp(),
        (Function::Abs, []) => real(x.norm()),
        (Function::Floor, []) => real_only(f64::floor),
        (Function::Ceiling, []) => real_only(f64::ceil),
        (Function::Factorial, []) => real_only(|n| falling(n, n)),
        (Function::Binomial, [k]) if x.im == 0.0 && k.im == 0.0 => {
            real(falling(x.re, k.re) / falling(k.re, k.re))
        }
        (Function::Power, [exponent]) => power(x, *exponent),
        _ => real(f64::NAN),
    }
}

/// `n (n-1) ...` with `count` factors, for small whole counts.
fn falling(n: f64, count: f64) -> f64 {
    if count.fract() != 0.0 || !(0.0..=400.0).contains(&count) {
        return f64::NAN;
    }
    (0..count as u32).map(|i| n - f64::from(i)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_take_other_values_at_every_point_and_of_both_signs() {
        let mut values: Vec<f64> = ["x", "y", "x_1", "α"]
            .iter()
            .flat_map(|name| (0..POINTS).map(|point| variable(name, point)))
            .collect();
        assert!(values.iter().all(|value| (0.3..=2.5).contains(&value.abs())));
        assert!(values.iter().any(|value| *value > 0.0) && values.iter().any(|value| *value < 0.0));
        values.sort_by(f64::total_cmp);
        assert!(values.windows(2).all(|pair| pair[1] - pair[0] > 1e-6));
    }

    #[test]
    fn functions_have_their_values() {
        let of = |function, arguments: &[f64]| {
            let arguments: Vec<Complex64> = arguments.iter().map(|value| real(*value)).collect();
            call(function, &arguments)
        };
        assert!((of(Function::Log, &[8.0, 2.0]).re - 3.0).abs() < 1e-12);
        assert!((of(Function::Cot, &[1.0]).re - 1.0 / 1.0_f64.tan()).abs() < 1e-12);
        assert!((of(Function::Binomial, &[5.0, 2.0]).re - 10.0).abs() < 1e-12);
        assert!(!of(Function::Factorial, &[0.5]).is_finite());
        assert!(!of(Function::Factorial, &[1e9]).is_finite());
        // The principal branch.
        assert_eq!(power(real(-1.0), real(0.5)), Complex64::I);
    }
}
