//! Whitening: turns rows whose components are correlated into rows whose components are not, each as near as possible
//! to what it was (ZCA, Mahalanobis).
//!
//! ```text
//! ã = Σ^(-1/2)·a        Σ = Q·Λ·Qᵀ,  Σ^(-1/2) = Q·Λ^(-1/2)·Qᵀ, symmetric, with a positive diagonal
//! ```
//!
//! **References.** Kessy, Lewin, Strimmer 2018, Optimal whitening and decorrelation, section 2: ZCA is the whitening
//! closest to the identity.

use crate::eigen::{Eigen, symmetric};

/// An eigenvalue up to this share of the greatest is due to rounding: nothing varies in its direction.
const NULL_SHARE: f64 = 1e-10;

/// A covariance, row by row, of `size` components.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Covariance {
    size: usize,
    entries: Vec<f64>,
}

impl Covariance {
    /// The covariance of rows about their mean, divided by the number of rows; the same to the bit in whatever order
    /// they come. `None` without rows.
    pub(crate) fn of(rows: &[Vec<f64>]) -> Option<Self> {
        let size = rows.first()?.len();
        let count = rows.len() as f64;
        let mean = |terms: Vec<f64>| sorted_sum(terms) / count;
        let means: Vec<f64> = (0..size).map(|at| mean(rows.iter().map(|row| row[at]).collect())).collect();
        let about = |row: &[f64], at: usize| row[at] - means[at];
        let entry = |index: usize| {
            let (one, other) = (index / size, index % size);
            mean(rows.iter().map(|row| about(row, one) * about(row, other)).collect())
        };
        Some(Covariance { size, entries: (0..size * size).map(entry).collect() })
    }

    /// From its entries, row by row. `None` unless they form a symmetric matrix of `size` rows with finite entries.
    pub(crate) fn from_entries(size: usize, entries: Vec<f64>) -> Option<Self> {
        let at = |index: usize| entries[index / size + size * (index % size)];
        let is_whole = entries.len() == size * size && entries.iter().all(|entry| entry.is_finite());
        (is_whole && (0..entries.len()).all(|index| entries[index] == at(index)))
            .then_some(Covariance { size, entries })
    }

    /// Its entries, row by row.
    pub(crate) fn entries(&self) -> &[f64] {
        &self.entries
    }

    /// `decay·self + (1 - decay)·new`.
    pub(crate) fn moved(&self, new: &Covariance, decay: f64) -> Self {
        let both = self.entries.iter().zip(&new.entries);
        let entries = both.map(|(old, new)| decay * old + (1.0 - decay) * new).collect();
        Covariance { size: self.size, entries }
    }

    /// `(1 - κ)·Σ + κ·diag(Σ) + ε·I`.
    pub(crate) fn shrunk(&self, kappa: f64, epsilon: f64) -> Self {
        let entry = |(index, entry): (usize, &f64)| match index / self.size == index % self.size {
            true => entry + epsilon,
            false => (1.0 - kappa) * entry,
        };
        Covariance { size: self.size, entries: self.entries.iter().enumerate().map(entry).collect() }
    }

    /// `Σ^(-1/2)`; a direction in which nothing varies is mapped to 0.
    pub(crate) fn inverse_root(&self) -> Whitener {
        let size = self.size;
        let Eigen { values, vectors } = symmetric(&self.entries, size);
        let greatest = values.iter().copied().fold(0.0, f64::max);
        let scales: Vec<f64> = values
            .iter()
            .map(|value| if *value > greatest * NULL_SHARE { 1.0 / value.sqrt() } else { 0.0 })
            .collect();
        let entry = |index: usize| {
            let (row, column) = (index / size, index % size);
            (0..size).map(|at| vectors[row * size + at] * scales[at] * vectors[column * size + at]).sum()
        };
        Whitener { size, entries: (0..size * size).map(entry).collect() }
    }
}

/// A matrix that makes components uncorrelated.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Whitener {
    size: usize,
    entries: Vec<f64>,
}

impl Whitener {
    /// The row, whitened.
    pub(crate) fn of(&self, row: &[f64]) -> Vec<f64> {
        let rows = self.entries.chunks(self.size.max(1));
        rows.map(|own| own.iter().zip(row).map(|(entry, value)| entry * value).sum()).collect()
    }
}

fn sorted_sum(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(size: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
        prop::collection::vec(prop::collection::vec(-1.0..1.0f64, size), 3 * size..8 * size)
    }

    fn identity(size: usize) -> Vec<f64> {
        (0..size * size).map(|index| f64::from(u8::from(index / size == index % size))).collect()
    }

    proptest! {
        #[test]
        fn whitened_rows_are_uncorrelated_with_a_variance_of_one(rows in (1..6usize).prop_flat_map(rows)) {
            let whitener = Covariance::of(&rows).unwrap().inverse_root();
            let whitened: Vec<Vec<f64>> = rows.iter().map(|row| whitener.of(row)).collect();
            let found = Covariance::of(&whitened).unwrap();
            for (found, expected) in found.entries().iter().zip(identity(found.size)) {
                prop_assert!((found - expected).abs() < 1e-9, "{found} for {expected}");
            }
        }

        #[test]
        fn the_matrix_is_symmetric_with_a_positive_diagonal(rows in (1..6usize).prop_flat_map(rows)) {
            let covariance = Covariance::of(&rows).unwrap();
            for kappa in [0.0, 0.05, 1.0] {
                let Whitener { size, entries } = covariance.shrunk(kappa, 1e-6).inverse_root();
                for row in 0..size {
                    prop_assert!(entries[row * size + row] > 0.0);
                    for column in 0..size {
                        let (one, other) = (entries[row * size + column], entries[column * size + row]);
                        prop_assert!((one - other).abs() <= 1e-12 * one.abs().max(1.0));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_white_stays_to_the_bit() {
        let rows = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]].map(Vec::from);
        let covariance = Covariance::of(&rows).unwrap();
        assert_eq!(covariance.entries(), identity(2));
        assert_eq!(covariance.inverse_root().entries, identity(2));
        assert_eq!(covariance.shrunk(0.3, 0.0), covariance);
        assert_eq!(covariance.shrunk(0.0, 3.0).inverse_root().of(&[1.0, -4.0]), [0.5, -2.0]);
    }

    #[test]
    fn a_direction_in_which_nothing_varies_gets_nothing() {
        let rows = [[1.0, 1.0, 1.0], [-1.0, -1.0, 1.0], [1.0, 1.0, -1.0], [-1.0, -1.0, -1.0]].map(Vec::from);
        let whitener = Covariance::of(&rows).unwrap().inverse_root();
        let found = whitener.of(&[1.0, -1.0, 0.0]);
        assert!(found.iter().all(|value| value.abs() < 1e-12), "{found:?}");
        let nothing = Covariance::of(&[vec![3.0, 3.0]]).unwrap().inverse_root();
        assert_eq!(nothing.of(&[3.0, 3.0]), [0.0, 0.0]);
        assert_eq!(Covariance::of(&[]), None);
    }

    #[test]
    fn entries_that_are_no_covariance_are_refused() {
        assert!(Covariance::from_entries(2, vec![1.0, 0.5, 0.5, 1.0]).is_some());
        for wrong in [vec![1.0], vec![1.0, 0.5, 0.4, 1.0], vec![1.0, f64::NAN, f64::NAN, 1.0]] {
            assert_eq!(Covariance::from_entries(2, wrong), None);
        }
    }
}
