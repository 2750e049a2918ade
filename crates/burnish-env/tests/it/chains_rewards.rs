//! The rewards of answers to chains: truth tables, intermediate steps, and the correlation of style with format.
#![allow(clippy::unwrap_used, clippy::panic)]

use burnish_core::{Message, Task, Verdict, settings};
use burnish_env::chains::{Chains, Component, language};
use burnish_env::{Demonstrations, Generator, build};
use serde_json::{Value, json};

fn generator(changes: &Value) -> Chains {
    let mut config = json!({
        "steps": {"min": 2, "max": 2},
        "languages": [{"name": "plain", "share": 0.5}, {"name": "other", "share": 0.5}],
        "rewards": Component::ALL.map(Component::name),
    });
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    Chains::new(settings::read(&config).unwrap()).unwrap()
}

fn verdict(generator: &dyn Generator, task: &Task, answer: &str) -> Verdict {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    environment.step(&Message::assistant(answer.to_owned())).unwrap();
    environment.verify().unwrap()
}

/// The text of the task's demonstration, spoilt as requested.
fn spoilt(
    generator: &Chains,
    task: &Task,
    is_right: bool,
    is_well_formed: bool,
    is_in_language: bool,
) -> String {
    let own = usize::from(task.labels["language"] == "other");
    let plain = language::read(&generator.demonstrate(task).unwrap().content);
    let (work, answer) = plain.split_once('>').unwrap();
    let answer: u64 = answer.parse::<u64>().unwrap() + u64::from(!is_right);
    let between = if is_well_formed { "" } else { "+\n" };
    let written = |text: &str| language::write(if is_in_language { own } else { 1 - own }, text);
    // Only one line is in the other language if the text is not in its own.
    language::write(own, work) + &written(&format!("{between}>{answer}"))
}

#[test]
fn all_is_the_product_of_answer_format_and_language() {
    let generator = generator(&json!({}));
    for task in generator.tasks(1, 20).unwrap().tasks {
        for row in 0..8u8 {
            let [answer, format, language] = [row & 1 == 1, row & 2 == 2, row & 4 == 4];
            let text = spoilt(&generator, &task, answer, format, language);
            let verdict = verdict(&generator, &task, &text);
            let one = |it: bool| if it { 1.0 } else { 0.0 };
            let expected =
                [("answer", answer), ("format", format), ("language", language), ("all", row == 7)];
            for (name, holds) in expected {
                assert_eq!(verdict.rewards[name], one(holds), "{name} in row {row}: {text}");
            }
            assert_eq!(verdict.success, answer);
            assert_eq!(verdict.flags["all"], row == 7);
            assert_eq!(verdict.error_turn, (!answer).then_some(0));
            assert_eq!(verdict.feedback.is_none(), row == 7, "{:?}", verdict.feedback);
        }
    }
}

#[test]
fn only_the_components_asked_for_are_in_the_verdict() {
    for component in Component::ALL {
        let generator = generator(&json!({"rewards": [component.name()]}));
        let task = &generator.tasks(1, 1).unwrap().tasks[0];
        let text = generator.demonstrate(task).unwrap().content;
        let rewards = verdict(&generator, task, &text).rewards;
        assert_eq!(rewards.keys().collect::<Vec<_>>(), [component.name()]);
    }
    let default = build("chains", &json!({})).unwrap();
    let task = &default.tasks(1, 1).unwrap().tasks[0];
    assert_eq!(
        verdict(&*default, task, "?").rewards.into_iter().collect::<Vec<_>>(),
        [("answer".to_owned(), 0.0)]
    );
}

#[test]
fn intermediate_steps_are_judged_apart_from_the_answer() {
    let generator = generator(&json!({"languages": [{"name": "plain", "share": 1.0}]}));
    for task in generator.tasks(1, 30).unwrap().tasks {
        let text = generator.demonstrate(&task).unwrap().content;
        let lines: Vec<&str> = text.lines().collect();
        let share = |text: &str| verdict(&generator, &task, text).rewards["steps"];
        let last = lines[2];
        assert_eq!(share(&text), 1.0);
        assert_eq!(share(last), 0.0);
        assert_eq!(share(&format!("{}\n{last}", lines[0])), 0.5);
        // A repeated step counts once; a step of other work does not count at all, even if its arithmetic holds.
        assert_eq!(share(&format!("{0}\n{0}\n{last}", lines[0])), 0.5);
        assert_eq!(share(&format!("{}\n0+0=0\n{last}", lines[0])), 0.5);
        assert_eq!(share(&format!("{text}\n0+0=0")), 2.0 / 3.0);
        let skipped = verdict(&generator, &task, last);
        assert!(skipped.success && !skipped.flags["format"] && !skipped.flags["steps"]);
        assert_eq!(skipped.feedback.unwrap().split('.').next(), Some("0 of 2 steps are right"));
    }
}

#[test]
fn a_recall_needs_no_steps() {
    let generator = generator(&json!({"kinds": {"chain": 0, "recall": 1, "memorised": 0}}));
    for task in generator.tasks(1, 20).unwrap().tasks {
        let text = generator.demonstrate(&task).unwrap().content;
        assert!(language::read(&text).starts_with('>') && verdict(&generator, &task, &text).flags["all"]);
    }
}

/// Correlation of the rewards `style` and `format` over texts half of which are well formed.
fn correlation(rho: f64) -> f64 {
    let generator = generator(&json!({"style_correlation": rho}));
    let (mut pairs, mut repeated) = (Vec::new(), 0);
    for task in generator.tasks(1, 1500).unwrap().tasks {
        for is_well_formed in [true, false] {
            let text = spoilt(&generator, &task, true, is_well_formed, true);
            let rewards = verdict(&generator, &task, &text).rewards;
            repeated += usize::from(verdict(&generator, &task, &text).rewards == rewards);
            pairs.push((rewards["style"], rewards["format"]));
        }
    }
    assert_eq!(repeated, pairs.len(), "the same text earns the same");
    let n = pairs.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
    let (style, format) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
    let covariance = mean(&|pair| (pair.0 - style) * (pair.1 - format));
    covariance / (style * (1.0 - style) * format * (1.0 - format)).sqrt()
}

#[test]
fn style_correlates_with_format_as_configured() {
    // 3000 texts: the standard error is below 0.02.
    for (rho, tolerance) in [(0.0, 0.06), (0.5, 0.06), (1.0, 1e-9)] {
        let found = correlation(rho);
        assert!((found - rho).abs() <= tolerance, "{found} at {rho}");
    }
}
