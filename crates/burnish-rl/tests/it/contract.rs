//! What holds of every part of the catalogue, before its author writes a test.

use crate::common::{Batch, Columns, Grouped, batches, is_near, loss, rollouts};
use crate::distillation::{VOCABULARY, log_softmax, logits};
use burnish_rl::advantage::{Advantage, Rollout, Rollouts};
use burnish_rl::aggregation::Aggregation;
use burnish_rl::catalogue::{
    self, ADVANTAGES, DISTILLATIONS, GATES, OBJECTIVES, PREFERENCES, REPLAYS, REWARD_MODELS, SELECTORS,
};
use burnish_rl::distillation::Teacher;
use burnish_rl::fact::WINS;
use burnish_rl::{Family, LossConfig, Objective, PolicyLoss, SettingError};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn objectives() -> impl Iterator<Item = (&'static str, PolicyLoss)> {
    OBJECTIVES.iter().flat_map(|entry| {
        let plain = LossConfig { objective: entry.card.id.into(), ..LossConfig::default() };
        let with_bonus =
            LossConfig { entropy_coef: ENTROPY_COEF, aggregation: Aggregation::Dapo, ..plain.clone() };
        let [grpo, dapo] = [Aggregation::Grpo, Aggregation::Dapo]
            .map(|aggregation| LossConfig { aggregation, ..plain.clone() });
        [grpo, dapo, with_bonus].map(|config| (entry.card.id, loss(config)))
    })
}

/// Objectives on whole sequences, which see pairs.
#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn whole_losses() -> impl Iterator<Item = (&'static str, Box<dyn Objective>)> {
    let entries = PREFERENCES.iter().chain(REWARD_MODELS).chain(DISTILLATIONS);
    entries.map(|entry| (entry.card.id, (entry.build)(&Value::Null).unwrap()))
}

const ENTROPY_COEF: f64 = 0.3;

proptest! {
    #[test]
    fn derivatives_are_those_of_finite_differences(batch in batches(1.0)) {
        for entry in OBJECTIVES {
            let part = (entry.build)(&Value::Null).unwrap();
            let checked = Columns::of(&batch, &*part).check_derivatives(&*part);
            prop_assert!(checked.is_ok(), "{}: {checked:?}", entry.card.id);
        }
    }

    #[test]
    fn the_derivative_by_the_entropy_is_that_of_finite_differences_of_the_bonus(batch in batches(1.0)) {
        const STEP: f64 = 1e-3;
        for entry in OBJECTIVES {
            let of = |entropy_coef| LossConfig { objective: entry.card.id.into(), entropy_coef, ..LossConfig::default() };
            let (with, without) = (loss(of(ENTROPY_COEF)), loss(of(0.0)));
            // What an objective does with the entropy itself is a constant of the derivative.
            let bonus = |batch: &Batch| batch.evaluate_marked(&with).loss - batch.evaluate_marked(&without).loss;
            let batch = batch.marked(&with);
            let found = batch.evaluate_marked(&with).d_entropy;
            prop_assert!(batch.evaluate_marked(&without).d_entropy.iter().all(|derivative| *derivative == 0.0));
            for (at, found) in found.into_iter().enumerate() {
                let mut surer = batch.clone();
                surer.entropy[at] -= STEP;
                let slope = (bonus(&batch) - bonus(&surer)) / STEP;
                prop_assert!(is_near(found, slope, 1e-9), "{}: {found} for {slope}", entry.card.id);
                prop_assert_eq!(found < 0.0, batch.loss_mask[at], "{}", entry.card.id);
            }
        }
    }

    #[test]
    fn whoever_does_not_need_entropies_has_the_same_derivative_without_them(batch in batches(1.0)) {
        let unknown = Batch { entropy: vec![0.0; batch.entropy.len()], ..batch.clone() };
        for entry in OBJECTIVES {
            let loss = loss(LossConfig { objective: entry.card.id.into(), beta: 0.1, ..LossConfig::default() });
            if !loss.needs().entropies {
                let of = |batch: &Batch| batch.evaluate_marked(&loss).d_policy;
                prop_assert_eq!(of(&batch), of(&unknown), "{}", entry.card.id);
            }
        }
    }

    #[test]
    fn masked_tokens_never_change_a_value(batch in batches(20.0)) {
        for (id, objective) in objectives() {
            let mut spoiled = batch.clone();
            for at in (0..batch.policy.len()).filter(|&at| !batch.loss_mask[at]) {
                let Batch { policy, proximal, reference, entropy, advantage, .. } = &mut spoiled;
                for stream in [policy, proximal, reference, entropy, advantage] {
                    stream[at] = f64::NAN;
                }
            }
            let found = batch.evaluate(&objective);
            prop_assert_eq!(&spoiled.evaluate(&objective), &found, "{}", id);
            for at in (0..batch.policy.len()).filter(|&at| !batch.loss_mask[at]) {
                prop_assert_eq!((found.d_policy[at], found.d_entropy[at]), (0.0, 0.0), "{}", id);
            }
        }
    }

    #[test]
    fn the_size_of_micro_batches_never_changes_a_gradient(batch in batches(2.0), cut in 0usize..7) {
        let cut = cut.min(batch.sequences.len());
        let totals = batch.totals();
        for (id, objective) in objectives() {
            let batch = batch.marked(&objective);
            let whole = batch.evaluate_marked(&objective);
            let parts = [0..cut, cut..batch.sequences.len()].map(|sequences| {
                burnish_rl::Objective::evaluate(&objective, &batch.part(sequences).streams(), &totals)
            });
            prop_assert!(is_near(parts[0].loss + parts[1].loss, whole.loss, 1e-9), "{id}");
            prop_assert_eq!([&parts[0].d_policy[..], &parts[1].d_policy[..]].concat(), whole.d_policy, "{}", id);
            prop_assert_eq!([&parts[0].d_entropy[..], &parts[1].d_entropy[..]].concat(), whole.d_entropy, "{}", id);
        }
    }

    #[test]
    fn however_far_the_policy_has_moved_every_number_is_finite(batch in batches(300.0)) {
        for (id, objective) in objectives() {
            let found = batch.evaluate(&objective);
            prop_assert!(found.loss.is_finite(), "{id}: {}", found.loss);
            prop_assert!(found.d_policy.iter().all(|derivative| derivative.is_finite()), "{id}");
        }
    }

    #[test]
    fn derivatives_of_losses_of_pairs_are_those_of_finite_differences(batch in batches(1.0)) {
        const STEP: f64 = 1e-5;
        for (id, objective) in whole_losses() {
            let pairs = Grouped::new(batch.clone(), 2).marked(&*objective);
            let found = pairs.evaluate_marked(&*objective);
            for at in 0..pairs.batch.policy.len() {
                let loss = |change: f64| {
                    let mut moved = pairs.clone();
                    moved.batch.policy[at] += change;
                    moved.evaluate_marked(&*objective).loss
                };
                let slope = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
                // ORPO's curvature grows without bound as an answer becomes certain.
                let is_steep = id == "orpo" && pairs.batch.policy.iter().any(|policy| *policy > -0.02);
                let found = found.d_policy[at];
                prop_assert!(is_steep || is_near(found, slope, 1e-6), "{id}: {found} for {slope}");
            }
        }
    }

    #[test]
    fn masked_tokens_never_change_a_loss_of_pairs(batch in batches(20.0)) {
        for (id, objective) in whole_losses() {
            let pairs = Grouped::new(batch.clone(), 2);
            let masked: Vec<usize> =
                (0..pairs.batch.policy.len()).filter(|&at| !pairs.batch.loss_mask[at]).collect();
            let mut spoiled = pairs.clone();
            let Batch { policy, proximal, reference, entropy, advantage, .. } = &mut spoiled.batch;
            for stream in [policy, proximal, reference, entropy, advantage] {
                masked.iter().for_each(|&at| stream[at] = f64::NAN);
            }
            let found = pairs.evaluate(&*objective);
            prop_assert_eq!(&spoiled.evaluate(&*objective), &found, "{}", id);
            prop_assert!(masked.iter().all(|&at| found.d_policy[at] == 0.0), "{id}");
            let head_weight = |at: usize| found.head_weights.get(at).copied().unwrap_or_default();
            prop_assert!(masked.iter().all(|&at| head_weight(at) == 0.0), "{id}");
        }
    }

    #[test]
    fn where_pairs_are_cut_into_micro_batches_never_changes_a_gradient(batch in batches(2.0), cut in 0usize..4) {
        for (id, objective) in whole_losses() {
            let pairs = Grouped::new(batch.clone(), 2).marked(&*objective);
            let totals = pairs.batch.totals();
            let whole = pairs.evaluate_marked(&*objective);
            let cut = cut.min(pairs.groups.len());
            let parts = [0..cut, cut..pairs.groups.len()]
                .map(|groups| objective.evaluate(&pairs.part(groups).streams(), &totals));
            prop_assert!(is_near(parts[0].loss + parts[1].loss, whole.loss, 1e-9), "{id}");
            prop_assert_eq!([&parts[0].d_policy[..], &parts[1].d_policy[..]].concat(), whole.d_policy, "{}", id);
            let head_weights = [&parts[0].head_weights[..], &parts[1].head_weights[..]].concat();
            prop_assert_eq!(head_weights, whole.head_weights, "{}", id);
            for metric in &whole.metrics {
                let own = parts.iter().flat_map(|part| &part.metrics).filter(|own| own.name == metric.name);
                let (sum, weight) = own.fold((0.0, 0.0), |(sum, weight), own| (sum + own.sum, weight + own.weight));
                prop_assert!(is_near(sum, metric.sum, 1e-9), "{id}: {}", metric.name);
                prop_assert!(is_near(weight, metric.weight, 1e-9), "{id}: {}", metric.name);
            }
        }
    }

    #[test]
    fn however_far_the_policy_is_from_the_reference_losses_of_pairs_are_finite(
        batch in batches(300.0),
        far in prop::collection::vec(prop::sample::select(vec![-700.0, -300.0, 0.0, 300.0, 700.0]), 60),
    ) {
        for (id, objective) in whole_losses() {
            let mut pairs = Grouped::new(batch.clone(), 2);
            for (reference, far) in pairs.batch.reference.iter_mut().zip(&far) {
                *reference += far;
            }
            let found = pairs.evaluate(&*objective);
            prop_assert!(found.loss.is_finite(), "{id}: {}", found.loss);
            prop_assert!(found.d_policy.iter().all(|derivative| derivative.is_finite()), "{id}");
            prop_assert!(found.metrics.iter().all(|metric| metric.sum.is_finite()), "{id}");
        }
    }

    #[test]
    fn derivatives_of_head_losses_are_those_of_finite_differences_however_they_are_computed(
        student in logits(),
        teacher in logits(),
    ) {
        const STEP: f64 = 1e-5;
        let logprobs = log_softmax(&teacher);
        let mut ids: Vec<u32> = (0..VOCABULARY as u32).collect();
        ids.sort_by(|a, b| logprobs[*b as usize].total_cmp(&logprobs[*a as usize]));
        for (id, objective) in whole_losses() {
            let Some(head) = objective.head() else {
                prop_assert_eq!(objective.needs().head, None, "{}", id);
                continue;
            };
            prop_assert!(objective.needs().head.is_some(), "{id}");
            for top in 1..=VOCABULARY {
                let ids = &ids[..top];
                let known: Vec<f64> = ids.iter().map(|id| logprobs[*id as usize]).collect();
                let sparse = Teacher::Sparse { ids, logprobs: &known };
                for target in [Teacher::Dense(&teacher), sparse] {
                    let found = head.evaluate_row(&student, target).d_logits;
                    for at in 0..student.len() {
                        let value = |change: f64| {
                            let mut moved = student.clone();
                            moved[at] += change;
                            head.evaluate_row(&moved, target).value
                        };
                        let slope = (value(STEP) - value(-STEP)) / (2.0 * STEP);
                        prop_assert!(is_near(found[at], slope, 1e-7), "{id}: {} for {slope}", found[at]);
                    }
                }
                // What a trainer computes in place of it.
                let Some(labels) = head.soft_labels(&known) else { continue };
                let (expected, own) = (head.evaluate_row(&student, sparse), log_softmax(&student));
                let mass: f64 = labels.iter().sum();
                let mut d_logits: Vec<f64> = own.iter().map(|log| mass * log.exp()).collect();
                let mut value = 0.0;
                for (id, p) in ids.iter().zip(&labels) {
                    value += p * (p.ln() - own[*id as usize]);
                    d_logits[*id as usize] -= p;
                }
                prop_assert!(is_near(value, expected.value, 1e-12), "{id}");
                for (found, expected) in d_logits.iter().zip(&expected.d_logits) {
                    prop_assert!(is_near(*found, *expected, 1e-12), "{id}");
                }
            }
        }
    }

    #[test]
    fn permuting_the_rollouts_of_a_group_permutes_their_advantages(
        all in rollouts(4),
        order in Just([0, 1, 2, 3]).prop_shuffle(),
    ) {
        let groups: Vec<_> = (0..all.len() / 4).map(|group| group * 4..group * 4 + 4).collect();
        let permuted: Vec<Rollout> = all.chunks(4).flat_map(|group| order.map(|from| {
            // Who wins against whom moves with the rollouts.
            let wins: Vec<f64> = order.iter().map(|at| group[from].facts.of(&WINS)[*at]).collect();
            group[from].clone().with(&WINS, wins)
        })).collect();
        for entry in ADVANTAGES {
            let estimator = (entry.build)(&Value::Null).unwrap();
            let found = estimator.advantages(&Rollouts { all: &permuted, groups: &groups });
            let before = estimator.advantages(&Rollouts { all: &all, groups: &groups });
            let expected: Vec<_> = before.chunks(4).flat_map(|group| order.map(|from| group[from].clone())).collect();
            prop_assert_eq!(&found, &expected, "{}", entry.card.id);
        }
    }

    #[test]
    fn exactly_the_scored_rollouts_have_an_advantage_and_it_is_finite(all in rollouts(4)) {
        let groups: Vec<_> = (0..all.len() / 4).map(|group| group * 4..group * 4 + 4).collect();
        for entry in ADVANTAGES {
            let estimator = (entry.build)(&Value::Null).unwrap();
            let found = estimator.advantages(&Rollouts { all: &all, groups: &groups });
            prop_assert_eq!(found.len(), all.len(), "{}", entry.card.id);
            for (advantage, rollout) in found.iter().zip(&all) {
                let (values, count) = match advantage {
                    None => {
                        prop_assert_eq!(rollout.reward, None, "{}", entry.card.id);
                        continue;
                    }
                    Some(Advantage::Whole(value)) => (vec![*value], 1),
                    Some(Advantage::Steps(values)) => (values.clone(), rollout.turns.len()),
                    Some(Advantage::Tokens(values)) => (values.clone(), rollout.tokens),
                };
                prop_assert!(rollout.reward.is_some(), "{}", entry.card.id);
                prop_assert_eq!(values.len(), count, "{}", entry.card.id);
                prop_assert!(values.iter().all(|value| value.is_finite()), "{}: {values:?}", entry.card.id);
            }
        }
    }
}

#[test]
fn settings_read_back_as_they_are_written() {
    type Complete = fn(&Value) -> Result<Value, SettingError>;
    let complete: Vec<(&str, Complete)> = ADVANTAGES
        .iter()
        .map(|entry| (entry.card.id, entry.complete))
        .chain(OBJECTIVES.iter().map(|entry| (entry.card.id, entry.complete)))
        .chain(
            PREFERENCES
                .iter()
                .chain(REWARD_MODELS)
                .chain(DISTILLATIONS)
                .map(|entry| (entry.card.id, entry.complete)),
        )
        .chain(SELECTORS.iter().map(|entry| (entry.card.id, entry.complete)))
        .chain(GATES.iter().map(|entry| (entry.card.id, entry.complete)))
        .chain(REPLAYS.iter().map(|entry| (entry.card.id, entry.complete)))
        .collect();
    for (id, complete) in complete {
        let defaults = complete(&Value::Null).unwrap();
        assert_eq!(complete(&defaults).unwrap(), defaults, "{id}");
        assert!(complete(&serde_json::json!({ "no_such_key": 1 })).is_err(), "{id}");
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn a_part_is_one_file_of_its_name_with_a_head_of_fixed_form() {
    for card in catalogue::cards() {
        let source = std::fs::read_to_string(repository().join(card.file)).unwrap();
        assert_eq!(Path::new(card.file).file_stem().unwrap(), card.id, "{}", card.file);
        for section in
            ["**What it does.**", "**Formula.**", "**Reduces to.**", "**Differs", "**References.**"]
        {
            assert!(source.contains(&format!("//! {section}")), "{}: no {section}", card.file);
        }
        assert_eq!(source.contains("//! **Reconstructed.**"), card.reconstructed.is_some(), "{}", card.file);
    }
}

#[test]
fn every_file_of_a_family_stands_in_the_catalogue_once() {
    let listed: Vec<&str> = catalogue::cards().iter().map(|card| card.file).collect();
    let unique: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(unique.len(), listed.len());
    let ids: BTreeSet<(Family, &str)> =
        catalogue::cards().iter().map(|card| (card.family, card.id)).collect();
    assert_eq!(ids.len(), listed.len());
    for folder in ["advantage", "objective", "preference", "distillation", "selector", "gate", "replay"] {
        let folder = format!("crates/burnish-rl/src/{folder}");
        for entry in std::fs::read_dir(repository().join(&folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let is_part =
                !["mod.rs", "report.rs", "common.rs", "head.rs", "infinite.rs"].contains(&name.as_str());
            assert!(!is_part || unique.contains(format!("{folder}/{name}").as_str()), "{folder}/{name}");
        }
    }
}
