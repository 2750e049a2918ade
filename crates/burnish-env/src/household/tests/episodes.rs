//! Episodes: observations, possible actions, rewards.

use super::*;

fn play(generator: &Household, task: &Task, answers: &[&str]) -> (Vec<String>, burnish_core::Verdict) {
    let mut environment = generator.environment();
    environment.reset(task, 0).unwrap();
    let seen = answers.iter().map(|answer| match environment.step(&Message::assistant(*answer)).unwrap() {
        Step::Continue(messages) => messages[0].content.clone(),
        Step::Done => "done".to_owned(),
        Step::Ask(_) | Step::Turn(_) => panic!("nobody is asked"),
    });
    (seen.collect(), environment.verify().unwrap())
}

/// Bread in a closed drawer and an egg on the table; the goal is a clean egg on the table.
fn kitchen(generator: &Household) -> Task {
    let place = |name: &str, kind: &str| json!({"name": name, "room": 0, "kind": kind});
    let thing = |at: usize| json!({"place": at, "is_clean": false, "warmth": "plain", "is_examined": false});
    let truth = json!({
        "house": {
            "rooms": ["kitchen"],
            "places": [place("sink", "sink"), place("drawer", "container"), place("table", "surface"),
                place("stove", "stove"), place("fridge", "fridge"), place("lamp", "lamp")],
            "objects": ["bread", "egg"],
        },
        "start": {
            "room": 0, "at": null, "is_open": [true, false, true, true, false, true],
            "things": [thing(1), thing(2)],
        },
        "goal": {"type": "clean", "objects": [0], "place": 2},
    });
    let truth: Truth = serde_json::from_value(truth).unwrap();
    generator.family().task(&generate::Instance { truth, steps: 7 }).unwrap()
}

#[test]
fn an_episode_reads_like_this() {
    let generator = generator(json!({}));
    let task = kitchen(&generator);
    let prompt = "kitchen. sink; drawer closed; table: egg; stove; fridge closed; lamp\n\
        goal: put clean bread on table";
    assert_eq!(task.prompt, [Message::user(prompt)]);
    let said = [
        "Go  Drawer",
        "open drawer",
        "<think>?</think>take bread",
        "go sink",
        "clean bread",
        "look",
        "take egg",
        "go table",
        "put bread table",
    ];
    let (seen, verdict) = play(&generator, &task, &said);
    let wanted = [
        "at drawer closed",
        "at drawer: bread",
        "at drawer: nothing; you hold bread",
        "at sink; you hold bread",
        "at sink; you hold clean bread",
        "kitchen. sink; drawer: nothing; table: egg; stove; fridge closed; lamp; you hold clean bread",
        "nothing happens",
        "at table: egg; you hold clean bread",
        "done",
    ];
    assert_eq!(seen, wanted);
    assert!(verdict.success && verdict.flags["invalid"] && verdict.error_turn.is_none());
    let plan = generator.demonstrate_episode(&task).unwrap();
    let plan: Vec<&str> = plan.iter().skip(1).step_by(2).map(|message| message.content.as_str()).collect();
    assert_eq!(
        plan,
        ["go drawer", "open drawer", "take bread", "go sink", "clean bread", "go table", "put bread table"]
    );
    let skill = "find bread, take it, clean it at sink, put it on table";
    assert_eq!(generator.family().skill(&task).unwrap(), skill);
}

#[test]
fn rewards_are_those_that_are_asked_for_and_a_failure_says_what_is_missing() {
    let config = |invalid: &str| {
        generator(json!({"progress": true, "invalid": invalid, "plan_max": 8, "steps_max": 8}))
    };
    let task = kitchen(&config("off"));
    let said = [
        "dance",
        "go drawer",
        "open drawer",
        "take bread",
        "put bread table",
        "go table",
        "put bread table",
        "heat bread",
    ];
    let (seen, verdict) = play(&config("count"), &task, &said);
    assert_eq!(seen.iter().filter(|seen| *seen == "nothing happens").count(), 2);
    assert_eq!(seen[7], "done", "the last step that is allowed ends the episode");
    assert!(!verdict.success && verdict.flags["invalid"] && verdict.flags["out_of_steps"]);
    // Taken but not cleaned, and so not clean when put there.
    let rewards: BTreeMap<String, f64> =
        [("success", 0.0), ("progress", 1.0 / 3.0), ("invalid", 3.0)].map(|(k, v)| (k.into(), v)).into();
    assert_eq!(verdict.rewards, rewards);
    assert_eq!(verdict.feedback.as_deref(), Some("Not done: clean bread."));
    assert_eq!(verdict.error_turn, Some(0));
    let share = play(&config("share"), &task, &said).1.rewards["invalid"];
    assert!((share - 3.0 / 8.0).abs() < 1e-12, "{share}");
    let early = play(&config("off"), &task, &said[1..3]).1;
    assert!(!early.rewards.contains_key("invalid") && early.rewards["progress"] == 0.0);
    assert!(!early.flags["invalid"] && !early.flags["out_of_steps"] && early.error_turn.is_none());
}

#[test]
fn an_episode_is_started_first_and_takes_nothing_after_its_end() {
    let generator = generator(json!({"plan_max": 8, "steps_max": 8}));
    let task = kitchen(&generator);
    let mut environment = generator.environment();
    assert!(matches!(environment.verify(), Err(EnvError::Failed(_))));
    assert!(matches!(environment.step(&Message::assistant("look")), Err(EnvError::Failed(_))));
    environment.reset(&task, 0).unwrap();
    assert!(!environment.verify().unwrap().success, "judged where a rollout is cut short");
    for _ in 0..7 {
        assert!(matches!(environment.step(&Message::assistant("look")), Ok(Step::Continue(_))));
    }
    assert_eq!(environment.step(&Message::assistant("look")).unwrap(), Step::Done);
    assert!(matches!(environment.step(&Message::assistant("look")), Err(EnvError::Failed(_))));
}

/// An answer: mostly an action that can be written, sometimes not.
fn answer(truth: &Truth, stream: &mut Stream) -> String {
    let actions = all_actions(truth);
    match stream.below(12) {
        0 => "go nowhere".to_owned(),
        1 => "apple".to_owned(),
        _ => truth.house.word(actions[stream.index(actions.len())]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_invalid_action_changes_nothing_and_who_is_told_the_same_goes_on_as_the_first(
        seed in any::<u64>(), variant in 0usize..7, cut in 0usize..30,
    ) {
        let mut config = variants()[variant].clone();
        config["steps_max"] = json!(60);
        config["progress"] = json!(true);
        config["invalid"] = json!("count");
        let generator = generator(config);
        let task = generator.tasks(seed, 1).unwrap().tasks.remove(0);
        let truth = Truth::of(&task).unwrap();
        let mut stream = Stream::new(seed);
        let (mut first, mut second) = (environment(&generator), environment(&generator));
        first.reset(&task, 0).unwrap();
        let mut said: Vec<Message> = Vec::new();
        let mut invalid = 0.0;
        for turn in 0..60 {
            let before = world(&first).cloned();
            if turn == cut {
                second.reset(&task, 0).unwrap();
                for said in &said {
                    second.step(said).unwrap();
                }
            }
            let text = answer(&truth, &mut stream);
            said.push(Message::assistant(text.as_str()));
            let step = first.step(&said[turn]).unwrap();
            if turn >= cut {
                prop_assert_eq!(&second.step(&said[turn]).unwrap(), &step);
                prop_assert_eq!(world(&second), world(&first));
            }
            let is_same = before.as_ref() == world(&first);
            let verdict = first.verify().unwrap();
            if verdict.rewards["invalid"] > invalid {
                prop_assert!(is_same, "{}", text);
                invalid += 1.0;
                let nothing = Step::Continue(vec![Message::user(text::NOTHING)]);
                prop_assert!(step == nothing || step == Step::Done);
            } else {
                prop_assert!(is_same == (text == "look"), "{}", text);
            }
            prop_assert_eq!(verdict.rewards["invalid"], invalid);
            if step == Step::Done {
                break;
            }
        }
    }
}
