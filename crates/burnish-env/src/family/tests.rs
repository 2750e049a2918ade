//! Properties of a family, shown on the one that `docs/environments/new.md` writes.

use super::sums::{Config, KIND};
use super::*;
use proptest::prelude::*;
use serde_json::json;

fn built(config: &Value) -> Result<Box<dyn Generator>, EnvError> {
    (KIND.build)(config)
}

#[test]
fn the_documented_family_is_this_one() {
    let page = include_str!("../../../../docs/environments/new.md");
    assert!(page.contains(include_str!("sums.rs")), "docs/environments/new.md has another sums.rs");
}

#[test]
fn a_configuration_has_its_keys_in_order_and_its_bounds() {
    assert_eq!(
        serde_json::to_string(&Config::default()).unwrap(),
        r#"{"terms":2,"values":{"min":1,"max":9},"sign":"+","reward":{"right":1.0,"wrong":0.0}}"#
    );
    assert_eq!(built(&Value::Null).unwrap().config(), (KIND.defaults)());
    let bounds: Vec<(String, f64, f64, String)> =
        Config::bounds().into_iter().map(|it| (it.key, it.min, it.max, it.help)).collect();
    let row = |key: &str, min, max, help: &str| (key.to_owned(), min, max, help.to_owned());
    assert_eq!(
        bounds,
        [
            row("terms", 2.0, 9.0, "terms of a sum"),
            row("values.min", 0.0, 99.0, "least term"),
            row("values.max", 0.0, 99.0, "greatest term"),
            row("reward.right", -1.0, 1.0, "reward of the right sum"),
            row("reward.wrong", -1.0, 1.0, "reward of any other answer"),
        ]
    );
}

#[test]
fn unknown_keys_and_contradictions_are_refused() {
    let problem = |config: Value| built(&config).map(drop).unwrap_err().to_string();
    assert_eq!(
        problem(json!({"values": {"min": 9, "max": 3}})),
        "values.max: 3 is below values.min, which is 9; nearest: 9"
    );
    assert!(problem(json!({"term": 3})).starts_with("term: unknown field `term`"));
    assert!(problem(json!({"reward": {"good": 1}})).starts_with("reward.good: unknown field `good`"));
}

proptest! {
    #[test]
    fn a_number_out_of_its_bounds_is_refused_with_key_range_and_nearest_value(
        at in 0..5_usize, above: bool, off in 1..1000_u32,
    ) {
        let Bound { key, min, max, .. } = Config::bounds().remove(at);
        let nearest = if above { max } else { min };
        let value = if above { max + f64::from(off) } else { min - f64::from(off) };
        let is_float = key.starts_with("reward.");
        prop_assume!(is_float || value >= 0.0);
        let number = if is_float { json!(value) } else { json!(value as u64) };
        let given = key.rsplit('.').fold(number, |below, part| json!({ part: below }));
        let problem = built(&given).map(drop).unwrap_err().to_string();
        let range = format!("{min} to {max} are allowed");
        prop_assert_eq!(problem, format!("{key}: {value} is out of range: {range}; nearest: {nearest}"));
    }

    #[test]
    fn the_same_seed_gives_the_same_tasks_and_a_longer_set_begins_with_the_shorter(
        seed: u64, terms in 2..=9_usize, count in 0..40_usize,
    ) {
        let generator = built(&json!({ "terms": terms })).unwrap();
        let set = generator.tasks(seed, count).unwrap();
        prop_assert_eq!(&set, &built(&json!({ "terms": terms })).unwrap().tasks(seed, count).unwrap());
        prop_assert_eq!(&set.tasks[..], &generator.tasks(seed, 40).unwrap().tasks[..count]);
        prop_assert_eq!(set.cells.iter().map(|cell| cell.made).sum::<usize>(), count);
        for task in &set.tasks {
            prop_assert!(task.id.0.starts_with("sums/") && task.environment == "sums");
            let episode = generator.demonstrations().unwrap().demonstrate_episode(task).unwrap();
            let mut environment = generator.environment();
            prop_assert_eq!(environment.reset(task, 0).unwrap(), &episode[..1]);
            environment.step(&episode[1]).unwrap();
            prop_assert!(environment.verify().unwrap().success);
        }
    }
}

#[test]
fn a_task_is_shown_with_its_right_answer_and_the_verdict_on_another() {
    let generator = built(&Value::Null).unwrap();
    let mut task = generator.tasks(4, 1).unwrap().tasks.remove(0);
    let right = task.truth.to_string();
    let asked = task.prompt[0].content.clone();
    assert_eq!(generator.draw(&task, None), format!("{asked}\nright: {right}"));
    assert!(generator.draw(&task, Some(&right)).ends_with(&format!("\nanswer: {right} (right)")));
    let wrong = format!("\nanswer: none (wrong; The sum is {right}.)");
    assert!(generator.draw(&task, Some("none")).ends_with(&wrong));
    task.truth = json!("eight");
    assert!(generator.draw(&task, None).contains("is not one of sums"));
    assert!(generator.demonstrations().unwrap().demonstrate(&task).is_none());
}
