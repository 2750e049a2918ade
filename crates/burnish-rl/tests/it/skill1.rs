//! `skill1`: credit by segments, against plain Python (`tests/golden/make_skill1.py`).

use burnish_rl::advantage::{
    ACTING, ASKING, Advantage, Estimator, Grpo, ORDERING, Rollout, Rollouts, Skill1, WRITING,
};
use burnish_rl::fact::{SEGMENT_REWARDS, SEGMENTS};
use proptest::prelude::*;
use serde::Deserialize;

use crate::common::is_near;

#[derive(Deserialize)]
struct Case {
    settings: [f64; 3],
    group: Vec<Member>,
    advantages: Vec<Option<Vec<f64>>>,
}

#[derive(Deserialize)]
struct Member {
    reward: Option<f64>,
    turns: Vec<(f64, Option<f64>)>,
}

fn rollout(reward: Option<f64>, turns: &[(f64, Option<f64>)]) -> Rollout {
    let segments: Vec<f64> = turns.iter().map(|(segment, _)| *segment).collect();
    let rewards: Vec<f64> = turns.iter().map(|(_, reward)| reward.unwrap_or(f64::NAN)).collect();
    Rollout::of_reward(reward)
        .with_turns(&vec![1; turns.len()])
        .with(&SEGMENTS, segments)
        .with(&SEGMENT_REWARDS, rewards)
}

fn credit(skill1: &Skill1, all: &[Rollout]) -> Vec<Option<Advantage>> {
    let whole = 0..all.len();
    skill1.advantages(&Rollouts { all, groups: std::slice::from_ref(&whole) })
}

#[test]
fn advantages_are_those_of_the_formulas() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../golden/skill1.json")).unwrap();
    let mut compared = 0;
    for Case { settings: [ordering_weight, writing_weight, epsilon], group, advantages } in cases {
        let skill1 = Skill1 { ordering_weight, writing_weight, epsilon };
        let all: Vec<Rollout> = group.iter().map(|member| rollout(member.reward, &member.turns)).collect();
        for (found, expected) in credit(&skill1, &all).iter().zip(&advantages) {
            match (found, expected) {
                (Some(Advantage::Steps(found)), Some(expected)) => {
                    assert_eq!(found.len(), expected.len());
                    assert!(
                        found.iter().zip(expected).all(|(one, other)| is_near(*one, *other, 1e-10)),
                        "{found:?} {expected:?}"
                    );
                    compared += found.len();
                }
                (found, expected) => assert!(found.is_none() && expected.is_none(), "{found:?} {expected:?}"),
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn each_segment_has_its_own_reward_and_no_other() {
    let turns = [(ASKING, None), (ORDERING, Some(0.8)), (ACTING, None), (ACTING, None), (WRITING, Some(0.5))];
    let lost = [(ASKING, None), (ORDERING, None), (ACTING, None), (WRITING, Some(-0.5))];
    let all = [rollout(Some(1.0), &turns), rollout(Some(0.0), &lost)];
    let own = |skill1: &Skill1| match credit(skill1, &all).swap_remove(0) {
        Some(Advantage::Steps(own)) => own,
        other => panic!("{other:?}"),
    };
    let plain = own(&Skill1::default());
    let without_order = own(&Skill1 { ordering_weight: 0.0, ..Skill1::default() });
    let without_writing = own(&Skill1 { writing_weight: 0.0, ..Skill1::default() });
    assert_eq!(plain[1], 0.3 * 0.8);
    assert_eq!(without_order, [plain[0], 0.0, plain[2], plain[3], plain[4]]);
    assert_eq!(without_writing, [plain[0], plain[1], plain[2], plain[3], 0.0]);
    assert!(plain[0] == plain[2] && plain[4] > 0.0 && plain[4] != plain[0]);
    // An order that is worth as much as every other has no gradient.
    let Some(Advantage::Steps(other)) = credit(&Skill1::default(), &all).swap_remove(1) else {
        panic!("no turns")
    };
    assert_eq!(other[1], 0.0);
}

proptest! {
    /// Where nothing is ordered or written down, each turn has the advantage of GRPO.
    #[test]
    fn without_other_segments_it_is_grpo(rewards in prop::collection::vec(prop::option::of(-2.0..2.0_f64), 1..9), turns in 1_usize..5) {
        let segments: Vec<(f64, Option<f64>)> =
            (0..turns).map(|at| (if at == 0 { ASKING } else { ACTING }, None)).collect();
        let all: Vec<Rollout> = rewards.iter().map(|reward| rollout(*reward, &segments)).collect();
        let grpo = Grpo { epsilon: 1e-6, ..Grpo::default() };
        let range = 0..all.len();
        let whole = grpo.advantages(&Rollouts { all: &all, groups: std::slice::from_ref(&range) });
        for (own, whole) in credit(&Skill1::default(), &all).into_iter().zip(whole) {
            let expected = whole.map(|whole| Advantage::Steps(vec![whole.mean(); turns]));
            prop_assert_eq!(own, expected);
        }
    }
}
