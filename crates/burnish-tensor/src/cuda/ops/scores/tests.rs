//! Compared with the reference; an adapted head is compared with the head that has the adapter merged in.

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
            hidden: hidden.all().into(),
            weight: weight.all().into(),
            low_rank: None,
            precision: Precision::F32,
            width: self.width,
            asked: &asked,
        };
        let rows = forward_in(cuda, inputs, keep, chunk);
        assert_eq!(rows.logits.is_some(), keep);
        let (logprobs, entropies) = rows.download().unwrap();
        let mut d_weight = Buffer::zeros(cuda, self.weight.len());
        let d_entropy = (d_entropy.len() > 0).then(|| d_entropy.all());
        let seeds = Seeds { d_logprob: d_logprob.all(), d_entropy };
        let params = ParamGradients { d_weight: Some(d_weight.all_mut()), d_b: None };
        let (d_hidden, _) = backward_in(cuda, inputs, rows, seeds, None, params, chunk);
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
fn rows_of_thousands_of_logits_are_those_of_the_reference() {
    let Some(cuda) = device() else { return };
    let mut case = Case::new(&cuda, 3, 2, Vocab::only(5001, |id| id % 7 != 1));
    // Logits grow along a row, so that each thread's largest rises as it goes on.
    case.weight.iter_mut().enumerate().for_each(|(at, w)| *w *= 1.0 + (at / 2) as f32 / 1000.0);
    let (d_logprob, d_entropy) = (random(5, 3), random(6, 3));
    let [logprobs, entropies, d_hidden, _] = case.run(false, 2, &d_logprob, &d_entropy);
    let (hidden, weight) = (wide(&case.hidden), wide(&case.weight));
    let expected = case.reference(&hidden, &weight);
    assert_close(&logprobs, &expected.0, 1e-6);
    assert_close(&entropies, &expected.1, 1e-6);
    let loss = |hidden: &[f64]| {
        let (logprobs, entropies) = case.reference(hidden, &weight);
        weighted(&d_logprob, &logprobs) + weighted(&d_entropy, &entropies)
    };
    assert_gradient(&d_hidden, &case.hidden, loss, 1e-5);
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
    // The same head with the adapter merged in.
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
    let term = crate::cuda::ops::low_rank::Inputs {
        x: hidden.all().into(),
        rows: 5,
        a: ga.all().into(),
        b: gb.all().into(),
        rank,
        scale,
        precision: Precision::F32,
    };
    let u = crate::cuda::ops::low_rank::scaled_inner(&cuda, term);
    let inputs = Inputs {
        hidden: hidden.all().into(),
        weight: weight.all().into(),
        low_rank: Some(LowRank { u: u.all(), b: gb.all().into(), rank }),
        precision: Precision::F32,
        width: 3,
        asked: &asked,
    };
    let rows = forward_in(&cuda, inputs, false, 2);
    let scored = rows.download().unwrap();
    assert_close(&scored.0, &wide(&logprobs), 1e-5);
    assert_close(&scored.1, &wide(&entropies), 1e-5);
    let mut d_b = Buffer::zeros(&cuda, b.len());
    let seeds = Seeds { d_logprob: d.all(), d_entropy: None };
    let params = ParamGradients { d_weight: None, d_b: Some(d_b.all_mut()) };
    let (mut d_h, d_u) = backward_in(&cuda, inputs, rows, seeds, None, params, 2);
    let mut d_a = Buffer::zeros(&cuda, a.len());
    let into = Some(d_a.all_mut());
    crate::cuda::ops::low_rank::scaled_inner_backward(&cuda, term, d_u.all(), d_h.all_mut(), into);
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
