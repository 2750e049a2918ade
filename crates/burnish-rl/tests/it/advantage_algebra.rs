//! What estimators reduce to, for any rewards.

use crate::common::{change, is_near, of_whole, rollouts, whole};
use burnish_rl::advantage::{
    Advantage, Alpha, Estimator, Gae, Gdpo, Gigpo, Gpg, Grpo, GrpoPassk, LengthPenalised, Normalisation, Opo,
    PairwiseDifference, ReinforcePlusPlus, ReinforcePlusPlusBaseline, Rloo, Rollout, Rollouts, Scale,
    StepEpisode, Vineppo, Whiten,
};
use burnish_rl::catalogue::ADVANTAGES;
use burnish_rl::fact::{
    BOOTSTRAP, COMPONENTS, CONTINUED, FACTS, Per, TOKEN_REWARDS, TURN_REWARDS, TURN_STATES, VALUES, WINS,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::ops::Range;

const GROUP_SIZE: usize = 4;

fn credit(estimator: &dyn Estimator, all: &[Rollout]) -> Vec<Option<Advantage>> {
    let size = GROUP_SIZE;
    let groups: Vec<Range<usize>> = (0..all.len() / size).map(|at| at * size..(at + 1) * size).collect();
    estimator.advantages(&Rollouts { all, groups: &groups })
}

fn unscaled() -> Grpo {
    Grpo { scale: Scale::None, ..Grpo::default() }
}

fn scored(rewards: &[f64]) -> Vec<Option<f64>> {
    rewards.iter().copied().map(Some).collect()
}

/// Advantages, each with one number per turn.
fn by_turns(credit: Vec<Option<Advantage>>, all: &[Rollout]) -> Vec<Option<Advantage>> {
    let spread = |(own, rollout): (Option<Advantage>, &Rollout)| match own? {
        Advantage::Whole(value) => Some(Advantage::Steps(vec![value; rollout.turns.len()])),
        other => Some(other),
    };
    credit.into_iter().zip(all).map(spread).collect()
}

/// The same rollouts, each changed.
fn changed(all: &[Rollout], change: impl Fn(&mut Rollout)) -> Vec<Rollout> {
    let mut all = all.to_vec();
    all.iter_mut().for_each(change);
    all
}

proptest! {
    #[test]
    fn rloo_is_grpo_without_scaling_times_n_over_n_minus_1(all in rollouts(GROUP_SIZE)) {
        let grpo = credit(&unscaled(), &all);
        for ((group, expected), found) in
            all.chunks(GROUP_SIZE).zip(grpo.chunks(GROUP_SIZE)).zip(credit(&Rloo::default(), &all).chunks(GROUP_SIZE))
        {
            let count = group.iter().filter(|own| own.reward.is_some()).count() as f64;
            let factor = if count > 1.0 { count / (count - 1.0) } else { 0.0 };
            let times = |own: &Option<Advantage>| match own {
                Some(Advantage::Whole(value)) => Some(Advantage::Whole(value * factor)),
                _ => None,
            };
            prop_assert_eq!(found, &expected.iter().map(times).collect::<Vec<_>>());
            // From the definition: the mean of the others.
            let sum: f64 = group.iter().filter_map(|own| own.reward).sum();
            for (own, found) in group.iter().zip(found) {
                let (Some(reward), Some(Advantage::Whole(found)), true) = (own.reward, found, count > 1.0) else {
                    continue;
                };
                prop_assert!(is_near(*found, reward - (sum - reward) / (count - 1.0), 1e-9));
            }
        }
    }

    #[test]
    fn gae_without_discount_and_values_is_the_return_and_without_lambda_the_error_of_one_step(
        all in rollouts(GROUP_SIZE),
        gamma in 0.5..1.0f64,
    ) {
        let by_token = all;
        let all = changed(&by_token, |own| own.facts.forget(&TOKEN_REWARDS));
        let free = changed(&all, |own| {
            own.facts.forget(&BOOTSTRAP);
            change(own, &VALUES, |values| values.fill(0.0));
        });
        let gae = Gae { whiten: Whiten::None, ..Gae::default() };
        for (found, own) in credit(&gae, &free).iter().zip(&free) {
            let expected = own.reward.map(|reward| Advantage::Tokens(vec![reward; own.tokens]));
            prop_assert_eq!(found, &expected);
        }
        let gae = Gae { gamma, lambda: 0.0, whiten: Whiten::None };
        for (found, own) in credit(&gae, &all).iter().zip(&all) {
            let Some(reward) = own.reward else { continue };
            let value = |at: usize| own.facts.of(&VALUES).get(at).copied();
            let error = |at: usize| match value(at + 1) {
                Some(next) => gamma * next - value(at).unwrap_or(f64::NAN),
                None => reward + gamma * own.facts.number(&BOOTSTRAP).unwrap_or(0.0) - value(at).unwrap_or(f64::NAN),
            };
            let expected: Vec<f64> = (0..own.tokens).map(error).collect();
            let Some(Advantage::Tokens(found)) = found else { panic!("{found:?}") };
            prop_assert!(found.iter().zip(&expected).all(|(found, expected)| is_near(*found, *expected, 1e-12)));
        }
        // Rewards of tokens: what the token and those after it earned. If only the last earned anything, it is as above.
        let gae = Gae { whiten: Whiten::None, ..Gae::default() };
        let free = changed(&by_token, |own| {
            own.facts.forget(&BOOTSTRAP);
            change(own, &VALUES, |values| values.fill(0.0));
        });
        for (found, own) in credit(&gae, &free).iter().zip(&free) {
            let Some(Advantage::Tokens(found)) = found else { continue };
            let earned = own.facts.of(&TOKEN_REWARDS);
            for (at, found) in found.iter().enumerate() {
                prop_assert!(is_near(*found, earned[at..].iter().sum(), 1e-9));
            }
        }
        let last = changed(&by_token, |own| {
            let reward = own.reward.unwrap_or(0.0);
            change(own, &TOKEN_REWARDS, |earned| {
                earned.fill(0.0);
                if let Some(last) = earned.last_mut() {
                    *last = reward;
                }
            });
        });
        prop_assert_eq!(credit(&Gae::default(), &last), credit(&Gae::default(), &all));
    }

    #[test]
    fn gigpo_without_turns_is_grpo_and_with_one_state_only_it_is_step_episode(all in rollouts(GROUP_SIZE)) {
        let gigpo = Gigpo { step_weight: 0.0, ..Gigpo::default() };
        let grpo = Grpo { epsilon: 1e-6, ..Grpo::default() };
        prop_assert_eq!(credit(&gigpo, &all), by_turns(credit(&grpo, &all), &all));
        let steps = StepEpisode { step_weight: 0.0, ..StepEpisode::default() };
        prop_assert_eq!(credit(&steps, &all), by_turns(credit(&grpo, &all), &all));
        let mean = Gigpo { normalisation: Normalisation::Mean, ..gigpo };
        prop_assert_eq!(credit(&mean, &all), by_turns(credit(&unscaled(), &all), &all));

        let alike = changed(&all, |own| change(own, &TURN_STATES, |states| states.fill(7.0)));
        prop_assert_eq!(credit(&Gigpo::default(), &alike), credit(&StepEpisode::default(), &alike));
    }

    #[test]
    fn turns_without_normalisation_are_discounted_returns(all in rollouts(GROUP_SIZE)) {
        let gigpo = Gigpo { episode_weight: 0.0, normalisation: Normalisation::Identity, ..Gigpo::default() };
        for (found, own) in credit(&gigpo, &all).iter().zip(&all) {
            let Some(Advantage::Steps(found)) = found else { continue };
            for (at, found) in found.iter().enumerate() {
                let rewards = own.facts.of(&TURN_REWARDS)[at..].iter().enumerate();
                let expected: f64 = rewards.map(|(later, reward)| 0.95f64.powi(later as i32) * reward).sum();
                prop_assert!(is_near(*found, expected, 1e-12));
            }
        }
    }

    #[test]
    fn opo_of_equal_lengths_is_the_distance_from_the_mean(all in rollouts(GROUP_SIZE)) {
        let alike = changed(&all, |own| own.tokens = 8);
        for (found, expected) in credit(&Opo::default(), &alike).into_iter().zip(credit(&unscaled(), &alike)) {
            let (found, expected) = (found.map(of_whole), expected.map(of_whole));
            prop_assert!(is_near(found.unwrap_or(0.0), expected.unwrap_or(0.0), 1e-12));
        }
        // Nothing was sampled: there is no length to weigh by.
        let empty = changed(&all, |own| own.tokens = 0);
        prop_assert_eq!(credit(&Opo::default(), &empty), credit(&unscaled(), &empty));
    }

    #[test]
    fn pass_k_of_pairs_is_what_is_positive_of_rloo(pair in prop::array::uniform2(-5.0..5.0f64)) {
        let passk = GrpoPassk { scale_by_std: false, ..GrpoPassk::default() };
        let found = whole(&passk, &scored(&pair), 2);
        let rloo = whole(&Rloo::default(), &scored(&pair), 2);
        for (found, rloo) in found.iter().zip(rloo) {
            prop_assert!(is_near(found.unwrap_or(f64::NAN), rloo.unwrap_or(f64::NAN).max(0.0), 1e-12));
        }
    }

    #[test]
    fn reinforce_plus_plus_without_discount_is_the_whitened_reward_and_without_both_the_reward(
        all in rollouts(GROUP_SIZE),
    ) {
        let whitened = credit(&ReinforcePlusPlus::default(), &all);
        let rewards: Vec<f64> = all
            .iter()
            .flat_map(|own| own.reward.map(|reward| vec![reward; own.tokens]))
            .flatten()
            .collect();
        let count = rewards.len() as f64;
        let mean = rewards.iter().sum::<f64>() / count;
        let variance = rewards.iter().map(|reward| (reward - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let same = rewards.iter().all(|reward| *reward == rewards[0]);
        for (found, own) in whitened.iter().zip(&all) {
            let (Some(Advantage::Whole(found)), Some(reward)) = (found, own.reward) else { continue };
            let expected = if same { 0.0 } else { (reward - mean) / (variance + 1e-8).sqrt() };
            prop_assert!(is_near(*found, expected, 1e-9), "{found} for {expected}");
        }
        let plain = ReinforcePlusPlus { whiten: Whiten::None, ..ReinforcePlusPlus::default() };
        for (found, own) in credit(&plain, &all).iter().zip(&all) {
            prop_assert_eq!(found, &own.reward.map(Advantage::Whole));
        }
    }

    #[test]
    fn whitened_advantages_have_mean_0_and_variance_1_and_are_0_where_all_are_equal(
        all in rollouts(GROUP_SIZE),
        reward in -5.0..5.0f64,
    ) {
        let gae = Gae { lambda: 0.9, ..Gae::default() };
        let found: Vec<f64> = credit(&gae, &all)
            .into_iter()
            .flatten()
            .flat_map(|own| match own { Advantage::Tokens(values) => values, _ => Vec::new() })
            .collect();
        if found.len() > 2 {
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let variance = found.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (found.len() - 1) as f64;
            prop_assert!(mean.abs() < 1e-9 && (variance - 1.0).abs() < 1e-4, "{mean} {variance}");
        }
        let alike = changed(&all, |own| own.reward = Some(reward));
        for whiten in [Whiten::Tokens, Whiten::Rollouts] {
            let estimator = ReinforcePlusPlus { gamma: 1.0, whiten };
            prop_assert_eq!(credit(&estimator, &alike), vec![Some(Advantage::Whole(0.0)); alike.len()]);
        }
    }

    #[test]
    fn without_whitening_the_baseline_of_reinforce_plus_plus_is_that_of_grpo(all in rollouts(GROUP_SIZE)) {
        let estimator = ReinforcePlusPlusBaseline { whiten: Whiten::None };
        prop_assert_eq!(credit(&estimator, &all), credit(&unscaled(), &all));
        let gpg = Gpg { alpha: Alpha::One, f_norm: 1.0 };
        prop_assert_eq!(credit(&gpg, &all), credit(&unscaled(), &all));
    }

    #[test]
    fn gdpo_of_one_component_is_grpo(all in rollouts(GROUP_SIZE)) {
        let one = changed(&all, |own| own.facts.set(&COMPONENTS, own.reward.into_iter().collect::<Vec<f64>>()));
        let gdpo = Gdpo { whiten: Whiten::None, ..Gdpo::default() };
        prop_assert_eq!(credit(&gdpo, &one), credit(&Grpo::default(), &one));
        let unscaled_gdpo = Gdpo { scale_by_std: false, ..gdpo.clone() };
        prop_assert_eq!(credit(&unscaled_gdpo, &one), credit(&unscaled(), &one));
        // The factor that a component arrives with has no effect; its own weight has.
        let gdpo = Gdpo { epsilon: 0.0, ..gdpo };
        let heavier = changed(&all, |own| change(own, &COMPONENTS, |own| own[0] *= 4.0));
        prop_assert_eq!(credit(&gdpo, &heavier), credit(&gdpo, &all));
        let weighted = Gdpo { weights: vec![4.0, 0.0], ..gdpo.clone() };
        let first = changed(&all, |own| change(own, &COMPONENTS, |own| own.truncate(1)));
        for (found, expected) in credit(&weighted, &all).into_iter().zip(credit(&gdpo, &first)) {
            prop_assert_eq!(found.map(of_whole), expected.map(|own| 4.0 * of_whole(own)));
        }
    }

    #[test]
    fn without_prices_or_without_differences_in_length_length_penalised_is_grpo(all in rollouts(GROUP_SIZE)) {
        for scale in [Scale::None, Scale::Group, Scale::Batch] {
            let grpo = Grpo { scale, ..Grpo::default() };
            let free = LengthPenalised { output_tokens_weight: 0.0, turns_weight: 0.0, scale, epsilon: 1e-4 };
            prop_assert_eq!(credit(&free, &all), credit(&grpo, &all));
        }
        let alike = changed(&all, |own| {
            *own = own.clone().with_turns(&[9]);
        });
        for (found, expected) in credit(&LengthPenalised::default(), &alike).into_iter().zip(credit(&unscaled(), &alike)) {
            let (found, expected) = (found.map_or(0.0, of_whole), expected.map_or(0.0, of_whole));
            prop_assert!(is_near(found, expected, 1e-9), "{found} for {expected}");
        }
    }

    #[test]
    fn pairwise_difference_is_half_the_mean_difference_of_a_judge_without_contradictions(
        all in rollouts(GROUP_SIZE),
    ) {
        let judged = |group: &[Rollout]| -> Vec<Rollout> {
            let judge = |own: usize, other: usize| match own < other {
                true => group[own].facts.of(&WINS)[other],
                false => 1.0 - group[other].facts.of(&WINS)[own],
            };
            let wins = |own: usize| (0..group.len()).map(|other| judge(own, other)).collect::<Vec<f64>>();
            group.iter().enumerate().map(|(at, own)| own.clone().with(&WINS, wins(at))).collect()
        };
        let all: Vec<Rollout> = all.chunks(GROUP_SIZE).flat_map(judged).collect();
        let found = credit(&PairwiseDifference::default(), &all);
        for (group, found) in all.chunks(GROUP_SIZE).zip(found.chunks(GROUP_SIZE)) {
            let present: Vec<usize> = (0..GROUP_SIZE).filter(|at| group[*at].reward.is_some()).collect();
            for &own in &present {
                let others: Vec<usize> = present.iter().copied().filter(|at| *at != own).collect();
                let difference: f64 =
                    others.iter().map(|&other| group[own].facts.of(&WINS)[other] - group[other].facts.of(&WINS)[own]).sum();
                let expected = 0.5 * difference / others.len().max(1) as f64;
                let found = found[own].clone().map_or(f64::NAN, of_whole);
                prop_assert!(is_near(found, expected, 1e-12), "{found} for {expected}");
            }
        }
    }

    #[test]
    fn an_unscored_rollout_is_as_good_as_absent_for_every_estimator(
        all in rollouts(GROUP_SIZE),
        at in 0usize..=GROUP_SIZE,
        absent in prop_oneof![Just(None), Just(Some(f64::NAN)), Just(Some(f64::INFINITY))],
    ) {
        let size = GROUP_SIZE;
        let groups = |size: usize| -> Vec<Range<usize>> {
            (0..all.len() / GROUP_SIZE).map(|group| group * size..(group + 1) * size).collect()
        };
        // In each group, a stranger with everything but a reward.
        let with: Vec<Rollout> = all.chunks(size).flat_map(|group| {
            let mut group = group.to_vec();
            for own in &mut group {
                change(own, &WINS, |wins| wins.insert(at, 1.0));
            }
            let mut stranger = Rollout { reward: absent, tokens: 0, ..group[0].clone() };
            for fact in FACTS.iter().filter(|fact| fact.per == Per::Token) {
                stranger.facts.forget(fact);
            }
            group.insert(at, stranger);
            group
        }).collect();
        for entry in ADVANTAGES {
            let estimator = (entry.build)(&Value::Null).unwrap();
            let found = estimator.advantages(&Rollouts { all: &with, groups: &groups(size + 1) });
            let expected = estimator.advantages(&Rollouts { all: &all, groups: &groups(size) });
            for (mut found, expected) in found.chunks(size + 1).map(<[_]>::to_vec).zip(expected.chunks(size)) {
                prop_assert_eq!(found.remove(at), None, "{}", entry.card.id);
                prop_assert_eq!(&found[..], expected, "{}", entry.card.id);
            }
        }
    }
}

proptest! {
    /// Facts that an estimator does not ask for may be missing, and change nothing.
    #[test]
    fn nothing_else_is_read(all in rollouts(GROUP_SIZE)) {
        for entry in ADVANTAGES {
            let estimator = (entry.build)(&Value::Null).unwrap();
            let needs = estimator.needs();
            let bare = changed(&all, |own| {
                for fact in FACTS.iter().filter(|fact| !needs.iter().any(|need| need.fact == **fact)) {
                    own.facts.forget(fact);
                }
            });
            prop_assert_eq!(credit(&*estimator, &bare), credit(&*estimator, &all), "{}", entry.card.id);
        }
    }
}

/// Settings besides the defaults, which the contract tests.
fn others() -> Vec<(&'static str, Value)> {
    let mut found = vec![
        ("grpo", json!({ "scale": "batch", "group_of_one": "raw", "std_min": 1e-6 })),
        ("rloo", json!({ "whiten": "rollouts" })),
        ("rloo", json!({ "whiten": "tokens" })),
        ("reinforce_plus_plus", json!({ "gamma": 0.9, "whiten": "rollouts" })),
        ("reinforce_plus_plus_baseline", json!({ "whiten": "rollouts" })),
        ("gpg", json!({ "alpha": "nonzero_rewards", "f_norm": 0.3 })),
        ("grpo_passk", json!({ "scale_by_std": false })),
        ("gdpo", json!({ "weights": [0.3], "whiten": "tokens" })),
        ("gdpo", json!({ "scale_by_std": false, "whiten": "none" })),
        ("optimal_token_baseline", json!({ "handle_zero_tail": false, "epsilon": 0.0 })),
        ("pairwise_difference", json!({ "scale_by_std": true })),
        ("length_penalised", json!({ "scale": "batch" })),
        ("gae", json!({ "gamma": 0.9, "lambda": 0.8, "whiten": "rollouts" })),
        ("gae", json!({ "whiten": "none" })),
        ("rdpo", json!({ "whitening": false, "normalise": "tokens" })),
        ("rdpo", json!({ "quantile": false, "magnitude": "none", "normalise": "none" })),
        ("rdpo", json!({ "magnitude": "blend", "shrinkage": 0.0, "epsilon": 0.0, "weights": [0.3] })),
        ("skpo", json!({ "single_stream": true, "reward_min": -1.0 })),
        ("skill1", json!({ "ordering_weight": 0.0, "epsilon": 0.0 })),
        ("skpo", json!({ "group": { "scale": "batch" }, "upstream_normalisation": "identity" })),
    ];
    for normalisation in ["mean_std", "mean", "asym_clip", "identity"] {
        found.push(("gigpo", json!({ "normalisation": normalisation, "count_steps": true })));
        found.push(("step_episode", json!({ "normalisation": normalisation, "batch": true })));
    }
    found
}

proptest! {
    #[test]
    fn with_other_settings_too_permuting_rollouts_permutes_advantages_and_all_are_finite(
        all in rollouts(GROUP_SIZE),
        order in Just([0, 1, 2, 3]).prop_shuffle(),
    ) {
        let permuted: Vec<Rollout> = all.chunks(GROUP_SIZE).flat_map(|group| order.map(|from| {
            let wins: Vec<f64> = order.iter().map(|at| group[from].facts.of(&WINS)[*at]).collect();
            group[from].clone().with(&WINS, wins)
        })).collect();
        for (id, settings) in others() {
            let entry = burnish_rl::catalogue::find(ADVANTAGES, "estimator", id).unwrap();
            let estimator = (entry.build)(&settings).unwrap();
            let before = credit(&*estimator, &all);
            let expected: Vec<_> =
                before.chunks(GROUP_SIZE).flat_map(|group| order.map(|from| group[from].clone())).collect();
            prop_assert_eq!(credit(&*estimator, &permuted), expected, "{} {}", id, settings);
            let finite = before.iter().flatten().all(|own| match own {
                Advantage::Whole(value) => value.is_finite(),
                Advantage::Steps(values) | Advantage::Tokens(values) => values.iter().all(|value| value.is_finite()),
            });
            prop_assert!(finite, "{id} {settings}");
        }
    }
}

proptest! {
    /// Credit along an answer adds up to what the whole of it earned; without a cut it is that, to the bit.
    #[test]
    fn dense_credit_spreads_what_grpo_gives_the_whole(
        mut all in rollouts(2 * GROUP_SIZE),
        every in 1usize..6,
        worth in prop::collection::vec(prop::option::weighted(0.8, -2.0f64..2.0), 1..8),
    ) {
        let continued: Vec<f64> = worth.iter().map(|worth| worth.unwrap_or(f64::NAN)).collect();
        all.iter_mut().for_each(|own| own.facts.set(&CONTINUED, &*continued));
        let grpo = credit(&unscaled(), &all);
        let dense = credit(&Vineppo { every, rollouts: 3, whiten: Whiten::None }, &all);
        let uncut = credit(&Vineppo { every: 1000, rollouts: 3, whiten: Whiten::None }, &all);
        for (((dense, uncut), whole), own) in dense.into_iter().zip(uncut).zip(grpo).zip(&all) {
            let (Some(Advantage::Tokens(dense)), Some(Advantage::Tokens(uncut)), Some(whole)) = (&dense, &uncut, &whole) else {
                prop_assert!(dense.is_none() && uncut.is_none() && whole.is_none());
                continue;
            };
            prop_assert_eq!(uncut, &vec![whole.mean(); own.tokens]);
            // One number per part of the answer.
            let cuts = continued.iter().enumerate().filter(|(_, worth)| worth.is_finite()).map(|(at, _)| (at + 1) * every);
            let starts = std::iter::once(0).chain(cuts.filter(|cut| *cut < own.tokens));
            let sum: f64 = starts.map(|start| dense.get(start).copied().unwrap_or(whole.mean())).sum();
            prop_assert!(is_near(sum, whole.mean(), 1e-9), "{} for {}", sum, whole.mean());
        }
    }
}
