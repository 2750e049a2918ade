//! Beliefs about success rates: golden numbers of `tests/golden/make_selection.py`, enumeration, algebra.

use burnish_core::rng::Stream;
use burnish_rl::belief::{Belief, Beliefs};
use burnish_rl::special::{digamma, digamma_above_ln};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Golden {
    digamma: Vec<(f64, f64)>,
    cases: Vec<Case>,
    draws: Vec<Draws>,
}

#[derive(Deserialize)]
struct Case {
    alpha: f64,
    beta: f64,
    rollouts: usize,
    information: f64,
    expected_entropy: f64,
    outcomes: Vec<f64>,
    /// Its definition, integrated numerically.
    integral: Option<f64>,
}

#[derive(Deserialize)]
struct Draws {
    alpha: f64,
    beta: f64,
    cdf: Vec<(f64, f64)>,
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/selection.json")).unwrap()
}

fn belief(alpha: f64, beta: f64) -> Belief {
    Belief { alpha, beta }
}

fn beliefs() -> impl Strategy<Value = Belief> {
    let count = || prop_oneof![(0.05..3.0f64), (1.0..60.0f64), (1u32..40).prop_map(f64::from)];
    (count(), count()).prop_map(|(alpha, beta)| belief(alpha, beta))
}

/// Both counts 1 or more.
fn from_one() -> impl Strategy<Value = Belief> {
    beliefs().prop_map(|own| belief(own.alpha.max(1.0), own.beta.max(1.0)))
}

/// Relative error, absolute where the number is below 1e-300.
#[track_caller]
fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (found - expected).abs() / expected.abs().max(1e-300);
    assert!(error <= tolerance || found == expected, "{what}: {found} for {expected}");
}

#[test]
fn digamma_is_that_of_mpmath_to_1e_12() {
    for (x, expected) in golden().digamma {
        let found = digamma(x);
        assert!(
            (found - expected).abs() <= 1e-12 * expected.abs().max(1.0),
            "ψ({x}) = {found} for {expected}"
        );
        // Where the logarithm is near, the difference keeps its digits.
        let above = digamma_above_ln(x);
        let printed = expected + x.recip() - x.ln();
        assert!(
            (above - printed).abs() <= 1e-12 * above.max(1.0).max(x.recip()),
            "at {x}: {above} for {printed}"
        );
    }
    assert_close(digamma_above_ln(1e9), 0.5e-9, 1e-9, "ψ(x + 1) - ln x, far out");
    assert!(digamma(0.0).is_nan() && digamma(-0.5).is_nan() && digamma(f64::NAN).is_nan());
}

#[test]
fn information_is_the_cards_closed_form_with_many_digits_and_its_integral() {
    let mut integrals = 0;
    for case in golden().cases {
        let own = belief(case.alpha, case.beta);
        let what = format!("{own:?}, {} rollouts", case.rollouts);
        let found = own.information(case.rollouts);
        let is_near = (found - case.information).abs() <= 1e-9 * case.information + 1e-15;
        assert!(is_near, "{what}: {found} for {}", case.information);
        let found = own.expected_entropy();
        let is_near = (found - case.expected_entropy).abs() <= 1e-12 * case.expected_entropy + 1e-14;
        assert!(is_near, "{what}: {found} for {}", case.expected_entropy);
        let found = own.outcomes(case.rollouts);
        assert_eq!(found.len(), case.rollouts + 1);
        found.iter().zip(&case.outcomes).for_each(|(found, expected)| {
            assert_close(*found, *expected, 1e-10, &what);
        });
        if let Some(integral) = case.integral {
            assert_close(own.information(case.rollouts), integral, 1e-11, &what);
            integrals += 1;
        }
    }
    assert!(integrals >= 10, "{integrals}");
}

#[test]
fn the_check_values_of_the_card() {
    for (alpha, beta, expected) in
        [(1.0, 1.0, std::f64::consts::LN_2 - 0.5), (2.0, 5.0, 0.064936), (50.0, 50.0, 0.004975)]
    {
        let found = belief(alpha, beta).information(1);
        assert!((found - expected).abs() < 5e-7, "{alpha}, {beta}: {found}");
    }
}

/// Every sequence of `rollouts` outcomes with its probability: each outcome follows from the belief so far.
fn sequences(own: Belief, rollouts: usize) -> Vec<(usize, f64, Belief)> {
    (0..1usize << rollouts)
        .map(|bits| {
            let (mut chance, mut now) = (1.0, own);
            for at in 0..rollouts {
                if bits >> at & 1 == 1 {
                    chance *= now.mean();
                    now.alpha += 1.0;
                } else {
                    chance *= 1.0 - now.mean();
                    now.beta += 1.0;
                }
            }
            (bits.count_ones() as usize, chance, now)
        })
        .collect()
}

/// Entropy in nats.
fn entropy(chances: &[f64]) -> f64 {
    chances.iter().filter(|p| **p > 0.0).map(|p| -p * p.ln()).sum()
}

proptest! {
    #[test]
    fn information_and_outcomes_are_those_of_all_sequences_counted(own in beliefs(), rollouts in 1..8usize) {
        let all = sequences(own, rollouts);
        let whole = entropy(&all.iter().map(|(_, chance, _)| *chance).collect::<Vec<_>>());
        let expected = whole - rollouts as f64 * own.expected_entropy();
        prop_assert!((own.information(rollouts) - expected).abs() < 1e-11, "{} for {expected}", own.information(rollouts));
        for (k, found) in own.outcomes(rollouts).into_iter().enumerate() {
            let expected: f64 = all.iter().filter(|(hits, ..)| *hits == k).map(|(_, chance, _)| chance).sum();
            prop_assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
        }
    }

    #[test]
    fn information_of_one_rollout_is_the_printed_formula(own in beliefs()) {
        let (mean, n) = (own.mean(), own.evidence());
        let h = entropy(&[mean, 1.0 - mean]);
        let printed = h
            + mean * (digamma(own.alpha + 1.0) - digamma(n + 1.0))
            + (1.0 - mean) * (digamma(own.beta + 1.0) - digamma(n + 1.0));
        prop_assert!((own.information(1) - printed).abs() < 1e-13);
    }

    #[test]
    fn information_is_not_negative_symmetric_and_below_the_entropy_of_the_count(own in beliefs(), rollouts in 0..20usize) {
        let found = own.information(rollouts);
        prop_assert!(found >= 0.0);
        prop_assert_eq!(found.to_bits(), belief(own.beta, own.alpha).information(rollouts).to_bits());
        let outcomes = own.outcomes(rollouts);
        prop_assert!((outcomes.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        prop_assert!(found <= entropy(&outcomes) + 1e-12, "{found} above {}", entropy(&outcomes));
    }

    #[test]
    fn information_grows_ever_more_slowly_with_rollouts(own in beliefs()) {
        let found: Vec<f64> = (0..=12).map(|rollouts| own.information(rollouts)).collect();
        prop_assert_eq!(found[0], 0.0);
        for three in found.windows(3) {
            let (first, second) = (three[1] - three[0], three[2] - three[1]);
            prop_assert!(second > 0.0 && second < first, "{found:?}");
        }
    }

    /// `I_1 = h(φ̄) - E[h(Φ)]`, h is concave, and at the same mean less evidence is more spread in the convex order.
    #[test]
    fn evidence_lowers_information_of_one_rollout_at_the_same_mean(own in beliefs(), more in 1.01..4.0f64) {
        let later = belief(own.alpha * more, own.beta * more);
        prop_assert!(later.information(1) < own.information(1));
    }

    /// Counts of 1 or more, as beliefs with the default prior have. With several rollouts, it does not hold for all
    /// counts below a half.
    #[test]
    fn evidence_lowers_information_at_the_same_mean(own in from_one(), more in 1.01..4.0f64, rollouts in 1..12usize) {
        let later = belief(own.alpha * more, own.beta * more);
        prop_assert!(later.information(rollouts) < own.information(rollouts));
    }

    #[test]
    fn at_equal_evidence_the_mean_nearest_to_a_half_tells_most(
        n in prop_oneof![0.2..4.0f64, 2.0..200.0f64], nearer in 0.02..0.48f64, further in 0.01..0.3f64, rollouts in 1..12usize,
    ) {
        let further = (nearer + further).min(0.495);
        let at = |distance: f64| belief((0.5 - distance) * n, (0.5 + distance) * n).information(rollouts);
        prop_assert!(at(nearer) > at(further), "{} and {}", at(nearer), at(further));
    }
}

#[test]
fn several_rollouts_tell_less_of_a_belief_that_one_rollout_decides() {
    // With next to no evidence, a task is almost surely solved either always or never: one rollout tells which, and
    // more add nothing.
    for rollouts in [1, 12] {
        let found = belief(1e-6, 1e-6).information(rollouts);
        assert!((found - std::f64::consts::LN_2).abs() < 1e-4, "{found} of {rollouts}");
    }
    let (decided, open) = (belief(0.05, 0.05), belief(0.5, 0.5));
    assert!(decided.information(1) > open.information(1));
    assert!(decided.information(12) < open.information(12));
    assert_close(decided.information(12), 1.0259, 1e-4, "decided");
    assert_close(open.information(12), 1.1286, 1e-4, "open");
}

#[test]
fn information_vanishes_with_evidence_and_keeps_its_digits() {
    // For n far above K: K / 2n, whatever the mean.
    for rollouts in [1, 8] {
        for (alpha, beta) in [(5e8, 5e8), (1e8, 9e8), (9e14, 1e14)] {
            let expected = 0.5 * rollouts as f64 / (alpha + beta);
            assert_close(belief(alpha, beta).information(rollouts), expected, 1e-6, "far out");
        }
    }
    assert!(belief(1e300, 1e300).information(8) < 1e-290);
    let least = belief(1e-6, 1e-6).information(64);
    assert!(least.is_finite() && least >= 0.0);
    assert!(belief(1e-6, 1e9).information(64).is_finite());
}

#[test]
fn draws_have_the_distribution_of_the_belief() {
    const DRAWS: usize = 40_000;
    for (case, found) in golden().draws.iter().enumerate() {
        let mut stream = Stream::new(case as u64);
        let own = belief(found.alpha, found.beta);
        let draws: Vec<f64> = (0..DRAWS).map(|_| own.draw(&mut stream)).collect();
        assert!(draws.iter().all(|draw| (0.0..=1.0).contains(draw)));
        for (rate, expected) in &found.cdf {
            let share = draws.iter().filter(|draw| *draw <= rate).count() as f64 / DRAWS as f64;
            // Four standard errors of a share, and never fewer than one draw.
            let allowed = 4.0 * (expected * (1.0 - expected) / DRAWS as f64).sqrt() + 1.0 / DRAWS as f64;
            assert!((share - expected).abs() < allowed, "{own:?} up to {rate}: {share} for {expected}");
        }
    }
    // Shapes so small that a gamma variate is below every double.
    let tiny = belief(1e-6, 1e-6);
    let draws: Vec<f64> = (0..1000).map(|at| tiny.draw(&mut Stream::new(at))).collect();
    assert!(draws.iter().all(|draw| (0.0..=1.0).contains(draw)), "never NaN");
    let ones = draws.iter().filter(|draw| **draw > 0.5).count();
    assert!((400..600).contains(&ones), "{ones}");
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn tracker(settings: Value) -> Beliefs {
    serde_json::from_value(settings).unwrap()
}

#[test]
fn without_forgetting_counts_are_prior_and_totals() {
    let mut own = tracker(json!({ "alpha": 2.0, "beta": 0.5 }));
    for (rollouts, successes) in [(8, 3), (0, 0), (4, 4), (6, 0)] {
        own.observe("a", rollouts, successes);
    }
    assert_eq!(own.of("a"), belief(2.0 + 7.0, 0.5 + 11.0));
    assert_eq!(own.of("b"), belief(2.0, 0.5), "nothing is known of another");
}

#[test]
fn evidence_fades_to_nothing_or_to_the_prior() {
    let mut nothing = tracker(json!({ "decay": 0.5, "fades_to": "nothing" }));
    let mut prior = tracker(json!({ "decay": 0.5, "fades_to": "prior" }));
    for own in [&mut nothing, &mut prior] {
        own.observe("a", 8, 6);
        own.observe("a", 8, 2);
    }
    assert_eq!(nothing.of("a"), belief(0.5 * 6.5 + 2.0, 0.5 * 2.5 + 6.0));
    assert_eq!(prior.of("a"), belief(0.5 * 7.0 + 0.5 + 2.0, 0.5 * 3.0 + 0.5 + 6.0));
    // Fading evidence never vanishes: a belief stays a distribution.
    (0..10_000).for_each(|_| nothing.observe("a", 8, 0));
    assert!(nothing.of("a").alpha > 0.0 && nothing.of("a").information(8).is_finite());
}

#[test]
fn a_state_is_restored_bit_for_bit_and_another_is_refused() {
    let mut own = tracker(json!({ "decay": 0.9, "alpha": 0.3 }));
    for (at, task) in ["b", "a", "c", "a"].iter().enumerate() {
        own.observe(task, 7, at);
    }
    let text = serde_json::to_string(&own.state()).unwrap();
    assert!(text.find("\"a\"") < text.find("\"b\""), "in order: {text}");
    let mut other = tracker(json!({ "decay": 0.9, "alpha": 0.3 }));
    other.restore(&serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!(other, own);
    for wrong in [
        json!(null),
        json!({}),
        json!({ "beliefs": [1] }),
        json!({ "beliefs": { "a": [1.0] } }),
        json!({ "beliefs": { "a": [1.0, -1.0] } }),
        json!({ "beliefs": { "a": [0.0, 1.0] } }),
    ] {
        let error = other.restore(&wrong).unwrap_err();
        assert_eq!(error.key, "selection", "{wrong}");
    }
    assert_eq!(other, own, "what is refused changes nothing");
}
