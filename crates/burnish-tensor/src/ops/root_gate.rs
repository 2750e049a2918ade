//! `x ⊙ √σ(gate)`: what makes vector rates of delta rules of a kernel without them. With `k̃ = √β ⊙ k` the factor
//! `I - k̃ k̃ᵀ` stays symmetric, and shrinks whatever it is applied to (arXiv:2604.19021).
//!
//! The root and the logistic function are one function here, because the derivative of the root alone has no bound
//! near 0. Together it is `√β (1 - β) / 2`, so no rate has to be kept away from 0.

use super::sigmoid::{gated, gated_backward};
use crate::Buffer;

/// `x ⊙ √σ(gate)`.
pub(crate) fn forward(x: &[f32], gate: &[f32]) -> Buffer {
    gated(
        x,
        gate,
        #[inline(always)]
        |x, beta| x * beta.sqrt(),
    )
}

/// The gradients of `x` and of the gate: `d √β`, `d x √β (1 - β) / 2` with `β = σ(gate)`.
pub(crate) fn backward(x: &[f32], gate: &[f32], d: &[f32]) -> [Buffer; 2] {
    gated_backward(
        [x, gate, d],
        #[inline(always)]
        |x, beta, d| {
            let d_x = d * beta.sqrt();
            [d_x, d_x * x * 0.5 * (1.0 - beta)]
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        parallel, reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    #[test]
    fn the_gate_and_its_gradients_are_those_of_the_reference() {
        for len in [1, 31, 100, parallel::task_rows(1) + 5] {
            let gate: Vec<f32> = random(1, len).iter().map(|x| 6.0 * x).collect();
            let (x, d) = (random(2, len), random(3, len));
            let (wide_x, wide_gate) = (wide(&x), wide(&gate));
            assert_close(&forward(&x, &gate), &reference::root_gate(&wide_x, &wide_gate), 1e-6);
            if len > 100 {
                continue;
            }
            let [d_x, d_gate] = backward(&x, &gate, &d);
            assert_gradient(&d_x, &x, |x| weighted(&d, &reference::root_gate(x, &wide_gate)), 1e-6);
            assert_gradient(&d_gate, &gate, |g| weighted(&d, &reference::root_gate(&wide_x, g)), 1e-6);
        }
    }

    #[test]
    fn gates_that_are_closed_have_finite_gradients() {
        for gate in [-20.0, -60.0, -87.0, -104.0, -1e4, f32::NEG_INFINITY] {
            let out = forward(&[3.0], &[gate]);
            let [d_x, d_gate] = backward(&[3.0], &[gate], &[1.0]);
            assert!(out[0] < 2e-4 && (0.0..1e-4).contains(&d_x[0]), "{gate}: {} {}", out[0], d_x[0]);
            assert!((0.0..1e-3).contains(&d_gate[0]), "{gate}: {}", d_gate[0]);
        }
        let [d_x, d_gate] = backward(&[3.0], &[1e4], &[1.0]);
        assert_eq!((forward(&[3.0], &[1e4])[0], d_x[0], d_gate[0]), (3.0, 1.0, 0.0));
    }
}
