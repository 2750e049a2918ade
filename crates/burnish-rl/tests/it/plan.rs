//! Plans of rollouts: the decay and the switch of LANG, the draft of SKPO.

use crate::common::task;
use burnish_core::Task;
use burnish_rl::catalogue::PLANS;
use burnish_rl::plan::{
    Beginning, Decay, Outcome, Plain, PlanConfig, Played, Request, Role, RolloutPlan, Start,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn plan(id: &str, config: Value) -> Box<dyn RolloutPlan> {
    PlanConfig { plan: id.into(), config }.build().unwrap()
}

fn language(group: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("resource".to_owned(), group.to_owned())])
}

fn hint(plan: &dyn RolloutPlan, group: &str, progress: f64) -> f64 {
    let task = Task { labels: language(group), ..task("x") };
    let requests = plan.wave(&Played { task: &task, rollouts: 4, progress, seed: 1, episodes: &[] }, 0);
    assert_eq!(requests.len(), 1, "one wave");
    match requests[0].prefix[..] {
        [] => 0.0,
        [Beginning::Hint(share)] => share,
        _ => f64::NAN,
    }
}

/// One step of each group: how many of how many tasks had a rollout with a positive advantage.
fn observe(plan: &mut dyn RolloutPlan, step: &[(&str, usize, usize)]) {
    let labels: Vec<_> = step.iter().map(|(group, ..)| language(group)).collect();
    let outcomes: Vec<Outcome<'_>> = step
        .iter()
        .zip(&labels)
        .flat_map(|((_, positive, all), labels)| {
            (0..*all).map(move |at| Outcome { labels, is_positive: at < *positive })
        })
        .collect();
    plan.observe(&outcomes);
}

#[test]
fn every_decay_begins_at_the_whole_hint_never_rises_and_the_published_one_ends_at_none() {
    for decay in [Decay::Cosine, Decay::Linear, Decay::Exponential, Decay::Constant] {
        assert_eq!(decay.share(0.0), 1.0, "{decay:?}");
        let shares: Vec<f64> = (0..=100).map(|at| decay.share(f64::from(at) / 100.0)).collect();
        assert!(shares.is_sorted_by(|before, after| before >= after), "{decay:?}");
    }
    assert!(Decay::Cosine.share(1.0).abs() < 1e-15 && Decay::Linear.share(1.0) == 0.0);
    assert!((Decay::Cosine.share(0.5) - 0.5).abs() < 1e-15);
    assert!((Decay::Cosine.share(1.0 / 3.0) - 0.75).abs() < 1e-15);
    assert!((0..=10).all(|at| Decay::Off.share(f64::from(at) / 10.0) == 0.0));
}

#[test]
fn a_group_is_switched_off_for_good_and_by_itself() {
    let mut lang = plan("lang", json!({ "alpha": 0.5, "tau": 0.6 }));
    // ū = 0.5, then 0.75; the others' 0.25 and 0.375.
    observe(&mut *lang, &[("high", 4, 4), ("low", 1, 2)]);
    assert_eq!((hint(&*lang, "high", 0.0), hint(&*lang, "low", 0.0)), (1.0, 1.0));
    observe(&mut *lang, &[("high", 4, 4), ("low", 1, 2)]);
    assert_eq!((hint(&*lang, "high", 0.0), hint(&*lang, "low", 0.0)), (0.0, 1.0));
    // It fails from now on: that does not bring the hint back. A step without a group leaves what is known about it.
    let low = |lang: &dyn RolloutPlan| lang.state()["low"]["useful"].as_f64().unwrap();
    assert_eq!(low(&*lang), 0.375);
    (0..20).for_each(|_| observe(&mut *lang, &[("high", 0, 4)]));
    assert_eq!((hint(&*lang, "high", 0.5), low(&*lang)), (0.0, 0.375));
    assert_eq!(hint(&*lang, "never seen", 0.0), 1.0);
}

#[test]
fn with_all_groups_off_it_asks_for_what_is_asked_for_without_a_plan() {
    let groups = ["high", "mid", "low"];
    for decay in ["cosine", "linear", "exponential", "constant"] {
        let mut lang = plan("lang", json!({ "decay": decay, "alpha": 0.0, "tau": 1.0 }));
        let differs = |lang: &dyn RolloutPlan, group: &str, progress: f64| {
            let task = Task { labels: language(group), ..task("x") };
            let played = Played { task: &task, rollouts: 4, progress, seed: 1, episodes: &[] };
            (0..3).any(|wave| lang.wave(&played, wave) != Plain.wave(&played, wave))
        };
        assert!(groups.iter().all(|group| differs(&*lang, group, 0.0) && differs(&*lang, group, 0.99)));
        observe(&mut *lang, &groups.map(|group| (group, 2, 2)));
        for progress in [0.0, 0.5, 0.99] {
            assert!(!groups.iter().any(|group| differs(&*lang, group, progress)), "{decay} at {progress}");
        }
    }
}

#[test]
fn a_group_that_only_ties_is_never_switched_off() {
    // All rollouts of a task succeed: no advantage is positive.
    let mut lang = plan("lang", json!({ "alpha": 0.0 }));
    (0..50).for_each(|_| observe(&mut *lang, &[("high", 0, 8)]));
    assert_eq!(hint(&*lang, "high", 0.0), 1.0);
    let mut without = plan("lang", json!({ "alpha": 0.0, "switch": false }));
    observe(&mut *without, &[("high", 8, 8)]);
    assert_eq!(hint(&*without, "high", 0.0), 1.0, "no switch");
}

#[test]
fn a_plan_goes_on_from_its_state() {
    let mut lang = plan("lang", json!({ "tau": 0.15 }));
    observe(&mut *lang, &[("high", 2, 3), ("low", 1, 3)]);
    let mut other = plan("lang", json!({ "tau": 0.15 }));
    other.restore(&lang.state()).unwrap();
    for plan in [&mut lang, &mut other] {
        observe(&mut **plan, &[("high", 3, 3), ("low", 1, 3)]);
    }
    assert_eq!(other.state(), lang.state());
    assert_eq!(lang.state()["high"]["is_off"], true);
    assert!(other.restore(&json!({ "high": 3 })).is_err());
}

#[test]
fn skpo_has_a_draft_unless_it_has_no_tokens_and_a_template_must_show_both() {
    let task = task("x");
    let waves = |config: Value| -> Vec<Vec<Request>> {
        let plan = plan("skpo", config);
        let played = Played { task: &task, rollouts: 4, progress: 0.0, seed: 1, episodes: &[] };
        (0..4).map(|wave| plan.wave(&played, wave)).take_while(|requests| !requests.is_empty()).collect()
    };
    let found = waves(json!({ "draft_tokens": 5 }));
    let [[draft], [answers]] = [&found[0][..], &found[1][..]] else { panic!("{found:?}") };
    assert_eq!((draft.role, draft.count, draft.tokens_max), (Role::Draft, 1, Some(5)));
    let Start::Shown { of: 0, template } = &answers.start else { panic!("{answers:?}") };
    assert!((answers.count, answers.tokens_max) == (4, None) && template.matches("{prompt}").count() == 2);
    assert_eq!(waves(json!({ "draft_tokens": 0 })), [[Request::rollouts(4)]]);
    let without = Request { prefix: vec![Beginning::Answer(0)], ..Request::rollouts(4) };
    assert_eq!(waves(json!({ "skip": false }))[1], [without]);
    let wrong = PlanConfig { plan: "skpo".into(), config: json!({ "template": "{prompt}" }) };
    assert_eq!(wrong.complete().unwrap_err().key, "config.template");
    assert_eq!(PlanConfig { plan: "none".into(), config: Value::Null }.complete().unwrap_err().key, "plan");
    assert!(
        PLANS
            .iter()
            .all(|entry| (entry.build)(&Value::Null).unwrap().state().is_null() || entry.card.id == "lang")
    );
}

proptest! {
    #[test]
    fn the_share_of_a_hint_is_a_share(progress in 0.0..=1.0f64, group in "[a-z]{0,3}") {
        for decay in ["cosine", "linear", "exponential", "constant", "off"] {
            let share = hint(&*plan("lang", json!({ "decay": decay })), &group, progress);
            prop_assert!((0.0..=1.0).contains(&share));
        }
    }
}
