//! A bound on the work of one judgement, so that no answer can take much time or memory.

use num_bigint::BigInt;
use num_rational::BigRational;

/// Why an exact computation stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Too many steps or digits: the caller falls back to inexact values.
    TooMuch,
    /// The value does not exist (`1/0`).
    Undefined,
}

/// Steps left. One step is one product of two terms, or one operation on rationals of bounded size.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    left: u32,
}

/// Steps of exact arithmetic in one comparison.
pub(crate) const STEPS: u32 = 50_000;
/// Bits of any numerator or denominator.
pub(crate) const BITS: u64 = 2048;

impl Work {
    /// A full budget.
    pub(crate) fn new() -> Self {
        Work { left: STEPS }
    }

    /// Steps used so far.
    #[cfg(test)]
    pub(crate) fn spent(&self) -> u32 {
        STEPS - self.left
    }

    /// Takes `steps`.
    pub(crate) fn take(&mut self, steps: usize) -> Result<(), Stop> {
        let steps = u32::try_from(steps).map_err(|_| Stop::TooMuch)?;
        self.left = self.left.checked_sub(steps).ok_or(Stop::TooMuch)?;
        Ok(())
    }

    /// Refuses a rational that has grown too large.
    pub(crate) fn bounded(&mut self, value: BigRational) -> Result<BigRational, Stop> {
        // Reducing a fraction takes time quadratic in its length, so it has a cost.
        let bits = value.numer().bits().max(value.denom().bits());
        if bits > BITS {
            return Err(Stop::TooMuch);
        }
        let words = (bits / 64) as usize;
        self.take(1 + words * words / 2)?;
        Ok(value)
    }

    /// `base ^ exponent`, refused before it is computed if the result would be too long.
    pub(crate) fn power(&mut self, base: &BigRational, exponent: i64) -> Result<BigRational, Stop> {
        use num_traits::{One, Zero};
        if exponent < 0 && base.is_zero() {
            return Err(Stop::Undefined);
        }
        if base.is_zero() || base.is_one() || exponent == 0 {
            return Ok(if exponent == 0 { BigRational::one() } else { base.clone() });
        }
        let bits = base.numer().bits().max(base.denom().bits());
        let bits = bits.checked_mul(exponent.unsigned_abs()).ok_or(Stop::TooMuch)?;
        if bits > 2 * BITS {
            return Err(Stop::TooMuch);
        }
        let exponent = i32::try_from(exponent).map_err(|_| Stop::TooMuch)?;
        self.bounded(base.pow(exponent))
    }
}

/// The rational of an integer.
pub(crate) fn rational(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_and_large_powers_are_refused_before_they_are_computed() {
        let mut work = Work::new();
        assert_eq!(work.take(STEPS as usize), Ok(()));
        assert_eq!(work.take(1), Err(Stop::TooMuch));
        let mut work = Work::new();
        assert_eq!(work.power(&rational(9), i64::MAX), Err(Stop::TooMuch));
        assert_eq!(work.power(&rational(2), 10), Ok(rational(1024)));
        assert_eq!(work.power(&rational(0), -1), Err(Stop::Undefined));
        assert_eq!(work.power(&rational(1), i64::MIN), Ok(rational(1)));
        assert!(work.spent() < 10);
    }
}
