//! Operations on each element alone: sums, and the gate of SwiGLU.

use std::sync::Arc;

use crate::cuda::{Buffer, Cuda, Slice, SliceMut, long, modules::Program::Elementwise, plan::Plan};

/// `a + b`.
pub(crate) fn add(cuda: &Arc<Cuda>, a: Slice<'_, f32>, b: Slice<'_, f32>) -> Buffer<f32> {
    assert_eq!(a.len(), b.len(), "elements of a sum");
    let (mut out, n) = (Buffer::uninit(cuda, a.len()), a.len());
    let arguments = &mut [out.all_mut().into(), a.into(), b.into(), long(n)];
    cuda.launch(Elementwise, "add", Plan::elements(n), arguments);
    out
}

/// `y += x`.
pub(crate) fn add_assign(cuda: &Arc<Cuda>, y: SliceMut<'_, f32>, x: Slice<'_, f32>) {
    assert_eq!(y.len(), x.len(), "elements of a sum");
    let n = x.len();
    cuda.launch(Elementwise, "add_assign", Plan::elements(n), &mut [y.into(), x.into(), long(n)]);
}

/// `x *= factor`.
pub(crate) fn scale(cuda: &Arc<Cuda>, x: SliceMut<'_, f32>, factor: f32) {
    let n = x.len();
    cuda.launch(Elementwise, "scale", Plan::elements(n), &mut [x.into(), factor.into(), long(n)]);
}

/// `silu(gate) ⊙ up`.
pub(crate) fn swiglu(cuda: &Arc<Cuda>, gate: Slice<'_, f32>, up: Slice<'_, f32>) -> Buffer<f32> {
    assert_eq!(gate.len(), up.len(), "elements of a gate");
    let (mut out, n) = (Buffer::uninit(cuda, gate.len()), gate.len());
    let arguments = &mut [out.all_mut().into(), gate.into(), up.into(), long(n)];
    cuda.launch(Elementwise, "swiglu_forward", Plan::elements(n), arguments);
    out
}

/// Turns `d`, the gradient of the output, into that of `up`; returns that of `gate`.
pub(crate) fn swiglu_backward(
    cuda: &Arc<Cuda>,
    gate: Slice<'_, f32>,
    up: Slice<'_, f32>,
    d: SliceMut<'_, f32>,
) -> Buffer<f32> {
    let n = gate.len();
    assert_eq!((up.len(), d.len()), (n, n), "elements of a gate");
    let mut d_gate = Buffer::uninit(cuda, n);
    let arguments = &mut [d_gate.all_mut().into(), d.into(), gate.into(), up.into(), long(n)];
    cuda.launch(Elementwise, "swiglu_backward", Plan::elements(n), arguments);
    d_gate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cuda::testing::device,
        reference,
        testing::{assert_close, assert_gradient, random, weighted, wide},
    };

    #[test]
    fn sums_and_multiples_reach_every_element() {
        let Some(cuda) = device() else { return };
        // The longest takes several steps of each thread.
        for n in [0, 1, 300, (1 << 12) * 256 + 5] {
            let (a, b) = (random(1, n), random(2, n));
            let (x, y) = (Buffer::upload(&cuda, &a), Buffer::upload(&cuda, &b));
            let mut sum = add(&cuda, x.all(), y.all());
            add_assign(&cuda, sum.all_mut(), x.all());
            scale(&cuda, sum.all_mut(), 0.5);
            let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| 0.5 * (a + b + a)).collect();
            assert_eq!(sum.download().unwrap(), expected);
        }
    }

    #[test]
    fn the_gate_and_its_gradients_are_those_of_the_reference() {
        let Some(cuda) = device() else { return };
        let n = 701;
        let mut gate: Vec<f32> = random(1, n).iter().map(|x| 4.0 * x).collect();
        // Gates at both ends: silu is the identity there, or nothing.
        (gate[0], gate[1], gate[2]) = (0.0, 100.0, -200.0);
        let (up, d_out) = (random(2, n), random(3, n));
        let [g, u] = [&gate, &up].map(|x| Buffer::upload(&cuda, x));
        let mut d = Buffer::upload(&cuda, &d_out);
        let out = swiglu(&cuda, g.all(), u.all()).download().unwrap();
        assert_close(&out, &reference::swiglu(&wide(&gate), &wide(&up)), 1e-6);
        let d_gate = swiglu_backward(&cuda, g.all(), u.all(), d.all_mut()).download().unwrap();
        let d_up = d.download().unwrap();
        let of_gate = |gate: &[f64]| weighted(&d_out, &reference::swiglu(gate, &wide(&up)));
        let of_up = |up: &[f64]| weighted(&d_out, &reference::swiglu(&wide(&gate), up));
        assert_gradient(&d_gate, &gate, of_gate, 1e-4);
        assert_gradient(&d_up, &up, of_up, 1e-4);
    }
}
