//! The least rotation that carries one subspace to another.

use crate::dense::{Columns, svd};
use crate::sweep::dot;

/// `R = I + Σⱼ (−sⱼsⱼᵀ/(1+cⱼ) + 2 bⱼaⱼᵀ)`, with `sⱼ = aⱼ + bⱼ` and `cⱼ = aⱼ·bⱼ`. The planes of different pairs are orthogonal, so
/// the product of their rotations is this sum.
#[derive(Debug)]
pub(super) struct Rotation {
    pairs: Vec<Pair>,
}

#[derive(Debug)]
struct Pair {
    from: Vec<f32>,
    to: Vec<f32>,
    sum: Vec<f32>,
    cosine: f64,
}

/// Pairs that are nearly opposite have no least rotation. Principal vectors never are, except by rounding.
const COSINE_MIN: f64 = -0.9;

impl Rotation {
    /// From the columns of `from` to those of `to`, which are orthonormal.
    pub(super) fn between(from: &Columns, to: &Columns) -> Self {
        let found = svd(&from.transposed_times(to));
        Rotation::of_pairs(&from.times(&found.left), &to.times(&found.right))
    }

    /// From each column of `from` to that of `to`; the planes of the pairs are orthogonal to each other.
    pub(super) fn of_pairs(from: &Columns, to: &Columns) -> Self {
        let mut pairs = Vec::new();
        for at in 0..from.cols().min(to.cols()) {
            let (a, b) = (from.col(at), to.col(at));
            let cosine: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            if cosine < COSINE_MIN {
                continue;
            }
            let narrow = |values: &[f64]| values.iter().map(|value| *value as f32).collect::<Vec<f32>>();
            let sum: Vec<f64> = a.iter().zip(b).map(|(a, b)| a + b).collect();
            pairs.push(Pair { from: narrow(a), to: narrow(b), sum: narrow(&sum), cosine });
        }
        Rotation { pairs }
    }

    /// `row ← row Rᵀ`, that is `R row`.
    pub(super) fn turn(&self, row: &mut [f32]) {
        let given = row.to_vec();
        for pair in &self.pairs {
            let along_sum = (-dot(&given, &pair.sum) / (1.0 + pair.cosine)) as f32;
            let along_from = (2.0 * dot(&given, &pair.from)) as f32;
            for ((row, sum), to) in row.iter_mut().zip(&pair.sum).zip(&pair.to) {
                *row += along_sum * sum + along_from * to;
            }
        }
    }
}
