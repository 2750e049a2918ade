//! Polynomials over atoms (variables, constants, roots of primes, opaque calls) with rational coefficients.
//!
//! Roots of distinct primes are linearly independent over the rationals, so in this form a sum of radicals is zero
//! exactly when it has no terms.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::{BigRational, Ratio};
use num_traits::{One, Signed, ToPrimitive, Zero};

use crate::normal::Fraction;
use crate::syntax::{Constant, Function};
use crate::work::{Stop, Work, rational};

/// What a monomial is made of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Atom {
    /// A prime under a root, or a large number that could not be factored.
    Prime(BigInt),
    Constant(Constant),
    Symbol(String),
    /// A function that stays as it is.
    Call(Function, Vec<Fraction>),
}

/// Exponents are small rationals.
pub(crate) type Exponent = Ratio<i64>;
/// The largest numerator or denominator of an exponent.
const EXPONENT: i64 = 100_000;
/// The most terms of a polynomial.
const TERMS: usize = 2000;
/// Primes below this are divided out.
const TRIAL: u32 = 1000;

/// A product of powers of atoms.
pub(crate) type Monomial = BTreeMap<Atom, Exponent>;

/// Terms with their coefficients, none of them zero.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Poly(pub(crate) BTreeMap<Monomial, BigRational>);

impl Poly {
    pub(crate) fn constant(value: BigRational) -> Poly {
        Poly::term(Monomial::new(), value)
    }

    pub(crate) fn atom(atom: Atom) -> Poly {
        Poly::term(Monomial::from([(atom, Exponent::one())]), BigRational::one())
    }

    pub(crate) fn term(monomial: Monomial, coefficient: BigRational) -> Poly {
        let mut poly = Poly::default();
        if !coefficient.is_zero() {
            poly.0.insert(monomial, coefficient);
        }
        poly
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// The value, if this is only a number.
    pub(crate) fn as_constant(&self) -> Option<BigRational> {
        match self.single() {
            None if self.is_zero() => Some(BigRational::zero()),
            Some((monomial, value)) if monomial.is_empty() => Some(value.clone()),
            _ => None,
        }
    }

    /// The number of atoms and terms, including those inside of calls.
    pub(crate) fn size(&self) -> usize {
        let of_atom = |atom: &Atom| match atom {
            Atom::Call(_, arguments) => arguments.iter().map(|a| a.top.size() + a.bottom.size()).sum(),
            _ => 1,
        };
        self.0.keys().map(|monomial| 1 + monomial.keys().map(of_atom).sum::<usize>()).sum()
    }

    /// The term, if there is only one.
    pub(crate) fn single(&self) -> Option<(&Monomial, &BigRational)> {
        (self.0.len() == 1).then(|| self.0.iter().next()).flatten()
    }

    pub(crate) fn add(&self, other: &Poly, work: &mut Work) -> Result<Poly, Stop> {
        let mut sum = self.clone();
        work.take(self.0.len())?;
        for (monomial, coefficient) in &other.0 {
            sum.add_term(monomial.clone(), coefficient.clone(), work)?;
        }
        Ok(sum)
    }

    fn add_term(&mut self, monomial: Monomial, value: BigRational, work: &mut Work) -> Result<(), Stop> {
        let total = self.0.remove(&monomial).unwrap_or_else(BigRational::zero) + value;
        let total = work.bounded(total)?;
        if !total.is_zero() {
            self.0.insert(monomial, total);
        }
        if self.0.len() > TERMS { Err(Stop::TooMuch) } else { Ok(()) }
    }

    pub(crate) fn scale(&self, factor: &BigRational, work: &mut Work) -> Result<Poly, Stop> {
        let mut scaled = Poly::default();
        for (monomial, value) in &self.0 {
            scaled.add_term(monomial.clone(), value * factor, work)?;
        }
        Ok(scaled)
    }

    pub(crate) fn multiply(&self, other: &Poly, work: &mut Work) -> Result<Poly, Stop> {
        let mut product = Poly::default();
        for (left, left_value) in &self.0 {
            for (right, right_value) in &other.0 {
                work.take(1 + left.len() + right.len())?;
                let (factor, monomial) = join(left, right, work)?;
                let value = work.bounded(left_value * right_value)? * factor;
                product.add_term(monomial, value, work)?;
            }
        }
        Ok(product)
    }

    pub(crate) fn power(&self, exponent: u32, work: &mut Work) -> Result<Poly, Stop> {
        if let Some(value) = self.as_constant() {
            return Ok(Poly::constant(work.power(&value, i64::from(exponent))?));
        }
        let mut result = Poly::constant(BigRational::one());
        // From the highest bit, so that no square is computed that is not used.
        for bit in (0..32 - exponent.leading_zeros()).rev() {
            result = result.multiply(&result, work)?;
            if exponent >> bit & 1 == 1 {
                result = result.multiply(self, work)?;
            }
        }
        Ok(result)
    }

    /// Whether "has terms" proves "is not zero": it does if the relations between all atoms are known.
    pub(crate) fn is_decisive(&self) -> bool {
        self.0.keys().flat_map(|monomial| monomial.iter()).all(|(atom, exponent)| match atom {
            Atom::Prime(prime) => *prime < BigInt::from(TRIAL) * TRIAL,
            Atom::Constant(_) => true,
            Atom::Symbol(name) => exponent.is_integer() && name != "∞",
            Atom::Call(..) => false,
        })
    }
}

/// The product of two monomials, and the rational that falls out of it.
fn join(left: &Monomial, right: &Monomial, work: &mut Work) -> Result<(BigRational, Monomial), Stop> {
    let mut joined = left.clone();
    for (atom, exponent) in right {
        let total = joined.remove(atom).unwrap_or_else(Exponent::zero) + exponent;
        if total.numer().abs() > EXPONENT || *total.denom() > EXPONENT {
            return Err(Stop::TooMuch);
        }
        if !total.is_zero() {
            joined.insert(atom.clone(), total);
        }
    }
    reduce(joined, work)
}

/// Takes whole powers of primes and even powers of `i` out of a monomial.
fn reduce(monomial: Monomial, work: &mut Work) -> Result<(BigRational, Monomial), Stop> {
    let mut factor = BigRational::one();
    let mut reduced = Monomial::new();
    for (atom, exponent) in monomial {
        let rest = match &atom {
            Atom::Prime(prime) => {
                let whole = exponent.floor();
                factor *= work.power(&rational(prime.clone()), whole.to_integer())?;
                exponent - whole
            }
            Atom::Constant(Constant::I) if exponent.is_integer() => {
                let quarter = exponent.to_integer().rem_euclid(4);
                if quarter >= 2 {
                    factor = -factor;
                }
                Exponent::from_integer(quarter % 2)
            }
            _ => exponent,
        };
        if !rest.is_zero() {
            reduced.insert(atom, rest);
        }
    }
    Ok((work.bounded(factor)?, reduced))
}

/// A term raised to a rational power, if that is safe (a positive coefficient, and atoms that are positive); otherwise
/// `None`.
pub(crate) fn root_of_term(
    monomial: &Monomial,
    value: &BigRational,
    exponent: Exponent,
    work: &mut Work,
) -> Result<Option<Poly>, Stop> {
    let is_square_root = *exponent.denom() == 2;
    if value.is_negative() && !is_square_root {
        return Ok(None);
    }
    let is_safe = |(atom, power): (&Atom, &Exponent)| match atom {
        Atom::Prime(_) | Atom::Constant(Constant::Pi | Constant::E) => true,
        // The root of a bare variable is a power of it; the root of its square is not.
        Atom::Symbol(_) => monomial.len() == 1 && power.is_one() && value.is_positive(),
        _ => false,
    };
    if !monomial.iter().all(is_safe) {
        return Ok(None);
    }
    let mut powers = Monomial::new();
    for (atom, power) in monomial {
        powers.insert(atom.clone(), power * exponent);
    }
    for (part, sign) in [(value.numer().abs(), 1), (value.denom().clone(), -1)] {
        for (prime, count) in factor(part, work)? {
            let total = powers.remove(&Atom::Prime(prime.clone())).unwrap_or_else(Exponent::zero);
            powers.insert(Atom::Prime(prime), total + exponent * Exponent::from_integer(count * sign));
        }
    }
    if value.is_negative() {
        powers.insert(Atom::Constant(Constant::I), Exponent::from_integer(*exponent.numer()));
    }
    let (factor, reduced) = reduce(powers, work)?;
    Ok(Some(Poly::term(reduced, factor)))
}

/// Divides out small primes; the rest is kept as one factor (as its square root, if that is whole).
fn factor(mut number: BigInt, work: &mut Work) -> Result<Vec<(BigInt, i64)>, Stop> {
    let mut factors = Vec::new();
    work.take(200)?;
    for candidate in 2..TRIAL {
        if number.is_one() {
            break;
        }
        if candidate > 3 && (candidate % 2 == 0 || candidate % 3 == 0) {
            continue;
        }
        let mut count = 0;
        while (&number % candidate).is_zero() {
            number /= candidate;
            count += 1;
        }
        if count > 0 {
            work.take(count as usize)?;
            factors.push((BigInt::from(candidate), count));
        }
    }
    if !number.is_one() {
        let root = number.sqrt();
        if &root * &root == number { factors.push((root, 2)) } else { factors.push((number, 1)) }
    }
    Ok(factors)
}

/// A small integer.
pub(crate) fn small_integer(value: &BigRational) -> Option<i64> {
    value.is_integer().then(|| value.to_integer().to_i64()).flatten()
}
