//! Buffers laid out like the trained parameters: gradients, and the optimiser's state.

use std::borrow::Cow;
use std::ops::Range;

use crate::Precision;
use crate::cuda::{SliceMut, ops::elementwise, ops::optim as on_gpu, values::Values};
use crate::{
    DeviceError, Params,
    data::{Data, dispatch},
    optim::{self, AdamW},
};

/// Numbers laid out like the trained parameters of a [`Params`], on the same device.
#[derive(Clone, Debug)]
pub struct Flat(pub(crate) Data);

/// Where a backward pass adds gradients: a slice on the host, or a [`Flat`].
#[derive(Debug)]
pub struct GradientsMut<'g>(pub(crate) Sink<'g>);

#[derive(Debug)]
pub(crate) enum Sink<'g> {
    Host(&'g mut [f32]),
    Device(SliceMut<'g, f32>),
}

impl GradientsMut<'_> {
    /// Number of elements.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no use")]
    pub fn len(&self) -> usize {
        match &self.0 {
            Sink::Host(data) => data.len(),
            Sink::Device(data) => data.len(),
        }
    }

    /// The same, borrowed for a shorter time.
    pub fn again(&mut self) -> GradientsMut<'_> {
        GradientsMut(match &mut self.0 {
            Sink::Host(data) => Sink::Host(data),
            Sink::Device(data) => Sink::Device(data.again()),
        })
    }
}

impl<'g> From<&'g mut [f32]> for GradientsMut<'g> {
    fn from(data: &'g mut [f32]) -> Self {
        GradientsMut(Sink::Host(data))
    }
}

impl<'g> From<&'g mut Vec<f32>> for GradientsMut<'g> {
    fn from(data: &'g mut Vec<f32>) -> Self {
        GradientsMut(Sink::Host(data))
    }
}

impl<'g> From<&'g mut Flat> for GradientsMut<'g> {
    fn from(flat: &'g mut Flat) -> Self {
        GradientsMut(match &mut flat.0 {
            Data::Host(data) => Sink::Host(data),
            Data::Device(data) => Sink::Device(data.wide_mut()),
        })
    }
}

/// Equal if all numbers are equal, wherever they are; a buffer that can't be read equals nothing.
impl PartialEq for Flat {
    fn eq(&self, other: &Self) -> bool {
        matches!((self.to_host(), other.to_host()), (Ok(own), Ok(other)) if own == other)
    }
}

impl Flat {
    /// Zeros for `params`.
    #[must_use]
    pub fn zeros(params: &Params) -> Self {
        Flat::zeros_beside(params, params.trained_len())
    }

    /// `len` zeros on the device of `params`, for something other than the trained parameters.
    #[must_use]
    pub fn zeros_beside(params: &Params, len: usize) -> Self {
        let data = dispatch!(
            params.device(),
            |gpu| Values::zeros(gpu, Precision::F32, len).into(),
            Data::Host(vec![0.0; len].into())
        );
        Flat(data)
    }

    /// These numbers, copied to the device of `params`.
    ///
    /// # Panics
    /// If their number is not that of the trained parameters.
    #[must_use]
    pub fn of(params: &Params, data: Vec<f32>) -> Self {
        assert_eq!(data.len(), params.trained_len(), "numbers laid out like what is trained");
        let data = dispatch!(
            params.device(),
            |gpu| Values::upload(gpu, Precision::F32, &data).into(),
            Data::Host(data.into())
        );
        Flat(data)
    }

    /// Number of elements.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no use")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The numbers on the host.
    ///
    /// # Errors
    /// The first failure on a GPU so far.
    pub fn to_host(&self) -> Result<Cow<'_, [f32]>, DeviceError> {
        match &self.0 {
            Data::Host(data) => Ok(Cow::Borrowed(data)),
            Data::Device(data) => Ok(Cow::Owned(data.wide().download(data.cuda())?)),
        }
    }

    /// Sets all to 0.
    pub fn clear(&mut self) {
        match &mut self.0 {
            Data::Host(data) => data.fill(0.0),
            Data::Device(data) => {
                let cuda = data.cuda().clone();
                data.wide_mut().fill_zero(&cuda);
            }
        }
    }

    /// As [`optim::scale`].
    pub fn scale(&mut self, factor: f32) {
        match &mut self.0 {
            Data::Host(data) => optim::scale(data, factor),
            Data::Device(data) => {
                let cuda = data.cuda().clone();
                elementwise::scale(&cuda, data.wide_mut(), factor);
            }
        }
    }

    /// As [`optim::squared_norm`]. Waits for a GPU.
    ///
    /// # Errors
    /// The first failure on a GPU so far.
    pub fn squared_norm(&self) -> Result<f64, DeviceError> {
        match &self.0 {
            Data::Host(data) => Ok(optim::squared_norm(data)),
            Data::Device(data) => {
                let sum = on_gpu::squared_norm(data.cuda(), data.wide()).download()?;
                Ok(sum.iter().sum())
            }
        }
    }
}

impl Params {
    /// One step of AdamW on the trained parameters in `run`, as [`optim::adamw_step`], on their device. `grads` and the
    /// running means `m` and `v` must have been made for these parameters.
    ///
    /// # Panics
    /// If they were not, or `run` is out of range.
    pub fn adamw_step(
        &mut self,
        run: Range<usize>,
        grads: &Flat,
        moments: [&mut Flat; 2],
        hyper: &AdamW,
        decay: bool,
    ) {
        let [m, v] = moments;
        if let Some(on_gpu) = self.on_gpu_mut() {
            let [m, v] = [m, v].map(|flat| flat.0.device_mut().wide_mut().into_slice(run.clone()));
            let grads = grads.0.device().wide().slice(run.clone());
            return on_gpu.adamw_step(run, grads, on_gpu::Moments { m, v }, hyper, decay);
        }
        let [m, v] = [m, v].map(|flat| &mut flat.0.host_mut()[run.clone()]);
        optim::adamw_step(&mut self.data_mut()[run.clone()], &grads.0.host()[run], m, v, hyper, decay);
    }
}
