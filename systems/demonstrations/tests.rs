use burnish_rl::plan::{Plain, Request, Role, Start};
use serde_json::json;

use super::Demonstrations;
use crate::PLANS;
use crate::testing::{answered, batches, play};

#[test]
fn answers_are_given_where_too_few_succeed_and_sampled_where_not() {
    let last = |plan: &Demonstrations, successes: usize| {
        let shown = play(plan, (4, 1), |_, at| answered("y", at < successes));
        assert_eq!(shown.batches[0], [Request::rollouts(4 - plan.count)]);
        assert_eq!(shown.episodes.len(), 4, "a group keeps its size");
        shown.batches[1].clone()
    };
    let given = |count: usize, weight: f64| {
        let (role, start) = (Role::Expert, Start::Demonstration);
        vec![Request { role, start, weight, ..Request::rollouts(count) }]
    };
    let plan = Demonstrations { count: 2, successes_max: 1, weight: 0.5 };
    assert_eq!([0, 1].map(|successes| last(&plan, successes)), [given(2, 0.5), given(2, 0.5)]);
    assert_eq!(last(&plan, 2), [Request::rollouts(2)]);
    assert_eq!(last(&Demonstrations::default(), 0), given(1, 1.0));
    assert_eq!(last(&Demonstrations::default(), 1), [Request::rollouts(1)]);
}

#[test]
fn without_given_answers_it_is_no_plan_and_one_answer_is_always_sampled() {
    let none = Demonstrations { count: 0, ..Demonstrations::default() };
    assert_eq!(batches(&none, (4, 1)), batches(&Plain, (4, 1)));
    let many = Demonstrations { count: 9, ..Demonstrations::default() };
    assert_eq!(batches(&many, (4, 1)).concat().iter().map(|own| own.count).sum::<usize>(), 4);
    let entry = PLANS.iter().find(|entry| entry.card.id == "demonstrations").unwrap();
    assert_eq!((entry.build)(&json!({ "weight": -1.0 })).err().unwrap().key, "weight");
}
