//! The normal form of an expression: a quotient of two polynomials.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::poly::{Atom, Exponent, Poly, root_of_term, small_integer};
use crate::syntax::{Constant, Expr, Function};
use crate::work::{Stop, Work, rational};

/// A quotient; the denominator is 1 if possible.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fraction {
    pub(crate) top: Poly,
    pub(crate) bottom: Poly,
}

/// The largest argument of a factorial or binomial that is multiplied out.
const FACTORIAL: i64 = 400;
/// The largest size of a call's arguments.
const CALL: usize = 200;

impl Fraction {
    fn whole(top: Poly) -> Fraction {
        Fraction { top, bottom: Poly::constant(BigRational::one()) }
    }

    fn is_whole(&self) -> bool {
        self.bottom.as_constant().is_some_and(|value| value.is_one())
    }

    /// The rational number this is, if it is one.
    pub(crate) fn as_constant(&self) -> Option<BigRational> {
        self.is_whole().then(|| self.top.as_constant()).flatten()
    }

    /// `top / bottom`; a denominator of one term goes into the numerator.
    fn over(top: Poly, bottom: Poly, work: &mut Work) -> Result<Fraction, Stop> {
        if bottom.is_zero() {
            return Err(Stop::Undefined);
        }
        if top.is_zero() {
            return Ok(Fraction::whole(Poly::default()));
        }
        let Some((monomial, value)) = bottom.single() else {
            return Ok(Fraction { top, bottom });
        };
        let inverse = monomial.iter().map(|(atom, exponent)| (atom.clone(), -exponent)).collect();
        let inverse = Poly::term(inverse, value.recip());
        Ok(Fraction::whole(top.multiply(&inverse, work)?))
    }

    fn add(&self, other: &Fraction, work: &mut Work) -> Result<Fraction, Stop> {
        if self.bottom == other.bottom {
            return Fraction::over(self.top.add(&other.top, work)?, self.bottom.clone(), work);
        }
        let left = self.top.multiply(&other.bottom, work)?;
        let right = other.top.multiply(&self.bottom, work)?;
        Fraction::over(left.add(&right, work)?, self.bottom.multiply(&other.bottom, work)?, work)
    }

    fn multiply(&self, other: &Fraction, work: &mut Work) -> Result<Fraction, Stop> {
        let top = self.top.multiply(&other.top, work)?;
        Fraction::over(top, self.bottom.multiply(&other.bottom, work)?, work)
    }

    fn divide(&self, other: &Fraction, work: &mut Work) -> Result<Fraction, Stop> {
        let top = self.top.multiply(&other.bottom, work)?;
        Fraction::over(top, self.bottom.multiply(&other.top, work)?, work)
    }

    fn negate(&self, work: &mut Work) -> Result<Fraction, Stop> {
        Ok(Fraction { top: self.top.scale(&-BigRational::one(), work)?, bottom: self.bottom.clone() })
    }

    /// `self - other`, times both denominators: zero exactly where they are equal.
    pub(crate) fn difference(&self, other: &Fraction, work: &mut Work) -> Result<Poly, Stop> {
        let left = self.top.multiply(&other.bottom, work)?;
        let right = other.top.multiply(&self.bottom, work)?;
        left.add(&right.scale(&-BigRational::one(), work)?, work)
    }
}

/// The normal form of `expr`.
///
/// # Errors
/// If it takes too much work, or has no value.
pub(crate) fn normal(expr: &Expr, work: &mut Work) -> Result<Fraction, Stop> {
    work.take(1)?;
    Ok(match expr {
        Expr::Number { value, .. } => Fraction::whole(Poly::constant(work.bounded(value.clone())?)),
        Expr::Based { digits, base } => {
            let value = BigInt::parse_bytes(digits.as_bytes(), *base).unwrap_or_else(BigInt::zero);
            Fraction::whole(Poly::constant(work.bounded(rational(value))?))
        }
        Expr::Constant(constant) => Fraction::whole(Poly::atom(Atom::Constant(*constant))),
        Expr::Symbol(name) => Fraction::whole(Poly::atom(Atom::Symbol(name.clone()))),
        Expr::Infinity => Fraction::whole(Poly::atom(Atom::Symbol("∞".to_owned()))),
        Expr::Sum(terms) => {
            let mut sum = Fraction::whole(Poly::default());
            for term in terms {
                sum = sum.add(&normal(term, work)?, work)?;
            }
            sum
        }
        Expr::Product(factors) => {
            let mut product = Fraction::whole(Poly::constant(BigRational::one()));
            for factor in factors {
                product = product.multiply(&normal(factor, work)?, work)?;
            }
            product
        }
        Expr::Negative(inner) => normal(inner, work)?.negate(work)?,
        Expr::Quotient(top, bottom) => normal(top, work)?.divide(&normal(bottom, work)?, work)?,
        Expr::Power(base, exponent) => {
            let (base, exponent) = (normal(base, work)?, normal(exponent, work)?);
            power(base, exponent, work)?
        }
        Expr::Root(radicand, index) => root(normal(radicand, work)?, normal(index, work)?, work)?,
        Expr::Call(function, arguments) => {
            let arguments = arguments.iter().map(|a| normal(a, work)).collect::<Result<Vec<_>, _>>()?;
            call(*function, arguments, work)?
        }
        Expr::Degrees(inner) => {
            let degree = Poly::atom(Atom::Constant(Constant::Pi));
            let degree = degree.scale(&BigRational::new(1.into(), 180.into()), work)?;
            normal(inner, work)?.multiply(&Fraction::whole(degree), work)?
        }
        Expr::Percent(inner) => {
            let hundredth = Poly::constant(BigRational::new(1.into(), 100.into()));
            normal(inner, work)?.multiply(&Fraction::whole(hundredth), work)?
        }
        // Both signs at once have no single value; answers are split before they get here.
        Expr::PlusMinus(..) => return Err(Stop::Undefined),
    })
}

fn power(base: Fraction, exponent: Fraction, work: &mut Work) -> Result<Fraction, Stop> {
    let Some(number) = exponent.as_constant() else {
        return opaque(Function::Power, vec![base, exponent], work);
    };
    if let Some(whole) = small_integer(&number) {
        let count = u32::try_from(whole.unsigned_abs()).map_err(|_| Stop::TooMuch)?;
        let raised = Fraction { top: base.top.power(count, work)?, bottom: base.bottom.power(count, work)? };
        return if whole < 0 {
            Fraction::whole(Poly::constant(BigRational::one())).divide(&raised, work)
        } else {
            Fraction::over(raised.top, raised.bottom, work)
        };
    }
    let (top, bottom) = (number.numer().to_i64(), number.denom().to_i64());
    if let (Some(top @ -1000..=1000), Some(bottom @ 1..=1000)) = (top, bottom)
        && base.is_whole()
    {
        if base.top.is_zero() {
            return if top > 0 { Ok(base) } else { Err(Stop::Undefined) };
        }
        if let Some((monomial, value)) = base.top.single()
            && let Some(root) = root_of_term(monomial, value, Exponent::new(top, bottom), work)?
        {
            return Ok(Fraction::whole(root));
        }
    }
    opaque(Function::Power, vec![base, exponent], work)
}

/// Odd roots of negative numbers are real here, unlike powers with a fraction as exponent.
fn root(radicand: Fraction, index: Fraction, work: &mut Work) -> Result<Fraction, Stop> {
    let one = Fraction::whole(Poly::constant(BigRational::one()));
    let is_odd = index.as_constant().and_then(|n| small_integer(&n)).is_some_and(|n| n % 2 == 1);
    let is_negative = radicand.as_constant().is_some_and(|value| value.is_negative());
    let exponent = one.divide(&index, work)?;
    if is_odd && is_negative {
        return power(radicand.negate(work)?, exponent, work)?.negate(work);
    }
    power(radicand, exponent, work)
}

/// A call as an atom. Atoms are compared often, so large ones are refused.
fn opaque(function: Function, arguments: Vec<Fraction>, work: &mut Work) -> Result<Fraction, Stop> {
    let size: usize = arguments.iter().map(|argument| argument.top.size() + argument.bottom.size()).sum();
    work.take(size)?;
    if size > CALL {
        return Err(Stop::TooMuch);
    }
    Ok(Fraction::whole(Poly::atom(Atom::Call(function, arguments))))
}

/// A function call: its value if that is a rational known exactly, otherwise the call itself.
fn call(function: Function, arguments: Vec<Fraction>, work: &mut Work) -> Result<Fraction, Stop> {
    let numbers: Option<Vec<BigRational>> = arguments.iter().map(Fraction::as_constant).collect();
    let integers: Option<Vec<i64>> = numbers.iter().flatten().map(small_integer).collect();
    let value = match (function, numbers.as_deref(), integers.as_deref()) {
        (Function::Abs, Some([x]), _) => Some(x.abs()),
        (Function::Floor, Some([x]), _) => Some(x.floor()),
        (Function::Ceiling, Some([x]), _) => Some(x.ceil()),
        (Function::Factorial, Some(_), Some([n @ 0..=FACTORIAL])) => Some(falling(*n, *n, work)?),
        (Function::Binomial, Some(_), Some([n @ 0..=FACTORIAL, k @ 0..=FACTORIAL])) => {
            Some(falling(*n, *k, work)? / falling(*k, *k, work)?)
        }
        _ => None,
    };
    Ok(match value {
        Some(value) => Fraction::whole(Poly::constant(work.bounded(value)?)),
        None => opaque(function, arguments, work)?,
    })
}

/// `n (n-1) ... ` with `count` factors.
fn falling(n: i64, count: i64, work: &mut Work) -> Result<BigRational, Stop> {
    let mut product = BigRational::one();
    for factor in 0..count {
        product = work.bounded(product * rational(n - factor))?;
    }
    Ok(product)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::read;
    use crate::syntax::Value;

    fn form(text: &str) -> Result<Fraction, Stop> {
        match read(text, true) {
            Some(Value::Quantity { expr, .. }) => normal(&expr, &mut Work::new()),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn equal_expressions_have_the_same_form() {
        for (a, b) in [
            ("(x+1)(x-1)", "x^2-1"),
            (r"\sqrt{50}", r"5\sqrt{2}"),
            (r"\sqrt{\frac{2}{3}}", r"\frac{\sqrt{6}}{3}"),
            (r"\frac{1}{\sqrt2}", r"\frac{\sqrt2}{2}"),
            (r"\sqrt{-4}", "2i"),
            ("i^7", "-i"),
            (r"\sqrt[3]{16}", r"2\sqrt[3]{2}"),
            (r"4^{3/2}", "8"),
            (r"\frac{x^3}{x}", "x^2"),
            (r"\frac{a}{b}+\frac{c}{b}", r"\frac{a+c}{b}"),
            (r"\sqrt{\pi^2}", r"\pi"),
        ] {
            assert_eq!(form(a), form(b), "{a} {b}");
        }
    }

    #[test]
    fn a_form_is_decisive_only_where_its_atoms_are_independent() {
        let is_decisive = |text| form(text).is_ok_and(|form| form.top.is_decisive());
        assert!(is_decisive(r"x\sqrt{2}+\pi+i"));
        assert!(!is_decisive(r"\sin 1"));
        assert!(!is_decisive(r"\sqrt{1+\sqrt2}"));
        // 1000003 squared, times another large prime: not factored.
        assert!(!is_decisive(r"\sqrt{1000006000009000081}"));
    }

    #[test]
    fn work_is_bounded_and_undefined_values_are_no_values() {
        for text in ["9^{9^9}", "(a+b+c+d)^{99}", "400!", "2^{99999}"] {
            assert_eq!(form(text), Err(Stop::TooMuch), "{text}");
        }
        for text in [r"\frac{1}{0}", "0^{-1}", r"\frac{1}{x-x}"] {
            assert_eq!(form(text), Err(Stop::Undefined), "{text}");
        }
    }
}
