//! Scenes: answers follow from the picture alone, shares are exact, and what is said is judged as documented.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::{Message, Task, Verdict, settings};
use burnish_env::scenes::{Scenes, Truth};
use burnish_env::{Demonstrations, Generator};
use proptest::prelude::*;
use serde_json::{Value, json};

fn generator(config: Value) -> Scenes {
    Scenes::new(settings::read(&config).unwrap()).unwrap()
}

fn judged(generator: &Scenes, task: &Task, answer: &str) -> Verdict {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    environment.step(&Message::assistant(answer)).unwrap();
    environment.verify().unwrap()
}

/// The answer, read off the prompt's text by the signs of `docs/environments/scenes.md`.
fn answer_of_prompt(prompt: &str) -> String {
    let colours = BTreeMap::from([
        ('R', "red"),
        ('B', "blue"),
        ('G', "green"),
        ('Y', "yellow"),
        ('K', "black"),
        ('W', "white"),
        ('P', "pink"),
        ('O', "orange"),
    ]);
    let shapes = BTreeMap::from([
        ('s', "square"),
        ('c', "circle"),
        ('t', "triangle"),
        ('r', "star"),
        ('h', "heart"),
        ('o', "ring"),
        ('x', "cross"),
        ('m', "moon"),
    ]);
    let (image, question) = prompt.strip_prefix("<image>\n").unwrap().split_once("\n</image>\n").unwrap();
    let there: Vec<String> = image
        .split_whitespace()
        .filter(|sign| *sign != "..")
        .map(|sign| {
            let mut signs = sign.chars();
            format!("{} {}", colours[&signs.next().unwrap()], shapes[&signs.next().unwrap()])
        })
        .collect();
    if question == "What is there?" {
        return there.join(", ");
    }
    let asked = question.trim_end_matches('?');
    if let Some(object) = asked.strip_prefix("Is there a ") {
        return if there.iter().any(|name| name == object) { "yes" } else { "no" }.to_owned();
    }
    let shape = asked.strip_prefix("What colour is the ").unwrap();
    let found: Vec<&str> = there.iter().filter_map(|name| name.strip_suffix(&format!(" {shape}"))).collect();
    let [colour] = found[..] else { panic!("{prompt}") };
    colour.to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_answer_is_in_the_picture_and_shares_are_exact(
        rows in 2_usize..6, columns in 2_usize..6, objects in 1_usize..5, usual in 0.0_f64..1.0, seed: u64,
    ) {
        let scenes = generator(json!({
            "rows": rows, "columns": columns, "objects": objects.min(rows * columns), "usual": usual,
            "questions": {"present": 1, "colour": 1, "caption": 0},
        }));
        let tasks = scenes.tasks(seed, 200).unwrap().tasks;
        for task in &tasks {
            let right = answer_of_prompt(&task.prompt[0].content);
            prop_assert_eq!(&scenes.demonstrate(task).unwrap().content, &right);
            prop_assert!(judged(&scenes, task, &right).success);
            let truth = Truth::of(task).unwrap();
            let shapes: BTreeSet<usize> = truth.objects().map(|object| object.shape).collect();
            prop_assert_eq!(shapes.len(), objects.min(rows * columns));
        }
        let count = |label: &str, value: &str| {
            tasks.iter().filter(|task| task.labels.get(label).is_some_and(|own| own == value)).count() as f64
        };
        prop_assert!((count("prior", "with") - 200.0 * usual).abs() <= 3.0);
        prop_assert!((count("answer", "yes") - count("answer", "no")).abs() <= 2.0);
        prop_assert_eq!(count("question", "colour"), 100.0);
    }
}

#[test]
fn whoever_does_not_look_is_right_with_the_prior_and_wrong_against_it() {
    let scenes = generator(json!({"usual": 0.5, "questions": {"present": 1, "colour": 1, "caption": 0}}));
    let usual = |shape: &str| {
        let at =
            ["square", "circle", "triangle", "star", "heart", "ring"].iter().position(|name| *name == shape);
        ["red", "blue", "green", "yellow", "black", "white"][at.unwrap()]
    };
    let mut seen = BTreeMap::new();
    for task in scenes.tasks(1, 400).unwrap().tasks {
        let question = task.prompt[0].content.lines().last().unwrap().trim_end_matches('?').to_owned();
        let words: Vec<&str> = question.split(' ').collect();
        let shape = words[words.len() - 1];
        let says = match task.labels["question"].as_str() {
            "colour" => usual(shape).to_owned(),
            _ => if words[3] == usual(shape) { "yes" } else { "no" }.to_owned(),
        };
        let is_right = judged(&scenes, &task, &says).success;
        assert_eq!(is_right, task.labels["prior"] == "with", "{}", task.prompt[0].content);
        *seen.entry(task.labels.clone()).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 6);
}

#[test]
fn answers_are_judged_as_documented() {
    let scenes = generator(json!({"questions": {"present": 0, "colour": 0, "caption": 1}}));
    let task = &scenes.tasks(3, 1).unwrap().tasks[0];
    let right = scenes.demonstrate(task).unwrap().content;
    let names: Vec<&str> = right.split(", ").collect();
    assert_eq!(names.len(), 4);
    let turned = names.iter().rev().copied().collect::<Vec<&str>>().join(",  ").to_uppercase() + ".";
    assert!(judged(&scenes, task, &turned).success);
    let half = judged(&scenes, task, &names[..2].join(", "));
    assert_eq!((half.rewards["answer"], half.success, half.flags["hallucinated"]), (0.5, false, false));
    let more = judged(&scenes, task, &format!("{right}, purple dragon"));
    assert_eq!((more.rewards["answer"], more.success, more.flags["hallucinated"]), (0.8, false, true));
    let none = judged(&scenes, task, " ");
    assert_eq!((none.rewards["answer"], none.flags["parse_error"]), (0.0, true));

    let scenes = generator(json!({"usual": 0, "questions": {"present": 1, "colour": 0, "caption": 0}}));
    let tasks = scenes.tasks(3, 20).unwrap().tasks;
    let no = tasks.iter().find(|task| task.labels["answer"] == "no").unwrap();
    assert!(judged(&scenes, no, "No.").success);
    let verdict = judged(&scenes, no, "yes");
    assert_eq!((verdict.success, verdict.flags["hallucinated"]), (false, true));
}

#[test]
fn the_same_seed_gives_the_same_tasks_and_foreign_ones_are_refused() {
    let scenes = generator(json!({}));
    assert_eq!(scenes.tasks(5, 30).unwrap(), scenes.tasks(5, 30).unwrap());
    assert_ne!(scenes.tasks(5, 30).unwrap(), scenes.tasks(6, 30).unwrap());
    let mut task = scenes.tasks(5, 1).unwrap().tasks.remove(0);
    for truth in [
        json!({}),
        json!({"grid": [[{"colour": 99, "shape": 0}]], "question": "caption"}),
        json!({"grid": [[null]], "question": {"colour": 1}}),
    ] {
        task.truth = truth;
        let error = Truth::of(&task).unwrap_err().to_string();
        assert!(error.contains("is not one of scenes"), "{error}");
    }
}
