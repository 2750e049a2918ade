use burnish_core::Episode;
use burnish_rl::plan::{Request, Role, RolloutPlan};
use serde_json::{Value, json};

use super::{CycleCheck, Dgpo};
use crate::PlanConfig;
use crate::testing::{Shown, answered, go_on, play};

fn plan(config: Value) -> Box<dyn RolloutPlan> {
    PlanConfig { plan: "dgpo".into(), config }.build().unwrap()
}

/// Requests by their roles, numbers and tasks, batch by batch. Of three forward rollouts the second is wrong, and the
/// reversed ones are.
fn played(plan: &dyn RolloutPlan, say: impl Fn(usize) -> String) -> Vec<Vec<(Role, usize, Option<String>)>> {
    let answer = |request: &Request, at: usize| answered(&say(at), request.role == Role::Rollout && at != 1);
    let Shown { batches, error, .. } = play(plan, (3, 1), answer);
    assert!(error.is_none());
    let shown = |own: Request| (own.role, own.count, own.task.map(|task| task.id.0.clone()));
    batches.into_iter().map(|requests| requests.into_iter().map(shown).collect()).collect()
}

#[test]
fn both_directions_are_played_and_the_cycle_is_checked_unless_a_recipe_says_otherwise() {
    let (forward, turned) = ((Role::Rollout, 3, None), (Role::Turned, 3, Some("turned".to_owned())));
    let check = |of: &str| (Role::Check, 1, Some(format!("x by {of}")));
    let each = |at: usize| at.to_string();
    let both = plan(json!({}));
    assert_eq!(played(&*both, each), [vec![forward.clone(), turned.clone()], vec![check("0"), check("2")]]);
    // What leads to the same task is asked once.
    assert_eq!(played(&*both, |_| "y".into()), [vec![forward.clone(), turned], vec![check("y")]]);
    assert_eq!((both.group_size(4), both.components()), (8, &["coherent"][..]));
    let one_way = plan(json!({ "reverse": false, "keep_rewards": true }));
    assert_eq!(played(&*one_way, each), [vec![forward.clone()], vec![check("0"), check("2")]]);
    assert_eq!((one_way.group_size(4), one_way.components()), (4, &["coherent"][..]));
    let neither = plan(json!({ "reverse": false, "cycle": false }));
    assert_eq!(played(&*neither, each), [vec![forward]]);
    assert_eq!((neither.group_size(4), neither.components()), (4, &[][..]));
}

#[test]
fn an_answer_is_coherent_if_it_is_right_and_leads_back() {
    // Of the checks of answers 0 and 2, only the first recovers what was known.
    let answer = |request: &Request, at: usize| {
        let mut episode = answered(&at.to_string(), request.role != Role::Turned && at != 1);
        let is_first = request.task.as_ref().is_some_and(|task| task.id.0 == "x by 0");
        episode.verdict.flags.insert("recovered".into(), is_first);
        episode
    };
    let coherent = |answer: &dyn Fn(&Request, usize) -> Episode| -> Vec<Option<f64>> {
        let shown = play(&Dgpo::default(), (3, 1), answer);
        assert!(shown.error.is_none());
        let own = shown.episodes.iter().filter(|own| own.role == Role::Rollout);
        own.map(|own| own.episode.verdict.rewards.get("coherent").copied()).collect()
    };
    assert_eq!(coherent(&answer), [Some(1.0), Some(0.0), Some(0.0)]);
    // One check stands for both that lead there.
    let same = |request: &Request, at: usize| {
        let mut episode = answered("y", request.role != Role::Turned && at != 1);
        episode.verdict.flags.insert("recovered".into(), true);
        episode
    };
    assert_eq!(coherent(&same), [Some(1.0), Some(0.0), Some(1.0)]);
    // The environment's own reward of that name would be lost.
    let taken = |_: &Request, _: usize| {
        let mut episode = answered("y", true);
        episode.verdict.rewards.insert("coherent".into(), 1.0);
        episode
    };
    let keeping = Dgpo { keep_rewards: true, ..Dgpo::default() };
    let error = play(&keeping, (1, 1), taken).error.unwrap().to_string();
    assert!(error.starts_with("plan.config.keep_rewards: "), "{error}");
}

#[test]
fn the_check_alone_marks_what_is_played_and_plays_nothing_else() {
    let own = play(&burnish_rl::plan::Plain, (2, 1), |_, at| answered("y", at == 0)).episodes;
    let shown = go_on(&CycleCheck, (2, 1), own, |_, _| answered("y", true));
    assert_eq!(shown.batches.concat().len(), 1);
    let marked = shown.episodes.iter().map(|own| own.episode.verdict.flags.get("cycle").copied());
    assert_eq!(marked.collect::<Vec<_>>(), [Some(false), Some(false), None]);
}
