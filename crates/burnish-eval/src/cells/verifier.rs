//! The verifier: which heads' attention tells the cells that matter.

use serde::{Deserialize, Serialize};

use super::standardised;

/// Weight of the squared weights in the loss, per head (card of TABATTN).
const L2: f64 = 1e-3;
/// Most Newton steps; a few suffice, as the loss is convex.
const STEPS_MAX: usize = 50;

/// One step of a plan, to learn from: the attention of every head to every cell, `[heads][cells]`, and the cells that it
/// should look at.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Shares of attention.
    pub heads: Vec<Vec<f64>>,
    /// The right cells.
    pub mask: Vec<bool>,
}

/// Logistic regression from the heads' standardised attention to the right cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verifier {
    /// What a cell has without attention.
    pub bias: f64,
    /// What each head adds.
    pub weights: Vec<f64>,
}

impl Verifier {
    /// Fits `mean over cells of BCE(â_c, M_c) + 1e-3 Σ_h w_h²` by Newton's method. `None` if there is nothing to learn from,
    /// or the items do not have the same heads.
    #[must_use]
    pub fn fit(seen: &[Seen]) -> Option<Self> {
        let heads = seen.first()?.heads.len();
        let (mut rows, mut labels) = (Vec::new(), Vec::new());
        for one in seen {
            if one.heads.len() != heads {
                return None;
            }
            rows.extend(features(&one.heads, one.mask.len())?);
            labels.extend(one.mask.iter().map(|marked| f64::from(*marked)));
        }
        let mut point = vec![0.0; heads + 1];
        for _ in 0..STEPS_MAX {
            let (gradient, hessian) = slopes(&rows, &labels, &point);
            let step = solve(hessian, gradient)?;
            // Newton's step may overshoot where the logits saturate; half of it still descends.
            let (before, mut length) = (loss(&rows, &labels, &point), 1.0);
            let moved = |length: f64| -> Vec<f64> {
                point.iter().zip(&step).map(|(x, step)| x - length * step).collect()
            };
            while length > 1e-6 && loss(&rows, &labels, &moved(length)) > before {
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
        Some(Verifier { bias, weights: point })
    }

    /// How likely each cell is one that the step should look at. `None` if there are other heads than it was fitted on.
    #[must_use]
    pub fn cells(&self, heads: &[Vec<f64>]) -> Option<Vec<f64>> {
        if heads.len() != self.weights.len() {
            return None;
        }
        let cells = heads.first().map_or(0, Vec::len);
        let rows = features(heads, cells)?;
        let logit =
            |row: &Vec<f64>| self.bias + self.weights.iter().zip(row).map(|(w, x)| w * x).sum::<f64>();
        Some(rows.iter().map(|row| sigmoid(logit(row))).collect())
    }
}

/// For each cell the standardised attention of each head; `None` if a head has another number of cells.
fn features(heads: &[Vec<f64>], cells: usize) -> Option<Vec<Vec<f64>>> {
    if heads.iter().any(|head| head.len() != cells) {
        return None;
    }
    let scores: Vec<Vec<f64>> = heads.iter().map(|head| standardised(head)).collect();
    Some((0..cells).map(|cell| scores.iter().map(|head| head[cell]).collect()).collect())
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
    fn without_heads_it_gives_the_base_rate() {
        let seen = Seen { heads: Vec::new(), mask: vec![true, false, false, false] };
        let verifier = Verifier::fit(&[seen]).unwrap();
        assert!((sigmoid(verifier.bias) - 0.25).abs() < 1e-6);
    }

    #[test]
    fn it_finds_the_head_that_tells() {
        let seen: Vec<Seen> = (0..40)
            .map(|at| {
                let mask: Vec<bool> = (0..12).map(|cell| (cell * 7 + at) % 5 == 0).collect();
                let telling = mask.iter().zip(numbers(at, 12)).map(|(m, noise)| f64::from(*m) + 0.3 * noise);
                Seen { heads: vec![numbers(at + 90, 12), telling.collect(), numbers(at + 7, 12)], mask }
            })
            .collect();
        let verifier = Verifier::fit(&seen).unwrap();
        assert!(verifier.weights[1] > 5.0 * verifier.weights[0].abs().max(verifier.weights[2].abs()));
        let cells = verifier.cells(&seen[3].heads).unwrap();
        assert!(cells.iter().zip(&seen[3].mask).all(|(cell, marked)| (*cell > 0.5) == *marked));
        assert_eq!(verifier.cells(&seen[3].heads[..2]), None);
        let text = serde_json::to_string(&verifier).unwrap();
        assert_eq!(serde_json::from_str::<Verifier>(&text).unwrap(), verifier);
    }

    #[test]
    fn items_that_do_not_fit_together_are_not_learned_from() {
        let seen = |heads: usize, cells: usize| Seen {
            heads: vec![numbers(1, cells); heads],
            mask: vec![true, false, true],
        };
        assert_eq!(Verifier::fit(&[]), None);
        assert_eq!(Verifier::fit(&[seen(2, 3), seen(1, 3)]), None);
        assert_eq!(Verifier::fit(&[seen(2, 4)]), None);
        // Marks everywhere: a bias that grows, not an error.
        assert!(Verifier::fit(&[Seen { heads: Vec::new(), mask: vec![true; 3] }]).is_some());
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
