//! Operations without kernels: operands go to the host, results come back. Waits for the GPU.

use std::sync::Arc;

use super::{Elements, Gpu, Values};
use crate::{
    Buffer as HostBuffer, Param, Precision, Var,
    cuda::Buffer,
    data::Data,
    host_op::{HostOp, Operand},
};

impl Gpu<'_> {
    /// The result of an operation; see [`HostOp::forward`].
    pub(crate) fn on_host(&self, op: &mut HostOp, operands: &[&Var], is_recording: bool) -> Data {
        let values: Vec<Vec<f32>> = operands.iter().map(|x| self.to_host(x.data.device().all())).collect();
        let params = self.params_on_host(&op.params());
        let out = op.forward(&slices(&values), &slices(&params), is_recording);
        // As statistics, logarithms keep their digits: those of many rows are added up.
        let precision = match op {
            HostOp::LogDecay { .. } => Precision::F32,
            // Rows go where there may be none yet.
            HostOp::PutRows(_) => operands[1].data.device().all().precision(),
            _ => operands[0].data.device().all().precision(),
        };
        Values::upload(self.cuda, precision, &out).into()
    }

    /// The gradients of the operands, each in its operand's type, and of the parameters; see [`HostOp::backward`].
    pub(crate) fn on_host_backward(
        &self,
        op: &HostOp,
        operands: &[Operand],
        d: &Values,
    ) -> (Vec<Values>, Vec<Option<Buffer<f32>>>) {
        let data: Vec<&Arc<Data>> = operands.iter().filter_map(|x| x.data.as_ref()).collect();
        let values: Vec<Vec<f32>> = data.iter().map(|x| self.to_host(x.device().all())).collect();
        let of_op = op.params();
        let params = self.params_on_host(&of_op);
        let mut d_params: Vec<Option<Vec<f32>>> =
            of_op.iter().map(|param| param.is_trained().then(|| vec![0.0; param.len()])).collect();
        let gradients =
            op.backward(&slices(&values), &slices(&params), &self.to_host(d.all()), &mut d_params);
        let upload = |(at, gradient): (usize, HostBuffer)| {
            let precision = data.get(at).map_or(d.all().precision(), |x| x.device().all().precision());
            Values::upload(self.cuda, precision, &gradient)
        };
        let gradients = gradients.into_iter().enumerate().map(upload).collect();
        let d_params = d_params.into_iter().map(|own| own.map(|own| Buffer::upload(self.cuda, &own)));
        (gradients, d_params.collect())
    }

    fn params_on_host(&self, params: &[Param]) -> Vec<Vec<f32>> {
        params.iter().map(|&param| self.to_host(self.params.elements(param))).collect()
    }

    /// The numbers of values; NaN if the GPU has failed, and [`Cuda::check`](crate::cuda::Cuda::check) returns the error.
    fn to_host(&self, values: Elements<'_>) -> Vec<f32> {
        values.in_f32(self.cuda).all().download(self.cuda).unwrap_or_else(|error| {
            self.cuda.note(Err(error));
            vec![f32::NAN; values.len()]
        })
    }
}

fn slices(values: &[Vec<f32>]) -> Vec<&[f32]> {
    values.iter().map(Vec::as_slice).collect()
}
