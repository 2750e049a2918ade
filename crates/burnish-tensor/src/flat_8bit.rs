//! The moments of AdamW in 8 bits, laid out like the trained parameters and on their device.

use std::borrow::Cow;
use std::ops::Range;

use crate::cuda::{Buffer as OnGpu, ops::optim_8bit};
use crate::{
    DeviceError, Flat, ParamEntry, Params,
    data::dispatch,
    eight_bit::{BLOCK, QuantizedMut, adamw_step_8bit},
    optim::AdamW,
};

/// A code for each trained parameter, and a scale for each block of [`BLOCK`] of a tensor.
///
/// Blocks begin with each tensor, so that a tensor's part does not depend on its neighbours.
#[derive(Clone, Debug)]
pub struct Flat8(Data);

#[derive(Clone, Debug)]
enum Data {
    Host { codes: Vec<u8>, absmax: Vec<f32> },
    Device(OnDevice),
}

#[derive(Clone, Debug)]
struct OnDevice {
    codes: OnGpu<u8>,
    absmax: OnGpu<f32>,
    /// What the codes mean: of both moments, `[2, 256]`.
    maps: OnGpu<f32>,
}

/// Codes `[trained_len]` and scales `[Flat8::blocks]` on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Codes<'a> {
    /// In the order of the trained parameters.
    pub codes: Cow<'a, [u8]>,
    /// Of each tensor in turn.
    pub absmax: Cow<'a, [f32]>,
}

/// Equal if all numbers are equal, wherever they are; what can't be read equals nothing.
impl PartialEq for Flat8 {
    fn eq(&self, other: &Self) -> bool {
        matches!((self.to_host(), other.to_host()), (Ok(own), Ok(other)) if own == other)
    }
}

impl Flat8 {
    /// Number of scales for the trained parameters.
    #[must_use]
    pub fn blocks(params: &Params) -> usize {
        params.trained_entries().map(|entry| entry.param.range().len().div_ceil(BLOCK)).sum()
    }

    /// Zeros for `params`.
    #[must_use]
    pub fn zeros(params: &Params) -> Self {
        Flat8::of(params, vec![0; params.trained_len()], vec![0.0; Flat8::blocks(params)])
    }

    /// These codes and scales, copied to the device of `params`.
    ///
    /// # Panics
    /// If there are not as many as `params` needs.
    #[must_use]
    pub fn of(params: &Params, codes: Vec<u8>, absmax: Vec<f32>) -> Self {
        assert_eq!(codes.len(), params.trained_len(), "a code for each trained parameter");
        assert_eq!(absmax.len(), Flat8::blocks(params), "a scale for each block");
        Flat8(dispatch!(
            params.device(),
            |gpu| Data::Device(OnDevice {
                codes: OnGpu::upload(gpu, &codes),
                absmax: OnGpu::upload(gpu, &absmax),
                maps: optim_8bit::maps(gpu),
            }),
            Data::Host { codes, absmax }
        ))
    }

    /// The codes and scales on the host.
    ///
    /// # Errors
    /// The first failure on a GPU so far.
    pub fn to_host(&self) -> Result<Codes<'_>, DeviceError> {
        Ok(match &self.0 {
            Data::Host { codes, absmax } => {
                Codes { codes: Cow::Borrowed(codes), absmax: Cow::Borrowed(absmax) }
            }
            Data::Device(OnDevice { codes, absmax, .. }) => {
                Codes { codes: Cow::Owned(codes.download()?), absmax: Cow::Owned(absmax.download()?) }
            }
        })
    }
}

/// A tensor of the trained parameters.
struct Tensor {
    run: Range<usize>,
    /// Of all scales, its own.
    blocks: Range<usize>,
    decays: bool,
}

fn tensors(params: &Params) -> Vec<Tensor> {
    let mut first = 0;
    let tensor = |entry: &ParamEntry| {
        let run = entry.param.range();
        let blocks = first..first + run.len().div_ceil(BLOCK);
        first = blocks.end;
        Tensor { run, blocks, decays: entry.decays }
    };
    params.trained_entries().map(tensor).collect()
}

impl Params {
    /// One step of AdamW on all trained parameters with moments in 8 bits, as
    /// [`adamw_step_8bit`](crate::eight_bit::adamw_step_8bit) on each tensor. Weight decay applies to those that decay.
    /// `grads` and the moments must have been made for these parameters.
    ///
    /// # Panics
    /// If they were not.
    #[expect(clippy::panic, reason = "documented: a mistake of the program")]
    pub fn adamw_step_8bit(&mut self, grads: &Flat, moments: [&mut Flat8; 2], hyper: &AdamW) {
        let tensors = tensors(self);
        match moments.map(|moment| &mut moment.0) {
            [Data::Host { codes: m, absmax: m_absmax }, Data::Host { codes: v, absmax: v_absmax }] => {
                let (params, grads) = (self.data_mut(), grads.0.host());
                for Tensor { run, blocks, decays } in tensors {
                    let m =
                        QuantizedMut { codes: &mut m[run.clone()], absmax: &mut m_absmax[blocks.clone()] };
                    let v = QuantizedMut { codes: &mut v[run.clone()], absmax: &mut v_absmax[blocks] };
                    adamw_step_8bit(&mut params[run.clone()], &grads[run], m, v, hyper, decays);
                }
            }
            [Data::Device(m), Data::Device(v)] => {
                let Some(on_gpu) = self.on_gpu_mut() else { panic!("{ELSEWHERE}") };
                let OnDevice { codes: m, absmax: m_absmax, maps } = m;
                let OnDevice { codes: v, absmax: v_absmax, .. } = v;
                let grads = grads.0.device().wide();
                for Tensor { run, blocks, decays } in tensors {
                    let m = optim_8bit::Quantized {
                        codes: m.slice_mut(run.clone()),
                        absmax: m_absmax.slice_mut(blocks.clone()),
                    };
                    let v = optim_8bit::Quantized {
                        codes: v.slice_mut(run.clone()),
                        absmax: v_absmax.slice_mut(blocks),
                    };
                    let of_run = grads.slice(run.clone());
                    on_gpu.adamw_step_8bit(run, of_run, [m, v], maps.all(), hyper, decays);
                }
            }
            _ => panic!("{ELSEWHERE}"),
        }
    }
}

const ELSEWHERE: &str = "moments on another device than the parameters";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Device, cuda::testing::device, testing::random};

    /// Three tensors that are no multiples of a block, one of which does not decay.
    fn params() -> Params {
        let mut params = Params::new();
        for (name, shape, decays) in [("a", &[30, 20][..], true), ("b", &[7], false), ("c", &[16, 64], true)]
        {
            params.add(name, shape, decays);
        }
        let values = random(1, params.trained_len());
        params.data_mut().copy_from_slice(&values);
        params
    }

    fn trained(device: &Device) -> (Vec<f32>, [Flat8; 2]) {
        let mut params = params().on(device);
        let [mut m, mut v] = [Flat8::zeros(&params), Flat8::zeros(&params)];
        for step in 1..=4 {
            let grads = Flat::of(&params, random(step + 1, params.trained_len()));
            let hyper = AdamW { lr: 0.02, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.3, step };
            params.adamw_step_8bit(&grads, [&mut m, &mut v], &hyper);
        }
        params.fetch().unwrap();
        (params.data().to_vec(), [m, v])
    }

    #[test]
    fn a_tensor_does_not_depend_on_its_neighbours() {
        let whole = trained(&Device::cpu());
        let codes = whole.1[0].to_host().unwrap();
        assert_eq!((codes.codes.len(), codes.absmax.len()), (600 + 7 + 1024, 3 + 1 + 4));
        // The last tensor alone.
        let mut alone = Params::new();
        alone.add("c", &[16, 64], true);
        let part = 607..607 + 1024;
        alone.data_mut().copy_from_slice(&params().data()[part.clone()]);
        let [mut m, mut v] = [Flat8::zeros(&alone), Flat8::zeros(&alone)];
        for step in 1..=4 {
            let grads = Flat::of(&alone, random(step + 1, 1631)[part.clone()].to_vec());
            let hyper = AdamW { lr: 0.02, beta1: 0.9, beta2: 0.99, eps: 1e-8, weight_decay: 0.3, step };
            alone.adamw_step_8bit(&grads, [&mut m, &mut v], &hyper);
        }
        assert_eq!(alone.data(), &whole.0[part.clone()]);
        assert_eq!(m.to_host().unwrap().codes[..], codes.codes[part]);
    }

    #[test]
    fn a_gpu_makes_the_steps_of_the_cpu() {
        let Some(cuda) = device() else { return };
        let (ours, moments) = trained(&Device::from(Arc::clone(&cuda)));
        let (expected, on_cpu) = trained(&Device::cpu());
        for (ours, expected) in ours.iter().zip(&expected) {
            assert!((ours - expected).abs() < 1e-5, "{ours} is not {expected}");
        }
        for (ours, expected) in moments.iter().zip(&on_cpu) {
            let (ours, expected) = (ours.to_host().unwrap(), expected.to_host().unwrap());
            let differ = ours.codes.iter().zip(&*expected.codes).filter(|(a, b)| a != b).count();
            assert!(differ * 200 <= ours.codes.len(), "{differ} codes differ");
            for (ours, expected) in ours.absmax.iter().zip(&*expected.absmax) {
                assert!((ours - expected).abs() <= 1e-5 * expected);
            }
            // What was read can be put back.
            let on_gpu = params().on(&Device::from(Arc::clone(&cuda)));
            let again = Flat8::of(&on_gpu, ours.codes.to_vec(), ours.absmax.to_vec());
            assert_eq!(again.to_host().unwrap(), ours);
        }
    }
}
