//! `fapo`: what a flaw costs, and when.

use crate::common::{is_near, of_whole, rollouts};
use burnish_rl::advantage::{Advantage, Estimator, Fapo, Grpo, Rollout, Rollouts, Scale};
use burnish_rl::fact::FLAW;
use proptest::prelude::*;
use std::ops::Range;

fn answer(reward: f64, flaw: Option<f64>) -> Rollout {
    let flaw: Vec<f64> = flaw.into_iter().collect();
    Rollout::of_reward(Some(reward)).with(&FLAW, flaw)
}

fn credit(fapo: &Fapo, all: &[Rollout], size: usize) -> Vec<Option<Advantage>> {
    let groups: Vec<Range<usize>> = (0..all.len() / size).map(|at| at * size..(at + 1) * size).collect();
    fapo.advantages(&Rollouts { all, groups: &groups })
}

proptest! {
    /// The paper's algebra: of `α` right and `β` wrong answers, the fewer right ones there are the more a flawed one is
    /// worth.
    #[test]
    fn a_flawed_answer_is_worth_more_than_its_group_as_long_as_fewer_are_right_than_wrong(
        right in 0usize..6, wrong in 0usize..6, flawed in 1usize..4,
    ) {
        let members = [(right, 1.0, 0.0), (wrong, 0.0, 0.0), (flawed, 1.0, 1.0)];
        let all: Vec<Rollout> = members
            .into_iter()
            .flat_map(|(count, reward, flaw)| vec![answer(reward, Some(flaw)); count])
            .collect();
        for scale in [Scale::None, Scale::Group] {
            let fapo = Fapo { group: Grpo { scale, ..Grpo::default() }, ..Fapo::default() };
            let found = credit(&fapo, &all, all.len());
            let own = found.last().cloned().flatten().map_or(f64::NAN, of_whole);
            prop_assert_eq!(own > 0.0, right < wrong, "{} {} {}: {}", right, wrong, flawed, own);
            prop_assert_eq!(own < 0.0, right > wrong, "{} {} {}: {}", right, wrong, flawed, own);
        }
    }

    #[test]
    fn without_a_penalty_it_is_grpo_of_right_and_wrong_and_asks_nobody(all in rollouts(4), flaws in prop::collection::vec(0..2u8, 12)) {
        let free = Fapo { lambda: 0.0, ..Fapo::default() };
        prop_assert!(free.needs().is_empty() && !Fapo::default().needs().is_empty());
        let flawed: Vec<Rollout> =
            all.iter().zip(flaws).map(|(own, flaw)| own.clone().with(&FLAW, [f64::from(flaw)])).collect();
        let outcome = |own: &Rollout| Rollout::of_reward(own.score().map(|r| if r >= 0.5 { 1.0 } else { -1.0 }));
        let outcomes: Vec<Rollout> = all.iter().map(outcome).collect();
        let groups: Vec<Range<usize>> = (0..all.len() / 4).map(|at| at * 4..at * 4 + 4).collect();
        let expected = Grpo::default().advantages(&Rollouts { all: &outcomes, groups: &groups });
        prop_assert_eq!(credit(&free, &flawed, 4), expected);
    }
}

#[test]
fn a_flaw_of_a_wrong_answer_and_one_that_nobody_knows_of_cost_nothing() {
    let fapo = Fapo { group: Grpo { scale: Scale::None, ..Grpo::default() }, ..Fapo::default() };
    let found = |flaws: [Option<f64>; 2]| {
        let all = [answer(1.0, flaws[0]), answer(0.0, flaws[1])];
        credit(&fapo, &all, 2).into_iter().map(|own| own.map_or(f64::NAN, of_whole)).collect::<Vec<_>>()
    };
    assert_eq!(found([None, None]), [1.0, -1.0]);
    assert_eq!(found([Some(0.0), Some(1.0)]), [1.0, -1.0]);
    assert_eq!(found([Some(1.0), None]), [0.5, -0.5]);
    let half = Fapo { lambda: 0.5, ..fapo };
    let all = [answer(1.0, Some(1.0)), answer(0.0, None)];
    assert!(is_near(credit(&half, &all, 2)[0].clone().map_or(f64::NAN, of_whole), 0.75, 1e-12));
}
