//! The parameters of a model on a GPU.

use std::{ops::Range, sync::Arc};

use half::bf16;

use super::{
    Buffer, Cuda, CudaError, Slice,
    ops::{
        optim::{Moments, adamw_step},
        optim_8bit::{Quantized, adamw_step_8bit},
    },
    values::{Elements, to_bf16},
};
use crate::{Param, Precision, Store, optim::AdamW};

/// Copies of the buffers of a [`Params`](crate::Params); during training the first one is the master.
#[derive(Clone, Debug)]
pub(crate) struct OnGpu {
    pub(crate) cuda: Arc<Cuda>,
    trained: Buffer<f32>,
    /// The trained parameters in bf16, for products in that precision; renewed with every step of the optimiser.
    shadow: Option<Buffer<bf16>>,
    frozen: Buffer<f32>,
    frozen_bf16: Buffer<bf16>,
}

impl OnGpu {
    pub(crate) fn upload(
        cuda: &Arc<Cuda>,
        precision: Precision,
        trained: &[f32],
        frozen: &[f32],
        frozen_bf16: &[bf16],
    ) -> Self {
        let trained = Buffer::upload(cuda, trained);
        let shadow = (precision == Precision::Bf16).then(|| to_bf16(cuda, trained.all()));
        let frozen = Buffer::upload(cuda, frozen);
        let frozen_bf16 = Buffer::upload(cuda, frozen_bf16);
        OnGpu { cuda: Arc::clone(cuda), trained, shadow, frozen, frozen_bf16 }
    }

    /// The trained parameters.
    pub(crate) fn download(&self) -> Result<Vec<f32>, CudaError> {
        self.trained.download()
    }

    /// The elements of a parameter as they are stored.
    pub(crate) fn elements(&self, param: Param) -> Elements<'_> {
        let range = param.range();
        match param.store {
            Store::Trained => self.trained.slice(range).into(),
            Store::Frozen => self.frozen.slice(range).into(),
            Store::FrozenBf16 => self.frozen_bf16.slice(range).into(),
        }
    }

    /// The elements of a matrix or of a factor of an adapter, as an operand of products: in bf16 where there is a copy, so
    /// that none is rounded again at each use.
    pub(crate) fn operand(&self, param: Param) -> Elements<'_> {
        match &self.shadow {
            Some(shadow) if param.is_trained() => shadow.slice(param.range()).into(),
            _ => self.elements(param),
        }
    }

    /// The elements of a vector.
    #[expect(clippy::panic, reason = "a mistake of the program, as on the host")]
    pub(crate) fn get(&self, param: Param) -> Slice<'_, f32> {
        match self.elements(param) {
            Elements::F32(values) => values,
            Elements::Bf16(_) => panic!("a parameter in bf16 is read as f32"),
        }
    }

    /// As [`crate::optim::adamw_step`] on the trained parameters in `run`.
    pub(crate) fn adamw_step(
        &mut self,
        run: Range<usize>,
        grads: Slice<'_, f32>,
        moments: Moments<'_>,
        hyper: &AdamW,
        decay: bool,
    ) {
        let shadow = self.shadow.as_mut().map(|shadow| shadow.slice_mut(run.clone()));
        let params = self.trained.slice_mut(run);
        adamw_step(&self.cuda, params, grads, moments, shadow, hyper, decay);
    }

    /// As [`crate::eight_bit::adamw_step_8bit`] on the trained parameters in `run`, which are one tensor.
    pub(crate) fn adamw_step_8bit(
        &mut self,
        run: Range<usize>,
        grads: Slice<'_, f32>,
        moments: [Quantized<'_>; 2],
        maps: Slice<'_, f32>,
        hyper: &AdamW,
        decay: bool,
    ) {
        let shadow = self.shadow.as_mut().map(|shadow| shadow.slice_mut(run.clone()));
        let params = self.trained.slice_mut(run);
        adamw_step_8bit(&self.cuda, params, grads, moments, maps, shadow, hyper, decay);
    }
}
