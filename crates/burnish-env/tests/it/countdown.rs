//! Countdown as a whole: what is generated can be solved, and the verifier agrees with independent arithmetic.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Message, Task, TaskId, settings};
use burnish_env::countdown::{Config, Countdown, Operator, Puzzle, parse, solve};
use burnish_env::{Demonstrations, Generator};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn generator(config: Value) -> Countdown {
    Countdown::new(settings::read(&config).unwrap()).unwrap()
}

fn puzzle(task: &Task) -> Puzzle {
    serde_json::from_value(task.truth["puzzle"].clone()).unwrap()
}

fn verdict(generator: &dyn Generator, task: &Task, answer: &Message) -> burnish_core::Verdict {
    let mut environment = generator.environment();
    assert_eq!(environment.reset(task, 0).unwrap(), task.prompt);
    environment.step(answer).unwrap();
    environment.verify().unwrap()
}

/// Configurations over all their keys; most of them can be met.
fn configs() -> impl Strategy<Value = Value> {
    let knobs = (2u32..=5, 0u32..=1, 1u32..=3, any::<bool>(), any::<bool>(), 0usize..4);
    knobs.prop_map(|(numbers, more, operations, use_all, whole_steps, without)| {
        let mut operators = vec!["+", "-", "*", "/"];
        operators.truncate(4 - without.min(2));
        let most = numbers + more;
        let operations = if use_all { numbers - 1 } else { operations.min(numbers - 1) };
        json!({
            "numbers": {"min": numbers, "max": most},
            "operations": {"min": operations, "max": most - 1},
            "values": {"min": 1, "max": 30},
            "target": {"min": 5, "max": 500},
            "operators": operators,
            "use_all": use_all,
            "whole_steps": whole_steps,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_task_is_within_its_configuration_and_its_demonstration_verifies(config in configs(), seed: u64) {
        let generator = generator(config.clone());
        let set = generator.tasks(seed, 7).unwrap();
        let config: Config = serde_json::from_value(generator.config()).unwrap();
        for task in &set.tasks {
            let puzzle = puzzle(task);
            let count = puzzle.numbers.len() as u32;
            prop_assert!((config.numbers.min..=config.numbers.max).contains(&count));
            prop_assert!((config.target.min..=config.target.max).contains(&puzzle.target));
            prop_assert!(puzzle.numbers.iter().all(|n| (1..=30).contains(n)));
            prop_assert!(!puzzle.numbers.contains(&puzzle.target));
            let answer = generator.demonstrate(task).unwrap();
            let verdict = verdict(&generator, task, &answer);
            prop_assert!(verdict.success, "{}\n{:?}", answer.content, verdict);
            prop_assert_eq!(answer.content.lines().filter(|line| line.contains(" = ")).count().to_string(),
                task.labels["operations"].clone());
        }
        prop_assert_eq!(set.cells.iter().map(|cell| cell.made).sum::<usize>(), 7);
        let (most, least) = (set.cells.iter().map(|c| c.made).max(), set.cells.iter().map(|c| c.made).min());
        prop_assert!(most.unwrap() - least.unwrap() <= 1);
    }

    #[test]
    fn the_search_finds_a_solution_of_every_task(seed: u64, whole_steps: bool, use_all: bool) {
        let generator = generator(json!({"whole_steps": whole_steps, "use_all": use_all}));
        for mut task in generator.tasks(seed, 4).unwrap().tasks {
            let puzzle = puzzle(&task);
            let solution = solve(&puzzle).unwrap();
            prop_assert!(puzzle.judge(&solution.to_string()).is_solution);
            // A task without a known solution is demonstrated by search.
            task.truth.as_object_mut().unwrap().remove("solution");
            let answer = generator.demonstrate(&task).unwrap();
            prop_assert!(verdict(&generator, &task, &answer).success);
        }
    }
}

/// A random expression as text, and its value in plain double precision.
fn expressions() -> impl Strategy<Value = (String, f64, Vec<u32>)> {
    let leaf = (1u32..20).prop_map(|n| (n.to_string(), f64::from(n), vec![n]));
    leaf.prop_recursive(4, 12, 2, |inner| {
        (inner.clone(), 0usize..4, inner).prop_map(|(left, operator, right)| {
            let text = format!("({}){}({})", left.0, ["+", "-", "×", "/"][operator], right.0);
            let value = match operator {
                0 => left.1 + right.1,
                1 => left.1 - right.1,
                2 => left.1 * right.1,
                _ => left.1 / right.1,
            };
            (text, value, [left.2, right.2].concat())
        })
    })
}

proptest! {
    #[test]
    fn the_verifier_agrees_with_double_precision((text, value, used) in expressions(), target in 1u32..400) {
        // Up to 12 small numbers: a double that is not the target then differs from it by more than rounding.
        let target = if value.fract() == 0.0 && value > 0.0 && value < 1e6 && target % 2 == 0 {
            value as u32
        } else {
            target
        };
        let puzzle = Puzzle {
            numbers: used,
            target,
            operators: Operator::ALL.to_vec(),
            use_all: true,
            whole_steps: false,
        };
        let finding = puzzle.judge(&text);
        let is_target = (value - f64::from(target)).abs() < 1e-9;
        prop_assert_eq!(finding.is_solution, is_target, "{} = {}, not {}: {:?}", text, value, target, finding);
        prop_assert!(!finding.flags["wrong_numbers"]);
    }

    #[test]
    fn a_number_taken_away_or_added_makes_a_solution_illegal((text, _, used) in expressions(), extra in 20u32..99) {
        let mut fewer = used.clone();
        fewer.pop();
        let mut more = used;
        more.push(extra);
        for (numbers, use_all) in [(fewer, false), (more, true)] {
            let operators = Operator::ALL.to_vec();
            let puzzle = Puzzle { numbers, target: 7, operators, use_all, whole_steps: false };
            prop_assert!(puzzle.judge(&text).flags["wrong_numbers"]);
        }
    }

    #[test]
    fn precedence_without_parentheses_is_that_of_a_textbook(
        terms in prop::collection::vec((1i64..9, prop::sample::select(vec!['+', '-', '*'])), 1..9),
    ) {
        let text: String = terms.iter().flat_map(|(n, op)| [n.to_string(), op.to_string()]).collect();
        let text = text.trim_end_matches(['+', '-', '*']);
        // Sum of products, computed term by term.
        let mut sum = 0;
        let (mut sign, mut product) = (1, 1);
        for (number, operator) in &terms {
            product *= number;
            if *operator != '*' {
                sum += sign * product;
                (sign, product) = (if *operator == '-' { -1 } else { 1 }, 1);
            }
        }
        if terms.last().is_some_and(|term| term.1 == '*') {
            sum += sign * product;
        }
        let value = parse(text, 0).unwrap().value().unwrap().as_whole();
        prop_assert_eq!(value, Some(i128::from(sum)), "{}", text);
    }

    #[test]
    fn no_answer_makes_the_verifier_panic(
        answer in prop_oneof![any::<String>(), "[0-9+*/() =−×÷-]{0,80}", "(</?think>|[0-9]{1,50}|[*/(]){0,40}"],
    ) {
        let operators = Operator::ALL.to_vec();
        let puzzle = Puzzle { numbers: vec![3, 7], target: 21, operators, use_all: false, whole_steps: true };
        let finding = puzzle.judge(&answer);
        prop_assert_eq!(finding.is_solution, finding.feedback.is_none());
    }
}

#[test]
fn long_and_deep_answers_are_refused_without_exhausting_the_stack() {
    let operators = Operator::ALL.to_vec();
    let puzzle = Puzzle { numbers: vec![3, 7], target: 21, operators, use_all: false, whole_steps: true };
    for answer in ["(".repeat(1_000_000), "1+".repeat(1_000_000), "1*(".repeat(1_000_000)] {
        assert!(puzzle.judge(&answer).flags["parse_error"]);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let generator = generator(Value::Null);
    let bytes = |seed| serde_json::to_string(&generator.tasks(seed, 40).unwrap()).unwrap();
    assert_eq!(bytes(5), bytes(5));
    assert_ne!(bytes(5), bytes(6));
    let few = generator.tasks(5, 10).unwrap().tasks;
    assert_eq!(few, generator.tasks(5, 40).unwrap().tasks[..10]);
}

#[test]
fn a_task_id_names_the_puzzle() {
    // One cell, so that tasks drawn from the same numbers would be the same.
    let generator = generator(json!({"numbers": {"min": 4}, "operations": {"min": 3}}));
    let tasks = generator.tasks(1, 200).unwrap().tasks;
    for (a, b) in tasks.iter().flat_map(|a| tasks.iter().map(move |b| (a, b))) {
        assert_eq!(a.id == b.id, puzzle(a) == puzzle(b));
    }
    let ids: BTreeSet<&TaskId> = tasks.iter().map(|task| &task.id).collect();
    assert!(ids.len() > 190, "{} of 200 tasks differ", ids.len());
    let hex = tasks[0].id.0.strip_prefix("countdown/").unwrap();
    assert!(hex.len() == 16 && hex.chars().all(|c| c.is_ascii_hexdigit()));
}

#[test]
fn a_puzzle_that_comes_twice_is_the_same_task_with_the_same_solution() {
    let small = json!({"numbers": {"min": 3, "max": 3}, "values": {"min": 1, "max": 8}});
    let tasks = generator(small).tasks(1, 3000).unwrap().tasks;
    let mut known: BTreeMap<&TaskId, &Task> = BTreeMap::new();
    for task in &tasks {
        assert_eq!(*known.entry(&task.id).or_insert(task), task);
    }
    assert!(known.len() < tasks.len(), "none came twice");
}

#[test]
fn a_cell_that_yields_nothing_is_an_error_that_names_the_nearest_value() {
    let error = |config: Value| generator(config).tasks(0, 3).unwrap_err().to_string();
    let sums = json!({"numbers": {"min": 2, "max": 2}, "operations": {"min": 1, "max": 1}, "operators": ["+"],
        "values": {"min": 1, "max": 5}, "target": {"min": 50, "max": 60}});
    let said = error(sums);
    assert!(said.starts_with("target.min: no instance of the cell `numbers=2 operations=1`"), "{said}");
    assert!(said.ends_with("nearest: 10"), "{said}");
    let too_high = error(json!({"values": {"min": 500, "max": 600}, "operators": ["+"]}));
    assert!(too_high.starts_with("target.max: "), "{too_high}");
    let nothing = error(json!({"values": {"min": 7, "max": 7}, "operators": ["-"]}));
    assert!(nothing.starts_with("operations.max: "), "{nothing}");
}

#[test]
fn a_foreign_task_is_refused_by_name() {
    let generator = generator(Value::Null);
    let mut task = generator.tasks(3, 1).unwrap().tasks.remove(0);
    task.truth = json!({"grid": []});
    let error = generator.environment().reset(&task, 0).unwrap_err().to_string();
    assert!(error.contains(&task.id.0) && generator.demonstrate(&task).is_none(), "{error}");
    assert!(generator.draw(&task, None).contains(&task.id.0));
}

#[test]
fn a_drawing_shows_the_puzzle_and_what_became_of_the_answer() {
    let generator = generator(json!({"prompt": "short"}));
    let task = &generator.tasks(3, 1).unwrap().tasks[0];
    assert!(task.prompt[0].content.starts_with("Numbers "));
    let solved = generator.draw(task, Some(&generator.demonstrate(task).unwrap().content));
    assert!(solved.ends_with("solved"), "{solved}");
    assert!(generator.draw(task, Some("1 +")).contains("Not an expression"));
}
