//! The groupwise loss with a direction: its oracle, its limits, and how its sets affect each other.

use crate::common::{Batch, Grouped, batches, is_near, metric};
use burnish_rl::preference::{Dgpo, Dpo, Score, Simpo};
use burnish_rl::{Evaluation, Objective, Part};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    batches: BTreeMap<String, Vec<Vec<Member>>>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    direction: u8,
    advantage: f64,
    policy: Vec<f64>,
    reference: Vec<f64>,
    mask: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    batch: String,
    settings: Value,
    loss: f64,
    d_policy: Vec<f64>,
}

fn grouped(items: &[Vec<Member>]) -> Grouped {
    let mut all = Grouped { batch: Batch::default(), groups: Vec::new() };
    for members in items {
        let first = all.batch.sequences.len();
        for member in members {
            let batch = &mut all.batch;
            let start = batch.policy.len();
            batch.policy.extend(&member.policy);
            batch.proximal.extend(&member.policy);
            batch.reference.extend(&member.reference);
            batch.entropy.extend(member.policy.iter().map(|_| 0.5));
            batch.advantage.extend(member.policy.iter().map(|_| member.advantage));
            batch.loss_mask.extend(member.mask.iter().map(|kept| *kept == 1));
            batch.sequences.push(start..batch.policy.len());
            batch.directions.push(member.direction);
        }
        all.groups.push(first..all.batch.sequences.len());
    }
    all
}

#[test]
fn loss_and_gradient_are_those_of_numpy() {
    let golden: Golden = serde_json::from_str(include_str!("../golden/dgpo.json")).unwrap();
    for case in &golden.cases {
        let dgpo: Dgpo = serde_json::from_value(case.settings.clone()).unwrap();
        let found = grouped(&golden.batches[&case.batch]).evaluate(&dgpo);
        let what = format!("{} {}", case.batch, case.settings);
        assert!(is_near(found.loss, case.loss, 1e-12), "{what}: {} for {}", found.loss, case.loss);
        assert_eq!(found.d_policy.len(), case.d_policy.len());
        for (found, expected) in found.d_policy.iter().zip(&case.d_policy) {
            assert!(is_near(*found, *expected, 1e-12), "{what}: {found} for {expected}");
        }
    }
    assert_eq!(golden.cases.len(), 28);
}

/// The comparison alone.
fn bare() -> Dgpo {
    Dgpo { variance_coef: 0.0, nll_coef: 0.0, ..Dgpo::default() }
}

/// One item of all sequences, in the given directions.
fn item(mut batch: Batch, directions: &[u8]) -> Grouped {
    batch.directions = directions.iter().copied().cycle().take(batch.sequences.len()).collect();
    let whole = 0..batch.sequences.len();
    Grouped { batch, groups: vec![whole] }
}

/// Pairs of which the first is better, with all tokens in the loss.
fn pairs(batch: Batch) -> Grouped {
    let mut pairs = Grouped::new(batch.unmasked(), 2);
    for (at, range) in pairs.batch.sequences.clone().into_iter().enumerate() {
        pairs.batch.advantage[range].fill(if at % 2 == 0 { 0.5 } else { -2.0 });
    }
    pairs
}

/// The derivative with respect to the score of each sequence, for scores that are means.
fn d_scores(item: &Grouped, found: &Evaluation) -> Vec<f64> {
    item.batch.sequences.iter().map(|range| found.d_policy[range.clone()].iter().sum()).collect()
}

fn settings() -> Vec<Dgpo> {
    let ratio =
        Dgpo { score: Score::LogRatio, beta: 0.7, temperature: 0.8, mixed_weight: 0.4, ..Dgpo::default() };
    vec![Dgpo::default(), bare(), Dgpo { variance_coef: 3.0, ..Dgpo::default() }, ratio]
}

proptest! {
    #[test]
    fn one_against_one_is_simpo_and_with_log_ratios_dpo(batch in batches(2.0), tau in 0.2..2.0f64, m in 0.0..1.0f64) {
        let pairs = pairs(batch);
        let (found, simpo) = (pairs.evaluate(&bare()), pairs.evaluate(&Simpo::default()));
        prop_assert_eq!((found.loss, found.d_policy), (simpo.loss, simpo.d_policy), "to the bit");
        let (dgpo, simpo) = (
            Dgpo { temperature: tau, margin: m, ..bare() },
            Simpo { beta: 1.0 / tau, gamma: m / tau, ..Simpo::default() },
        );
        let (found, expected) = (pairs.evaluate(&dgpo), pairs.evaluate(&simpo));
        prop_assert!(is_near(found.loss, expected.loss, 1e-12));
        for (found, expected) in found.d_policy.iter().zip(&expected.d_policy) {
            prop_assert!(is_near(*found, *expected, 1e-12));
        }
        let dgpo = Dgpo { score: Score::LogRatio, beta: 0.5, temperature: 1.0, margin: 0.0, ..bare() };
        let (found, expected) = (pairs.evaluate(&dgpo), pairs.evaluate(&Dpo { beta: 0.5, ..Dpo::default() }));
        prop_assert_eq!((found.loss, &found.d_policy), (expected.loss, &expected.d_policy), "to the bit");
        for name in ["rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected"] {
            let (found, expected) = (metric(&found, name), metric(&expected, name));
            prop_assert!(found.is_nan() == expected.is_nan());
            prop_assert!(expected.is_nan() || is_near(found, expected, 1e-12), "{name}: {found} for {expected}");
        }
        prop_assert!(dgpo.needs().reference && !bare().needs().reference);
    }

    #[test]
    fn derivatives_are_those_of_finite_differences_in_both_directions(batch in batches(1.0)) {
        const STEP: f64 = 1e-5;
        let item = item(batch, &[0, 1, 1]);
        for dgpo in settings() {
            let found = item.evaluate(&dgpo);
            for at in 0..item.batch.policy.len() {
                let loss = |change: f64| {
                    let mut moved = item.clone();
                    moved.batch.policy[at] += change;
                    moved.evaluate(&dgpo).loss
                };
                let slope = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
                prop_assert!(is_near(found.d_policy[at], slope, 1e-7), "{} for {slope}", found.d_policy[at]);
            }
        }
    }

    #[test]
    fn the_comparison_raises_positives_lowers_negatives_and_moves_nothing_on_the_whole(batch in batches(2.0)) {
        let item = item(batch, &[0, 1]);
        let found = item.evaluate(&bare());
        let mut sum = 0.0;
        for (range, d_score) in item.batch.sequences.iter().zip(d_scores(&item, &found)) {
            let advantage = item.batch.advantage[range.start];
            prop_assert!(d_score * advantage <= 0.0, "{d_score} for {advantage}");
            prop_assert!(advantage != 0.0 || d_score == 0.0);
            sum += d_score;
        }
        prop_assert!(sum.abs() < 1e-12, "{sum}");
    }

    #[test]
    fn the_order_of_an_item_is_nothing(batch in batches(2.0), turn in 1usize..6) {
        let item = item(batch, &[0, 1, 1, 0]);
        let count = item.batch.sequences.len();
        let order: Vec<usize> = (0..count).map(|at| (at + turn) % count).collect();
        let mut turned = Grouped { batch: Batch::default(), groups: item.groups.clone() };
        for &at in &order {
            let (one, all) = (item.batch.part(at..at + 1), &mut turned.batch);
            let start = all.policy.len();
            all.policy.extend(one.policy);
            all.proximal.extend(one.proximal);
            all.reference.extend(one.reference);
            all.entropy.extend(one.entropy);
            all.advantage.extend(one.advantage);
            all.loss_mask.extend(one.loss_mask);
            all.directions.extend(one.directions);
            all.sequences.push(start..all.policy.len());
        }
        for dgpo in settings() {
            let (found, expected) = (turned.evaluate(&dgpo), item.evaluate(&dgpo));
            prop_assert!(is_near(found.loss, expected.loss, 1e-12));
            for (own, at) in turned.batch.sequences.iter().zip(&order) {
                let theirs = &expected.d_policy[item.batch.sequences[*at].clone()];
                for (found, expected) in found.d_policy[own.clone()].iter().zip(theirs) {
                    prop_assert!(is_near(*found, *expected, 1e-12));
                }
            }
        }
    }

    #[test]
    fn which_direction_is_called_forward_is_nothing(batch in batches(2.0)) {
        let (item, turned) = (item(batch.clone(), &[0, 1, 1]), item(batch, &[1, 0, 0]));
        for dgpo in settings() {
            let (found, expected) = (turned.evaluate(&dgpo), item.evaluate(&dgpo));
            prop_assert!(is_near(found.loss, expected.loss, 1e-14));
            for (found, expected) in found.d_policy.iter().zip(&expected.d_policy) {
                prop_assert!(is_near(*found, *expected, 1e-14));
            }
        }
    }

    #[test]
    fn the_loss_increases_with_the_margin(batch in batches(2.0), m in 0.0..2.0f64) {
        let item = item(batch, &[0, 1]);
        let loss = |margin: f64| item.evaluate(&Dgpo { margin, ..bare() });
        let (less, more) = (loss(m), loss(m + 0.1));
        let is_opposed = metric(&less, "dgpo/opposed") == 1.0;
        let holds = if is_opposed { more.loss > less.loss } else { more.loss == 0.0 && less.loss == 0.0 };
        prop_assert!(holds);
    }

    #[test]
    fn a_direction_is_a_set_of_its_own_and_all_are_the_third(batch in batches(2.0), w in 0.0..4.0f64) {
        let dgpo = Dgpo { mixed_weight: w, ..bare() };
        let item = item(batch, &[0, 1]);
        let count = item.batch.sequences.len();
        // The others of a set have an advantage of 0, and all are of one direction.
        let g = |direction: Option<u8>| {
            let mut set = item.clone();
            for at in (0..count).filter(|at| direction.is_some_and(|own| own != item.batch.directions[*at])) {
                set.batch.advantage[item.batch.sequences[at].clone()].fill(0.0);
            }
            set.batch.directions.clear();
            set.evaluate(&dgpo).loss
        };
        let expected =
            if count > 1 { (g(Some(0)) + g(Some(1)) + w * g(None)) / (2.0 + w) } else { g(None) };
        prop_assert!(is_near(item.evaluate(&dgpo).loss, expected, 1e-12));
    }

    #[test]
    fn however_far_from_the_reference_every_number_is_finite(batch in batches(300.0), far in -1e6..1e6f64) {
        let mut item = item(batch, &[0, 1]);
        let half = item.batch.reference.len() / 2;
        item.batch.reference[..half].iter_mut().for_each(|reference| *reference += far);
        for dgpo in settings() {
            let found = item.evaluate(&dgpo);
            prop_assert!(found.loss.is_finite());
            prop_assert!(found.d_policy.iter().all(|derivative| derivative.is_finite()));
            prop_assert!(found.metrics.iter().all(|metric| metric.sum.is_finite()));
        }
    }
}

/// Answers of one token each.
fn answers(members: &[(f64, f64, u8)]) -> Grouped {
    let member = |&(advantage, logp, direction): &(f64, f64, u8)| Member {
        direction,
        advantage,
        policy: vec![logp],
        reference: vec![logp],
        mask: vec![1],
    };
    grouped(&[members.iter().map(member).collect()])
}

#[test]
fn a_negative_that_is_never_said_changes_nothing() {
    let mut members = vec![(1.0, -0.5, 0), (1.0, -2.0, 1), (-1.0, -1.0, 0), (-1.0, -0.25, 1)];
    let before = answers(&members).evaluate(&Dgpo::default());
    members.push((-1.0, -1e200, 0));
    let found = answers(&members).evaluate(&Dgpo::default());
    assert_eq!(found.loss, before.loss);
    assert_eq!(found.d_policy, [&before.d_policy[..], &[0.0]].concat());
}

#[test]
fn the_variance_is_0_exactly_where_the_positives_are_equally_likely() {
    let variance = |scores: [f64; 3]| {
        let members: Vec<_> =
            scores.map(|score| (1.0, score, 0)).into_iter().chain([(-1.0, -1.0, 0)]).collect();
        let (with, without) = (Dgpo { variance_coef: 2.0, ..bare() }, bare());
        let added = answers(&members).evaluate(&with).loss - answers(&members).evaluate(&without).loss;
        let reported = metric(&answers(&members).evaluate(&with), "dgpo/variance");
        assert!(is_near(added, 2.0 * reported, 1e-12));
        reported
    };
    assert_eq!(variance([-0.5; 3]), 0.0);
    assert!(is_near(variance([-1.0, -2.0, -3.0]), 2.0 / 3.0, 1e-15));
    assert!(variance([-0.5, -0.5, -0.5001]) > 0.0);
    // The variance term draws the positives together, and so may lower the likelier one; the comparison alone does not.
    let two = answers(&[(1.0, -0.1, 0), (1.0, -5.0, 0), (-1.0, -9.0, 0)]);
    let d_policy = |variance_coef| two.evaluate(&Dgpo { variance_coef, ..bare() }).d_policy;
    assert!(d_policy(1.0)[0] > 0.0 && d_policy(0.0)[0] < 0.0);
}

#[test]
fn an_item_with_one_side_has_its_likelihood_alone_or_nothing() {
    let right = answers(&[(1.0, -0.5, 0), (2.0, -1.5, 1)]);
    let dgpo = Dgpo { nll_coef: 0.3, variance_coef: 9.0, ..Dgpo::default() };
    let found = right.evaluate(&dgpo);
    assert!(is_near(found.loss, 0.3, 1e-15));
    assert_eq!(found.d_policy, [-0.15, -0.15]);
    let dropped = right.evaluate(&Dgpo { nll_of_unopposed: false, ..dgpo.clone() });
    assert_eq!((dropped.loss, dropped.d_policy), (0.0, vec![0.0; 2]));
    let wrong = answers(&[(-1.0, -0.5, 0), (-2.0, -1.5, 1), (0.0, -0.1, 0)]).evaluate(&dgpo);
    assert_eq!((wrong.loss, &wrong.d_policy), (0.0, &vec![0.0; 3]));
    assert_eq!((metric(&found, "dgpo/opposed"), metric(&wrong, "dgpo/opposed")), (0.0, 0.0));
    // Right one way and wrong the other: only the mixed set compares them.
    let across = answers(&[(1.0, -0.5, 0), (-1.0, -1.5, 1)]);
    let one_way = answers(&[(1.0, -0.5, 0), (-1.0, -1.5, 0)]);
    assert!(is_near(across.evaluate(&bare()).loss, one_way.evaluate(&bare()).loss / 3.0, 1e-15));
}

#[test]
fn where_items_are_cut_into_micro_batches_never_changes_a_gradient() {
    let golden: Golden = serde_json::from_str(include_str!("../golden/dgpo.json")).unwrap();
    let pairs = grouped(&golden.batches["pairs"]);
    let totals = pairs.batch.totals();
    let whole = pairs.evaluate(&Dgpo::default());
    for cut in 0..=pairs.groups.len() {
        let parts = [0..cut, cut..pairs.groups.len()]
            .map(|groups| Dgpo::default().evaluate(&pairs.part(groups).streams(), &totals));
        assert!(is_near(parts[0].loss + parts[1].loss, whole.loss, 1e-12));
        assert_eq!([&parts[0].d_policy[..], &parts[1].d_policy[..]].concat(), whole.d_policy);
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    assert!(Dgpo::default().check().is_ok());
    for (key, dgpo) in [
        ("temperature", Dgpo { temperature: 0.0, ..Dgpo::default() }),
        ("beta", Dgpo { beta: 0.0, ..Dgpo::default() }),
        ("margin", Dgpo { margin: -0.1, ..Dgpo::default() }),
        ("variance_coef", Dgpo { variance_coef: f64::NAN, ..Dgpo::default() }),
        ("nll_coef", Dgpo { nll_coef: -1.0, ..Dgpo::default() }),
        ("mixed_weight", Dgpo { mixed_weight: -1.0, ..Dgpo::default() }),
    ] {
        assert_eq!(dgpo.check().unwrap_err().key, key);
    }
}
