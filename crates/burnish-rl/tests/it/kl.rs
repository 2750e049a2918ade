//! KL estimators, the adaptive coefficient and the overlong punishment: golden numbers of `tests/golden/make_kl.py`,
//! and expectations over a whole vocabulary.

use crate::common::is_near;
use burnish_rl::kl::{AdaptiveKl, KlEstimator, times_ratio};
use burnish_rl::overlong::OverlongBuffer;
use proptest::prelude::*;
use serde::Deserialize;

const TOLERANCE: f64 = 1e-12;
const ESTIMATORS: [KlEstimator; 4] = [KlEstimator::K1, KlEstimator::K2, KlEstimator::K3, KlEstimator::Abs];

#[derive(Deserialize)]
struct Golden {
    tokens: Tokens,
    trl: Vec<TrlCase>,
    torch: Vec<TorchCase>,
    adaptive: Vec<AdaptiveCase>,
    overlong: Vec<OverlongCase>,
}

#[derive(Deserialize)]
struct Tokens {
    policy: Vec<f64>,
    proximal: Vec<f64>,
    reference: Vec<f64>,
}

#[derive(Deserialize)]
struct TrlCase {
    corrected: bool,
    mean: f64,
    derivative: Vec<f64>,
}

#[derive(Deserialize)]
struct TorchCase {
    estimator: KlEstimator,
    corrected: bool,
    value: Vec<f64>,
    derivative: Vec<f64>,
}

#[derive(Deserialize)]
struct AdaptiveCase {
    target_kl: f64,
    horizon: f64,
    start: f64,
    steps: Vec<AdaptiveStep>,
}

#[derive(Deserialize)]
struct AdaptiveStep {
    kl: f64,
    n: usize,
    coef: f64,
}

#[derive(Deserialize)]
struct OverlongCase {
    tokens_max: usize,
    length: usize,
    penalty: f64,
    rewards: Vec<f64>,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/kl.json")).unwrap()
}

impl Tokens {
    fn evaluate(&self, estimator: KlEstimator, corrected: bool) -> Vec<(f64, f64)> {
        (0..self.policy.len())
            .map(|at| {
                let plain = estimator.evaluate(self.policy[at], self.reference[at]);
                match corrected {
                    true => times_ratio(plain, self.policy[at] - self.proximal[at]),
                    false => plain,
                }
            })
            .collect()
    }
}

#[test]
fn every_estimator_has_the_value_and_the_derivative_that_autograd_finds() {
    let Golden { tokens, torch, .. } = golden();
    assert_eq!(torch.len(), 2 * ESTIMATORS.len());
    for case in torch {
        let found = tokens.evaluate(case.estimator, case.corrected);
        for (at, (value, derivative)) in found.into_iter().enumerate() {
            let what = format!("{} {} token {at}", case.estimator.name(), case.corrected);
            assert!(is_near(value, case.value[at], TOLERANCE), "{what}: {value} for {}", case.value[at]);
            let expected = case.derivative[at];
            assert!(is_near(derivative, expected, TOLERANCE), "{what}: {derivative} for {expected}");
        }
    }
}

#[test]
fn k3_is_the_kl_of_trl() {
    let Golden { tokens, trl, .. } = golden();
    for case in trl {
        let found = tokens.evaluate(KlEstimator::K3, case.corrected);
        let mean = found.iter().map(|(value, _)| value).sum::<f64>() / found.len() as f64;
        assert!(is_near(mean, case.mean, TOLERANCE), "{mean} for {}", case.mean);
        for ((_, found), expected) in found.iter().zip(&case.derivative) {
            assert!(is_near(*found, *expected, TOLERANCE), "{found} for {expected}");
        }
    }
}

#[derive(Deserialize)]
struct VerlKl {
    policy: Vec<f64>,
    reference: Vec<f64>,
    cases: Vec<VerlKlCase>,
}

#[derive(Deserialize)]
struct VerlKlCase {
    estimator: KlEstimator,
    value: Vec<f64>,
    derivative: Vec<f64>,
}

/// Made by `tests/golden/make_correction.py`.
#[test]
fn with_a_clamp_of_k3_alone_every_estimator_is_that_of_verl_and_a_plus_has_the_gradient_of_k2() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../golden/correction.json")).unwrap();
    let VerlKl { policy, reference, cases } = serde_json::from_value(golden["kl"].clone()).unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let estimator = case.estimator;
        let clamp = if estimator.name().starts_with("k3") { 10.0 } else { 0.0 };
        for (at, (policy, reference)) in policy.iter().zip(&reference).enumerate() {
            let (value, derivative) = estimator.evaluate_clamped(*policy, *reference, clamp);
            let what = format!("{} token {at}", estimator.name());
            assert!(is_near(value, case.value[at], TOLERANCE), "{what}: {value} for {}", case.value[at]);
            let expected = case.derivative[at];
            assert!(is_near(derivative, expected, TOLERANCE), "{what}: {derivative} for {expected}");
            if estimator.is_plus() {
                assert_eq!(derivative, KlEstimator::K2.evaluate(*policy, *reference).1, "{what}");
            }
        }
        let reached = case.value.iter().filter(|value| **value == 10.0).count();
        assert_eq!(reached > 0, clamp > 0.0, "{}", estimator.name());
    }
}

#[test]
fn a_value_on_the_clamp_is_not_clamped() {
    assert_eq!(KlEstimator::K2.evaluate_clamped(-1.0, -3.0, 2.0), (2.0, 2.0));
    assert_eq!(KlEstimator::K2.evaluate_clamped(-1.0, -3.0, 1.5), (1.5, 0.0));
    assert_eq!(KlEstimator::K1.evaluate_clamped(-3.0, -1.0, 1.5), (-1.5, 0.0));
    assert_eq!(KlEstimator::K1Plus.evaluate_clamped(-3.0, -1.0, 1.5), (-1.5, -2.0));
}

#[test]
fn the_coefficient_follows_the_published_update() {
    let cases = golden().adaptive;
    assert_eq!(cases.len(), 2);
    for case in cases {
        let adaptive = AdaptiveKl { target_kl: case.target_kl, horizon: case.horizon };
        let mut coef = case.start;
        for step in case.steps {
            coef = adaptive.next(coef, step.kl, step.n);
            assert!(is_near(coef / step.coef, 1.0, TOLERANCE), "{coef} for {}", step.coef);
        }
    }
}

#[test]
fn a_coefficient_without_a_target_or_a_measurement_stays() {
    assert_eq!(AdaptiveKl::default().next(0.3, 9.0, 64), 0.3);
    let adaptive = AdaptiveKl { target_kl: 0.1, horizon: 100.0 };
    assert_eq!(adaptive.next(0.3, 0.1, 64), 0.3);
    assert_eq!(adaptive.next(0.3, f64::NAN, 0), 0.3);
    assert_eq!(adaptive.next(0.3, f64::INFINITY, 100), 0.3 * 1.2);
    assert!(adaptive.check_batch(499).is_ok());
    let error = adaptive.check_batch(500).unwrap_err().to_string();
    assert!(error.contains("adaptive_kl.horizon: must be above 100"), "{error}");
    assert!(adaptive.next(0.3, 0.0, 499) > 0.0);
}

#[test]
fn overlong_answers_lose_what_the_equation_says() {
    let cases = golden().overlong;
    assert_eq!(cases.len(), 3);
    for OverlongCase { tokens_max, length, penalty, rewards } in cases {
        let buffer = OverlongBuffer { length, penalty };
        for (tokens, expected) in rewards.into_iter().enumerate() {
            let found = buffer.reward(tokens, tokens_max);
            assert!(is_near(found, expected, TOLERANCE), "{tokens} of {tokens_max}: {found} for {expected}");
        }
    }
    assert_eq!(OverlongBuffer::default().reward(100, 100), 0.0);
    assert!(OverlongBuffer { length: 101, penalty: 1.0 }.check(100).is_err());
    assert!(OverlongBuffer { length: 100, penalty: 1.0 }.check(100).is_ok());
    assert!(OverlongBuffer { length: 1, penalty: -1.0 }.check(100).is_err());
}

/// Log-probabilities of a softmax.
fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|logit| (logit - max).exp()).sum();
    logits.iter().map(|logit| logit - max - sum.ln()).collect()
}

/// `E_π[weight · ∇ log π]` with respect to the logits of π, over the whole vocabulary.
fn expected_gradient(policy: &[f64], weight: impl Fn(usize) -> f64) -> Vec<f64> {
    let weights: Vec<f64> = (0..policy.len()).map(|token| policy[token].exp() * weight(token)).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().zip(policy).map(|(weight, logprob)| weight - logprob.exp() * sum).collect()
}

/// The gradient of `KL(π ‖ ref)` with respect to the logits of π: `π_j (x_j - KL)`.
fn gradient_of_kl(policy: &[f64], reference: &[f64]) -> Vec<f64> {
    let x: Vec<f64> = policy.iter().zip(reference).map(|(p, r)| p - r).collect();
    let kl: f64 = policy.iter().zip(&x).map(|(p, x)| p.exp() * x).sum();
    policy.iter().zip(&x).map(|(p, x)| p.exp() * (x - kl)).collect()
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn distance(left: &[f64], right: &[f64]) -> f64 {
    norm(&left.iter().zip(right).map(|(left, right)| left - right).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn in_the_loss_the_gradient_of_the_kl_is_that_of_k1_and_k3_with_the_ratio_and_of_k2_without(
        logits in prop::collection::vec((-3.0..3.0f64, -3.0..3.0f64), 2..8),
    ) {
        let (policy, reference): (Vec<f64>, Vec<f64>) = logits.into_iter().unzip();
        let (policy, reference) = (log_softmax(&policy), log_softmax(&reference));
        let kl = gradient_of_kl(&policy, &reference);
        let plain = |estimator: KlEstimator| {
            expected_gradient(&policy, |token| estimator.evaluate(policy[token], reference[token]).1)
        };
        let corrected = |estimator: KlEstimator| {
            expected_gradient(&policy, |token| {
                times_ratio(estimator.evaluate(policy[token], reference[token]), 0.0).1
            })
        };
        prop_assert!(norm(&plain(KlEstimator::K1)) < 1e-12, "k1 alone only adds noise");
        prop_assert!(distance(&corrected(KlEstimator::K1), &kl) < 1e-12);
        prop_assert!(distance(&plain(KlEstimator::K2), &kl) < 1e-12);
        prop_assert!(distance(&corrected(KlEstimator::K3), &kl) < 1e-12);
        // The gradient of KL(ref ‖ π) is π - ref.
        let forward: Vec<f64> = policy.iter().zip(&reference).map(|(p, r)| p.exp() - r.exp()).collect();
        prop_assert!(distance(&plain(KlEstimator::K3), &forward) < 1e-12);
    }

    #[test]
    fn in_the_reward_k1_has_the_gradient_of_the_kl_and_the_others_hardly_lead_to_the_reference(
        logits in prop::collection::vec((-2.0..2.0f64, -1.0..1.0f64), 3..8),
    ) {
        // Near the reference.
        let reference = log_softmax(&logits.iter().map(|(logit, _)| *logit).collect::<Vec<_>>());
        let near = |size: f64| log_softmax(&logits.iter().map(|(a, b)| a + size * b).collect::<Vec<_>>());
        let policy = near(1e-4);
        let kl = gradient_of_kl(&policy, &reference);
        prop_assume!(norm(&kl) > 1e-6);
        let of_reward = |estimator: KlEstimator| {
            expected_gradient(&policy, |token| estimator.evaluate(policy[token], reference[token]).0)
        };
        prop_assert!(distance(&of_reward(KlEstimator::K1), &kl) < 1e-14);
        for estimator in [KlEstimator::K2, KlEstimator::K3] {
            prop_assert!(norm(&of_reward(estimator)) < 0.01 * norm(&kl), "{}", estimator.name());
        }
        // As far on the other side, the gradient of `abs` is nearly the same: it does not point to the reference.
        let other = near(-1e-4);
        let mirrored =
            expected_gradient(&other, |token| KlEstimator::Abs.evaluate(other[token], reference[token]).0);
        prop_assert!(distance(&of_reward(KlEstimator::Abs), &mirrored) < 0.01 * norm(&kl));
    }
}
