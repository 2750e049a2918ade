//! Timed facts: an independent search finds one gold answer or none, exact shares, and the rewards of fixed policies.

use std::collections::{BTreeMap, BTreeSet};

use burnish_core::{Message, Task, Verdict, settings};
use burnish_env::timed_facts::TimedFacts;
use burnish_env::{Demonstrations, EnvError, Environment, Generator};
use proptest::prelude::*;
use serde_json::{Value, json};

fn generator(config: Value) -> TimedFacts {
    TimedFacts::new(settings::read(&config).unwrap()).unwrap()
}

fn judged(environment: &mut dyn Environment, task: &Task, answer: &str) -> Verdict {
    environment.reset(task, 0).unwrap();
    environment.step(&Message::assistant(answer)).unwrap();
    environment.verify().unwrap()
}

fn formatted(answer: &str) -> String {
    format!("<think>\n?\n</think>\n\n<answer>\n{answer}\n</answer>")
}

fn total(verdict: &Verdict) -> f64 {
    verdict.total(&BTreeMap::new()).unwrap()
}

/// Everybody who answers the question, read from the prompt's text alone, year by year.
fn golds_of_prompt(prompt: &str) -> BTreeSet<String> {
    let mut lines: Vec<Vec<&str>> = prompt.lines().map(|line| line.split(' ').collect()).collect();
    let question = lines.pop().unwrap();
    let year = |text: &str| text.trim_end_matches('?').parse::<u32>().unwrap();
    let history: Vec<(u32, u32, &str)> = lines
        .iter()
        .filter(|fact| fact[0] == question[0] && fact[1] == question[1])
        .map(|fact| (year(fact[3]), year(fact[5]), fact[6]))
        .collect();
    let holders = |year: u32| -> BTreeSet<&str> {
        history.iter().filter(|(from, to, _)| (*from..=*to).contains(&year)).map(|fact| fact.2).collect()
    };
    let found: BTreeSet<&str> = match question[2] {
        "in" => holders(year(question[3])),
        "between" => (year(question[3])..=year(question[5]))
            .map(holders)
            .reduce(|all, some| all.intersection(&some).copied().collect())
            .unwrap(),
        "after" => {
            let person = question[3].trim_end_matches('?');
            let last = (0..10_000).rev().find(|year| holders(*year).contains(person));
            last.and_then(|last| (last + 1..10_000).map(holders).find(|holders| !holders.is_empty()))
                .unwrap_or_default()
        }
        other => panic!("{other}"),
    };
    found.into_iter().map(str::to_owned).collect()
}

/// Configurations that are allowed.
fn config() -> impl Strategy<Value = Value> {
    (1usize..5, 2usize..5, 0usize..3, 0.0f64..=0.9, 0.0f64..=1.0, 0.0f64..=1.0, 0u32..30).prop_map(
        |(relations, each, more, unanswerable, unknown, hard, years)| {
            let facts = relations * each + more.min(relations - 1);
            let span = 4 * facts.div_ceil(relations) as u32;
            json!({
                "facts": facts, "relations": relations, "unanswerable": unanswerable, "unknown": unknown, "hard": hard,
                "years": {"first": 1900, "last": 1899 + span + years}, "people": 16, "entities": 3, "roles": 2,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_question_has_the_gold_that_its_label_says(config in config(), seed: u64) {
        let generator = generator(config.clone());
        let mut environment = generator.environment();
        let set = generator.tasks(seed, 50).unwrap();
        for task in &set.tasks {
            let golds = golds_of_prompt(&task.prompt[0].content);
            let is_answerable = task.labels["answerable"] == "yes";
            prop_assert_eq!(golds.len(), usize::from(is_answerable), "{}", task.prompt[0].content);
            // The right answer earns everything, and so does the demonstration; any other person earns only the form.
            let best = if is_answerable { 2.5 } else { 1.5 };
            let right = golds.first().map_or("No Answer", String::as_str);
            let shown = generator.demonstrate(task).unwrap().content;
            let reasoning = generator.hints().unwrap().reasoning(task).unwrap();
            prop_assert!(shown.starts_with(&reasoning) && shown.contains("<answer>"));
            prop_assert!(!reasoning.split_whitespace().any(|word| word == right), "{}", reasoning);
            for answer in [shown, formatted(right)] {
                let verdict = judged(&mut *environment, task, &answer);
                prop_assert!(verdict.success && total(&verdict) == best, "{:?}", verdict);
            }
            let wrong = judged(&mut *environment, task, &formatted("Nobody"));
            prop_assert!(!wrong.success && total(&wrong) == 0.5);
        }
    }

    #[test]
    fn shares_are_met_exactly_and_no_answer_earns_the_share_and_the_form(config in config(), seed: u64, count in 1usize..150) {
        let generator = generator(config.clone());
        let mut environment = generator.environment();
        let tasks = generator.tasks(seed, count).unwrap().tasks;
        let with = |label: &str, value: &str| tasks.iter().filter(|task| task.labels[label] == value).count();
        let share = |key: &str| config[key].as_f64().unwrap();
        let unanswerable = with("answerable", "no");
        prop_assert_eq!(unanswerable as f64, (share("unanswerable") * count as f64).round());
        // Hard questions are rounded in each of three groups.
        prop_assert!((with("difficulty", "hard") as f64 - share("hard") * count as f64).abs() <= 1.5);
        let verdicts: Vec<Verdict> =
            tasks.iter().map(|task| judged(&mut *environment, task, &formatted("No Answer"))).collect();
        let earned: f64 = verdicts.iter().map(total).sum();
        prop_assert_eq!(earned, unanswerable as f64 + 0.5 * count as f64);
        for (task, verdict) in tasks.iter().zip(&verdicts) {
            prop_assert!(verdict.flags["abstained"]);
            prop_assert_eq!(verdict.flags["answerable"], task.labels["answerable"] == "yes");
            prop_assert_eq!(verdict.success, task.labels["answerable"] == "no");
        }
    }
}

#[test]
fn the_same_configuration_seed_and_count_give_the_same_bytes_and_prefixes_agree() {
    let generator = generator(json!({}));
    let bytes = |seed| serde_json::to_string(&generator.tasks(seed, 60).unwrap()).unwrap();
    assert_eq!(bytes(3), bytes(3));
    assert_ne!(bytes(3), bytes(4));
    assert_eq!(generator.tasks(3, 60).unwrap().tasks[..20], generator.tasks(3, 20).unwrap().tasks[..]);
    let ids: BTreeSet<_> = generator.tasks(3, 500).unwrap().tasks.into_iter().map(|task| task.id).collect();
    assert_eq!(ids.len(), 500);
}

#[test]
fn cells_add_up_and_every_kind_is_there() {
    let set = generator(json!({"unanswerable": 0.5, "unknown": 0.5, "hard": 0.5})).tasks(1, 400).unwrap();
    assert_eq!(set.cells.iter().map(|cell| cell.made).collect::<Vec<_>>(), [50, 50, 50, 50, 100, 100]);
    for cell in &set.cells {
        assert_eq!(cell.drawn, cell.made + cell.dropped.values().sum::<usize>(), "{cell:?}");
    }
    for kind in ["in", "between", "after"] {
        assert!(set.tasks.iter().any(|task| task.labels["question"] == kind), "{kind}");
    }
}

#[test]
fn ablations_of_the_reward_change_what_they_name() {
    let tasks = |config: Value| {
        let generator = generator(config);
        let tasks = generator.tasks(5, 40).unwrap().tasks;
        let mut environment = generator.environment();
        let earn = |task: &Task| {
            total(&judged(&mut *environment, task, &generator.demonstrate(task).unwrap().content))
        };
        tasks.iter().map(earn).fold(0.0, f64::max)
    };
    assert_eq!(tasks(json!({"reward": {"measure": "rouge"}})), 1.5);
    assert_eq!(tasks(json!({"reward": {"measure": "exact", "format": 0.0}})), 1.0);
    assert_eq!(tasks(json!({"reward": {"abstention": 4.0}})), 4.5);
}

#[test]
fn thoughts_that_a_chat_format_keeps_apart_count_for_the_form() {
    let generator = generator(json!({"unanswerable": 0.9}));
    let task = generator.tasks(1, 1).unwrap().tasks.remove(0);
    let mut environment = generator.environment();
    environment.reset(&task, 0).unwrap();
    let mut message = Message::assistant("<answer>\nNo Answer\n</answer>");
    message.reasoning_content = Some("hm\n".to_owned());
    environment.step(&message).unwrap();
    assert!(environment.verify().unwrap().flags["formatted"]);
}

#[test]
fn a_right_answer_succeeds_silence_does_not_and_foreign_things_are_refused() {
    let generator = generator(json!({}));
    let mut task = generator.tasks(1, 1).unwrap().tasks.remove(0);
    let mut first = generator.environment();
    assert!(matches!(first.verify(), Err(EnvError::Failed(_))));
    first.reset(&task, 0).unwrap();
    let mut second = generator.environment();
    second.reset(&task, 0).unwrap();
    second.step(&generator.demonstrate(&task).unwrap()).unwrap();
    assert!(second.verify().unwrap().success);
    assert!(!first.verify().unwrap().success);
    assert!(generator.draw(&task, Some("Bob")).contains("judged: answer 0, format 0; There is no answer"));
    task.truth = json!({"facts": 3});
    assert!(matches!(second.reset(&task, 0), Err(EnvError::Foreign(_))));
    assert!(
        generator.demonstrate(&task).is_none()
            && generator.draw(&task, None).contains("is not one of timed_facts")
    );
}
