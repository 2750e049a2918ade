//! Compared with the functions of the CPU, which are tested against the reference.

use super::*;
use crate::{
    TeacherRows, Vocab,
    cuda::{
        ops::{
            head_case::{Case, RANK},
            scores::{ParamGradients, Seeds, backward_in, forward_in},
        },
        testing::device,
        values::Values,
    },
    ops,
    testing::{assert_close, random, random_ids, wide},
};

const TOP: usize = 4;

/// Rows with every option.
struct Rows {
    case: Case,
    teacher: Case,
    d_logprob: Vec<f32>,
    d_entropy: Vec<f32>,
    weights: Vec<f32>,
    ids: Vec<u32>,
    probabilities: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    None,
    SoftLabels,
    /// A function of a row's logits.
    Own,
    /// A function of these and of a teacher's logits.
    Both,
}

/// The results of a backward pass.
struct Found {
    /// Those of the hidden states, the weight, and the low-rank factors.
    gradients: [Vec<f32>; 4],
    values: Vec<f64>,
}

impl Rows {
    fn new(seed: u64, rows: usize, v: usize) -> Self {
        let vocab = Vocab::only(v, |id| id != 2);
        let mut ids: Vec<u32> =
            random_ids(seed + 20, rows * TOP, v).into_iter().map(|id| if id == 2 { 0 } else { id }).collect();
        let mut probabilities: Vec<f32> =
            random(seed + 21, rows * TOP).iter().map(|x| 0.2 * (1.0 + x)).collect();
        // An excluded id, which does not count as an entry.
        for at in (0..rows * TOP).step_by(7) {
            (ids[at], probabilities[at]) = (2, 0.0);
        }
        let mut weights = random(seed + 22, rows);
        weights.iter_mut().step_by(3).for_each(|weight| *weight = 0.0);
        let case = Case::new(seed, rows, 5, vocab.clone());
        // The target, three times.
        for row in (1..rows).step_by(2) {
            ids[row * TOP + 1..(row + 1) * TOP].fill(case.targets[row]);
        }
        Rows {
            teacher: Case {
                temperatures: case.temperatures.clone(),
                ..Case::new(seed + 11, rows, 3, vocab.clone())
            },
            case,
            d_logprob: random(seed + 23, rows),
            d_entropy: random(seed + 24, rows),
            weights,
            ids,
            probabilities,
        }
    }

    fn loss<'a>(&'a self, kind: Kind, evaluate: &'a RowFunction<'a>) -> Option<HeadTerm<'a>> {
        let loss = match kind {
            Kind::None => return None,
            Kind::SoftLabels => {
                RowLoss::SoftLabels { top: TOP, ids: &self.ids, probabilities: &self.probabilities }
            }
            Kind::Own | Kind::Both => RowLoss::Whole { evaluate, teacher: None::<TeacherRows<'a>> },
        };
        Some(HeadTerm { weights: &self.weights, loss })
    }

    fn on_host(&self, kind: Kind) -> Found {
        let rows = ops::scores::forward(self.case.on_host(), false).0;
        let teacher = (kind == Kind::Both).then(|| self.teacher.on_host());
        let term = self.loss(kind, &distance);
        let head = term.map(|HeadTerm { weights, loss }| ops::head_loss::HeadLoss { weights, loss, teacher });
        let seeds = ops::scores::Seeds { d_logprob: &self.d_logprob, d_entropy: &self.d_entropy };
        let mut d_weight = vec![0.0; self.case.weight.len()];
        let mut d_b = vec![0.0; self.case.vocab.len() * RANK];
        let params = ops::scores::ParamGradients { d_weight: Some(&mut d_weight), d_b: Some(&mut d_b) };
        let found = ops::scores::backward(self.case.on_host(), &rows, None, seeds, head, params);
        let gradients = [found.d_hidden.to_vec(), d_weight, found.d_u.to_vec(), d_b];
        Found { gradients, values: found.values }
    }

    fn on_gpu(&self, cuda: &Arc<Cuda>, kind: Kind, keep: bool, chunk: usize) -> Found {
        let (case, teacher) = (self.case.on(cuda), self.teacher.on(cuda));
        let inputs = case.inputs();
        let rows = forward_in(cuda, inputs, keep, chunk);
        let [d_logprob, d_entropy] =
            [&self.d_logprob, &self.d_entropy].map(|seeds| Buffer::upload(cuda, seeds));
        let seeds = Seeds { d_logprob: d_logprob.all(), d_entropy: Some(d_entropy.all()) };
        let mut d_weight = Buffer::zeros(cuda, self.case.weight.len());
        let mut d_b = Buffer::zeros(cuda, self.case.vocab.len() * RANK);
        let params = ParamGradients { d_weight: Some(d_weight.all_mut()), d_b: Some(d_b.all_mut()) };
        let theirs = (kind == Kind::Both).then(|| teacher.inputs());
        let v = self.case.vocab.len();
        let term = self.loss(kind, &distance);
        let mut loss = term.map(|term| HeadLoss::of(cuda, term, &self.case.temperatures, v, theirs));
        let (d_hidden, d_u) = backward_in(cuda, inputs, rows, seeds, loss.as_mut(), params, chunk);
        let [d_weight, d_b] = [d_weight, d_b].map(Values::from);
        let gradients = [d_hidden, d_weight, d_u, d_b].map(|d| d.download().unwrap());
        let values = loss.map(|loss| loss.into_values().unwrap()).unwrap_or_default();
        Found { gradients, values }
    }

    #[track_caller]
    fn compare(&self, cuda: &Arc<Cuda>, kind: Kind, keep: bool, chunk: usize) -> Found {
        let (found, expected) = (self.on_gpu(cuda, kind, keep, chunk), self.on_host(kind));
        let narrow = |values: &[f64]| values.iter().map(|value| *value as f32).collect::<Vec<_>>();
        assert_close(&narrow(&found.values), &expected.values, 1e-6);
        for (found, expected) in found.gradients.iter().zip(&expected.gradients) {
            assert_close(found, &wide(expected), 1e-5);
        }
        for (value, weight) in found.values.iter().zip(&self.weights) {
            assert!((*value == 0.0) == (*weight == 0.0), "{kind:?}: {value} of weight {weight}");
        }
        found
    }
}

/// Half the squared distance to the teacher's logits, or to 0; it also depends on the row.
fn distance(row: usize, own: &[f64], theirs: &[f64]) -> (f64, Vec<f64>) {
    let factor = 0.1 * (1 + row % 5) as f64;
    let apart = |(id, y): (usize, &f64)| {
        let other = theirs.get(id).copied().unwrap_or_default();
        if *y < -1e19 { 0.0 } else { factor * (y - other) }
    };
    let d: Vec<f64> = own.iter().enumerate().map(apart).collect();
    (d.iter().map(|d| d * d).sum::<f64>() / (2.0 * factor), d)
}

#[test]
fn values_and_gradients_are_those_of_the_cpu() {
    let Some(cuda) = device() else { return };
    // Includes more ids than threads, with and without a low-rank term of the student and of the teacher.
    for (seed, rows, v, keep, chunk) in [(1, 7, 9, true, 9), (2, 7, 9, false, 3), (3, 5, 1100, false, 2)] {
        let rows = Rows::new(seed, rows, v);
        for kind in [Kind::SoftLabels, Kind::Own, Kind::Both] {
            rows.compare(&cuda, kind, keep, chunk);
        }
    }
}

#[test]
fn a_function_of_whole_rows_sees_each_of_them_once_however_they_are_parted() {
    let Some(cuda) = device() else { return };
    let v = 4;
    let mut rows = Rows::new(2, chunk_rows(v) + 9, v);
    // Nothing is evaluated for rows without weight.
    rows.weights[chunk_rows(v)..].fill(0.0);
    rows.compare(&cuda, Kind::Both, true, 1);
    rows.weights[chunk_rows(v) + 4] = 0.5;
    rows.compare(&cuda, Kind::Both, true, 1);
}

#[test]
fn rows_without_weight_are_as_without_a_loss() {
    let Some(cuda) = device() else { return };
    let mut rows = Rows::new(3, 6, 9);
    rows.weights.fill(0.0);
    let plain = rows.on_gpu(&cuda, Kind::None, false, 4);
    for kind in [Kind::SoftLabels, Kind::Both] {
        let found = rows.on_gpu(&cuda, kind, false, 4);
        assert_eq!(found.gradients, plain.gradients);
        assert!(found.values.iter().all(|value| *value == 0.0));
    }
}

#[test]
fn labels_of_logits_far_from_zero_have_finite_losses() {
    let Some(cuda) = device() else { return };
    let mut rows = Rows::new(2, 4, 50);
    rows.case.weight.iter_mut().for_each(|w| *w *= 2e4);
    let (found, expected) = (rows.on_gpu(&cuda, Kind::SoftLabels, false, 3), rows.on_host(Kind::SoftLabels));
    for (found, expected) in found.values.iter().zip(&expected.values) {
        assert!((found - expected).abs() <= 1e-6 * (1.0 + expected.abs()), "{found} is not {expected}");
    }
    assert!(found.gradients.iter().flatten().all(|d| d.is_finite()));
    assert!(found.values.iter().any(|value| *value > 1e3), "{:?}", found.values);
}

#[test]
#[should_panic(expected = "not in the vocabulary")]
fn a_label_beyond_the_vocabulary_is_refused() {
    let Some(cuda) = device() else { panic!("a label is not in the vocabulary") };
    let mut rows = Rows::new(2, 2, 9);
    rows.ids[3] = 9;
    rows.on_gpu(&cuda, Kind::SoftLabels, false, 3);
}
