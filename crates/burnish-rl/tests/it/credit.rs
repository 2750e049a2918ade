//! Estimators that no framework has, against NumPy (`tests/golden/make_credit.py`), and across a restart.

use crate::common::{is_near, of_whole};
use burnish_rl::advantage::{Advantage, Estimator, Phase, Rollout, Rollouts};
use burnish_rl::catalogue::{self, ADVANTAGES};
use burnish_rl::fact::{COMPONENTS, CONTINUED, FLAW, TASK_DRIFT};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;

#[derive(Deserialize)]
struct Golden {
    steps: BTreeMap<String, Vec<Vec<Vec<Member>>>>,
    cases: Vec<Case>,
    dense: Vec<Dense>,
}

/// A step of `vineppo`.
#[derive(Deserialize)]
struct Dense {
    every: usize,
    whiten: Value,
    groups: Vec<Vec<Cut>>,
    advantages: Vec<Option<Vec<f64>>>,
}

#[derive(Deserialize)]
struct Cut {
    reward: Option<f64>,
    tokens: usize,
    continued: Vec<Option<f64>>,
}

#[derive(Deserialize)]
struct Member {
    reward: Option<f64>,
    #[serde(default)]
    components: Vec<Option<f64>>,
    #[serde(default)]
    upstream: bool,
    #[serde(default)]
    task: String,
    #[serde(default)]
    kl: f64,
    #[serde(default)]
    flaw: Option<f64>,
}

#[derive(Deserialize)]
struct Case {
    estimator: String,
    settings: Value,
    steps: String,
    advantages: Vec<Vec<Option<f64>>>,
}

/// All rollouts of a step, and its groups.
struct Step {
    all: Vec<Rollout>,
    groups: Vec<Range<usize>>,
}

impl Step {
    fn of(groups: &[Vec<Member>]) -> Self {
        let mut step = Step { all: Vec::new(), groups: Vec::new() };
        for members in groups {
            let start = step.all.len();
            step.all.extend(members.iter().map(|member| {
                Rollout {
                    phase: if member.upstream { Phase::Upstream } else { Phase::Downstream },
                    task: member.task.clone(),
                    ..Rollout::of_reward(member.reward)
                        .with(&COMPONENTS, numbers(&member.components))
                        .with(&TASK_DRIFT, [member.kl])
                        .with(&FLAW, member.flaw.into_iter().collect::<Vec<f64>>())
                }
            }));
            step.groups.push(start..step.all.len());
        }
        step
    }

    fn rollouts(&self) -> Rollouts<'_> {
        Rollouts { all: &self.all, groups: &self.groups }
    }
}

fn numbers(given: &[Option<f64>]) -> Vec<f64> {
    given.iter().map(|own| own.unwrap_or(f64::NAN)).collect()
}

#[expect(clippy::unwrap_used, reason = "the file is part of the test")]
fn golden() -> Golden {
    serde_json::from_str(include_str!("../golden/credit.json")).unwrap()
}

#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn estimator(id: &str, settings: &Value) -> Box<dyn Estimator> {
    (catalogue::find(ADVANTAGES, "estimator", id).unwrap().build)(settings).unwrap()
}

#[test]
fn advantages_are_those_of_numpy_step_after_step() {
    let golden = golden();
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    for case in &golden.cases {
        let mut estimator = estimator(&case.estimator, &case.settings);
        let steps = &golden.steps[&case.steps];
        assert_eq!(steps.len(), case.advantages.len());
        for (at, (step, expected)) in steps.iter().zip(&case.advantages).enumerate() {
            let step = Step::of(step);
            let found = estimator.advantages(&step.rollouts());
            estimator.learn(&step.rollouts());
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.into_iter().map(|own| own.map(of_whole)).zip(expected) {
                let what = format!("{} {} {}, step {at}", case.estimator, case.settings, case.steps);
                let (Some(found), Some(expected)) = (found, expected) else {
                    assert!(found.is_none() && expected.is_none(), "{what}: {found:?} for {expected:?}");
                    continue;
                };
                assert!(is_near(found, *expected, 1e-10), "{what}: {found} for {expected}");
                *compared.entry(&case.estimator).or_default() += 1;
            }
        }
    }
    assert!(compared["rdpo"] >= 500 && compared["skpo"] >= 300 && compared["fapo"] >= 100, "{compared:?}");
}

#[test]
fn dense_credit_is_that_of_numpy_token_by_token() {
    let golden = golden();
    let mut compared = 0;
    for Dense { every, whiten, groups, advantages } in &golden.dense {
        let mut step = Step { all: Vec::new(), groups: Vec::new() };
        for members in groups {
            let start = step.all.len();
            step.all.extend(members.iter().map(|member| Rollout {
                tokens: member.tokens,
                ..Rollout::of_reward(member.reward).with(&CONTINUED, numbers(&member.continued))
            }));
            step.groups.push(start..step.all.len());
        }
        let settings = json!({ "every": every, "whiten": whiten });
        let found = estimator("vineppo", &settings).advantages(&step.rollouts());
        assert_eq!(found.len(), advantages.len());
        for (found, expected) in found.into_iter().zip(advantages) {
            let (Some(Advantage::Tokens(found)), Some(expected)) = (&found, expected) else {
                assert!(found.is_none() && expected.is_none(), "{settings}: {found:?} for {expected:?}");
                continue;
            };
            assert_eq!(found.len(), expected.len(), "{settings}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(is_near(*found, *expected, 1e-10), "{settings}: {found} for {expected}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 150, "{compared}");
}

#[test]
fn one_that_was_restored_goes_on_to_the_bit_as_one_that_never_stopped() {
    let golden = golden();
    for case in &golden.cases {
        let steps: Vec<Step> = golden.steps[&case.steps].iter().map(|step| Step::of(step)).collect();
        let credit = |estimator: &dyn Estimator, step: &Step| -> Vec<Option<Advantage>> {
            estimator.advantages(&step.rollouts())
        };
        let mut kept = estimator(&case.estimator, &case.settings);
        let fresh = credit(&*kept, &steps[1]);
        kept.learn(&steps[0].rollouts());
        // As text, as in a checkpoint.
        let state: Value = serde_json::from_str(&kept.state().to_string()).unwrap();
        let mut restored = estimator(&case.estimator, &case.settings);
        restored.restore(&state).unwrap();
        assert_eq!(restored.state(), kept.state());
        let what = format!("{} {} {}", case.estimator, case.settings, case.steps);
        let mut differs = false;
        for step in &steps[1..] {
            let expected = credit(&*kept, step);
            assert_eq!(credit(&*restored, step), expected, "{what}");
            differs |= expected != fresh;
            kept.learn(&step.rollouts());
            restored.learn(&step.rollouts());
        }
        assert_eq!(restored.state(), kept.state());
        // What was learned matters: without it, the second step is different. `rdpo` does not use it if it has neither
        // a running scale nor few rows.
        let has_scale = ["quantile", "magnitude"].iter().all(|key| case.settings.get(key).is_none());
        assert!(differs || !has_scale || restored.state().is_null(), "{what}");
    }
}

#[test]
fn what_is_no_state_is_refused_by_what_is_wrong() {
    for (id, state, message) in [
        ("rdpo", json!(null), "state: is not a state of `rdpo`"),
        ("rdpo", json!({ "references": [] }), "state: is not a state of `rdpo`: missing field `covariances`"),
        (
            "rdpo",
            json!({ "references": [1.0, 0.0], "covariances": [] }),
            "references[1]: must be a number above 0",
        ),
        (
            "rdpo",
            json!({ "references": [], "covariances": [{ "components": [0, 1], "covariance": [1.0] }] }),
            "covariances[0]: must be the rows of a symmetric matrix",
        ),
        (
            "rdpo",
            json!({ "references": [], "covariances": [{ "components": [1, 0], "covariance": [1.0, 0.0, 0.0, 1.0] }] }),
            "covariances[0]: must be the rows of a symmetric matrix, one a component; the components ascending",
        ),
        ("skpo", json!({ "tasks": 3 }), "state: is not a state of `skpo`"),
        (
            "skpo",
            json!({ "tasks": { "a": { "alpha": -1.0, "beta": 1.0 } } }),
            "tasks.a: must have an `alpha`",
        ),
    ] {
        let mut restored = estimator(id, &Value::Null);
        let before = restored.state();
        let error = restored.restore(&state).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
        assert_eq!(restored.state(), before);
    }
}

#[test]
fn whoever_learns_nothing_has_no_state() {
    for entry in ADVANTAGES {
        let learns = ["rdpo", "skpo"].contains(&entry.card.id);
        let mut estimator = (entry.build)(&Value::Null).unwrap();
        estimator.learn(&Rollouts { all: &[], groups: &[] });
        assert_eq!(!estimator.state().is_null(), learns, "{}", entry.card.id);
    }
}
