//! Passes over flat parameter and gradient buffers.

use rayon::prelude::*;

use crate::{
    parallel,
    vector::{self, simd},
};

/// Elements per task: a fixed number, so that sums do not depend on the number of threads.
const TASK_ELEMENTS: usize = 1 << 14;

/// Settings of one AdamW step (Loshchilov & Hutter 2019), named as in `torch.optim.AdamW`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the denominator.
    pub eps: f64,
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Number of this step, from 1.
    pub step: u64,
}

/// One step of AdamW, as in `torch.optim.AdamW`, on parameters `params` with gradients `grads` and running means `m`
/// and `v`, all of the same length. Weight decay applies if `decay` is set.
///
/// `p -= lr λ p`; `m += (1 - β1)(g - m)`; `v = β2 v + (1 - β2) g²`;
/// `p -= lr / (1 - β1^t) · m / (sqrt(v) / sqrt(1 - β2^t) + eps)`.
///
/// # Panics
/// If lengths differ.
pub fn adamw_step(
    params: &mut [f32],
    grads: &[f32],
    m: &mut [f32],
    v: &mut [f32],
    hyper: &AdamW,
    decay: bool,
) {
    let len = params.len();
    assert_eq!(
        (grads.len(), m.len(), v.len()),
        (len, len, len),
        "one gradient and two means for each parameter"
    );
    let factors = Factors::of(hyper, decay);
    let state = m.par_chunks_mut(TASK_ELEMENTS).zip(v.par_chunks_mut(TASK_ELEMENTS));
    let tasks = params.par_chunks_mut(TASK_ELEMENTS).zip(grads.par_chunks(TASK_ELEMENTS)).zip(state);
    tasks.for_each(|((params, grads), (m, v))| {
        simd(
            #[inline(always)]
            || {
                for (((p, &g), m), v) in params.iter_mut().zip(grads).zip(m).zip(v) {
                    factors.update(p, g, m, v);
                }
            },
        );
    });
}

/// The constants of a step, computed in f64 and rounded once.
pub(crate) struct Factors {
    pub(crate) keep: f32,
    pub(crate) one_minus_beta1: f32,
    pub(crate) beta2: f32,
    pub(crate) one_minus_beta2: f32,
    pub(crate) sqrt_correction2: f32,
    pub(crate) eps: f32,
    pub(crate) step_size: f32,
}

impl Factors {
    pub(crate) fn of(hyper: &AdamW, decay: bool) -> Self {
        let step = hyper.step.min(i32::MAX as u64) as i32;
        Factors {
            keep: if decay { (1.0 - hyper.lr * hyper.weight_decay) as f32 } else { 1.0 },
            one_minus_beta1: (1.0 - hyper.beta1) as f32,
            beta2: hyper.beta2 as f32,
            one_minus_beta2: (1.0 - hyper.beta2) as f32,
            sqrt_correction2: (1.0 - hyper.beta2.powi(step)).sqrt() as f32,
            eps: hyper.eps as f32,
            step_size: (hyper.lr / (1.0 - hyper.beta1.powi(step))) as f32,
        }
    }

    #[inline(always)]
    pub(crate) fn update(&self, p: &mut f32, g: f32, m: &mut f32, v: &mut f32) {
        *m += self.one_minus_beta1 * (g - *m);
        *v = *v * self.beta2 + self.one_minus_beta2 * g * g;
        let denominator = v.sqrt() / self.sqrt_correction2 + self.eps;
        *p = *p * self.keep - self.step_size * (*m / denominator);
    }
}

/// `Σ xᵢ²` in f64.
#[must_use]
pub fn squared_norm(x: &[f32]) -> f64 {
    const LANES: usize = 16;
    let partial_sums: Vec<f64> = x
        .par_chunks(TASK_ELEMENTS)
        .map(|x| {
            simd(
                #[inline(always)]
                || {
                    let (blocks, tail) = x.as_chunks::<LANES>();
                    let mut lanes = [0.0_f64; LANES];
                    for block in blocks {
                        for lane in 0..LANES {
                            lanes[lane] += f64::from(block[lane]) * f64::from(block[lane]);
                        }
                    }
                    let mut sum = 0.0;
                    for lane in lanes {
                        sum += lane;
                    }
                    for &x in tail {
                        sum += f64::from(x) * f64::from(x);
                    }
                    sum
                },
            )
        })
        .collect();
    partial_sums.iter().sum()
}

/// `x *= factor`.
pub fn scale(x: &mut [f32], factor: f32) {
    parallel::for_rows(x, 1, |_, x| {
        simd(
            #[inline(always)]
            || vector::scale(x, factor),
        )
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, random, wide};

    /// `torch.optim.AdamW`'s documented algorithm, one parameter in f64.
    struct Oracle {
        p: f64,
        m: f64,
        v: f64,
    }

    impl Oracle {
        fn step(&mut self, g: f64, hyper: &AdamW, decay: bool) {
            if decay {
                self.p -= hyper.lr * hyper.weight_decay * self.p;
            }
            self.m = hyper.beta1 * self.m + (1.0 - hyper.beta1) * g;
            self.v = hyper.beta2 * self.v + (1.0 - hyper.beta2) * g * g;
            let m_hat = self.m / (1.0 - hyper.beta1.powf(hyper.step as f64));
            let v_hat = self.v / (1.0 - hyper.beta2.powf(hyper.step as f64));
            self.p -= hyper.lr * m_hat / (v_hat.sqrt() + hyper.eps);
        }
    }

    #[test]
    fn adamw_follows_its_scalar_oracle_over_many_steps() {
        for decay in [false, true] {
            let len = TASK_ELEMENTS + 3;
            let mut hyper =
                AdamW { lr: 0.02, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.3, step: 0 };
            let mut params = random(1, len);
            let (mut m, mut v) = (vec![0.0; len], vec![0.0; len]);
            let mut oracles: Vec<Oracle> =
                params.iter().map(|&p| Oracle { p: f64::from(p), m: 0.0, v: 0.0 }).collect();
            for step in 1..=20 {
                hyper.step = step;
                let grads = random(100 + step, len);
                adamw_step(&mut params, &grads, &mut m, &mut v, &hyper, decay);
                oracles
                    .iter_mut()
                    .zip(&grads)
                    .for_each(|(oracle, &g)| oracle.step(f64::from(g), &hyper, decay));
            }
            assert_close(&params, &oracles.iter().map(|oracle| oracle.p).collect::<Vec<_>>(), 1e-5);
        }
    }

    #[test]
    fn a_gradient_of_zero_moves_nothing_but_by_decay() {
        let hyper = AdamW { lr: 0.1, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.5, step: 1 };
        let mut params = vec![2.0];
        adamw_step(&mut params, &[0.0], &mut [0.0], &mut [0.0], &hyper, false);
        assert_eq!(params, [2.0]);
        adamw_step(&mut params, &[0.0], &mut [0.0], &mut [0.0], &hyper, true);
        assert_close(&params, &[1.9], 1e-6);
    }

    #[test]
    fn the_squared_norm_is_summed_in_f64() {
        let x = random(1, 3 * TASK_ELEMENTS + 5);
        let exact: f64 = wide(&x).iter().map(|x| x * x).sum();
        assert!((squared_norm(&x) - exact).abs() < 1e-9 * exact);
        assert_eq!(squared_norm(&[]), 0.0);
    }

    #[test]
    fn scaling_reaches_every_element() {
        let mut x = vec![3.0; 2 * TASK_ELEMENTS + 1];
        scale(&mut x, 0.5);
        assert!(x.iter().all(|&x| x == 1.5));
    }
}
