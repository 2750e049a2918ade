//! Estimators on small groups: their numbers, what they read, and what they refuse.

use crate::common::{of_whole, whole};
use burnish_rl::advantage::{
    Advantage, AdvantageConfig, Alpha, Estimator, Gdpo, Gpg, GroupOfOne, Grpo, GrpoPassk, LengthPenalised,
    MaxRl, Opo, OptimalTokenBaseline, PairwiseDifference, ReinforcePlusPlus, ReinforcePlusPlusBaseline,
    Remax, Rloo, Rollout, Rollouts, Scale, Whiten,
};
use burnish_rl::catalogue::ADVANTAGES;
use burnish_rl::fact::{
    BOOTSTRAP, COMPONENTS, Continuations, FLAW, GREEDY_REWARD, LOGPROBS, Need, SEGMENT_REWARDS, SEGMENTS,
    SQUARES, TASK_DRIFT, TOKEN_REWARDS, TURN_REWARDS, TURN_STATES, VALUES, WINS,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn one_group(estimator: &dyn Estimator, all: &[Rollout]) -> Vec<Option<Advantage>> {
    let whole = 0..all.len();
    estimator.advantages(&Rollouts { all, groups: std::slice::from_ref(&whole) })
}

fn scored(rewards: &[f64]) -> Vec<Option<f64>> {
    rewards.iter().copied().map(Some).collect()
}

#[test]
fn estimators_that_compare_rewards_give_nothing_to_equal_ones_and_to_groups_of_one() {
    let estimators: [&dyn Estimator; 7] = [
        &Grpo::default(),
        &Rloo::default(),
        &ReinforcePlusPlusBaseline { whiten: Whiten::None },
        &Opo::default(),
        &Gpg::default(),
        &GrpoPassk::default(),
        &MaxRl::default(),
    ];
    for (at, estimator) in estimators.into_iter().enumerate() {
        for reward in [1.0, 0.1, -3.0, 0.0] {
            for members in 1..6 {
                let found = whole(estimator, &vec![Some(reward); members], members);
                assert_eq!(found, vec![Some(0.0); members], "estimator {at}, {members} times {reward}");
            }
        }
        assert_eq!(whole(estimator, &[None, Some(2.0), None], 3), [None, Some(0.0), None], "estimator {at}");
        assert_eq!(whole(estimator, &[], 3), []);
        let nothing = estimator.advantages(&Rollouts { all: &[], groups: &[0..0, 0..0] });
        assert_eq!(nothing, []);
    }
}

#[test]
fn every_estimator_survives_empty_groups_and_rollouts_without_tokens() {
    let empty = Rollout::of_reward(Some(1.0)).with(&GREEDY_REWARD, [0.0]);
    for entry in ADVANTAGES {
        let estimator = (entry.build)(&Value::Null).unwrap();
        assert_eq!(estimator.advantages(&Rollouts { all: &[], groups: &[] }), [], "{}", entry.card.id);
        let all = [empty.clone(), Rollout { reward: Some(0.0), ..empty.clone() }];
        let found = estimator.advantages(&Rollouts { all: &all, groups: &[0..0, 0..2, 2..2] });
        assert_eq!(found.len(), 2, "{}", entry.card.id);
        for own in found {
            let finite = match own.unwrap() {
                Advantage::Whole(value) => value.is_finite(),
                Advantage::Steps(values) | Advantage::Tokens(values) => values.is_empty(),
            };
            assert!(finite, "{}", entry.card.id);
        }
    }
}

#[test]
fn max_rl_weighs_a_success_by_how_rare_it_is() {
    let found = whole(&MaxRl::default(), &scored(&[1.0, 0.0, 0.0, 0.0]), 4);
    assert_eq!(found, scored(&[3.0, -1.0, -1.0, -1.0]));
    assert_eq!(whole(&MaxRl::default(), &scored(&[-1.0, 1.0]), 2), scored(&[0.0, 0.0]));
    assert_eq!(whole(&MaxRl::default(), &scored(&[-2.0, 1.0]), 2), scored(&[0.0, 0.0]));
}

#[test]
fn gpg_makes_good_for_groups_that_teach_nothing() {
    let rewards = scored(&[1.0, 0.0, 1.0, 1.0, 0.0, 0.0, -1.0, 1.0]);
    let found = |alpha| whole(&Gpg { alpha, f_norm: 0.5 }, &rewards, 2);
    // Half of the groups have variance; five of eight rewards are not 0.
    assert_eq!(found(Alpha::VariedGroups), scored(&[2.0, -2.0, 0.0, 0.0, 0.0, 0.0, -4.0, 4.0]));
    let nonzero = [1.6, -1.6, 0.0, 0.0, 0.0, 0.0, -3.2, 3.2];
    assert_eq!(found(Alpha::NonzeroRewards), scored(&nonzero));
}

#[test]
fn grpo_says_what_a_group_of_one_and_nearly_equal_rewards_get() {
    let raw = |scale| Grpo { scale, epsilon: 0.25, group_of_one: GroupOfOne::Raw, ..Grpo::default() };
    assert_eq!(whole(&raw(Scale::Group), &scored(&[2.5]), 1), scored(&[2.0]));
    assert_eq!(whole(&raw(Scale::None), &scored(&[2.5]), 1), scored(&[2.5]));
    assert_eq!(whole(&raw(Scale::None), &[None, Some(2.5)], 2), [None, Some(2.5)]);
    // A group of two equal members is not a group of one.
    assert_eq!(whole(&raw(Scale::Group), &scored(&[2.5, 2.5]), 2), scored(&[0.0, 0.0]));

    let rewards = scored(&[1.0, 1.0 + 1e-7]);
    let strict = Grpo { std_min: 1e-6, ..Grpo::default() };
    assert_eq!(whole(&strict, &rewards, 2), scored(&[0.0, 0.0]));
    assert!(whole(&Grpo::default(), &rewards, 2)[1].unwrap() > 0.0);
    let unscaled = Grpo { scale: Scale::None, ..strict };
    assert!(whole(&unscaled, &rewards, 2)[1].unwrap() > 0.0);
}

#[test]
fn remax_is_reinforce_where_the_greedy_answer_earns_nothing_and_silent_where_it_has_no_reward() {
    let against = |greedy: Option<f64>| {
        let greedy: Vec<f64> = greedy.into_iter().collect();
        let all = [Rollout::of_reward(Some(0.75)).with(&GREEDY_REWARD, greedy)];
        one_group(&Remax::default(), &all)
    };
    assert_eq!(against(Some(0.0)), [Some(Advantage::Whole(0.75))]);
    assert_eq!(against(Some(0.5)), [Some(Advantage::Whole(0.25))]);
    assert_eq!(against(None), [None]);
    assert_eq!(against(Some(f64::NAN)), [None]);
}

#[test]
fn pairs_under_a_judge_get_a_half_each_way_and_what_was_not_judged_gets_nothing() {
    let of = |wins: [Vec<f64>; 2]| {
        let all = wins.map(|wins| Rollout::of_reward(Some(1.0)).with(&WINS, wins));
        one_group(&PairwiseDifference::default(), &all)
    };
    let whole = |value| Some(Advantage::Whole(value));
    assert_eq!(of([vec![0.0, 1.0], vec![0.0, 0.0]]), [whole(0.5), whole(-0.5)]);
    assert_eq!(of([vec![9.0, 0.5], vec![0.5, 9.0]]), [whole(0.0), whole(0.0)]);
    assert_eq!(of([vec![], vec![0.0, 9.0]]), [whole(0.0), whole(0.0)]);
    assert_eq!(of([vec![0.0, f64::NAN], vec![1.0, 0.0]]), [whole(0.0), whole(0.0)]);
}

#[test]
fn the_longest_member_has_no_baseline_beyond_the_second_longest() {
    let member = |reward, tokens| {
        let rollout = Rollout { tokens, ..Rollout::of_reward(Some(reward)) };
        rollout.with(&LOGPROBS, vec![0.5f64.ln(); tokens]).with(&SQUARES, vec![0.5; tokens])
    };
    let all = [member(1.0, 3), member(0.0, 1)];
    let found = |handle_zero_tail, epsilon| {
        let estimator = OptimalTokenBaseline { handle_zero_tail, epsilon };
        one_group(&estimator, &all)
    };
    let tokens = |values: &[f64]| Some(Advantage::Tokens(values.to_vec()));
    // Equal weights: the mean at the first token.
    assert_eq!(found(true, 0.0), [tokens(&[0.5, 1.0, 1.0]), tokens(&[-0.5])]);
    assert_eq!(found(false, 0.0), [tokens(&[0.5, 0.0, 0.0]), tokens(&[-0.5])]);
    // Two of equal length leave no tail.
    let all = [member(1.0, 2), member(0.0, 2)];
    let estimator = OptimalTokenBaseline { epsilon: 0.0, ..OptimalTokenBaseline::default() };
    let found = one_group(&estimator, &all);
    assert_eq!(found, [tokens(&[0.5, 0.5]), tokens(&[-0.5, -0.5])]);
}

#[test]
fn a_shorter_answer_is_better_where_the_group_earns_something_and_a_price_is_never_paid_out() {
    let of = |rewards: [f64; 2]| {
        let all = [(rewards[0], 10), (rewards[1], 20)]
            .map(|(reward, tokens)| Rollout { tokens, ..Rollout::of_reward(Some(reward)) });
        let credit = one_group(&LengthPenalised::default(), &all);
        credit.into_iter().map(|own| own.map_or(f64::NAN, of_whole)).collect::<Vec<_>>()
    };
    assert_eq!(of([1.0, 1.0]), [0.0625, -0.0625]);
    assert_eq!(of([0.0, 0.0]), [0.0, 0.0]);
    assert_eq!(of([-1.0, -1.0]), [0.0, 0.0]);
}

#[test]
fn whitening_by_rollouts_counts_each_once_and_by_tokens_as_often_as_it_is_long() {
    let all =
        [(1.0, 3), (0.0, 1)].map(|(reward, tokens)| Rollout { tokens, ..Rollout::of_reward(Some(reward)) });
    let found = |whiten| {
        let estimator = ReinforcePlusPlus { gamma: 1.0, whiten };
        estimator.advantages(&Rollouts { all: &all, groups: &[0..1, 1..2] })
    };
    let whole = |value: f64| Some(Advantage::Whole(value));
    let divisor = (0.25f64 + 1e-8).sqrt();
    assert_eq!(found(Whiten::Tokens), [whole(0.25 / divisor), whole(-0.75 / divisor)]);
    let divisor = 0.5f64.sqrt() + 1e-4;
    assert_eq!(found(Whiten::Rollouts), [whole(0.5 / divisor), whole(-0.5 / divisor)]);
}

#[test]
fn what_an_estimator_needs_is_what_it_reads() {
    let continued = Continuations { every: 16, rollouts: 9 }.need();
    let expected = BTreeMap::from([
        ("remax", Need::all(&[&GREEDY_REWARD])),
        ("gdpo", Need::all(&[&COMPONENTS])),
        ("rdpo", Need::all(&[&COMPONENTS])),
        ("skpo", Need::all(&[&TASK_DRIFT])),
        ("optimal_token_baseline", Need::all(&[&LOGPROBS, &SQUARES])),
        ("gae", Need::all(&[&VALUES, &BOOTSTRAP, &TOKEN_REWARDS])),
        ("pairwise_difference", Need::all(&[&WINS])),
        ("vineppo", vec![continued]),
        ("gigpo", Need::all(&[&TURN_REWARDS, &TURN_STATES])),
        ("step_episode", Need::all(&[&TURN_REWARDS])),
        ("skill1", Need::all(&[&SEGMENTS, &SEGMENT_REWARDS])),
        ("fapo", vec![Need { fact: &FLAW, settings: json!({ "miss": 0.0, "false_alarm": 0.0 }) }]),
    ]);
    for entry in ADVANTAGES {
        let found = (entry.build)(&Value::Null).unwrap().needs();
        assert_eq!(found, expected.get(entry.card.id).cloned().unwrap_or_default(), "{}", entry.card.id);
    }
}

#[test]
fn settings_out_of_range_are_refused_by_key() {
    for (estimator, config, message) in [
        ("grpo", json!({ "std_min": -1.0 }), "config.std_min: must be 0 or more, not -1"),
        ("grpo", json!({ "group_of_one": "mean" }), "config.group_of_one: unknown variant `mean`"),
        ("rloo", json!({ "whiten": "batch" }), "config.whiten: unknown variant `batch`"),
        ("reinforce_plus_plus", json!({ "gamma": 1.5 }), "config.gamma: must be 0 to 1, not 1.5"),
        ("gae", json!({ "gamma": -0.5 }), "config.gamma: must be 0 to 1, not -0.5"),
        ("gae", json!({ "lambda": 2.0 }), "config.lambda: must be 0 to 1, not 2"),
        ("gpg", json!({ "f_norm": 0.0 }), "config.f_norm: must be above 0, not 0"),
        ("grpo_passk", json!({ "epsilon": -1.0 }), "config.epsilon: must be 0 or more"),
        ("gdpo", json!({ "weights": ["a"] }), "config.weights: invalid type"),
        ("gdpo", json!({ "epsilon": -1.0 }), "config.epsilon: must be 0 or more"),
        ("optimal_token_baseline", json!({ "epsilon": -1.0 }), "config.epsilon: must be 0 or more"),
        ("pairwise_difference", json!({ "epsilon": -1.0 }), "config.epsilon: must be 0 or more"),
        ("gigpo", json!({ "gamma": 1.1 }), "config.gamma: must be 0 to 1, not 1.1"),
        ("gigpo", json!({ "step_weight": -1.0 }), "config.step_weight: must be 0 or more"),
        ("step_episode", json!({ "episode_weight": -1.0 }), "config.episode_weight: must be 0 or more"),
        ("step_episode", json!({ "gamma": 1.1 }), "config.gamma: must be 0 to 1, not 1.1"),
        ("rdpo", json!({ "shrinkage": 1.5 }), "config.shrinkage: must be 0 to 1, not 1.5"),
        ("rdpo", json!({ "reference": [1.0, -1.0] }), "config.reference[1]: must be 0 or more, not -1"),
        ("rdpo", json!({ "z_max": 0.0 }), "config.z_max: must be above 0, not 0"),
        (
            "rdpo",
            json!({ "magnitude": "blend", "quantile": false }),
            "config.magnitude: must not be \"blend\" with",
        ),
        ("rdpo", json!({ "learned": {} }), "config.learned: unknown field"),
        ("skpo", json!({ "group": { "ddof": 2 } }), "config.group.ddof: must be 0 or 1, not 2"),
        ("skpo", json!({ "kl_half": 0.0 }), "config.kl_half: must be above 0, not 0"),
        ("skpo", json!({ "reward_max": 0.0 }), "config.reward_max: must be above `reward_min`, not 0"),
        ("skill1", json!({ "ordering_weight": -0.1 }), "config.ordering_weight: must be 0 or more, not -0.1"),
        ("skpo", json!({ "upstream_weight": -1.0 }), "config.upstream_weight: must be 0 or more, not -1"),
        ("fapo", json!({ "lambda": -1.0 }), "config.lambda: must be 0 or more, not -1"),
        ("fapo", json!({ "detector": { "miss": 1.5 } }), "config.detector.miss: must be 0 to 1, not 1.5"),
        ("fapo", json!({ "group": { "ddof": 2 } }), "config.group.ddof: must be 0 or 1, not 2"),
        ("vineppo", json!({ "every": 0 }), "config.every: must be 1 or more, not 0"),
        ("vineppo", json!({ "rollouts": 0 }), "config.rollouts: must be 1 or more, not 0"),
        ("length_penalised", json!({ "turns_weight": -1.0 }), "config.turns_weight: must be 0 or more"),
    ] {
        let config = AdvantageConfig { estimator: estimator.into(), config };
        let error = config.complete().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
    let weights = Gdpo { weights: vec![1.0, f64::NAN], ..Gdpo::default() };
    let error = burnish_rl::Part::check(&weights).unwrap_err().to_string();
    assert_eq!(error, "weights[1]: must be a finite number, not NaN");
}
