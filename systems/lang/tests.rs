use std::collections::BTreeMap;

use burnish_core::Task;
use burnish_rl::plan::{Beginning, Outcome, Plain, RolloutPlan};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Decay;
use crate::PlanConfig;
use crate::testing::{Case, batches, task};

fn plan(id: &str, config: Value) -> Box<dyn RolloutPlan> {
    PlanConfig { plan: id.into(), config }.build().unwrap()
}

fn language(group: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("resource".to_owned(), group.to_owned())])
}

fn hint(plan: &dyn RolloutPlan, language_group: &str, progress: f64) -> f64 {
    let task = Task { labels: language(language_group), ..task() };
    let found = batches(plan, Case { task, progress, ..(4, 1).into() });
    let [requests] = &found[..] else { panic!("{found:?}") };
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
            let task = Task { labels: language(group), ..task() };
            let asked = |plan: &dyn RolloutPlan| {
                batches(plan, Case { task: task.clone(), progress, ..(4, 1).into() })
            };
            asked(lang) != asked(&Plain)
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

proptest! {
    #[test]
    fn the_share_of_a_hint_is_a_share(progress in 0.0..=1.0f64, group in "[a-z]{0,3}") {
        for decay in ["cosine", "linear", "exponential", "constant", "off"] {
            let share = hint(&*plan("lang", json!({ "decay": decay })), &group, progress);
            prop_assert!((0.0..=1.0).contains(&share));
        }
    }
}
