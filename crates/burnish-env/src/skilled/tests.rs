//! Episodes with a library, played by programs.

use std::collections::BTreeSet;

use super::*;
use burnish_core::{Ending, Episode, Record, TaskId, Verdict};
use serde_json::{Value, json};

fn of(config: Value) -> SkilledTasks {
    SkilledTasks::new(settings::read(&config).unwrap()).unwrap()
}

/// Plays answers; returns the episode and everything that was said.
fn play(tasks: &SkilledTasks, task: &Task, answers: &[String]) -> (Episode, Vec<String>) {
    let mut environment = tasks.environment();
    environment.reset(task, 0).unwrap();
    let (mut heard, mut said) = (Vec::new(), Vec::new());
    for answer in answers {
        let message = Message::assistant(answer);
        said.push(message.clone());
        let is_recorded = environment.stepping().is_some();
        let step = environment.step(&message).unwrap();
        if is_recorded {
            environment.stepped(&message, &step);
        }
        match step {
            Step::Continue(messages) => heard.extend(messages.into_iter().map(|message| message.content)),
            _ => break,
        }
    }
    let verdict: Verdict = environment.verify().unwrap();
    let episode = Episode {
        task: task.id.clone(),
        rollout: 0,
        traces: Vec::new(),
        partners: Vec::new(),
        verdict,
        ending: Ending::Completed,
        answers: said,
        record: Record::default(),
    };
    (episode, heard)
}

fn demonstrated(tasks: &SkilledTasks, task: &Task) -> Vec<String> {
    let episode = tasks.demonstrate_episode(task).unwrap();
    let said = episode[task.prompt.len()..].iter().filter(|it| it.role == burnish_core::Role::Assistant);
    said.map(|message| message.content.clone()).collect()
}

fn outcome(tasks: &SkilledTasks, episode: &Episode) -> Outcome {
    Outcome::of(episode, &tasks.library(), &tasks.rules(), tasks.selects())
}

#[test]
fn a_demonstrated_episode_asks_orders_acts_and_writes_and_succeeds() {
    let tasks = of(json!({"start": 30}));
    assert!(tasks.library().skills().len() > 5);
    let mut right = 0;
    for task in &tasks.tasks(3, 12).unwrap().tasks {
        let answers = demonstrated(&tasks, task);
        let (episode, heard) = play(&tasks, task, &answers);
        assert!(episode.verdict.success && episode.verdict.flags["wrote"] && episode.verdict.flags["given"]);
        let outcome = outcome(&tasks, &episode);
        let (first, last) = (&outcome.segments[..2], outcome.segments.last().unwrap());
        assert_eq!((first, *last), (&[Segment::Asking, Segment::Ordering][..], Segment::Writing));
        assert!(outcome.segments[2..answers.len() - 1].iter().all(|segment| *segment == Segment::Acting));
        assert_eq!(outcome.given.len(), 3);
        // All skills have the same utility at first: no order is better than another, and success is worth what is above it.
        assert_eq!((outcome.rewards[1], outcome.rewards[answers.len() - 1]), (None, Some(0.5)));
        let (description, text) = outcome.written.unwrap();
        assert!(!text.is_empty());
        // What is said before acting is the skill that was put first.
        let given = tasks.library();
        let given = given.retrieve(&description, 3, 0.0);
        let order = outcome::order_of(&answers[1], 3).unwrap();
        assert_eq!(heard[1], format!("{}\n{ACT}", given[order[0]].text));
        right += usize::from(given[order[0]].description == description);
    }
    assert!(right >= 10, "{right}");
}

#[test]
fn an_empty_library_gives_nothing_and_nothing_is_ordered() {
    let tasks = of(json!({}));
    let task = &tasks.tasks(4, 1).unwrap().tasks[0];
    let (episode, heard) = play(&tasks, task, &["anything".to_owned(), "look".to_owned()]);
    assert_eq!(heard[0], ACT);
    let outcome = outcome(&tasks, &episode);
    assert_eq!(outcome.segments, [Segment::Asking, Segment::Acting]);
    assert_eq!((outcome.given, outcome.written, outcome.rewards), (Vec::new(), None, vec![None, None]));
    assert!(!episode.verdict.flags["wrote"] && !episode.verdict.flags["given"]);
}

#[test]
fn without_candidates_it_is_the_inner_environment() {
    let plain = crate::build("household", &json!({})).unwrap();
    let tasks = of(json!({"candidates": 0}));
    let demonstrations = plain.demonstrations().unwrap();
    let inner = plain.tasks(5, 6).unwrap().tasks;
    for (task, inner) in tasks.tasks(5, 6).unwrap().tasks.iter().zip(&inner) {
        let shown = demonstrations.demonstrate_episode(inner).unwrap();
        let own = tasks.demonstrate_episode(task).unwrap();
        assert_eq!(own[1..], shown[1..]);
        let (episode, _) = play(&tasks, task, &demonstrated(&tasks, task));
        let outcome = outcome(&tasks, &episode);
        assert!(
            outcome.segments.iter().all(|segment| *segment == Segment::Acting) && episode.verdict.success
        );
    }
}

#[test]
fn the_library_learns_from_outcomes_and_only_successes_are_kept() {
    let tasks = of(json!({"start": 30, "rate": 0.5}));
    let task = &tasks.tasks(6, 1).unwrap().tasks[0];
    let answers = demonstrated(&tasks, task);
    let (won, _) = play(&tasks, task, &answers);
    // The first action again and again, until the steps are used up; then a skill.
    let lost = [&answers[..2], &vec![answers[2].clone(); 12][..], &["bad: do nothing".to_owned()]].concat();
    let (lost, _) = play(&tasks, task, &lost);
    assert!(won.verdict.success && !lost.verdict.success);
    let (won, lost) = (outcome(&tasks, &won), outcome(&tasks, &lost));
    assert_eq!(
        (lost.succeeded, lost.written.clone()),
        (Some(false), Some(("bad".into(), "do nothing".into())))
    );
    assert_eq!(lost.rewards.last(), Some(&Some(-0.5)));

    let mut library = (*tasks.library()).clone();
    let before = library.skills().len();
    let novel = Outcome { written: Some(("new".into(), "a new one".into())), ..won.clone() };
    assert_eq!(library.see(&[lost.clone(), novel], &tasks.rules()), 1);
    assert_eq!(library.skills().len(), before + 1);
    // One failure, then one success, at a rate of a half: 0.5 -> 0.25 -> 0.625.
    for id in &won.given {
        let skill = library.skill(*id).unwrap();
        assert_eq!((skill.utility, skill.uses), (0.625, 2));
    }
    assert!(library.skills().iter().all(|skill| skill.text != "do nothing"));
    // What is shared is what later episodes read, and sharing changes no other environment.
    let other = of(json!({"start": 30}));
    tasks.share(Arc::new(library.clone()), true);
    assert_eq!((*tasks.library()).clone(), library);
    assert_eq!(other.library().skills().len(), before);
    // Skills now differ in worth, so orders do.
    let (again, _) = play(&tasks, task, &answers);
    let reward = outcome(&tasks, &again).rewards[1];
    assert!(reward.is_none_or(|reward| (0.0..=1.0).contains(&reward)));
}

#[test]
fn the_library_begins_with_skills_of_tasks_that_no_run_trains_on_or_evaluates() {
    let tasks = of(json!({"start": 40}));
    let first = tasks.first_tasks().unwrap();
    assert_eq!(first.len(), 40);
    let skills = tasks.inner.skills().unwrap();
    let texts: BTreeSet<String> = first.iter().filter_map(|task| skills.skill(task)).collect();
    assert!(tasks.library().skills().iter().all(|skill| texts.contains(&skill.text)));
    let first: BTreeSet<TaskId> = first.into_iter().map(|task| task.id).collect();
    for run in 0..4 {
        // Evaluations take their seed as it is, and a run trains on tasks of a seed that it makes of its own.
        for seed in [run, Address::new(run, Purpose::Task).seed()] {
            for task in &tasks.tasks(seed, 40).unwrap().tasks {
                let played = inner(ID, task).unwrap().id;
                assert!(!first.contains(&played), "{played} of seed {seed}");
            }
        }
    }
}

#[test]
fn only_what_training_shows_it_fills_the_library() {
    let tasks = of(json!({"start": 30}));
    let begun = tasks.library();
    let demonstrate = |seed: u64| -> Vec<Outcome> {
        let made = tasks.tasks(seed, 12).unwrap().tasks;
        let played = made.iter().map(|task| play(&tasks, task, &demonstrated(&tasks, task)).0);
        played.map(|episode| outcome(&tasks, &episode)).collect()
    };
    let (trained, evaluated) = (demonstrate(8), demonstrate(9));
    let successes = |outcomes: &[Outcome]| -> BTreeSet<(String, String)> {
        assert!(outcomes.iter().all(|outcome| outcome.succeeded == Some(true)));
        outcomes.iter().filter_map(|outcome| outcome.written.clone()).collect()
    };
    // Episodes wrote skills down and succeeded, but whoever plays only reads.
    assert_eq!(*tasks.library(), *begun);
    let mut library = (*begun).clone();
    library.see(&trained, &tasks.rules());
    let held = |library: &Library| -> BTreeSet<(String, String)> {
        library.skills().iter().map(|skill| (skill.description.clone(), skill.text.clone())).collect()
    };
    let (before, after) = (held(&begun), held(&library));
    assert_eq!(after, &before | &successes(&trained));
    // Two tasks may have the same skill, but not all of those that were evaluated.
    assert!(successes(&evaluated).iter().any(|written| !after.contains(written)));
}

#[test]
fn what_is_no_order_earns_nothing_and_the_first_found_is_taken() {
    let tasks = of(json!({"start": 30, "bonus": 0.0}));
    let mut library = (*tasks.library()).clone();
    let first = library.retrieve("clean", 3, 0.0)[0].id;
    library.learn(&[first], true, 0.5);
    tasks.share(Arc::new(library.clone()), false);
    let task = &tasks.tasks(7, 1).unwrap().tasks[0];
    let play = |order: &str| play(&tasks, task, &["clean".to_owned(), order.to_owned(), "look".to_owned()]);
    let ((bad, heard), (good, _), (worse, _)) = (play("whichever"), play("1 2 3"), play("3 2 1"));
    assert_eq!(heard[1], format!("{}\n{ACT}", library.skill(first).unwrap().text));
    assert!(bad.verdict.flags["malformed_skill"] && !good.verdict.flags["malformed_skill"]);
    let reward = |episode: &Episode| outcome(&tasks, episode).rewards[1].unwrap();
    assert_eq!((reward(&bad), reward(&good)), (0.0, 1.0));
    assert!(reward(&worse) < 1.0 && reward(&worse) > 0.0);
}

#[test]
fn what_cannot_be_is_refused() {
    let problem = |config: Value| {
        let read = settings::read::<SkilledConfig>(&config);
        read.and_then(SkilledTasks::new).err().unwrap().to_string()
    };
    assert!(problem(json!({"of": {"id": "skilled"}})).starts_with("of.id: a library within a library"));
    assert!(
        problem(json!({"of": {"id": "countdown"}, "start": 3}))
            .starts_with("start: `countdown` knows no skills")
    );
    assert!(problem(json!({"of": {"id": "nothing"}})).contains("nothing"));
    assert!(problem(json!({"candidates": 12})).starts_with("candidates: 12 is out of range"));
}
