//! What selectors choose.

use std::collections::BTreeSet;

use burnish_rl::belief::Belief;
use burnish_rl::selector::{Insight, SelectionConfig, Selector, Weight};
use proptest::prelude::*;
use serde_json::{Value, json};

const BELIEVERS: [&str; 4] = ["insight", "mopps", "difficulty", "evidence"];

#[expect(clippy::unwrap_used, reason = "a test says what is right")]
fn built(selector: &str, config: Value) -> Box<dyn Selector> {
    SelectionConfig { selector: selector.into(), config }.build().unwrap()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("task-{at}")).collect()
}

fn pool(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Task `at` was played `8 * times[at]` times, with a share of successes that differs between tasks.
fn taught(selector: &str, config: Value, names: &[String]) -> Box<dyn Selector> {
    let mut own = built(selector, config);
    for (at, name) in names.iter().enumerate() {
        for time in 0..at % 4 {
            own.observe(name, 8, (at * 5 + time) % 9);
        }
    }
    own
}

#[test]
fn believers_want_sixteen_candidates_for_each_task_and_uniform_one() {
    for id in BELIEVERS {
        assert_eq!(built(id, Value::Null).pool(32), 512, "{id}");
        assert_eq!(built(id, json!({ "pool_factor": 1 })).pool(32), 32, "{id}");
    }
    let uniform = built("uniform", Value::Null);
    assert_eq!(uniform.pool(32), 32);
    assert_eq!(uniform.expected_success("a"), None);
}

#[test]
fn a_choice_has_the_size_asked_for_no_task_twice_and_depends_on_nothing_else() {
    let names = names(60);
    for id in BELIEVERS {
        let own = taught(id, Value::Null, &names);
        for count in [0, 1, 7, 60, 90] {
            let chosen = own.choose(&pool(&names), count, 8, 5);
            let unique: BTreeSet<usize> = chosen.iter().copied().collect();
            assert_eq!(chosen.len(), count.min(60), "{id}");
            assert_eq!(unique.len(), chosen.len(), "{id}");
            assert_eq!(chosen, own.choose(&pool(&names), count, 8, 5), "{id}");
            assert_eq!(chosen, taught(id, Value::Null, &names).choose(&pool(&names), count, 8, 5), "{id}");
            // A shorter choice is the beginning of a longer one.
            assert_eq!(chosen, own.choose(&pool(&names), 60, 8, 5)[..chosen.len()], "{id}");
        }
    }
}

#[test]
fn only_mopps_looks_at_the_seed_and_its_draws_follow_the_task() {
    let names = names(200);
    for id in BELIEVERS {
        let own = taught(id, Value::Null, &names);
        let (one, two) = (own.choose(&pool(&names), 20, 8, 1), own.choose(&pool(&names), 20, 8, 2));
        assert_eq!(one != two, id == "mopps", "{id}");
    }
    let own = taught("mopps", Value::Null, &names);
    let chosen = |order: &[&str]| -> Vec<String> {
        own.choose(order, 20, 8, 1).into_iter().map(|at| order[at].to_owned()).collect()
    };
    let reversed: Vec<&str> = pool(&names).into_iter().rev().collect();
    assert_eq!(chosen(&pool(&names)), chosen(&reversed));
}

#[test]
fn ties_go_to_what_stands_first() {
    let names = names(40);
    for id in ["insight", "difficulty", "evidence"] {
        let chosen = built(id, Value::Null).choose(&pool(&names), 5, 8, 0);
        assert_eq!(chosen, [0, 1, 2, 3, 4], "{id}: nothing is known of any");
    }
    // A task and its mirror image tie to the bit.
    for weight in ["additive", "product", "none"] {
        let mut own = built("insight", json!({ "weight": weight }));
        own.observe("often", 10, 7);
        own.observe("seldom", 10, 3);
        assert_eq!(own.choose(&["often", "seldom"], 2, 8, 0), [0, 1], "{weight}");
        assert_eq!(own.choose(&["seldom", "often"], 2, 8, 0), [0, 1], "{weight}");
    }
}

#[test]
fn what_was_never_played_beats_what_is_as_hard_and_well_known() {
    for (id, config) in [
        ("insight", json!({ "weight": "additive" })),
        ("insight", json!({ "weight": "product" })),
        ("insight", json!({ "weight": "none" })),
        ("evidence", json!({})),
    ] {
        let mut own = built(id, config);
        for name in ["a", "b", "c"] {
            own.observe(name, 200, 100);
        }
        assert_eq!(own.choose(&["a", "b", "new", "c"], 1, 8, 0), [2], "{id}");
    }
    let mut blind = built("difficulty", Value::Null);
    blind.observe("a", 200, 100);
    assert_eq!(blind.choose(&["a", "new"], 1, 8, 0), [0], "difficulty sees no evidence: a tie");
}

#[test]
fn hard_and_easy_tasks_are_left_behind() {
    for id in ["insight", "mopps", "difficulty"] {
        let mut own = built(id, Value::Null);
        own.observe("never", 400, 0);
        own.observe("always", 400, 400);
        own.observe("half", 400, 200);
        assert_eq!(own.choose(&["never", "always", "half"], 1, 8, 3), [2], "{id}");
        assert!((own.expected_success("never").unwrap() - 1.0 / 402.0).abs() < 1e-15, "{id}");
        assert_eq!(own.expected_success("new"), Some(0.5), "{id}");
    }
    let mut easy = built("mopps", json!({ "target": 1.0 }));
    easy.observe("always", 400, 400);
    easy.observe("half", 400, 200);
    assert_eq!(easy.choose(&["half", "always"], 1, 8, 3), [1]);
}

#[test]
fn evidence_takes_the_fewest_rollouts_first() {
    let mut own = built("evidence", Value::Null);
    for (name, rollouts) in [("a", 16), ("b", 8), ("c", 24)] {
        own.observe(name, rollouts, rollouts / 2);
    }
    assert_eq!(own.choose(&["a", "b", "c", "d"], 4, 8, 0), [3, 1, 0, 2]);
}

proptest! {
    #[test]
    fn without_a_weight_and_at_equal_evidence_the_order_is_that_of_difficulty(
        successes in proptest::collection::vec(0..=24usize, 2..20), rollouts in 1..12usize, seed: u64,
    ) {
        let names = names(successes.len());
        let (mut insight, mut difficulty) = (built("insight", json!({ "weight": "none" })), built("difficulty", Value::Null));
        for (name, successes) in names.iter().zip(&successes) {
            insight.observe(name, 24, *successes);
            difficulty.observe(name, 24, *successes);
        }
        let order = insight.choose(&pool(&names), names.len(), rollouts, seed);
        prop_assert_eq!(&order, &difficulty.choose(&pool(&names), names.len(), rollouts, seed));
        let distances: Vec<usize> = order.iter().map(|at| successes[*at].abs_diff(12)).collect();
        prop_assert!(distances.is_sorted(), "{distances:?}");
    }

    #[test]
    fn with_much_evidence_mopps_chooses_what_difficulty_does(seed: u64) {
        let names = names(9);
        let (mut mopps, mut difficulty) = (built("mopps", Value::Null), built("difficulty", Value::Null));
        for (at, name) in names.iter().enumerate() {
            // Rates 0.1 to 0.9, in an order of their own, none as far from a half as another.
            let successes = 100_000_000 * ((at * 4) % 9 + 1) + 3_000_000 * at;
            mopps.observe(name, 1_000_000_000, successes);
            difficulty.observe(name, 1_000_000_000, successes);
        }
        prop_assert_eq!(mopps.choose(&pool(&names), 9, 8, seed), difficulty.choose(&pool(&names), 9, 8, seed));
    }
}

#[test]
fn the_weights_are_the_three_formulas() {
    let own = Belief { alpha: 2.0, beta: 5.0 };
    let (mean, information) = (2.0 / 7.0, own.information(8));
    let near = mean * (1.0 - mean) * (-2.0 * (mean - 0.5f64).powi(2)).exp();
    for (weight, expected) in
        [(Weight::Additive, 1.0 + 5.0 * near), (Weight::Product, near), (Weight::None, 1.0)]
    {
        let found = Insight { weight, eta: 2.0, mu: 5.0, ..Insight::default() }.acquisition(own, 8);
        assert!((found - expected * information).abs() < 1e-15, "{weight:?}");
    }
}

#[test]
fn a_selector_goes_on_from_its_state() {
    let names = names(60);
    for id in BELIEVERS {
        let config = json!({ "beliefs": { "decay": 0.7 } });
        let own = taught(id, config.clone(), &names);
        let text = serde_json::to_string(&own.state()).unwrap();
        let mut other = built(id, config);
        other.restore(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(other.choose(&pool(&names), 30, 8, 4), own.choose(&pool(&names), 30, 8, 4), "{id}");
        assert_eq!(other.state(), own.state(), "{id}");
        assert!(other.restore(&Value::Null).is_err(), "{id}");
    }
    let mut uniform = built("uniform", Value::Null);
    assert_eq!(uniform.state(), Value::Null);
    uniform.restore(&Value::Null).unwrap();
}

#[test]
fn values_out_of_range_are_refused_by_key() {
    for (selector, config, message) in [
        ("insihgt", json!({}), "selector: is no id of the catalogue: `insihgt`; there are: uniform, insight"),
        ("insight", json!({ "eta": -1.0 }), "config.eta: must be 0 or more, not -1"),
        ("insight", json!({ "mu": -0.5 }), "config.mu: must be 0 or more, not -0.5"),
        ("insight", json!({ "weight": "gauss" }), "config.weight: unknown variant `gauss`"),
        ("insight", json!({ "pool_factor": 0 }), "config.pool_factor: must be 1 or more, not 0"),
        (
            "insight",
            json!({ "beliefs": { "decay": 0.0 } }),
            "config.beliefs.decay: must be above 0 and at most 1",
        ),
        (
            "insight",
            json!({ "beliefs": { "decay": 1.5 } }),
            "config.beliefs.decay: must be above 0 and at most 1",
        ),
        ("mopps", json!({ "target": 1.5 }), "config.target: must be 0 to 1, not 1.5"),
        ("mopps", json!({ "beliefs": { "fades_to": "zero" } }), "config.beliefs.fades_to: unknown variant"),
        (
            "difficulty",
            json!({ "beliefs": { "alpha": 0.0 } }),
            "config.beliefs.alpha: must be 0.000001 or more",
        ),
        ("evidence", json!({ "beliefs": { "beta": -1.0 } }), "config.beliefs.beta: must be 0.000001 or more"),
        ("evidence", json!({ "target": 0.5 }), "config.target: unknown field `target`"),
    ] {
        let error = SelectionConfig { selector: selector.into(), config }.complete().unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}, not {message}");
    }
    let complete =
        SelectionConfig { selector: "mopps".into(), config: json!({ "target": 0.4 }) }.complete().unwrap();
    assert_eq!(
        complete.config,
        json!({
            "target": 0.4, "pool_factor": 16,
            "beliefs": { "alpha": 1.0, "beta": 1.0, "decay": 1.0, "fades_to": "prior" },
        })
    );
}
