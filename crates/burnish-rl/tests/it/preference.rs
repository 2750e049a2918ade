//! Losses of pairs and of labelled answers: algebra, limits and extremes.

use crate::common::{Batch, Grouped, batches, is_near, metric};
use crate::trl_preference;
use burnish_rl::nll::Nll;
use burnish_rl::preference::{Baseline, Dpo, DpoLoss, GroupDpo, Ipo, Kto, Orpo, Simpo};
use burnish_rl::{Objective, Part, Totals};
use proptest::prelude::*;
use serde_json::{Value, json};

const LOSSES: [DpoLoss; 11] = [
    DpoLoss::Sigmoid,
    DpoLoss::SigmoidNorm,
    DpoLoss::Robust,
    DpoLoss::Hinge,
    DpoLoss::ExoPair,
    DpoLoss::Discopop,
    DpoLoss::NcaPair,
    DpoLoss::BcoPair,
    DpoLoss::SppoHard,
    DpoLoss::ApoZero,
    DpoLoss::ApoDown,
];

/// A pair of answers of two tokens each, whose log-ratios are `chosen` and `rejected`.
fn pair(chosen: f64, rejected: f64) -> Grouped {
    let policy = vec![-0.5, -1.5, -2.0, -0.25];
    let ratios = [0.5 * chosen, 0.5 * chosen, 0.5 * rejected, 0.5 * rejected];
    let batch = Batch {
        reference: policy.iter().zip(ratios).map(|(policy, ratio)| policy - ratio).collect(),
        proximal: policy.clone(),
        policy,
        entropy: vec![0.0; 4],
        advantage: vec![1.0, 1.0, -1.0, -1.0],
        loss_mask: vec![true; 4],
        sequences: vec![0..2, 2..4],
        directions: Vec::new(),
        batch_constants: Vec::new(),
    };
    Grouped::new(batch, 2)
}

/// The same with the answers of each pair in the other order.
fn swapped(pairs: &Grouped) -> Grouped {
    let mut batch = Batch::default();
    for pair in 0..pairs.groups.len() {
        for at in [2 * pair + 1, 2 * pair] {
            let own = pairs.batch.part(at..at + 1);
            let start = batch.policy.len();
            batch.policy.extend(own.policy);
            batch.proximal.extend(own.proximal);
            batch.reference.extend(own.reference);
            batch.entropy.extend(own.entropy);
            batch.advantage.extend(own.advantage);
            batch.loss_mask.extend(own.loss_mask);
            batch.sequences.push(start..batch.policy.len());
        }
    }
    Grouped::new(batch, 2)
}

/// With advantages that agree with the order of each pair.
fn labelled(mut pairs: Grouped) -> Grouped {
    for (at, range) in pairs.batch.sequences.clone().into_iter().enumerate() {
        pairs.batch.advantage[range].fill(if at % 2 == 0 { 0.5 } else { -2.0 });
    }
    pairs
}

/// A setting of every kind.
fn dpo(loss_type: DpoLoss) -> Dpo {
    let label_smoothing = match loss_type {
        DpoLoss::Sigmoid | DpoLoss::SigmoidNorm | DpoLoss::Robust | DpoLoss::ExoPair => 0.125,
        _ => 0.0,
    };
    Dpo { beta: 0.5, loss_type, label_smoothing, ..Dpo::default() }
}

proptest! {
    #[test]
    fn every_kind_of_dpo_has_the_derivative_of_finite_differences(batch in batches(1.0)) {
        const STEP: f64 = 1e-5;
        let pairs = Grouped::new(batch, 2);
        let sums = Ipo { length_normalised: false, ..Ipo::default() };
        let smooth = Simpo { label_smoothing: 0.2, ..Simpo::default() };
        let mut objectives: Vec<(String, Box<dyn Objective>)> =
            vec![("ipo".into(), Box::new(sums)), ("simpo".into(), Box::new(smooth))];
        for kind in LOSSES {
            objectives.push((format!("{kind:?}"), Box::new(dpo(kind))));
        }
        for (what, objective) in objectives {
            let found = pairs.evaluate(&*objective);
            for at in 0..pairs.batch.policy.len() {
                let loss = |change: f64| {
                    let mut moved = pairs.clone();
                    moved.batch.policy[at] += change;
                    moved.evaluate(&*objective).loss
                };
                let (after, before) = ((loss(STEP) - found.loss) / STEP, (found.loss - loss(-STEP)) / STEP);
                // The kink of the hinge is a test of its own.
                if is_near(after, before, 1e-2) {
                    let slope = 0.5 * (after + before);
                    prop_assert!(is_near(found.d_policy[at], slope, 1e-6), "{what}: {} for {slope}", found.d_policy[at]);
                }
            }
        }
    }

    #[test]
    fn with_beta_near_zero_dpo_has_half_of_it_as_gradient(batch in batches(1.0)) {
        let pairs = Grouped::new(batch, 2);
        let beta = 1e-9;
        let found = pairs.evaluate(&Dpo { beta, ..Dpo::default() });
        let count = pairs.groups.len() as f64;
        for (at, range) in pairs.batch.sequences.iter().enumerate() {
            let expected = if at % 2 == 0 { -0.5 } else { 0.5 };
            for at in range.clone().filter(|&at| pairs.batch.loss_mask[at]) {
                prop_assert!(is_near(found.d_policy[at] / beta * count, expected, 1e-6));
            }
        }
    }

    #[test]
    fn swapping_the_answers_adds_the_margin_to_dpo_and_turns_its_gradient(batch in batches(2.0)) {
        let pairs = Grouped::new(batch, 2);
        let dpo = Dpo { beta: 0.7, ..Dpo::default() };
        let (found, turned) = (pairs.evaluate(&dpo), swapped(&pairs).evaluate(&dpo));
        if !pairs.groups.is_empty() {
            // -log σ(-x) = -log σ(x) + x
            let margin = metric(&found, "rewards/margins");
            prop_assert!(is_near(turned.loss - found.loss, margin, 1e-9));
            prop_assert!(is_near(metric(&turned, "rewards/margins"), -margin, 1e-9));
            prop_assert_eq!(metric(&turned, "logps/chosen"), metric(&found, "logps/rejected"));
        }
        let (mut at_turned, count) = (0, pairs.groups.len() as f64);
        for pair in 0..pairs.groups.len() {
            for at in [2 * pair + 1, 2 * pair] {
                for position in pairs.batch.sequences[at].clone() {
                    // σ(-x) and σ(x) add up to 1.
                    let both = found.d_policy[position].abs() + turned.d_policy[at_turned].abs();
                    let expected = if pairs.batch.loss_mask[position] { 0.7 / count } else { 0.0 };
                    prop_assert!(is_near(both, expected, 1e-12), "{both} for {expected}");
                    prop_assert!(found.d_policy[position] * turned.d_policy[at_turned] <= 0.0);
                    at_turned += 1;
                }
            }
        }
    }

    #[test]
    fn smoothing_is_the_mean_over_what_the_label_may_be(batch in batches(2.0), smoothing in 0.0..0.49f64) {
        let pairs = Grouped::new(batch, 2);
        for loss_type in [DpoLoss::Sigmoid, DpoLoss::SigmoidNorm] {
            let sure = Dpo { loss_type, ..Dpo::default() };
            let smooth = Dpo { label_smoothing: smoothing, ..sure.clone() };
            let (as_said, otherwise) = (pairs.evaluate(&sure).loss, swapped(&pairs).evaluate(&sure).loss);
            let expected = (1.0 - smoothing) * as_said + smoothing * otherwise;
            prop_assert!(is_near(pairs.evaluate(&smooth).loss, expected, 1e-12));
            // Unbiased: the mean over labels flipped that often is the loss of the true label.
            let robust = Dpo { loss_type: DpoLoss::Robust, ..smooth };
            if loss_type == DpoLoss::Sigmoid {
                let (kept, flipped) = (pairs.evaluate(&robust).loss, swapped(&pairs).evaluate(&robust).loss);
                prop_assert!(is_near((1.0 - smoothing) * kept + smoothing * flipped, as_said, 1e-9));
            }
        }
    }

    #[test]
    fn dpo_is_its_group_form_at_one_pair_to_the_bit(batch in batches(300.0), beta in 0.01..3.0f64) {
        let pairs = labelled(Grouped::new(batch, 2).unmasked());
        let (dpo, group) = (Dpo { beta, ..Dpo::default() }, GroupDpo { beta, ..GroupDpo::default() });
        prop_assert_eq!(pairs.evaluate(&group), pairs.evaluate(&dpo));
    }

    #[test]
    fn simpo_without_a_margin_is_dpo_on_means_without_a_reference_to_the_bit(batch in batches(2.0)) {
        let pairs = Grouped::new(batch, 2);
        let dpo = Dpo { beta: 2.0, loss_type: DpoLoss::SigmoidNorm, reference_free: true, ..Dpo::default() };
        let simpo = Simpo { gamma: 0.0, ..Simpo::default() };
        let (found, expected) = (pairs.evaluate(&simpo), pairs.evaluate(&dpo));
        prop_assert_eq!(found.loss, expected.loss);
        prop_assert_eq!(found.d_policy, expected.d_policy);
        prop_assert!(!dpo.needs().reference);
    }

    #[test]
    fn a_mean_over_n_tokens_is_a_sum_with_beta_over_n(chosen in -3.0..3.0f64, rejected in -3.0..3.0f64) {
        let pair = pair(chosen, rejected);
        let mean = pair.evaluate(&Dpo { beta: 0.5, loss_type: DpoLoss::SigmoidNorm, ..Dpo::default() });
        let sum = pair.evaluate(&Dpo { beta: 0.25, ..Dpo::default() });
        prop_assert!(is_near(mean.loss, sum.loss, 1e-12));
        let mean = pair.evaluate(&Ipo { beta: 0.5, length_normalised: true });
        let sum = pair.evaluate(&Ipo { beta: 0.25, length_normalised: false });
        prop_assert!(is_near(mean.loss, sum.loss / 4.0, 1e-12));
    }

    #[test]
    fn robust_without_smoothing_is_dpo_to_the_bit(batch in batches(5.0)) {
        let pairs = Grouped::new(batch, 2);
        let robust = pairs.evaluate(&Dpo { loss_type: DpoLoss::Robust, ..Dpo::default() });
        prop_assert_eq!(robust, pairs.evaluate(&Dpo::default()));
    }

    #[test]
    fn kto_without_a_baseline_is_half_of_apo_zero_on_pairs(batch in batches(2.0)) {
        let pairs = labelled(Grouped::new(batch, 2).unmasked());
        let kto = pairs.evaluate(&Kto { baseline: Baseline::Given, ..Kto::default() });
        let dpo = pairs.evaluate(&Dpo { loss_type: DpoLoss::ApoZero, ..Dpo::default() });
        prop_assert!(is_near(2.0 * kto.loss, dpo.loss, 1e-12));
        for (kto, dpo) in kto.d_policy.iter().zip(&dpo.d_policy) {
            prop_assert!(is_near(2.0 * kto, *dpo, 1e-12), "{kto}, {dpo}");
        }
    }

    #[test]
    fn orpo_without_odds_is_the_nll_of_the_chosen_answer(batch in batches(1.0)) {
        let pairs = Grouped::new(batch, 2).unmasked();
        for pair in 0..pairs.groups.len() {
            let own = pairs.part(pair..pair + 1);
            let found = own.evaluate(&Orpo { beta: 0.0 });
            let chosen = own.batch.part(0..1);
            let nll = chosen.evaluate(&Nll);
            prop_assert!(is_near(found.loss, nll.loss, 1e-12));
            let tokens = chosen.policy.len();
            for (found, nll) in found.d_policy[..tokens].iter().zip(&nll.d_policy) {
                prop_assert!(is_near(*found, *nll, 1e-12));
            }
            prop_assert!(found.d_policy[tokens..].iter().all(|derivative| *derivative == 0.0));
            prop_assert_eq!(metric(&found, "nll_loss"), found.loss);
        }
    }
}

impl Grouped {
    fn unmasked(self) -> Self {
        Grouped { batch: self.batch.unmasked(), groups: self.groups }
    }
}

#[test]
fn ipo_is_nothing_at_its_margin_and_symmetric_about_it() {
    let ipo = Ipo { beta: 0.25, length_normalised: false };
    let at_margin = pair(1.5, -0.5).evaluate(&ipo);
    assert_eq!((at_margin.loss, at_margin.d_policy), (0.0, vec![0.0; 4]));
    let (below, above) = (pair(1.0, -0.5).evaluate(&ipo), pair(2.0, -0.5).evaluate(&ipo));
    assert_eq!(below.loss, above.loss);
    assert_eq!(below.d_policy, above.d_policy.iter().map(|derivative| -derivative).collect::<Vec<f64>>());
    // As likely as under the reference: 1/(4β²).
    assert_eq!(pair(0.0, 0.0).evaluate(&ipo).loss, 4.0);
    // With β → ∞ there is no margin, and nothing to learn there.
    let none = pair(0.0, 0.0).evaluate(&Ipo { beta: 1e300, ..ipo });
    assert!(none.loss < 1e-300 && none.d_policy.iter().all(|derivative| derivative.abs() < 1e-299));
}

#[test]
fn the_hinge_still_learns_exactly_at_its_margin() {
    let hinge = Dpo { beta: 0.5, loss_type: DpoLoss::Hinge, ..Dpo::default() };
    assert_eq!(pair(1.0, -1.0).evaluate(&hinge).d_policy, [-0.5, -0.5, 0.5, 0.5]);
    assert_eq!(pair(1.0, -1.0).evaluate(&hinge).loss, 0.0);
    assert_eq!(pair(1.25, -1.0).evaluate(&hinge).d_policy, [0.0; 4]);
}

#[test]
fn log_sigmoid_is_exact_where_it_is_almost_linear_and_where_it_almost_vanishes() {
    let plain = Dpo { beta: 1.0, ..Dpo::default() };
    // x = 700: exp(-700) has all its digits, x = -700: 700.
    let (right, wrong) = (pair(350.0, -350.0).evaluate(&plain), pair(-350.0, 350.0).evaluate(&plain));
    let tiny = (-700.0f64).exp();
    assert!(right.loss > 0.0 && (right.loss / tiny - 1.0).abs() < 1e-12, "{}", right.loss);
    assert!((right.d_policy[0] / -tiny - 1.0).abs() < 1e-12, "{}", right.d_policy[0]);
    assert_eq!((wrong.loss, wrong.d_policy), (700.0, vec![-1.0, -1.0, 1.0, 1.0]));
    let further = pair(-4e5, 4e5).evaluate(&plain);
    assert_eq!((further.loss, further.d_policy[0]), (8e5, -1.0));
    for kind in LOSSES {
        dpo(kind).check().unwrap();
        for (chosen, rejected) in [(700.0, -700.0), (-700.0, 700.0), (1e6, -1e6), (-1e6, 1e6)] {
            let found = pair(chosen, rejected).evaluate(&dpo(kind));
            assert!(found.loss.is_finite(), "{kind:?} {chosen}");
            assert!(found.d_policy.iter().all(|derivative| derivative.is_finite()), "{kind:?} {chosen}");
        }
    }
}

#[test]
fn kto_learns_from_one_kind_of_label_alone() {
    for (label, sign) in [(2.0, -1.0), (-0.1, 1.0)] {
        let mut answers = pair(0.5, 1.5);
        answers.batch.advantage.fill(label);
        let found = answers.evaluate(&Kto::default());
        assert!(found.d_policy.iter().all(|derivative| derivative * sign > 0.0), "{:?}", found.d_policy);
        assert_eq!(metric(&found, "kl"), 1.0);
        let other = if label > 0.0 { "rewards/rejected" } else { "rewards/chosen" };
        assert!(metric(&found, other).is_nan());
        // As far above the baseline as the other is below.
        assert!(is_near(found.loss, 0.5, 1e-12), "{}", found.loss);
    }
}

#[test]
fn the_baseline_of_kto_is_never_below_zero_and_is_no_part_of_the_derivative() {
    let below = pair(-3.0, -1.0).evaluate(&Kto::default());
    assert_eq!(metric(&below, "kl"), 0.0);
    let batch = pair(1.0, 3.0);
    let given = Kto { baseline: Baseline::Given, z0: 2.0, ..Kto::default() };
    assert_eq!(batch.evaluate(&Kto::default()), batch.evaluate(&given));
    assert!(Kto::default().needs().batch_constants && !given.needs().batch_constants);
}

#[test]
fn kto_takes_the_distance_on_mismatched_answers_that_it_is_given() {
    let mismatched = Kto { baseline: Baseline::Mismatched, ..Kto::default() };
    assert!(mismatched.needs().mismatched && !mismatched.needs().batch_constants);
    let batch = pair(1.0, 3.0);
    for (ratio, z0) in [(0.7, 0.7), (-0.7, 0.0)] {
        let totals = Totals { sequences: 2, mismatched_log_ratio: Some(ratio), ..Totals::default() };
        let given = Kto { baseline: Baseline::Given, z0, ..Kto::default() };
        let found = mismatched.evaluate(&batch.streams(), &totals);
        assert_eq!(found, given.evaluate(&batch.streams(), &Totals { sequences: 2, ..Totals::default() }));
        assert_eq!(metric(&found, "kl"), z0);
    }
}

#[test]
fn an_answer_without_a_label_teaches_kto_nothing_and_still_counts() {
    let kto = Kto { baseline: Baseline::Given, ..Kto::default() };
    let mut answers = pair(0.5, 1.5);
    let both = answers.evaluate(&kto);
    answers.batch.advantage[2..].fill(0.0);
    let one = answers.evaluate(&kto);
    assert_eq!(one.d_policy, [both.d_policy[0], both.d_policy[1], 0.0, 0.0]);
    assert!(one.loss > 0.0 && one.loss < both.loss);
}

#[test]
fn a_group_that_is_all_right_or_all_wrong_teaches_nothing() {
    for label in [1.0, -1.0, 0.0] {
        let mut group = pair(0.5, 1.5);
        group.batch.advantage.fill(label);
        let found = group.evaluate(&GroupDpo::default());
        assert_eq!((found.loss, found.d_policy), (0.0, vec![0.0; 4]));
    }
}

#[test]
fn a_group_weighs_as_many_sequences_as_it_has_however_many_pairs_it_makes() {
    let group = GroupDpo { beta: 0.3, ..GroupDpo::default() };
    let (four, _) = trl_preference::golden().batch("group", 4);
    let rejected = four.batch.part(0..2).sequences[1].clone();
    let both = Grouped { batch: four.batch.clone(), groups: vec![0..2, 2..4] };
    let halves = [0..2, 2..4].map(|part| Grouped::new(four.batch.part(part), 2).evaluate(&group).loss);
    assert!(is_near(both.evaluate(&group).loss, 0.5 * (halves[0] + halves[1]), 1e-12));
    // Three answers, one of them right, make two pairs; the fourth is alone and teaches nothing.
    let mut ragged = Grouped { batch: four.batch.clone(), groups: vec![0..3, 3..4] };
    let three = Grouped { batch: four.batch.part(0..3), groups: vec![0..3, 3..3] };
    assert!(is_near(ragged.evaluate(&group).loss, 0.75 * three.evaluate(&group).loss, 1e-12));
    assert!(ragged.evaluate(&group).d_policy[rejected.clone()].iter().any(|derivative| *derivative != 0.0));
    ragged.batch.advantage[rejected].fill(0.0);
    assert_eq!(ragged.evaluate(&group).loss, 0.0);
}

#[test]
fn the_order_of_a_group_is_nothing_its_labels_are() {
    let group = pair(0.5, 1.5);
    let (found, turned) =
        (group.evaluate(&GroupDpo::default()), swapped(&group).evaluate(&GroupDpo::default()));
    assert_eq!(found.loss, turned.loss);
    assert_eq!(found.d_policy, [&turned.d_policy[2..], &turned.d_policy[..2]].concat());
}

#[test]
fn orpo_is_finite_for_an_answer_that_is_certain_and_skips_an_empty_one() {
    let mut certain = pair(0.0, 0.0);
    certain.batch.policy = vec![0.0, 0.0, -1.0, -2.0];
    for pairs in [certain.clone(), swapped(&certain)] {
        let found = pairs.evaluate(&Orpo::default());
        assert!(found.loss.is_finite() && found.d_policy.iter().all(|derivative| derivative.is_finite()));
    }
    // -m_w - β·log σ(x): the first term is 0, and x is about log(1/ε).
    let found = certain.evaluate(&Orpo::default());
    assert!(found.loss > 0.0 && found.loss < 1e-15, "{}", found.loss);
    let mut empty = pair(0.5, 1.5);
    empty.batch.loss_mask[2..].fill(false);
    let found = empty.evaluate(&Orpo::default());
    assert_eq!((found.loss, found.d_policy), (0.0, vec![0.0; 4]));
}

#[test]
#[should_panic(expected = "a pair is a group of two sequences")]
fn a_group_that_is_no_pair_is_no_input() {
    let group = trl_preference::golden().batch("group", 4).0;
    Dpo::default().evaluate(&group.streams(), &Totals { sequences: 4, ..Totals::default() });
}

#[test]
fn settings_out_of_range_are_refused_by_key() {
    let dpo = |given: Value| serde_json::from_value::<Dpo>(given).unwrap().check();
    let kto = |given: Value| serde_json::from_value::<Kto>(given).unwrap().check();
    let simpo = |given: Value| serde_json::from_value::<Simpo>(given).unwrap().check();
    for (refused, message) in [
        (dpo(json!({ "beta": 0.0 })), "beta: must be above 0, not 0"),
        (dpo(json!({ "label_smoothing": 0.5 })), "label_smoothing: must be 0 to below 0.5, not 0.5"),
        (dpo(json!({ "loss_type": "hinge", "label_smoothing": 0.1 })), "label_smoothing: must be 0: this"),
        (dpo(json!({ "loss_type": "exo_pair" })), "label_smoothing: must be above 0 with"),
        (dpo(json!({ "discopop_tau": 2.0 })), "discopop_tau: must be above 0 and at most 1, not 2"),
        (kto(json!({ "z0": 1.0 })), "z0: must be left out unless"),
        (kto(json!({ "z0": -1.0, "baseline": "given" })), "z0: must be 0 or more, not -1"),
        (kto(json!({ "desirable_weight": -1.0 })), "desirable_weight: must be 0 or more"),
        (simpo(json!({ "gamma": -0.5 })), "gamma: must be 0 or more, not -0.5"),
        (Ipo { beta: -1.0, ..Ipo::default() }.check(), "beta: must be above 0, not -1"),
        (Orpo { beta: -1.0 }.check(), "beta: must be 0 or more, not -1"),
        (GroupDpo { beta: 0.0, ..GroupDpo::default() }.check(), "beta: must be above 0, not 0"),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}
