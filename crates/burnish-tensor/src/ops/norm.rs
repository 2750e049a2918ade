//! Root-mean-square normalisation (Zhang & Sennrich 2019): `y = w ⊙ x / sqrt(mean(x²) + eps)`, separately for each
//! group of `w.len()` neighbouring columns. With one group per row this is the norm of a layer, with one group per head
//! the query and key norm of Qwen3.

use rayon::prelude::*;

use crate::{
    Buffer, parallel,
    vector::{self, simd},
};

/// The normalised `x`, and `1 / sqrt(mean(x²) + eps)` of each group.
pub(crate) fn forward(x: &[f32], weight: &[f32], eps: f32) -> (Buffer, Buffer) {
    let width = weight.len();
    let groups = parallel::task_rows(width);
    let mut y = Buffer::scratch(x.len());
    let mut inverse_rms = Buffer::scratch(x.len() / width);
    let tasks = y.par_chunks_mut(groups * width).zip(inverse_rms.par_chunks_mut(groups));
    tasks.zip(x.par_chunks(groups * width)).for_each(|((y, inverse_rms), x)| {
        simd(
            #[inline(always)]
            || {
                for ((y, x), inverse_rms) in
                    y.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(inverse_rms)
                {
                    *inverse_rms = normalise(y, x, weight, eps);
                }
            },
        );
    });
    (y, inverse_rms)
}

#[inline(always)]
fn normalise(y: &mut [f32], x: &[f32], weight: &[f32], eps: f32) -> f32 {
    let inverse_rms = 1.0 / (vector::dot(x, x) / x.len() as f32 + eps).sqrt();
    for ((y, &x), &w) in y.iter_mut().zip(x).zip(weight) {
        *y = w * (x * inverse_rms);
    }
    inverse_rms
}

/// Turns `d`, the gradient of the output, into that of the input, and adds that of the weight to `d_weight`.
///
/// With `r` the inverse root mean square and `n` the width: `d_x = r (w ⊙ d) - x r³ Σ(w ⊙ d ⊙ x) / n`,
/// `d_w = Σ_rows d ⊙ x r`.
pub(crate) fn backward(
    x: &[f32],
    inverse_rms: &[f32],
    weight: &[f32],
    d: &mut [f32],
    d_weight: Option<&mut [f32]>,
) {
    let width = weight.len();
    let groups = parallel::task_rows(width);
    let tasks = d.par_chunks_mut(groups * width).zip(x.par_chunks(groups * width));
    let partial_sums: Vec<Vec<f32>> = tasks
        .zip(inverse_rms.par_chunks(groups))
        .map(|((d, x), inverse_rms)| {
            let mut d_weight = vec![0.0; width];
            simd(
                #[inline(always)]
                || {
                    for ((d, x), &r) in d.chunks_exact_mut(width).zip(x.chunks_exact(width)).zip(inverse_rms)
                    {
                        backward_row(d, x, r, weight, &mut d_weight);
                    }
                },
            );
            d_weight
        })
        .collect();
    if let Some(d_weight) = d_weight {
        partial_sums.iter().for_each(|sum| vector::add(d_weight, sum));
    }
}

#[inline(always)]
fn backward_row(d: &mut [f32], x: &[f32], r: f32, weight: &[f32], d_weight: &mut [f32]) {
    for (((d, &x), &w), d_w) in d.iter_mut().zip(x).zip(weight).zip(d_weight) {
        *d_w = (*d * x).mul_add(r, *d_w);
        *d *= w;
    }
    let along = vector::dot(d, x) * r * r / x.len() as f32;
    for (d, &x) in d.iter_mut().zip(x) {
        *d = r * x.mul_add(-along, *d);
    }
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
        fn the_norm_and_its_gradients_are_those_of_the_reference(groups in 1_usize..12, width in 1_usize..80) {
            let eps = 1e-3;
            let x = random(1, groups * width);
            let weight = random(2, width);
            let d_y = random(3, x.len());
            let (wide_x, wide_weight) = (wide(&x), wide(&weight));

            let (y, inverse_rms) = forward(&x, &weight, eps);
            assert_close(&y, &reference::rms_norm(&wide_x, &wide_weight, f64::from(eps)), 1e-6);

            let mut d_x = d_y.clone();
            let mut d_weight = vec![0.0; width];
            backward(&x, &inverse_rms, &weight, &mut d_x, Some(&mut d_weight));
            let loss = |x: &[f64], w: &[f64]| weighted(&d_y, &reference::rms_norm(x, w, f64::from(eps)));
            assert_gradient(&d_x, &x, |x| loss(x, &wide_weight), 1e-5);
            assert_gradient(&d_weight, &weight, |w| loss(&wide_x, w), 1e-5);
        }
    }

    #[test]
    fn the_gradient_of_the_weight_sums_over_all_tasks() {
        let (rows, width) = (3 * parallel::task_rows(64) + 1, 64);
        let x = vec![1.0; rows * width];
        let (_, inverse_rms) = forward(&x, &[1.0; 64], 0.0);
        let mut d = vec![1.0; x.len()];
        let mut d_weight = vec![0.5; width];
        backward(&x, &inverse_rms, &[1.0; 64], &mut d, Some(&mut d_weight));
        assert_eq!(d_weight, vec![rows as f32 + 0.5; width]);
    }
}
