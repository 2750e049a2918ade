//! Log-probs and entropies of an output head, some rows at a time, as in `crate::ops::scores`.

use std::sync::Arc;

use half::bf16;

use crate::{
    LogitsRoom, Precision, Vocab,
    cuda::{
        Argument, Buffer, Cuda, CudaError, Slice, SliceMut, int,
        launch_shape::LaunchShape,
        modules::Program::Scores,
        ops::head_loss::HeadLoss,
        product::{View, Write, multiply},
        values::{Elements, Values, to_bf16},
    },
};

/// Threads that share a row.
pub(super) const THREADS: usize = 512;
/// Results per row: log-prob of the target, entropy, largest logit, `ln Σ e^y`.
const NUMBERS: usize = 4;

/// The request for each row, on the GPU.
#[derive(Debug)]
pub(crate) struct Asked {
    /// `-1 - id` if the vocabulary excludes the target; empty if there are no targets.
    targets: Buffer<i32>,
    pub(super) temperatures: Buffer<f32>,
    excluded: Buffer<i32>,
    pub(super) vocab: usize,
}

impl Asked {
    /// One target and one temperature per row.
    ///
    /// # Panics
    /// If a target is not an id of the vocabulary.
    pub(crate) fn upload(cuda: &Arc<Cuda>, targets: &[u32], temperatures: &[f32], vocab: &Vocab) -> Self {
        assert_eq!(targets.len(), temperatures.len(), "one target for each row");
        assert!(targets.iter().all(|&id| (id as usize) < vocab.len()), "a target is not in the vocabulary");
        let target = |&id: &u32| if vocab.contains(id) { id as i32 } else { -1 - id as i32 };
        let targets: Vec<i32> = targets.iter().map(target).collect();
        let targets = Buffer::upload(cuda, &targets);
        Asked { targets, ..Asked::without_targets(cuda, temperatures, vocab) }
    }

    /// One temperature per row.
    pub(crate) fn without_targets(cuda: &Arc<Cuda>, temperatures: &[f32], vocab: &Vocab) -> Self {
        let excluded: Vec<i32> = vocab.excluded().iter().map(|&id| id as i32).collect();
        Asked {
            targets: Buffer::uninit(cuda, 0),
            temperatures: Buffer::upload(cuda, temperatures),
            excluded: Buffer::upload(cuda, &excluded),
            vocab: vocab.len(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.temperatures.len()
    }
}

/// The low-rank term of an adapted head: `u bᵀ` is added to the logits.
#[derive(Clone, Copy)]
pub(crate) struct LowRank<'a> {
    /// `scale · hidden Aᵀ`, `[rows, rank]`.
    pub(crate) u: Elements<'a>,
    /// `[vocab, rank]`.
    pub(crate) b: Elements<'a>,
    pub(crate) rank: usize,
}

/// Hidden states `[rows, width]`, the head's weight `[vocab, width]`, and the request for each row.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) hidden: Elements<'a>,
    pub(crate) weight: Elements<'a>,
    pub(crate) low_rank: Option<LowRank<'a>>,
    pub(crate) precision: Precision,
    pub(crate) width: usize,
    pub(crate) asked: &'a Asked,
}

impl Inputs<'_> {
    /// Writes the logits of `rows` rows from `first` on.
    pub(super) fn logits(&self, cuda: &Arc<Cuda>, first: usize, rows: usize, mut logits: SliceMut<'_, f32>) {
        let (v, width, precision) = (self.asked.vocab, self.width, self.precision);
        let hidden = self.hidden.slice(first * width..(first + rows) * width);
        let weight = View::new(self.weight, v, width).transposed();
        let hidden = View::new(hidden, rows, width);
        multiply(cuda, precision, logits.again(), Write::Set, 1.0, hidden, weight);
        if let Some(LowRank { u, b, rank }) = self.low_rank {
            let u = View::new(u.slice(first * rank..(first + rows) * rank), rows, rank);
            let b = View::new(b, v, rank).transposed();
            multiply(cuda, precision, logits.again(), Write::Add, 1.0, u, b);
        }
        let excluded = &self.asked.excluded;
        if excluded.len() > 0 {
            let arguments = &mut [logits.into(), excluded.all().into(), int(excluded.len()), int(v)];
            cuda.launch(Scores, "exclude", LaunchShape::rows(rows, excluded.len()), arguments);
        }
    }

    fn score(&self, cuda: &Arc<Cuda>, first: usize, logits: Slice<'_, f32>, rows: SliceMut<'_, f32>) {
        let n = rows.len() / NUMBERS;
        let range = first..first + n;
        let arguments = &mut [
            rows.into(),
            logits.into(),
            self.asked.targets.slice(range.clone()).into(),
            self.asked.temperatures.slice(range).into(),
            int(self.asked.vocab),
        ];
        cuda.launch(Scores, "score_rows", LaunchShape::blocks(n, 1, THREADS), arguments);
    }
}

/// The results of the rows' softmaxes.
#[derive(Debug)]
pub(crate) struct Rows {
    numbers: Buffer<f32>,
    /// The logits, if they were kept.
    logits: Option<Buffer<f32>>,
}

impl Rows {
    /// Log-probs of the targets, and entropies, in nats.
    ///
    /// # Errors
    /// The first failure on the GPU so far.
    pub(crate) fn download(&self) -> Result<(Vec<f32>, Vec<f32>), CudaError> {
        let numbers = self.numbers.download()?;
        Ok(numbers.chunks_exact(NUMBERS).map(|row| (row[0], row[1])).unzip())
    }
}

/// The rows; with their logits if `keep` is set and they are not too many.
pub(crate) fn forward(cuda: &Arc<Cuda>, inputs: Inputs<'_>, keep: bool) -> Rows {
    forward_in(cuda, inputs, keep, chunk_rows(inputs.asked.vocab))
}

pub(super) fn forward_in(cuda: &Arc<Cuda>, inputs: Inputs<'_>, keep: bool, chunk: usize) -> Rows {
    let (t, v) = (inputs.asked.rows(), inputs.asked.vocab);
    let keep = keep && LogitsRoom::GPU.keeps(t, v);
    let chunk = if keep { t.max(1) } else { chunk };
    let mut numbers = Buffer::uninit(cuda, t * NUMBERS);
    let mut logits = Buffer::uninit(cuda, chunk.min(t) * v);
    for first in (0..t).step_by(chunk) {
        let n = chunk.min(t - first);
        inputs.logits(cuda, first, n, logits.slice_mut(0..n * v));
        let rows = numbers.slice_mut(first * NUMBERS..(first + n) * NUMBERS);
        inputs.score(cuda, first, logits.slice(0..n * v), rows);
    }
    Rows { numbers, logits: keep.then_some(logits) }
}

pub(super) fn chunk_rows(v: usize) -> usize {
    LogitsRoom::GPU.chunk_rows(v)
}

/// Derivatives of a scalar with respect to every row's log-prob and entropy.
#[derive(Clone, Copy)]
pub(crate) struct Seeds<'a> {
    pub(crate) d_logprob: Slice<'a, f32>,
    /// `None`: all 0.
    pub(crate) d_entropy: Option<Slice<'a, f32>>,
}

/// Where the gradients of a head's parameters are added; `None` for frozen ones.
pub(crate) struct ParamGradients<'a> {
    pub(crate) d_weight: Option<SliceMut<'a, f32>>,
    /// For the low-rank factor `b`.
    pub(crate) d_b: Option<SliceMut<'a, f32>>,
}

/// The gradients of the hidden states and of the low-rank `u` (empty if there is none). `head` is a further loss on the
/// rows, which collects their losses.
pub(crate) fn backward(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    rows: Rows,
    seeds: Seeds<'_>,
    head: Option<&mut HeadLoss<'_>>,
    params: ParamGradients<'_>,
) -> (Values, Values) {
    backward_in(cuda, inputs, rows, seeds, head, params, chunk_rows(inputs.asked.vocab))
}

pub(super) fn backward_in(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    mut rows: Rows,
    seeds: Seeds<'_>,
    mut head: Option<&mut HeadLoss<'_>>,
    mut params: ParamGradients<'_>,
    chunk: usize,
) -> (Values, Values) {
    let Inputs { width, precision, .. } = inputs;
    let (t, v) = (inputs.asked.rows(), inputs.asked.vocab);
    let kept = rows.logits.take();
    let is_kept = kept.is_some();
    let chunk = if is_kept { t.max(1) } else { chunk };
    let mut logits = kept.unwrap_or_else(|| Buffer::uninit(cuda, chunk.min(t) * v));
    let mut d_hidden = Values::uninit(cuda, precision, t * width);
    let mut d_u = Values::uninit(cuda, precision, inputs.low_rank.map_or(0, |low_rank| t * low_rank.rank));
    for first in (0..t).step_by(chunk) {
        let n = chunk.min(t - first);
        if !is_kept {
            inputs.logits(cuda, first, n, logits.slice_mut(0..n * v));
        }
        let part = Part { inputs, rows: &rows, seeds, first, len: n };
        // Rounded once for all products.
        let mut short = None;
        match head.as_deref_mut() {
            None if precision == Precision::Bf16 => {
                short = Some(part.short_gradient(cuda, logits.slice(0..n * v)));
            }
            None => part.differentiate(cuda, logits.slice_mut(0..n * v)),
            Some(head) => {
                head.differentiate(cuda, part, logits.slice_mut(0..n * v));
                short = (precision == Precision::Bf16).then(|| to_bf16(cuda, logits.slice(0..n * v)));
            }
        }
        let d_logits = match &short {
            Some(short) => View::new(short.all(), n, v),
            None => View::new(logits.slice(0..n * v), n, v),
        };
        let weight = View::new(inputs.weight, v, width);
        let out = d_hidden.slice_mut(first * width..(first + n) * width);
        multiply(cuda, precision, out, Write::Set, 1.0, d_logits, weight);
        if let Some(d_weight) = &mut params.d_weight {
            let hidden = View::new(inputs.hidden.slice(first * width..(first + n) * width), n, width);
            multiply(cuda, precision, d_weight.again(), Write::Add, 1.0, d_logits.transposed(), hidden);
        }
        if let Some(LowRank { u, b, rank }) = inputs.low_rank {
            let out = d_u.slice_mut(first * rank..(first + n) * rank);
            multiply(cuda, precision, out, Write::Set, 1.0, d_logits, View::new(b, v, rank));
            if let Some(d_b) = &mut params.d_b {
                let u = View::new(u.slice(first * rank..(first + n) * rank), n, rank);
                multiply(cuda, precision, d_b.again(), Write::Add, 1.0, d_logits.transposed(), u);
            }
        }
    }
    (d_hidden, d_u)
}

/// Some rows whose logits are ready to be differentiated.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) inputs: Inputs<'a>,
    rows: &'a Rows,
    seeds: Seeds<'a>,
    /// Index of its first row among all rows.
    pub(super) first: usize,
    pub(super) len: usize,
}

impl Part<'_> {
    /// `len` of its rows, starting at its row `start`.
    pub(super) fn rows(self, start: usize, len: usize) -> Self {
        Part { first: self.first + start, len, ..self }
    }

    /// What kernels need of the rows: results, targets, temperatures, derivatives by log-probs and by entropies.
    pub(super) fn arguments(self) -> [Argument; 5] {
        let Part { inputs: Inputs { asked, .. }, rows, seeds, first, len } = self;
        let range = first..first + len;
        let d_entropy = seeds.d_entropy.map(|d| d.slice(range.clone()));
        [
            rows.numbers.slice(first * NUMBERS..(first + len) * NUMBERS).into(),
            asked.targets.slice(range.clone()).into(),
            asked.temperatures.slice(range.clone()).into(),
            seeds.d_logprob.slice(range).into(),
            d_entropy.map_or_else(Argument::null::<f32>, Argument::from),
        ]
    }

    /// The gradient of logits, in bf16.
    fn short_gradient(self, cuda: &Arc<Cuda>, logits: Slice<'_, f32>) -> Buffer<bf16> {
        let mut short = Buffer::uninit(cuda, logits.len());
        let [rows, targets, temperatures, d_logprob, d_entropy] = self.arguments();
        let vocab = int(self.inputs.asked.vocab);
        let arguments = &mut [
            short.all_mut().into(),
            logits.into(),
            rows,
            targets,
            temperatures,
            d_logprob,
            d_entropy,
            vocab,
        ];
        let plan = LaunchShape::blocks(self.len, 1, THREADS);
        cuda.launch(Scores, "differentiate_rows_bf16", plan, arguments);
        short
    }

    /// Turns logits into their gradient.
    pub(super) fn differentiate(self, cuda: &Arc<Cuda>, logits: SliceMut<'_, f32>) {
        let [rows, targets, temperatures, d_logprob, d_entropy] = self.arguments();
        let vocab = int(self.inputs.asked.vocab);
        let arguments = &mut [logits.into(), rows, targets, temperatures, d_logprob, d_entropy, vocab];
        cuda.launch(Scores, "differentiate_rows", LaunchShape::blocks(self.len, 1, THREADS), arguments);
    }
}

#[cfg(test)]
mod tests;
