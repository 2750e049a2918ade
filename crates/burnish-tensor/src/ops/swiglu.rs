//! The gate of SwiGLU (Shazeer 2020): `silu(gate) ⊙ up`, with `silu(x) = x σ(x)`.

use rayon::prelude::*;

use crate::{
    Buffer, parallel,
    vector::{sigmoid, simd},
};

/// `silu(gate) ⊙ up`.
pub(crate) fn forward(gate: &[f32], up: &[f32]) -> Buffer {
    assert_eq!(gate.len(), up.len());
    let mut out = Buffer::scratch(gate.len());
    parallel::for_rows(&mut out, 1, |first, out| {
        let range = first..first + out.len();
        simd(
            #[inline(always)]
            || {
                for ((out, &gate), &up) in out.iter_mut().zip(&gate[range.clone()]).zip(&up[range]) {
                    *out = gate * sigmoid(gate) * up;
                }
            },
        );
    });
    out
}

/// Turns `d`, the gradient of the output, into that of `up`; returns that of `gate`:
/// `d_up = d silu(g)`, `d_gate = d up σ(g) (1 + g (1 - σ(g)))`.
pub(crate) fn backward(gate: &[f32], up: &[f32], d: &mut [f32]) -> Buffer {
    let mut d_gate = Buffer::scratch(gate.len());
    let rows = parallel::task_rows(1);
    let tasks = d.par_chunks_mut(rows).zip(d_gate.par_chunks_mut(rows));
    tasks.zip(gate.par_chunks(rows).zip(up.par_chunks(rows))).for_each(|((d, d_gate), (gate, up))| {
        simd(
            #[inline(always)]
            || {
                for (((d, d_gate), &gate), &up) in d.iter_mut().zip(d_gate).zip(gate).zip(up) {
                    let s = sigmoid(gate);
                    *d_gate = *d * up * s * (1.0 - s).mul_add(gate, 1.0);
                    *d *= gate * s;
                }
            },
        );
    });
    d_gate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    #[test]
    fn the_gate_and_its_gradients_are_those_of_the_reference() {
        for len in [1, 17, 100] {
            let gate: Vec<f32> = random(1, len).iter().map(|x| 6.0 * x).collect();
            let up = random(2, len);
            let d_out = random(3, len);
            let (wide_gate, wide_up) = (wide(&gate), wide(&up));
            assert_close(&forward(&gate, &up), &reference::swiglu(&wide_gate, &wide_up), 1e-6);

            let mut d_up = d_out.clone();
            let d_gate = backward(&gate, &up, &mut d_up);
            assert_gradient(
                &d_gate,
                &gate,
                |gate| weighted(&d_out, &reference::swiglu(gate, &wide_up)),
                1e-6,
            );
            assert_gradient(&d_up, &up, |up| weighted(&d_out, &reference::swiglu(&wide_gate, up)), 1e-6);
        }
    }

    #[test]
    fn far_gates_pass_all_or_nothing() {
        assert_eq!(forward(&[200.0, -200.0], &[3.0, 3.0])[0], 600.0);
        assert!(forward(&[200.0, -200.0], &[3.0, 3.0])[1].abs() < 1e-30);
        let mut d_up = vec![1.0, 1.0];
        let d_gate = backward(&[200.0, -200.0], &[3.0, 3.0], &mut d_up);
        assert!((d_gate[0] - 3.0).abs() < 1e-6 && d_gate[1].abs() < 1e-30);
    }
}
