use burnish_rl::plan::{Request, Role, RolloutPlan, Start};
use serde_json::{Value, json};

use super::{CycleCheck, Dgpo};
use crate::PlanConfig;
use crate::testing::{answered, group, play, task};

fn plan(config: Value) -> Box<dyn RolloutPlan> {
    PlanConfig { plan: "dgpo".into(), config }.build().unwrap()
}

/// Of three forward rollouts, the second is wrong; reversed ones are wrong.
fn played(plan: &dyn RolloutPlan) -> Vec<Vec<(Role, usize, Start)>> {
    let task = task();
    let answer = |request: &Request, at: usize| answered("y", request.role == Role::Rollout && at != 1);
    let (batches, error) = play(plan, &group(&task, 3, 1), answer);
    assert!(error.is_none());
    let shown = |own: Request| (own.role, own.count, own.start);
    batches.into_iter().map(|requests| requests.into_iter().map(shown).collect()).collect()
}

#[test]
fn both_directions_are_played_and_the_cycle_is_checked_unless_a_recipe_says_otherwise() {
    let of_task = |role| (role, 3, Start::Prompt);
    let check = |of| (Role::Check, 1, Start::Reversed { of });
    let checks = vec![check(0), check(2)];
    let both = plan(json!({}));
    assert_eq!(played(&*both), [vec![of_task(Role::Rollout), of_task(Role::Turned)], checks.clone()]);
    assert_eq!((both.group_size(4), both.components()), (8, &["coherent"][..]));
    let one_way = plan(json!({ "reverse": false, "keep_rewards": true }));
    assert_eq!(played(&*one_way), [vec![of_task(Role::Rollout)], checks]);
    assert_eq!((one_way.group_size(4), one_way.components()), (4, &["coherent"][..]));
    let neither = plan(json!({ "reverse": false, "cycle": false }));
    assert_eq!(played(&*neither), [vec![of_task(Role::Rollout)]]);
    assert_eq!((neither.group_size(4), neither.components()), (4, &[][..]));
}

#[test]
fn an_answer_is_coherent_if_it_is_right_and_leads_back() {
    let task = task();
    let own = group(&task, 3, 1);
    // Of the checks of answers 0 and 2, only the first recovers what was known.
    let answer = |request: &Request, at: usize| {
        let mut episode = answered("y", request.role != Role::Turned && at != 1);
        episode.verdict.flags.insert("recovered".into(), request.start == Start::Reversed { of: 0 });
        episode
    };
    assert!(play(&Dgpo::default(), &own, answer).1.is_none());
    let coherent: Vec<Option<f64>> = own
        .take_episodes()
        .iter()
        .filter(|own| own.role == Role::Rollout)
        .map(|own| own.episode.verdict.rewards.get("coherent").copied())
        .collect();
    assert_eq!(coherent, [Some(1.0), Some(0.0), Some(0.0)]);
    // The environment's own reward of that name would be lost.
    let taken = |_: &Request, _: usize| {
        let mut episode = answered("y", true);
        episode.verdict.rewards.insert("coherent".into(), 1.0);
        episode
    };
    let keeping = Dgpo { keep_rewards: true, ..Dgpo::default() };
    let error = play(&keeping, &group(&task, 1, 1), taken).1.unwrap();
    assert_eq!(error.key, "config.keep_rewards");
}

#[test]
fn the_check_alone_marks_what_is_played_and_plays_nothing_else() {
    let task = task();
    let own = group(&task, 2, 1);
    play(&burnish_rl::plan::Plain, &own, |_, at| answered("y", at == 0));
    let batches = play(&CycleCheck, &own, |_, _| answered("y", true)).0;
    assert_eq!(batches.concat().len(), 1);
    let episodes = own.take_episodes();
    let marked: Vec<Option<bool>> =
        episodes.iter().map(|own| own.episode.verdict.flags.get("cycle").copied()).collect();
    assert_eq!(marked, [Some(false), Some(false), None]);
}
