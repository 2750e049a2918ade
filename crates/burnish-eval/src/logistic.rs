//! Logistic regression: which of some numbers tell a label.

use serde::{Deserialize, Serialize};

/// Weight of the squared weights in the loss.
const L2: f64 = 1e-3;
/// Most Newton steps; a few suffice, as the loss is convex.
const STEPS_MAX: usize = 50;

/// Logistic regression, fitted on `mean BCE(w·x + b, y) + 1e-3 Σ w²` by Newton's method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Logistic {
    /// The logit of a row of zeros.
    pub bias: f64,
    /// What each number adds to it.
    pub weights: Vec<f64>,
}

impl Logistic {
    /// Fits rows of numbers to their labels. `None` if there are none, or the rows differ in length.
    #[must_use]
    pub fn fit(rows: &[Vec<f64>], labels: &[bool]) -> Option<Self> {
        let width = rows.first()?.len();
        if rows.len() != labels.len() || rows.iter().any(|row| row.len() != width) {
            return None;
        }
        let labels: Vec<f64> = labels.iter().map(|label| f64::from(*label)).collect();
        let mut point = vec![0.0; width + 1];
        for _ in 0..STEPS_MAX {
            let (gradient, hessian) = slopes(rows, &labels, &point);
            let step = solve(hessian, gradient)?;
            // Newton's step may overshoot where the logits saturate; half of it still descends.
            let (before, mut length) = (loss(rows, &labels, &point), 1.0);
            let moved = |length: f64| -> Vec<f64> {
                point.iter().zip(&step).map(|(x, step)| x - length * step).collect()
            };
            while length > 1e-6 && loss(rows, &labels, &moved(length)) > before {
                length /= 2.0;
            }
            let next = moved(length);
            let change = next.iter().zip(&point).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            point = next;
            if change < 1e-9 {
                break;
            }
        }
        let bias = point.pop()?;
        Some(Logistic { bias, weights: point })
    }

    /// The probability of the label. Numbers beyond those that it was fitted on are not read.
    #[must_use]
    pub fn probability(&self, row: &[f64]) -> f64 {
        sigmoid(self.bias + self.weights.iter().zip(row).map(|(w, x)| w * x).sum::<f64>())
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The logit of a row at a point: weights, then the bias.
fn logit(row: &[f64], point: &[f64]) -> f64 {
    row.iter().zip(point).map(|(x, w)| x * w).sum::<f64>() + point[row.len()]
}

fn loss(rows: &[Vec<f64>], labels: &[f64], point: &[f64]) -> f64 {
    let n = rows.len().max(1) as f64;
    let of = |(row, label): (&Vec<f64>, &f64)| {
        let logit = logit(row, point);
        // log(1 + e^x) - y x, without overflow.
        logit.max(0.0) + (-logit.abs()).exp().ln_1p() - label * logit
    };
    let weights = &point[..point.len() - 1];
    rows.iter().zip(labels).map(of).sum::<f64>() / n + L2 * weights.iter().map(|w| w * w).sum::<f64>()
}

/// Gradient and Hessian of the loss.
fn slopes(rows: &[Vec<f64>], labels: &[f64], point: &[f64]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let (size, n) = (point.len(), rows.len().max(1) as f64);
    let mut gradient = vec![0.0; size];
    let mut hessian = vec![vec![0.0; size]; size];
    for (row, label) in rows.iter().zip(labels) {
        let p = sigmoid(logit(row, point));
        let x: Vec<f64> = row.iter().copied().chain([1.0]).collect();
        for ((slope, curve), own) in gradient.iter_mut().zip(&mut hessian).zip(&x) {
            *slope += (p - label) * own / n;
            curve.iter_mut().zip(&x).for_each(|(curve, other)| *curve += p * (1.0 - p) * own * other / n);
        }
    }
    for (at, (slope, curve)) in gradient.iter_mut().zip(&mut hessian).enumerate() {
        if at + 1 < size {
            *slope += 2.0 * L2 * point[at];
            curve[at] += 2.0 * L2;
        } else {
            // A bias without a bound runs away where every cell is marked, or none.
            curve[at] += 1e-9;
        }
    }
    (gradient, hessian)
}

/// Solves `matrix · x = right` for a positive definite matrix (Cholesky). `None` if it is not one.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let size = right.len();
    for i in 0..size {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| matrix[i][k] * matrix[j][k]).sum();
            let rest = matrix[i][j] - sum;
            matrix[i][j] = if i == j {
                if rest <= 0.0 || !rest.is_finite() {
                    return None;
                }
                rest.sqrt()
            } else {
                rest / matrix[j][j]
            };
        }
    }
    for i in 0..size {
        let sum: f64 = (0..i).map(|k| matrix[i][k] * right[k]).sum();
        right[i] = (right[i] - sum) / matrix[i][i];
    }
    for i in (0..size).rev() {
        let sum: f64 = (i + 1..size).map(|k| matrix[k][i] * right[k]).sum();
        right[i] = (right[i] - sum) / matrix[i][i];
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(seed: usize, n: usize) -> Vec<f64> {
        (0..n).map(|at| ((seed * 31 + at * 17) as f64 * 0.618_034).fract()).collect()
    }

    #[test]
    fn rows_that_do_not_fit_together_are_not_learned_from() {
        assert_eq!(Logistic::fit(&[], &[]), None);
        assert_eq!(Logistic::fit(&[vec![1.0], vec![1.0, 2.0]], &[true, false]), None);
        assert_eq!(Logistic::fit(&[vec![1.0]], &[true, false]), None);
        let told = Logistic::fit(&[vec![-1.0], vec![1.0]], &[false, true]).unwrap();
        assert!(told.probability(&[-1.0]) < 0.1 && told.probability(&[1.0]) > 0.9);
    }

    proptest! {
        #[test]
        fn slopes_are_those_of_the_loss(seed in 0_usize..1000, heads in 0_usize..4) {
            let rows: Vec<Vec<f64>> = (0..6).map(|at| numbers(seed + at, heads)).collect();
            let labels: Vec<f64> = (0..6).map(|at| f64::from((seed + at) % 3 == 0)).collect();
            let point: Vec<f64> = numbers(seed + 50, heads + 1).iter().map(|x| 4.0 * x - 2.0).collect();
            let (gradient, hessian) = slopes(&rows, &labels, &point);
            for at in 0..=heads {
                let moved = |by: f64| {
                    let mut point = point.clone();
                    point[at] += by;
                    point
                };
                let difference = (loss(&rows, &labels, &moved(1e-5)) - loss(&rows, &labels, &moved(-1e-5))) / 2e-5;
                prop_assert!((gradient[at] - difference).abs() < 1e-8);
                let above = slopes(&rows, &labels, &moved(1e-5)).0;
                let below = slopes(&rows, &labels, &moved(-1e-5)).0;
                for other in 0..=heads {
                    let difference = (above[other] - below[other]) / 2e-5;
                    prop_assert!((hessian[other][at] - difference).abs() < 1e-7);
                }
            }
        }
    }
}
