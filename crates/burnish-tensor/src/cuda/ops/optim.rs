//! Passes over flat parameter and gradient buffers.

use std::sync::Arc;

use half::bf16;

use crate::{
    cuda::{
        Argument, Buffer, Cuda, Slice, SliceMut, launch_shape::LaunchShape, long, modules::Program::Optim,
    },
    optim::{AdamW, Factors},
};

/// Elements whose squares one block adds: a fixed number, so that the sum does not depend on the card.
const PART_ELEMENTS: usize = 1 << 16;

/// Running means of AdamW.
pub(crate) struct Moments<'a> {
    pub(crate) m: SliceMut<'a, f32>,
    pub(crate) v: SliceMut<'a, f32>,
}

/// One step of AdamW, as [`crate::optim::adamw_step`]; `shadow` receives the new parameters, rounded to bf16.
pub(crate) fn adamw_step(
    cuda: &Arc<Cuda>,
    params: SliceMut<'_, f32>,
    grads: Slice<'_, f32>,
    moments: Moments<'_>,
    shadow: Option<SliceMut<'_, bf16>>,
    hyper: &AdamW,
    decay: bool,
) {
    let n = params.len();
    let Moments { m, v } = moments;
    assert_eq!((grads.len(), m.len(), v.len()), (n, n, n), "one gradient and two means for each parameter");
    assert!(shadow.as_ref().is_none_or(|shadow| shadow.len() == n), "a shadow of each parameter");
    let Factors { keep, one_minus_beta1, beta2, one_minus_beta2, sqrt_correction2, eps, step_size } =
        Factors::of(hyper, decay);
    let constants = [keep, one_minus_beta1, beta2, one_minus_beta2, sqrt_correction2, eps, step_size];
    let shadow = shadow.map_or_else(Argument::null::<bf16>, Argument::from);
    let mut arguments: Vec<Argument> = vec![params.into(), grads.into(), m.into(), v.into(), shadow, long(n)];
    arguments.extend(constants.map(Argument::from));
    cuda.launch(Optim, "adamw", LaunchShape::elements(n), &mut arguments);
}

/// `Σ xᵢ²` in f64, one element.
pub(crate) fn squared_norm(cuda: &Arc<Cuda>, x: Slice<'_, f32>) -> Buffer<f64> {
    let parts = x.len().div_ceil(PART_ELEMENTS);
    let mut partial = Buffer::<f64>::uninit(cuda, parts);
    let arguments = &mut [partial.all_mut().into(), x.into(), long(x.len()), long(PART_ELEMENTS)];
    cuda.launch(Optim, "squared_partial", LaunchShape::blocks(parts, 1, 256), arguments);
    let mut sum = Buffer::uninit(cuda, 1);
    let arguments = &mut [sum.all_mut().into(), partial.all().into(), long(parts)];
    cuda.launch(Optim, "sum_partials", LaunchShape::blocks(1, 1, 256), arguments);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cuda::testing::device,
        optim,
        testing::{assert_close, random, wide},
    };

    #[test]
    fn adamw_does_what_it_does_on_the_cpu() {
        let Some(cuda) = device() else { return };
        for decay in [false, true] {
            let n = 1000;
            let mut params = random(1, n);
            let (mut m, mut v) = (vec![0.0; n], vec![0.0; n]);
            let mut on_gpu = Buffer::upload(&cuda, &params);
            let (mut gpu_m, mut gpu_v) = (Buffer::zeros(&cuda, n), Buffer::zeros(&cuda, n));
            let mut shadow = Buffer::<bf16>::uninit(&cuda, n);
            for step in 1..=5 {
                let hyper =
                    optim::AdamW { lr: 0.02, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.3, step };
                let grads = random(100 + step, n);
                optim::adamw_step(&mut params, &grads, &mut m, &mut v, &hyper, decay);
                let grads = Buffer::upload(&cuda, &grads);
                let moments = Moments { m: gpu_m.all_mut(), v: gpu_v.all_mut() };
                let into = (step > 1).then(|| shadow.all_mut());
                adamw_step(&cuda, on_gpu.all_mut(), grads.all(), moments, into, &hyper, decay);
            }
            let stepped = on_gpu.download().unwrap();
            assert_close(&stepped, &wide(&params), 1e-6);
            assert_close(&gpu_m.download().unwrap(), &wide(&m), 1e-6);
            assert_close(&gpu_v.download().unwrap(), &wide(&v), 1e-6);
            let rounded: Vec<bf16> = stepped.iter().map(|&p| bf16::from_f32(p)).collect();
            assert_eq!(shadow.download().unwrap(), rounded);
        }
    }

    #[test]
    fn the_squared_norm_is_summed_in_f64() {
        let Some(cuda) = device() else { return };
        for n in [0, 1, 2 * PART_ELEMENTS + 5] {
            let x = random(1, n);
            let exact: f64 = wide(&x).iter().map(|x| x * x).sum();
            let sum = squared_norm(&cuda, Buffer::upload(&cuda, &x).all()).download().unwrap()[0];
            assert!((sum - exact).abs() <= 1e-12 * exact, "{sum} is not {exact}");
        }
    }
}
