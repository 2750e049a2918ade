//! Results for rows of an output head beyond log-probs and entropies, and the losses of such rows.

use super::Gpu;
use crate::{
    Adapter, HeadTerm, Param, TeacherRows, Vocab, Weight,
    cuda::{
        CudaError,
        ops::{head_loss::HeadLoss, head_rows, scores},
    },
    data::Data,
};

impl<'p> Gpu<'p> {
    /// `Σ p²` of each row; NaN if the GPU has failed.
    pub(crate) fn squares(
        &self,
        hidden: &Data,
        (head, adapter): (Param, Option<Adapter>),
        temperatures: &[f32],
        vocab: &Vocab,
    ) -> Vec<f32> {
        let low_rank = adapter.map(|adapter| (adapter, self.head_inner(adapter, hidden, temperatures.len())));
        let asked = scores::Asked::without_targets(self.cuda, temperatures, vocab);
        let inputs = self.score_inputs(hidden, head, low_rank.as_ref(), &asked);
        let squares = head_rows::squares(self.cuda, inputs).download();
        self.or_else(squares, || vec![f32::NAN; temperatures.len()])
    }

    /// The likeliest ids and their log-probs; if the GPU has failed, the ids are arbitrary and the log-probs NaN.
    pub(crate) fn top(
        &self,
        hidden: &Data,
        (head, adapter): (Param, Option<Adapter>),
        temperatures: &[f32],
        vocab: &Vocab,
        top: usize,
    ) -> (Vec<u32>, Vec<f32>) {
        let low_rank = adapter.map(|adapter| (adapter, self.head_inner(adapter, hidden, temperatures.len())));
        let asked = scores::Asked::without_targets(self.cuda, temperatures, vocab);
        let inputs = self.score_inputs(hidden, head, low_rank.as_ref(), &asked);
        let (ids, logprobs) = head_rows::top(self.cuda, inputs, vocab, top);
        let found = ids.download().and_then(|ids| Ok((ids, logprobs.download()?)));
        let len = temperatures.len() * top;
        let (ids, logprobs) = self.or_else(found, || (vec![0; len], vec![f32::NAN; len]));
        (ids.into_iter().map(|id| id as u32).collect(), logprobs)
    }

    /// The loss of each row after a backward pass; NaN if the GPU has failed.
    pub(crate) fn losses(&self, loss: HeadLoss<'_>, rows: usize) -> Vec<f64> {
        self.or_else(loss.into_values(), || vec![f64::NAN; rows])
    }

    /// The result from the GPU; if the GPU has failed, a substitute, and [`Cuda::check`](crate::Cuda) returns the
    /// error.
    fn or_else<T>(&self, found: Result<T, CudaError>, otherwise: impl FnOnce() -> T) -> T {
        found.unwrap_or_else(|error| {
            self.cuda.note(Err(error));
            otherwise()
        })
    }
}

/// A teacher's head and the hidden states that it reads, on the GPU.
pub(crate) struct Teacher<'p> {
    gpu: Gpu<'p>,
    head: Param,
    hidden: Data,
    /// The head's adapter, and `scale · hidden Aᵀ`.
    low_rank: Option<(Adapter, Data)>,
}

impl<'p> Teacher<'p> {
    /// The teacher of a term, if it has one.
    ///
    /// # Panics
    /// If its head is not on the same GPU as `student`.
    #[expect(clippy::expect_used, reason = "documented: a mistake of the program")]
    pub(crate) fn of(student: &Gpu<'_>, term: HeadTerm<'p>) -> Option<Self> {
        let TeacherRows { params, head: Weight { base: head, adapter }, hidden } = term.teacher()?;
        let gpu = Gpu::of(params).filter(|gpu| std::sync::Arc::ptr_eq(gpu.cuda, student.cuda));
        let gpu = gpu.expect("a teacher's head lies where the student's does");
        let rows = hidden.len() / head.cols;
        let hidden = gpu.upload(hidden);
        let low_rank = adapter.map(|adapter| (adapter, gpu.head_inner(adapter, &hidden, rows)));
        Some(Teacher { gpu, head, hidden, low_rank })
    }

    /// The request to the student, for this head.
    pub(crate) fn inputs<'a>(&'a self, asked: &'a scores::Asked) -> scores::Inputs<'a> {
        self.gpu.score_inputs(&self.hidden, self.head, self.low_rank.as_ref(), asked)
    }
}
