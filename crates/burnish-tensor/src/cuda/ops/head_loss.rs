//! A loss on rows of logits, in addition to their log-probs and entropies, as in `crate::ops::head_loss`.
//!
//! A kernel handles soft labels and differentiates the rest of the row as well. A function of whole rows runs on the
//! host: logits go there and derivatives come back, some rows at a time, and everything waits for it.

use std::sync::Arc;

use rayon::prelude::*;

use super::{
    elementwise,
    scores::{Inputs, Part, THREADS},
};
use crate::{
    HeadTerm, RowFunction, RowLoss,
    cuda::{Buffer, Cuda, CudaError, SliceMut, int, launch_shape::LaunchShape, modules::Program::Scores},
    ops::{head_loss::whole, scores::chunk_rows},
};

/// A loss on rows, ready to be differentiated; it collects the loss of each row.
pub(crate) enum HeadLoss<'a> {
    SoftLabels { labels: SoftLabels, values: Buffer<f64> },
    Whole { function: Whole<'a>, values: Vec<f64> },
}

/// The labels of all rows and the rows' weights, on the GPU.
pub(crate) struct SoftLabels {
    weights: Buffer<f32>,
    top: usize,
    ids: Buffer<i32>,
    probabilities: Buffer<f32>,
}

/// A function evaluated on the host.
pub(crate) struct Whole<'a> {
    weights: &'a [f32],
    temperatures: &'a [f32],
    evaluate: &'a RowFunction<'a>,
    teacher: Option<Inputs<'a>>,
}

impl<'a> HeadLoss<'a> {
    /// The loss of rows at these temperatures, with the teacher's head if the loss has one.
    ///
    /// # Panics
    /// If a label is not an id of the vocabulary.
    pub(crate) fn of(
        cuda: &Arc<Cuda>,
        term: HeadTerm<'a>,
        temperatures: &'a [f32],
        vocab: usize,
        teacher: Option<Inputs<'a>>,
    ) -> Self {
        let HeadTerm { weights, loss } = term;
        match loss {
            RowLoss::SoftLabels { top, ids, probabilities } => {
                assert!(ids.iter().all(|id| (*id as usize) < vocab), "a label is not in the vocabulary");
                let ids: Vec<i32> = ids.iter().map(|id| *id as i32).collect();
                let labels = SoftLabels {
                    weights: Buffer::upload(cuda, weights),
                    top,
                    ids: Buffer::upload(cuda, &ids),
                    probabilities: Buffer::upload(cuda, probabilities),
                };
                HeadLoss::SoftLabels { labels, values: Buffer::uninit(cuda, weights.len()) }
            }
            RowLoss::Whole { evaluate, .. } => HeadLoss::Whole {
                function: Whole { weights, temperatures, evaluate, teacher },
                values: vec![0.0; weights.len()],
            },
        }
    }

    /// Turns the logits of some rows into their gradient.
    pub(super) fn differentiate(&mut self, cuda: &Arc<Cuda>, part: Part<'_>, logits: SliceMut<'_, f32>) {
        match self {
            HeadLoss::SoftLabels { labels, values } => {
                let values = values.slice_mut(part.first..part.first + part.len);
                labels.differentiate(cuda, part, logits, values);
            }
            HeadLoss::Whole { function, values } => {
                let values = &mut values[part.first..part.first + part.len];
                function.differentiate(cuda, part, logits, values);
            }
        }
    }

    /// The loss of each row, 0 for rows without weight.
    ///
    /// # Errors
    /// The first failure on the GPU so far.
    pub(crate) fn into_values(self) -> Result<Vec<f64>, CudaError> {
        match self {
            HeadLoss::SoftLabels { values, .. } => values.download(),
            HeadLoss::Whole { values, .. } => Ok(values),
        }
    }
}

impl SoftLabels {
    fn differentiate(
        &self,
        cuda: &Arc<Cuda>,
        part: Part<'_>,
        logits: SliceMut<'_, f32>,
        values: SliceMut<'_, f64>,
    ) {
        let range = part.first..part.first + part.len;
        let labels = range.start * self.top..range.end * self.top;
        let [rows, targets, temperatures, d_logprob, d_entropy] = part.arguments();
        let arguments = &mut [
            logits.into(),
            values.into(),
            rows,
            targets,
            temperatures,
            d_logprob,
            d_entropy,
            self.weights.slice(range).into(),
            self.ids.slice(labels.clone()).into(),
            self.probabilities.slice(labels).into(),
            int(self.top),
            int(part.inputs.asked.vocab),
        ];
        let plan = LaunchShape::blocks(part.len, 1, THREADS);
        cuda.launch(Scores, "differentiate_labelled_rows", plan, arguments);
    }
}

impl Whole<'_> {
    /// As many rows at once as on the CPU, which bounds the host's memory.
    fn differentiate(
        &self,
        cuda: &Arc<Cuda>,
        part: Part<'_>,
        mut logits: SliceMut<'_, f32>,
        values: &mut [f64],
    ) {
        let v = part.inputs.asked.vocab;
        let step = chunk_rows(v);
        for (index, values) in values.chunks_mut(step).enumerate() {
            let (start, len) = (index * step, values.len());
            let part = part.rows(start, len);
            let mut own = logits.slice(start * v..(start + len) * v);
            let has_weight = self.weights[part.first..part.first + len].iter().any(|weight| *weight != 0.0);
            let derivative = has_weight.then(|| self.evaluate(cuda, part, own.again(), values));
            part.differentiate(cuda, own.again());
            match derivative {
                None => {}
                Some(Ok(derivative)) => {
                    elementwise::add_assign(cuda, own, Buffer::upload(cuda, &derivative).all().into());
                }
                Some(Err(error)) => {
                    values.fill(f64::NAN);
                    cuda.note(Err(error));
                }
            }
        }
    }

    /// Writes the losses of some rows; returns their derivatives by the logits, times the weights.
    fn evaluate(
        &self,
        cuda: &Arc<Cuda>,
        part: Part<'_>,
        logits: SliceMut<'_, f32>,
        values: &mut [f64],
    ) -> Result<Vec<f32>, CudaError> {
        let mut own = logits.read().download(cuda)?;
        let theirs = match self.teacher {
            None => Vec::new(),
            Some(teacher) => {
                let mut logits = Buffer::uninit(cuda, own.len());
                teacher.logits(cuda, part.first, part.len, logits.all_mut());
                logits.download()?
            }
        };
        let v = part.inputs.asked.vocab;
        own.par_chunks_exact_mut(v).zip(values).enumerate().for_each(|(index, (own, value))| {
            let at = part.first + index;
            let weight = self.weights[at];
            if weight == 0.0 {
                own.fill(0.0);
                return;
            }
            let theirs = theirs.get(index * v..(index + 1) * v).unwrap_or_default();
            let (loss, d) = whole(self.evaluate, at, [own, theirs], self.temperatures[at], weight);
            own.copy_from_slice(&d);
            *value = loss;
        });
        Ok(own)
    }
}

#[cfg(test)]
mod tests;
