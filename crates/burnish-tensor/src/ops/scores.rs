//! Log-probs and entropies of an output head, a few rows at a time, so that the full `[T, V]` logits need never exist.
//!
//! With logits `z = h Wᵀ` over the allowed ids, `y = (z - max z) / temperature` and `S = Σ e^y`:
//! `log p_t = y_t - ln S`, `H = ln S - Σ e^y y / S`. Backward: `∂ log p_t/∂z_j = (1[j = t] - p_j) / temperature`,
//! `∂H/∂z_j = -p_j (log p_j + H) / temperature`.

use rayon::prelude::*;

use super::head_loss::{self, HeadLoss};
use crate::{
    Buffer, Elements, LogitsRoom, Precision, Vocab,
    gemm::{View, ViewMut, Workers, Write, multiply_in},
    parallel,
    vector::{self, simd},
};

/// Elements summed in f32 before the sum goes to f64.
pub(super) const SUM_ELEMENTS: usize = 1024;
/// The logit of an excluded id: its exponential is 0 at any temperature above 1e-15, and unlike -∞ it gives 0 in
/// `p log p`.
const EXCLUDED: f32 = -1e20;

/// The low-rank term of an adapted head: `u bᵀ` is added to the logits.
#[derive(Clone, Copy)]
pub(crate) struct LowRank<'a> {
    /// `scale · hidden Aᵀ`, `[rows, rank]`.
    pub(crate) u: &'a [f32],
    /// `[vocab.len(), rank]`.
    pub(crate) b: &'a [f32],
    pub(crate) rank: usize,
}

/// Hidden states `[rows, width]`, the head's weight `[vocab.len(), width]`, and the request for each row.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) hidden: &'a [f32],
    pub(crate) weight: Elements<'a>,
    pub(crate) low_rank: Option<LowRank<'a>>,
    pub(crate) precision: Precision,
    pub(crate) width: usize,
    pub(crate) targets: &'a [u32],
    pub(crate) temperatures: &'a [f32],
    pub(crate) vocab: &'a Vocab,
}

impl Inputs<'_> {
    pub(super) fn rows(&self) -> usize {
        self.temperatures.len()
    }

    /// Writes the logits of some rows; excluded ids get [`EXCLUDED`].
    pub(super) fn logits(&self, first: usize, logits: &mut [f32]) {
        let v = self.vocab.len();
        let rows = logits.len() / v;
        let hidden = View::new(&self.hidden[first * self.width..], rows, self.width);
        let weight = View::new(self.weight, v, self.width);
        let out = ViewMut::new(logits, rows, v);
        multiply_in(self.precision, out, Write::Set, 1.0, hidden, weight.transposed(), Workers::Pool);
        if let Some(LowRank { u, b, rank }) = self.low_rank {
            let u = View::new(&u[first * rank..], rows, rank);
            let b = View::new(b, v, rank).transposed();
            multiply_in(self.precision, ViewMut::new(logits, rows, v), Write::Add, 1.0, u, b, Workers::Pool);
        }
        if !self.vocab.excluded().is_empty() {
            parallel::for_rows(logits, v, |_, logits| {
                for row in logits.chunks_exact_mut(v) {
                    self.vocab.excluded().iter().for_each(|&id| row[id as usize] = EXCLUDED);
                }
            });
        }
    }
}

/// The result of one row's softmax.
#[derive(Clone, Copy, Default)]
pub(crate) struct Row {
    /// Log-prob of the target in nats; -∞ if it is excluded.
    pub(crate) logprob: f32,
    /// Entropy in nats.
    pub(crate) entropy: f32,
    /// Largest logit.
    pub(super) maximum: f32,
    /// `ln Σ e^y`.
    pub(super) log_sum: f32,
}

/// The rows, and the logits if `keep` is set and they are not too many.
pub(crate) fn forward(inputs: Inputs<'_>, keep: bool) -> (Vec<Row>, Option<Buffer>) {
    let (t, v) = (inputs.rows(), inputs.vocab.len());
    let mut rows = vec![Row::default(); t];
    if keep && LogitsRoom::CPU.keeps(t, v) {
        let mut logits = Buffer::scratch(t * v);
        inputs.logits(0, &mut logits);
        score_rows(inputs, 0, &logits, &mut rows);
        return (rows, Some(logits));
    }
    let chunk = chunk_rows(v);
    let mut logits = Buffer::scratch(chunk.min(t) * v);
    for (index, rows) in rows.chunks_mut(chunk).enumerate() {
        let logits = &mut logits[..rows.len() * v];
        inputs.logits(index * chunk, logits);
        score_rows(inputs, index * chunk, logits, rows);
    }
    (rows, None)
}

pub(crate) fn chunk_rows(v: usize) -> usize {
    LogitsRoom::CPU.chunk_rows(v)
}

fn score_rows(inputs: Inputs<'_>, first: usize, logits: &[f32], rows: &mut [Row]) {
    let v = inputs.vocab.len();
    let each = parallel::task_rows(v);
    rows.par_chunks_mut(each).zip(logits.par_chunks(each * v)).enumerate().for_each(
        |(task, (rows, logits))| {
            simd(
                #[inline(always)]
                || {
                    for (index, (row, z)) in rows.iter_mut().zip(logits.chunks_exact(v)).enumerate() {
                        let at = first + task * each + index;
                        *row = score_row(z, inputs.targets[at], inputs.temperatures[at], inputs.vocab);
                    }
                },
            );
        },
    );
}

#[inline(always)]
fn score_row(z: &[f32], target: u32, temperature: f32, vocab: &Vocab) -> Row {
    let maximum = vector::max(z);
    let (sum, weighted) = softmax_sums(z, maximum, 1.0 / temperature);
    let log_sum = sum.ln();
    let y = (f64::from(z[target as usize]) - f64::from(maximum)) / f64::from(temperature);
    let logprob = if vocab.contains(target) { y - log_sum } else { f64::NEG_INFINITY };
    Row {
        logprob: logprob as f32,
        entropy: (log_sum - weighted / sum) as f32,
        maximum,
        log_sum: log_sum as f32,
    }
}

/// `Σ e^y` and `Σ e^y y`.
#[inline(always)]
pub(super) fn softmax_sums(z: &[f32], maximum: f32, inverse_temperature: f32) -> (f64, f64) {
    let (mut sum, mut weighted) = (0.0_f64, 0.0_f64);
    let mut e = [0.0; SUM_ELEMENTS];
    let mut y = [0.0; SUM_ELEMENTS];
    for z in z.chunks(SUM_ELEMENTS) {
        let (e, y) = (&mut e[..z.len()], &mut y[..z.len()]);
        for ((e, y), &z) in e.iter_mut().zip(y.iter_mut()).zip(z) {
            *y = (z - maximum) * inverse_temperature;
            *e = vector::exp(*y);
        }
        sum += f64::from(vector::sum(e));
        weighted += f64::from(vector::dot(e, y));
    }
    (sum, weighted)
}

/// Derivatives of a scalar with respect to every row's log-prob and entropy.
#[derive(Clone, Copy)]
pub(crate) struct Seeds<'a> {
    pub(crate) d_logprob: &'a [f32],
    /// Empty: all 0.
    pub(crate) d_entropy: &'a [f32],
}

/// Where the gradients of a head's parameters are added; `None` for frozen ones.
pub(crate) struct ParamGradients<'a> {
    pub(crate) d_weight: Option<&'a mut [f32]>,
    /// For the low-rank factor `b`.
    pub(crate) d_b: Option<&'a mut [f32]>,
}

/// The gradients of the head's inputs, and the losses of its rows.
pub(crate) struct Backward {
    pub(crate) d_hidden: Buffer,
    /// For the low-rank `u`; empty if there is none.
    pub(crate) d_u: Buffer,
    /// The loss of each row; empty without a [`HeadLoss`].
    pub(crate) values: Vec<f64>,
}

/// Adds to the gradients of the parameters; returns those of the hidden states.
pub(crate) fn backward(
    inputs: Inputs<'_>,
    rows: &[Row],
    kept: Option<Buffer>,
    seeds: Seeds<'_>,
    head: Option<HeadLoss<'_>>,
    mut params: ParamGradients<'_>,
) -> Backward {
    let Inputs { width, precision, .. } = inputs;
    let (t, v) = (inputs.rows(), inputs.vocab.len());
    let chunk = if kept.is_some() { t.max(1) } else { chunk_rows(v) };
    let is_kept = kept.is_some();
    let mut logits = kept.unwrap_or_else(|| Buffer::scratch(chunk.min(t) * v));
    let mut d_hidden = Buffer::scratch(t * width);
    let mut d_u = Buffer::scratch(inputs.low_rank.map_or(0, |low_rank| t * low_rank.rank));
    let mut values = vec![0.0; head.map_or(0, |_| t)];
    for (index, d_hidden) in d_hidden.chunks_mut(chunk * width).enumerate() {
        let (first, len) = (index * chunk, d_hidden.len() / width);
        let logits = &mut logits[..len * v];
        if !is_kept {
            inputs.logits(first, logits);
        }
        match head {
            None => differentiate_rows(inputs, first, logits, &rows[first..], seeds),
            Some(head) => {
                let part = first..first + len;
                let (rows, values) = (&rows[part.clone()], &mut values[part]);
                head_loss::differentiate_rows(inputs, first, logits, rows, seeds, head, values);
            }
        }
        let d_logits = View::new(&*logits, len, v);
        let weight = View::new(inputs.weight, v, width);
        multiply_in(
            precision,
            ViewMut::new(d_hidden, len, width),
            Write::Set,
            1.0,
            d_logits,
            weight,
            Workers::Pool,
        );
        if let Some(d_weight) = params.d_weight.as_deref_mut() {
            let hidden = View::new(&inputs.hidden[first * width..], len, width);
            let out = ViewMut::new(d_weight, v, width);
            multiply_in(precision, out, Write::Add, 1.0, d_logits.transposed(), hidden, Workers::Pool);
        }
        if let Some(LowRank { u, b, rank }) = inputs.low_rank {
            let out = ViewMut::new(&mut d_u[first * rank..][..len * rank], len, rank);
            multiply_in(precision, out, Write::Set, 1.0, d_logits, View::new(b, v, rank), Workers::Pool);
            if let Some(d_b) = params.d_b.as_deref_mut() {
                let u = View::new(&u[first * rank..], len, rank);
                let out = ViewMut::new(d_b, v, rank);
                multiply_in(precision, out, Write::Add, 1.0, d_logits.transposed(), u, Workers::Pool);
            }
        }
    }
    Backward { d_hidden, d_u, values }
}

/// Turns logits into their gradient.
fn differentiate_rows(inputs: Inputs<'_>, first: usize, logits: &mut [f32], rows: &[Row], seeds: Seeds<'_>) {
    let v = inputs.vocab.len();
    parallel::for_rows(logits, v, |offset, logits| {
        simd(
            #[inline(always)]
            || {
                for (index, z) in logits.chunks_exact_mut(v).enumerate() {
                    let row = &rows[offset + index];
                    let at = first + offset + index;
                    let d_entropy = seeds.d_entropy.get(at).copied().unwrap_or(0.0);
                    let inverse_temperature = 1.0 / inputs.temperatures[at];
                    // The log-prob of an excluded target is -∞ whatever the logits are.
                    let is_allowed = inputs.vocab.contains(inputs.targets[at]);
                    let d_logprob = if is_allowed { seeds.d_logprob[at] } else { 0.0 };
                    differentiate_row(z, row, inverse_temperature, d_logprob, d_entropy);
                    z[inputs.targets[at] as usize] += d_logprob * inverse_temperature;
                }
            },
        );
    });
}

/// The part of the gradient that is proportional to the probabilities.
#[inline(always)]
pub(super) fn differentiate_row(
    z: &mut [f32],
    row: &Row,
    inverse_temperature: f32,
    d_logprob: f32,
    d_entropy: f32,
) {
    for z in z {
        let log_p = (*z - row.maximum) * inverse_temperature - row.log_sum;
        let d_y = d_entropy.mul_add(log_p + row.entropy, d_logprob);
        *z = -inverse_temperature * vector::exp(log_p) * d_y;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        reference,
        testing::{assert_close, assert_gradient, random, random_ids, weighted, wide},
    };

    struct Case {
        hidden: Vec<f32>,
        weight: Vec<f32>,
        width: usize,
        targets: Vec<u32>,
        temperatures: Vec<f32>,
        vocab: Vocab,
    }

    impl Case {
        fn new(rows: usize, width: usize, vocab: Vocab) -> Self {
            Case {
                hidden: random(1, rows * width),
                weight: random(2, vocab.len() * width),
                width,
                targets: random_ids(3, rows, vocab.len()),
                temperatures: random(4, rows).iter().map(|x| 1.0 + 0.5 * x).collect(),
                vocab,
            }
        }

        fn inputs(&self) -> Inputs<'_> {
            let Case { hidden, weight, width, targets, temperatures, vocab } = self;
            Inputs {
                hidden,
                weight: Elements::F32(weight),
                low_rank: None,
                precision: Precision::F32,
                width: *width,
                targets,
                temperatures,
                vocab,
            }
        }

        fn reference(&self, hidden: &[f64], weight: &[f64]) -> (Vec<f64>, Vec<f64>) {
            reference::token_scores(
                hidden,
                weight,
                self.width,
                &self.targets,
                &self.temperatures,
                &self.vocab,
            )
        }

        fn check_forward(&self, tolerance: f64) {
            let (rows, _) = forward(self.inputs(), false);
            let (logprobs, entropies) = self.reference(&wide(&self.hidden), &wide(&self.weight));
            assert_close(&rows.iter().map(|row| row.logprob).collect::<Vec<_>>(), &logprobs, tolerance);
            assert_close(&rows.iter().map(|row| row.entropy).collect::<Vec<_>>(), &entropies, tolerance);
        }

        fn gradients(&self, keep: bool, seeds: Seeds<'_>) -> (Vec<f32>, Vec<f32>) {
            let (rows, kept) = forward(self.inputs(), keep);
            assert_eq!(kept.is_some(), keep);
            let mut d_weight = vec![0.0; self.weight.len()];
            let params = ParamGradients { d_weight: Some(&mut d_weight), d_b: None };
            let found = backward(self.inputs(), &rows, kept, seeds, None, params);
            (found.d_hidden.to_vec(), d_weight)
        }
    }

    #[test]
    fn log_probs_and_entropies_are_within_1e_6_of_the_reference() {
        for v in [3, 512, 3000] {
            let mut case = Case::new(30, 64, Vocab::all(v));
            case.weight.iter_mut().for_each(|w| *w *= 0.3);
            case.check_forward(1e-6 / 4.0);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn gradients_are_those_of_the_reference(
            t in 1_usize..6, width in 1_usize..6, v in 2_usize..9, gap in 2_u32..9, keep: bool, has_entropy: bool,
        ) {
            let mut case = Case::new(t, width, Vocab::only(v, |id| id % gap != 1));
            case.targets.iter_mut().for_each(|id| *id = if case.vocab.contains(*id) { *id } else { 0 });
            case.check_forward(1e-6);
            let d_logprob = random(5, t);
            let d_entropy = if has_entropy { random(6, t) } else { Vec::new() };
            let seeds = Seeds { d_logprob: &d_logprob, d_entropy: &d_entropy };
            let (d_hidden, d_weight) = case.gradients(keep, seeds);
            let loss = |hidden: &[f64], weight: &[f64]| {
                let (logprobs, entropies) = case.reference(hidden, weight);
                let of_entropy = if has_entropy { weighted(&d_entropy, &entropies) } else { 0.0 };
                weighted(&d_logprob, &logprobs) + of_entropy
            };
            let (hidden, weight) = (wide(&case.hidden), wide(&case.weight));
            assert_gradient(&d_hidden, &case.hidden, |hidden| loss(hidden, &weight), 1e-5);
            assert_gradient(&d_weight, &case.weight, |weight| loss(&hidden, weight), 1e-5);
        }
    }

    #[test]
    fn kept_and_recomputed_logits_give_the_same_gradients_over_many_chunks() {
        let v = 11;
        let case = Case::new(2 * chunk_rows(v) + 7, 5, Vocab::only(v, |id| id != 4));
        case.check_forward_allowing_excluded();
        let d_logprob = random(5, case.targets.len());
        let d_entropy = random(6, case.targets.len());
        let seeds = Seeds { d_logprob: &d_logprob, d_entropy: &d_entropy };
        let kept = case.gradients(true, seeds);
        let recomputed = case.gradients(false, seeds);
        assert_close(&recomputed.0, &wide(&kept.0), 1e-6);
        assert_close(&recomputed.1, &wide(&kept.1), 1e-5);
    }

    impl Case {
        fn check_forward_allowing_excluded(&self) {
            let (rows, _) = forward(self.inputs(), false);
            let (logprobs, entropies) = self.reference(&wide(&self.hidden), &wide(&self.weight));
            for (index, row) in rows.iter().enumerate() {
                assert_close(&[row.entropy], &entropies[index..=index], 1e-6);
                if self.vocab.contains(self.targets[index]) {
                    assert_close(&[row.logprob], &logprobs[index..=index], 1e-6);
                } else {
                    assert_eq!(row.logprob, f32::NEG_INFINITY);
                }
            }
        }
    }

    #[test]
    fn an_excluded_id_has_no_probability_and_no_gradient() {
        let mut case = Case::new(3, 4, Vocab::only(6, |id| id != 2));
        case.targets = vec![2, 0, 5];
        let (rows, _) = forward(case.inputs(), false);
        assert_eq!(rows[0].logprob, f32::NEG_INFINITY);
        let seeds = Seeds { d_logprob: &[1.0, 1.0, 1.0], d_entropy: &[1.0, 1.0, 0.0] };
        let (d_hidden, d_weight) = case.gradients(true, seeds);
        assert!(d_weight[2 * 4..3 * 4].iter().all(|&d| d == 0.0));
        assert!(d_hidden.iter().chain(&d_weight).all(|d| d.is_finite()));
    }

    #[test]
    fn a_nan_in_the_hidden_states_reaches_the_log_prob() {
        let mut case = Case::new(2, 4, Vocab::all(40));
        case.hidden[1] = f32::NAN;
        let (rows, _) = forward(case.inputs(), false);
        assert!(rows[0].logprob.is_nan() && rows[0].entropy.is_nan());
        assert!(rows[1].logprob.is_finite());
    }
}
