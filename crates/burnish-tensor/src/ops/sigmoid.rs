//! The logistic function, and gates that are one.

use rayon::prelude::*;

use crate::{
    Buffer, parallel,
    vector::{self, simd},
};

/// `σ(x)`.
pub(crate) fn forward(x: &[f32]) -> Buffer {
    let mut out = Buffer::scratch(x.len());
    parallel::for_rows(&mut out, 1, |first, out| {
        let x = &x[first..first + out.len()];
        simd(
            #[inline(always)]
            || {
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = vector::sigmoid(x);
                }
            },
        );
    });
    out
}

/// `d_x = d σ(x) (1 - σ(x))`.
pub(crate) fn backward(x: &[f32], d: &[f32]) -> Buffer {
    let mut d_x = Buffer::scratch(x.len());
    parallel::for_rows(&mut d_x, 1, |first, d_x| {
        let range = first..first + d_x.len();
        let (x, d) = (&x[range.clone()], &d[range]);
        simd(
            #[inline(always)]
            || {
                for ((d_x, &x), &d) in d_x.iter_mut().zip(x).zip(d) {
                    let s = vector::sigmoid(x);
                    *d_x = d * s * (1.0 - s);
                }
            },
        );
    });
    d_x
}

/// `x ⊙ σ(gate)`.
pub(crate) fn gate_forward(x: &[f32], gate: &[f32]) -> Buffer {
    gated(
        x,
        gate,
        #[inline(always)]
        |x, s| x * s,
    )
}

/// The gradients of `x` and of the gate: `d σ(g)`, `d x σ(g) (1 - σ(g))`.
pub(crate) fn gate_backward(x: &[f32], gate: &[f32], d: &[f32]) -> [Buffer; 2] {
    gated_backward(
        [x, gate, d],
        #[inline(always)]
        |x, s, d| [d * s, d * x * s * (1.0 - s)],
    )
}

/// `f(x, σ(gate))` for each element.
pub(super) fn gated(x: &[f32], gate: &[f32], f: impl Fn(f32, f32) -> f32 + Sync) -> Buffer {
    assert_eq!(x.len(), gate.len(), "one gate for each element");
    let mut out = Buffer::scratch(x.len());
    parallel::for_rows(&mut out, 1, |first, out| {
        let range = first..first + out.len();
        let (x, gate) = (&x[range.clone()], &gate[range]);
        simd(
            #[inline(always)]
            || {
                for ((out, &x), &gate) in out.iter_mut().zip(x).zip(gate) {
                    *out = f(x, vector::sigmoid(gate));
                }
            },
        );
    });
    out
}

/// The gradients of `x` and of the gate, `f(x, σ(gate), d)` for each element of `[x, gate, d]`.
pub(super) fn gated_backward(
    [x, gate, d]: [&[f32]; 3],
    f: impl Fn(f32, f32, f32) -> [f32; 2] + Sync,
) -> [Buffer; 2] {
    let [mut d_x, mut d_gate] = [(); 2].map(|()| Buffer::scratch(x.len()));
    let rows = parallel::task_rows(1);
    let tasks = d_x.par_chunks_mut(rows).zip(d_gate.par_chunks_mut(rows));
    tasks.enumerate().for_each(|(task, (d_x, d_gate))| {
        let range = task * rows..task * rows + d_x.len();
        let (x, gate, d) = (&x[range.clone()], &gate[range.clone()], &d[range]);
        simd(
            #[inline(always)]
            || {
                for ((((d_x, d_gate), &x), &gate), &d) in d_x.iter_mut().zip(d_gate).zip(x).zip(gate).zip(d) {
                    [*d_x, *d_gate] = f(x, vector::sigmoid(gate), d);
                }
            },
        );
    });
    [d_x, d_gate]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    #[test]
    fn the_function_and_the_gate_and_their_gradients_are_those_of_the_reference() {
        for len in [1, 31, 100, parallel::task_rows(1) + 5] {
            let x: Vec<f32> = random(1, len).iter().map(|x| 6.0 * x).collect();
            let (gate, d) = (random(2, len), random(3, len));
            let (wide_x, wide_gate) = (wide(&x), wide(&gate));
            assert_close(&forward(&x), &reference::sigmoid(&wide_x), 1e-6);
            assert_close(&gate_forward(&gate, &x), &reference::sigmoid_gate(&wide_gate, &wide_x), 1e-6);
            if len > 100 {
                continue;
            }
            let loss = |x: &[f64]| weighted(&d, &reference::sigmoid(x));
            assert_gradient(&backward(&x, &d), &x, loss, 1e-6);
            let [d_x, d_gate] = gate_backward(&x, &gate, &d);
            assert_gradient(&d_x, &x, |x| weighted(&d, &reference::sigmoid_gate(x, &wide_gate)), 1e-6);
            assert_gradient(&d_gate, &gate, |g| weighted(&d, &reference::sigmoid_gate(&wide_x, g)), 1e-6);
        }
    }

    #[test]
    fn far_gates_are_open_or_closed() {
        assert_eq!(gate_forward(&[3.0, 3.0], &[200.0, -200.0])[0], 3.0);
        assert!(gate_forward(&[3.0, 3.0], &[200.0, -200.0])[1] < 1e-30);
        let [d_x, d_gate] = gate_backward(&[3.0, 3.0], &[200.0, -200.0], &[1.0, 1.0]);
        assert!(d_x[0] == 1.0 && d_x[1] < 1e-30 && d_gate.iter().all(|d| d.abs() < 1e-30));
    }
}
