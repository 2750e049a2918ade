//! Log-probs and entropies of an output head, some rows at a time, as in `crate::ops::scores`.

use std::sync::Arc;

use crate::{
    Precision, Vocab,
    cuda::{
        Argument, Buffer, Cuda, CudaError, Slice, SliceMut, int,
        modules::Program::Scores,
        plan::Plan,
        product::{Elements, View, Write, multiply},
    },
};

/// Logits held at once when they are not kept: 256 MiB.
const CHUNK_LOGITS: usize = 1 << 26;
/// Logits kept from the forward pass for the backward pass at most: 256 MiB.
const KEPT_LOGITS_MAX: usize = 1 << 26;
/// Threads that share a row.
const THREADS: usize = 512;
/// Numbers that are known of a row: log-prob of the target, entropy, largest logit, `ln Σ e^y`.
const NUMBERS: usize = 4;

/// What is asked of each row, on the GPU.
#[derive(Debug)]
pub(crate) struct Asked {
    /// `-1 - id` where the vocabulary excludes it.
    targets: Buffer<i32>,
    temperatures: Buffer<f32>,
    excluded: Buffer<i32>,
    vocab: usize,
}

impl Asked {
    /// One target and one temperature a row.
    ///
    /// # Panics
    /// If a target is not an id of the vocabulary.
    pub(crate) fn upload(cuda: &Arc<Cuda>, targets: &[u32], temperatures: &[f32], vocab: &Vocab) -> Self {
        assert_eq!(targets.len(), temperatures.len(), "one target for each row");
        assert!(targets.iter().all(|&id| (id as usize) < vocab.len()), "a target is not in the vocabulary");
        let target = |&id: &u32| if vocab.contains(id) { id as i32 } else { -1 - id as i32 };
        let targets: Vec<i32> = targets.iter().map(target).collect();
        let excluded: Vec<i32> = vocab.excluded().iter().map(|&id| id as i32).collect();
        Asked {
            targets: Buffer::upload(cuda, &targets),
            temperatures: Buffer::upload(cuda, temperatures),
            excluded: Buffer::upload(cuda, &excluded),
            vocab: vocab.len(),
        }
    }

    fn rows(&self) -> usize {
        self.targets.len()
    }
}

/// The low-rank term of an adapted head: `u bᵀ` is added to the logits.
#[derive(Clone, Copy)]
pub(crate) struct LowRank<'a> {
    /// `scale · hidden Aᵀ`, `[rows, rank]`.
    pub(crate) u: Slice<'a, f32>,
    /// `[vocab, rank]`.
    pub(crate) b: Slice<'a, f32>,
    pub(crate) rank: usize,
}

/// Hidden states `[rows, width]`, the head's weight `[vocab, width]`, and what is asked of each row.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) hidden: Slice<'a, f32>,
    pub(crate) weight: Elements<'a>,
    pub(crate) low_rank: Option<LowRank<'a>>,
    pub(crate) precision: Precision,
    pub(crate) width: usize,
    pub(crate) asked: &'a Asked,
}

impl Inputs<'_> {
    /// Writes the logits of `rows` rows from `first` on.
    fn logits(&self, cuda: &Arc<Cuda>, first: usize, rows: usize, mut logits: SliceMut<'_, f32>) {
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
            cuda.launch(Scores, "exclude", Plan::rows(rows, excluded.len()), arguments);
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
        cuda.launch(Scores, "score_rows", Plan::blocks(n, 1, THREADS), arguments);
    }
}

/// What the rows' softmaxes come to.
#[derive(Debug)]
pub(crate) struct Rows {
    numbers: Buffer<f32>,
}

impl Rows {
    /// Log-probs of the targets, and entropies, in nats.
    ///
    /// # Errors
    /// What failed on the GPU so far.
    pub(crate) fn download(&self) -> Result<(Vec<f32>, Vec<f32>), CudaError> {
        let numbers = self.numbers.download()?;
        Ok(numbers.chunks_exact(NUMBERS).map(|row| (row[0], row[1])).unzip())
    }
}

/// The rows, and the logits if `keep` is set and they are not too many.
pub(crate) fn forward(cuda: &Arc<Cuda>, inputs: Inputs<'_>, keep: bool) -> (Rows, Option<Buffer<f32>>) {
    forward_in(cuda, inputs, keep, chunk_rows(inputs.asked.vocab))
}

fn forward_in(cuda: &Arc<Cuda>, inputs: Inputs<'_>, keep: bool, chunk: usize) -> (Rows, Option<Buffer<f32>>) {
    let (t, v) = (inputs.asked.rows(), inputs.asked.vocab);
    let keep = keep && t * v <= KEPT_LOGITS_MAX;
    let chunk = if keep { t.max(1) } else { chunk };
    let mut numbers = Buffer::uninit(cuda, t * NUMBERS);
    let mut logits = Buffer::uninit(cuda, chunk.min(t) * v);
    for first in (0..t).step_by(chunk) {
        let n = chunk.min(t - first);
        inputs.logits(cuda, first, n, logits.slice_mut(0..n * v));
        let rows = numbers.slice_mut(first * NUMBERS..(first + n) * NUMBERS);
        inputs.score(cuda, first, logits.slice(0..n * v), rows);
    }
    (Rows { numbers }, keep.then_some(logits))
}

fn chunk_rows(v: usize) -> usize {
    (CHUNK_LOGITS / v.max(1)).clamp(64, 4096)
}

/// Derivatives of a scalar with respect to every row's log-prob and entropy.
#[derive(Clone, Copy)]
pub(crate) struct Seeds<'a> {
    pub(crate) d_logprob: Slice<'a, f32>,
    /// None: all 0.
    pub(crate) d_entropy: Option<Slice<'a, f32>>,
}

/// Where the gradients of a head's parameters are added; none of what is frozen.
pub(crate) struct ParamGradients<'a> {
    pub(crate) d_weight: Option<SliceMut<'a, f32>>,
    /// Of the low-rank factor `b`.
    pub(crate) d_b: Option<SliceMut<'a, f32>>,
}

/// The gradients of the hidden states and of the low-rank `u` (empty where there is none).
pub(crate) fn backward(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    rows: &Rows,
    kept: Option<Buffer<f32>>,
    seeds: Seeds<'_>,
    params: ParamGradients<'_>,
) -> (Buffer<f32>, Buffer<f32>) {
    backward_in(cuda, inputs, rows, kept, seeds, params, chunk_rows(inputs.asked.vocab))
}

fn backward_in(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    rows: &Rows,
    kept: Option<Buffer<f32>>,
    seeds: Seeds<'_>,
    mut params: ParamGradients<'_>,
    chunk: usize,
) -> (Buffer<f32>, Buffer<f32>) {
    let Inputs { width, precision, .. } = inputs;
    let (t, v) = (inputs.asked.rows(), inputs.asked.vocab);
    let is_kept = kept.is_some();
    let chunk = if is_kept { t.max(1) } else { chunk };
    let mut logits = kept.unwrap_or_else(|| Buffer::uninit(cuda, chunk.min(t) * v));
    let mut d_hidden = Buffer::uninit(cuda, t * width);
    let mut d_u = Buffer::uninit(cuda, inputs.low_rank.map_or(0, |low_rank| t * low_rank.rank));
    for first in (0..t).step_by(chunk) {
        let n = chunk.min(t - first);
        if !is_kept {
            inputs.logits(cuda, first, n, logits.slice_mut(0..n * v));
        }
        differentiate(cuda, inputs, first, n, logits.slice_mut(0..n * v), rows, seeds);
        // Rounded once for all products.
        let short = (precision == Precision::Bf16)
            .then(|| crate::cuda::product::to_bf16(cuda, logits.slice(0..n * v)));
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

/// Turns logits into their gradient.
fn differentiate(
    cuda: &Arc<Cuda>,
    inputs: Inputs<'_>,
    first: usize,
    n: usize,
    logits: SliceMut<'_, f32>,
    rows: &Rows,
    seeds: Seeds<'_>,
) {
    let range = first..first + n;
    let d_entropy = seeds.d_entropy.map(|d| d.slice(range.clone()));
    let arguments = &mut [
        logits.into(),
        rows.numbers.slice(first * NUMBERS..(first + n) * NUMBERS).into(),
        inputs.asked.targets.slice(range.clone()).into(),
        inputs.asked.temperatures.slice(range.clone()).into(),
        seeds.d_logprob.slice(range).into(),
        d_entropy.map_or_else(Argument::null::<f32>, Argument::from),
        int(inputs.asked.vocab),
    ];
    cuda.launch(Scores, "differentiate_rows", Plan::blocks(n, 1, THREADS), arguments);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cuda::testing::device,
        reference,
        testing::{assert_close, assert_gradient, random, random_ids, weighted, wide},
    };

    struct Case {
        cuda: Arc<Cuda>,
        hidden: Vec<f32>,
        weight: Vec<f32>,
        width: usize,
        targets: Vec<u32>,
        temperatures: Vec<f32>,
        vocab: Vocab,
    }

    impl Case {
        fn new(cuda: &Arc<Cuda>, rows: usize, width: usize, vocab: Vocab) -> Self {
            let allowed = |id: u32| if vocab.contains(id) { id } else { 0 };
            Case {
                cuda: Arc::clone(cuda),
                hidden: random(1, rows * width),
                weight: random(2, vocab.len() * width),
                width,
                targets: random_ids(3, rows, vocab.len()).into_iter().map(allowed).collect(),
                temperatures: random(4, rows).iter().map(|x| 1.0 + 0.5 * x).collect(),
                vocab,
            }
        }

        /// Log-probs, entropies, gradients of hidden states and of the weight.
        fn run(&self, keep: bool, chunk: usize, d_logprob: &[f32], d_entropy: &[f32]) -> [Vec<f32>; 4] {
            let cuda = &self.cuda;
            let [hidden, weight, d_logprob, d_entropy] =
                [&self.hidden, &self.weight, d_logprob, d_entropy].map(|x: &[f32]| Buffer::upload(cuda, x));
            let asked = Asked::upload(cuda, &self.targets, &self.temperatures, &self.vocab);
            let inputs = Inputs {
                hidden: hidden.all(),
                weight: weight.all().into(),
                low_rank: None,
                precision: Precision::F32,
                width: self.width,
                asked: &asked,
            };
            let (rows, kept) = forward_in(cuda, inputs, keep, chunk);
            assert_eq!(kept.is_some(), keep);
            let (logprobs, entropies) = rows.download().unwrap();
            let mut d_weight = Buffer::zeros(cuda, self.weight.len());
            let d_entropy = (d_entropy.len() > 0).then(|| d_entropy.all());
            let seeds = Seeds { d_logprob: d_logprob.all(), d_entropy };
            let params = ParamGradients { d_weight: Some(d_weight.all_mut()), d_b: None };
            let (d_hidden, _) = backward_in(cuda, inputs, &rows, kept, seeds, params, chunk);
            [logprobs, entropies, d_hidden.download().unwrap(), d_weight.download().unwrap()]
        }

        fn reference(&self, hidden: &[f64], weight: &[f64]) -> (Vec<f64>, Vec<f64>) {
            let Case { width, targets, temperatures, vocab, .. } = self;
            reference::token_scores(hidden, weight, *width, targets, temperatures, vocab)
        }
    }

    #[test]
    fn scores_and_gradients_are_those_of_the_reference() {
        let Some(cuda) = device() else { return };
        for (rows, width, v, gap, keep, chunk, has_entropy) in [
            (1, 1, 2, 9, true, 9, false),
            (5, 4, 7, 3, false, 2, true),
            (4, 3, 600, 5, true, 9, true),
            (7, 2, 40, 2, false, 3, false),
        ] {
            let case = Case::new(&cuda, rows, width, Vocab::only(v, |id| id % gap != 1));
            let d_logprob = random(5, rows);
            let d_entropy = if has_entropy { random(6, rows) } else { Vec::new() };
            let [logprobs, entropies, d_hidden, d_weight] = case.run(keep, chunk, &d_logprob, &d_entropy);
            let (hidden, weight) = (wide(&case.hidden), wide(&case.weight));
            let expected = case.reference(&hidden, &weight);
            assert_close(&logprobs, &expected.0, 1e-6);
            assert_close(&entropies, &expected.1, 1e-6);
            let loss = |hidden: &[f64], weight: &[f64]| {
                let (logprobs, entropies) = case.reference(hidden, weight);
                let of_entropy = if has_entropy { weighted(&d_entropy, &entropies) } else { 0.0 };
                weighted(&d_logprob, &logprobs) + of_entropy
            };
            assert_gradient(&d_hidden, &case.hidden, |hidden| loss(hidden, &weight), 1e-5);
            assert_gradient(&d_weight, &case.weight, |weight| loss(&hidden, weight), 1e-5);
        }
    }

    #[test]
    fn an_excluded_target_has_no_probability_and_no_gradient() {
        let Some(cuda) = device() else { return };
        let mut case = Case::new(&cuda, 3, 2, Vocab::only(6, |id| id != 4));
        case.targets[1] = 4;
        let [logprobs, entropies, d_hidden, _] = case.run(true, 9, &[1.0; 3], &[]);
        assert_eq!(logprobs[1], f32::NEG_INFINITY);
        assert!(entropies[1].is_finite() && logprobs[0].is_finite());
        assert_eq!(d_hidden[2..4], [0.0, 0.0]);
        assert!(d_hidden[0] != 0.0 && d_hidden.iter().all(|d| d.is_finite()));
    }

    #[test]
    fn logits_far_from_zero_neither_overflow_nor_vanish() {
        let Some(cuda) = device() else { return };
        let mut case = Case::new(&cuda, 4, 2, Vocab::all(50));
        case.weight.iter_mut().for_each(|w| *w *= 2e4);
        let [logprobs, entropies, d_hidden, d_weight] = case.run(false, 3, &[1.0; 4], &[1.0; 4]);
        for x in logprobs.iter().chain(&entropies).chain(&d_hidden).chain(&d_weight) {
            assert!(x.is_finite());
        }
    }

    #[test]
    fn the_head_of_an_adapter_has_the_gradients_of_the_cpu() {
        let Some(cuda) = device() else { return };
        let (rank, scale) = (2, 0.5);
        let case = Case::new(&cuda, 5, 3, Vocab::all(9));
        let (a, b) = (random(7, rank * case.width), random(8, case.vocab.len() * rank));
        // The same head with the adapter multiplied out.
        let mut merged = Case::new(&cuda, 5, 3, Vocab::all(9));
        for (id, w) in merged.weight.chunks_exact_mut(3).enumerate() {
            for (c, w) in w.iter_mut().enumerate() {
                *w += scale * (0..rank).map(|r| b[id * rank + r] * a[r * 3 + c]).sum::<f32>();
            }
        }
        let d_logprob = random(5, 5);
        let [logprobs, entropies, d_hidden, d_weight] = merged.run(true, 9, &d_logprob, &[]);

        let [hidden, weight, ga, gb, d] =
            [&case.hidden, &case.weight, &a, &b, &d_logprob].map(|x| Buffer::upload(&cuda, x));
        let asked = Asked::upload(&cuda, &case.targets, &case.temperatures, &case.vocab);
        let term = super::super::low_rank::Inputs {
            x: hidden.all(),
            rows: 5,
            a: ga.all(),
            b: gb.all(),
            rank,
            scale,
            precision: Precision::F32,
        };
        let u = super::super::low_rank::scaled_inner(&cuda, term);
        let inputs = Inputs {
            hidden: hidden.all(),
            weight: weight.all().into(),
            low_rank: Some(LowRank { u: u.all(), b: gb.all(), rank }),
            precision: Precision::F32,
            width: 3,
            asked: &asked,
        };
        let (rows, _) = forward_in(&cuda, inputs, false, 2);
        let scored = rows.download().unwrap();
        assert_close(&scored.0, &wide(&logprobs), 1e-5);
        assert_close(&scored.1, &wide(&entropies), 1e-5);
        let mut d_b = Buffer::zeros(&cuda, b.len());
        let seeds = Seeds { d_logprob: d.all(), d_entropy: None };
        let params = ParamGradients { d_weight: None, d_b: Some(d_b.all_mut()) };
        let (mut d_h, d_u) = backward_in(&cuda, inputs, &rows, None, seeds, params, 2);
        let mut d_a = Buffer::zeros(&cuda, a.len());
        let into = Some(d_a.all_mut());
        super::super::low_rank::scaled_inner_backward(&cuda, term, d_u.all(), d_h.all_mut(), into);
        assert_close(&d_h.download().unwrap(), &wide(&d_hidden), 1e-5);
        // d_b = scale d_W Aᵀ, d_a = scale Bᵀ d_W.
        let at = |id: usize, c: usize| f64::from(d_weight[id * 3 + c]);
        let expected: Vec<f64> = (0..9 * rank)
            .map(|i| 0.5 * (0..3).map(|c| at(i / rank, c) * f64::from(a[i % rank * 3 + c])).sum::<f64>())
            .collect();
        assert_close(&d_b.download().unwrap(), &expected, 1e-5);
        let expected: Vec<f64> = (0..rank * 3)
            .map(|i| 0.5 * (0..9).map(|id| at(id, i % 3) * f64::from(b[id * rank + i / 3])).sum::<f64>())
            .collect();
        assert_close(&d_a.download().unwrap(), &expected, 1e-5);
    }
}
