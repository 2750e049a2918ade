//! The logarithm of a decay: `g = -exp(a_log) softplus(x + dt_bias)` (Mamba, arXiv:2312.00752; Gated DeltaNet,
//! arXiv:2412.06464; by channel in Kimi Linear, arXiv:2510.26692). It is never above 0.

use rayon::prelude::*;

use crate::{
    Buffer, parallel,
    vector::{self, simd},
};

/// The parameters: `a_log` `[H]`, and `dt_bias` `[H]` or `[H · channels]`, one for each column.
#[derive(Clone, Copy)]
pub(crate) struct Rates<'a> {
    pub(crate) a_log: &'a [f32],
    pub(crate) dt_bias: &'a [f32],
}

impl Rates<'_> {
    /// `-exp(a_log)` of each column.
    fn factors(self) -> Vec<f32> {
        let channels = self.dt_bias.len() / self.a_log.len();
        self.a_log.iter().flat_map(|&a| std::iter::repeat_n(-a.exp(), channels)).collect()
    }
}

pub(crate) fn forward(x: &[f32], rates: Rates<'_>) -> Buffer {
    let cols = rates.dt_bias.len();
    let factors = rates.factors();
    let mut g = Buffer::scratch(x.len());
    parallel::for_rows(&mut g, cols, |first, g| {
        let x = &x[first * cols..][..g.len()];
        simd(
            #[inline(always)]
            || {
                for (g, x) in g.chunks_exact_mut(cols).zip(x.chunks_exact(cols)) {
                    for (((g, &x), &bias), &factor) in g.iter_mut().zip(x).zip(rates.dt_bias).zip(&factors) {
                        *g = factor * vector::softplus(x + bias);
                    }
                }
            },
        );
    });
    g
}

/// The gradient of `x`, and those of the parameters: `d_x = -d exp(a_log) σ(x + dt_bias)`, its sums over rows for
/// `dt_bias`, and the sums of `d ⊙ g` over a head's elements for `a_log`.
pub(crate) fn backward(
    x: &[f32],
    rates: Rates<'_>,
    d: &[f32],
    d_a_log: Option<&mut [f32]>,
    d_dt_bias: Option<&mut [f32]>,
) -> Buffer {
    let cols = rates.dt_bias.len();
    let factors = rates.factors();
    let each = parallel::task_rows(cols) * cols;
    let mut d_x = Buffer::scratch(x.len());
    let tasks = d_x.par_chunks_mut(each).zip(x.par_chunks(each)).zip(d.par_chunks(each));
    // By column: Σ d_x, Σ d ⊙ g.
    let partial_sums: Vec<[Vec<f32>; 2]> = tasks
        .map(|((d_x, x), d)| {
            let [mut of_bias, mut of_a] = [(); 2].map(|()| vec![0.0; cols]);
            simd(
                #[inline(always)]
                || {
                    let rows = d_x.chunks_exact_mut(cols).zip(x.chunks_exact(cols));
                    for ((d_x, x), d) in rows.zip(d.chunks_exact(cols)) {
                        for column in 0..cols {
                            let z = x[column] + rates.dt_bias[column];
                            let along = d[column] * factors[column];
                            d_x[column] = along * vector::sigmoid(z);
                            of_bias[column] += d_x[column];
                            of_a[column] = along.mul_add(vector::softplus(z), of_a[column]);
                        }
                    }
                },
            );
            [of_bias, of_a]
        })
        .collect();
    if let Some(d_dt_bias) = d_dt_bias {
        partial_sums.iter().for_each(|[sum, _]| vector::add(d_dt_bias, sum));
    }
    if let Some(d_a_log) = d_a_log {
        let channels = cols / rates.a_log.len();
        for [_, sums] in &partial_sums {
            for (d_a, sums) in d_a_log.iter_mut().zip(sums.chunks_exact(channels)) {
                *d_a += sums.iter().sum::<f32>();
            }
        }
    }
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
        fn decays_and_their_gradients_are_those_of_the_reference(
            rows in 1_usize..9, heads in 1_usize..4, channels in 1_usize..9,
        ) {
            let cols = heads * channels;
            let x: Vec<f32> = random(1, rows * cols).iter().map(|x| 8.0 * x).collect();
            let (a_log, dt_bias) = (random(2, heads), random(3, cols));
            let (d, rates) = (random(4, x.len()), Rates { a_log: &a_log, dt_bias: &dt_bias });
            let [wide_x, wide_a, wide_bias] = [&x, &a_log, &dt_bias].map(|x| wide(x));
            assert_close(&forward(&x, rates), &reference::log_decay(&wide_x, &wide_a, &wide_bias), 1e-6);

            let (mut d_a, mut d_bias) = (vec![0.0; heads], vec![0.0; cols]);
            let d_x = backward(&x, rates, &d, Some(&mut d_a), Some(&mut d_bias));
            let loss = |x: &[f64], a: &[f64], bias: &[f64]| weighted(&d, &reference::log_decay(x, a, bias));
            assert_gradient(&d_x, &x, |x| loss(x, &wide_a, &wide_bias), 1e-5);
            assert_gradient(&d_a, &a_log, |a| loss(&wide_x, a, &wide_bias), 1e-5);
            assert_gradient(&d_bias, &dt_bias, |bias| loss(&wide_x, &wide_a, bias), 1e-5);
        }
    }

    #[test]
    fn gradients_of_parameters_sum_over_all_tasks() {
        let (rows, cols) = (2 * parallel::task_rows(6) + 1, 6);
        let rates = Rates { a_log: &[0.0; 2], dt_bias: &[0.0; 6] };
        let (mut d_a, mut d_bias) = (vec![1.0; 2], vec![1.0; 6]);
        let ones = vec![1.0; rows * cols];
        backward(&vec![100.0; rows * cols], rates, &ones, Some(&mut d_a), Some(&mut d_bias));
        assert_close(&d_bias, &[1.0 - rows as f64; 6], 1e-6);
        assert_close(&d_a, &[1.0 - 300.0 * rows as f64; 2], 1e-6);
    }
}
