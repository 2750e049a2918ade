//! Associative recall: what tasks ask is what their prompts say, checked by reading the prompts again.

use std::collections::BTreeMap;

use burnish_core::Message;
use burnish_env::{Generator, Step, build};
use proptest::prelude::*;
use serde_json::{Value, json};

fn generator(config: &Value) -> Box<dyn Generator> {
    build("associative", config).unwrap()
}

/// What each key is bound to in the end, read from the prompt alone.
fn bindings(prompt: &str, key_parts: usize) -> (BTreeMap<String, String>, String) {
    let (written, first) = prompt.split_once(';').unwrap();
    let mut bound: BTreeMap<String, String> = BTreeMap::new();
    for binding in written.split(',') {
        let (key, value) = binding.split_at(key_parts);
        let old = bound.get(key).cloned().unwrap_or_else(|| value.to_owned());
        let new = value.chars().zip(old.chars()).map(|(new, old)| if new == '-' { old } else { new });
        bound.insert(key.to_owned(), new.collect());
    }
    (bound, first.to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn demonstrated_episodes_recall_what_the_prompt_says(
        pairs in 1_usize..40, queries in 1_usize..40, rewrites in 0_usize..40,
        key_parts in 2_usize..4, value_parts in 1_usize..4, parts_kept in 0_usize..3, seed: u64,
    ) {
        let config = json!({
            "pairs": pairs, "queries": queries.min(pairs), "rewrites": rewrites.min(pairs), "letters": 7,
            "key_parts": key_parts, "value_parts": value_parts, "parts_kept": parts_kept.min(value_parts - 1),
        });
        let generator = generator(&config);
        let tasks = generator.tasks(seed, 3).unwrap().tasks;
        prop_assert_eq!(&generator.tasks(seed, 3).unwrap().tasks, &tasks);
        for task in &tasks {
            let episode = generator.demonstrations().unwrap().demonstrate_episode(task).unwrap();
            prop_assert_eq!(episode.len(), 2 * queries.min(pairs));
            let (bound, first) = bindings(&episode[0].content, key_parts);
            prop_assert_eq!(bound.len(), pairs);
            prop_assert_eq!(episode[0].content.split(',').count(), pairs + rewrites.min(pairs));
            let mut asked = vec![first];
            asked.extend(episode.iter().step_by(2).skip(1).map(|message| message.content.clone()));
            let answers = episode.iter().skip(1).step_by(2);
            let mut environment = generator.environment();
            environment.reset(task, 0).unwrap();
            for (at, (key, answer)) in asked.iter().zip(answers).enumerate() {
                prop_assert_eq!(&answer.content, &bound[key]);
                let next = environment.step(answer).unwrap();
                match asked.get(at + 1) {
                    Some(key) => prop_assert_eq!(next, Step::Continue(vec![Message::user(key)])),
                    None => prop_assert_eq!(next, Step::Done),
                }
            }
            let verdict = environment.verify().unwrap();
            prop_assert!(verdict.success && verdict.rewards["recall"] == 1.0);
            asked.sort();
            asked.dedup();
            prop_assert_eq!(asked.len(), queries.min(pairs));
        }
    }
}

#[test]
fn wrong_answers_cost_their_share_and_say_where() {
    let generator = generator(&json!({"pairs": 6, "queries": 4, "rewrites": 3}));
    let task = generator.tasks(5, 1).unwrap().tasks.remove(0);
    let episode = generator.demonstrations().unwrap().demonstrate_episode(&task).unwrap();
    let mut environment = generator.environment();
    environment.reset(&task, 0).unwrap();
    for (turn, answer) in episode.iter().skip(1).step_by(2).enumerate() {
        let said = if turn == 2 { "no idea".to_owned() } else { format!(" {}\n", answer.content) };
        environment.step(&Message::assistant(said)).unwrap();
    }
    let verdict = environment.verify().unwrap();
    assert_eq!((verdict.rewards["recall"], verdict.success, verdict.error_turn), (0.75, false, Some(2)));
    assert!(verdict.feedback.unwrap().contains("was bound to"));
    // An episode that ends early lacks the rest.
    environment.reset(&task, 0).unwrap();
    environment.step(&episode[1]).unwrap();
    let verdict = environment.verify().unwrap();
    assert_eq!((verdict.rewards["recall"], verdict.error_turn), (0.25, Some(1)));
    let flags: Vec<&str> = verdict.flags.keys().map(String::as_str).collect();
    assert!(flags.iter().all(|flag| ["kept_right", "rewritten_right"].contains(flag)) && !flags.is_empty());
}

#[test]
fn contradictions_are_named_with_the_nearest_value() {
    let problem = |config: Value| build("associative", &config).map(drop).unwrap_err().to_string();
    assert_eq!(
        problem(json!({"pairs": 30})),
        "pairs: 30 is above the number of keys, letters to the power of key_parts, which is 26; nearest: 26"
    );
    assert_eq!(problem(json!({"queries": 9})), "queries: 9 is above pairs, which is 8; nearest: 8");
    assert_eq!(problem(json!({"rewrites": 9})), "rewrites: 9 is above pairs, which is 8; nearest: 8");
    assert!(problem(json!({"parts_kept": 1})).starts_with("parts_kept: 1 is above value_parts less one"));
    assert!(problem(json!({"digits": 1})).starts_with("digits: 1 is out of range"));
    assert!(problem(json!({"key_parts": 2, "pairs": 600})).starts_with("pairs: 600 is out of range"));
}
