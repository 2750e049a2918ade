//! Heads of unit length: `y = s x / sqrt(Σ x² + 1e-6)` for each group of neighbouring columns, as the queries and keys
//! of delta rules have (Yang et al. 2024, arXiv:2412.06464; the constant is flash-linear-attention's).

use crate::{
    Buffer, parallel,
    vector::{self, simd},
};

const EPS: f32 = 1e-6;

#[inline(always)]
fn inverse_length(x: &[f32]) -> f32 {
    1.0 / (vector::dot(x, x) + EPS).sqrt()
}

/// `scale · x / sqrt(Σ x² + 1e-6)` of each head.
pub(crate) fn forward(x: &[f32], head_dim: usize, scale: f32) -> Buffer {
    let mut y = Buffer::scratch(x.len());
    parallel::for_rows(&mut y, head_dim, |first, y| {
        let x = &x[first * head_dim..][..y.len()];
        simd(
            #[inline(always)]
            || {
                for (y, x) in y.chunks_exact_mut(head_dim).zip(x.chunks_exact(head_dim)) {
                    let factor = scale * inverse_length(x);
                    for (y, &x) in y.iter_mut().zip(x) {
                        *y = factor * x;
                    }
                }
            },
        );
    });
    y
}

/// With `r = 1 / sqrt(Σ x² + 1e-6)`: `d_x = s r (d - x r² Σ(d ⊙ x))`.
pub(crate) fn backward(x: &[f32], head_dim: usize, scale: f32, d: &[f32]) -> Buffer {
    let mut d_x = Buffer::scratch(x.len());
    parallel::for_rows(&mut d_x, head_dim, |first, d_x| {
        let range = first * head_dim..first * head_dim + d_x.len();
        let (x, d) = (&x[range.clone()], &d[range]);
        simd(
            #[inline(always)]
            || {
                let heads = d_x.chunks_exact_mut(head_dim).zip(x.chunks_exact(head_dim));
                for ((d_x, x), d) in heads.zip(d.chunks_exact(head_dim)) {
                    let r = inverse_length(x);
                    let along = vector::dot(d, x) * r * r;
                    for ((d_x, &x), &d) in d_x.iter_mut().zip(x).zip(d) {
                        *d_x = scale * r * x.mul_add(-along, d);
                    }
                }
            },
        );
    });
    d_x
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn the_heads_and_their_gradient_are_those_of_the_reference(heads in 1_usize..9, head_dim in 1_usize..80) {
            let (x, d) = (random(1, heads * head_dim), random(2, heads * head_dim));
            let scale = 0.3;
            let of = |x: &[f64]| reference::unit_heads(x, head_dim, f64::from(scale));
            assert_close(&forward(&x, head_dim, scale), &of(&wide(&x)), 1e-6);
            assert_gradient(&backward(&x, head_dim, scale, &d), &x, |x| weighted(&d, &of(x)), 1e-4);
        }
    }

    #[test]
    fn a_head_of_zeros_stays_finite() {
        assert_eq!(*forward(&[0.0; 4], 4, 1.0), [0.0; 4]);
        assert_eq!(
            *backward(&[0.0; 4], 4, 1.0, &[1e-3; 4]),
            [1.0; 4].map(|x| x * 1e-3 * (1.0 / 1e-6_f32.sqrt()))
        );
    }
}
