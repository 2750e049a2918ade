//! The arithmetic of the Procrustes variant.
//!
//! Matrices are stored with a row per head dimension, so the mathematical `W` `[inputs, dimensions]` of a head is the
//! transpose of its rows. `Π` is symmetric, so `W_Q + (…) Π` is `rows + Π (…)`.

use crate::dense::solve_definite;

/// `Π = (KᵀK + λI)⁻¹ KᵀK`, row by row, of keys with `dims` rows, with `λ = lambda · mean σ²`.
///
/// # Errors
/// Says what is wrong with the keys, as the rest of a sentence.
pub(super) fn projection(keys: &[f32], dims: usize, lambda: f64) -> Result<Vec<f32>, String> {
    let width = keys.len() / dims.max(1);
    let row = |at: usize| &keys[at * width..(at + 1) * width];
    let mut products = vec![0.0; dims * dims];
    for i in 0..dims {
        for j in 0..=i {
            let product = crate::sweep::dot(row(i), row(j));
            (products[i * dims + j], products[j * dims + i]) = (product, product);
        }
    }
    let trace: f64 = products.iter().step_by(dims + 1).sum();
    let lambda = lambda * trace / dims as f64;
    let mut regular = products.clone();
    regular.iter_mut().step_by(dims + 1).for_each(|value| *value += lambda);
    let share = solve_definite(&regular, &products, dims).ok_or_else(|| {
        "has keys of less than full rank, so `lambda` must be above 0 by more than rounding".to_owned()
    })?;
    Ok(share.into_iter().map(|value| value as f32).collect())
}

/// `out = post + Π (pre − post)`, for rows of `width`.
pub(super) fn blend(share: &[f32], pre: &[f32], post: &[f32], width: usize, out: &mut [f32]) {
    let dims = post.len() / width.max(1);
    let changes: Vec<f32> = pre.iter().zip(post).map(|(pre, post)| pre - post).collect();
    out.copy_from_slice(post);
    for (i, out) in out.chunks_mut(width).enumerate() {
        for (j, change) in changes.chunks(width).enumerate() {
            let share = share[i * dims + j];
            out.iter_mut().zip(change).for_each(|(out, change)| *out += share * change);
        }
    }
}
