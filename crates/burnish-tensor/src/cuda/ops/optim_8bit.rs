//! AdamW with moments in 8 bits.

use std::sync::Arc;

use half::bf16;

use crate::{
    cuda::{
        Argument, Buffer, Cuda, Slice, SliceMut, launch_shape::LaunchShape, long, modules::Program::Optim,
    },
    eight_bit::{BLOCK, SIGNED, UNSIGNED},
    optim::{AdamW, Factors},
};

/// Quantised numbers, as [`crate::eight_bit::QuantizedMut`].
#[derive(Debug)]
pub(crate) struct Quantized<'a> {
    pub(crate) codes: SliceMut<'a, u8>,
    pub(crate) absmax: SliceMut<'a, f32>,
}

/// The maps of both moments, `[2, 256]`.
pub(crate) fn maps(cuda: &Arc<Cuda>) -> Buffer<f32> {
    Buffer::upload(cuda, &[SIGNED.values, UNSIGNED.values].concat())
}

/// One step on one tensor, as [`crate::eight_bit::adamw_step_8bit`]; `shadow` receives the new parameters, rounded to
/// bf16.
pub(crate) fn adamw_step_8bit(
    cuda: &Arc<Cuda>,
    params: SliceMut<'_, f32>,
    grads: Slice<'_, f32>,
    [m, v]: [Quantized<'_>; 2],
    maps: Slice<'_, f32>,
    shadow: Option<SliceMut<'_, bf16>>,
    hyper: &AdamW,
    decay: bool,
) {
    let (n, blocks) = (params.len(), params.len().div_ceil(BLOCK));
    assert_eq!((grads.len(), m.codes.len(), v.codes.len()), (n, n, n), "one gradient and two codes for each");
    assert_eq!((m.absmax.len(), v.absmax.len()), (blocks, blocks), "one scale for each block");
    assert_eq!(maps.len(), 512, "two maps");
    assert!(shadow.as_ref().is_none_or(|shadow| shadow.len() == n), "a shadow of each parameter");
    let Factors { keep, one_minus_beta1, beta2, one_minus_beta2, sqrt_correction2, eps, step_size } =
        Factors::of(hyper, decay);
    let constants = [keep, one_minus_beta1, beta2, one_minus_beta2, sqrt_correction2, eps, step_size];
    let shadow = shadow.map_or_else(Argument::null::<bf16>, Argument::from);
    let mut arguments: Vec<Argument> = vec![
        params.into(),
        grads.into(),
        m.codes.into(),
        m.absmax.into(),
        v.codes.into(),
        v.absmax.into(),
        maps.into(),
        shadow,
        long(n),
    ];
    arguments.extend(constants.map(Argument::from));
    cuda.launch(Optim, "adamw_8bit", LaunchShape::elements(n), &mut arguments);
}
