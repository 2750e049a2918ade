//! Whole episodes of scripted clarifiers.

use super::*;
use crate::Step;
use burnish_core::Verdict;

fn tasks(config: &ClarifyConfig, seed: u64, count: usize) -> (ClarifyTasks, Vec<Task>) {
    let generator = ClarifyTasks::new(config.clone()).unwrap();
    let set = generator.tasks(seed, count).unwrap();
    (generator, set.tasks)
}

pub(super) fn play(
    generator: &ClarifyTasks,
    task: &Task,
    answers: &[impl AsRef<str>],
) -> (Verdict, Vec<String>) {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    let mut heard = Vec::new();
    for answer in answers {
        match environment.step(&Message::assistant(answer.as_ref())).unwrap() {
            Step::Continue(said) => heard.extend(said.into_iter().map(|message| message.content)),
            _ => break,
        }
    }
    (environment.verify().unwrap(), heard)
}

/// Everything is reported.
fn full() -> ClarifyConfig {
    ClarifyConfig { rewards: Component::ALL.to_vec(), questions: 5, ..ClarifyConfig::default() }
}

#[test]
fn no_question_is_worth_nothing_and_so_is_one_that_is_repeated() {
    let (generator, tasks) = tasks(&full(), 3, 60);
    for task in &tasks {
        let (verdict, _) = play(&generator, task, &["act"]);
        assert_eq!((verdict.rewards["information"], verdict.rewards["questions"]), (0.0, 0.0));
        let (once, _) = play(&generator, task, &["ask item", "act"]);
        let (twice, heard) = play(&generator, task, &["ask item", "ask item", "act"]);
        assert_eq!(heard[0], heard[1]);
        assert!((once.rewards["information"] - twice.rewards["information"]).abs() < 1e-12);
        assert!(twice.flags["repeated"] && twice.rewards["questions"] == -2.0);
        let (malformed, _) = play(&generator, task, &["What colour do you like?"]);
        assert!(malformed.flags["malformed"] && malformed.rewards["information"] == 0.0);
    }
}

#[test]
fn the_customer_says_the_asked_value_and_nothing_else() {
    let (generator, tasks) = tasks(&full(), 4, 100);
    let mut unknown = 0;
    for task in &tasks {
        let truth = Truth::of(task).unwrap();
        for &slot in truth.records.slots() {
            let (_, heard) = play(&generator, task, &[&format!("ask {}", slot.name())]);
            let value = truth.goal.value(slot).unwrap_or("none");
            match truth.unknown.contains(&slot) {
                true => {
                    unknown += 1;
                    assert_eq!(heard, ["I don't know"]);
                }
                false => assert_eq!(heard, [value]),
            }
        }
        // The prompt says what was said, and not the goal.
        let last = task.prompt.last().unwrap();
        let says = last.content.lines().last().unwrap();
        let unsaid =
            Slot::ALL.into_iter().filter(|slot| !truth.said.iter().any(|known| known.slot() == *slot));
        for value in unsaid.filter_map(|slot| truth.goal.value(slot)) {
            assert!(!says.split(' ').any(|word| word == value), "{says}: {value}");
        }
    }
    assert!(unknown > 5, "{unknown}");
}

#[test]
fn the_budget_of_questions_ends_an_episode() {
    let config = ClarifyConfig { questions: 1, ..full() };
    let (generator, tasks) = tasks(&config, 5, 5);
    let mut environment = generator.environment();
    environment.reset(&tasks[0], 0).unwrap();
    assert_eq!(environment.step(&Message::assistant("ask order")).unwrap(), Step::Done);
    assert_eq!(environment.verify().unwrap().rewards["questions"], -1.0);
}

#[test]
fn the_informed_clarifier_learns_all_there_is_to_learn_and_a_random_one_asks_for_less() {
    let known = ClarifyConfig { unknown: 0.0, ..full() };
    let mean = |demonstrations: Asker| {
        let (generator, tasks) = tasks(&ClarifyConfig { demonstrations, ..known.clone() }, 6, 200);
        let mut sums = [0.0; 3];
        for task in &tasks {
            let episode = generator.demonstrate_episode(task).unwrap();
            let said: Vec<&str> = episode[task.prompt.len()..]
                .iter()
                .filter(|message| message.role == burnish_core::Role::Assistant)
                .map(|message| message.content.as_str())
                .collect();
            let (verdict, _) = play(&generator, task, &said);
            if demonstrations == Asker::Informed {
                assert!(verdict.success && verdict.flags["certain"] && !verdict.flags["repeated"]);
            }
            for (sum, name) in sums.iter_mut().zip(["information", "success", "questions"]) {
                *sum += verdict.rewards[name] / tasks.len() as f64;
            }
        }
        sums
    };
    let ([informed, right, asked], [random, sometimes, more]) = (mean(Asker::Informed), mean(Asker::Random));
    assert!((right - 1.0).abs() < 1e-9);
    assert!(informed > random + 0.2 && sometimes < 0.9, "{informed} {random} {sometimes}");
    assert!(asked > -3.0 && more < -0.5, "{asked} {more}");
}

#[test]
fn steps_of_longer_conversations_begin_with_what_was_asked() {
    let config = ClarifyConfig { asked: Span { min: 1, max: 2 }, prompt: PromptStyle::Short, ..full() };
    let (generator, tasks) = tasks(&config, 7, 50);
    for task in &tasks {
        let truth = Truth::of(task).unwrap();
        assert!((1..=2).contains(&truth.asked.len()));
        assert_eq!(task.prompt.len(), 1 + 2 * truth.asked.len());
        let again = format!("ask {}", truth.asked[0].slot().name());
        let (verdict, heard) = play(&generator, task, &[&again, "act"]);
        assert_eq!(heard[0], truth.asked[0].words());
        assert!(verdict.flags["repeated"] && verdict.rewards["information"].abs() < 1e-12);
    }
}

#[test]
fn contradictions_are_named() {
    let problem = |config: ClarifyConfig| ClarifyTasks::new(config).unwrap_err().to_string();
    let base = ClarifyConfig::default();
    let span = ClarifyConfig { items: Span { min: 3, max: 2 }, ..base.clone() };
    assert_eq!(problem(span), "items.max: 2 is below items.min, which is 3; nearest: 3");
    assert!(
        problem(ClarifyConfig { rewards: Vec::new(), ..base.clone() }).starts_with("rewards: no component")
    );
    assert!(problem(ClarifyConfig { recency: 0.5, ..base }).starts_with("recency: 0.5 is out of range"));
}

#[test]
fn a_reader_says_the_goal_and_a_model_of_goals_reads_what_a_reader_would() {
    let config = ClarifyConfig {
        role: Role::Reader,
        rewards: vec![Component::Success],
        asked: Span { min: 0, max: 4 },
        ..ClarifyConfig::default()
    };
    let (reader, read) = tasks(&config, 5, 40);
    assert!(reader.goals().is_none());
    for task in &read {
        let right = reader.demonstrate(task).unwrap();
        assert_eq!(right.content, Truth::of(task).unwrap().goal());
        let (verdict, _) = play(&reader, task, &[&right.content]);
        assert!(verdict.success && verdict.rewards["success"] == 1.0);
        let (verdict, _) = play(&reader, task, &["cancel"]);
        assert!(!verdict.success && verdict.rewards["success"] == 0.0);
    }

    // An answer counts that the policy itself did not read any more: that to its last question.
    let (asker, tasks) = tasks(&ClarifyConfig { questions: 2, ..ClarifyConfig::default() }, 5, 40);
    let goals = asker.goals().unwrap();
    let said = |texts: &[&str]| texts.iter().map(|text| Message::assistant(*text)).collect::<Vec<_>>();
    for task in &tasks {
        let truth = Truth::of(task).unwrap();
        let before = goals.wanted(task, &[]).unwrap();
        assert_eq!(before.goal, truth.goal());
        assert_eq!(before.known, format!("{}\nwants", task.prompt.last().unwrap().content));
        assert_eq!(goals.wanted(task, &said(&["act"])).unwrap(), before);
        assert_eq!(goals.wanted(task, &said(&["What?", "ask item"])).unwrap(), before);
        let after = goals.wanted(task, &said(&["ask item", "ask order", "ask intent"])).unwrap();
        let is_new = |slot: &Slot| truth.said.iter().all(|known| known.slot() != *slot);
        let told = [Slot::Item, Slot::Order].into_iter().filter(is_new);
        let told: String = told
            .map(|slot| {
                let answer = Known::answer(&truth.goal, slot, &truth.unknown);
                format!("\n{} {}", slot.name(), answer.words())
            })
            .collect();
        assert_eq!(after.known, format!("{}{told}\nwants", task.prompt.last().unwrap().content));
        // What is asked again, or was said before, tells a model nothing.
        let twice = goals.wanted(task, &said(&["ask item", "ask item"])).unwrap();
        assert_eq!(twice, goals.wanted(task, &said(&["ask item"])).unwrap());
        for known in &truth.said {
            let again = goals.wanted(task, &said(&[&format!("ask {}", known.slot().name())])).unwrap();
            assert_eq!(again, before);
        }
    }
}

#[test]
fn a_reader_is_paid_for_success_alone() {
    let error =
        ClarifyTasks::new(ClarifyConfig { role: Role::Reader, ..ClarifyConfig::default() }).unwrap_err();
    assert!(error.to_string().contains("rewards"), "{error}");
}
