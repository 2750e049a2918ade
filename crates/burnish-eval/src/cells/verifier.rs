//! The verifier: which heads' attention tells the cells that matter.

use serde::{Deserialize, Serialize};

use super::standardised;
use crate::logistic::Logistic;

/// One step of a plan, to learn from: the attention of every head to every cell, `[heads][cells]`, and the cells that it
/// should look at.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Shares of attention.
    pub heads: Vec<Vec<f64>>,
    /// The right cells.
    pub mask: Vec<bool>,
}

/// Logistic regression from the heads' standardised attention to the right cells: what a cell has without attention, and
/// what each head adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verifier(pub Logistic);

impl Verifier {
    /// Fits `mean over cells of BCE(â_c, M_c) + 1e-3 Σ_h w_h²` (card of TABATTN). `None` if there is nothing to learn from,
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
            labels.extend_from_slice(&one.mask);
        }
        Logistic::fit(&rows, &labels).map(Verifier)
    }

    /// How likely each cell is one that the step should look at. `None` if there are other heads than it was fitted on.
    #[must_use]
    pub fn cells(&self, heads: &[Vec<f64>]) -> Option<Vec<f64>> {
        if heads.len() != self.0.weights.len() {
            return None;
        }
        let cells = heads.first().map_or(0, Vec::len);
        let rows = features(heads, cells)?;
        Some(rows.iter().map(|row| self.0.probability(row)).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, n: usize) -> Vec<f64> {
        (0..n).map(|at| ((seed * 31 + at * 17) as f64 * 0.618_034).fract()).collect()
    }

    #[test]
    fn without_heads_it_gives_the_base_rate() {
        let seen = Seen { heads: Vec::new(), mask: vec![true, false, false, false] };
        let verifier = Verifier::fit(&[seen]).unwrap();
        assert!((verifier.0.probability(&[]) - 0.25).abs() < 1e-6);
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
        assert!(verifier.0.weights[1] > 5.0 * verifier.0.weights[0].abs().max(verifier.0.weights[2].abs()));
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
}
