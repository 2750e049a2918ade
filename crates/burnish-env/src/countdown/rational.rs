//! Exact fractions of integers.

use std::fmt;

use super::Operator;

/// A fraction in lowest terms; the denominator is positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rational {
    numerator: i128,
    denominator: i128,
}

/// Why a result does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A divisor is 0.
    #[error("division by zero")]
    DivisionByZero,
    /// A numerator or denominator exceeds 128 bits.
    #[error("a number is too large")]
    Overflow,
}

impl Rational {
    /// The integer `value`.
    pub fn whole(value: i128) -> Self {
        Rational { numerator: value, denominator: 1 }
    }

    /// `numerator / denominator` in lowest terms.
    fn reduced(numerator: i128, denominator: i128) -> Result<Self, Fault> {
        if denominator == 0 {
            return Err(Fault::DivisionByZero);
        }
        let divisor = gcd(numerator.unsigned_abs(), denominator.unsigned_abs());
        let divisor = i128::try_from(divisor).map_err(|_| Fault::Overflow)?;
        let (numerator, denominator) = (numerator / divisor, denominator / divisor);
        if denominator > 0 {
            return Ok(Rational { numerator, denominator });
        }
        let numerator = numerator.checked_neg().ok_or(Fault::Overflow)?;
        let denominator = denominator.checked_neg().ok_or(Fault::Overflow)?;
        Ok(Rational { numerator, denominator })
    }

    /// The value, if it is an integer.
    pub fn as_whole(self) -> Option<i128> {
        (self.denominator == 1).then_some(self.numerator)
    }

    /// `self operator right`, exactly.
    ///
    /// # Errors
    /// If the divisor is 0 or the result exceeds 128 bits.
    pub fn apply(self, operator: Operator, right: Self) -> Result<Self, Fault> {
        let multiply = |a: i128, b: i128| a.checked_mul(b).ok_or(Fault::Overflow);
        let (a, b) = (self.numerator, self.denominator);
        let (c, d) = (right.numerator, right.denominator);
        match operator {
            Operator::Add => {
                let sum = multiply(a, d)?.checked_add(multiply(c, b)?).ok_or(Fault::Overflow)?;
                Rational::reduced(sum, multiply(b, d)?)
            }
            Operator::Subtract => {
                let difference = multiply(a, d)?.checked_sub(multiply(c, b)?).ok_or(Fault::Overflow)?;
                Rational::reduced(difference, multiply(b, d)?)
            }
            Operator::Multiply => Rational::reduced(multiply(a, c)?, multiply(b, d)?),
            Operator::Divide => Rational::reduced(multiply(a, d)?, multiply(b, c)?),
        }
    }
}

impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_whole() {
            Some(whole) => write!(f, "{whole}"),
            None => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

/// Greatest common divisor (Euclid); `gcd(0, n) = n`.
fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fraction(numerator: i128, denominator: i128) -> Rational {
        Rational::reduced(numerator, denominator).unwrap()
    }

    #[test]
    fn fractions_are_kept_in_lowest_terms_with_a_positive_denominator() {
        assert_eq!(fraction(4, -6), fraction(-2, 3));
        assert_eq!(fraction(4, -6).to_string(), "-2/3");
        assert_eq!(fraction(-8, -4).as_whole(), Some(2));
        assert_eq!(fraction(0, -5), Rational::whole(0));
    }

    #[test]
    fn arithmetic_is_exact() {
        let third = fraction(1, 3);
        let half = fraction(1, 2);
        assert_eq!(third.apply(Operator::Add, half), Ok(fraction(5, 6)));
        assert_eq!(third.apply(Operator::Subtract, half), Ok(fraction(-1, 6)));
        assert_eq!(third.apply(Operator::Multiply, half), Ok(fraction(1, 6)));
        assert_eq!(third.apply(Operator::Divide, half), Ok(fraction(2, 3)));
    }

    #[test]
    fn what_has_no_result_is_a_fault() {
        let (zero, huge) = (Rational::whole(0), Rational::whole(i128::MAX));
        assert_eq!(huge.apply(Operator::Divide, zero), Err(Fault::DivisionByZero));
        assert_eq!(huge.apply(Operator::Add, Rational::whole(1)), Err(Fault::Overflow));
        assert_eq!(huge.apply(Operator::Multiply, huge), Err(Fault::Overflow));
        let least = Rational::whole(i128::MIN);
        assert_eq!(Rational::whole(1).apply(Operator::Divide, least), Err(Fault::Overflow));
        assert_eq!(least.apply(Operator::Divide, least), Err(Fault::Overflow));
    }
}
