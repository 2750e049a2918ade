//! Eigenvalues and eigenvectors of small symmetric matrices, by cyclic Jacobi rotations.
//!
//! For a handful of dimensions, such as reward components. At that size, one rotation at a time is as fast as any other
//! method, is accurate for small eigenvalues too, and needs no dependency. A sweep costs `O(n³)`, and some six sweeps
//! are enough.
//!
//! **References.** Golub and Van Loan, Matrix Computations, 4th ed., section 8.5.

/// `A = Q·diag(values)·Qᵀ` of a symmetric `A`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Eigen {
    /// In no particular order.
    pub(crate) values: Vec<f64>,
    /// `Q`, row by row: column `k` belongs to `values[k]`.
    pub(crate) vectors: Vec<f64>,
}

/// More than any matrix of finite numbers needs.
const SWEEPS_MAX: usize = 64;

/// The decomposition of a symmetric matrix with `size` rows, given row by row.
pub(crate) fn symmetric(matrix: &[f64], size: usize) -> Eigen {
    let mut rest = matrix.to_vec();
    let mut vectors = vec![0.0; size * size];
    (0..size).for_each(|at| vectors[at * size + at] = 1.0);
    let norm: f64 = rest.iter().map(|entry| entry * entry).sum();
    for _ in 0..SWEEPS_MAX {
        let pairs = || (0..size).flat_map(|row| (row + 1..size).map(move |column| (row, column)));
        let off: f64 = pairs().map(|(row, column)| rest[row * size + column].powi(2)).sum();
        // What is left is below the rounding of every entry.
        if off <= norm * f64::EPSILON * f64::EPSILON * f64::EPSILON {
            break;
        }
        for (row, column) in pairs() {
            rotate(&mut rest, &mut vectors, size, row, column);
        }
    }
    Eigen { values: (0..size).map(|at| rest[at * size + at]).collect(), vectors }
}

/// The rotation in the plane of `p` and `q` that makes their entry 0.
fn rotate(rest: &mut [f64], vectors: &mut [f64], size: usize, p: usize, q: usize) {
    let off = rest[p * size + q];
    if off == 0.0 {
        return;
    }
    let theta = (rest[q * size + q] - rest[p * size + p]) / (2.0 * off);
    // The smaller of the two angles; `hypot` does not overflow.
    let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = tangent * cosine;
    let turn = |entries: &mut [f64], first: usize, second: usize| {
        let (own, other) = (entries[first], entries[second]);
        entries[first] = cosine * own - sine * other;
        entries[second] = sine * own + cosine * other;
    };
    for at in 0..size {
        turn(rest, at * size + p, at * size + q);
    }
    for at in 0..size {
        turn(rest, p * size + at, q * size + at);
        turn(vectors, at * size + p, at * size + q);
    }
    rest[p * size + q] = 0.0;
    rest[q * size + p] = 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE_MAX: usize = 8;

    /// A symmetric matrix, some entries far greater than others.
    fn matrices() -> impl Strategy<Value = (usize, Vec<f64>)> {
        let entry = prop_oneof![1 => Just(0.0), 4 => -1.0..1.0f64, 1 => -1e6..1e6f64];
        (1..=SIZE_MAX, prop::collection::vec(entry, SIZE_MAX * SIZE_MAX)).prop_map(|(size, entries)| {
            let at = |row: usize, column: usize| entries[row.min(column) * SIZE_MAX + row.max(column)];
            (size, (0..size * size).map(|index| at(index / size, index % size)).collect())
        })
    }

    fn largest(matrix: &[f64]) -> f64 {
        matrix.iter().fold(0.0, |most, entry| entry.abs().max(most))
    }

    proptest! {
        #[test]
        fn vectors_are_orthonormal_and_give_the_matrix_back((size, matrix) in matrices()) {
            let Eigen { values, vectors } = symmetric(&matrix, size);
            let sum = |term: &dyn Fn(usize) -> f64| (0..size).map(term).sum::<f64>();
            for row in 0..size {
                for column in 0..size {
                    let dot = sum(&|at| vectors[at * size + row] * vectors[at * size + column]);
                    let unit = f64::from(u8::from(row == column));
                    prop_assert!((dot - unit).abs() < 1e-13, "{dot} for {unit}");
                    let again = sum(&|at| vectors[row * size + at] * values[at] * vectors[column * size + at]);
                    let expected = matrix[row * size + column];
                    prop_assert!((again - expected).abs() <= 1e-13 * largest(&matrix), "{again} for {expected}");
                }
            }
        }

        #[test]
        fn the_trace_is_the_sum_of_the_values((size, matrix) in matrices()) {
            let trace: f64 = (0..size).map(|at| matrix[at * size + at]).sum();
            let sum: f64 = symmetric(&matrix, size).values.iter().sum();
            prop_assert!((trace - sum).abs() <= 1e-13 * largest(&matrix).max(1.0));
        }
    }

    #[test]
    fn known_values() {
        let found = symmetric(&[2.0, 1.0, 1.0, 2.0], 2).values;
        let (least, most) = (found[0].min(found[1]), found[0].max(found[1]));
        assert!((least - 1.0).abs() < 1e-15 && (most - 3.0).abs() < 1e-15, "{found:?}");
        // A diagonal matrix is left as it is.
        let found = symmetric(&[4.0, 0.0, 0.0, -1.0], 2);
        assert_eq!(found, Eigen { values: vec![4.0, -1.0], vectors: vec![1.0, 0.0, 0.0, 1.0] });
    }
}
