//! Chains as a whole: shares, exact inversion, demonstrations, skills, and the cycle of reversal and back.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Task, TaskId, Verdict, settings};
use burnish_env::chains::{
    Chains, Component, Config, Direction, Operator, Problem, TaskKind, Truth, judge, language,
};
use burnish_env::{Demonstrations, Generator, Hints, Reversible, Skills, build};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

fn generator(config: &Value) -> Chains {
    Chains::new(settings::read(config).unwrap()).unwrap()
}

/// All kinds, both directions, three languages, every component.
fn mixed() -> Value {
    json!({
        "kinds": {"chain": 0.5, "recall": 0.2, "memorised": 0.3},
        "operations": ["add", "subtract", "multiply", "divide"],
        "reverse": 0.4,
        "facts": {"seed": 7, "count": 40, "values": {"min": 1, "max": 60}},
        "languages": [{"name": "en", "share": 0.6}, {"name": "hi", "share": 0.3}, {"name": "bn", "share": 0.1}],
        "rewards": Component::ALL.map(Component::name),
        "style_correlation": 1.0,
    })
}

fn with(mut config: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn truth(task: &Task) -> Truth {
    Truth::of(task).unwrap()
}

fn verdict(generator: &dyn Generator, task: &Task, answer: &str) -> Verdict {
    let mut environment = generator.environment();
    assert_eq!(environment.reset(task, 0).unwrap(), task.prompt);
    environment.step(&burnish_core::Message::assistant(answer.to_owned())).unwrap();
    environment.verify().unwrap()
}

fn count(tasks: &[Task], label: &str) -> BTreeMap<String, usize> {
    tasks.iter().fold(BTreeMap::new(), |mut counts, task| {
        *counts.entry(task.labels[label].clone()).or_default() += 1;
        counts
    })
}

/// The value of a chain by independent arithmetic: signed integers, exact division only.
fn value(first: i64, links: &[(Operator, i64)]) -> Option<i64> {
    links.iter().try_fold(first, |value, &(operator, next)| match operator {
        Operator::Add => Some(value + next),
        Operator::Subtract => Some(value - next),
        Operator::Multiply => Some(value * next),
        Operator::Divide => (next != 0 && value % next == 0).then(|| value / next),
    })
}

/// Every integer from -500 to 2000 that makes the masked operand of a reverse chain right.
fn fillings(problem: &Problem) -> Vec<i64> {
    let Direction::Reverse { masked, stated } = problem.direction else { panic!("{problem:?}") };
    let fits = |filling: &i64| {
        let mut values: Vec<i64> = problem.operands.iter().map(|operand| operand.value as i64).collect();
        values[masked] = *filling;
        let links: Vec<_> = problem.operations.iter().copied().zip(values[1..].iter().copied()).collect();
        value(values[0], &links) == Some(stated as i64)
    };
    (-500..=2000).filter(fits).collect()
}

fn configs() -> impl Strategy<Value = Value> {
    let knobs = (1u64..=3, 0u64..=2, 1usize..16, 10u64..200, 0u64..1000, 0.0f64..=1.0, 1usize..=6);
    knobs.prop_map(|(least, more, operations, most, facts_seed, reverse, languages)| {
        let all = ["add", "subtract", "multiply", "divide"];
        let mut chosen: Vec<&str> =
            (0..4).filter(|bit| operations >> bit & 1 == 1).map(|bit| all[bit]).collect();
        // Sums can always be drawn where differences can, and vice versa; products and quotients run out.
        for always in ["add", "subtract"] {
            if !chosen.contains(&always) {
                chosen.push(always);
            }
        }
        let languages: Vec<Value> =
            (0..languages).map(|i| json!({"name": format!("l{i}"), "share": 1.0 / (i + 1) as f64})).collect();
        json!({
            "steps": {"min": least, "max": least + more},
            "operations": chosen,
            "results": {"min": 0, "max": most},
            "kinds": {"chain": 0.6, "recall": 0.1, "memorised": 0.3},
            "facts": {"seed": facts_seed, "count": 12, "values": {"min": 1, "max": 15}},
            "reverse": reverse,
            "languages": languages,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_inverse_is_unique_and_every_demonstration_is_right(config in configs(), seed: u64) {
        let generator = generator(&config);
        let config: Config = serde_json::from_value(generator.config()).unwrap();
        for task in generator.tasks(seed, 30).unwrap().tasks {
            let Truth { problem, answer, recovers } = truth(&task);
            prop_assert_eq!(answer, Some(recovers));
            if problem.kind != TaskKind::Recall && problem.direction != Direction::Forward {
                prop_assert_eq!(fillings(&problem), [recovers as i64], "{:?}", problem);
            }
            let steps = problem.operations.len() as u64;
            prop_assert!(problem.kind == TaskKind::Recall || (config.steps.min..=config.steps.max).contains(&steps));
            let text = generator.demonstrate(&task).unwrap().content;
            let finding = judge(&truth(&task), &text);
            prop_assert!(finding.asked().is_all() && finding.steps() == 1.0 && finding.length() == 1.0, "{text}");
            // Work never leaves the range of results, forward or in reverse; its last step gives the answer.
            let read = burnish_env::chains::read(&text);
            prop_assert_eq!(read.steps.len() as u64, steps);
            for step in read.steps.iter().rev().skip(1) {
                prop_assert!(config.results.contains(step.result), "{step}");
            }
            prop_assert!(problem.result().is_none_or(|result| steps == 0 || config.results.contains(result)));
        }
    }

    #[test]
    fn every_share_is_met_up_to_rounding(config in configs(), seed: u64, n in 1usize..150) {
        let generator = generator(&config);
        let config: Config = serde_json::from_value(generator.config()).unwrap();
        let tasks = generator.tasks(seed, n).unwrap().tasks;
        let near = |label: &str, name: &str, share: f64, of: usize| {
            let found = count(&tasks, label).get(name).copied().unwrap_or(0) as f64;
            (found - share * of as f64).abs() < 1.0 + 1e-6
        };
        let sum: f64 = config.languages.iter().map(|language| language.share).sum();
        for language in &config.languages {
            prop_assert!(near("language", &language.name, language.share / sum, n));
        }
        prop_assert!(near("direction", "reverse", config.reverse, n));
        prop_assert!(near("kind", "chain", 0.6, n) && near("kind", "recall", 0.1, n));
        let chains = n - count(&tasks, "kind").get("recall").copied().unwrap_or(0);
        let steps = config.steps.max - config.steps.min + 1;
        for step in config.steps.min..=config.steps.max {
            prop_assert!(near("steps", &step.to_string(), 1.0 / steps as f64, chains));
        }
    }

    #[test]
    fn there_and_back_is_the_same_task(config in configs(), seed: u64, wrong in 0u64..200) {
        let generator = generator(&config);
        for task in generator.tasks(seed, 20).unwrap().tasks {
            let Truth { answer, .. } = truth(&task);
            let right = answer.unwrap();
            let demonstration = generator.demonstrate(&task).unwrap().content;
            let turned = generator.reverse(&task, &demonstration).unwrap();
            prop_assert_eq!(&turned, &generator.reverse(&task, &right.to_string()).unwrap());
            prop_assert_ne!(&turned.labels["direction"], &task.labels["direction"]);
            let mut same_labels = turned.labels.clone();
            same_labels.insert("direction".into(), task.labels["direction"].clone());
            prop_assert_eq!(&same_labels, &task.labels);
            // A right answer closes the cycle: the reversed task recovers what was masked or stated.
            let back = generator.demonstrate(&turned).unwrap().content;
            prop_assert!(verdict(&generator, &turned, &back).flags["recovered"]);
            prop_assert_eq!(&generator.reverse(&turned, &back).unwrap(), &task);
            // A wrong answer is stated all the same, and a right answer to that task does not recover what was masked.
            if wrong != right {
                let led_astray = generator.reverse(&task, &format!(">{wrong}")).unwrap();
                let Truth { answer, recovers, .. } = truth(&led_astray);
                prop_assert_eq!(recovers, truth(&turned).recovers);
                prop_assert_ne!(answer, Some(recovers));
                let shows_wrong = language::read(&led_astray.prompt[0].content).contains(&wrong.to_string());
                prop_assert!(shows_wrong, "{}", led_astray.prompt[0].content);
                prop_assert_eq!(generator.demonstrate(&led_astray).is_some(), answer.is_some());
            }
            prop_assert!(generator.reverse(&task, "no number").is_none());
        }
    }

    #[test]
    fn no_answer_makes_the_verifier_panic(answer in prop_oneof![any::<String>(), "[0-9+*/=?>@ \n-]{0,60}"]) {
        let generator = generator(&mixed());
        for task in generator.tasks(1, 6).unwrap().tasks {
            let verdict = verdict(&generator, &task, &answer);
            prop_assert!(verdict.rewards.values().all(|reward| (0.0..=1.0).contains(reward)));
            generator.draw(&task, Some(&answer));
            generator.reverse(&task, &answer);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let generator = generator(&mixed());
    let bytes = |seed| serde_json::to_string(&generator.tasks(seed, 60).unwrap()).unwrap();
    assert_eq!(bytes(5), bytes(5));
    assert_ne!(bytes(5), bytes(6));
}

#[test]
fn shares_are_exact_where_they_divide_the_count() {
    let tasks = generator(&mixed()).tasks(3, 1000).unwrap().tasks;
    let counts = |label| count(&tasks, label).into_values().collect::<Vec<_>>();
    assert_eq!(
        count(&tasks, "kind"),
        BTreeMap::from([("chain", 500), ("memorised", 300), ("recall", 200)].map(|(k, n)| (k.to_owned(), n)))
    );
    assert_eq!(counts("language"), [100, 600, 300]);
    assert_eq!(counts("direction"), [600, 400]);
    assert_eq!(counts("steps"), [200, 267, 267, 266]);
    // The shares hold approximately within each language too.
    for language in ["en", "hi", "bn"] {
        let some: Vec<Task> =
            tasks.iter().filter(|task| task.labels["language"] == language).cloned().collect();
        let reverse = count(&some, "direction")["reverse"] as f64 / some.len() as f64;
        let recall = count(&some, "kind")["recall"] as f64 / some.len() as f64;
        assert!(
            (reverse - 0.4).abs() < 0.05 && (recall - 0.2).abs() < 0.05,
            "{language}: {reverse} {recall}"
        );
    }
}

#[test]
fn labels_tell_how_much_of_a_language_there_is() {
    let share = |name: &str, share: f64| json!({"name": name, "share": share});
    let languages = json!([share("a", 0.6), share("b", 0.1), share("c", 0.02), {"name": "d", "share": 0.02, "resource": "high"}]);
    let tasks = generator(&json!({"languages": languages})).tasks(0, 300).unwrap().tasks;
    let resources: BTreeSet<(String, String)> =
        tasks.iter().map(|task| (task.labels["language"].clone(), task.labels["resource"].clone())).collect();
    let expected = [("a", "high"), ("b", "mid"), ("c", "low"), ("d", "high")];
    assert_eq!(resources, BTreeSet::from(expected.map(|(one, other)| (one.to_owned(), other.to_owned()))));
}

#[test]
fn an_id_stands_for_one_content() {
    let generator = generator(&with(mixed(), json!({"skill_shown": 0.3, "skill_errors": 0.3})));
    let mut known: BTreeMap<TaskId, Task> = BTreeMap::new();
    let mut contents: BTreeMap<String, TaskId> = BTreeMap::new();
    for seed in 0..4 {
        for task in generator.tasks(seed, 1000).unwrap().tasks {
            let content = format!("{}\n{}", task.prompt[0].content, task.truth);
            assert_eq!(contents.entry(content).or_insert_with(|| task.id.clone()), &task.id);
            assert_eq!(known.entry(task.id.clone()).or_insert_with(|| task.clone()).truth, task.truth);
        }
    }
    assert_eq!(known.len(), contents.len());
    // A repeated task is drawn again, so that chains, of which there are many, occur once.
    let tasks = generator.tasks(9, 1000).unwrap().tasks;
    let chains: Vec<&TaskId> =
        tasks.iter().filter(|task| task.labels["steps"] == "3").map(|task| &task.id).collect();
    assert_eq!(chains.iter().collect::<BTreeSet<_>>().len(), chains.len());
}

#[test]
fn prompts_are_in_their_language_and_do_not_state_facts() {
    let generator = generator(&mixed());
    for task in generator.tasks(2, 400).unwrap().tasks {
        let Truth { problem, .. } = truth(&task);
        let prompt = &task.prompt[0].content;
        assert!(language::is_in(problem.language, prompt), "{prompt}");
        let plain = language::read(prompt);
        let (work, _) = plain.split_once('=').unwrap();
        if problem.kind == TaskKind::Memorised {
            let operands = work.split([' ', '+', '-', '*', '/']).filter(|part| !part.is_empty());
            assert!(operands.clone().all(|part| part.starts_with('@') || part == "?"), "{plain}");
        }
        assert_eq!(
            plain.contains('@'),
            problem.operands.iter().enumerate().any(|(index, operand)| {
                let is_masked =
                    matches!(problem.direction, Direction::Reverse { masked, .. } if masked == index);
                operand.name.is_some() && (!is_masked || problem.kind == TaskKind::Recall)
            }),
            "{plain}"
        );
    }
}

#[test]
fn a_demonstration_earns_every_component_in_every_language_kind_and_direction() {
    let languages: Vec<Value> = (0..6).map(|i| json!({"name": format!("l{i}"), "share": 1.0})).collect();
    let generator = generator(&with(mixed(), json!({"languages": languages, "reverse": 0.5})));
    let tasks = generator.tasks(8, 400).unwrap().tasks;
    let mut cells = BTreeSet::new();
    for task in &tasks {
        let text = generator.demonstrate(task).unwrap().content;
        let verdict = verdict(&generator, task, &text);
        assert!(verdict.success && verdict.feedback.is_none() && verdict.error_turn.is_none());
        assert_eq!(verdict.rewards.len(), Component::ALL.len());
        assert!(verdict.rewards.values().all(|reward| *reward == 1.0), "{text}: {:?}", verdict.rewards);
        assert!(verdict.flags["steps"] && verdict.flags["all"] && verdict.flags["recovered"]);
        cells.insert(["language", "kind", "direction"].map(|label| task.labels[label].clone()));
        let work = generator.reasoning(task);
        assert_eq!(work.is_none(), task.labels["kind"] == "recall");
        if let Some(work) = work {
            let rest = text.strip_prefix(&work).unwrap();
            assert!(work.ends_with('\n') && language::read(rest).starts_with('>') && !rest.contains('\n'));
            assert_eq!(work.lines().count().to_string(), task.labels["steps"]);
        }
    }
    assert_eq!(cells.len(), 6 * 3 * 2);
}

#[test]
fn the_share_of_demonstrations_asked_for_is_wrong_in_the_answer_only() {
    let tasks = generator(&mixed()).tasks(4, 2000).unwrap().tasks;
    let moderate = generator(&with(mixed(), json!({"demonstration_errors": 0.3})));
    let mut wrong = 0;
    for task in &tasks {
        let text = moderate.demonstrate(task).unwrap().content;
        assert_eq!(text, moderate.demonstrate(task).unwrap().content);
        let verdict = verdict(&moderate, task, &text);
        assert!(verdict.flags["format"] && verdict.flags["language"]);
        assert!(moderate.reasoning(task).is_none_or(|work| text.starts_with(&work)));
        if !verdict.success {
            wrong += 1;
            assert!(task.labels["steps"] == "0" || verdict.rewards["steps"] < 1.0, "{text}");
        }
    }
    // The standard error of the share is 0.01.
    assert!((wrong as f64 / 2000.0 - 0.3).abs() < 0.04, "{wrong}");
    let never = generator(&with(mixed(), json!({"demonstration_errors": 1.0})));
    for task in &tasks {
        let text = never.demonstrate(task).unwrap().content;
        assert!(!verdict(&never, task, &text).success, "{text}");
    }
}

#[test]
fn a_skill_names_the_operations_in_their_order_with_the_values_of_names() {
    let generator = generator(&mixed());
    for task in generator.tasks(6, 300).unwrap().tasks {
        let Truth { problem, .. } = truth(&task);
        let skill = generator.skill(&task).unwrap();
        assert!(language::is_in(problem.language, &skill));
        assert!(!task.prompt[0].content.contains(&skill), "{skill} is in the prompt");
        let skill = language::read(&skill);
        if problem.kind == TaskKind::Recall {
            let fact = problem.operands[0];
            assert_eq!(skill, format!("@{}={}", fact.name.unwrap(), fact.value));
            continue;
        }
        // The work has the same operations; the results of earlier steps are not revealed.
        let text = language::read(&generator.demonstrate(&task).unwrap().content);
        let moves: Vec<&str> = skill.split(' ').collect();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(moves.len() + 1, lines.len());
        for (told, line) in moves.iter().zip(&lines) {
            let work = line.split('=').next().unwrap();
            let sign = |text: &str| text.chars().find(|sign| "+-*/".contains(*sign)).unwrap();
            assert_eq!(sign(told), sign(work));
            for (part, number) in told.split(sign(told)).zip(work.split(sign(work))) {
                assert!(part == "?" || part == number, "{skill}: {text}");
            }
        }
        assert!(!moves[0].contains('?'), "{skill}");
    }
}

#[test]
fn the_share_of_skills_asked_for_is_wrong() {
    let right = generator(&mixed());
    let tasks = right.tasks(4, 2000).unwrap().tasks;
    let corrupted = generator(&with(mixed(), json!({"skill_errors": 0.3})));
    let differ = tasks.iter().filter(|task| corrupted.skill(task) != right.skill(task)).count();
    assert!((differ as f64 / 2000.0 - 0.3).abs() < 0.04, "{differ}");
    let all = generator(&with(mixed(), json!({"skill_errors": 1.0})));
    assert!(tasks.iter().all(|task| all.skill(task) != right.skill(task)));
}

#[test]
fn prompts_show_the_skill_in_the_share_asked_for() {
    let generator = generator(&with(mixed(), json!({"skill_shown": 0.25})));
    let tasks = generator.tasks(4, 400).unwrap().tasks;
    let shown =
        |task: &&Task| task.prompt[0].content.ends_with(&format!("\n{}", generator.skill(task).unwrap()));
    assert_eq!(tasks.iter().filter(shown).count(), 100);
    assert_eq!(tasks.iter().filter(|task| task.prompt[0].content.contains('\n')).count(), 100);
}

#[test]
fn prompts_show_a_draft_and_the_task_again_in_the_share_asked_for() {
    let generator = generator(&json!({"steps": {"min": 2, "max": 3}, "draft_shown": 0.5}));
    let tasks = generator.tasks(4, 400).unwrap().tasks;
    let mut drafts = Vec::new();
    for task in &tasks {
        let lines: Vec<&str> = task.prompt[0].content.lines().collect();
        let (first, last) = (lines[0], lines[lines.len() - 1]);
        assert_eq!(first, last);
        if lines.len() > 1 {
            drafts.push((task, lines[1..lines.len() - 1].join("\n")));
        }
    }
    assert_eq!(drafts.len(), 200);
    // Demonstrations are right here, so a draft that does not begin one is a wrong one. Short drafts end before their
    // slip.
    let right = |(task, draft): &&(&Task, String)| {
        generator.demonstrate(task).unwrap().content.starts_with(draft.as_str())
    };
    let right = drafts.iter().filter(right).count();
    assert!((110..170).contains(&right), "{right}");
    assert!(drafts.iter().all(|(_, draft)| !draft.is_empty()));
    let lengths: BTreeSet<usize> = drafts.iter().map(|(_, draft)| draft.chars().count()).collect();
    assert!(lengths.len() > 12, "{lengths:?}");
}

#[test]
fn prompts_show_several_whole_attempts() {
    let generator = generator(&json!({"steps": {"min": 2, "max": 2}, "draft_shown": 1.0, "drafts": 3}));
    let mut right = 0;
    for task in &generator.tasks(4, 100).unwrap().tasks {
        let lines: Vec<&str> = task.prompt[0].content.lines().collect();
        // The task, three attempts of two steps and an answer, the task.
        assert_eq!(lines.len(), 11, "{lines:?}");
        assert_eq!(lines[0], lines[10]);
        let demonstration = generator.demonstrate(task).unwrap().content;
        right += lines[1..10].chunks(3).filter(|attempt| attempt.join("\n") == demonstration).count();
    }
    // 150 expected of 300; the standard deviation is about 9.
    assert!((115..185).contains(&right), "{right}");
    for drafts in [0, 17] {
        let error = burnish_env::build("chains", &json!({"drafts": drafts})).err().unwrap().to_string();
        assert!(error.contains("drafts") && error.contains("1 to 16"), "{error}");
    }
}

#[test]
fn a_foreign_task_is_refused_by_name() {
    let generator = generator(&mixed());
    let mut task = generator.tasks(3, 1).unwrap().tasks.remove(0);
    task.truth = json!({"grid": []});
    let error = generator.environment().reset(&task, 0).err().unwrap().to_string();
    assert!(error.contains(&task.id.0), "{error}");
    assert!(generator.demonstrate(&task).is_none() && generator.reasoning(&task).is_none());
    assert!(generator.skill(&task).is_none() && generator.reverse(&task, "1").is_none());
    assert!(generator.draw(&task, None).contains(&task.id.0));
}

#[test]
fn a_drawing_shows_the_work_and_what_became_of_the_answer() {
    let generator = generator(&json!({}));
    let task = &generator.tasks(3, 1).unwrap().tasks[0];
    let text = generator.demonstrate(task).unwrap().content;
    let drawn = generator.draw(task, Some(&text));
    assert!(drawn.starts_with(&task.prompt[0].content) && drawn.ends_with("solved"), "{drawn}");
    assert!(generator.draw(task, Some("?")).contains("There is no final answer."));
}

#[test]
fn wrong_configurations_are_errors_that_name_the_key() {
    for (given, said) in [
        (json!({"step": 1}), "step: unknown field"),
        (json!({"steps": {"max": 9}}), "steps.max: 9 is out of range: 1 to 8 are allowed; nearest: 8"),
        (json!({"steps": {"min": 4}}), "steps.max: 3 is below steps.min, which is 4; nearest: 4"),
        (json!({"values": {"min": 0}}), "values.min: 0 is out of range"),
        (json!({"results": {"min": 100}}), "results.max: 99 is below"),
        (json!({"operations": []}), "operations: name at least one of \"add\""),
        (json!({"operations": ["add", "add"]}), "operations: name at least one"),
        (json!({"operations": ["plus"]}), "operations: unknown variant `plus`"),
        (json!({"kinds": {"chain": 0}}), "kinds: no kind has a share above 0"),
        (json!({"kinds": {"recall": -1}}), "kinds.recall: -1 is out of range"),
        (json!({"reverse": 1.5}), "reverse: 1.5 is out of range: 0 to 1 are allowed; nearest: 1"),
        (
            json!({"facts": {"count": 31}}),
            "facts.count: 31 names need as many different values, and facts.values has 30",
        ),
        (json!({"facts": {"sed": 1}}), "facts.sed: unknown field"),
        (json!({"languages": []}), "languages: 0 languages are listed; 1 to 6 are allowed"),
        (json!({"languages": [{"name": "a", "share": 2}]}), "languages.0.share: 2 is out of range"),
        (
            json!({"languages": [{"name": "a", "share": 1}, {"name": "a", "share": 1}]}),
            "languages.1.name: `a` is empty or",
        ),
        (json!({"languages": [{"name": "a", "share": 0}]}), "languages: no language has a share above 0"),
        (json!({"languages": [{"name": "a", "share": 1, "level": 1}]}), "languages: unknown field `level`"),
        (json!({"rewards": []}), "rewards: name at least one of \"answer\", \"format\", \"language\""),
        (json!({"rewards": ["answer", "answer"]}), "rewards: name at least one"),
        (json!({"rewards": ["kindness"]}), "rewards: unknown variant `kindness`"),
        (json!({"style_correlation": -0.1}), "style_correlation: -0.1 is out of range"),
        (json!({"demonstration_errors": 2}), "demonstration_errors: 2 is out of range"),
        (json!({"skill_errors": 2}), "skill_errors: 2 is out of range"),
        (json!({"skill_shown": 2}), "skill_shown: 2 is out of range"),
    ] {
        let error = build("chains", &given).err().unwrap_or_else(|| panic!("{given}")).to_string();
        assert!(error.starts_with(said), "{given}: {error}");
    }
}

#[test]
fn a_cell_that_yields_nothing_is_an_error_that_names_the_key() {
    let config = json!({"operations": ["multiply"], "values": {"min": 9}, "steps": {"min": 2}, "results": {"max": 99}});
    let error = generator(&config).tasks(0, 5).unwrap_err().to_string();
    assert!(error.starts_with("steps.max: no instance of the cell `kind=chain language=0"), "{error}");
    assert!(error.contains("0 to 99"), "{error}");
}

#[test]
fn every_number_has_a_bound_and_its_default_is_within() {
    let generator = generator(&json!({}));
    let config = generator.config();
    for bound in generator.bounds() {
        let value = bound.key.split('.').fold(&config, |table, key| &table[key]).as_f64().unwrap();
        assert!((bound.min..=bound.max).contains(&value) && !bound.help.is_empty(), "{}", bound.key);
    }
}

/// The output of `burnish env show` for the default configuration with these changes.
fn example(changes: &Value) -> String {
    let generator = generator(changes);
    let task = generator.tasks(0, 200).unwrap().tasks.remove(0);
    let said: Vec<String> =
        changes.as_object().unwrap().iter().map(|(key, value)| format!(" '{key}={}'", toml(value))).collect();
    let answer = generator.demonstrate(&task).unwrap().content.replace('\n', "\n           ");
    format!(
        "burnish env show chains{}\n  prompt   {}\n  answer   {answer}\n  skill    {}\n",
        said.concat(),
        task.prompt[0].content,
        generator.skill(&task).unwrap()
    )
}

/// The value as a command-line override.
fn toml(value: &Value) -> String {
    match value {
        Value::Object(table) => {
            let keys: Vec<String> =
                table.iter().map(|(key, value)| format!("{key}={}", toml(value))).collect();
            format!("{{{}}}", keys.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

#[test]
fn the_page_shows_what_is_made_and_names_every_key_and_component() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/environments/chains.md");
    let page = std::fs::read_to_string(path).unwrap();
    let languages = json!([{"name": "plain", "share": 0.0}, {"name": "hindi", "share": 1.0}]);
    let steps = json!({"min": 3, "max": 3});
    let examples = [
        json!({"steps": steps}),
        json!({"steps": steps, "reverse": 1.0}),
        json!({"steps": steps, "languages": languages}),
        json!({"kinds": {"chain": 0.0, "recall": 1.0}}),
        json!({"steps": steps, "kinds": {"chain": 0.0, "memorised": 1.0}, "reverse": 1.0}),
    ];
    let examples = examples.map(|changes| example(&changes)).join("\n");
    assert!(page.contains(&examples), "the page lacks\n{examples}");
    for bound in generator(&json!({})).bounds() {
        let key = bound.key.trim_end_matches(".min").trim_end_matches(".max");
        let row = page.lines().find(|line| line.starts_with(&format!("| `{key}`")));
        let row = row.unwrap_or_else(|| panic!("no row for `{key}`"));
        assert!(row.contains(&format!("{} to {}", bound.min, bound.max)) || bound.key != key, "{row}");
    }
    for component in Component::ALL {
        assert!(page.contains(&format!("| `{}`", component.name())), "{}", component.name());
    }
}
