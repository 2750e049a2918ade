//! How far attention to the cells of a table agrees with a mask of cells (TABATTN of arXiv:2605.14465).
//!
//! The paper's abstract says that a verifier scores each step of a plan by the overlap of attention with the plan's mask,
//! and that the planner's attention is compared with human masks by AUROC. The formulas are *reconstructed*: from
//! attribution practice, logistic regression and the usual definition of AUROC.
//!
//! With `a_c` the share of attention of cell `c`, normalised over all cells, `z` its standard score within the table, and
//! a mask `M`:
//!
//! ```text
//! â_c = σ(b + Σ_h w_h z(a_c^h))                  the verifier, fitted by binary cross-entropy with an L2 term
//! v = Σ_c â_c M_c / Σ_c â_c                      overlap, in [0, 1]
//! iou = Σ_c min(â_c, M_c) / Σ_c max(â_c, M_c)    the same, punishing masks that are too large
//! ```

mod control;
mod verifier;

pub use control::{Chosen, Limits, controlled};
pub use verifier::{Seen, Verifier};

/// Scaled to a sum of 1. Where nothing is positive, the same share everywhere.
#[must_use]
pub fn normalised(attention: &[f64]) -> Vec<f64> {
    let sum: f64 = attention.iter().sum();
    if sum > 0.0 && sum.is_finite() {
        return attention.iter().map(|share| share / sum).collect();
    }
    vec![1.0 / attention.len().max(1) as f64; attention.len()]
}

/// Standard scores: mean 0 and variance 1 within the table. All 0 where nothing varies.
#[must_use]
pub fn standardised(values: &[f64]) -> Vec<f64> {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let spread = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
    // Rounding leaves a little of what does not vary.
    if spread <= 1e-12 * (1.0 + mean.abs()) {
        return vec![0.0; values.len()];
    }
    values.iter().map(|value| (value - mean) / spread).collect()
}

/// The share of `attention` that lies within `mask`. 0 where there is no attention.
#[must_use]
pub fn overlap(attention: &[f64], mask: &[bool]) -> f64 {
    let inside: f64 = attention.iter().zip(mask).filter(|(_, marked)| **marked).map(|(share, _)| share).sum();
    let all: f64 = attention.iter().sum();
    if all > 0.0 { (inside / all).clamp(0.0, 1.0) } else { 0.0 }
}

/// Intersection over union of `attention`, from 0 to 1 each, and `mask`. 1 where both are empty.
#[must_use]
pub fn soft_iou(attention: &[f64], mask: &[bool]) -> f64 {
    let (mut both, mut either) = (0.0, 0.0);
    for (&share, &marked) in attention.iter().zip(mask) {
        let marked = f64::from(marked);
        both += share.min(marked);
        either += share.max(marked);
    }
    if either > 0.0 { both / either } else { 1.0 }
}

/// Area under the ROC curve: how often a marked cell has more attention than an unmarked one, ties half. `None` where no
/// cell is marked, or every one.
#[must_use]
pub fn auroc(attention: &[f64], mask: &[bool]) -> Option<f64> {
    let marked = mask.iter().filter(|marked| **marked).count() as f64;
    let unmarked = mask.len() as f64 - marked;
    if marked == 0.0 || unmarked == 0.0 {
        return None;
    }
    let mut order: Vec<usize> = (0..mask.len().min(attention.len())).collect();
    order.sort_by(|&a, &b| attention[a].total_cmp(&attention[b]));
    // The sum of the marked cells' ranks, where equal ones share the mean of theirs (Mann and Whitney 1947).
    let (mut ranks, mut below) = (0.0, 0);
    for equal in order.chunk_by(|&a, &b| attention[a] == attention[b]) {
        let rank = below as f64 + f64::midpoint(1.0, equal.len() as f64);
        ranks += rank * equal.iter().filter(|&&at| mask[at]).count() as f64;
        below += equal.len();
    }
    Some((ranks - marked * (marked + 1.0) / 2.0) / (marked * unmarked))
}

#[cfg(test)]
mod tests;
