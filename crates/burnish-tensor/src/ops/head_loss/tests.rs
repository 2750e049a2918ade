//! Losses on rows, compared with plain loops in f64.

use super::*;
use crate::{
    Elements, Precision, Vocab,
    ops::scores::{self, LowRank, ParamGradients},
    reference,
    testing::{assert_close, assert_gradient, random, random_ids, wide},
};

const WIDTH: usize = 5;
const THEIR_WIDTH: usize = 3;
const TOP: usize = 4;
const RANK: usize = 2;

/// Rows of a head with every option.
struct Case {
    hidden: Vec<f32>,
    weight: Vec<f32>,
    /// `[rows, RANK]` and `[v, RANK]`.
    low_rank: [Vec<f32>; 2],
    their_hidden: Vec<f32>,
    their_weight: Vec<f32>,
    targets: Vec<u32>,
    temperatures: Vec<f32>,
    vocab: Vocab,
    d_logprob: Vec<f32>,
    d_entropy: Vec<f32>,
    weights: Vec<f32>,
    ids: Vec<u32>,
    probabilities: Vec<f32>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    SoftLabels,
    /// The same, as a function of whole rows.
    SoftLabelsWhole,
    /// The reverse KL divergence to a teacher.
    Reverse,
}

impl Case {
    fn new(rows: usize, v: usize) -> Self {
        let vocab = Vocab::only(v, |id| id != 2);
        let allowed = |ids: Vec<u32>| ids.into_iter().map(|id| if id == 2 { 0 } else { id }).collect();
        let mut probabilities: Vec<f32> = random(8, rows * TOP).iter().map(|x| 0.2 * (1.0 + x)).collect();
        // These count as no entry.
        probabilities.iter_mut().step_by(7).for_each(|p| *p = 0.0);
        let mut weights = random(7, rows);
        weights.iter_mut().step_by(3).for_each(|weight| *weight = 0.0);
        Case {
            hidden: random(1, rows * WIDTH),
            weight: random(2, v * WIDTH),
            low_rank: [random(12, rows * RANK), random(13, v * RANK)],
            their_hidden: random(9, rows * THEIR_WIDTH),
            their_weight: random(10, v * THEIR_WIDTH),
            targets: allowed(random_ids(3, rows, v)),
            temperatures: random(4, rows).iter().map(|x| 1.0 + 0.5 * x).collect(),
            vocab,
            d_logprob: random(5, rows),
            d_entropy: random(6, rows),
            weights,
            ids: allowed(random_ids(11, rows * TOP, v)),
            probabilities,
        }
    }

    fn inputs(&self) -> Inputs<'_> {
        Inputs {
            hidden: &self.hidden,
            weight: Elements::F32(&self.weight),
            low_rank: Some(LowRank { u: &self.low_rank[0], b: &self.low_rank[1], rank: RANK }),
            precision: Precision::F32,
            width: WIDTH,
            targets: &self.targets,
            temperatures: &self.temperatures,
            vocab: &self.vocab,
        }
    }

    fn teacher(&self) -> Inputs<'_> {
        Inputs {
            hidden: &self.their_hidden,
            weight: Elements::F32(&self.their_weight),
            low_rank: None,
            width: THEIR_WIDTH,
            ..self.inputs()
        }
    }

    fn labels(&self, row: usize) -> impl Iterator<Item = (usize, f64)> {
        let own = row * TOP..(row + 1) * TOP;
        self.ids[own.clone()]
            .iter()
            .zip(&self.probabilities[own])
            .map(|(id, p)| (*id as usize, f64::from(*p)))
    }

    /// `y` are logits over the temperature.
    fn soft_labels(&self, row: usize, y: &[f64]) -> (f64, Vec<f64>) {
        let log_q = log_softmax(y);
        let mut value = 0.0;
        let mass: f64 = self.labels(row).map(|(_, p)| p).sum();
        let mut d: Vec<f64> = log_q.iter().map(|log| mass * log.exp()).collect();
        for (id, p) in self.labels(row).filter(|(_, p)| *p > 0.0) {
            value += p * (p.ln() - log_q[id]);
            d[id] -= p;
        }
        (value, d)
    }

    fn reverse(&self, y: &[f64], theirs: &[f64]) -> (f64, Vec<f64>) {
        let (log_q, log_p) = (log_softmax(y), log_softmax(theirs));
        let terms: Vec<f64> = log_q.iter().zip(&log_p).map(|(q, p)| q - p).collect();
        let is_there = |q: &f64| q.exp() > 0.0;
        let value: f64 =
            log_q.iter().zip(&terms).filter(|(q, _)| is_there(q)).map(|(q, t)| q.exp() * t).sum();
        let d = |(q, t): (&f64, &f64)| if is_there(q) { q.exp() * (t - value) } else { 0.0 };
        (value, log_q.iter().zip(&terms).map(d).collect())
    }

    /// The weighted loss of all rows in f64, from the definition.
    fn expected(&self, kind: Kind, hidden: &[f64], weight: &[f64]) -> (Vec<f64>, f64) {
        let v = self.vocab.len();
        let u = wide(&self.low_rank[0]);
        let term = reference::linear(&u, &wide(&self.low_rank[1]), None, RANK);
        let mut logits = reference::linear(hidden, weight, None, WIDTH);
        logits.iter_mut().zip(&term).for_each(|(z, term)| *z += term);
        let theirs =
            reference::linear(&wide(&self.their_hidden), &wide(&self.their_weight), None, THEIR_WIDTH);
        let (mut values, mut total) = (Vec::new(), 0.0);
        for row in 0..self.targets.len() {
            let scaled = |logits: &[f64]| -> Vec<f64> {
                let of =
                    |id: usize| if self.vocab.contains(id as u32) { logits[row * v + id] } else { -1e20 };
                (0..v).map(|id| of(id) / f64::from(self.temperatures[row])).collect()
            };
            let (y, theirs) = (scaled(&logits), scaled(&theirs));
            let log_q = log_softmax(&y);
            let entropy: f64 = -log_q.iter().map(|log| log.exp() * log.max(-1e3)).sum::<f64>();
            let value = match kind {
                Kind::Reverse => self.reverse(&y, &theirs).0,
                _ => self.soft_labels(row, &y).0,
            };
            let weight = f64::from(self.weights[row]);
            values.push(if weight == 0.0 { 0.0 } else { value });
            total += f64::from(self.d_logprob[row]) * log_q[self.targets[row] as usize]
                + f64::from(self.d_entropy[row]) * entropy
                + weight * value;
        }
        (values, total)
    }

    /// Gradients of the hidden states, of the weight and of both low-rank factors, and the loss of each row.
    fn found(&self, kind: Kind, keep: bool) -> ([Vec<f32>; 4], Vec<f64>) {
        let (rows, kept) = scores::forward(self.inputs(), keep);
        let soft = |row: usize, y: &[f64], _: &[f64]| self.soft_labels(row, y);
        let reverse = |_: usize, y: &[f64], theirs: &[f64]| self.reverse(y, theirs);
        let loss = match kind {
            Kind::SoftLabels => {
                RowLoss::SoftLabels { top: TOP, ids: &self.ids, probabilities: &self.probabilities }
            }
            Kind::SoftLabelsWhole => RowLoss::Whole { evaluate: &soft, teacher: None },
            Kind::Reverse => RowLoss::Whole { evaluate: &reverse, teacher: None },
        };
        let teacher = (kind == Kind::Reverse).then(|| self.teacher());
        let head = HeadLoss { weights: &self.weights, loss, teacher };
        let seeds = Seeds { d_logprob: &self.d_logprob, d_entropy: &self.d_entropy };
        let (mut d_weight, mut d_b) = (vec![0.0; self.weight.len()], vec![0.0; self.low_rank[1].len()]);
        let params = ParamGradients { d_weight: Some(&mut d_weight), d_b: Some(&mut d_b) };
        let found = scores::backward(self.inputs(), &rows, kept, seeds, Some(head), params);
        ([found.d_hidden.to_vec(), d_weight, found.d_u.to_vec(), d_b], found.values)
    }
}

fn log_softmax(y: &[f64]) -> Vec<f64> {
    let max = y.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total = max + y.iter().map(|y| (y - max).exp()).sum::<f64>().ln();
    y.iter().map(|y| y - total).collect()
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

#[test]
fn values_and_gradients_are_those_of_the_reference() {
    let case = Case::new(7, 9);
    for kind in [Kind::SoftLabels, Kind::SoftLabelsWhole, Kind::Reverse] {
        for keep in [true, false] {
            let ([d_hidden, d_weight, ..], values) = case.found(kind, keep);
            let (hidden, weight) = (wide(&case.hidden), wide(&case.weight));
            assert_close(&narrow(&values), &case.expected(kind, &hidden, &weight).0, 1e-6);
            let of = |hidden: &[f64], weight: &[f64]| case.expected(kind, hidden, weight).1;
            assert_gradient(&d_hidden, &case.hidden, |hidden| of(hidden, &weight), 1e-5);
            assert_gradient(&d_weight, &case.weight, |weight| of(&hidden, weight), 1e-5);
        }
    }
}

#[test]
fn kept_and_recomputed_logits_fused_and_whole_give_the_same_over_many_chunks() {
    let v = 11;
    let case = Case::new(2 * chunk_rows(v) + 7, v);
    let (fused, values) = case.found(Kind::SoftLabels, true);
    for (kind, keep) in
        [(Kind::SoftLabels, false), (Kind::SoftLabelsWhole, true), (Kind::SoftLabelsWhole, false)]
    {
        let (found, own) = case.found(kind, keep);
        assert_close(&narrow(&own), &values, 1e-5);
        for (found, fused) in found.iter().zip(&fused) {
            assert_close(found, &wide(fused), 1e-5);
        }
    }
    let (kept, values) = case.found(Kind::Reverse, true);
    let (found, own) = case.found(Kind::Reverse, false);
    assert_close(&narrow(&own), &values, 1e-6);
    for (found, kept) in found.iter().zip(&kept) {
        assert_close(found, &wide(kept), 1e-5);
    }
}

#[test]
fn rows_without_weight_are_as_without_a_loss() {
    let mut case = Case::new(7, 9);
    case.weights.fill(0.0);
    let (rows, kept) = scores::forward(case.inputs(), true);
    let seeds = Seeds { d_logprob: &case.d_logprob, d_entropy: &case.d_entropy };
    let params = ParamGradients { d_weight: None, d_b: None };
    let plain = scores::backward(case.inputs(), &rows, kept, seeds, None, params);
    for kind in [Kind::SoftLabels, Kind::Reverse] {
        let (found, values) = case.found(kind, true);
        assert_eq!(found[0], plain.d_hidden.to_vec());
        assert!(values.iter().all(|value| *value == 0.0));
    }
    assert!(plain.values.is_empty());
}

#[test]
fn an_excluded_id_stays_without_gradient() {
    let case = Case::new(7, 9);
    for kind in [Kind::SoftLabels, Kind::Reverse] {
        let ([_, d_weight, ..], values) = case.found(kind, false);
        assert!(d_weight[2 * WIDTH..3 * WIDTH].iter().all(|d| *d == 0.0));
        assert!(d_weight.iter().all(|d| d.is_finite()) && values.iter().all(|value| value.is_finite()));
    }
}
