//! Elementwise operations: sums, and the gate of SwiGLU.

use std::sync::Arc;

use crate::cuda::{
    Cuda, SliceMut, int,
    launch_shape::LaunchShape,
    long,
    modules::Program::Elementwise,
    values::{Elements, ElementsMut, Values},
};

/// `a + b`.
pub(crate) fn add(cuda: &Arc<Cuda>, a: Elements<'_>, b: Elements<'_>) -> Values {
    assert_eq!(a.len(), b.len(), "elements of a sum");
    let (mut out, n) = (Values::uninit(cuda, a.precision(), a.len()), a.len());
    let arguments = &mut [out.all_mut().into(), a.into(), b.into(), long(n)];
    cuda.launch(Elementwise, a.kernel(["add_f32", "add_bf16"]), LaunchShape::fours(n), arguments);
    out
}

/// `y += x`.
pub(crate) fn add_assign<'y>(cuda: &Arc<Cuda>, y: impl Into<ElementsMut<'y>>, x: Elements<'_>) {
    let (y, n) = (y.into(), x.len());
    assert_eq!(y.len(), n, "elements of a sum");
    let name = x.kernel(["add_assign_f32", "add_assign_bf16"]);
    cuda.launch(Elementwise, name, LaunchShape::fours(n), &mut [y.into(), x.into(), long(n)]);
}

/// `x *= factor`.
pub(crate) fn scale(cuda: &Arc<Cuda>, x: SliceMut<'_, f32>, factor: f32) {
    let n = x.len();
    cuda.launch(Elementwise, "scale", LaunchShape::fours(n), &mut [x.into(), factor.into(), long(n)]);
}

/// `silu(gate) ⊙ up`.
pub(crate) fn swiglu(cuda: &Arc<Cuda>, gate: Elements<'_>, up: Elements<'_>) -> Values {
    assert_eq!(gate.len(), up.len(), "elements of a gate");
    let (mut out, n) = (Values::uninit(cuda, gate.precision(), gate.len()), gate.len());
    let arguments = &mut [out.all_mut().into(), gate.into(), up.into(), long(n)];
    let name = gate.kernel(["swiglu_forward_f32", "swiglu_forward_bf16"]);
    cuda.launch(Elementwise, name, LaunchShape::fours(n), arguments);
    out
}

/// The same of rows `[rows, 2 · cols]` with the gates in their first halves.
pub(crate) fn swiglu_halves(cuda: &Arc<Cuda>, both: Elements<'_>, cols: usize) -> Values {
    assert!(both.len().is_multiple_of(2 * cols), "{} elements in rows of {}", both.len(), 2 * cols);
    let rows = both.len() / (2 * cols);
    let mut out = Values::uninit(cuda, both.precision(), rows * cols);
    let arguments = &mut [out.all_mut().into(), both.into(), int(cols)];
    let name = both.kernel(["swiglu_halves_f32", "swiglu_halves_bf16"]);
    cuda.launch(Elementwise, name, LaunchShape::rows(rows, cols.div_ceil(4)), arguments);
    out
}

/// Turns `d`, the gradient of the output, into that of `up`; returns that of `gate`.
pub(crate) fn swiglu_backward(
    cuda: &Arc<Cuda>,
    gate: Elements<'_>,
    up: Elements<'_>,
    d: ElementsMut<'_>,
) -> Values {
    let n = gate.len();
    assert_eq!((up.len(), d.len()), (n, n), "elements of a gate");
    let mut d_gate = Values::uninit(cuda, gate.precision(), n);
    let arguments = &mut [d_gate.all_mut().into(), d.into(), gate.into(), up.into(), long(n)];
    let name = gate.kernel(["swiglu_backward_f32", "swiglu_backward_bf16"]);
    cuda.launch(Elementwise, name, LaunchShape::fours(n), arguments);
    d_gate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cuda::{
            Buffer,
            testing::{PRECISIONS, device, rounded},
        },
        reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    #[test]
    fn sums_reach_every_element() {
        let Some(cuda) = device() else { return };
        // For the longest, each thread takes several steps.
        for n in [0, 1, 3, 300, (1 << 14) * 256 + 5] {
            for (precision, _) in PRECISIONS {
                let [a, b] = [1, 2].map(|seed| rounded(precision, random(seed, n)));
                let [x, y] = [&a, &b].map(|x| Values::upload(&cuda, precision, x));
                let mut sum = add(&cuda, x.all(), y.all());
                // Starting at an odd address.
                let from = n.min(1);
                add_assign(&cuda, sum.slice_mut(from..n), x.all().slice(from..n));
                let once = rounded(precision, a.iter().zip(&b).map(|(a, b)| a + b).collect());
                let twice = rounded(precision, once.iter().zip(&a).map(|(sum, a)| sum + a).collect());
                let found = sum.download().unwrap();
                assert_eq!(found[..from], once[..from]);
                assert_eq!(found[from..], twice[from..]);
            }
        }
    }

    #[test]
    fn multiples_and_conversions_reach_every_element() {
        let Some(cuda) = device() else { return };
        for n in [0, 1, 4, 1001] {
            let x = random(1, n);
            let mut half = Buffer::upload(&cuda, &x);
            scale(&cuda, half.all_mut(), 0.5);
            assert_eq!(half.download().unwrap(), x.iter().map(|x| 0.5 * x).collect::<Vec<_>>());
            for (precision, _) in PRECISIONS {
                let found = Values::upload(&cuda, precision, &x).download().unwrap();
                assert_eq!(found, rounded(precision, x.clone()));
            }
        }
    }

    #[test]
    fn the_gate_and_its_gradients_are_those_of_the_reference() {
        let Some(cuda) = device() else { return };
        for (precision, tolerance) in PRECISIONS {
            let n = 701;
            let mut gate: Vec<f32> = rounded(precision, random(1, n).iter().map(|x| 4.0 * x).collect());
            // Gates at both extremes, where silu is the identity or zero.
            (gate[0], gate[1], gate[2]) = (0.0, 100.0, -200.0);
            let [up, d_out] = [2, 3].map(|seed| rounded(precision, random(seed, n)));
            let [g, u, mut d] = [&gate, &up, &d_out].map(|x| Values::upload(&cuda, precision, x));
            let out = swiglu(&cuda, g.all(), u.all()).download().unwrap();
            assert_close(&out, &reference::swiglu(&wide(&gate), &wide(&up)), tolerance);
            let d_gate = swiglu_backward(&cuda, g.all(), u.all(), d.all_mut()).download().unwrap();
            let d_up = d.download().unwrap();
            let of_gate = |gate: &[f64]| weighted(&d_out, &reference::swiglu(gate, &wide(&up)));
            let of_up = |up: &[f64]| weighted(&d_out, &reference::swiglu(&wide(&gate), up));
            assert_gradient(&d_gate, &gate, of_gate, 1e-4 + tolerance);
            assert_gradient(&d_up, &up, of_up, 1e-4 + tolerance);
        }
    }
}
